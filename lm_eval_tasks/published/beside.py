"""Runs beside the published figures: both values, and their difference where they measure the same."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.intervals import newcombe
from custom_metrics.statistics.units import is_measurable
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.published.differing import answered_otherwise, differs
from lm_eval_tasks.published.rows import PublishedRow, Source, rows_for
from lm_eval_tasks.runs import Run, TaskRun, labels

__all__ = ["Against", "BesidePaper", "Own", "beside_paper"]

_LONG = 15
"""Rows up to which a source is shown whole."""

NEWCOMBE = (
    "Newcombe's interval for independent shares (the questions are the same, but the published answers are not paired with "
    "this run's)"
)
OWN_BOUNDS = "this run's bounds; the published figure counts as exact"
EXACT = "no bounds are known"


@dataclass(frozen=True)
class Own:
    """A run's own figure; ``nan`` for bounds that are not known."""

    run: str
    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Against:
    """A run's figure less a published one.

    Attributes:
        run: its label.
        difference, low, high: with 95 % bounds; ``nan`` where it is not computed or they are not known.
        by: what the bounds are.
        why_none: why no difference is computed; empty where it is.
        said: what else differs, in how the answers were made.
    """

    run: str
    difference: float
    low: float
    high: float
    by: str
    why_none: tuple[str, ...]
    said: tuple[str, ...]


@dataclass(frozen=True)
class BesidePaper:
    """A metric of a task: the runs' figures and the published ones.

    Attributes:
        task, metric: ours.
        filter: of the runs' figures; `run_filters` are all that the runs have.
        source: of the published ones.
        own: the runs' figures.
        rows: the published figures, each with every run that has this task. Of a long ranking the first, the middle, the
            last, and those next to the runs.
        of: how many published figures there are.
        measured: the metric, as the table of its benchmark describes it.
    """

    task: str
    metric: str
    filter: str
    source: Source
    own: tuple[Own, ...]
    rows: tuple[tuple[PublishedRow, tuple[Against, ...]], ...]
    of: int
    measured: Metric
    run_filters: tuple[str, ...] = ()


def beside_paper(runs: Sequence[Run]) -> list[BesidePaper]:
    """Every task and metric of runs that a source has a figure for, in the order of the runs' tasks.

    Rows of another split than the runs' are left out where the source has rows of theirs.
    """
    named = list(zip(labels(runs), runs, strict=True))
    found = []
    for task in dict.fromkeys(name for run in runs for name in run.tasks):
        of_task = [(label, run, run.tasks[task]) for label, run in named if task in run.tasks]
        metrics = dict.fromkeys(
            metric for _, _, part in of_task for figures in part.figures.values() for metric in figures
        )
        for metric in metrics:
            by_source: dict[str, list[PublishedRow]] = {}
            for row in rows_for(task, metric):
                by_source.setdefault(row.source.name, []).append(row)
            found += [_of_source(task, metric, rows, of_task) for rows in by_source.values()]
    return [one for one in found if one.own]


def _of_source(
    task: str, metric: str, rows: Sequence[PublishedRow], runs: Sequence[tuple[str, Run, TaskRun]]
) -> BesidePaper:
    source = rows[0].source
    figures = {label: figure for label, _, part in runs if (figure := _figure(part, metric, source.filter))}
    having = [(label, run, part) for label, run, part in runs if label in figures]
    splits = {str(part.provenance.get("split") or "") for _, _, part in having}
    kept = [row for row in rows if row.split in splits] or list(rows)
    own = tuple(_own(label, figures[label]) for label, _, _ in having)
    shown = _of_interest(kept, [one.value for one in own])
    return BesidePaper(
        task=task,
        metric=metric,
        filter=source.filter,
        source=source,
        own=own,
        rows=tuple(
            (row, tuple(_against(row, label, figures[label], run, part) for label, run, part in having))
            for row in shown
        ),
        of=len(kept),
        measured=runs[0][2].metric(metric),
        run_filters=tuple(dict.fromkeys(name for _, _, part in having for name in part.figures)),
    )


def _figure(run: TaskRun, metric: str, filter: str) -> Mapping[str, Any] | None:
    """The figure of the source's filter; for metrics without an answer, of any."""
    of_filters = [run.figures.get(filter, {})] if filter else list(run.figures.values())
    return next((found[metric] for found in of_filters if _is_known(found.get(metric))), None)


def _is_known(figure: Any) -> bool:
    return isinstance(figure, Mapping) and isinstance(figure.get("value"), (int, float))


def _own(label: str, figure: Mapping[str, Any]) -> Own:
    return Own(label, float(figure["value"]), *_bounds(figure), int(figure.get("n") or 0))


def _bounds(figure: Mapping[str, Any]) -> tuple[float, float]:
    low, high = (figure.get(name) for name in ("low", "high"))
    return (math.nan if low is None else float(low), math.nan if high is None else float(high))


def _of_interest(rows: Sequence[PublishedRow], values: Sequence[float]) -> list[PublishedRow]:
    if len(rows) <= _LONG:
        return list(rows)
    ranked = sorted(rows, key=lambda row: row.value, reverse=True)
    kept = {0, len(ranked) // 2, len(ranked) - 1}
    for value in values:
        above = sum(row.value >= value for row in ranked)
        kept |= {at for at in (above - 1, above) if 0 <= at < len(ranked)}
    return [ranked[at] for at in sorted(kept)]


def _against(row: PublishedRow, label: str, figure: Mapping[str, Any], run: Run, part: TaskRun) -> Against:
    value, n = float(figure["value"]), int(figure.get("n") or 0)
    reasons = tuple(differs(row, part))
    if not reasons and not is_measurable(Figure(value, *_bounds(figure)), part.metric(row.metric).unit):
        reasons = ("the run's figure is not measurable: its bounds span more than half of the scale",)
    if reasons:
        return Against(label, math.nan, math.nan, math.nan, "", reasons, ())
    said = tuple(answered_otherwise(row, part, str(run.config.get("model") or "")))
    if row.count is not None and row.n is not None and n:
        return Against(label, *newcombe(round(value * n), n, row.count, row.n), NEWCOMBE, (), said)
    low, high = _bounds(figure)
    by = EXACT if math.isnan(low) else OWN_BOUNDS
    return Against(label, value - row.value, low - row.value, high - row.value, by, (), said)
