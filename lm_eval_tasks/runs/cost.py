"""What a made-up answer costs: runs whose balanced error is weighed by it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from custom_metrics.scores import balanced_error
from custom_metrics.statistics.strata import mean_of_shares
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.definition.schema import BALANCED
from lm_eval_tasks.runs.run import Run, TaskRun


def with_cost(run: Run, cost: float) -> Run:
    """The run as if its balanced errors had been computed with this cost of a made-up answer.

    Raises:
        UsageError: the cost is not larger than 0.
    """
    if not (math.isfinite(cost) and cost > 0):
        raise UsageError(f"--cost takes how many wrong refusals a made-up answer costs, such as 3, got {cost:g}")
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
        if (entry := by_metric.get(BALANCED)) is not None:
            figure = balanced_error.with_cost(task.figure(BALANCED, filter_name), cost)
            weighed = figure.as_json(str(entry.get("denominator") or ""))
            figures[filter_name] = {**by_metric, BALANCED: weighed}
            results |= {
                f"{BALANCED},{filter_name}": figure.value,
                f"{BALANCED}_stderr,{filter_name}": figure.standard_error,
            }
    metrics = tuple(metric.with_cost(cost) for metric in task.metrics)
    return replace(task, figures=figures, results=results, metrics=metrics, cost=cost)
