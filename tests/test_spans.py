"""Spans: which lists are one, and which span a word is in."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from custom_metrics.reading.spans import HALLUCINATION, Span, covered, span_of


@pytest.mark.parametrize(
    ("value", "span"),
    [
        ([0, 4, "entity"], Span(0, 4, "entity", 1.0)),
        ((3, 3, "entity", 0), Span(3, 3, "entity", 0.0)),  # nothing at all, and surely fine
        ([np.int64(1), 2, "x", "0.5"], Span(1, 2, "x", 0.5)),
    ],
)
def test_a_list_is_a_span(value: Any, span: Span) -> None:
    found = span_of(value)
    assert found == span
    assert [type(part) for part in found] == [int, int, str, float]


FORM = "a span is [start, end, category] or [start, end, category, probability], got {}"
ORDER = "a span starts before it ends and not before 0, got {}"
SHARE = "a span's probability is between 0 and 1, got {}"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([0, 4], FORM),
        ([0, 4, "x", "much"], FORM),
        (["a", 4, "x"], FORM),
        ([math.inf, 4, "x"], FORM),
        ([1.5, 3, "x"], FORM),
        (["1", 2, "x"], FORM),
        ([0, True, "x"], FORM),
        ([0, 1, "x", 10**400], FORM),
        (None, FORM),
        ([4, 3, "x"], ORDER),
        ([-1, 3, "x"], ORDER),
        ([0, 4, "x", 1.1], SHARE),
        ([0, 4, "x", "nan"], SHARE),
    ],
)
def test_what_is_no_span_is_refused(value: Any, says: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(says.format(repr(value)))}$"):
        span_of(value)


@pytest.mark.parametrize(
    ("spans", "categories"),
    [
        ([Span(0, 20, "entity"), Span(5, 7, "invented")], ["entity", "invented", "entity", "entity"]),
        ([Span(5, 7, "invented"), Span(0, 20, "entity")], ["entity", "invented", "entity", "entity"]),
        ([Span(0, 3, "a"), Span(2, 20, "b")], ["a", "b", "b", "b"]),  # the shorter one, though it starts before
        ([Span(0, 12, "b"), Span(11, 14, "a")], ["b", "b", "a", None]),  # the shorter one, though it ends after
        ([Span(5, 9, "b"), Span(6, 10, "a")], [None, "a", None, None]),  # of equal ones the later
        ([Span(4, 5)], [None, None, None, None]),  # between two words
        ([Span(3, 6)], [HALLUCINATION, HALLUCINATION, None, None]),
        ([Span(14, 16)], [None, None, None, HALLUCINATION]),
    ],
)
def test_a_word_is_in_the_shortest_span_with_a_character_of_it(spans: list[Span], categories: list[str | None]) -> None:
    words = [(0, 4), (5, 9), (10, 14), (15, 19)]
    assert covered(words, spans) == categories
