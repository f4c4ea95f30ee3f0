"""Patterns over words, as a phrase table writes them (``{material} ... {tell} {not}``), and their matches in a text.

``tables/README.md`` describes the notation. A pattern is a row of *elements*. An element is a set of words, one of which
must occur there; most often it is a part of the table. :class:`PhraseReader` parses patterns and :class:`Matcher` finds
them. The words of all patterns are in one Aho-Corasick automaton, so a text is read once, however many patterns there are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from custom_metrics.abstention.folding import is_boundary, is_word

CLAUSE, JOINED, SPACE = -1, 0, 1  # joints: characters between two elements, more of a gap; -1: the start of a clause
CLOSED, OPEN, FREE = range(3)
"""Ends of a word. Closed: a word of the text ends there, too. Open (``erwähn*``): that word may go on, and counts whole.
Free: anything may stand beside it, as another element does, or as the script has no spaces."""
MAX_PRODUCT = 100  # most words of an element that is the product of two neighbours: more are slower to compile
MAX_WORD_END = 40  # most characters of an open end of a word; this bounds the time for each word of a text

_TOKENS = re.compile(
    r"(?P<gap>\s*\.\.\.\s*)|(?P<space>\s+)"
    r"|(?:\{(?P<parts>[^{}]*)\}(?P<longer>\*)?|\((?P<listed>[^()]*)\))(?P<maybe>\?)?"
    r"|(?P<text>(?:(?!\.\.\.)[^\s{}()])+)"
)
_ALTERNATIVES = re.compile(r"\|(?![^{]*\})")  # not within braces
_CLAUSE_STARTS = frozenset(".,:;!?¿¡\"'([-،、。؛।\n")
_NEVER_SPARED = frozenset(("bare", "openers", "except"))  # an exception does not spare these


class Word(NamedTuple):
    """A word or phrase of a pattern, folded."""

    literal: str
    sources: tuple[tuple[str, str], ...] = ()  # the parts that it comes from: name, and item as the table writes it


class Element(NamedTuple):
    """One place of a pattern."""

    words: frozenset[Word]  # that fit; none where an optional element was left out
    left: int = CLOSED
    right: int = CLOSED
    joint: int = SPACE


Row = tuple[Element, ...]


class Pattern(NamedTuple):
    """A parsed pattern of a table."""

    kind: str  # the key of the table
    written: str  # the phrase under that key
    elements: Row


class PhraseReader:
    """A parser of one table's phrases. Its language writes `spaces` or not; " ... " stands for up to `gap` characters."""

    def __init__(
        self, parts: Mapping[str, Sequence[str]], folded: Callable[[str], str], spaces: bool, gap: int
    ) -> None:
        self._parts, self._folded, self._spaces, self._gap = parts, folded, spaces, gap
        self._rows_of_token: dict[tuple[str | None, ...], list[Row]] = {}

    def patterns(self, kind: str, written: str) -> Iterator[Pattern]:
        """Parse a phrase. Optional elements, and parts that hold patterns, make several patterns of it. ValueError for an
        unknown part, a bracket that is not closed, or an empty pattern."""
        rows = self._rows(written.removeprefix("^"))
        if not rows:
            raise ValueError(f"the phrase {written!r} of {kind!r} is empty")
        for first, *rest in rows:
            row = (first._replace(joint=CLAUSE) if written.startswith("^") else first, *rest)
            if not self._spaces:
                row = tuple(element._replace(left=FREE, right=FREE) for element in row)
            yield Pattern(kind, written, row)

    def _rows(self, written: str) -> list[Row]:
        rows: list[Row] = [()]
        joint, at = JOINED, 0
        for token in _TOKENS.finditer(written):
            if token.start() != at:
                break
            at = token.end()
            if token["gap"] or token["space"]:
                joint = self._gap if token["gap"] else SPACE
                continue
            key = token.group("parts", "longer", "listed", "text")
            if key not in self._rows_of_token:
                self._rows_of_token[key] = self._alternatives(token)
            left_out = [(*row, Element(frozenset(), joint=joint)) for row in rows if token["maybe"]]
            rows = [self._joined(row, joint, tail) for row in rows for tail in self._rows_of_token[key]] + left_out
            joint = JOINED
        if at != len(written):
            raise ValueError(f"{written!r} has a bracket that is not closed, or not opened")
        trimmed = (row[: 1 + max((at for at, element in enumerate(row) if element.words), default=-1)] for row in rows)
        return list(dict.fromkeys(filter(None, trimmed)))

    def _alternatives(self, token: re.Match[str]) -> list[Row]:
        """The rows that a token stands for. Words alone that have the same ends are one element."""
        if token["parts"] is not None:
            rows = [row for name in token["parts"].split("|") for row in self._part(name.strip())]
            if token["longer"]:
                rows = [(*row, last._replace(right=OPEN)) for *row, last in rows]
        elif token["listed"] is not None:
            rows = [row for listed in _ALTERNATIVES.split(token["listed"]) for row in self._rows(listed.strip())]
        else:
            text = token["text"]
            literal = self._folded(text.strip("*")).strip()
            if not literal:
                raise ValueError(f"{token.string!r} has a `*` beside no word")
            left, right = (OPEN if end else CLOSED for end in (text.startswith("*"), text.endswith("*")))
            rows = [(Element(frozenset((Word(literal),)), left, right),)]
        words: dict[tuple[int, int], set[Word]] = {}
        for row in rows:
            if len(row) == 1:
                words.setdefault((row[0].left, row[0].right), set()).update(row[0].words)
        return [row for row in rows if len(row) > 1] + [(Element(frozenset(words[ends]), *ends),) for ends in words]

    def _part(self, name: str) -> Iterator[Row]:
        if name not in self._parts:
            raise ValueError(f"no part is named {name!r}; there are {', '.join(sorted(self._parts))}")
        for written in self._parts[name]:
            source = (name, written)
            for row in self._rows(written):
                yield tuple(
                    element._replace(words=frozenset(Word(word, (*origins, source)) for word, origins in element.words))
                    for element in row
                )

    def _joined(self, row: Row, joint: int, tail: Row) -> Row:
        """Concatenate two rows. Small neighbours without a gap become one element, their product."""
        while row and not row[-1].words:  # what is left out leaves the wider of the joints around it
            joint, row = max(joint, row[-1].joint), row[:-1]
        if not row:
            return tail
        last, first = row[-1], tail[0]
        if joint <= SPACE and last.right == first.left == CLOSED and len(last.words) * len(first.words) <= MAX_PRODUCT:
            words = (Word(a + " " * joint + b, (*of_a, *of_b)) for a, of_a in last.words for b, of_b in first.words)
            return (*row[:-1], last._replace(words=frozenset(words), right=first.right), *tail[1:])
        if joint == JOINED:
            last, first = last._replace(right=FREE), first._replace(left=FREE)
        return (*row[:-1], last, first._replace(joint=joint), *tail[1:])


Hits = dict[str, list[tuple[int, int]]]  # kind of phrase to the (start, end) of those found, in order of their ends
Place = tuple[int, int, str]
"""Where a literal stands in a text (start, end), with the rest of its word where that counts; and the literal."""

PatternMatch = tuple[Pattern, tuple[Place, ...]]  # a pattern, and the place of each of its elements


@dataclass(eq=False, slots=True)
class _Node:
    """A node of the trie: all patterns that share their first elements."""

    steps: dict[Element, _Node] = field(default_factory=dict)
    complete: list[Pattern] = field(default_factory=list)  # those that end here


class Matcher:
    """A compiled set of patterns."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        import ahocorasick

        self._root = _Node()
        self._steps: dict[Element, dict[_Node, _Node]] = {}  # of each element: from which node to which
        by_literal: dict[str, dict[Element, None]] = {}
        for pattern in patterns:
            node = self._root
            for element in pattern.elements:
                if element not in node.steps:
                    node.steps[element] = self._steps.setdefault(element, {})[node] = _Node()
                    for literal in {word.literal for word in element.words}:
                        by_literal.setdefault(literal, {})[element] = None
                node = node.steps[element]
            node.complete.append(pattern)
        self._automaton = ahocorasick.Automaton()
        for literal, elements in by_literal.items():
            self._automaton.add_word(literal, (literal, tuple(elements)))
        if by_literal:
            self._automaton.make_automaton()

    def search(self, text: str, trace: list[PatternMatch] | None = None) -> Hits:
        """Find the patterns in a folded text.

        Before a gap the nearest place of an element counts, so the time is linear in the text's length. `trace` is filled
        with every pattern found and its places; those returned lack what an exception spares.
        """
        hits: Hits = {}
        if not self._steps:
            return hits
        begun: dict[_Node, list[tuple[Place, ...]]] = {self._root: [()]}  # the places that lead to each inner node
        padded = text + " "  # so that there is a character at both ends
        for last, (literal, elements) in self._automaton.iter(text):
            start, end = last + 1 - len(literal), last + 1
            begins, ends = is_boundary(padded[start - 1], literal[0]), is_boundary(padded[end], literal[-1])
            found: list[tuple[_Node, tuple[Place, ...]]] = []
            for element in elements:
                # a mark at the end of a phrase stands beside any word
                if element.left == CLOSED and not begins and is_word(literal[0]):
                    continue
                if element.right == CLOSED and not ends and is_word(literal[-1]):
                    continue
                steps = self._steps[element]
                nodes = [node for node in steps if node in begun]
                if not nodes or (element.joint == CLAUSE and not _starts_clause(text, start, hits)):
                    continue
                begin = _word_start(text, start) if element.left == OPEN and not begins else start
                stop = _word_end(text, end) if element.right == OPEN and not ends else end
                for node in nodes:
                    ways = [()] if node is self._root else _before(text, begin, element.joint, begun[node])
                    found += [(steps[node], (*before, (begin, stop, literal))) for before in ways]
            for node, places in found:
                if node.steps:
                    begun.setdefault(node, []).append(places)
                for pattern in node.complete:
                    # of a turn that is the end of a word ("없지만"), the word itself may abstain
                    at = start if pattern.kind == "but" and len(places) == 1 else places[0][0]
                    kept = hits.setdefault(pattern.kind, [])
                    if not kept or kept[-1] != (at, places[-1][1]):
                        kept.append((at, places[-1][1]))
                    if trace is not None:
                        trace.append((pattern, places))
        for kind in hits.keys() - _NEVER_SPARED if "except" in hits else ():
            spared = hits.pop(kind)
            if rest := [hit for hit in spared if not any(a <= hit[0] and hit[1] <= b for a, b in hits["except"])]:
                hits[kind] = rest
        return hits


def _before(text: str, begin: int, joint: int, begun: Sequence[tuple[Place, ...]]) -> Iterator[tuple[Place, ...]]:
    """The places found so far that end where a joint in front of `begin` requires it."""
    nearest = -1
    for places in reversed(begun):
        end = places[-1][1]
        if end < max(nearest, begin - joint - MAX_WORD_END):
            return  # earlier ones end earlier: only the rest of a word can put them out of order
        if joint <= SPACE:
            if begin - end == joint and (not joint or text[end] == " "):
                yield places
        elif max(nearest, begin - joint) <= end <= begin:
            nearest = end
            yield places


def sources(match: PatternMatch) -> Iterator[tuple[str, str]]:
    """The part of the table, and the item in it, of every word of a match."""
    pattern, places = match
    for element, (_, _, literal) in zip(pattern.elements, places, strict=True):
        for word in sorted(word for word in element.words if word.literal == literal):
            yield from word.sources


def _word_end(text: str, end: int) -> int:
    limit = min(len(text), end + MAX_WORD_END)
    return next((at for at in range(end, limit) if not is_word(text[at])), limit)


def _word_start(text: str, start: int) -> int:
    limit = max(0, start - MAX_WORD_END)
    return next((at for at in range(start, limit, -1) if not is_word(text[at - 1])), limit)


def _starts_clause(text: str, start: int, hits: Hits) -> bool:
    end = len(text[:start].rstrip(" "))
    return not end or text[end - 1] in _CLAUSE_STARTS or any(stop == end for _, stop in hits.get("openers", ()))
