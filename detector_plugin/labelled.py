"""Labelled answers: what detectors are trained on and measured with, and which of them are about one text."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from custom_metrics.reading.spans import Span

REAL = "real"  # annotations of what a model wrote on its own
TRANSLATED = "?"
"""The `group` of a document whose text other languages have too, where nobody says which of theirs it is."""
UNREADABLE = "⁇"
"""What a translation model wrote for a token that it did not know."""


@dataclass(frozen=True)
class LabelledAnswer:
    """An answer, the text it is held against, and what is hallucinated in it. What is not known is empty.

    Attributes:
        annotations: who said so of what: ``real`` (people, of what a model wrote on its own), ``gold`` (people, of inserted
            errors) or ``silver`` (GPT-4, of inserted errors).
        soft: shares of annotators, as the probability of spans; default all of them where `spans` are.
        article: name or address of the page that the reference is from, where there is more than the reference.
        group: key that documents about one text share in every language: translations of it, or pages on one subject.
    """

    reference: str  # as the detector gets it
    answer: str
    language: str  # ISO 639 code
    annotations: str
    spans: Sequence[Span]  # hallucinated parts of the answer
    question: str = ""
    family: str = ""  # of the model that wrote the answer
    model: str = ""
    soft: Sequence[Span] | None = None
    article: str = ""
    group: str = ""


def is_unreadable(reference: str) -> bool:
    """Whether more than a fifth of a reference's words are the mark of an unknown token, as nearly all Latin ones are."""
    return reference.count(UNREADABLE) > len(reference.split()) / 5


def without_spans(answer: str, spans: Sequence[Span]) -> str:
    """An answer without the characters of some spans."""
    cut = {at for span in spans for at in range(span.start, span.end)}
    return "".join(character for at, character in enumerate(answer) if at not in cut)


def shares_of(document: LabelledAnswer, edges: Any) -> Any:
    """(n,) mean over the characters of each of n places, as (n, 2) first and end, of the share of annotators that marked
    them."""
    import numpy as np

    marked = np.zeros(len(document.answer) + 1)
    for span in document.spans if document.soft is None else document.soft:
        marked[span.start : span.end] = span.probability
    sums = np.concatenate([[0], np.cumsum(marked)])
    start, end = np.asarray(edges, np.intp).reshape(-1, 2).T
    return (sums[end] - sums[start]) / np.maximum(end - start, 1)


# Which labelled answers are about one text

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
    return [[documents[place] for place in group] for group in _joined(len(documents), _same_article(documents))]


def text_groups(documents: Sequence[LabelledAnswer]) -> list[list[LabelledAnswer]]:
    """Documents that share an article or a text in any language, directly or through a third one.

    A translation keeps a text's numbers, their order, and many of its names. A figure of a detector on a text whose
    translation it has learned from says little of a text that is new to it. So texts are one where `LabelledAnswer.group`
    is, and where they share enough numbers, pairs of numbers that follow each other, and words. Only what stands in texts
    of two languages or more counts, and the rarer it is, the more it weighs. The time grows in proportion to the length of
    the references.
    """
    first: dict[str, int] = {}
    pairs = _same_article(documents)
    for place, document in enumerate(documents):
        if document.group not in ("", TRANSLATED):
            pairs.append((place, first.setdefault(document.group, place)))
    if len({document.language for document in documents}) > 1:
        pairs += _translations(_joined(len(documents), pairs), documents)
    return [[documents[place] for place in group] for group in _joined(len(documents), pairs)]


def _same_article(documents: Sequence[LabelledAnswer]) -> list[tuple[int, int]]:
    """The place of each document with that of the first one of its reference, and of its article."""
    references: dict[str, int] = {}
    articles: dict[str, int] = {}
    pairs = []
    for place, document in enumerate(documents):
        pairs.append((place, references.setdefault(" ".join(document.reference.split()), place)))
        if document.article.strip():
            pairs.append((place, articles.setdefault(document.article.strip(), place)))
    return pairs


def _joined(number: int, pairs: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The numbers below `number` in groups: those that pairs join, directly or through others."""
    if not number:
        return []
    import numpy as np
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(pairs)), tuple(zip(*pairs, strict=True))), (number, number))
    groups: dict[int, list[int]] = defaultdict(list)
    for place, group in enumerate(connected_components(graph, directed=False)[1].tolist()):
        groups[group].append(place)
    return list(groups.values())


def _translations(groups: Sequence[Sequence[int]], documents: Sequence[LabelledAnswer]) -> Iterator[tuple[int, int]]:
    """Pairs of places of documents whose groups are of one text."""
    references = {(document.language, document.reference) for document in documents}
    texts: Counter[str] = Counter(language for language, _ in references)
    keys_of = {reference: kept_keys(reference) for _, reference in references}
    texts_with: dict[Hashable, Counter[str]] = defaultdict(Counter)
    for language, reference in references:
        for key in keys_of[reference]:
            texts_with[key][language] += 1
    weights = {
        key: math.log((max(texts.values()) + 1) / max(by_language.values()))
        for key, by_language in texts_with.items()
        if len(by_language) > 1 and max(by_language.values()) <= COMMON
    }
    del texts_with  # the largest table by far
    keys_of_groups = [
        {key for place in group for key in keys_of[documents[place].reference] if key in weights} for group in groups
    ]
    totals = [sum(weights[key] for key in keys) for keys in keys_of_groups]
    earlier: dict[Hashable, list[int]] = {}
    for group, keys in enumerate(keys_of_groups):
        shared: Counter[int] = Counter()
        weight: dict[int, float] = defaultdict(float)
        for key in keys:
            for other in earlier.get(key, ()):
                shared[other] += 1
                weight[other] += weights[key]
            earlier.setdefault(key, []).append(group)
        for other, number in shared.items():
            if number >= FEWEST and weight[other] >= max(LEAST, SHARED * min(totals[group], totals[other])):
                yield groups[group][0], groups[other][0]


def kept_keys(text: str) -> set[Hashable]:
    """What a translation keeps: numbers in any digits, pairs of them, and words without accents."""
    plain = unicodedata.normalize("NFKD", text).translate(_ACCENTS).casefold()
    numbers = [int(digits) for digits in _NUMBER.findall(plain)]
    return {*numbers, *pairwise(numbers), *_WORD.findall(plain)}
