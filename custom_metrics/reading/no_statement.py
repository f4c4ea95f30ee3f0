"""Answers that can be read, but say nothing about the passages: refusals by policy, and word salad.

Both keep their place in the rates. A run with many of them is told so (:mod:`custom_metrics.broken_run`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache

from custom_metrics.abstention.folding import NO_SPACES, fold
from custom_metrics.usage import shipped_rows

_BEGINNING = 300  # characters
_WORDS = re.compile(r"[^\W\d_]+")
_FEWEST = 6  # words: fewer may be names that the passages do not have
_MOST_KNOWN = 1 / 4  # share of an answer's words that question, passages or English have
_STEM = 5  # letters by which a word is known: most languages inflect at the end
# Function words of the prompt's language, in which some models answer questions of any other.
_ENGLISH = frozenset(
    "the of and to in is are was were be been has have had it its this that these those a an i you he she they we there "
    "not no but or as at by for from on with about can could would do does did if so which who what when where how any all "
    "only also answer question context contexts passage passages document information provided given know yes based "
    "present mention mentioned sorry".split()
)


@cache
def _refusals() -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
    rows = shipped_rows("custom_metrics.reading", "refusals.tsv")
    return tuple((re.compile(row["refusal"]), re.compile(row["unless"])) for row in rows)


@lru_cache(maxsize=1024)  # models repeat themselves
def is_refusal(text: str) -> bool:
    """Whether an answer refuses by policy ("I'm sorry, but I cannot assist with that request."), in a language of
    ``refusals.tsv``, without a word on the passages."""
    start = text[:_BEGINNING].lower().replace("’", "'")
    return any(refusal.search(start) and not unless.search(start) for refusal, unless in _refusals())


@lru_cache(maxsize=1024)  # models repeat themselves
def _stems_of(text: str) -> frozenset[str]:
    return frozenset(word[:_STEM] for word in _WORDS.findall(fold(text, marks=True)))


def is_word_salad(text: str, question: str | None, passages: Sequence[str]) -> bool:
    """Whether next to no word of an answer is in its question, its passages or among the most common ones of English.

    Answers of fewer than six words, and those in scripts without spaces, are none.
    """
    words = _stems_of(text)
    if not question or not passages or len(words) < _FEWEST or NO_SPACES.search(text):
        return False
    unknown = words - _STEMS
    if len(unknown) <= (1 - _MOST_KNOWN) * len(words):
        return False
    unknown -= _stems_of("\n".join((question, *passages)))
    return len(unknown) > (1 - _MOST_KNOWN) * len(words)


_STEMS = frozenset(word[:_STEM] for word in _ENGLISH)
