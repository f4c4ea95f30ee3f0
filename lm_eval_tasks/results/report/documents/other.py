"""A document of a task that has no page of its own here: what was sent, what came back, and the numbers."""

from __future__ import annotations

from collections.abc import Mapping

from lm_eval_tasks.results.report.documents.document import Document, ShownAnswer, text_of
from lm_eval_tasks.results.report.documents.facts import facts_of
from lm_eval_tasks.results.report.documents.limits import ANSWER_LENGTH, PAGE_LENGTH, QUESTION_LENGTH
from lm_eval_tasks.runs import Answer, TaskRun

__all__ = ["kinds", "label", "lay_out"]


def label(task: TaskRun, answer: Answer) -> str:
    """What models can agree or disagree on: the first filter's reading."""
    reading = next(iter(answer.readings.values()), None)
    return str(reading.answer) if reading is not None else ""


def kinds(task: TaskRun, answer: Answer) -> frozenset[str]:
    """None: what is wrong is not known here."""
    return frozenset()


def lay_out(task: TaskRun, answers: Mapping[str, Answer]) -> Document:
    """A document. `answers` are models to answers."""
    first = next(iter(answers.values()))
    question = next((first.doc[name] for name in ("question", "query") if isinstance(first.doc.get(name), str)), "")
    return Document(
        task=task.task,
        benchmark=task.benchmark,
        language=task.language,
        key=first.key,
        question=text_of(question or first.key, QUESTION_LENGTH),
        right="",
        answers=tuple(
            ShownAnswer(
                model,
                text_of(answer.response, ANSWER_LENGTH),
                "",
                "plain",
                facts=facts_of(task, answer, next(iter(answer.readings), "")),
            )
            for model, answer in answers.items()
        ),
        prompt=text_of(first.prompt, PAGE_LENGTH) if first.prompt else None,
    )
