"""Answers copied from their reference with one word swapped for another: to learn from, and to measure what is found.

In annotated answers an absent name stands among other absent words. Only in copies does it stand by itself.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from custom_metrics.reading.spans import Span
from custom_metrics.reading.words import words
from detector_plugin.labelled import LabelledAnswer
from detector_plugin.lexical import bare
from detector_plugin.lexical.text import TOKEN, Layout, normalise

COPIED = "copied"
"""Annotations of the answers that are made here."""

_SENTENCES = 3, 6  # of a copy
_LONGEST = 160  # words of a copy: a table of a page counts as one sentence
_LETTERS = 3  # of a name, at the least
_CAPITALISES_NOUNS = frozenset({"de", "lb"})
_COMMON, _RARE_LETTERS = 3_000, 5  # a word is rare that is not one of the commonest, and has as many letters
_TRIES = 50  # to draw a word that fits


def drawing(seeds: Sequence[int], *content: str) -> np.random.Generator:
    """Random numbers that depend on seeds and texts alone."""
    digest = hashlib.sha256("\0".join(content).encode("utf-8", "surrogatepass")).digest()
    return np.random.default_rng([*seeds, *digest])


@lru_cache(maxsize=64)
def _cut(text: str, language: str) -> tuple[list[tuple[int, int]], Layout | None]:
    """The words of a text, and its sentences where it has words."""
    places = words(text, language)
    return places, Layout(text, places) if places else None


def _within_sentences(text: str, language: str) -> list[tuple[int, int]]:
    """The words that begin no sentence, without quotes and punctuation around them."""
    places, plan = _cut(text, language)
    if plan is None:
        return []
    edges = bare(text, places).tolist()
    first = set(plan.sentence_starts.tolist())
    return [(start, end) for number, (start, end) in enumerate(edges) if number not in first]


def names_of(texts: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """The names in texts of each language: words that begin with a capital within sentences, and never without one.

    Where common nouns have capitals, too (German), a name is a word that texts of other languages capitalise as well.
    """
    upper: dict[str, set[str]] = {}
    lower: dict[str, set[str]] = {}
    for language, several in texts.items():
        upper[language], lower[language] = set(), set()
        for text in several:
            # Behind a word without punctuation: not behind a quote, a colon or a heading.
            found = (text[a:b] for a, b in _within_sentences(text, language) if text[max(a - 2, 0) : a - 1].isalnum())
            upper[language].update(
                word for word in found if len(word) >= _LETTERS and word.istitle() and word.isalpha()
            )
            lower[language].update(token for token in TOKEN.findall(text) if token[0].islower())
    others = [language for language in upper if language not in _CAPITALISES_NOUNS]
    names = {}
    for language, found_there in upper.items():
        by = others if language in _CAPITALISES_NOUNS else [language]
        elsewhere = set().union(*(upper[other] for other in by))
        common = set().union(lower[language], *(lower[other] for other in by))
        names[language] = sorted(word for word in found_there & elsewhere if word.lower() not in common)
    return names


def words_of(texts: Iterable[str]) -> list[str]:
    """The words without a capital, those in the most texts first."""
    number: Counter[str] = Counter()
    for text in texts:
        number.update({token for token in TOKEN.findall(text) if token.islower() and token.isalpha()})
    return sorted(number, key=lambda word: (-number[word], word))


def rare(ordered: Sequence[str]) -> list[str]:
    """The rare ones of a language's words, given in the order of :func:`words_of`."""
    return [word for word in ordered[_COMMON:] if len(word) >= _RARE_LETTERS]


def copy_of(document: LabelledAnswer, random: np.random.Generator) -> LabelledAnswer | None:
    """A document whose answer is three to six sentences of its reference in a row; ``None`` where it has fewer."""
    places, plan = _cut(document.reference, document.language)
    least, most = _SENTENCES
    if plan is None or len(plan.sentence_starts) < least:
        return None
    bounds = [*plan.sentence_starts.tolist(), len(places)]
    first = int(random.integers(len(bounds) - least))
    last = min(first + int(random.integers(least, most + 1)), len(bounds) - 1)
    end = min(bounds[last], bounds[first] + _LONGEST)
    answer = document.reference[places[bounds[first]][0] : places[end - 1][1]]
    return replace(document, answer=answer, annotations=COPIED, spans=(), soft=None)


def name_swapped(
    document: LabelledAnswer, names: Sequence[str], random: np.random.Generator, absent: bool = True
) -> LabelledAnswer | None:
    """A copy with one of its names swapped for another one, which is its span; ``None`` where that cannot be done.

    Args:
        document: from :func:`copy_of`.
        names: of its language, see :func:`names_of`.
        random: draws both names.
        absent: the new name is neither in the reference nor in the question; otherwise it is in the reference, but not in
            the answer.
    """
    known = frozenset(names)
    places = [(a, b) for a, b in _within_sentences(document.answer, document.language) if document.answer[a:b] in known]
    there = _tokens(document.reference)
    if absent:
        unfit = there | _tokens(document.question)
        candidates = names
    else:
        unfit = _tokens(document.answer)
        candidates = [name for name in names if normalise(name) in there]
    return _swapped(document, places, [candidates[at] for at in _drawn(len(candidates), random)], unfit, random)


def word_swapped(
    document: LabelledAnswer, candidates: Sequence[str], random: np.random.Generator
) -> LabelledAnswer | None:
    """A copy with a word without a capital swapped for a candidate that the reference lacks, which is its span."""
    answer = document.answer
    inside = [(a, b) for a, b in _within_sentences(answer, document.language) if answer[a:b].islower()]
    drawn = [candidates[at] for at in _drawn(len(candidates), random)]
    return _swapped(document, inside, drawn, _tokens(document.reference), random)


def number_swapped(document: LabelledAnswer, random: np.random.Generator) -> LabelledAnswer | None:
    """A copy with one of its numbers swapped for one of as many digits that neither reference nor question has."""
    answer = document.answer
    edges = bare(answer, words(answer, document.language)).tolist()
    places = [(a, b) for a, b in edges if answer[a:b].isdecimal() and 2 <= b - a <= 9]
    if not places:
        return None
    start, end = places[int(random.integers(len(places)))]
    low, high = 10 ** (end - start - 1), 10 ** (end - start)
    numbers = [str(number) for number in random.integers(low, high, _TRIES)]
    return _swapped(document, [(start, end)], numbers, _tokens(document.reference) | _tokens(document.question), random)


def _drawn(number: int, random: np.random.Generator) -> list[int]:
    drawn: list[int] = random.integers(number, size=_TRIES).tolist() if number else []
    return drawn


def _tokens(text: str) -> set[str]:
    return set(TOKEN.findall(normalise(text)))


def _swapped(
    document: LabelledAnswer,
    places: Sequence[tuple[int, int]],
    candidates: Sequence[str],
    unfit: set[str],
    random: np.random.Generator,
) -> LabelledAnswer | None:
    """One of some places with the first candidate that has no unfit token."""
    fit = next((word for word in candidates if not _tokens(word) & unfit), None)
    if fit is None or not places:
        return None
    start, end = places[int(random.integers(len(places)))]
    answer = document.answer[:start] + fit + document.answer[end:]
    return replace(document, answer=answer, spans=(Span(start, start + len(fit)),))
