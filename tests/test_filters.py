"""Harness filters: what each makes of a response, and reads of a document."""

from __future__ import annotations

from typing import Any

import pytest

from custom_metrics.filters import Abstention, CopiedAnswer, FinalAnswer, JudgePreference, JudgeRating, NomiraclLabel
from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER

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
