"""Words, sentences and clauses of a text."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = ["Layout"]

_CLOSERS = "\"'»«”“’)]）」』*"
_END = re.compile(rf"[.!?…؟۔。！？।][{re.escape(_CLOSERS)}]*(?:\[\d+\])*$")
_BREAK = re.compile(rf"[,;:،؛，；：、–—][{re.escape(_CLOSERS)}]*$|^[–—-]$")
# "1. Februar", "J. Smith", "z.B.": a point that ends no sentence.
_ABBREVIATION = re.compile(r"^[(\"„“«]*(?:\d{1,2}|\w|(?:\w\.)+\w)\.$")
_ITEM_NUMBER = re.compile(r"^[*_(]*\d{1,2}[.):][*_]*$")


class Layout:
    """Words, sentences and clauses of a text.

    Args:
        text: with at least one word.
        places: first and end character of each word.

    Attributes:
        texts: the words, with their punctuation.
        n_words: number of them.
        sentence_of: (n_words,) number of each word's sentence.
        clause_of: (n_words,) number of each word's clause.
        sentence_starts: first word of each sentence; rising, begins with 0.
        clause_starts: first word of each clause.
        item_numbers: (n_words,) whether a word numbers the item of a list, and states nothing.
    """

    def __init__(self, text: str, places: list[tuple[int, int]]) -> None:
        self.texts = [text[start:end] for start, end in places]
        self.n_words = len(places)
        new_lines = [False] + ["\n" in text[before:after] for (_, before), (after, _) in pairwise(places)]
        self.item_numbers = np.array(
            [_ITEM_NUMBER.match(word) is not None and fresh for word, fresh in zip(self.texts, new_lines, strict=True)],
            np.bool_,
        )
        self.sentence_starts, self.clause_starts = _segment_starts(self.texts, new_lines)
        self.sentence_of = _numbers(self.sentence_starts, self.n_words)
        self.clause_of = _numbers(self.clause_starts, self.n_words)
        self.sentence_words = np.diff(self.sentence_starts, append=self.n_words)
        self.clause_words = np.diff(self.clause_starts, append=self.n_words)


def _segment_starts(words: list[str], new_lines: list[bool]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Index of the first word of each sentence, and of each clause; a sentence's first word also begins a clause.

    Args:
        words: with their punctuation.
        new_lines: whether a line feed stands before each word.
    """
    sentences = [0]
    clauses = [0]
    for index in range(1, len(words)):
        before = words[index - 1]
        if new_lines[index]:
            sentences.append(index)
        elif before[-1].isalnum():
            continue
        elif (
            _END.search(before)
            and not words[index][0].islower()
            and not (before[-1] == "." and _ABBREVIATION.match(before))
        ):
            sentences.append(index)
        elif _BREAK.search(before):
            pass
        else:
            continue
        clauses.append(index)
    return np.array(sentences, np.intp), np.array(clauses, np.intp)


def _numbers(starts: NDArray[np.intp], length: int) -> NDArray[np.intp]:
    first = np.zeros(length, np.intp)
    first[starts[1:]] = 1
    return np.cumsum(first)
