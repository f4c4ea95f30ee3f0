"""Sentences and clauses of an answer, in words."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

__all__ = ["segment_starts"]

_CLOSERS = "\"'»«”“’)]）」』*"
_END = re.compile(rf"[.!?…؟۔。！？।][{re.escape(_CLOSERS)}]*(?:\[\d+\])*$")
_BREAK = re.compile(rf"[,;:،؛，；：、–—][{re.escape(_CLOSERS)}]*$|^[–—-]$")
# "1. Februar", "J. Smith", "z.B.": a point that ends no sentence.
_ABBREVIATION = re.compile(r"^[(\"„“«]*(?:\d{1,2}|\w|(?:\w\.)+\w)\.$")


def segment_starts(words: list[str], new_lines: list[bool]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Index of the first word of each sentence, and of each clause; a sentence's first word also begins a clause.

    Args:
        words: of the answer, with their punctuation.
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
