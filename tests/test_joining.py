"""Numbers in groups of digits, and words split at a line's end, are one to the lexical detector."""

from __future__ import annotations

import pytest

from custom_metrics.reading.words import words
from detector_plugin.lexical import LexicalDetector
from detector_plugin.lexical.features import joined_features
from detector_plugin.lexical.reference import joined, joined_reference, place_in_joined
from tests.test_lexical import flagged


@pytest.fixture(scope="module")
def detector() -> LexicalDetector:
    return LexicalDetector()


@pytest.mark.parametrize(
    ("text", "language", "whole"),
    [
        # several groups, or a decimal mark: in any language
        *((text, None, "1234567") for text in "1,234,567 1.234.567 1'234'567 12,34,567 １,２３４,５６７".split()),
        *((text, None, "1234567") for text in ("1 234 567", "1\u00a0234\u00a0567", "1\u202f234\u202f567", "१२,३४,५६७")),
        *((text, None, whole) for text, whole in (("1,234.5", "1234.5"), ("1.234.567,89", "1234567,89"))),
        # one group: by the language
        *(("1.234", language, "1234") for language in ("de", "it", "tr")),
        *(("1,234", language, "1234") for language in ("en", "ja", "hi")),
        *(("10 000", language, "10000") for language in ("fr", "ru", "fi")),
        *((text, language, text) for text in ("1.234", "1 234") for language in ("en", "zh", None)),
        *((text, language, text) for text in ("1,234", "1 234") for language in ("de", "xx", None)),
        ("約1,234人", "ja", "約1234人"),
        ("١٬٢٣٤", "ar", "1234"),
        ("Es sind 1.234. Und", "de", "Es sind 1234. Und"),
        # none
        *((text, "de", text) for text in ("3.14", "0.123", "12.345.6", "192.168.1.1", "030 123 456", "1.2.2024")),
        *((text, "en", text) for text in ("1,234,56", "2020,345", "0,123", "in 2020 345 people")),
        # words split at a line's end
        ("har-\nbour, har\u2010 \r\n  bour", "en", "harbour, harbour"),
        ("Leuch\u00ad\ntturm, Nord\u00ad\nRhein", "de", "Leuchtturm, NordRhein"),
        ("North-\nRhine 12-\n13 a -\nb - \n\nc", "en", "North-\nRhine 12-\n13 a -\nb - \n\nc"),
    ],
)
def test_numbers_in_groups_and_split_words_are_one(text: str, language: str | None, whole: str) -> None:
    assert joined(text, language)[0] == whole
    removed = joined(text, language)[1]
    assert place_in_joined([0, len(text)], removed) == [0, len(whole)]
    assert len(joined_features("Text", text, language)) == len(words(text, language))


def test_a_hyphen_at_a_lines_end_may_belong_to_the_word() -> None:
    assert joined_reference("a well-\nknown light-\nhouse", "en") == "a wellknown lighthouse\nwell known\nlight house"
    assert joined("light-\nhouse", "en", {"house"}.__contains__)[0] == "light-\nhouse"
    english = "The rest of the town is in 1,234 houses."
    assert "1234" in joined_reference(english, "de")  # written in English, for an answer in German
    assert "1,234" in joined_reference("Es sind 1,234 Meter.", "de")


NUMBERED = {
    "en": "The lighthouse of the town has {} steps and stands outside the harbour.",
    "de": "Der Leuchtturm der Stadt hat {} Stufen und steht vor dem Hafen.",
}


@pytest.mark.parametrize(
    ("language", "reference", "answer", "right"),
    [
        *(("en", "1,234", same, True) for same in ("1234", "1,234", "1'234", "1\u202f234", "１２３４", "๑๒๓๔")),
        *(("de", "1.234", same, True) for same in ("1234", "1.234", "1'234", "1\u202f234", "１.２３４")),
        *(("en", "1,234", other, False) for other in ("1.234", "1,243")),
        *(("de", "1.234", other, False) for other in ("1,234", "1.243")),
        *(("en", "1.234", other, False) for other in ("1,234", "1234")),
        ("de", "1,234", "1.234", False),
        ("en", "1.234", "1.234", True),
        ("de", "1,234", "1,234", True),
    ],
)
def test_a_number_is_the_same_in_any_digits_and_groups(
    detector: LexicalDetector, language: str, reference: str, answer: str, right: bool
) -> None:
    text = NUMBERED[language]
    spans = flagged(detector, text.format(reference), text.format(answer), language)
    assert spans == ([] if right else [answer])


@pytest.mark.parametrize(
    ("reference", "answer", "language"),
    [
        ("灯台の高さは42メートル、1887年に建てられた。", "灯台の高さは４２メートル、１８８７年に建てられた。", "ja"),
        ("สร้างในปี พ.ศ. 2430", "สร้างในปี พ.ศ. ๒๔๓๐", "th"),
        ("The lighthouse stands outside the harbour.", "The light-\nhouse stands outside the har-\nbour.", "en"),
        ("Der Leuch\u00ad\ntturm ist von der Inge\u00ad\nnieurin.", "Der Leuchtturm ist von der Ingenieurin.", "de"),
        ("The well-\nknown lighthouse stands here.", "The well-known lighthouse stands here.", "en"),
    ],
)
def test_a_word_is_the_same_however_it_is_written(
    detector: LexicalDetector, reference: str, answer: str, language: str
) -> None:
    assert flagged(detector, reference, answer, language) == []
