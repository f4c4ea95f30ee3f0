"""What a page says of models: their numbers by family and metric, with the doubts that many of them share; and the
differences between them, and to published figures.

Each family and language has an :class:`Overview`: all models on one axis, the best model, the models that show no
difference to it, the models whose answers are doubtful, and the best model by what a made-up answer costs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from custom_metrics.statistics.units import NOT_MEASURABLE, Unit
from lm_eval_tasks.data.sources import MissingSource
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.published import PublishedDifference, compare_with_published
from lm_eval_tasks.results.board import Costs, place_of
from lm_eval_tasks.results.compare import Comparison, Difference, compare_runs
from lm_eval_tasks.results.compare.tables import deciding, matrices
from lm_eval_tasks.results.formats import (
    PAGE,
    Section,
    as_text,
    bounds,
    not_measurable,
    p_value,
    points,
    range_of_points,
)
from lm_eval_tasks.results.report.headlines import MANY, Doubt, Headline, language_name, title_of
from lm_eval_tasks.runs import Answers, Run, TaskRun

_SEVERE = ("alike", "broken", "undefined", "invalid", "abstains", "clipped", "unlike")
"""Kinds of doubts that the first screen shows beside a model, the worst first. The others are shown below."""

_SCALES = {"share": 1.0, "score": 1.0, "rating": 4.0}
_WIDTH = 100.0
_MORE = 2  # metrics of an overview beside the first: what it is traded against, and another headline
_WHERE = re.compile(r"in \d+ of \d+ (languages|tasks)")


class MetricSummary(NamedTuple):
    """The headlines of all models for a metric of a family, without the doubts that are shown elsewhere."""

    headlines: list[Headline]
    is_tight: bool = False  # whether the scale of shares ends at the next ten percent, not at 100 %

    @property
    def measured(self) -> Metric:
        """The metric, as the table of its benchmark describes it."""
        return self.headlines[0].measured

    @property
    def top(self) -> float:
        """The end of the scale: 1 for shares and scores (or what exceeds it), 4 for ratings, else the largest bound.
        A tight one ends at the next tenth."""
        values = (value for headline in self.headlines for value in (headline.figure.value, headline.figure.high))
        largest = max((value for value in values if not math.isnan(value)), default=1.0)
        if self.is_tight and self.measured.unit in ("share", "score"):
            return math.ceil(10 * largest) / 10 or 1.0
        return max(largest, _SCALES.get(self.measured.unit, 1.0))

    @property
    def scale(self) -> tuple[str, str]:
        """The values at 0 and 100 of an interval, as text."""
        return as_text(0.0, self.measured.unit), as_text(self.top, self.measured.unit)

    def interval(self, headline: Headline) -> tuple[float, float | None, float] | None:
        """Lower bound, value and upper bound on a scale of 0 to 100, to be drawn; without bounds, the value three times.
        The value is ``None`` if it is not measurable; the result is ``None`` if it is undefined."""
        value, low, high = headline.figure.value, headline.figure.low, headline.figure.high
        if math.isnan(value):
            return None
        places = (_WIDTH * (value if math.isnan(number) else number) / self.top for number in (low, value, high))
        low, value, high = (round(max(0.0, min(_WIDTH, position)), 2) for position in places)
        return low, value if headline.is_measurable else None, high


class Summary(NamedTuple):
    """A family of tasks at the top of a page."""

    family: str
    benchmark: str  # its title
    question: str  # that it answers
    doubts: list[Doubt]  # about all of its numbers
    metrics: list[MetricSummary]

    @property
    def first(self) -> MetricSummary:
        """The metric on the first screen: the most prominent of those that are defined for a model."""

        def order(metric: MetricSummary) -> tuple[bool, int]:
            return any(not math.isnan(each.figure.value) for each in metric.headlines), metric.measured.prominence

        return max(self.metrics, key=order)

    @property
    def severe_doubts(self) -> dict[str, str]:
        """Model to the severe doubts about its number on the first screen, all about its answers among them, without
        details except the number of languages concerned."""
        by_model = {}
        for headline in self.first.headlines:
            worst = [doubt.text for kind in _SEVERE for doubt in headline.doubts if doubt.kind == kind]
            if worst:
                by_model[headline.model] = "; ".join(
                    text.partition(" (")[0].partition(":")[0] + (f" ({where[0]})" if where else "")
                    for text, where in zip(worst, map(_WHERE.search, worst), strict=True)
                )
        return by_model

    @property
    def main_doubts(self) -> list[Doubt]:
        """One doubt of each kind, for the first screen."""
        return [*{doubt.kind: doubt for doubt in reversed(self.doubts)}.values()][::-1]


def summaries(headlines: Sequence[Headline]) -> tuple[list[Doubt], list[Summary]]:
    """The doubts about all numbers, and the families with their metrics, in the order of the headlines."""
    everywhere = _common(headlines)
    listed = []
    for family, of_family in groupby(headlines, key=lambda row: row.family):
        members = list(of_family)
        common = [doubt for doubt in _common(members) if doubt not in everywhere]
        shared = {*everywhere, *common}
        own_rows = [replace(row, doubts=tuple(doubt for doubt in row.doubts if doubt not in shared)) for row in members]
        metrics = [MetricSummary([*group]) for _, group in groupby(own_rows, key=lambda row: row.metric)]
        listed.append(Summary(family, members[0].benchmark, members[0].question, common, metrics))
    return everywhere, listed


def _common(listed: Sequence[Headline]) -> list[Doubt]:
    """The doubts that all of several numbers share; none for a single number, which has them beside it."""
    if len(listed) < 2:
        return []
    return [doubt for doubt in listed[0].doubts if all(doubt in headline.doubts for headline in listed)]


# ----------------------------------------------------------------------------------------------------------- overviews


class Row(NamedTuple):
    """A model: its numbers, ``None`` where it lacks one; its rank, ``None`` where it has none; and doubts, in short."""

    model: str
    headlines: tuple[Headline | None, ...]
    rank: int | None
    doubts: str


class CostRow(NamedTuple):
    """The best model at a cost of a made-up answer, as texts, and the labels of those that show no difference to it."""

    cost: str
    best: str
    value: str
    equals: list[str]
    declining: str  # the error rate of a model that declines everything


class Overview(NamedTuple):
    """The models of a family, or of one of its languages. The first metric sorts them: the balanced error, if there is one.
    What is traded against each other follows, and another headline."""

    summary: Summary
    metrics: list[MetricSummary]
    rows: list[Row]
    best: Row | None  # the first row, if it was compared with others
    beaten: int  # number of models that the best one is significantly better than
    equals: list[str]  # models that show no difference to it
    languages: Mapping[str, Overview]  # of a family of several, by code
    costs: Sequence[CostRow]
    turns: Sequence[tuple[str, str]]  # costs from which on a model has the lowest error rate, with its label


def overviews(
    families: Sequence[Summary],
    languages: Sequence[Summary],
    tasks: Mapping[str, Mapping[str, str]],
    comparison: Comparison | None,
) -> list[Overview]:
    """The overviews of families, from the summaries of families and of their tasks. `tasks` maps family to language to
    task."""
    by_task, listed = {summary.family: summary for summary in languages}, []
    for summary in families:
        members = tasks[summary.family]
        compared = summary.family if len(members) > 1 else next(iter(members.values()))
        ordered = sorted(members.items(), key=lambda member: language_name(member[0])) if len(members) > 1 else ()
        inner = {code: _overview(by_task[task], task, comparison) for code, task in ordered if task in by_task}
        listed.append(_overview(summary, compared, comparison)._replace(languages=inner))
    return listed


def _overview(summary: Summary, compared: str, comparison: Comparison | None) -> Overview:
    """The overview of a summary, with the column of the group or task that is `compared`."""
    decides = deciding(comparison, compared) if comparison else None
    metrics = [*_metrics(summary, decides.metric if decides else "")]
    key = metrics[0]
    names: Sequence[str] = comparison.models if comparison else ()
    column = comparison.column(key.measured.name, compared) if comparison else None
    by_rank = {names[run]: rank for run, rank in column.ranks.items()} if column else {}
    in_order = [headline.model for headline in _sorted(key, by_rank)]
    models = dict.fromkeys([*in_order, *(each.model for metric in summary.metrics for each in metric.headlines)])
    by_metric = [{headline.model: headline for headline in metric.headlines} for metric in metrics]
    most, doubts, rows = max(len(headline.languages) for headline in key.headlines), summary.severe_doubts, []
    for model in models:
        headlines = tuple(of_metric.get(model) for of_metric in by_metric)
        number = len(headlines[0].languages) if headlines[0] else most
        partly = f"mean over {number or 1} of {most} languages" if number < most else ""
        text = "; ".join(filter(None, (partly, doubts.get(model, ""))))
        rows.append(Row(model, headlines, by_rank.get(model), text))
    first = names.index(rows[0].model) if rows[0].rank else None
    beaten, equals = ([], []) if column is None or first is None else (column.beaten_by(first), column.equals(first))
    costs = (comparison.costs.get(compared) if comparison else None) or Costs((), ())
    return Overview(
        summary=summary._replace(metrics=[MetricSummary(_sorted(metric, {})) for metric in summary.metrics]),
        metrics=metrics,
        rows=rows,
        best=rows[0] if beaten or equals else None,
        beaten=len(beaten),
        equals=[names[run] for run in equals],
        languages={},
        costs=[
            CostRow(
                f"{at.cost:g}",
                names[at.best],
                as_text(at.value, "share"),
                [names[run] for run in at.equals],
                as_text(1 / (at.cost + 1), "share"),
            )
            for at in costs.at
        ],
        turns=[(f"{cost:.2g}", names[run]) for cost, run in costs.turns],
    )


def _sorted(metric: MetricSummary, by_rank: Mapping[str, int]) -> list[Headline]:
    """The headlines of a metric, the best model first."""
    higher_is_better = bool(metric.measured.higher_is_better)
    return sorted(
        metric.headlines, key=lambda each: place_of(each.cell._replace(rank=by_rank.get(each.model)), higher_is_better)
    )


def _metrics(summary: Summary, decides: str) -> Iterator[MetricSummary]:
    """The metrics of an overview: the one that sorts the models, then the one that `decides` between two of them."""
    first = summary.first
    yield first._replace(is_tight=True)
    traded = (*first.measured.balances, first.measured.traded_against)
    more = [each for each in summary.metrics if each.measured.headline and each.measured.better and each != first]
    yield from sorted(more, key=lambda each: (each.measured.name != decides, each.measured.name not in traded))[:_MORE]


# --------------------------------------------------------------------------------------------------------- differences


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
        tables = matrices(comparison, PAGE)
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
