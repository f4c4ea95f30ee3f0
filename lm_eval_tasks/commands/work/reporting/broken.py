"""Signs in the logged answers of a run that it is broken (:mod:`custom_metrics.broken_run`), or answers all questions
alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from custom_metrics.broken_run import FEWEST_EQUAL, Answered, Labels, faults, signs_of
from lm_eval_tasks.outcome import answered
from lm_eval_tasks.runs import Answer, TaskRun

__all__ = ["EQUAL", "READINGS", "Signs", "one_sided", "signs_of_run"]

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


class Signs(NamedTuple):
    """What is wrong with the answers of a task.

    Attributes:
        faults: of a run that looks broken; empty where it does not.
        equal: how many answers there are, where all are equal; else 0.
    """

    faults: str = ""
    equal: int = 0


def signs_of_run(task: TaskRun, read: Callable[[TaskRun], Sequence[Answer]] = TaskRun.answers) -> Signs:
    """What is wrong with the answers of a task; nothing where no answers were logged.

    Args:
        task: of a run.
        read: the answers of a task, where they have been read already.

    Raises:
        CorruptSource: the samples file is damaged in the middle.
    """
    labelled = {*READINGS} <= {*task.filters}
    generated = any(metric.name in _IN_OWN_WORDS for metric in task.metrics)
    if task.samples is None or not (labelled or generated):
        return Signs()
    signs = signs_of(_answered(read(task), labelled))
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


def _answered(answers: Sequence[Answer], labelled: bool) -> Iterator[Answered]:
    for answer in answers:
        found = answered(answer.doc, answer.response)
        if not labelled:
            yield found
        elif {*READINGS} <= answer.readings.keys():  # of a file that was cut, the last may lack one
            yield found._replace(labels=Labels(*(str(answer.readings[name].answer) for name in READINGS)))
