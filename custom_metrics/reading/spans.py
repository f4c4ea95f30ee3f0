"""Spans of a text that a detector or an annotator marks as hallucinated, and their categories."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from operator import index
from typing import Any, NamedTuple

CATEGORIES = ("entity", "relation", "invented", "contradictory", "unverifiable", "subjective")
"""The hallucination types of FAVA (Mishra et al. 2024), in the order of the mFAVA paper's Table 2."""

HALLUCINATION = "hallucination"  # category of a span of a detector that knows no categories
SUPPORTED, NOT_SUPPORTED = "Supported", "Not Supported"  # labels of a sentence that people, or a judge, have judged


class Span(NamedTuple):
    """Part of a text: the characters from `start` up to, not including, `end`, and what is wrong with them."""

    start: int
    end: int
    category: str = HALLUCINATION  # or one of CATEGORIES
    probability: float = 1.0  # that something is wrong with them; 1 where a detector gives none


def span_of(value: Sequence[object]) -> Span:
    """The span of a list, as JSON and Arrow hold it. Files of earlier versions have three values. ValueError unless it is
    ``[start, end, category]`` or ``[start, end, category, probability]`` with whole numbers ``0 <= start <= end`` (not 2.0,
    not true) and a probability in [0, 1]."""
    try:
        start, end, category, *probability = value
        if isinstance(start, bool) or isinstance(end, bool):
            raise TypeError
        span = Span(index(start), index(end), str(category), *map(float, probability))  # type: ignore[arg-type]
        if not 0 <= span.start <= span.end or not 0 <= span.probability <= 1:  # nan neither
            raise ValueError
    except (TypeError, ValueError, OverflowError):  # the last of a probability of 400 digits
        raise ValueError(
            "a span is [start, end, category] or [start, end, category, probability] with 0 <= start <= end and a "
            f"probability from 0 to 1, got {value!r}"
        ) from None
    return span


def as_columns(spans: Iterable[Span]) -> list[dict[str, Any]]:
    """Spans as documents hold them: ``start``, ``end`` and ``category``."""
    return [{"start": span.start, "end": span.end, "category": span.category} for span in spans]


def from_columns(columns: Iterable[Mapping[str, Any]]) -> list[Span]:
    """The inverse of :func:`as_columns`; errors are those of :func:`span_of`."""
    return [span_of([span["start"], span["end"], span["category"]]) for span in columns]


def without_space(text: str, start: int, end: int) -> tuple[int, int]:
    """First and end character of a part of a text without the white space at its ends."""
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    return start, start + len(part.strip())


def covered(words: Sequence[tuple[int, int]], spans: Iterable[Span]) -> list[str | None]:
    """The category of each word: that of the shortest span any of its characters is in; ``None`` outside all spans.

    Words are (start, end) in characters, in order and not overlapping; spans are in any order and may overlap.
    """
    starts, ends = [start for start, _ in words], [end for _, end in words]
    categories: list[str | None] = [None] * len(words)
    # The longest first, so that a shorter one inside it has the last word.
    for span in sorted(spans, key=lambda s: (s.start - s.end, s.start)):
        for place in range(bisect_right(ends, span.start), bisect_left(starts, span.end)):
            categories[place] = span.category
    return categories


def probabilities(words: Sequence[tuple[int, int]], spans: Sequence[Span]) -> list[float]:
    """The probability of each word: that of the span that :func:`covered` finds, 0 outside all spans."""
    numbers = covered(words, (span._replace(category=str(number)) for number, span in enumerate(spans)))
    return [0.0 if number is None else spans[int(number)].probability for number in numbers]
