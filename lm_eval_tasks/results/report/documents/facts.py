"""The numbers of one answer, as a reader sees them."""

from __future__ import annotations

import math

from lm_eval_tasks.runs import Answer, TaskRun

__all__ = ["facts_of"]


def facts_of(
    task: TaskRun, answer: Answer, name: str, only: tuple[str, ...] | None = None
) -> tuple[tuple[str, str], ...]:
    """Metric to value, as text; metrics whose denominator the document is not in are left out.

    Args:
        name: of the filter.
        only: metrics to show, in this order; default all of the task that are numbers.
    """
    reading = answer.readings.get(name)
    if reading is None:
        return ()
    names = only if only is not None else tuple(metric.name for metric in task.metrics)
    found = []
    for metric in names:
        value = reading.values.get(metric)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            found.append((metric, f"{value:.2f}".rstrip("0").rstrip(".")))
    return tuple(found)
