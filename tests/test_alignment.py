"""Spans carried from a copy to its original: by characters, and by words where the texts are long."""

from __future__ import annotations

import pytest

from custom_metrics.reading import tagged_text
from custom_metrics.reading.spans import Span
from custom_metrics.reading.tagged_text import Alignment, ParseReport, align, parse, render

ORIGINAL = "Die Donau ist 2850 km lang und mündet ins Meer"


@pytest.mark.parametrize(
    ("text", "spans", "expected"),
    [
        (ORIGINAL, [Span(14, 18, "entity", 0.5)], Alignment([Span(14, 18, "entity", 0.5)], "identical", 1.0)),
        (
            "Die  Donau ist\n2850 km lang und mündet ins Meer",
            [Span(15, 19, "entity", 0.5), Span(3, 5)],  # the second is white space alone
            Alignment([Span(14, 18, "entity", 0.5)], "white space", 1.0),
        ),
        ("", [], Alignment([], "lost", 0.0)),
        ("qqq xyz", [Span(0, 3)], Alignment([], "lost", 0.0)),
    ],
)
def test_a_copy_is_identical_or_differs_in_white_space_or_is_lost(
    text: str, spans: list[Span], expected: Alignment
) -> None:
    assert align(text, spans, ORIGINAL) == expected


def test_two_empty_texts_and_two_of_white_space_are_alike() -> None:
    assert align("", [], "") == Alignment([], "identical", 1.0)
    assert align(" ", [Span(0, 1)], "\n\n") == Alignment([], "white space", 1.0)


@pytest.mark.parametrize("characters", [20_000, 0])
def test_an_edited_copy_has_its_spans_where_their_words_are(characters: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of comparing, by characters and by words, find whole words that stayed."""
    monkeypatch.setattr(tagged_text, "_CHARACTERS_AT_MOST", characters)
    copy = "Hier: Die Donau ist 2850 km lang ins Meer"
    found = align(
        copy,
        [Span(10, 15, "entity"), Span(20, 27, "invented"), Span(0, 5, "subjective"), Span(28, 36, "relation")],
        ORIGINAL,
    )
    assert found.kind == "edited"
    assert found.spans == [Span(4, 9, "entity"), Span(14, 21, "invented"), Span(22, 41, "relation")]
    assert found.similarity == pytest.approx(2 * 28 / (33 + 37))


@pytest.mark.parametrize(("letters", "by_words"), [(10, False), (11, True)])
def test_texts_of_over_twenty_thousand_characters_are_compared_word_by_word(letters: int, by_words: bool) -> None:
    """A word with another last letter is mostly the same by characters, and another one by words."""
    filler = "abcde " * 1998
    mine, theirs = (f"{filler}{'k' * (letters - 1)}{last}" for last in "no")
    found = align(mine, [Span(len(filler), len(mine))], theirs)
    assert found.spans == ([] if by_words else [Span(len(filler), len(mine) - 1)])


def test_half_of_the_characters_in_common_are_enough() -> None:
    assert align("abcd", [Span(0, 2)], "abxy") == Alignment([Span(0, 2)], "edited", 0.5)
    assert align("abcde", [Span(0, 2)], "abxyz").kind == "lost"


def test_every_empty_span_and_every_bad_probability_is_counted() -> None:
    report = ParseReport()
    text, spans = parse(
        "<entity></entity>a<entity></entity><invented probability='2'>b</invented><invented probability=x>c</invented>",
        report,
    )
    assert (text, spans) == ("abc", [Span(1, 2, "invented"), Span(2, 3, "invented")])
    assert report.repaired == {"empty span": 2, "probability that is none": 2}


@pytest.mark.parametrize(
    ("probability", "tag"),
    [(1.0, "<entity>"), (0.5, '<entity probability="0.5">'), (0.0, '<entity probability="0.0">')],
)
def test_a_probability_is_written_where_it_is_under_one(probability: float, tag: str) -> None:
    spans = [Span(0, 1, "entity", probability)]
    assert render("ab", spans) == f"{tag}a</entity>b"
    report = ParseReport()
    assert parse(f"{tag}a</entity>b", report) == ("ab", spans)
    assert parse('<entity probability="1.0">a</entity>b', report) == ("ab", [Span(0, 1, "entity")])
    assert not report.repaired
