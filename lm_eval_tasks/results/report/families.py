"""Families of tasks: the same questions' task in several languages, such as ``nomiracl_de`` and ``nomiracl_fr``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.strata import mean_of
from custom_metrics.statistics.units import unit_of, without_point
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.runs import Run, TaskRun

__all__ = ["Family", "families", "language_name"]


@dataclass(frozen=True)
class Family:
    """The tasks of a run that differ in their language alone.

    Attributes:
        name: of their group, such as ``nomiracl_role``; of the task itself where it names no language.
        benchmark: folder of the benchmark; empty for tasks that are in no table of ours.
        tasks: language to task, in the order of the run; language ``""`` for a task without one.
        languages: how many its group has; 0 where no group of ours has this name.
        results: of that group, where every language is in the run: ``metric,filter`` to value.
    """

    name: str
    benchmark: str
    tasks: Mapping[str, TaskRun]
    languages: int = 0
    results: Mapping[str, Any] = field(default_factory=dict)

    @property
    def any(self) -> TaskRun:
        """One of its tasks: they have the same metrics and filters."""
        return next(iter(self.tasks.values()))

    @property
    def has_results(self) -> bool:
        """Whether there are numbers: samples without their results file have none."""
        return any(task.figures or task.results for task in self.tasks.values())

    @property
    def is_whole(self) -> bool:
        """Whether every language of its group is in the run."""
        return 0 < self.languages <= len(self.tasks)

    def figures(self, metric: str, filter_name: str) -> dict[str, Figure]:
        """Language to a metric's figure; undefined where no document is in the denominator."""
        return {language: task.figure(metric, filter_name) for language, task in self.tasks.items()}

    def mean(self, metric: str, filter_name: str) -> Figure:
        """The mean of a metric over the languages, each of which counts the same, with bounds of
        :mod:`custom_metrics.statistics.strata`; of one task its figure. Languages that have passages in common
        have the standard error of the group's results, which is over passages."""
        figures, share = [*self.figures(metric, filter_name).values()], self.any.is_share(metric)
        mean = mean_of(figures, share)
        value, error = (self.results.get(f"{name},{filter_name}") for name in (metric, f"{metric}_stderr"))
        if isinstance(error, float) and isinstance(value, float) and math.isclose(value, mean.value) and not share:
            return mean_of(figures, share, error)
        return mean

    def drawn(self, metric: str, filter_name: str) -> dict[str, Figure]:
        """:meth:`figures` as they are drawn: what is not measurable has bounds, and no value."""
        figures = self.figures(metric, filter_name)
        return {language: without_point(figure, unit_of(metric)) for language, figure in figures.items()}

    def drawn_mean(self, metric: str, filter_name: str) -> Figure:
        """:meth:`mean` as it is drawn."""
        return without_point(self.mean(metric, filter_name), unit_of(metric))


def families(run: Run) -> list[Family]:
    """The families of a run, in the order of its tasks.

    Where a group of ours is whole, a family is exactly that group, so that its mean is the group's number. A further
    language of the same benchmark (``mfava_fa`` beside the group ``mfava``) is then a family of its own.
    """
    found: dict[str, dict[str, TaskRun]] = {}
    for name, task in run.tasks.items():
        found.setdefault(_family_of(name, task.language), {})[task.language] = task
    groups = _groups()
    listed: list[Family] = []
    for name, tasks in found.items():
        members = groups.get(name, frozenset())
        inside = {language: task for language, task in tasks.items() if task.task in members}
        outside = {language: task for language, task in tasks.items() if task.task not in members}
        if members and len(inside) == len(members):
            parts = [(name, inside), *((task.task, {language: task}) for language, task in outside.items())]
        else:
            parts = [(name, tasks)]
        for called, part in parts:
            benchmark = next(iter(part.values())).benchmark
            results = run.group_results.get(called, {}) if part is inside else {}
            listed.append(Family(called, benchmark, part, len(groups.get(called, ())), results))
    return listed


def language_name(code: str) -> str:
    """The English name of a language of our benchmarks; the code itself for another."""
    return _names().get(code, code)


def _family_of(task: str, language: str) -> str:
    return re.sub(rf"_{re.escape(language)}(?=_|$)", "", task, count=1) if language else task


@lru_cache(maxsize=1)
def _groups() -> dict[str, frozenset[str]]:
    """Group to the names of its tasks."""
    return {
        group.name: frozenset(task.name for task in group.tasks)
        for benchmark in catalogue.benchmarks()
        for group in benchmark.groups
    }


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    return dict(catalogue.languages())
