"""How many documents show a given difference: ``compare --plan``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from custom_metrics.statistics.power import detectable_difference, rows_needed
from custom_metrics.statistics.strata import mean_of
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import on_one_line
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.results.compare.comparison import Comparison
from lm_eval_tasks.results.compare.rendering import WITH_POWER, Section, csv_of, json_of, number, render_sections
from lm_eval_tasks.runs import Run

_OF_ONE_RUN = (
    "One run has no pairs. Assumed is another run whose values vary as much, independently of these; two runs over equal "
    "documents mostly need fewer."
)


@dataclass(frozen=True)
class Planned:
    """What a comparison of a task, or group, needs for a metric. What is not defined is ``None``."""

    task: str
    metric: str
    filter: str
    unit: str  # of what is drawn: documents, or clusters of them
    n: int  # seen, in this unit
    documents: int
    detectable: float | None = None  # the smallest difference that these show
    needed: int | None = None  # in this unit
    needed_documents: int | None = None


def plan(
    runs: Sequence[Run],
    comparison: Comparison | None,
    difference: float,
    tasks: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
) -> tuple[list[Planned], list[str]]:
    """The documents that show a difference with a power of 80 %, and notes on how they were computed.

    Args:
        runs: those that were compared; a single one is planned by the standard errors of its results.
        comparison: of the runs; ``None`` for a single one.
        difference: in the metrics' units. Headlines in characters, words or ratings are left out unless `metrics` has them.
        tasks, metrics: of a single run; default all tasks, and their headlines.

    Raises:
        UsageError: the difference is not larger than 0, or there is nothing to plan.
    """
    if not (math.isfinite(difference) and difference > 0):
        raise UsageError(f"--plan takes a difference larger than 0, such as 0.02, got {difference:g}")
    rows: dict[tuple[str, str, str], Planned] = {}
    left_out: dict[str, None] = {}

    def add(row: Planned, metric: Metric, error: float, of_shares: bool) -> None:
        if not metrics and metric.unit not in ("share", "score", "correlation"):
            left_out[f"{metric.name} is in {metric.unit.removesuffix('s')}s"] = None
        elif row.n:
            smallest = detectable_difference(error, row.n if of_shares else 0)
            if error > 0:
                needed = rows_needed(difference, row.n * error**2, of_shares)
                row = replace(row, needed=needed, needed_documents=math.ceil(needed * row.documents / row.n))
            key = row.task, row.metric, row.filter
            if key not in rows or (rows[key].needed or 0) < (row.needed or 0):
                rows[key] = replace(row, detectable=None if math.isnan(smallest) else smallest)

    if comparison is not None:
        for seen in comparison.differences:
            row = Planned(seen.task, seen.metric, seen.filter, seen.unit, seen.n, seen.documents)
            add(row, seen.measured, seen.standard_error, seen.of_shares)
        how = "By the variance of the paired differences seen"
        how += "; of several pairs, by the one that needs most." if len(comparison.models) > 2 else "."
    else:
        (run,), how = runs, _OF_ONE_RUN
        for name, members in (*run.groups.items(), *((name, (name,)) for name in run.tasks)):
            of_group = [run.tasks[member] for member in members]
            for metric in of_group[0].metrics if not tasks or {name, *members} & {*tasks} else ():
                if metric.name in metrics if metrics else of_group[0].is_headline(metric.name):
                    read_by = of_group[0].headline_filter
                    figure = mean_of([task.figure(metric.name, read_by) for task in of_group], metric.is_share)
                    row = Planned(name, metric.name, read_by, "documents", figure.n, figure.n)
                    add(row, metric, math.sqrt(2) * figure.standard_error, metric.is_share)
    if not rows:
        raise UsageError("there is nothing to plan: no such task or metric has a standard error in the results")
    notes = [f"Left out: {', '.join(left_out)} (--metrics NAME --plan D)."] if left_out else []
    return [*rows.values()], [how, *notes]


def render_plan(planned: Sequence[Planned], notes: Sequence[str], difference: float, form: str) -> str:
    """A plan as ``text``, ``markdown``, ``latex``, ``csv`` or ``json``, with a line end."""
    rows = [*map(asdict, planned)]
    if form in ("csv", "json"):
        return csv_of(rows) if form == "csv" else json_of({"difference": difference, "plan": rows, "notes": [*notes]})
    cells = [
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
    unknown = ["-: the values seen do not vary, or are too few."] if any(row.needed is None for row in planned) else []
    after = ("Shows: the smallest difference that the documents seen show with this power.", *unknown, *notes)
    header = ("task", "metric", "seen", "shows", f"{difference:g} needs")
    return render_sections(
        [Section(header, tuple(tuple(map(on_one_line, row)) for row in cells), (before,), after)], form
    )


def _counted(n: int, documents: int | None, unit: str) -> str:
    return f"{n:,}" if unit == "documents" else f"{n:,} {unit} ({documents:,} documents)"
