"""The words, sentences and clauses of a text."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from custom_metrics.reading.spans import without_space
from custom_metrics.reading.words import words

_CLOSERS = "\"'»«”“’)]）」』*"
_END = re.compile(rf"[.!?…؟۔。！？।][{re.escape(_CLOSERS)}]*(?:\[\d+\])*$")
_BREAK = re.compile(rf"[,;:،؛，；：、–—][{re.escape(_CLOSERS)}]*$|^[–—-]$")
# "1. Februar", "J. Smith", "z.B.": a point that ends no sentence.
_ABBREVIATION = re.compile(r"^[(\"„“«]*(?:\d{1,2}|\w|(?:\w\.)+\w)\.$")
_ITEM_NUMBER = re.compile(r"^[*_(]*\d{1,2}[.):][*_]*$")


class Layout:
    """Words, sentences and clauses of a text with at least one word; `places` are each word's first and end character."""

    def __init__(self, text: str, places: list[tuple[int, int]]) -> None:
        self.texts = [text[start:end] for start, end in places]  # with their punctuation
        self.n_words = len(places)
        new_lines = _new_lines(text, places)
        # (n_words,) whether a word numbers the item of a list, and states nothing
        self.item_numbers = np.array(
            [_ITEM_NUMBER.match(word) is not None and fresh for word, fresh in zip(self.texts, new_lines, strict=True)],
            np.bool_,
        )
        # first word of each, rising from 0; numbers of words; (n_words,) number of each word's
        self.sentence_starts, self.clause_starts = _segment_starts(self.texts, new_lines)
        self.sentence_words = np.diff(self.sentence_starts, append=self.n_words)
        self.clause_words = np.diff(self.clause_starts, append=self.n_words)
        self.sentence_of = np.repeat(np.arange(len(self.sentence_starts)), self.sentence_words)
        self.clause_of = np.repeat(np.arange(len(self.clause_starts)), self.clause_words)


def _new_lines(text: str, places: list[tuple[int, int]]) -> list[bool]:
    """Whether a line ends before a word, for each."""
    return [False] + ["\n" in text[before:after] for (_, before), (after, _) in pairwise(places)]


def _segment_starts(words: list[str], new_lines: list[bool]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Index of the first word of each sentence, and of each clause; a sentence's first word also begins a clause."""
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


def sentence_bounds(answer: str, language: str | None) -> list[tuple[int, int]]:
    """First and end character of each sentence of an answer that is not blank, without white space at its ends."""
    places = words(answer, language)
    texts = [answer[start:end] for start, end in places]
    starts = _segment_starts(texts, _new_lines(answer, places))[0].tolist()
    edges = [0, *(places[word][0] for word in starts[1:]), len(answer)]
    return [without_space(answer, *edge) for edge in pairwise(edges)]
