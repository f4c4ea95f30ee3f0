"""Why an answer was read as an abstention, or why not: the patterns and words of the tables that stand in it."""

from __future__ import annotations

from collections.abc import Iterator

from custom_metrics.abstention import sentences_of
from custom_metrics.matching import Found
from custom_metrics.phrases import Lexicon


def matches(text: str, lexicon: Lexicon) -> Iterator[Found]:
    """The patterns that stand in a text, sentence by sentence, and where."""
    for sentence in sentences_of(text, lexicon):
        trace: list[Found] = []
        lexicon.search(sentence, trace)
        yield from trace
