"""How many documents show a given difference: ``compare --plan``."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

from custom_metrics.statistics.paired_difference import detectable_difference, rows_needed
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import on_one_line
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.results.board import reported_figure
from lm_eval_tasks.results.compare import Comparison
from lm_eval_tasks.results.compare.tables import WITH_POWER
from lm_eval_tasks.results.formats import Section, csv_of, json_of, number, render_sections
from lm_eval_tasks.runs import Run

_OF_PAIRS = "By the variance of the paired differences seen; of several pairs, by the one that needs most."
_OF_ONE_RUN = (
    "One run has no pairs. Assumed is another run whose values vary as much, independently of these; two runs over equal "
    "documents mostly need fewer."
)


_OF_ROW = attrgetter("task", "measured", "filter", "unit", "n", "documents", "standard_error", "of_shares")

_Seen: TypeAlias = tuple[str, Metric, str, str, int, int, float, bool]
"""A task or group, metric and filter; the unit, number of these and of documents; the standard error of a difference over
them, and whether that is one of shares."""


def plan(
    seen: Comparison | Run,
    difference: float,
    tasks: Collection[str] | None = None,
    metrics: Collection[str] | None = None,
) -> tuple[list[dict[str, Any]], list[str]]:
    """The documents that show a difference with a power of 80 %, and notes on how they were computed.

    Args:
        seen: runs that were compared; or one run, which is planned by the standard errors of its results.
        difference: in the metrics' units. Headlines in characters, words or ratings are left out unless `metrics` has them.
        tasks, metrics: of a single run; default all tasks, and their headlines.

    Returns:
        A row for each task or group and metric: what was seen, the smallest difference that this shows (``detectable``),
        and what is ``needed``, in `unit` and in documents; ``None`` where nothing varies.

    Raises:
        UsageError: the difference is not larger than 0, or is none of shares and nothing else is planned; or there is
            nothing to plan.
    """
    if not (math.isfinite(difference) and difference > 0):
        raise UsageError(f"--plan takes a difference larger than 0, such as 0.02, got {difference:g}")
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    left_out: dict[str, None] = {}
    too_large: dict[str, None] = {}
    for task, metric, read_by, unit, n, documents, error, of_shares in (
        map(_OF_ROW, seen.differences) if isinstance(seen, Comparison) else _assumed(seen, tasks, metrics)
    ):
        is_share = metric.unit in ("share", "score", "correlation")
        if not metrics and not is_share:
            left_out[f"{metric.name} is in {metric.unit.removesuffix('s')}s"] = None
        elif is_share and difference >= 1:
            too_large[f"{metric.name} differs by less than 1"] = None
        elif n:
            smallest = detectable_difference(error, n if of_shares else 0)
            needed = rows_needed(difference, n * error**2, of_shares) if error > 0 else None
            planned = {
                "task": task,
                "metric": metric.name,
                "filter": read_by,
                "unit": unit,
                "n": n,
                "documents": documents,
                "detectable": None if math.isnan(smallest) else smallest,
                "needed": needed,
                "needed_documents": needed and math.ceil(needed * documents / n),
            }
            known = rows.setdefault((task, metric.name, read_by), planned)
            if (known["needed"] or 0) < (needed or 0):
                known |= planned
    if too_large and not rows:
        raise UsageError(f"--plan takes a difference of shares, such as 0.05 for 5 points, got {difference:g}")
    if not rows:
        raise UsageError("there is nothing to plan: no such task or metric has a standard error in the results")
    notes = [_OF_PAIRS if isinstance(seen, Comparison) else _OF_ONE_RUN]
    if too_large:
        notes.append(f"Left out: {', '.join(too_large)}.")
    if left_out:
        notes.append(f"Left out: {', '.join(left_out)} (--metrics NAME --plan D).")
    return [*rows.values()], notes


def _assumed(run: Run, tasks: Collection[str] | None, metrics: Collection[str] | None) -> Iterator[_Seen]:
    for name, members in (*run.groups.items(), *((name, (name,)) for name in run.tasks)):
        of_group = [run.tasks[member] for member in members]
        read_by = of_group[0].headline_filter
        for metric in of_group[0].metrics if not tasks or {name, *members} & {*tasks} else ():
            if metric.name in metrics if metrics else of_group[0].is_headline(metric.name):
                figure = reported_figure(of_group, metric.name, read_by)
                error = math.sqrt(2) * figure.standard_error
                yield name, metric, read_by, "documents", figure.n, figure.n, error, metric.is_share


def render_plan(rows: Sequence[dict[str, Any]], notes: Sequence[str], difference: float, form: str) -> str:
    """A plan as ``text``, ``markdown``, ``latex``, ``csv`` or ``json``, with a line end."""
    if form in ("csv", "json"):
        return csv_of(rows) if form == "csv" else json_of({"difference": difference, "plan": rows, "notes": [*notes]})
    cells = []
    for row in rows:
        seen, needed = (
            "-"
            if n is None
            else f"{n:,}"
            if row["unit"] == "documents"
            else f"{n:,} {row['unit']} ({documents:,} documents)"
            for n, documents in ((row["n"], row["documents"]), (row["needed"], row["needed_documents"]))
        )
        shows = "-" if row["detectable"] is None else number(row["detectable"])
        cells.append(tuple(map(on_one_line, (row["task"], row["metric"], seen, shows, needed))))
    before = (
        f"Documents that show a difference of {difference:g} {WITH_POWER}; where p is corrected for other comparisons, "
        "more are needed."
    )
    unknown = ["-: the values seen do not vary, or are too few."] if any(row["needed"] is None for row in rows) else []
    after = ("Shows: the smallest difference that the documents seen show with this power.", *unknown, *notes)
    header = ("task", "metric", "seen", "shows", f"{difference:g} needs")
    return render_sections([Section(header, tuple(cells), (before,), after)], form)
