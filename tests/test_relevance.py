"""NoMIRACL labels: the released parser to the answer, the careful reader on what chat models write; and all filters."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.filters import Abstention, CopiedAnswer, FinalAnswer, JudgePreference, JudgeRating, NomiraclLabel
from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER, nomiracl_label, process_results, robust_label
from tests.development.released_sample import SAMPLE, SIZE, released_answers

CASES = [
    # response, language, strict label, robust label
    ("Yes, answer is present.", "en", ANSWER, ANSWER),
    ("YES, ANSWER IS PRESENT IN [3]", "en", ANSWER, ANSWER),
    ("\nYes,\tanswer\nis present", "en", ANSWER, ANSWER),
    ("The answer is present in context 2.", "en", ANSWER, ANSWER),
    ("No, the answer is not present.", "en", NO_ANSWER, NO_ANSWER),
    ("[3]", "en", ANSWER, ANSWER),
    ("[3] and [12]", "en", INVALID, ANSWER),
    ("I don’t know.", "en", INVALID, NO_ANSWER),
    ("Yes, answer is present in [1]. I don't know about the others.", "en", INVALID, ANSWER),
    ("I don't know.\n\nYes, answer is present in none.", "en", INVALID, NO_ANSWER),
    ('Options: "Yes, answer is present", "I don\'t know".\n\nThe passages do not say.', "en", INVALID, NO_ANSWER),
    ("ab c [10]", "en", ANSWER, ANSWER),  # nine characters
    ("abc d [10]", "en", INVALID, ANSWER),  # ten
    ("Paris", "fr", INVALID, ANSWER),
    ("", "en", INVALID, INVALID),
    (None, "en", INVALID, INVALID),
    ("\x00\x07\x1b[0m", "en", INVALID, INVALID),
    ("Nein.", "de", INVALID, NO_ANSWER),
    ("Ja.", "de", INVALID, ANSWER),
    ("Nein, Lissabon ist nicht die Hauptstadt Spaniens.", "de", INVALID, ANSWER),
    ("Ich weiß es nicht.", "de", INVALID, NO_ANSWER),
    ("わかりません。", "ja", INVALID, NO_ANSWER),
    ("None of the contexts answers the question.", "sw", INVALID, NO_ANSWER),
    ("<think>Is it there? I don't know. Yes, [4].</think>Yes, answer is present", "en", INVALID, ANSWER),
    ("I don't know\n\nQUESTION:\nWho?\n\nCONTEXTS:\nYes, answer is present", "en", INVALID, NO_ANSWER),
    ('## Explanation: [2] names the year. ## Answer: "Yes, answer is present"', "en", ANSWER, ANSWER),
    ("## Explanation: No context names the year. ## Answer: I do not know", "en", INVALID, NO_ANSWER),
    ('Please respond with either "Yes, answer is present" or "I don\'t know".', "en", INVALID, INVALID),
    ('Please answer "Yes" or "I don\'t know" for each question.', "en", NO_ANSWER, INVALID),
    ("Do you know the answer to the question?", "sw", INVALID, INVALID),
    ("I don't know. The contexts do not name it. However, they do mention the year 2011.", "en", NO_ANSWER, NO_ANSWER),
    ("No, answer is present", "en", ANSWER, NO_ANSWER),
    ("No doubt, the answer is present in [2].", "en", ANSWER, ANSWER),
    ("Yes, answers are present in [1]. Context [2] does not give enough information.", "en", INVALID, ANSWER),
    ("Yes, I don't know.", "en", NO_ANSWER, NO_ANSWER),
    ("Ja, 1880. Wer ihn baute, weiß ich nicht.", "de", INVALID, ANSWER),
    ("The contexts do not contain it, so I can't reply 'Yes, answer is present'.", "en", ANSWER, NO_ANSWER),
    ("1. I don't know.\n2. Yes, answer is present.\n3. I don't know.", "en", INVALID, ANSWER),
    ("Context 1: No, answer is not present\nContext 2: Yes, answer is present", "en", ANSWER, ANSWER),
    ("Context 2 answers the question.", "en", INVALID, ANSWER),
    ("One of the contexts answers the question. The text says he was born in 1879.", "de", INVALID, ANSWER),
    ("No - the contexts discuss a different person.", "en", INVALID, NO_ANSWER),
    ("No, according to context 3, Madrid is the capital.", "en", INVALID, ANSWER),
    ('{"answer": "I don\'t know"}', "en", NO_ANSWER, NO_ANSWER),
    ("Although the passages do not give the year, context 5 says it was built in spring.", "en", INVALID, ANSWER),
    ("Sure! Please provide the question and the contexts.", "en", INVALID, INVALID),
    ("I found it: Yes, answer is present in [6].", "en", ANSWER, ANSWER),
    ("Yes, answer is present / I don't know", "en", INVALID, INVALID),
    ("Yes, answer is present\nI don't know\nYes, answer is present\nI don't know", "en", INVALID, INVALID),
    ("```python\ndef check(contexts):\n    pass\n```", "en", INVALID, INVALID),
    ("Would you like me to translate these passages?", "en", INVALID, INVALID),
]


@pytest.mark.parametrize(("response", "language", "strict", "robust"), CASES)
def test_a_response_has_its_two_labels(response: str | None, language: str, strict: str, robust: str) -> None:
    assert nomiracl_label(response) == strict
    assert robust_label(response, language) == robust


QUESTION, PASSAGES = "Wo liegt Berlin?", ("Berlin: a city", "Rom: a city")
TURN = "\n\nQUESTION:\nWo liegt Berlin?\nOUTPUT: Nein."  # the answer's end, as base models go on
WITH_DOCUMENT = [
    # response, language, passages, label with the question and the passages, label without them
    ("Wo liegt Berlin? Nein.", "de", PASSAGES, NO_ANSWER, ANSWER),
    ("[3] Paris: The capital.\nOUTPUT: Nein.", "de", PASSAGES, NO_ANSWER, NO_ANSWER),  # the passage after the two
    ("[3] Bonn: klein" + TURN, "de", PASSAGES, NO_ANSWER, ANSWER),
    ("Wo liegt Berlin?" + TURN, "de", PASSAGES, NO_ANSWER, NO_ANSWER),
    ("Question: Wo liegt Berlin?", "de", PASSAGES, INVALID, INVALID),
    ("Wo liegt Berlin? An der Spree", "de", PASSAGES, ANSWER, ANSWER),
    ("<think>hm</think>Wo liegt Berlin?", "de", PASSAGES, INVALID, INVALID),
    ("Boom Boom Boom Boom", "de", ("Boom Boom Boom Boom: a song",), ANSWER, INVALID),  # a loop, or a title
]


@pytest.mark.parametrize(("response", "language", "passages", "label", "alone"), WITH_DOCUMENT)
def test_a_label_goes_by_the_question_and_the_passages(
    response: str, language: str, passages: tuple[str, ...], label: str, alone: str
) -> None:
    assert robust_label(response, language, QUESTION, passages) == label
    assert robust_label(response, language) == alone


@pytest.mark.parametrize(
    ("response", "question", "label"),
    [
        # a clause denies what was asked, behind what the passages treat
        ("The texts cover the price and the view. Of the builder, not a word.", "Who was the builder?", NO_ANSWER),
        ("Who built it? Who built", "Who built it?", INVALID),
    ],
)
def test_a_label_goes_by_what_the_question_asks(response: str, question: str, label: str) -> None:
    assert robust_label(response, "en", question) == label


@pytest.mark.parametrize(
    ("response", "language", "label"),
    [
        # a text that begins with the prompt's phrase has said so, however it is marked, unless it turns round at once
        ("I don't know (the question asks about Pisa, but context 5 is about Lucca).", "en", NO_ANSWER),
        ("**I don't know**. Context 5 names another year.", "en", NO_ANSWER),
        # the first of both phrases counts, and the first time it is said
        ("Yes, answer is present in [1]. I don't know about [2]. Yes, answer is present in [3].", "en", ANSWER),
        ("Well, I don't know. Yes, answer is present in none of them.", "en", NO_ANSWER),
        ("Yes, answer is present, or I don't know", "en", INVALID),  # the instruction again, and nothing else
        # refused with its first word
        ("I cannot say: Yes, answer is present", "en", NO_ANSWER),
        ("Unable to say 'Yes, answer is present', as the contexts do not mention it.", "en", NO_ANSWER),
        # the prompt's language is read first
        ("Oui. Ich weiß es nicht.", "de", NO_ANSWER),
        ("According to context 3, he said:\nIch weiß es nicht.", "en", ANSWER),
        ("Ei", "de", ANSWER),  # a "no" in Finnish, and an egg in German
    ],
)
def test_a_label_goes_by_what_is_said_first_and_in_which_language(response: str, language: str, label: str) -> None:
    assert robust_label(response, language) == label


def test_a_sample_of_released_answers_has_the_released_labels_and_ours() -> None:
    rows = [json.loads(line) for line in gzip.decompress(SAMPLE.read_bytes()).splitlines()]
    assert len(rows) == SIZE
    labels = [(nomiracl_label(row["response"]), robust_label(row["response"], row["language"])) for row in rows]
    assert labels == [(row["strict"], row["robust"]) for row in rows]


def test_strict_labels_equal_all_released_ones(shared: Path) -> None:
    rows = list(released_answers(shared))
    assert len(rows) == 48_631
    assert [row for row in rows if nomiracl_label(row["response"]) != row["label"]] == []


@pytest.mark.parametrize(
    ("subset", "gold", "label", "expected"),
    [
        ("non_relevant", NO_ANSWER, ANSWER, {"hallucination_rate": 1.0, "error_rate": None, "accuracy": 0.0}),
        ("non_relevant", NO_ANSWER, NO_ANSWER, {"hallucination_rate": 0.0, "error_rate": None, "accuracy": 1.0}),
        ("non_relevant", NO_ANSWER, INVALID, {"hallucination_rate": None, "invalid_rate": 1.0, "accuracy": 0.0}),
        ("relevant", ANSWER, NO_ANSWER, {"error_rate": 1.0, "hallucination_rate": None, "accuracy": 0.0}),
        ("relevant", ANSWER, ANSWER, {"error_rate": 0.0, "hallucination_rate": None, "accuracy": 1.0}),
        ("relevant", ANSWER, INVALID, {"error_rate": None, "invalid_rate": 1.0, "accuracy": 0.0}),
    ],
)
def test_a_document_counts_in_the_denominators_of_its_subset(
    subset: str, gold: str, label: str, expected: dict[str, float | None]
) -> None:
    values = process_results({"subset": subset, "label": gold}, [label])
    # Every metric for every document, and first whether it is right.
    assert list(values) == ["accuracy", "balanced_error", "hallucination_rate", "error_rate", "invalid_rate"]
    assert expected.items() <= values.items()
    assert values["balanced_error"] == {"answerable": int(subset == "relevant"), "wrong": int(gold != label)}


@pytest.mark.one_python("how good the reader is")
@pytest.mark.parametrize(
    ("kind", "least"),
    [
        *(("tuning", 0.74), ("unseen", 0.72), ("held_out_1", 0.66), ("held_out_2", 0.35), ("dev_3", 0.82)),
        *(("held_out_3", 0.84), ("dev_4", 0.41), ("held_out_4", 0.83), ("dev_5", 0.77), ("held_out_5", 0.71)),
    ],
)
def test_replies_as_models_write_them(kind: str, least: float) -> None:
    """What the rules for real answers read of invented ones; `tests/data/abstention/README.md` describes the sets."""
    path = Path(__file__).parent / "data" / "abstention" / "replies" / f"{kind}.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    right = [robust_label(row["text"], row["language"], row["question"], ()) == row["label"] for row in rows]
    assert sum(right) / len(rows) >= least


DE = {"language": "de", "query": "Was ist es?", "passages": ["Berlin: a", "Rom: b"], "answer": "Die Katze"}


def applied(read: Any, *responses: Any, doc: dict[str, Any] = DE) -> list[str]:
    """What a filter makes of each response, all to one document, and of the first to another document."""
    both = read.apply([list(responses), [responses[0]]], [doc, doc])
    assert [list(found) for found in both][1] == [both[0][0]]
    found: list[str] = both[0]
    return found


@pytest.mark.parametrize("made", [NomiraclLabel, Abstention, FinalAnswer, CopiedAnswer, JudgeRating, JudgePreference])
def test_responses_and_documents_go_together(made: Any) -> None:
    with pytest.raises(ValueError, match=r"zip\(\)"):
        made().apply([["a"], ["b"]], [DE])


def test_labels_are_strict_unless_asked_for_otherwise() -> None:
    responses = ("Yes, answer is present", "Berlin", "Ich weiß es nicht", None)
    assert applied(NomiraclLabel(), *responses) == [ANSWER, INVALID, INVALID, INVALID]
    assert applied(NomiraclLabel("robust"), *responses) == [ANSWER, ANSWER, NO_ANSWER, INVALID]
    with pytest.raises(ValueError, match=r"^filter nomiracl_label: parser must be 'strict' or 'robust', got 'other'$"):
        NomiraclLabel("other")


def test_a_robust_label_goes_by_the_question_and_the_passages_of_the_document() -> None:
    robust, following, other = NomiraclLabel("robust"), "[3] Paris: The capital.", ["Berlin: a", 7, "Rom: b", "Bonn: c"]
    for response, changed, label in (
        (following, {}, INVALID),
        (following, {"passages": None}, ANSWER),
        (following, {"passages": other}, ANSWER),
        ("Was ist es?", {}, INVALID),
        ("Was ist es? Nein.", {}, NO_ANSWER),
        ("Was ist es? Nein.", {"query": 7}, ANSWER),
        ("Ne", {}, ANSWER),  # a "no" elsewhere, and in German a name
        ("Ne", {"language": None}, NO_ANSWER),
    ):
        assert applied(robust, response, doc={**DE, **changed}) == [label]


def test_an_abstention_becomes_one_word_and_all_else_stays() -> None:
    found = applied(Abstention(), "<think>x</think>Ich weiß es nicht", "Berlin ", None)
    assert found == ["unanswerable", "Berlin ", ""]
    assert applied(Abstention("none"), "Ich weiß es nicht.") == ["none"]
    german = "Ich weiß es nicht."
    assert applied(Abstention(language="de"), german, doc={"language": "en"}) == ["unanswerable"]
    assert applied(Abstention(), german, doc={"language": "en"}) == [german]
    assert applied(Abstention(), german, doc={}) == ["unanswerable"]


def test_of_a_copy_the_reading_that_is_nearest_to_the_answer_counts() -> None:
    assert applied(FinalAnswer(), "<think>x</think> Die Katze ", None, " a ") == ["Die Katze", "", " a "]
    found = applied(CopiedAnswer(), "<think>x</think><entity>Die</entity> Katze", None, "Die Katze")
    assert found == ["<entity>Die</entity> Katze", "", "Die Katze"]
    marked = {**DE, "answer": "Die Katze<|im_end|> <|im_start|>user"}
    ran_on = "Die <entity>Katze</entity><|im_end|> <|im_start|>user"
    assert applied(CopiedAnswer(), ran_on, doc=marked) == [ran_on]
