"""Loops at their edges: how many copies, how long, how few different characters, and what may stand before them."""

from __future__ import annotations

import pytest

from custom_metrics.no_answer import behind_prompt, no_answer

LONG = "Garten Himmel Donner Wasser Fenster Brücke Schnee Winter"  # 8 words, 57 characters
SHORT = [a + b for a in "bcdfghkl" for b in "aeiouäöü"]  # 64 words of two letters
TWO_LETTERS = "aababbabaabbbabaaabbabababbbaaab"  # 32 letters in no order


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f"{LONG} " * 4, "loop"),
        (f"{LONG} " * 4 + "Garten", "loop"),
        (" ".join(SHORT * 4), "loop"),
        (" ".join([*SHORT, "zz"] * 4), None),  # 65 words
        ("12 34 " * 4, None),
        ("12 34 " * 8, "loop"),
        ("* - " * 8, "empty"),
        ("XXXXX", None),
        ("XXXXXX", "loop"),
        ("haha", None),
        ("hahahaha", "loop"),
        ("11111111111", None),
        ("111111111111", "loop"),
        (TWO_LETTERS, "loop"),
        (TWO_LETTERS[:-1], None),
        (f"Paris. {TWO_LETTERS}", None),  # an answer stands before it
        ("kein Bild von hier rot blau gold rot blau gold rot blau gold rot blau gold", "loop"),
        ("Kein Bild von hier. rot blau gold rot blau gold rot blau gold rot blau gold", None),
        ("Rot blau gold. rot blau gold rot blau gold rot blau gold rot blau gold", "loop"),
        ("kein Bild * - / * - / * - / * - /", None),  # marks alone go round
    ],
)
def test_loops(text: str, kind: str | None) -> None:
    assert no_answer(text) == kind


def test_what_the_passages_repeat_is_an_answer() -> None:
    assert no_answer("Boom Boom Boom Boom", "Which song?", ("Boom Boom Boom Boom!!: a song",)) is None
    assert no_answer("Boom Boom Boom Boom", "Which song?", ("Bum: a song",)) == "loop"


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("[1] Berlin: a city\n[2] Rom: a city", ""),  # the passages copied
        ("[1] Berlin: a town\n[2] Rom: a city", "[1] Berlin: a town\n[2] Rom: a city"),  # in its own words
        ("[1] Berlin: a city", "[1] Berlin: a city"),  # one alone is quoted
        ("[2] Rom: a city\n[2]", "[2] Rom: a city\n[2]"),
        ("[3] Paris: a city", ""),  # the next one
        ("[3] Paris: a city\nOUTPUT: Rom", "Rom"),
        ("[3] Paris: a city. Yes, answer is present", "Yes, answer is present"),
        ("What is it? [1] Berlin: a city", "[1] Berlin: a city"),
        ("CONTEXTS: [1] Berlin: a city", ""),
        ("What is it? Rom", "Rom"),
        ("QUESTION: Who? Rom", ""),
        ("OUTPUT: Rom", "Rom"),
        ("Rom", "Rom"),
    ],
)
def test_what_stands_behind_the_prompt(text: str, rest: str) -> None:
    assert behind_prompt(text, "What is it?", ("Berlin: a city", "Rom: a city")) == rest
