"""Reading and writing at their edges: labels, tags, and shares of few documents."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from custom_metrics.reading.spans import Span
from custom_metrics.reading.tagged_text import ParseReport, parse, render
from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER, nomiracl_label, robust_label
from custom_metrics.statistics.paired_shares import compare_share_groups, compare_shares, stratified_mcnemar
from tests.test_paired_statistics import table


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


def test_bounds_of_a_mean_over_equal_languages_fall_with_the_root_of_their_number() -> None:
    """On both sides, which differ here."""
    of_one = table(30, 12, 2, 6)
    one, four = compare_shares(*of_one), compare_share_groups([of_one] * 4)
    assert one.high - one.difference > one.difference - one.low
    assert four.difference == pytest.approx(one.difference)
    assert four.difference - four.low == pytest.approx((one.difference - one.low) / 2)
    assert four.high - four.difference == pytest.approx((one.high - one.difference) / 2)


def test_a_language_with_one_document_counts_as_much_as_another() -> None:
    z = (1 / 1 + 2 / 20) / math.sqrt(1 + 4 / 400)
    assert float(stratified_mcnemar([1, 3], [0, 1], [1, 20])) == pytest.approx(2 * stats.norm.sf(z))
    assert float(stratified_mcnemar([1, 3, 0], [0, 1, 0], [1, 20, 0])) == pytest.approx(2 * stats.norm.sf(z))
    assert float(stratified_mcnemar([0], [0], [5])) == 1.0
    found = compare_share_groups([table(0, 1, 0, 0), table(8, 3, 1, 8)])
    assert (found.first, found.second, found.n) == (pytest.approx((1 + 11 / 20) / 2), pytest.approx(9 / 40), 21)
    assert found.p == pytest.approx(2 * stats.norm.sf(z))
