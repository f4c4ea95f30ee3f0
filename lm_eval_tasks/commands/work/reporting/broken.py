"""Signs of a broken run, counted in its logged answers (:mod:`custom_metrics.broken_run`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from custom_metrics.broken_run import Labels, Sign, count, kind_of, warning
from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER
from lm_eval_tasks.commands.work.reporting.doubts import READINGS
from lm_eval_tasks.outcome import answered
from lm_eval_tasks.runs import Answer, Answers, TaskRun, digest_of

__all__ = ["derive_signs", "signs_of_broken_run"]

_IN_OWN_WORDS = ("detected_rate", "rougeL")
"""Metrics of the tasks whose answers are a model's own words."""

_KIND, _TEXT, _LABEL = "sign", "text", "label"
_LABELS = (ANSWER, NO_ANSWER, INVALID)
_PLACES: Mapping[str, float] = {label: float(place) for place, label in enumerate(_LABELS)}


def _labelled(task: TaskRun) -> bool:
    return {*READINGS} <= {*task.filters}


def _looked_at(task: TaskRun) -> bool:
    generated = any(metric.name in _IN_OWN_WORDS for metric in task.metrics)
    return task.samples is not None and (_labelled(task) or generated)


def derive_signs(task: TaskRun) -> Callable[[Answer, str, bool], dict[str, Any]] | None:
    """What :func:`signs_of_broken_run` counts, of each answer as it is read (:class:`lm_eval_tasks.runs.Answers`); ``None``
    where it looks at nothing."""
    if not _looked_at(task):
        return None
    labelled = _labelled(task)
    read_already = Labels(*READINGS) if labelled else None

    def derive(answer: Answer, name: str, first: bool) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if first:
            asked = answered(answer.doc, answer.response)._replace(labels=read_already)
            found = {_KIND: kind_of(asked), _TEXT: digest_of(answer.response)}
        if labelled and name in READINGS:
            label = str(answer.readings[name].answer)
            found[_LABEL] = _PLACES.get(label, label)  # a number takes eight bytes
        return found

    return derive


def signs_of_broken_run(task: TaskRun, read: Callable[[TaskRun], Answers]) -> str:
    """What is wrong with the answers of a task; empty where nothing is, or where no answers were logged.

    Args:
        task: of a run.
        read: the answers of a task, with what :func:`derive_signs` keeps of them.

    Raises:
        CorruptSource: the samples file is damaged in the middle.
    """
    if not _looked_at(task):
        return ""
    said = warning(task.task, count(_signs(read(task), _labelled(task)))) or ""
    return said.removeprefix(f"{task.task}: ").removeprefix("this run looks broken: ").removesuffix(".")


def _signs(answers: Answers, labelled: bool) -> Iterator[Sign]:
    kinds, texts = ([*_merged(answers, name)] for name in (_KIND, _TEXT))
    if not labelled:
        yield from map(Sign, kinds, texts)
        return
    if not {*READINGS} <= answers.readings.keys():
        return
    read = [answers.readings[name] for name in READINGS]
    both = (read[0].present & read[1].present).tolist()  # of a file that was cut, the last may lack one
    strict, robust = (each.derived[_LABEL].values() for each in read)
    for kind, text, has, *labels in zip(kinds, texts, both, strict, robust, strict=True):
        if has:
            yield Sign(
                kind, text, Labels(*(label if isinstance(label, str) else _LABELS[int(label)] for label in labels))
            )


def _merged(answers: Answers, name: str) -> Iterator[Any]:
    """What was kept of the first row of each document, whichever filter that is of."""
    columns = [each.derived[name].values() for each in answers.readings.values() if name in each.derived]
    return (next((value for value in row if value is not None), None) for row in zip(*columns, strict=True))
