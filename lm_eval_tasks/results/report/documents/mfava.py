"""An mFAVA document: a question asked without its Wikipedia page, and the answer held against that page."""

from __future__ import annotations

import math
from collections.abc import Mapping

from lm_eval_tasks.results.report.documents.document import (
    Document,
    ShownAnswer,
    address_of,
    pieces_of,
    text_of,
)
from lm_eval_tasks.results.report.documents.facts import facts_of
from lm_eval_tasks.results.report.documents.limits import ANSWER_LENGTH, PAGE_LENGTH, QUESTION_LENGTH
from lm_eval_tasks.results.report.documents.reading import why_abstention
from lm_eval_tasks.results.report.documents.tagged import tagged
from lm_eval_tasks.results.report.numbers import shown
from lm_eval_tasks.runs import Answer, TaskRun

__all__ = ["kinds", "label", "lay_out", "share"]

_FACTS = ("response_words", "hallucinated_words", "repetition_rate")
_QUARTER = 0.25


def label(task: TaskRun, answer: Answer) -> str:
    """What models can agree or disagree on: whether it abstains, and how many quarters of its words are flagged."""
    part = share(answer)
    if _value(answer, "abstention_rate") == 1.0:
        return "abstained"
    return "not read" if part is None else str(math.ceil(part / _QUARTER))


def kinds(task: TaskRun, answer: Answer) -> frozenset[str]:
    """Of one answer: ``abstained``. What is most hallucinated is known among all answers only."""
    return frozenset({"abstained"} if _value(answer, "abstention_rate") == 1.0 else ())


def share(answer: Answer) -> float | None:
    """The share of an answer's words that the detector flags; ``None`` where it has no words, or was not read."""
    return _value(answer, "detected_rate")


def lay_out(task: TaskRun, answers: Mapping[str, Answer]) -> Document:
    """A document. `answers` are models to answers."""
    first = next(iter(answers.values()))
    doc = first.doc
    return Document(
        task=task.task,
        benchmark=task.benchmark,
        language=task.language,
        key=first.key,
        question=text_of(doc.get("query"), QUESTION_LENGTH),
        right="Asked without the page",
        answers=tuple(_answer(task, model, answer) for model, answer in answers.items()),
        page=text_of(doc.get("reference"), PAGE_LENGTH),
        page_title=str(doc.get("title") or ""),
        address=address_of(doc.get("url")),
    )


def _answer(task: TaskRun, model: str, answer: Answer) -> ShownAnswer:
    reading = next(iter(answer.readings.values()), None)
    text, spans = tagged(reading.answer if reading else None, answer.response)
    part = share(answer)
    why: list[str] = []
    tone = "plain"
    if "abstained" in kinds(task, answer):
        verdict = "abstained"
        why.append(why_abstention(text, task.language))
    elif part is None:
        verdict, tone = "no detector has read it", "unsure"
    elif part == 0:
        verdict, tone = "nothing flagged", "good"
    else:
        verdict, tone = f"{shown(part, 'share')} of the words flagged", "bad"
    name = next(iter(answer.readings), "")
    return ShownAnswer(
        model,
        pieces_of(text, spans, ANSWER_LENGTH),
        verdict,
        tone,
        tuple(each for each in why if each),
        kinds(task, answer),
        facts_of(task, answer, name, _FACTS),
        part,
    )


def _value(answer: Answer, metric: str) -> float | None:
    reading = next(iter(answer.readings.values()), None)
    value = reading.values.get(metric) if reading is not None else None
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
