"""What a made-up answer costs: runs whose balanced error is weighed by it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

from custom_metrics.scores import balanced_error
from custom_metrics.statistics.strata import mean_of_shares
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import excerpt
from lm_eval_tasks.definition.schema import BALANCED
from lm_eval_tasks.runs.run import Run, TaskRun


def checked_cost(cost: Any) -> float:
    """A cost as a float; a UsageError unless it is a finite number larger than 0."""
    is_number = isinstance(cost, Real) and not isinstance(cost, bool)
    try:
        number = float(cost) if is_number else math.nan
    except OverflowError:  # an integer of hundreds of digits
        number = math.inf
    if not (math.isfinite(number) and number > 0):
        given = f"{number:g}" if is_number else excerpt(cost)
        raise UsageError(f"--cost takes how many wrong refusals a made-up answer costs, such as 3, got {given}")
    return number


def with_cost(run: Run, cost: float) -> Run:
    """The run as if its balanced errors had been computed with this cost of a made-up answer; errors are those of
    :func:`checked_cost`."""
    cost = checked_cost(cost)
    if all(task.cost == cost for task in run.tasks.values()):
        return run
    tasks = {name: _task_with_cost(task, cost) for name, task in run.tasks.items()}
    groups: dict[str, Mapping[str, Any]] = {}
    for group, results in run.group_results.items():
        changed = dict(results)
        for key in [key for key in results if key.partition(",")[0] in (BALANCED, f"{BALANCED}_stderr")]:
            name, _, filter_name = key.partition(",")
            figure = mean_of_shares([tasks[task].figure(BALANCED, filter_name) for task in run.groups.get(group, ())])
            changed[key] = figure.value if name == BALANCED else figure.standard_error
        groups[group] = changed
    return replace(run, tasks=tasks, group_results=groups)


def _task_with_cost(task: TaskRun, cost: float) -> TaskRun:
    figures, results = dict(task.figures), dict(task.results)
    for filter_name, by_metric in task.figures.items():
        if BALANCED in by_metric:
            figure = balanced_error.with_cost(task.figure(BALANCED, filter_name), cost)
            weighed = figure.as_json(task.metric(BALANCED).with_cost(cost).denominator)
            figures[filter_name] = {**by_metric, BALANCED: weighed}
            results |= {
                f"{BALANCED},{filter_name}": figure.value,
                f"{BALANCED}_stderr,{filter_name}": figure.standard_error,
            }
    metrics = tuple(metric.with_cost(cost) for metric in task.metrics)
    return replace(task, figures=figures, results=results, metrics=metrics, cost=cost)
