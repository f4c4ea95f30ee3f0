"""What an answer does with its question: leaves it open, turns it back to the user, or never comes to it."""

from __future__ import annotations

import pytest

from custom_metrics.abstention.question_reading import breaks_off, leaves_open, only_prepares
from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER, robust_label


@pytest.mark.parametrize(
    ("text", "language", "question", "label"),
    [
        ("There's plenty on the pier, and not a thing on the first crossing.", "en", "When did it sail?", NO_ANSWER),
        ("La data non compare, del porto si parla molto.", "it", "Quando entrò in servizio?", NO_ANSWER),
        ("El puerto se describe, pero su arquitecto no.", "es", "¿Quién trazó el puerto?", NO_ANSWER),
        # a name, a number or a passage is given; nothing is, and that answers; the denial comes before a turn
        ("Marta Ruiz, no su hermano.", "es", "¿Quién trazó el puerto?", ANSWER),
        ("Not in 1905, as is often said, but in 1907.", "en", "When did it sail?", ANSWER),
        ("Venus has no moons.", "en", "How many moons does Venus have?", ANSWER),
        ("Nada Surf", "de", "Wie viele Monde hat die Venus?", ANSWER),
        ("I am not sure, but it was in spring.", "en", "When did it sail?", ANSWER),
        # in German every noun has a capital; a question for a reason is no question for a name
        ("Das Werk wird beschrieben, aber sein Erbauer nicht genannt.", "de", "Wann entstand das Werk?", NO_ANSWER),
        ("Because the bridge isn't safe.", "en", "Why is the bridge closed?", ANSWER),
    ],
)
def test_an_answer_that_denies_and_gives_nothing_asked_for_leaves_the_question_open(
    text: str, language: str, question: str, label: str
) -> None:
    assert robust_label(text, language, question) == label


def test_without_the_question_nothing_is_left_open() -> None:
    assert not leaves_open("There's plenty on the pier, and not a thing on the first crossing.", "en", None)


@pytest.mark.parametrize(
    ("text", "language", "label"),
    [
        ("Sure! Could you paste the contexts again?", "en", INVALID),
        ("Bitte senden Sie mir die Kontexte.", "de", INVALID),
        ("文脈を送ってください。", "ja", INVALID),
        ("Mohon kirimkan konteksnya.", "id", INVALID),
        ("I don't know. Please provide more context.", "en", NO_ANSWER),
        ("In 1907. Could you share the other passages?", "en", ANSWER),
    ],
)
def test_an_answer_that_only_asks_for_the_material_is_none(text: str, language: str, label: str) -> None:
    assert only_prepares(text, language) is (label == INVALID)
    assert robust_label(text, language) == label


@pytest.mark.parametrize(
    ("text", "language", "breaks"),
    [
        ("Let's look at each context.\n\n[1] This one is about the pier.\n[2] This", "en", True),
        ("Рассмотрим контексты по очереди.\n\n[1] Речь о порте.\n[2] Речь", "ru", True),
        ("Let's look at each context.\n\n[1] This one is about the pier.\n[2] This one, too.", "en", False),
        ("I read each context. It was in 1907", "en", False),
    ],
)
def test_a_review_of_the_passages_may_break_off(text: str, language: str, breaks: bool) -> None:
    assert breaks_off(text, language) is breaks
    assert (robust_label(text, language) == INVALID) is breaks


@pytest.mark.parametrize(
    ("text", "language", "label"),
    [
        ("It is not true that the contexts are silent: context 5 names her.", "en", ANSWER),
        ("Нельзя сказать, что ответа нет: третий отрывок даёт 1642 метра.", "ru", ANSWER),
        ("Most contexts are about boats; only the seventh says that Anna Holm drew it.", "en", ANSWER),
        ("All told, I'd have to go with \"I don't know\".", "en", NO_ANSWER),
        ('Please answer with a "Yes" or "I don\'t know".', "en", INVALID),
        ("The question is: who drew the harbour?", "en", INVALID),
    ],
)
def test_what_is_denied_singled_out_or_repeated(text: str, language: str, label: str) -> None:
    assert robust_label(text, language, "Who drew the harbour?") == label
