"""Differences on a report: between its models, and to published figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from custom_metrics.statistics.units import NOT_MEASURABLE, Unit
from lm_eval_tasks.data.sources import MissingSource
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.published import PublishedDifference, compare_with_published
from lm_eval_tasks.results.compare import Comparison, Difference, compare_runs
from lm_eval_tasks.results.compare.tables import matrices
from lm_eval_tasks.results.formats import (
    Section,
    as_text,
    bounds,
    not_measurable,
    p_value,
    points,
    range_of_points,
)
from lm_eval_tasks.results.report.headlines import MANY, title_of
from lm_eval_tasks.runs import Answers, Run, TaskRun


class MetricDifferences(NamedTuple):
    """The rows of a metric in a table of differences, as texts: groups and single tasks (`main`), and each language."""

    benchmark: str
    measured: Metric
    filter: str
    main: list[dict[str, Any]]
    languages: list[dict[str, Any]]


class Differences(NamedTuple):
    """The differences between the models of a report: rows by benchmark, headlines first, or of many models matrices; notes
    of the comparison, or the reason why there is none; and the comparison."""

    metrics: list[MetricDifferences]
    notes: tuple[str, ...]
    comparison: Comparison | None = None
    matrices: Sequence[Section] = ()


def differences(
    runs: Sequence[Run], read_answers: Callable[[TaskRun], Answers] = TaskRun.answers
) -> Differences | None:
    """The differences of runs; ``None`` for a single one."""
    if len(runs) < 2:
        return None
    try:
        comparison = compare_runs(runs, refuse=False, read_answers=read_answers)
    except (ValueError, MissingSource) as error:  # nothing in common, other documents, no answers
        return Differences([], (f"The models are not compared: {error}",))
    refused = tuple(f"{refusal.task} is not compared: {refusal.reason}" for refusal in comparison.refused)
    metrics = [*_by_metric(comparison, {task.benchmark: title_of(task) for run in runs for task in run.tasks.values()})]
    nothing = () if metrics else ("The models are not compared: they were asked nothing that is the same.",)
    tables: Sequence[Section] = ()
    if metrics and len(runs) >= MANY:
        tables = matrices(comparison, lambda value, metric: as_text(value, metric.unit))
    return Differences(metrics, (*nothing, *refused, *comparison.notes), comparison, tables)


def _by_metric(comparison: Comparison, titles: Mapping[str, str]) -> Iterator[MetricDifferences]:
    of_metrics: dict[tuple[str, str, str], list[Difference]] = {}  # in the comparison's order
    for row in comparison.differences:
        if row.headline:
            of_metrics.setdefault((row.benchmark, row.metric, row.filter), []).append(row)
    for (benchmark, _, filter_name), listed in of_metrics.items():
        width = max((abs(x) for row in listed for x in (row.low, row.high) if math.isfinite(x)), default=0.0)
        of_language = {row.task for row in listed if row.language and not row.group}
        metric = MetricDifferences(titles[benchmark], listed[0].measured, filter_name, [], [])
        for row in listed:
            rows = metric.languages if row.task in of_language and len(of_language) > 1 else metric.main
            rows.append(_row(row, comparison.models, width))
        yield metric


def _row(row: Difference, models: Sequence[str], width: float) -> dict[str, Any]:
    """A row of the table, with values to sort by. It is drawn on a scale of 0 to 100, where 50 is no difference and the
    ends are differences of `width`."""
    unit, ends = row.measured.unit, (row.low, row.difference, row.high)
    drawn = None
    if width and all(map(math.isfinite, ends)):
        low, value, high = (round(50 + 50 * max(-1.0, min(1.0, end / width)), 2) for end in ends)
        drawn = low, value if row.is_measurable else None, high
    return {
        "task": f"{row.task}, mean over {row.tasks} tasks" if row.group else row.task,
        "first": models[row.first],
        "second": models[row.second],
        "first_value": as_text(row.first_value, unit) if row.first_measurable else NOT_MEASURABLE,
        "second_value": as_text(row.second_value, unit) if row.second_measurable else NOT_MEASURABLE,
        "difference": points(row.difference, unit) if row.is_measurable else NOT_MEASURABLE,
        "bounds": range_of_points(row.low, row.high, unit),
        "p": p_value(row.p_adjusted),
        "sort": row.difference if math.isfinite(row.difference) else 0.0,
        "p_sort": row.p_adjusted if math.isfinite(row.p_adjusted) else 2.0,  # behind all others
        "drawn": drawn,
        "significant": row.significant,
        "better": models[row.better] if row.better is not None else "",
        "counted": f"{row.n} {row.unit}",
    }


def published_tables(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """A table of published figures for every task and metric of some runs, in the order of the tasks: the comparison, the
    runs' figures with bounds, and rows with every run's difference, or why none is computed. A reason that holds for all
    rows is given once (``why_none``)."""
    for comparison in compare_with_published(runs):
        unit = comparison.measured.unit
        figures = []
        for run, figure in comparison.figures.items():
            unknown = not_measurable(figure, unit)  # says the bounds
            figures.append((run, unknown or as_text(figure.value, unit), "" if unknown else bounds(figure, unit)))
        reasons = {delta.why_none for _, deltas in comparison.rows for delta in deltas}
        why = next(iter(reasons)) if len(reasons) == 1 else ()
        rows = [
            (row.model, as_text(row.value, unit), [] if why else [(delta.run, _text(delta, unit)) for delta in deltas])
            for row, deltas in comparison.rows
        ]
        yield {"comparison": comparison, "figures": figures, "rows": rows, "why_none": "; ".join(why)}


def _text(delta: PublishedDifference, unit: Unit) -> str:
    """A run's figure minus a published one, with bounds; or the reason why there is no difference."""
    if delta.why_none:
        return "no difference: " + "; ".join(delta.why_none)
    interval = range_of_points(delta.low, delta.high, unit)
    text = points(delta.difference, unit) + (f" [{interval}]" if interval else "")
    return f"{text} ({'; '.join(delta.differs_in)})" if delta.differs_in else text
