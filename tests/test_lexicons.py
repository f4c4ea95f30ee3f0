"""What is compiled from phrase tables beside their patterns: folding, words, answer markers, and the guess of a language.

Most on small tables of made-up languages, so that each rule stands alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from custom_metrics.abstention import phrases as of_tables
from custom_metrics.abstention.phrases import build_lexicon, likely_languages


def table(**changed: Any) -> dict[str, Any]:
    """A table with nothing but what a test names."""
    return {"language": "xx", "name": "X", **changed}


# the fold of a lexicon


@pytest.mark.parametrize(
    ("changed", "text", "folded"),
    [
        ({}, "Ọjọ́  KẸTA", "ọjọ́ kẹta"),
        ({"fold_marks": False}, "Ọjọ́  KẸTA", "ọjọ́ kẹta"),
        ({"fold_marks": True}, "Ọjọ́  KẸTA", "ojo keta"),
        ({"same": "дd аa"}, "Да, da", "da, da"),
        ({"same": "љlj џdž"}, "Људи, УЏБЕНИК", "ljуди, уdžбеник"),
        ({"same": "x"}, "Cxu ŝi scias?", "cu ŝi scias?"),  # a character alone is dropped
        ({"same": "x", "fold_marks": True}, "Cxu ŝi scias?", "cu si scias?"),
        ({"same": "]a ^b -c"}, "\\ ] ^ - [ ,", "\\ a b c [ ,"),  # characters that a class of characters reads otherwise
        ({"same": "дd"}, "nothing to respell", "nothing to respell"),
    ],
)
def test_a_text_is_folded_as_its_table_says(changed: dict[str, Any], text: str, folded: str) -> None:
    assert build_lexicon([table(**changed)]).fold(text) == folded


@pytest.mark.parametrize("changed", [{"fold_marks": True}, {"same": "дd аa"}, {"fold_marks": True, "same": "x"}])
def test_phrases_and_words_are_folded_as_texts_are(changed: dict[str, Any]) -> None:
    text = "Да, Ọjọ́ Cxu"
    lexicon = build_lexicon([table(abstains=[text], yes=[text], no=[text], answer_marker=[text], **changed)])
    folded = lexicon.fold(text)
    assert lexicon.search(folded) == {"abstains": [(0, len(folded))]}
    assert lexicon.yes == lexicon.no == (folded,)
    assert lexicon.answer_marker.fullmatch(f"{folded}:")


def test_the_first_table_says_how_all_are_folded() -> None:
    english = table(abstains=["café"], yes=["Évet"], fold_marks=True, same="x")
    lexicon = build_lexicon([table(same="дd"), english])
    assert lexicon.fold("дx") == "dx"
    assert lexicon.yes == ("évet",)
    assert lexicon.search(lexicon.fold("Café")) == {"abstains": [(0, 4)]}
    assert lexicon.search("cafe") == {}


# yes, no, and what introduces an answer


@pytest.mark.parametrize("key", ["yes", "no"])
@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (["Ja", "jawohl"], ["Yes"], ("ja", "jawohl", "yes")),  # in the order of the tables
        (["ja", "JA", "ja!"], ["Ja."], ("ja",)),  # each once
        ([" ¿Sí? ", "oh, no\n"], ["«yes»"], ("sí", "oh, no", "yes")),  # without marks at their ends
        (["", "?!", " "], ["**"], ()),  # of marks alone nothing is left
    ],
)
def test_words_are_folded_and_listed_once(
    key: str, first: list[str], second: list[str], words: tuple[str, ...]
) -> None:
    lexicon = build_lexicon([table(**{key: first}), table(**{key: second})])
    assert {"yes": lexicon.yes, "no": lexicon.no} == {"yes": (), "no": (), key: words}


@pytest.mark.parametrize(
    ("text", "introduced"),
    [
        ("answer: four", "four"),
        ("answer : four", "four"),
        ("answer:four", "four"),
        ("answer  : four", None),  # one blank at most, as texts are folded
        ("answer:  four", " four"),
        ("answer, four", None),
        ("answer four", None),
        ("answer in short: four", "four"),  # a marker that begins with another
        ("final answer: four", "four"),  # a marker that ends with another
        ("c++ (or c) says: four", "four"),
        ("so: four", "four"),  # of the second table
        ("ccc or c says: four", None),  # a marker is no regular expression
        ("concluding: four", None),
    ],
)
def test_an_answer_marker_is_a_word_before_a_colon(text: str, introduced: str | None) -> None:
    first = table(answer_marker=["Answer", "Final answer", "answer in short", "C++ (or C) says"])
    lexicon = build_lexicon([first, table(answer_marker=["so", "¡answer!"])])
    found = lexicon.answer_marker.search(text)
    assert (text[found.end() :] if found else None) == introduced


# the guess of a language

Guess = Callable[..., tuple[str, ...]]


@pytest.fixture
def guess(monkeypatch: pytest.MonkeyPatch) -> Iterator[Guess]:
    """The languages that a text looks like, among tables of these words; a code in capitals ignores marks."""

    def guessed(text: str, **words: list[str]) -> tuple[str, ...]:
        tables = {code.lower(): table(yes=listed, fold_marks=code.isupper()) for code, listed in words.items()}
        monkeypatch.setattr(of_tables, "LANGUAGES", tuple(tables))
        monkeypatch.setattr(of_tables, "phrase_table", tables.__getitem__)
        of_tables._all_words.cache_clear()
        return likely_languages(text)

    yield guessed
    of_tables._all_words.cache_clear()


@pytest.mark.parametrize(
    ("text", "likely"),
    [
        ("", ("en",)),
        ("42 mice", ("en",)),
        ("a cat", ("aa",)),
        ("a horse and a cat", ("bb", "aa")),  # the one with most characters first
        ("cat, horse, cat", ("aa", "bb")),  # each time counts: 6 and 5
        ("dog and cat", ("aa", "cc")),  # as many: by their codes
        ("dog, elephant, horse and cat", ("dd", "bb")),  # two at most
        ("the same", ("aa", "bb")),  # a word of several languages
        ("no good idea", ("en",)),  # a phrase counts as a whole
        ("no idea", ("aa",)),
    ],
)
def test_a_text_is_of_the_languages_whose_words_it_holds(guess: Guess, text: str, likely: tuple[str, ...]) -> None:
    tables = {"dd": ["elephant"], "cc": ["dog"], "bb": ["same", "horse"], "aa": ["cat", "same", "no idea"]}
    assert guess(text, **tables) == likely


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("dog", True),
        ("dogs", False),  # three characters are no stem
        ("underdog", False),
        ("bird", True),
        ("birds", True),  # four are, at the beginning of a word
        ("blackbird", True),  # and at its end
        ("blackbirds", False),  # not within it
        ("flyingsquirrels", False),
        ("-dog-", True),
    ],
)
def test_part_of_a_word_counts_from_four_characters(guess: Guess, text: str, counts: bool) -> None:
    assert guess(text, zz=["dog", "bird", "squirrel"]) == (("zz",) if counts else ("en",))


@pytest.mark.parametrize(
    ("text", "likely"),
    [
        ("ọjọ́", ("aa",)),
        ("ọjọ", ("aa",)),
        ("ojo", ("aa",)),
        ("día", ("bb",)),
        ("dia", ("en",)),  # marks count here
        ("día ojo", ("aa", "bb")),
        ("casas", ("bb",)),
        ("cásas", ("en",)),
        ("ojo casa", ("bb", "aa")),  # 4 and 3
        ("ojo día é dia", ("aa", "bb")),
    ],
)
def test_marks_count_where_a_table_does_not_ignore_them(guess: Guess, text: str, likely: tuple[str, ...]) -> None:
    assert guess(text, AA=["ọjọ́"], bb=["día", "casa"]) == likely


# the tables themselves


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Neznámo.", "cs"),  # the table holds the stem
        ("Bilinmiyor.", "tr"),
        ("Desconocido.", "es"),
        ("Неизвестно.", "ru"),
        ("根据文章，无法回答", "zh"),
        ("Das steht nicht im Text.", "de"),
    ],
)
def test_an_answer_of_a_few_words_is_read_in_its_language(text: str, language: str) -> None:
    assert language in likely_languages(text)
