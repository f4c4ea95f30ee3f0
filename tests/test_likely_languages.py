"""The guess of an answer's language from the words of phrase tables, on small tables of made-up languages."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from custom_metrics.abstention import phrases
from custom_metrics.abstention.phrases import likely_languages

Guess = Callable[..., tuple[str, ...]]


@pytest.fixture
def guess(monkeypatch: pytest.MonkeyPatch) -> Iterator[Guess]:
    """The languages that a text looks like, among tables of these words; a code in capitals ignores marks."""

    def guessed(text: str, **words: list[str]) -> tuple[str, ...]:
        tables = {
            code.lower(): {"language": code, "name": code, "yes": listed, "fold_marks": code.isupper()}
            for code, listed in words.items()
        }
        monkeypatch.setattr(phrases, "LANGUAGES", tuple(tables))
        monkeypatch.setattr(phrases, "phrase_table", tables.__getitem__)
        phrases._all_words.cache_clear()
        return likely_languages(text)

    yield guessed
    phrases._all_words.cache_clear()


@pytest.mark.parametrize(
    ("text", "likely"),
    [
        ("", ("en",)),
        ("42 mice", ("en",)),
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
    ("text", "language"),
    [("Neznámo.", "cs"), ("Bilinmiyor.", "tr"), ("Неизвестно.", "ru"), ("根据文章，无法回答", "zh")],
)
def test_an_answer_of_a_few_words_is_read_in_its_language(text: str, language: str) -> None:
    assert language in likely_languages(text)
