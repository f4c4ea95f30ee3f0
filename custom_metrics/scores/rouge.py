"""ROUGE-1 and ROUGE-L with the values of the `rouge_score` package (no stemming), at a small part of its cost.

Tokens and formulas are those of the package. It is faster because each text is tokenised once, and rapidfuzz's bit-parallel
algorithm finds the longest common subsequence.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

from custom_metrics.reading.words import words

__all__ = ["Score", "rouge1", "rouge1_of_all", "rouge_l", "tokens", "word_tokens"]

_TOKEN = re.compile(r"[a-z0-9]+")


class Score(NamedTuple):
    """Shares in [0, 1], as in ``rouge_score.scoring.Score``."""

    precision: float
    recall: float
    fmeasure: float


@lru_cache(maxsize=1024)
def tokens(text: str) -> tuple[str, ...]:
    """Lower-cased runs of ASCII letters and digits: the tokens of ``rouge_score`` without a stemmer."""
    return tuple(_TOKEN.findall(text.lower()))


@lru_cache(maxsize=1024)
def word_tokens(text: str, language: str | None = None) -> tuple[str, ...]:
    """Lower-cased words of any script (:func:`custom_metrics.reading.words.words`), without punctuation and symbols.
    Accents and vowel signs count."""
    text = unicodedata.normalize("NFC", text.lower())
    found = []
    for start, end in words(text, language):
        word = "".join(c if unicodedata.category(c)[0] in "LMN" else " " for c in text[start:end])
        found += word.split()
    return tuple(found)


def rouge1(target: str, prediction: str) -> Score:
    """Unigram overlap: precision over the prediction's tokens, recall over the target's."""
    return rouge1_of_all((target,), prediction)


def rouge1_of_all(targets: Iterable[str], prediction: str, tokenize: Callable[[str], Iterable[str]] = tokens) -> Score:
    """Unigram overlap with several texts together: :func:`rouge1` with the texts joined by white space."""
    wanted: Counter[str] = Counter()
    for target in targets:
        wanted.update(tokenize(target))
    given = tuple(tokenize(prediction))
    overlap = sum(min(number, wanted[token]) for token, number in Counter(given).items())
    return _score(overlap, wanted.total(), len(given))


def rouge_l(target: str, prediction: str) -> Score:
    """Longest common subsequence of tokens: precision over the prediction's, recall over the target's."""
    from rapidfuzz.distance import LCSseq

    wanted, given = tokens(target), tokens(prediction)
    return _score(LCSseq.similarity(wanted, given), len(wanted), len(given))


def _score(common: int, wanted: int, given: int) -> Score:
    precision = common / max(given, 1)
    recall = common / max(wanted, 1)
    total = precision + recall
    return Score(precision, recall, 2 * precision * recall / total if total > 0 else 0.0)
