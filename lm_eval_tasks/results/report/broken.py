"""Signs in the logged answers of a run that it is broken (:mod:`custom_metrics.broken_run`), or answers all questions
alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from custom_metrics.broken_run import FEWEST_EQUAL, Labels, Sign, count, faults, kind_of
from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER
from lm_eval_tasks.harness.run_warnings import answered
from lm_eval_tasks.runs import Answer, Answers, TaskRun

__all__ = ["EQUAL", "READINGS", "Signs", "derive_signs", "one_sided", "signs_of_run"]

_IN_OWN_WORDS = ("detected_rate", "rougeL")
"""Metrics of the tasks whose answers are a model's own words."""


READINGS = ("strict", "robust")
"""The filters that read NoMIRACL's answers: by the paper's rule, and by meaning."""

EQUAL = "all its answers are equal"

_DECLINES, _CLAIMS = "it declines every question", "it claims to see an answer to every question"
_ONE_SIDED: tuple[tuple[str, Mapping[str, float]], ...] = (
    (_DECLINES, {"hallucination_rate": 0.0, "error_rate": 1.0}),
    (_CLAIMS, {"hallucination_rate": 1.0, "error_rate": 0.0}),
    (_DECLINES, {"unanswerable_accuracy": 1.0, "answerable_abstention_rate": 1.0}),
    (_DECLINES, {"abstention_rate": 1.0}),
)
"""What is said of a run that gives every question the same verdict, and the figures by which that is known."""


_KIND, _LABEL = "sign", "label"
_LABELS = (ANSWER, NO_ANSWER, INVALID)
_PLACES: Mapping[str, float] = {label: float(place) for place, label in enumerate(_LABELS)}


class Signs(NamedTuple):
    """What is wrong with the answers of a task.

    Attributes:
        faults: of a run that looks broken; empty where it does not.
        equal: how many answers there are, where all are equal; else 0.
    """

    faults: str = ""
    equal: int = 0


def _labelled(task: TaskRun) -> bool:
    return {*READINGS} <= {*task.filters}


def _looked_at(task: TaskRun) -> bool:
    generated = any(metric.name in _IN_OWN_WORDS for metric in task.metrics)
    return task.samples is not None and (_labelled(task) or generated)


def derive_signs(task: TaskRun) -> Callable[[Answer, str, bool], dict[str, Any]] | None:
    """What :func:`signs_of_run` counts, of each answer as it is read (:class:`lm_eval_tasks.runs.Answers`); ``None``
    where it looks at nothing."""
    if not _looked_at(task):
        return None
    labelled = _labelled(task)
    read_already = Labels(*READINGS) if labelled else None

    def derive(answer: Answer, name: str, first: bool) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if first:
            asked = answered(answer.doc, answer.response)._replace(labels=read_already)
            found = {_KIND: kind_of(asked)}
        if labelled and name in READINGS:
            label = str(answer.readings[name].answer)
            found[_LABEL] = _PLACES.get(label, label)  # a number takes eight bytes
        return found

    return derive


def signs_of_run(task: TaskRun, read: Callable[[TaskRun], Answers]) -> Signs:
    """What is wrong with the answers of a task; nothing where no answers were logged.

    Args:
        task: of a run.
        read: the answers of a task, with what :func:`derive_signs` keeps of them.

    Raises:
        CorruptSource: the samples file is damaged in the middle.
    """
    if not _looked_at(task):
        return Signs()
    signs = count(_signs(read(task), _labelled(task)))
    return Signs(faults(signs, task.settings.prompting), signs.total if signs.are_equal else 0)


def one_sided(task: TaskRun, filter_name: str) -> tuple[str, int]:
    """What is said of a run that gives every question the same verdict, and over how many questions; empty where it does
    not. Such a run is best by one of two rates, whatever it was asked."""
    for said, ends in _ONE_SIDED:
        figures = [task.figure(metric, filter_name) for metric in ends]
        number = sum(figure.n for figure in figures)
        if number >= FEWEST_EQUAL and [figure.value for figure in figures] == [*ends.values()]:
            return said, number
    return "", 0


def _signs(answers: Answers, labelled: bool) -> Iterator[Sign]:
    columns = [each.derived[_KIND].values() for each in answers.readings.values() if _KIND in each.derived]
    kinds = [next((kind for kind in row if kind is not None), None) for row in zip(*columns, strict=True)]
    texts = answers.responses.tolist()
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
