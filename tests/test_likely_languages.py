"""The languages that an answer most looks like, where nobody said which it is in."""

from __future__ import annotations

import pytest

from custom_metrics.abstention import LANGUAGES, is_abstention
from custom_metrics.abstention.phrases import likely_languages
from tests.table_use import Example, examples


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


@pytest.mark.parametrize("text", ["42", "42?", "42 ?", "(42) | ..."])
def test_a_text_without_words_of_any_table_is_read_in_english(text: str) -> None:
    assert likely_languages(text) == ("en",)


@pytest.mark.one_python("how good the tables are")
def test_answers_are_read_without_a_language_nearly_as_well_as_with_it() -> None:
    tuning = [(language, example) for language in LANGUAGES for example in examples(language, ("tuning",))]
    told = _f1([(example, is_abstention(example.text, language)) for language, example in tuning])
    found = _f1([(example, is_abstention(example.text)) for _, example in tuning])
    assert found > told - 0.006


def _f1(read: list[tuple[Example, bool]]) -> float:
    both = sum(example.abstains and abstains for example, abstains in read)
    return 2 * both / (2 * both + sum(example.abstains is not abstains for example, abstains in read))
