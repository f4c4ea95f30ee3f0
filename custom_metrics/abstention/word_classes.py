"""Classes of words: what fits at one place of a pattern.

`matching.py` follows a pattern class by class. The fewer classes a pattern has, the less there is to follow, so small
neighbouring classes are multiplied: ``{i_know} {not}`` becomes one class of "weiß ich nicht", "ich weiß nichts" and so on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from custom_metrics.abstention.patterns import GAP, Pattern, Word

__all__ = ["MOST", "ClassRow", "WordClass", "WordClasses"]

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
