"""Answers copied from their reference with one word swapped, for training.

In annotated answers an absent name stands among other absent words. Only in copies is it the only one.
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
from detector_plugin.lexical import strip_punctuation
from detector_plugin.lexical.reference import TOKEN, normalise
from detector_plugin.sentences import Layout

COPIED = "copied"
"""Annotations of the answers that are made here."""

_SENTENCES = 3, 6  # of a copy
_LONGEST = 160  # words of a copy: a table of a page counts as one sentence
_LETTERS = 3  # of a name, at the least
_CAPITALISES_NOUNS = frozenset({"de", "lb"})
_COMMON, _RARE_LETTERS = 3_000, 5  # a word is rare that is not one of the commonest, and has as many letters
_TRIES = 50  # to draw a word that fits


def seeded_generator(seeds: Sequence[int], *content: str) -> np.random.Generator:
    """A generator of random numbers that depend on seeds and texts alone."""
    digest = hashlib.sha256("\0".join(content).encode("utf-8", "surrogatepass")).digest()
    return np.random.default_rng([*seeds, *digest])


@lru_cache(maxsize=64)
def _words_and_layout(text: str, language: str) -> tuple[list[tuple[int, int]], Layout | None]:
    """The words of a text, and its sentences where it has words."""
    places = words(text, language)
    return places, Layout(text, places) if places else None


def _within_sentences(text: str, language: str) -> list[tuple[int, int]]:
    """(start, end) of the words that begin no sentence, without quotes and punctuation around them."""
    places, layout = _words_and_layout(text, language)
    if layout is None:
        return []
    edges = strip_punctuation(text, places).tolist()
    first = set(layout.sentence_starts.tolist())
    return [(start, end) for number, (start, end) in enumerate(edges) if number not in first]


def collect_names(texts: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """The names in the texts of each language: words that have a capital within sentences, and never lack it.

    Where common nouns have capitals, too (German), a name is a word that texts of other languages capitalise as well.
    """
    upper: dict[str, set[str]] = {}
    lower: dict[str, set[str]] = {}
    for language, language_texts in texts.items():
        upper[language], lower[language] = set(), set()
        for text in language_texts:
            # Behind a word without punctuation: not behind a quote, a colon or a heading.
            inner = (text[a:b] for a, b in _within_sentences(text, language) if text[max(a - 2, 0) : a - 1].isalnum())
            upper[language].update(w for w in inner if len(w) >= _LETTERS and w.istitle() and w.isalpha())
            lower[language].update(token for token in TOKEN.findall(text) if token[0].islower())
    others = [language for language in upper if language not in _CAPITALISES_NOUNS]
    names = {}
    for language, capitalised in upper.items():
        evidence = others if language in _CAPITALISES_NOUNS else [language]
        elsewhere = set().union(*(upper[other] for other in evidence))
        common = set().union(lower[language], *(lower[other] for other in evidence))
        names[language] = sorted(word for word in capitalised & elsewhere if word.lower() not in common)
    return names


def words_by_frequency(texts: Iterable[str]) -> list[str]:
    """Lower-case words, sorted by the number of texts that have them, the most frequent first."""
    number: Counter[str] = Counter()
    for text in texts:
        number.update({token for token in TOKEN.findall(text) if token.islower() and token.isalpha()})
    return sorted(number, key=lambda word: (-number[word], word))


def rare_words(ordered: Sequence[str]) -> list[str]:
    """The rare words of a language, from its :func:`words_by_frequency`."""
    return [word for word in ordered[_COMMON:] if len(word) >= _RARE_LETTERS]


def draw_copy(document: LabelledAnswer, random: np.random.Generator) -> LabelledAnswer | None:
    """A document with three to six consecutive sentences of its reference as the answer; ``None`` where it has fewer."""
    places, layout = _words_and_layout(document.reference, document.language)
    least, most = _SENTENCES
    if layout is None or len(layout.sentence_starts) < least:
        return None
    bounds = [*layout.sentence_starts.tolist(), len(places)]
    first = int(random.integers(len(bounds) - least))
    last = min(first + int(random.integers(least, most + 1)), len(bounds) - 1)
    end = min(bounds[last], bounds[first] + _LONGEST)
    answer = document.reference[places[bounds[first]][0] : places[end - 1][1]]
    return replace(document, answer=answer, annotations=COPIED, spans=(), soft=None)


def swap_name(document: LabelledAnswer, names: Sequence[str], random: np.random.Generator) -> LabelledAnswer | None:
    """A copy with one name within a sentence replaced by another, which is its only span; ``None`` where it has none.

    Args:
        document: from :func:`draw_copy`.
        names: of its language, see :func:`collect_names`; the new one is neither in the reference nor in the question.
        random: draws both names.
    """
    known = frozenset(names)
    edges = _within_sentences(document.answer, document.language)
    places = [(start, end) for start, end in edges if document.answer[start:end] in known]
    excluded = _tokens(document.reference) | _tokens(document.question)
    return _swap(document, places, [names[at] for at in _draw_indices(len(names), random)], excluded, random)


def swap_word(
    document: LabelledAnswer, candidates: Sequence[str], random: np.random.Generator
) -> LabelledAnswer | None:
    """A copy with one lower-case word replaced by a candidate that the reference lacks, which is its only span."""
    answer = document.answer
    places = [(a, b) for a, b in _within_sentences(answer, document.language) if answer[a:b].islower()]
    drawn = [candidates[at] for at in _draw_indices(len(candidates), random)]
    return _swap(document, places, drawn, _tokens(document.reference), random)


def swap_number(document: LabelledAnswer, random: np.random.Generator) -> LabelledAnswer | None:
    """A copy with one number replaced by another of as many digits that neither reference nor question has."""
    answer = document.answer
    edges = strip_punctuation(answer, words(answer, document.language)).tolist()
    places = [(a, b) for a, b in edges if answer[a:b].isdecimal() and 2 <= b - a <= 9]
    if not places:
        return None
    start, end = places[int(random.integers(len(places)))]
    low, high = 10 ** (end - start - 1), 10 ** (end - start)
    numbers = [str(number) for number in random.integers(low, high, _TRIES)]
    return _swap(document, [(start, end)], numbers, _tokens(document.reference) | _tokens(document.question), random)


def _draw_indices(number: int, random: np.random.Generator) -> list[int]:
    drawn: list[int] = random.integers(number, size=_TRIES).tolist() if number else []
    return drawn


def _tokens(text: str) -> set[str]:
    return set(TOKEN.findall(normalise(text)))


def _swap(
    document: LabelledAnswer,
    places: Sequence[tuple[int, int]],
    candidates: Sequence[str],
    excluded: set[str],
    random: np.random.Generator,
) -> LabelledAnswer | None:
    """A copy with one of some places, drawn, replaced by the first candidate without an excluded token."""
    replacement = next((word for word in candidates if not _tokens(word) & excluded), None)
    if replacement is None or not places:
        return None
    start, end = places[int(random.integers(len(places)))]
    answer = document.answer[:start] + replacement + document.answer[end:]
    return replace(document, answer=answer, spans=(Span(start, start + len(replacement)),))
