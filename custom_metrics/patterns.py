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
from string import ascii_lowercase
from typing import Any, NamedTuple

from custom_metrics.folding import is_boundary, is_word

__all__ = ["Found", "Hits", "Matcher", "Pattern", "Place", "Script", "parse", "search", "sources"]

Hits = dict[str, list[tuple[int, int]]]
"""Kind of phrase to the (start, end) of those found, in order of their ends."""

JOINED, SPACE, GAP = "", " ", "..."
_CLAUSE_STARTS = frozenset(".,:;!?¿¡\"'([-،、。؛।\n")
_LETTERS = frozenset(ascii_lowercase)  # no word ends beside one of these
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


class Script(NamedTuple):
    """How a table's language is written."""

    spaces: bool  # words stand between spaces
    gap: int  # characters that " ... " may stand for


class _Edge(NamedTuple):
    """What leads from one node of the trie to the next: an element, and how it stands to those around it."""

    element: Element
    first: bool
    joined_behind: bool
    starts_clause: bool
    script: Script


@dataclass(slots=True, eq=False)
class _Node:
    """Where all patterns stand that end with the same elements."""

    begun: list[Pattern] = field(default_factory=list)
    """Patterns that have no element before."""
    steps: dict[_Edge, _Node] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _State:
    """The nodes that one place of a text stands at, and what stands between it and the word before."""

    nodes: tuple[_Node, ...]
    joint: str
    gap: int
    starts_clause: bool
    grows_left: bool  # the word that led here goes on to its beginning
    grows_right: bool
    kinds: tuple[str, ...]  # of patterns that are whole
    fed_by: frozenset[str]  # literals that may stand before


@dataclass(slots=True, eq=False)
class _Entry:
    """What the automaton knows of a literal."""

    literal: str
    whole: bool = True  # no pattern wants it as a part of a word
    leads: bool = False  # some pattern has a word behind it
    last: list[tuple[_State, ...] | None] = field(default_factory=lambda: [None] * 4)
    """The states of a text that ends with it, by whether a word begins (1) and ends (2) with it."""
    before: tuple[dict[_State, tuple[_State, ...]], ...] = field(default_factory=lambda: ({}, {}, {}, {}))
    """The same before other words, by the state behind it."""


class Place(NamedTuple):
    """Where a literal stands in a text."""

    start: int
    end: int
    literal: str


class Matcher:
    """A compiled set of patterns, for :func:`search`.

    Patterns are followed from their last element to the first: most words begin some pattern, few end one.
    States are made when a text first needs them, so compiling costs little more than listing the words.
    """

    __slots__ = ("_classes", "_root", "_states", "automaton")

    def __init__(self, patterns: Iterable[tuple[Pattern, Script]]) -> None:
        """Compile patterns, each with the script of its table."""
        import ahocorasick

        self._root = _Node()
        self._classes: dict[frozenset[Word], dict[str, tuple[Word, ...]]] = {}
        self._states: dict[Any, _State] = {}
        entries: dict[str, _Entry] = {}
        seen: set[_Edge] = set()
        for pattern, script in patterns:
            node = self._root
            joined = False
            for place in range(len(pattern.elements) - 1, -1, -1):
                element = pattern.elements[place]
                edge = _Edge(element, not place, joined, pattern.starts_clause and not place, script)
                joined = element.joint == JOINED
                if edge not in seen:
                    seen.add(edge)
                    self._enter(edge, entries)
                if node is not self._root:
                    for word in element.words:
                        entries[word.literal].leads = True
                after = node.steps.get(edge)
                if after is None:
                    after = node.steps[edge] = _Node()
                node = after
            if pattern not in node.begun:
                node.begun.append(pattern)
        self.automaton = ahocorasick.Automaton()
        for literal, entry in entries.items():
            self.automaton.add_word(literal, (literal, len(literal), entry.whole, entry))
        self.automaton.make_automaton()

    def _enter(self, edge: _Edge, entries: dict[str, _Entry]) -> None:
        by_literal: dict[str, tuple[Word, ...]] = {}
        for word in edge.element.words:
            by_literal[word.literal] = (*by_literal.get(word.literal, ()), word)
            entry = entries.get(word.literal)
            if entry is None:
                entry = entries[word.literal] = _Entry(word.literal)
            if entry.whole:
                entry.whole = all(_bounds(word, edge))
        self._classes[edge.element.words] = by_literal

    def states(self, state: _State | None, literal: str, left: bool, right: bool) -> tuple[_State, ...]:
        """The states before a word, given the one behind it and whether a word of the text begins and ends with it."""
        reached: dict[tuple[Any, ...], dict[_Node, None]] = {}
        for node in state.nodes if state else (self._root,):
            for edge, after in node.steps.items():
                for word in self._classes[edge.element.words].get(literal, ()):
                    bound_left, bound_right = _bounds(word, edge)
                    if (left or not bound_left) and (right or not bound_right):
                        joined = edge.element.joint == JOINED and not edge.first
                        key = (
                            edge.element.joint,
                            edge.script.gap if edge.element.joint == GAP else len(edge.element.joint),
                            edge.starts_clause,
                            not left and word.open_left and edge.script.spaces and not joined,
                            not right and word.open_right and edge.script.spaces and not edge.joined_behind,
                        )
                        reached.setdefault(key, {})[after] = None
        return tuple(self._state(key, tuple(nodes)) for key, nodes in reached.items())

    def _state(self, key: tuple[Any, ...], nodes: tuple[_Node, ...]) -> _State:
        state = self._states.get((key, nodes))
        if state is None:
            kinds = tuple(dict.fromkeys(pattern.kind for node in nodes for pattern in node.begun))
            before = (self._classes[edge.element.words] for node in nodes for edge in node.steps)
            fed_by = frozenset(literal for words in before for literal in words)
            state = _State(nodes, key[0], key[1], key[2], key[3], key[4], kinds, fed_by)
            self._states[key, nodes] = state
        return state


def _bounds(word: Word, edge: _Edge) -> tuple[bool, bool]:
    """Whether a word of the text must begin and end where this word does."""
    joined = edge.element.joint == JOINED and not edge.first
    return (
        edge.script.spaces and not word.open_left and not joined,
        edge.script.spaces and not word.open_right and not edge.joined_behind,
    )


_Past = dict[str, list[tuple[int, int, _Entry, int]]]  # literal to its places: start, end, what it is, and its borders


def search(text: str, matcher: Matcher, trace: list[Found] | None = None) -> Hits:
    """The patterns in a folded text.

    Args:
        trace: filled with every pattern found and the words it was found by, for explanations.
    """
    hits: Hits = {}
    past: _Past = {}
    padded = text + " "  # so that there is a character at both ends
    for last, (literal, size, whole, entry) in matcher.automaton.iter(text):
        end = last + 1
        start = end - size
        # the first two conditions decide nearly always, and cost a third of the last one
        character = padded[start - 1]
        left = character == " " or (character not in _LETTERS and is_boundary(character, text[start]))
        if whole and not left:
            continue
        character = padded[end]
        right = character == " " or (character not in _LETTERS and is_boundary(character, text[last]))
        if whole and not right:
            continue
        borders = left + 2 * right
        states = entry.last[borders]
        if states is None:
            states = entry.last[borders] = matcher.states(None, literal, left, right)
        for state in states:
            begin = _word_start(text, start) if state.grows_left else start
            stop = _word_end(text, end) if state.grows_right else end
            if state.kinds and (not state.starts_clause or _at_clause_start(text, start, hits)):
                for kind in state.kinds:
                    if kind in hits:
                        hits[kind].append((begin, stop))
                    else:
                        hits[kind] = [(begin, stop)]
                if trace is not None:
                    trace += _whole(state, (Place(begin, stop, literal),))
            if past and not state.fed_by.isdisjoint(past):
                _look_back(text, Place(begin, stop, literal), state, past, matcher, hits, trace)
        if entry.leads:
            if literal in past:
                past[literal].append((start, end, entry, borders))
            else:
                past[literal] = [(start, end, entry, borders)]
    if "except" in hits:
        _spare(hits)
    return hits


def _look_back(
    text: str, place: Place, state: _State, past: _Past, matcher: Matcher, hits: Hits, trace: list[Found] | None
) -> None:
    """Find the patterns that end with a word, whose earlier words stand before it.

    Of the places of one word the nearest counts, so the work stays linear.
    """
    found: set[str] = set()
    seen: set[tuple[_State, str, int]] = set()
    todo: list[tuple[_State, tuple[Place, ...]]] = [(state, (place,))]
    while todo:
        behind, places = todo.pop()
        edge = places[0].start
        for literal, positions in past.items():
            if literal not in behind.fed_by:
                continue
            for start, end, entry, borders in reversed(positions):
                if end > edge:
                    continue
                known = entry.before[borders]
                states = known.get(behind)
                if states is None:
                    states = known[behind] = matcher.states(behind, literal, bool(borders & 1), borders > 1)
                for before in states:
                    stop = _word_end(text, end) if before.grows_right else end
                    between = edge - stop
                    if behind.joint == GAP:
                        if not 0 <= between <= behind.gap:
                            continue
                    elif between != behind.gap or (between and text[stop] != " "):
                        continue
                    begin = _word_start(text, start) if before.grows_left else start
                    path = (Place(begin, stop, literal), *places)
                    if before.kinds and (not before.starts_clause or _at_clause_start(text, start, hits)):
                        for kind in before.kinds:
                            if kind not in found:
                                found.add(kind)
                                hits.setdefault(kind, []).append((begin, place.end))
                        if trace is not None:
                            trace += _whole(before, path)
                    if before.fed_by and (before, literal, start) not in seen:
                        seen.add((before, literal, start))
                        todo.append((before, path))
                break


Found = tuple[Pattern, tuple[Place, ...]]
"""A pattern, and the words that it was found by."""


def _whole(state: _State, places: tuple[Place, ...]) -> Iterator[Found]:
    return ((pattern, places) for node in state.nodes for pattern in node.begun)


def sources(found: Found) -> Iterator[tuple[str, str]]:
    """The part and the item of every word that a pattern was found by."""
    pattern, places = found
    for element, place in zip(pattern.elements, places, strict=True):
        for word in element.words:
            if word.literal == place.literal:
                yield from word.sources


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
