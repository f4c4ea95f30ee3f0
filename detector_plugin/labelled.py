"""Labelled answers, on which detectors are trained and measured, and groups of those about the same text."""

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

REAL = "real"  # annotations of text that a model wrote on its own
TRANSLATED = "?"  # the `group` of a document whose text exists in other languages, where nobody knows which it is
UNREADABLE = "⁇"  # the mark of a translation model for an unknown token


@dataclass(frozen=True)
class LabelledAnswer:
    """An answer, its reference, and its hallucinated spans. Unknown fields are empty.

    Kinds of annotations are ``real`` (by people, of text that a model wrote on its own), ``rag`` (by people, of text that a
    model wrote from passages), ``gold`` (by people, of inserted errors) and ``silver`` (by GPT-4, of inserted errors).
    """

    reference: str  # as the detector gets it
    answer: str
    language: str  # ISO 639 code
    annotations: str  # their kind
    spans: Sequence[Span]  # hallucinated parts of the answer
    question: str = ""
    family: str = ""  # of the model that wrote the answer
    model: str = ""
    soft: Sequence[Span] | None = None  # with the share of annotators who marked them; default `spans`, by all
    article: str = ""  # name or address of the page that the reference is from, where there is more than that
    group: str = ""  # key that documents about one text share in every language, such as translations of it


def is_unreadable(reference: str) -> bool:
    """Whether more than a fifth of a reference's words are marks of an unknown token, as nearly all Latin words are."""
    return reference.count(UNREADABLE) > len(reference.split()) / 5


def without_spans(answer: str, spans: Sequence[Span]) -> str:
    """An answer without the characters of some spans."""
    removed = {at for span in spans for at in range(span.start, span.end)}
    return "".join(character for at, character in enumerate(answer) if at not in removed)


def annotator_shares(document: LabelledAnswer, edges: Any) -> Any:
    """(n,) share of annotators that marked a character, as a mean over each of the (n, 2) first and end characters."""
    import numpy as np

    marked = np.zeros(len(document.answer) + 1)
    for span in document.spans if document.soft is None else document.soft:
        marked[span.start : span.end] = span.probability
    sums = np.concatenate([[0], np.cumsum(marked)])
    start, end = np.asarray(edges, np.intp).reshape(-1, 2).T
    return (sums[end] - sums[start]) / np.maximum(end - start, 1)


# Groups of labelled answers about the same text

MIN_SHARE = 0.4
"""Least share of the shorter text's weight that two versions of one text have in common. mFAVA's gold texts share 0.5 to 1
with the silver text that they translate, and mostly less than 0.3 with any other; above that, both are on one subject."""

MIN_WEIGHT = 12.0  # least weight, in nats, that they share: about three keys that each occur in one of sixty texts
MIN_KEYS = 3  # least number of keys that two versions of one text share
MAX_TEXTS = 20  # most texts of one language that a rare key occurs in. It bounds the number of pairs that are compared
_NUMBER, _WORD = re.compile(r"\d{1,15}"), re.compile(r"[^\W\d_]{3,}")
_ACCENTS = dict.fromkeys(range(0x300, 0x370))


def article_groups(documents: Sequence[LabelledAnswer]) -> list[list[LabelledAnswer]]:
    """Groups of documents that share an article, by its name or by the reference, directly or through a third one."""
    return [[documents[place] for place in group] for group in _components(len(documents), _article_pairs(documents))]


def text_groups(documents: Sequence[LabelledAnswer]) -> list[list[LabelledAnswer]]:
    """Groups of documents that share an article or a text in any language, directly or through a third one.

    A translation keeps a text's numbers, their order, and many of its names, and the errors of a detector on a text whose
    translation it was trained on say little about new texts. So texts count as one where their `LabelledAnswer.group` is
    the same, and where they share enough keys: numbers, pairs of successive numbers, and words. Only keys that occur in two
    languages or more count; the rarer a key, the more it weighs.
    """
    first_of_group: dict[str, int] = {}
    pairs = _article_pairs(documents)
    for place, document in enumerate(documents):
        if document.group not in ("", TRANSLATED):
            pairs.append((place, first_of_group.setdefault(document.group, place)))
    if len({document.language for document in documents}) > 1:
        pairs += _translations(_components(len(documents), pairs), documents)
    return [[documents[place] for place in group] for group in _components(len(documents), pairs)]


def _article_pairs(documents: Sequence[LabelledAnswer]) -> list[tuple[int, int]]:
    """The index of each document with those of the first document of its reference, and of its article."""
    references: dict[str, int] = {}
    articles: dict[str, int] = {}
    pairs = []
    for place, document in enumerate(documents):
        pairs.append((place, references.setdefault(" ".join(document.reference.split()), place)))
        if document.article.strip():
            pairs.append((place, articles.setdefault(document.article.strip(), place)))
    return pairs


def _components(number: int, pairs: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The connected components of a graph with the nodes 0 to `number` - 1 and these pairs as edges."""
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
    """Pairs of indices of documents whose groups are about the same text."""
    references = {(document.language, document.reference) for document in documents}
    texts: Counter[str] = Counter(language for language, _ in references)
    keys_of = {reference: translation_keys(reference) for _, reference in references}
    texts_with: dict[Hashable, Counter[str]] = defaultdict(Counter)
    for language, reference in references:
        for key in keys_of[reference]:
            texts_with[key][language] += 1
    weights = {
        key: math.log((max(texts.values()) + 1) / max(by_language.values()))
        for key, by_language in texts_with.items()
        if len(by_language) > 1 and max(by_language.values()) <= MAX_TEXTS
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
            if number >= MIN_KEYS and weight[other] >= max(MIN_WEIGHT, MIN_SHARE * min(totals[group], totals[other])):
                yield groups[group][0], groups[other][0]


def translation_keys(text: str) -> set[Hashable]:
    """The parts of a text that a translation keeps: numbers in any digits, pairs of them, and words without accents."""
    plain = unicodedata.normalize("NFKD", text).translate(_ACCENTS).casefold()
    numbers = [int(digits) for digits in _NUMBER.findall(plain)]
    return {*numbers, *pairwise(numbers), *_WORD.findall(plain)}
