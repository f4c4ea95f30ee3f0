"""Families of tasks: the same task in several languages, such as ``nomiracl_de`` and ``nomiracl_fr``; or a group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.units import without_point
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.results.board import reported_figure
from lm_eval_tasks.runs import Run, TaskRun
from lm_eval_tasks.runs.other_tasks import WHY_NO_MEAN

MANY = 3
"""Models from which on a report shows them all on one axis, and pairs of them as matrices."""

MEAN = "mean"
"""The key, in place of a language, of the mean over a model's languages."""


@dataclass(frozen=True)
class Family:
    """The tasks of a run that differ only in language, or those of a group."""

    name: str  # of their group, such as ``nomiracl_role``; of the task itself if it has no language
    tasks: Mapping[str, TaskRun]  # by language, in the order of the run; ``""`` for a task without one; others by name
    languages: int = 0  # number of languages of its group; 0 where no group of ours has this name
    results: Mapping[str, Any] = field(default_factory=dict)  # of a complete group: ``metric,filter`` to value

    @property
    def any_task(self) -> TaskRun:
        """One of its tasks, for what they share: metrics and filters."""
        return next(iter(self.tasks.values()))

    @property
    def parts(self) -> str:
        """What its tasks are, in the plural."""
        return "tasks" if self.any_task.table is None else "languages"

    @property
    def filter(self) -> str:
        """The filter whose readings of the answers count."""
        return self.any_task.headline_filter

    @property
    def is_whole(self) -> bool:
        """Whether every language of its group is in the run."""
        return 0 < self.languages <= len(self.tasks)

    def figures(self, metric: str) -> dict[str, Figure]:
        """The figures of a metric by language; undefined where no document is in the denominator."""
        return {language: task.figure(metric, self.filter) for language, task in self.tasks.items()}

    def mean(self, metric: str) -> Figure:
        """The mean of a metric over the languages, as the board has it; for a single task, its figure."""
        return reported_figure([*self.tasks.values()], metric, self.filter, self.results)

    def why_no_mean(self, metric: str) -> str:
        """The first reason why a metric of another task is no mean of its documents' values; empty where there is none."""
        by_metric = (task.figures.get(self.filter, {}) for task in self.tasks.values())
        return next((str(why) for each in by_metric if (why := each.get(metric, {}).get(WHY_NO_MEAN))), "")

    def drawable(self, metric: str) -> dict[str, Figure]:
        """Figures to draw: by language, sorted, and last their mean (:data:`MEAN`). What is not measurable has no value."""
        figures = dict(sorted(self.figures(metric).items()))
        if len(figures) > 1:
            figures[MEAN] = self.mean(metric)
        unit = self.any_task.metric(metric).unit
        return {language: without_point(figure, unit) for language, figure in figures.items()}


def families(run: Run) -> list[Family]:
    """The families of a run, in the order of its tasks.

    If the run has a complete group of ours, the family is exactly that group, so that its mean is the group's number. A
    further language of the same benchmark (``mfava_fa`` beside the group ``mfava``) is then a family of its own.
    """
    by_name: dict[str, dict[str, TaskRun]] = {}
    for task in run.tasks.values():
        by_name.setdefault(task.family, {})[task.part] = task
    listed: list[Family] = []
    for name, tasks in by_name.items():
        members = {*{**run.groups, **catalogue.groups()}.get(name, ())}
        is_whole = bool(members) and members <= {task.task for task in tasks.values()}
        outside = {language: task for language, task in tasks.items() if is_whole and task.task not in members}
        inside = {language: task for language, task in tasks.items() if language not in outside}
        results = run.group_results.get(name, {}) if is_whole else {}
        listed.append(Family(name, inside, len(members), results))
        listed += [Family(task.task, {language: task}) for language, task in outside.items()]
    return listed


def language_name(code: str) -> str:
    """The English name of a language of our benchmarks; for other languages the code."""
    return catalogue.languages().get(code, code)


def title_of(task: TaskRun) -> str:
    """The name of a task's benchmark, as in its paper; of a task that is in no table, its group's or its own."""
    return (task.table.title if task.table else "") or task.benchmark or task.task
