"""A CLAPnq document: a question, the passages that were given, and answers that people wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lm_eval_tasks.results.report.documents.document import (
    Document,
    Passage,
    ShownAnswer,
    mappings_of,
    pieces_of,
    strings_of,
    text_of,
)
from lm_eval_tasks.results.report.documents.facts import facts_of
from lm_eval_tasks.results.report.documents.limits import ANSWER_LENGTH, PASSAGE_LENGTH, QUESTION_LENGTH
from lm_eval_tasks.results.report.documents.reading import why_abstention
from lm_eval_tasks.results.report.documents.tagged import tagged
from lm_eval_tasks.runs import Answer, TaskRun

__all__ = ["kinds", "label", "lay_out", "share"]

_FACTS = ("rougeL", "recall", "rougeLp", "k_precision", "length", "hallucinated_share")


def label(task: TaskRun, answer: Answer) -> str:
    """What models can agree or disagree on: whether they answer."""
    return "abstained" if _abstained(answer) else "answered"


def kinds(task: TaskRun, answer: Answer) -> frozenset[str]:
    """Of one answer: ``abstained``; ``wrong`` where it abstains though it should not, or the other way round."""
    found = set()
    abstained, answerable = _abstained(answer), bool(answer.doc.get("answerable"))
    if abstained:
        found.add("abstained")
    if abstained == answerable:
        found.add("wrong")
    return frozenset(found)


def share(answer: Answer) -> float | None:
    """The share of an answer's words that a detector flags; ``None`` where none was named."""
    value = _values(answer).get("hallucinated_share")
    return float(value) if isinstance(value, (int, float)) else None


def lay_out(task: TaskRun, answers: Mapping[str, Answer]) -> Document:
    """A document. `answers` are models to answers."""
    first = next(iter(answers.values()))
    doc = first.doc
    answerable = bool(doc.get("answerable"))
    gold = strings_of(doc.get("gold_ids"))
    passages = [
        Passage(
            number,
            str(passage.get("title", "")),
            text_of(passage.get("text"), PASSAGE_LENGTH),
            "gold passage, retrieved" if gold and passage.get("id") in gold else "",
        )
        for number, passage in enumerate(mappings_of(doc.get("passages")), 1)
    ]
    right = "Can be answered" if answerable else "Cannot be answered from the passage"
    if gold and not any(passage.mark for passage in passages):
        right += "; the gold passage was not among those retrieved"
    return Document(
        task=task.task,
        benchmark=task.benchmark,
        language="en",
        key=first.key,
        question=text_of(doc.get("question"), QUESTION_LENGTH),
        right=right,
        answers=tuple(_answer(task, model, answer) for model, answer in answers.items()),
        passages=tuple(passages),
        references=tuple(text_of(each, ANSWER_LENGTH) for each in strings_of(doc.get("answers")) if each),
    )


def _answer(task: TaskRun, model: str, answer: Answer) -> ShownAnswer:
    abstained, answerable = _abstained(answer), bool(answer.doc.get("answerable"))
    text, spans = tagged(_read(answer), answer.response)
    if abstained:
        verdict, tone = ("wrong: abstained", "bad") if answerable else ("right: abstained", "good")
    else:
        verdict, tone = ("answered", "plain") if answerable else ("wrong: answered", "bad")
    why = why_abstention(text, "en") if abstained else ""
    return ShownAnswer(
        model,
        pieces_of(text, spans, ANSWER_LENGTH),
        verdict,
        tone,
        (why,) if why else (),
        kinds(task, answer),
        facts_of(task, answer, next(iter(answer.readings), ""), _FACTS),
        share(answer),
    )


def _read(answer: Answer) -> Any:
    reading = next(iter(answer.readings.values()), None)
    return reading.answer if reading is not None else None


def _values(answer: Answer) -> Mapping[str, Any]:
    reading = next(iter(answer.readings.values()), None)
    return reading.values if reading is not None else {}


def _abstained(answer: Answer) -> bool:
    values = _values(answer)
    return values.get("unanswerable_accuracy") == 1.0 or values.get("answerable_abstention_rate") == 1.0
