"""Patterns over words, and how they are found in a text.

A pattern is a row of elements: ``{material} ... {tell} {not}``. An element is one word of a class, and classes are written
once. All words of all patterns stand in one Aho-Corasick automaton; a trie over the classes follows which patterns have
begun. So a text is read once, whatever the number of patterns, and the product of the classes is never written out.

``parse`` reads a pattern, ``compile_patterns`` makes the matcher, ``search`` finds the patterns in a folded text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from custom_metrics.folding import is_boundary, is_word

__all__ = ["Found", "Hits", "Matcher", "Pattern", "Script", "compile_patterns", "parse", "search", "words_of"]

Hits = dict[str, list[tuple[int, int]]]
"""Kind of phrase to the (start, end) of those found, in order of their ends."""

JOINED, SPACE, GAP = "", " ", "..."
_CLAUSE_STARTS = frozenset(".,:;!?¿¡\"'([-،、。؛।\n")
_KEPT = frozenset(("bare", "openers", "except"))  # an exception does not spare these

_TOKENS = re.compile(
    r"(?P<gap>\s*\.\.\.\s*)|(?P<space>\s+)|\{(?P<parts>[^{}]*)\}(?P<maybe>\?)?"
    r"|\((?P<words>[^()]*)\)(?P<perhaps>\?)?|(?P<text>(?:(?!\.\.\.)[^\s{}()])+)"
)


class Word(NamedTuple):
    """A literal, which of its ends a word may go on beyond, and the parts of the table that it comes from."""

    literal: str
    open_left: bool
    open_right: bool
    sources: tuple[tuple[str, str], ...] = ()
    """Name of a part, and the item of it as the table writes it."""


class Element(NamedTuple):
    """One place of a pattern: what stands between it and the place before, and the words that fit."""

    joint: str  # JOINED, SPACE or GAP
    words: frozenset[Word]


class Pattern(NamedTuple):
    """A row of elements, with the place in the table that it was written at."""

    kind: str
    written: str
    elements: tuple[Element, ...]
    starts_clause: bool


Row = tuple[Element, ...]
Fold = Callable[[str], str]


def parse(
    kind: str, written: str, parts: Mapping[str, Sequence[str]], folded: Fold, read: dict[str, list[Row]]
) -> list[Pattern]:
    """Read a pattern; optional elements and parts that hold patterns make several.

    Args:
        kind: what it stands for in the table.
        written: the pattern.
        parts: the table's parts, by name.
        folded: folds a word.
        read: parts that were read already, filled on the way.

    Raises:
        ValueError: an unknown part, a part that contains itself, a bracket that is not closed, or an empty pattern.
    """
    starts_clause = written.startswith("^")
    rows = _Reader(parts, folded, read).rows(written[starts_clause:])
    if not rows:
        raise ValueError(f"the phrase {written!r} of {kind!r} is empty")
    return [Pattern(kind, written, row, starts_clause) for row in rows]


@dataclass
class _Reader:
    """Reads what is written with one table's parts."""

    parts: Mapping[str, Sequence[str]]
    folded: Fold
    read: dict[str, list[Row]]
    within: tuple[str, ...] = ()

    def rows(self, written: str) -> list[Row]:
        rows: list[Row] = [()]
        for joint, alternatives, optional in self._pieces(written):
            grown = [_joined(row, joint, alternative) for row in rows for alternative in alternatives]
            # an element that is left out leaves the wider of the joints around it
            rows = grown + [(*row, Element(joint, frozenset())) for row in rows if optional]
        return list(dict.fromkeys(merged for row in rows if (merged := _merged(row))))

    def _pieces(self, written: str) -> Iterator[tuple[str, list[Row], bool]]:
        joint, at = JOINED, 0
        for token in _TOKENS.finditer(written):
            if token.start() != at:
                break
            at = token.end()
            if token["gap"] or token["space"]:
                joint = GAP if token["gap"] else SPACE
                continue
            if token["parts"] is not None:
                rows = [row for name in token["parts"].split("|") for row in self._part(name.strip())]
            elif token["words"] is not None:
                rows = [row for word in token["words"].split("|") for row in self.rows(word.strip())]
            elif (word := _word(token["text"], self.folded)) is not None:
                rows = [(Element(JOINED, frozenset((word,))),)]
            else:
                continue
            yield joint, _classed(rows), bool(token["maybe"] or token["perhaps"])
            joint = JOINED
        if at != len(written):
            raise ValueError(f"{written!r} has a bracket that is not closed, or not opened")

    def _part(self, name: str) -> list[Row]:
        if name not in self.read:
            if name in self.within:
                raise ValueError(f"the part {name!r} contains itself")
            if name not in self.parts:
                raise ValueError(f"no part is named {name!r}; there are {', '.join(sorted(self.parts))}")
            inner = _Reader(self.parts, self.folded, self.read, (*self.within, name))
            self.read[name] = _classed(
                _sourced(row, (name, written)) for written in self.parts[name] for row in inner.rows(written)
            )
        return self.read[name]


def _sourced(row: Row, source: tuple[str, str]) -> Row:
    return tuple(
        Element(joint, frozenset(word._replace(sources=(*word.sources, source)) for word in words))
        for joint, words in row
    )


def _joined(row: Row, joint: str, alternative: Row) -> Row:
    return (*row, alternative[0]._replace(joint=joint), *alternative[1:])


_WIDTH = {JOINED: 0, SPACE: 1, GAP: 2}


def _merged(row: Row) -> Row:
    """Drop the elements that were left out, and merge neighbours that are single words into one literal."""
    kept: list[Element] = []
    joint = JOINED
    for element in row:
        joint = max(joint, element.joint, key=_WIDTH.__getitem__)
        if not element.words:
            continue
        if kept and joint != GAP and len(element.words) == len(kept[-1].words) == 1:
            ((before, word),) = zip(kept[-1].words, element.words, strict=True)
            if not before.open_right and not word.open_left:
                literal = before.literal + joint + word.literal
                sources = before.sources + word.sources
                merged = Word(literal, before.open_left, word.open_right, sources)
                kept[-1] = Element(kept[-1].joint, frozenset((merged,)))
                joint = JOINED
                continue
        kept.append(Element(joint if kept else JOINED, element.words))
        joint = JOINED
    return tuple(kept)


def _classed(rows: Iterable[Row]) -> list[Row]:
    """Alternatives of one element each become one class."""
    words: set[Word] = set()
    longer: list[Row] = []
    for row in rows:
        if len(row) == 1:
            words |= row[0].words
        else:
            longer.append(row)
    return [*longer, (Element(JOINED, frozenset(words)),)] if words else longer


def _word(text: str, folded: Fold) -> Word | None:
    literal = folded(text.strip("*")).strip()
    return Word(literal, text.startswith("*"), text.endswith("*")) if literal else None


class _Step(NamedTuple):
    """How one word moves on in the trie."""

    joint: str
    gap: int  # characters that a gap before it may have
    bound_left: bool  # a word must begin where it begins
    bound_right: bool
    grows_left: bool  # the match goes on to the end of its word
    grows_right: bool
    starts_clause: bool
    word: Word
    node: _Node


@dataclass(slots=True, eq=False)
class _Node:
    """Where patterns stand that have the same elements so far."""

    ends: list[Pattern] = field(default_factory=list)
    kinds: tuple[str, ...] = ()
    steps: dict[tuple[Any, ...], _Node] = field(default_factory=dict)


class Found(NamedTuple):
    """Where a pattern, or its first elements, stand in a text; the words are linked backwards."""

    start: int
    end: int
    word: Word
    before: Found | None


@dataclass(slots=True)
class _Entry:
    """What the automaton knows of a literal."""

    literal: str
    whole: bool = True  # no pattern wants it as a part of a word
    first: list[_Step] = field(default_factory=list)
    follow: dict[_Node, list[_Step]] = field(default_factory=dict)


Matcher = Any
"""A compiled set of patterns, for :func:`search`."""


def words_of(found: Found | None) -> Iterator[tuple[Word, int, int]]:
    """The words that a pattern was found by, the last one first, and where each stands."""
    while found is not None:
        yield found.word, found.end - len(found.word.literal), found.end
        found = found.before


class Script(NamedTuple):
    """How a table's language is written."""

    spaces: bool  # words stand between spaces
    gap: int  # characters that " ... " may stand for


def compile_patterns(patterns: Iterable[tuple[Pattern, Script]]) -> Matcher:
    """Make the matcher of patterns, each with the script of its table."""
    import ahocorasick

    root = _Node()
    entries: dict[str, _Entry] = {}
    for pattern, script in patterns:
        node = root
        for place, element in enumerate(pattern.elements):
            joined = place + 1 < len(pattern.elements) and pattern.elements[place + 1].joint == JOINED
            key = (element, joined, pattern.starts_clause and not place, script)
            after = node.steps.get(key)
            if after is None:
                after = node.steps[key] = _Node()
                for word in element.words:
                    entry = entries.get(word.literal)
                    if entry is None:
                        entry = entries[word.literal] = _Entry(word.literal)
                    step = _step(word, key, node is root, after)
                    entry.whole = entry.whole and step.bound_left and step.bound_right
                    if node is root:
                        entry.first.append(step)
                    else:
                        entry.follow.setdefault(node, []).append(step)
            node = after
        if pattern not in node.ends:
            node.ends.append(pattern)
            node.kinds = tuple(dict.fromkeys((*node.kinds, pattern.kind)))
    automaton = ahocorasick.Automaton()
    for literal, entry in entries.items():
        automaton.add_word(literal, entry)
    automaton.make_automaton()
    return automaton


def _step(word: Word, key: tuple[Element, bool, bool, Script], first: bool, node: _Node) -> _Step:
    element, joined_behind, starts_clause, script = key
    free_left = word.open_left and script.spaces
    free_right = word.open_right and script.spaces
    joined_before = element.joint == JOINED and not first
    return _Step(
        element.joint,
        script.gap,
        script.spaces and not free_left and not joined_before,
        script.spaces and not free_right and not joined_behind,
        free_left and not joined_before,
        free_right and not joined_behind,
        starts_clause,
        word,
        node,
    )


def search(text: str, matcher: Matcher, trace: list[tuple[Pattern, Found]] | None = None) -> Hits:
    """The patterns in a folded text.

    Args:
        trace: filled with every pattern found and the words it was found by, for explanations.
    """
    hits: Hits = {}
    active: dict[_Node, list[Found]] = {}
    size = len(text)
    for last, entry in matcher.iter(text):
        literal = entry.literal
        end = last + 1
        start = end - len(literal)
        left = start == 0 or text[start - 1] == " " or is_boundary(text[start - 1], literal[0])
        if entry.whole and not left:
            continue
        right = end == size or text[end] == " " or is_boundary(text[end], literal[-1])
        if entry.whole and not right:
            continue
        reached: list[tuple[_Node, Found]] = []
        for step in entry.first:
            if (left or not step.bound_left) and (right or not step.bound_right):
                if step.starts_clause and not _at_clause_start(text, start, hits):
                    continue
                begin = start if left or not step.grows_left else _word_start(text, start)
                stop = end if right or not step.grows_right else _word_end(text, end)
                reached.append((step.node, Found(begin, stop, step.word, None)))
        if active and entry.follow:
            for node in active if len(active) < len(entry.follow) else entry.follow:
                if node in active and node in entry.follow:
                    for step in entry.follow[node]:
                        if (left or not step.bound_left) and (right or not step.bound_right):
                            begin = start if left or not step.grows_left else _word_start(text, start)
                            before = _before(active[node], step, text, begin)
                            if before is not None:
                                stop = end if right or not step.grows_right else _word_end(text, end)
                                reached.append((step.node, Found(before.start, stop, step.word, before)))
        for node, found in reached:
            for kind in node.kinds:
                hits.setdefault(kind, []).append((found.start, found.end))
            if trace is not None:
                trace += [(pattern, found) for pattern in node.ends]
            if node.steps:
                active.setdefault(node, []).append(found)
    if "except" in hits:
        _spare(hits)
    return hits


def _before(founds: list[Found], step: _Step, text: str, start: int) -> Found | None:
    """The last of the places reached from which a word at `start` goes on."""
    gap = step.gap if step.joint == GAP else len(step.joint)
    for found in reversed(founds):
        between = start - found.end
        if between > gap + _LONGEST:
            return None
        if step.joint == GAP:
            if 0 <= between <= gap:
                return found
        elif between == gap and (not gap or text[found.end] == " "):
            return found
    return None


_LONGEST = 40  # characters that an open end of a word may have; so no text takes more than linear time


def _word_end(text: str, end: int) -> int:
    for at in range(end, min(len(text), end + _LONGEST)):
        if not is_word(text[at]):
            return at
    return min(len(text), end + _LONGEST)


def _word_start(text: str, start: int) -> int:
    for at in range(start, max(0, start - _LONGEST), -1):
        if not is_word(text[at - 1]):
            return at
    return max(0, start - _LONGEST)


def _at_clause_start(text: str, start: int, hits: Hits) -> bool:
    """Whether a clause starts there: behind a mark, or behind an opener."""
    end = start
    while end and text[end - 1] == " ":
        end -= 1
    if not end or text[end - 1] in _CLAUSE_STARTS:
        return True
    return any(stop == end for _, stop in hits.get("openers", ()))


def _spare(hits: Hits) -> None:
    """Drop what lies within an exception."""
    spared = hits["except"]
    for kind in list(hits):
        if kind not in _KEPT:
            kept = [hit for hit in hits[kind] if not any(a <= hit[0] and hit[1] <= b for a, b in spared)]
            if kept:
                hits[kind] = kept
            else:
                del hits[kind]
