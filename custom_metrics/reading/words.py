"""The words that hallucination is counted in: white space, and segmenters for scripts without it.

jieba cuts Chinese and Cantonese, janome Japanese, as in the mFAVA paper's public code. A word keeps its punctuation.
"""

from __future__ import annotations

import logging
import re
from functools import cache
from typing import Any

from custom_metrics.usage.printable import SURROGATE

SEGMENTERS = {"zh": "jieba", "yue": "jieba", "ja": "janome"}  # without spaces between words
_RUN = re.compile(r"\S+")
# The segmenters' time grows faster than the text where no space breaks it, and answers loop: longer runs are cut.
_LONGEST_RUN = 2_000


def segmenter(language: str | None) -> str:
    """The segmenter of a language: ``whitespace``, ``jieba`` or ``janome``."""
    return SEGMENTERS.get(language or "", "whitespace")


def words(text: str, language: str | None = None) -> list[tuple[int, int]]:
    """The words of a text as (start, end) in characters; none is empty or holds white space."""
    runs = [run.span() for run in _RUN.finditer(text)]
    name = segmenter(language)
    if name == "whitespace":
        return runs
    cut = _cutter(name)
    spans: list[tuple[int, int]] = []
    for run_start, run_end in runs:
        for start in range(run_start, run_end, _LONGEST_RUN):
            at = start
            for word in cut(text[start : min(run_end, start + _LONGEST_RUN)]):
                spans.append((at, at + len(word)))
                at += len(word)
    return spans


@cache
def _cutter(name: str) -> Any:
    if name == "jieba":
        import jieba

        jieba.setLogLevel(logging.WARNING)  # it prints how long its dictionary took to load
        return jieba.lcut
    from janome.tokenizer import Tokenizer

    tokenizer = Tokenizer(wakati=True)
    # It encodes what it reads; halves of surrogate pairs cannot be, and stand for a character each.
    return lambda text: list(tokenizer.tokenize(SURROGATE.sub("\ufffd", text)))
