"""Which figures of a benchmark stand on the leaderboard."""

from __future__ import annotations

import re

from lm_eval_tasks.runs import TaskRun

__all__ = ["family_of", "headlines_of"]

_CLAPNQ = ("rougeL", "recall", "rougeLp", "unanswerable_accuracy", "answerable_abstention_rate")
_HEADLINES = {
    "nomiracl": (("hallucination_rate", "robust"), ("error_rate", "robust")),  # `strict` is for the paper
    "clapnq": tuple((metric, "answer") for metric in _CLAPNQ),
    "mfava": (("rogan_gladen_rate", "answer"), ("estimated_rate", "answer"), ("f1", "tags")),
    "mushroom": (("iou", "tags"), ("rho", "tags")),
}
"""Benchmark to metrics and the filters that read the answers."""


def headlines_of(task: TaskRun) -> list[tuple[str, str]]:
    """Metrics and filters of a task that has figures: those of the table above. Of a benchmark that is not in it, every
    metric of which more or less is better, with the task's first filter."""
    known = _HEADLINES.get(task.benchmark)
    if known is None:
        first = task.filters[:1]
        known = tuple((m.name, name) for name in first for m in task.metrics if m.higher_is_better is not None)
    return [(metric, name) for metric, name in known if metric in task.figures.get(name, {})]


def family_of(task: TaskRun) -> str:
    """What a task is called without its language: tasks of a family stand in one table."""
    return re.sub(rf"_{re.escape(task.language)}(?=_|$)", "", task.task, count=1) if task.language else task.task
