"""Reading and writing at their edges: labels, tags, and shares of few documents."""

from __future__ import annotations

import pytest

from custom_metrics.reading.spans import Span
from custom_metrics.reading.tagged_text import parse, render
from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER, nomiracl_label, robust_label
from lm_eval_tasks.mfava.annotations import ParseReport


@pytest.mark.parametrize(
    ("response", "strict"),
    [
        ("[1]", ANSWER),
        ("ab c [10]", ANSWER),  # nine characters
        ("abc d [10]", INVALID),  # ten
        ("Berlin", INVALID),
        ("", INVALID),
        (None, INVALID),
        (5, INVALID),
        ("The answer is present in [3].", ANSWER),
        ("The answer is not present.", NO_ANSWER),
        ("Yes, answer is present. I don't know", INVALID),
    ],
)
def test_strict_labels(response: object, strict: str) -> None:
    assert nomiracl_label(response) == strict  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("response", "label"),
    [
        ("I don't know. Yes, answer is present", NO_ANSWER),
        ("I don’t know", NO_ANSWER),
        ('"Yes, answer is present"', ANSWER),
        ("Yes, answer is present, or I don't know", INVALID),  # the instruction again, and nothing else
        ("I cannot say: Yes, answer is present", NO_ANSWER),
        ("Unable to say 'Yes, answer is present'.", NO_ANSWER),
        ("Question: Wo liegt Berlin?", INVALID),
        ("Wo liegt Berlin? An der Spree", ANSWER),
        ("<think>hm</think>Wo liegt Berlin?", INVALID),
        ("...", INVALID),
        (None, INVALID),
    ],
)
def test_robust_labels(response: str | None, label: str) -> None:
    assert robust_label(response, "de", "Wo liegt Berlin?", ("Berlin: a city", "Paris: a city")) == label


# ---------------------------------------------------------------------------------------------------------------- tags


@pytest.mark.parametrize(
    ("tagged", "text"),
    [("&lt;", "<"), ("&amp;lt;", "&lt;"), ("&amp;amp;lt;", "&amp;lt;"), ("&amp;", "&amp;"), ("&gt;", "&gt;")],
)
def test_an_escaped_bracket_loses_one_escape(tagged: str, text: str) -> None:
    assert parse(tagged) == (text, [])


@pytest.mark.parametrize(
    ("text", "tagged"),
    [
        ("a <b", "a &lt;b"),
        ("a < b", "a &lt; b"),
        ("a <", "a &lt;"),
        ("a <3", "a <3"),
        ("&lt;", "&amp;lt;"),
        ("&amp;lt;", "&amp;amp;lt;"),
        ("&amp;", "&amp;"),
    ],
)
def test_what_would_be_read_as_a_tag_is_escaped(text: str, tagged: str) -> None:
    assert render(text, []) == tagged
    assert render(text, [Span(0, len(text), "entity")]) == f"<entity>{tagged}</entity>"
    assert parse(tagged) == (text, [])


def test_tags_that_open_at_one_place_are_nested_the_longer_outside() -> None:
    spans = [Span(0, 2, "entity"), Span(0, 4, "relation"), Span(2, 4, "invented")]
    tagged = "<relation><entity>ab</entity><invented>cd</invented></relation>"
    assert render("abcd", spans) == render("abcd", spans[::-1]) == tagged
    assert parse(tagged) == ("abcd", sorted(spans))


def test_each_repair_counts() -> None:
    report = ParseReport()
    for _ in range(2):
        parse("a</entity> b</entity> <relation>c</entity> <invented>d</entity>", report)
    assert report.repaired == {"closing tag alone": 4, "closing tag of another category": 4}


# -------------------------------------------------------------------------------------------------------------- shares
