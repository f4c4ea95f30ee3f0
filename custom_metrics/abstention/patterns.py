"""Patterns over words, as a phrase table writes them: ``{material} ... {tell} {not}``.

``tables/README.md`` describes the notation. A pattern is a row of elements. An element is a set of words, one
of which must stand there; most often it is a part of the table. :func:`parse` reads a pattern; `matching.py` finds
patterns in a text, class by class. A *class* is the words that fit at one place. The fewer classes a pattern has, the less
there is to follow, so small neighbouring ones are multiplied: ``{i_know} {not}`` becomes one class of "weiß ich nicht",
"ich weiß nichts" and so on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = [
    "GAP",
    "JOINED",
    "MOST",
    "SPACE",
    "ClassRow",
    "Element",
    "Pattern",
    "Row",
    "Word",
    "WordClass",
    "WordClasses",
    "parse",
]

JOINED, SPACE, GAP = "", " ", "..."

_TOKENS = re.compile(
    r"(?P<gap>\s*\.\.\.\s*)|(?P<space>\s+)|\{(?P<parts>[^{}]*)\}(?P<longer>\*)?(?P<maybe>\?)?"
    r"|\((?P<words>[^()]*)\)(?P<perhaps>\?)?|(?P<text>(?:(?!\.\.\.)[^\s{}()])+)"
)

_ALTERNATIVES = re.compile(r"\|(?![^{]*\})")  # not within braces


class Word(NamedTuple):
    """A word or phrase of a pattern.

    An end is open where a word of the text may go on beyond it: ``erwähn*`` is open at the right.
    """

    literal: str
    open_left: bool
    open_right: bool
    sources: tuple[tuple[str, str], ...] = ()
    """The parts that it comes from: name, and item as the table writes it."""


class Element(NamedTuple):
    """One place of a pattern."""

    joint: str  # to the element before: JOINED, SPACE or GAP
    words: frozenset[Word]  # that fit; none where an optional element was left out


class Pattern(NamedTuple):
    """A pattern of a table, read."""

    kind: str  # the key of the table
    written: str  # the phrase under that key
    elements: tuple[Element, ...]
    starts_clause: bool  # written with "^"


Row = tuple[Element, ...]
Fold = Callable[[str], str]


def parse(
    kind: str, written: str, parts: Mapping[str, Sequence[str]], folded: Fold, read: dict[str, list[Row]]
) -> list[Pattern]:
    """Read a phrase of a table. Optional elements and parts that hold patterns make several patterns of it.

    Args:
        kind: the key of the table.
        written: the phrase.
        parts: the table's parts, by name.
        folded: folds a word.
        read: the parts that were read already, by name; those that the phrase needs are added.

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
    """Reads phrases with the parts of one table. `within` names the parts that are being read, to find circles."""

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
                if token["longer"]:
                    rows = [_opened(row) for row in rows]
            elif token["words"] is not None:
                rows = [row for word in _ALTERNATIVES.split(token["words"]) for row in self.rows(word.strip())]
            elif (word := _word(token["text"], self.folded)) is not None:
                rows = [(Element(JOINED, frozenset((word,))),)]
            else:
                raise ValueError(f"{written!r} has a `*` beside no word")
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


def _opened(row: Row) -> Row:
    """A row whose last word takes any ending."""
    joint, words = row[-1]
    return (*row[:-1], Element(joint, frozenset(word._replace(open_right=True) for word in words)))


def _sourced(row: Row, source: tuple[str, str]) -> Row:
    return tuple(
        Element(joint, frozenset(word._replace(sources=(*word.sources, source)) for word in words))
        for joint, words in row
    )


def _joined(row: Row, joint: str, alternative: Row) -> Row:
    return (*row, alternative[0]._replace(joint=joint), *alternative[1:])


def _merged(row: Row) -> Row:
    """Drop the elements that were left out, and join neighbours of one word each into one literal."""
    kept: list[Element] = []
    joint = JOINED
    for element in row:
        joint = max(joint, element.joint)  # the wider one is also the greater string
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
    """Merge the alternatives of one element each into one alternative."""
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


MOST = 200
"""Most literals of a product. More would make patterns faster to follow, but each costs a microsecond to compile."""


@dataclass(slots=True, eq=False)
class WordClass:
    """The literals that fit at one place of a pattern: words of a part, or the product of two neighbouring classes.

    All have the same ends: closed, or open where a word of a text may go on beyond the literal.
    """

    literals: set[str]
    open_left: bool
    open_right: bool
    words: dict[str, list[Word]] = field(default_factory=dict)
    """Of a part: the words of each literal."""
    factors: tuple[WordClass, str, WordClass] | None = None
    """Of a product: the first class, what stands between, and the second."""

    def sources(self, literal: str) -> Iterator[tuple[str, str]]:
        """The part of the table, and the item in it, of each word that makes a literal."""
        if self.factors is None:
            for word in self.words[literal]:
                yield from word.sources
            return
        first, joint, second = self.factors
        for before in first.literals:
            behind = literal.removeprefix(before + joint)
            if literal == before + joint + behind and behind in second.literals:
                yield from first.sources(before)
                yield from second.sources(behind)


ClassRow = tuple[tuple[str, WordClass], ...]
"""The joint of each place of a pattern to the place before, and its class."""


class WordClasses:
    """The classes of a set of patterns. Equal classes are one object, so that patterns share the trie's steps."""

    def __init__(self) -> None:
        self._parts: dict[frozenset[Word], tuple[WordClass, ...]] = {}
        self._products: dict[tuple[WordClass, str, WordClass], WordClass] = {}

    def rows(self, pattern: Pattern) -> list[ClassRow]:
        """A pattern as rows of joints and classes: one row for each combination of its words' kinds of ends.

        Neighbours without a gap become one class, their product, where it has at most :data:`MOST` literals. Words that are
        open to each other's side cannot be multiplied, since what they go on with is not known.
        """
        rows: list[ClassRow] = [()]
        for joint, words in pattern.elements:
            rows = [self._grown(row, joint, part) for row in rows for part in self._part(words)]
        return rows

    def _grown(self, row: ClassRow, joint: str, part: WordClass) -> ClassRow:
        if not row or joint == GAP or part.open_left:
            return (*row, (joint, part))
        before, last = row[-1]
        if last.open_right or len(last.literals) * len(part.literals) > MOST:
            return (*row, (joint, part))
        return (*row[:-1], (before, self._product(last, joint, part)))

    def _part(self, words: frozenset[Word]) -> tuple[WordClass, ...]:
        """The words of an element, a class for each kind of ends."""
        found = self._parts.get(words)
        if found is None:
            classes: dict[tuple[bool, bool], WordClass] = {}
            for word in words:
                ends = word.open_left, word.open_right
                if ends not in classes:
                    classes[ends] = WordClass(set(), *ends)
                classes[ends].literals.add(word.literal)
                classes[ends].words.setdefault(word.literal, []).append(word)
            found = self._parts[words] = tuple(classes.values())
        return found

    def _product(self, first: WordClass, joint: str, second: WordClass) -> WordClass:
        found = self._products.get((first, joint, second))
        if found is None:
            literals = {a + joint + b for a in first.literals for b in second.literals}
            found = WordClass(literals, first.open_left, second.open_right, factors=(first, joint, second))
            self._products[first, joint, second] = found
        return found
