"""A document of a detection task: an answer that somebody marked, and the same answer as a detector tagged it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from custom_metrics.reading.tagged_text import align, parse
from lm_eval_tasks.results.report.documents.document import (
    Document,
    ShownAnswer,
    address_of,
    pieces_of,
    text_of,
)
from lm_eval_tasks.results.report.documents.facts import facts_of
from lm_eval_tasks.results.report.documents.limits import ANSWER_LENGTH, PAGE_LENGTH, QUESTION_LENGTH
from lm_eval_tasks.results.report.documents.tagged import spans_in
from lm_eval_tasks.runs import Answer, TaskRun

__all__ = ["kinds", "label", "lay_out"]

_REFERENCE = re.compile(r"\[Reference\]\n(?P<text>.*)\n\n\[Answer\]\n", re.DOTALL)  # of detection_prompt.jinja
_FACTS = ("iou", "rho", "f1")


def label(task: TaskRun, answer: Answer) -> str:
    """What detectors can agree or disagree on: how well they agree with the people, in halves."""
    agreed = _agreement(answer)
    return "lost" if _value(answer, "lost_rate") == 1.0 else "" if agreed is None else str(agreed >= 0.5)


def kinds(task: TaskRun, answer: Answer) -> frozenset[str]:
    """Of one answer: ``invalid`` where another text came back, ``wrong`` where less than half of it agrees."""
    if _value(answer, "lost_rate") == 1.0:
        return frozenset({"invalid"})
    agreed = _agreement(answer)
    return frozenset({"wrong"} if agreed is not None and agreed < 0.5 else ())


def lay_out(task: TaskRun, answers: Mapping[str, Answer]) -> Document:
    """A document. `answers` are detectors to tagged texts; the answer that they tagged is the reference."""
    first = next(iter(answers.values()))
    doc = first.doc
    text = str(doc.get("answer") or "")
    shown = _REFERENCE.search(first.prompt)
    page = doc.get("reference") or (shown["text"] if shown else "")
    return Document(
        task=task.task,
        benchmark=task.benchmark,
        language=task.language,
        key=first.key,
        question=text_of(doc.get("query") or doc.get("prompt") or doc.get("title"), QUESTION_LENGTH),
        right="The reference is the answer with the spans that its annotators marked",
        answers=tuple(_answer(task, model, answer, text) for model, answer in answers.items()),
        references=(pieces_of(text, spans_in(doc.get("spans")), ANSWER_LENGTH),),
        page=text_of(page, PAGE_LENGTH) if page else None,
        page_title=str(doc.get("title") or ""),
        address=address_of(doc.get("url")),
    )


def _answer(task: TaskRun, model: str, answer: Answer, original: str) -> ShownAnswer:
    reading = next(iter(answer.readings.values()), None)
    written = reading.answer if reading is not None and isinstance(reading.answer, str) else answer.response
    alignment = align(*parse(written), original)
    agreed = _agreement(answer)
    if alignment.kind == "lost":
        text, verdict, tone = text_of(answer.response, ANSWER_LENGTH), "Invalid: another text came back", "unsure"
    else:
        text = pieces_of(original, alignment.spans, ANSWER_LENGTH)
        verdict = "agreement unknown" if agreed is None else f"agreement {agreed:.2f}"
        tone = "plain" if agreed is None else "good" if agreed >= 0.5 else "bad"
    name = next(iter(answer.readings), "")
    return ShownAnswer(model, text, verdict, tone, (), kinds(task, answer), facts_of(task, answer, name, _FACTS))


def _agreement(answer: Answer) -> float | None:
    found = _value(answer, "iou")
    return found if found is not None else _value(answer, "f1")


def _value(answer: Answer, metric: str) -> float | None:
    reading = next(iter(answer.readings.values()), None)
    value = reading.values.get(metric) if reading is not None else None
    return float(value) if isinstance(value, (int, float)) else None
