"""What an answer says is told and what is not, which quotation it denies, and which question no "no" answers."""

from __future__ import annotations

import pytest

from custom_metrics.abstention import concluded_verdict, denies_presence, is_abstention
from custom_metrics.relevance import ANSWER, NO_ANSWER, robust_label


@pytest.mark.parametrize(
    ("text", "language", "label"),
    [
        # one thing is told, another is not, and no word names the material
        ("The width of the canal is given, its depth is not.", "en", NO_ANSWER),
        ("We learn where he studied, but nothing about his teacher.", "en", NO_ANSWER),
        ("Man erfährt, wer den Kanal plante, aber nicht, wie tief er ist.", "de", NO_ANSWER),
        ("Ширина канала указана, а глубина — нет.", "ru", NO_ANSWER),
        ("提到了运河的宽度,却没有提到深度。", "zh", NO_ANSWER),
        ("नहर की चौड़ाई तो बताई गई है, पर गहराई नहीं।", "hi", NO_ANSWER),
        # only something else is told
        ("Only the engineer's first name is mentioned.", "en", NO_ANSWER),
        ("Se menciona únicamente el nombre del ingeniero.", "es", NO_ANSWER),
        # a number may be what was asked; "contains no" does not tell; "please" is no statement; what is quoted was said
        ("It was opened in 1911, but nothing is said of its depth.", "en", ANSWER),
        ("The drink contains no alcohol, only apple juice and water.", "en", ANSWER),
        ("Das Getränk enthält keinen Alkohol, sondern nur Apfelsaft und Wasser.", "de", ANSWER),
        ("面对警方的每一个问题,他都只回答“我不知道”。", "zh", ANSWER),
        # a question that the answer asks itself
        ("The depth of the canal? Nowhere.", "en", NO_ANSWER),
        ("Is the depth in one of them? Sadly it isn't.", "en", NO_ANSWER),
    ],
)
def test_one_thing_told_and_another_not_is_no_answer(text: str, language: str, label: str) -> None:
    assert robust_label(text, language) == label


def test_in_a_long_answer_what_is_not_told_beside_is_no_abstention() -> None:
    text = "The width of the canal is given, its depth is not."
    assert is_abstention(text, "en", partial=False)
    assert not is_abstention(text, "en")


@pytest.mark.parametrize(
    ("text", "language", "label"),
    [
        ('I see no need to go with "I don\'t know": context 4 names the engineer.', "en", ANSWER),
        ("Es wäre falsch, „I don't know“ zu sagen, denn Kontext 4 nennt die Ingenieurin.", "de", ANSWER),
        ('"I don\'t know"라고 할 수는 없습니다. 문맥 4에 이름이 나옵니다.', "ko", ANSWER),
        ('No context names the engineer, hence "I don\'t know".', "en", NO_ANSWER),
        ('As nobody is named, my answer is "I don\'t know".', "en", NO_ANSWER),
        ("„Yes, answer is present“ wäre falsch.", "de", NO_ANSWER),
    ],
)
def test_a_quotation_is_denied_in_its_clause(text: str, language: str, label: str) -> None:
    assert robust_label(text, language) == label


@pytest.mark.parametrize(
    ("text", "language", "question", "denies"),
    [
        ("No, all of them are about trams.", "en", "Who drew the plan of the canal?", True),
        ("No, all of them are about trams.", "en", "Are the carriages yellow?", False),
        ("No, all of them are about trams.", "en", None, False),
        ("No, it was in 1911.", "en", "When was it opened, in 1910?", False),
        ("Hayır, hepsi tramvaylarla ilgili.", "tr", "Kanalı kim planladı?", True),
        ("いいえ、どれも路面電車の話です。", "ja", "運河を設計したのは誰ですか?", True),
    ],
)
def test_a_no_answers_no_question_for_a_name_or_a_date(
    text: str, language: str, question: str | None, denies: bool
) -> None:
    assert denies_presence(text, language, question) is denies


def test_a_verdict_behind_a_label_in_a_sentence_concludes() -> None:
    assert concluded_verdict("Nach diesen Texten lautet mein Urteil: nein.", "de") is False
    assert concluded_verdict("Kararım olumsuz.", "tr") is False


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Les contextes 1 à 3 parlent de trams. Le contexte 6 donne 4 250 m.", "fr"),  # "6 donne 4" is no range
        ("1~3番の文脈は別の話です。6番の文脈に4250mと書かれています。", "ja"),
        ("In 1911, although the month is not given.", "en"),
        ("Mwaka 1911, ingawa mwezi haujatajwa.", "sw"),
        ("1911年です。ただし、2本目の運河については記載がありません。", "ja"),
    ],
)
def test_a_number_that_is_given_answers(text: str, language: str) -> None:
    assert robust_label(text, language) == ANSWER
