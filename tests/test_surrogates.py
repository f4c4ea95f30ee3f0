"""Halves of surrogate pairs: joined where they belong together, replaced where they stand alone, all else as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from custom_metrics.reading.surrogates import without_surrogates


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("", ""),
        ("Berlin", "Berlin"),
        ("Bär 猫 \U0001f600", "Bär 猫 \U0001f600"),
        ("\ud83d\ude00", "\U0001f600"),
        ("ä\ud83d", "ä\ufffd"),
        ("\ude00猫", "\ufffd猫"),
        ("a\ud800b\udfffc", "a\ufffdb\ufffdc"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
    ],
)
def test_halves_are_joined_or_replaced(text: str, clean: str) -> None:
    assert without_surrogates(text) == clean


@given(st.text(st.characters(exclude_categories=())))
def test_every_text_can_be_written_then(text: str) -> None:
    clean = without_surrogates(text)
    assert clean.encode("utf-8").decode("utf-8") == clean
    assert without_surrogates(clean) == clean


@given(st.text())
def test_a_text_that_can_be_written_stays_the_same_object(text: str) -> None:
    """Of a long answer, nothing is copied."""
    assert without_surrogates(text) is text
