"""Which documents are about one text: the same reference, page or key, and translations of it into other languages.

A translation keeps a text's numbers, their order, and many of its names. A figure of a detector on a text whose translation
it has learned from says little of a text that is new to it.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import pairwise

from detector_plugin.labelled import TRANSLATED, LabelledAnswer

__all__ = ["article_groups", "kept_keys", "text_groups"]

SHARED = 0.4
"""Of the shorter text's weight, what two texts share that are one. mFAVA's gold texts share 0.5 to 1 with the silver text
that they translate, and mostly less than 0.3 with any other; where it is more, both are on one subject."""

LEAST = 12.0
"""Nats that two texts share at least: about three keys that each stand in one of sixty texts."""

FEWEST = 3
"""Keys that two texts share at least."""

COMMON = 20
"""Texts of one language, more of which have no rare key in common. It bounds the pairs that are looked at."""

_NUMBER, _WORD = re.compile(r"\d{1,15}"), re.compile(r"[^\W\d_]{3,}")
_ACCENTS = dict.fromkeys(range(0x300, 0x370))


def article_groups(documents: Sequence[LabelledAnswer]) -> list[list[LabelledAnswer]]:
    """Documents that share an article: its name, or the text of the reference, directly or through a third one."""
    return _Groups(documents, _article_keys).lists()


def text_groups(documents: Sequence[LabelledAnswer]) -> list[list[LabelledAnswer]]:
    """Documents that share an article or a text in any language, directly or through a third one.

    Texts are one where `LabelledAnswer.group` is, and where they share enough numbers, pairs of numbers that follow each
    other, and words. Only what stands in texts of two languages or more counts, and the rarer it is, the more it weighs.
    The time grows in proportion to the length of the references.
    """
    groups = _Groups(documents, lambda document: [*_article_keys(document), *_group_keys(document)])
    if len({document.language for document in documents}) > 1:
        groups.join(_translations(groups.lists_of_places(), documents))
    return groups.lists()


def _article_keys(document: LabelledAnswer) -> list[Hashable]:
    keys: list[Hashable] = [("reference", " ".join(document.reference.split()))]
    if document.article.strip():
        keys.append(("article", document.article.strip()))
    return keys


def _group_keys(document: LabelledAnswer) -> list[Hashable]:
    return [("group", document.group)] if document.group not in ("", TRANSLATED) else []


class _Groups:
    """Documents in groups that can be joined."""

    def __init__(
        self, documents: Sequence[LabelledAnswer], keys: Callable[[LabelledAnswer], Iterable[Hashable]]
    ) -> None:
        self.documents = documents
        self.parents = list(range(len(documents)))
        first: dict[Hashable, int] = {}
        self.join((place, first.setdefault(key, place)) for place, one in enumerate(documents) for key in keys(one))

    def join(self, pairs: Iterable[tuple[int, int]]) -> None:
        for one, other in pairs:
            self.parents[self._root(one)] = self._root(other)

    def _root(self, place: int) -> int:
        parents = self.parents
        while parents[place] != place:
            parents[place] = place = parents[parents[place]]
        return place

    def lists_of_places(self) -> list[list[int]]:
        groups: dict[int, list[int]] = {}
        for place in range(len(self.documents)):
            groups.setdefault(self._root(place), []).append(place)
        return list(groups.values())

    def lists(self) -> list[list[LabelledAnswer]]:
        return [[self.documents[place] for place in group] for group in self.lists_of_places()]


def _translations(groups: Sequence[Sequence[int]], documents: Sequence[LabelledAnswer]) -> Iterable[tuple[int, int]]:
    """Pairs of places of documents, whose groups are of one text."""
    references = {(document.language, document.reference) for document in documents}
    number: Counter[str] = Counter(language for language, _ in references)
    texts_with: dict[Hashable, Counter[str]] = defaultdict(Counter)
    of_reference = {}
    for language, reference in references:
        of_reference[reference] = keys = kept_keys(reference)
        for key in keys:
            texts_with[key][language] += 1
    weights: dict[Hashable, float] = {}
    for key, by_language in texts_with.items():
        most = max(by_language.values())
        if len(by_language) > 1 and most <= COMMON:
            weights[key] = math.log((max(number.values()) + 1) / most)
    del texts_with
    of_groups: list[set[Hashable]] = [
        {
            key
            for text in {documents[place].reference for place in group}
            for key in of_reference[text]
            if key in weights
        }
        for group in groups
    ]
    totals = [sum(weights[key] for key in keys) for keys in of_groups]
    earlier: dict[Hashable, list[int]] = {}
    for one, keys in enumerate(of_groups):
        shared: dict[int, float] = {}
        times: Counter[int] = Counter()
        for key in keys:
            for other in earlier.get(key, ()):
                shared[other] = shared.get(other, 0.0) + weights[key]
                times[other] += 1
            earlier.setdefault(key, []).append(one)
        for other, weight in shared.items():
            if weight >= max(LEAST, SHARED * min(totals[one], totals[other])) and times[other] >= FEWEST:
                yield groups[one][0], groups[other][0]


def kept_keys(text: str) -> set[Hashable]:
    """What a translation keeps: numbers in any digits, pairs of them, and words without accents."""
    plain = unicodedata.normalize("NFKD", text).translate(_ACCENTS).casefold()
    numbers = [int(digits) for digits in _NUMBER.findall(plain)]
    return {*numbers, *pairwise(numbers), *_WORD.findall(plain)}
