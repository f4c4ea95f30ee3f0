"""How many documents show a given difference: ``compare --plan``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from custom_metrics.statistics.figures import Rows
from custom_metrics.statistics.multiple_comparisons import is_share
from custom_metrics.statistics.power import detectable_difference, rows_needed
from custom_metrics.statistics.strata import error_across
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import on_one_line
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.results.compare.comparison import Comparison
from lm_eval_tasks.results.compare.joining import JoinedTask
from lm_eval_tasks.results.compare.measuring import Measured, NotMeasured, measure
from lm_eval_tasks.results.compare.rendering import (
    WITH_POWER,
    Section,
    csv_of,
    explanations,
    json_of,
    number,
    render_sections,
)
from lm_eval_tasks.runs import Run

_ONE_RUN = (
    "One run has no pairs. Assumed is another run whose values vary as much, independently of these; two runs over equal "
    "documents mostly need fewer."
)


@dataclass(frozen=True)
class Planned:
    """The documents that a task, or group, needs for a metric. What is not defined is ``None``."""

    task: str
    metric: str
    filter: str
    unit: str  # of what is drawn: documents, or clusters of them
    n: int  # seen, in this unit
    documents: int
    detectable: float | None  # the smallest difference that these show
    needed: int | None  # in this unit
    needed_documents: int | None


@dataclass(frozen=True)
class _Seen:
    """What was seen of a metric: the standard error of a difference over `n` rows."""

    task: str
    metric: Metric
    filter: str
    unit: str
    n: int
    documents: int
    standard_error: float
    of_shares: bool

    def planned(self, difference: float) -> Planned:
        error, needed, documents = self.standard_error, None, None
        if error > 0:
            needed = rows_needed(difference, self.n * error**2, self.of_shares)
            documents = math.ceil(needed * self.documents / self.n)
        smallest = detectable_difference(error, self.n if self.of_shares else 0)
        shown = None if math.isnan(smallest) else smallest
        name = self.metric.name
        return Planned(self.task, name, self.filter, self.unit, self.n, self.documents, shown, needed, documents)


def plan(
    runs: Sequence[Run],
    comparison: Comparison | None,
    difference: float,
    tasks: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    every: bool = False,
    filter_name: str | None = None,
) -> tuple[list[Planned], list[str]]:
    """The documents that show a difference with a power of 80 %, and notes on how they were computed.

    Args:
        runs: those that were compared; a single one is planned by the variance of its own values.
        comparison: of the runs; ``None`` for a single one.
        difference: in the metrics' units. Headlines in characters, words or ratings are left out unless `metrics` has them.
        tasks, metrics, every, filter_name: as of :func:`lm_eval_tasks.results.compare.compare_runs`.

    Raises:
        UsageError: the difference is not larger than 0; or there is nothing to plan.
    """
    if not (math.isfinite(difference) and difference > 0):
        raise UsageError(f"--plan takes a difference larger than 0, such as 0.02, got {difference:g}")
    notes: list[str] = []
    if comparison is None:
        seen = [*_of_run(runs[0], tasks, metrics, every, filter_name, notes)]
    else:
        seen = [
            _Seen(row.task, row.measured, row.filter, row.unit, row.n, row.documents, row.standard_error, row.of_shares)
            for row in comparison.differences
            if row.n
        ]
        notes += explanations(comparison, comparison.models, pairs=False)
    without_end = dict.fromkeys(
        f"{entry.metric.name} is in {entry.metric.unit}s".replace("ss", "s")
        for entry in seen
        if not metrics and entry.metric.unit not in ("share", "score", "correlation")
    )
    rows: dict[tuple[str, str, str], Planned] = {}
    for entry in seen:
        if metrics or entry.metric.unit in ("share", "score", "correlation"):
            row = entry.planned(difference)
            key = row.task, row.metric, row.filter
            if key not in rows or (rows[key].needed or 0) < (row.needed or 0):
                rows[key] = row
    if not rows:
        raise UsageError(f"there is nothing to plan: {'; '.join(notes) or 'no metric has values'}")
    how = _ONE_RUN if comparison is None else "By the variance of the paired differences seen"
    if comparison is not None:
        how += "; of several pairs, by the one that needs most." if len(comparison.models) > 2 else "."
    left_out = [f"Left out: {', '.join(without_end)} (--metrics NAME --plan D)."] if without_end else []
    return [*rows.values()], [how, *left_out, *notes]


def _of_run(
    run: Run,
    tasks: Sequence[str] | None,
    metrics: Sequence[str] | None,
    every: bool,
    filter_name: str | None,
    notes: list[str],
) -> Iterator[_Seen]:
    """The tasks of a run and its groups, by the values of its answers."""
    unknown = [name for name in tasks or () if name not in run.tasks and name not in run.groups]
    if unknown:
        raise UsageError(f"the run has no task {unknown[0]}; it has {', '.join((*run.groups, *run.tasks))}")
    groups = {name: members for name, members in run.groups.items() if not tasks or name in tasks}
    chosen = dict.fromkeys(name for name in tasks or run.tasks if name in run.tasks)
    chosen |= dict.fromkeys(member for members in groups.values() for member in members)
    measured: dict[tuple[str, str], tuple[Metric, str, Measured]] = {}
    for name in chosen:
        task = run.tasks[name]
        joined = JoinedTask.join(name, {0: (run.model, task, task.answers())})
        read_by = filter_name or task.headline_filter
        for metric in task.metrics:
            if metric.name in metrics if metrics else every or task.is_headline(metric.name):
                try:
                    values = measure(joined, metric.name, read_by, metric.aggregation, corrected=False)
                except NotMeasured as error:
                    notes.append(f"{name}: {metric.name} is left out: {error}.")
                else:
                    measured[name, metric.name] = metric, read_by, values
    for task_name, members in (*groups.items(), *((name, (name,)) for name in chosen)):
        for metric_name in dict.fromkeys(metric for _, metric in measured):
            parts = [measured[member, metric_name] for member in members if (member, metric_name) in measured]
            if len(parts) == len(members):
                yield from _of_parts(task_name, *parts[0][:2], [values for *_, values in parts])


def _of_parts(task: str, metric: Metric, read_by: str, parts: Sequence[Measured]) -> Iterator[_Seen]:
    numbers = [part.numbers(0) for part in parts]
    numbers = [values[~np.isnan(values)] for values in numbers]
    if any(len(values) < 2 for values in numbers):
        return
    shared = error_across([Rows(part.numbers(0), part.names) for part in parts])
    error = math.sqrt(sum(values.var(ddof=1) / len(values) for values in numbers)) / len(parts)
    error = math.sqrt(2) * (error if math.isnan(shared) else shared)
    n, documents = sum(map(len, numbers)), sum(int(part.counted(0).sum()) for part in parts)
    of_shares = all(part.is_mean and is_share([part.values[0]]) for part in parts)
    yield _Seen(task, metric, read_by, parts[0].unit, n, documents, error, of_shares)


def render_plan(planned: Sequence[Planned], notes: Sequence[str], difference: float, form: str) -> str:
    """A plan as ``text``, ``markdown``, ``latex``, ``csv`` or ``json``, with a line end."""
    if form == "csv":
        return csv_of([*map(asdict, planned)])
    if form == "json":
        return json_of({"difference": difference, "plan": [*map(asdict, planned)], "notes": [*notes]})
    rows = [
        (
            row.task,
            row.metric,
            _counted(row.n, row.documents, row.unit),
            "-" if row.detectable is None else number(row.detectable),
            "-" if row.needed is None else _counted(row.needed, row.needed_documents, row.unit),
        )
        for row in planned
    ]
    before = (
        f"Documents that show a difference of {difference:g} {WITH_POWER}; where p is corrected for other comparisons, "
        "more are needed."
    )
    header = ("task", "metric", "seen", "shows", f"{difference:g} needs")
    unknown = ["-: the values seen do not vary, or are too few."] if any(row.needed is None for row in planned) else []
    after = ("Shows: the smallest difference that the documents seen show with this power.", *unknown, *notes)
    cells = tuple(tuple(map(on_one_line, row)) for row in rows)
    return render_sections([Section(header, cells, (before,), tuple(map(on_one_line, after)))], form)


def _counted(n: int, documents: int | None, unit: str) -> str:
    return f"{n:,}" if unit == "documents" else f"{n:,} {unit} ({documents:,} documents)"
