"""Loops at their edges: how many copies, how long, how few different characters, and what may stand before them."""

from __future__ import annotations

import pytest

from custom_metrics.reading.no_answer import behind_prompt, no_answer

LONG = "Garten Himmel Donner Wasser Fenster Brücke Schnee Winter"  # 8 words, 57 characters
SHORT = [a + b for a in "bcdfghkl" for b in "aeiouäöü"]  # 64 words of two letters
TWO_LETTERS = "aababbabaabbbabaaabbabababbbaaab"  # 32 letters in no order
EIGHT_PAIRS = "srerrrersersesreresreesesersrsres"  # 33 letters
OF_ALL_LETTERS = (
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich während ihre Hunde laut bellen und Falken ruhig "
    "am Himmel kreisen doch niemand achtet auf Jockel Pyramus Qualle oder Xaver"  # 158 letters in more than 100 pairs
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f"{LONG} " * 4, "loop"),
        (f"{LONG} " * 4 + "Garten", "loop"),
        (f"{OF_ALL_LETTERS}, {OF_ALL_LETTERS}; *{OF_ALL_LETTERS}* {OF_ALL_LETTERS}.", "loop"),  # in other marks
        (" ".join(SHORT * 4), "loop"),
        (" ".join([*SHORT, "zz"] * 4), None),  # 65 words
        ("12 34 " * 4, None),
        ("12 34 " * 8, "loop"),
        ("* - " * 8, "empty"),
        ("XXXX", None),
        ("XXXXX", None),
        ("XXXXXX", "loop"),
        ("haha", None),
        ("hahahaha", "loop"),
        ("11111111111", None),
        ("111111111111", "loop"),
        (TWO_LETTERS, "loop"),
        (TWO_LETTERS[:-1], None),
        (EIGHT_PAIRS, None),  # a quarter of 32
        (f"{EIGHT_PAIRS}e", "loop"),
        (f"Paris. {TWO_LETTERS}", None),  # an answer stands before it
        ("kein Bild von hier rot blau gold rot blau gold rot blau gold rot blau gold", "loop"),
        ("Kein Bild von hier. rot blau gold rot blau gold rot blau gold rot blau gold", None),
        ("Rot blau gold. rot blau gold rot blau gold rot blau gold rot blau gold", "loop"),
        ("rot blau gold. kein Bild" + " rot blau gold" * 5, "loop"),  # its first sentence is of the loop
        ("kein Bild von" + " rot blau gold" * 3, None),  # three copies
        ("kein Bild * - / * - / * - / * - /", None),  # marks alone go round
    ],
)
def test_loops(text: str, kind: str | None) -> None:
    assert no_answer(text) == kind


def test_what_the_passages_repeat_is_an_answer() -> None:
    assert no_answer("Boom Boom Boom Boom", "Which song?", ("Boom Boom Boom Boom!!: a song",)) is None
    assert no_answer("(Boom Boom Boom Boom)", "Which song?", ("Boom Boom Boom Boom!!: a song",)) is None
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


@pytest.mark.parametrize(("letters", "copied"), [(41, True), (40, True), (39, False)])
def test_a_passage_is_copied_where_forty_characters_of_it_are(letters: int, copied: bool) -> None:
    passage = "Berlin: Berlin ist die Hauptstadt der Bundesrepublik Deutschland."
    text = f"[1] {passage[:letters]}_ \n[2] Bonn: eine Stadt"
    assert behind_prompt(text, "Was ist es?", (passage, "Bonn: eine Stadt")) == ("" if copied else text)
