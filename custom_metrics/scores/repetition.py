"""Answers that loop. The mFAVA paper (appendix A.7) found repeated words and sentences in one answer out of ten."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from custom_metrics.reading.words import words

__all__ = ["is_repetitive"]

_LONGEST_PERIOD = 64  # words
_COPIES = 4
_LOOP_WORDS = 12
_SENTENCE = re.compile(r"[^.!?。！？।۔؟\n]+")
_SENTENCE_COPIES = 3
_SENTENCE_LETTERS = 20  # letters and digits: "Yes." may be said thrice


def is_repetitive(text: str, language: str | None = None) -> bool:
    """Whether an answer runs in circles.

    It does in two cases: a run of up to 64 words is repeated four times or more (twelve words in all at the least), or one
    sentence (of twenty letters at the least) occurs three times.

    Args:
        text: the answer; case does not matter.
        language: decides what a word is, see :mod:`custom_metrics.reading.words`.
    """
    text = text.casefold()
    sentences = Counter("".join(filter(str.isalnum, sentence)) for sentence in _SENTENCE.findall(text))
    if any(count >= _SENTENCE_COPIES and len(s) >= _SENTENCE_LETTERS for s, count in sentences.items()):
        return True
    tokens = [text[start:end] for start, end in words(text, language)]
    if len(tokens) < _LOOP_WORDS:
        return False
    numbers = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    sequence = np.array([numbers[token] for token in tokens])
    for period in range(1, min(_LONGEST_PERIOD, len(sequence) // _COPIES) + 1):
        repeated = sequence[period:] == sequence[:-period]
        needed = max((_COPIES - 1) * period, _LOOP_WORDS - period)
        if _longest_run(repeated) >= needed:
            return True
    return False


def _longest_run(flags: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    breaks = np.flatnonzero(~flags)
    edges = np.concatenate(([-1], breaks, [len(flags)]))
    return int(np.max(np.diff(edges))) - 1
