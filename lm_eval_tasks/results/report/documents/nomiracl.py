"""A NoMIRACL document: ten passages, and whether they answer the question."""

from __future__ import annotations

import re
from collections.abc import Mapping

from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER
from lm_eval_tasks.results.report.documents.document import (
    Document,
    Passage,
    ShownAnswer,
    strings_of,
    text_of,
)
from lm_eval_tasks.results.report.documents.limits import ANSWER_LENGTH, PASSAGE_LENGTH, QUESTION_LENGTH
from lm_eval_tasks.results.report.documents.reading import why_robust, why_strict
from lm_eval_tasks.runs import Answer, TaskRun

__all__ = ["kinds", "label", "lay_out"]

_MARKER = re.compile(r"^\[(\d{1,3})\] ", re.MULTILINE)
_BEHIND = re.compile(r"\n\n(?:OUTPUT:|Remember to read the contexts carefully\.)")


def label(task: TaskRun, answer: Answer) -> str:
    """What models can agree or disagree on: the label, by the reading of the headlines."""
    reading = answer.readings.get(task.headline_filter)
    return str(reading.answer) if reading is not None else INVALID


def kinds(task: TaskRun, answer: Answer) -> frozenset[str]:
    """Of one answer, by the reading of the headlines: ``wrong`` (hallucination or error), ``invalid``, ``abstained``."""
    read, right = label(task, answer), answer.doc.get("label")
    found = set()
    if read == INVALID:
        found.add("invalid")
    elif read != right:
        found.add("wrong")
    if read == NO_ANSWER:
        found.add("abstained")
    return frozenset(found)


def lay_out(task: TaskRun, answers: Mapping[str, Answer]) -> Document:
    """A document. `answers` are models to answers."""
    first = next(iter(answers.values()))
    doc, question = first.doc, str(first.doc.get("query", ""))
    relevant = doc.get("subset") == "relevant"
    return Document(
        task=task.task,
        benchmark=task.benchmark,
        language=task.language,
        key=first.key,
        question=text_of(question, QUESTION_LENGTH),
        right="A passage answers the question" if relevant else "No passage answers the question",
        answers=tuple(_answer(task, model, answer, question) for model, answer in answers.items()),
        passages=tuple(passages_of(first.prompt, len(strings_of(doc.get("docids"))))),
        prompt=None if _MARKER.search(first.prompt) else text_of(first.prompt, PASSAGE_LENGTH),
    )


def _answer(task: TaskRun, model: str, answer: Answer, question: str) -> ShownAnswer:
    readings = {name: str(reading.answer) for name, reading in answer.readings.items()}
    read, right = label(task, answer), answer.doc.get("label")
    why = []
    if "strict" in readings:
        why.append(why_strict(answer.response, readings["strict"]))
        if len({*readings.values()}) > 1:
            why.append(why_robust(answer.response, read, task.language, question))
    if read == INVALID:
        verdict, tone = "Invalid", "unsure"
    elif read == right:
        verdict, tone = ("right: answered", "good") if read == ANSWER else ("right: abstained", "good")
    else:
        verdict, tone = ("hallucination", "bad") if read == ANSWER else ("error: abstained", "bad")
    if "strict" in readings and readings["strict"] != read:
        verdict += f" (strict reading: {readings['strict']})"
    return ShownAnswer(
        model, text_of(answer.response, ANSWER_LENGTH), verdict, tone, tuple(filter(None, why)), kinds(task, answer)
    )


def passages_of(prompt: str, number: int) -> list[Passage]:
    """The passages of a prompt, ``[1] title: text`` and so on; a passage may itself hold such a marker.

    Args:
        prompt: as it was sent.
        number: of passages that the document names; 0 where it does not say.
    """
    found: list[tuple[int, int]] = []  # where a marker begins and ends
    for marker in _MARKER.finditer(prompt):
        if int(marker[1]) == len(found) + 1 and (not number or len(found) < number):
            found.append(marker.span())
    passages = []
    for at, (_, start) in enumerate(found):
        end = found[at + 1][0] if at + 1 < len(found) else len(prompt)
        text = prompt[start:end]
        if at + 1 == len(found) and (behind := _BEHIND.search(text)):
            text = text[: behind.start()]
        title, colon, rest = text.partition(": ")
        if not colon or "\n" in title or len(title) > 200:
            title, rest = "", text
        passages.append(Passage(at + 1, title, text_of(rest.strip(), PASSAGE_LENGTH)))
    return passages
