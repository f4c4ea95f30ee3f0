"""Signs of a broken run, counted in its logged answers (:mod:`custom_metrics.broken_run`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from custom_metrics.broken_run import Answered, Labels, signs_of, warning
from lm_eval_tasks.commands.work.reporting.doubts import READINGS
from lm_eval_tasks.outcome import answered
from lm_eval_tasks.runs import Answer, TaskRun

__all__ = ["signs_of_broken_run"]

_IN_OWN_WORDS = ("detected_rate", "rougeL")
"""Metrics of the tasks whose answers are a model's own words."""


def signs_of_broken_run(task: TaskRun, read: Callable[[TaskRun], Sequence[Answer]] = TaskRun.answers) -> str:
    """What is wrong with the answers of a task; empty where nothing is, or where no answers were logged.

    Args:
        task: of a run.
        read: the answers of a task, where they have been read already.

    Raises:
        CorruptSource: the samples file is damaged in the middle.
    """
    labelled = {*READINGS} <= {*task.filters}
    generated = any(metric.name in _IN_OWN_WORDS for metric in task.metrics)
    if task.samples is None or not (labelled or generated):
        return ""
    said = warning(task.task, signs_of(_answered(read(task), labelled))) or ""
    return said.removeprefix(f"{task.task}: ").removeprefix("this run looks broken: ").removesuffix(".")


def _answered(answers: Sequence[Answer], labelled: bool) -> Iterator[Answered]:
    for answer in answers:
        found = answered(answer.doc, answer.response)
        if not labelled:
            yield found
        elif {*READINGS} <= answer.readings.keys():  # of a file that was cut, the last may lack one
            yield found._replace(labels=Labels(*(str(answer.readings[name].answer) for name in READINGS)))
