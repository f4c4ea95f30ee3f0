"""The top of a page of three models and more: of each family, and of each of its languages, all models on one axis.

Names the best model, the models that show no difference to it, and the models whose answers are doubtful; and which model
is best by what a made-up answer costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from lm_eval_tasks.results.compare import Comparison
from lm_eval_tasks.results.formats import as_text
from lm_eval_tasks.results.report.families import language_name
from lm_eval_tasks.results.report.headlines import Headline
from lm_eval_tasks.results.report.page.summary import MetricSummary, Summary

_MORE = 2  # metrics beside the first: what it is traded against, and another headline


class CostRow(NamedTuple):
    """The best model at a cost of a made-up answer, as texts, and the labels of those that show no difference to it."""

    cost: str
    best: str
    value: str
    equals: list[str]
    declining: str  # the error rate of a model that declines everything


class Row(NamedTuple):
    """A model: its numbers, ``None`` where it lacks one; one more than the number of models that are significantly better,
    ``None`` where that cannot be said; and doubts, in short."""

    model: str
    headlines: tuple[Headline | None, ...]
    rank: int | None
    doubts: str


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
    costs: Sequence[CostRow] = ()
    turns: Sequence[tuple[str, str]] = ()  # costs from which on a model has the lowest error rate, with its label


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
    """The overview of a summary, with the differences of the group or task that is `compared`."""
    metrics = [*_metrics(summary)]
    key = metrics[0]
    column = comparison.column(key.measured.name, compared) if comparison else None
    names = comparison.models if comparison else ()
    ranks = {names[model]: rank for model, rank in column.ranks.items()} if column else {}
    by_metric = [{headline.model: headline for headline in metric.headlines} for metric in metrics]
    most, doubts = max(len(headline.languages) for headline in key.headlines), summary.severe_doubts
    in_order = sorted(key.headlines, key=lambda each: (ranks.get(each.model, math.inf), _order(each)))
    known = [headline.model for headline in in_order]
    rows = []
    for model in dict.fromkeys([*known, *(each.model for metric in summary.metrics for each in metric.headlines)]):
        headlines = tuple(of_metric.get(model) for of_metric in by_metric)
        number = len(headlines[0].languages) if headlines[0] else most
        partly = f"mean over {number or 1} of {most} languages" if number < most else ""
        text = "; ".join(filter(None, (partly, doubts.get(model, ""))))
        rows.append(Row(model, headlines, ranks.get(model), text))
    first = names.index(rows[0].model) if column and rows[0].model in ranks else None
    beaten = column.beaten_by(first) if column and first is not None else []
    equals = column.equals(first) if column and first is not None else []
    best = rows[0] if beaten or equals else None
    sorted_metrics = [MetricSummary(sorted(metric.headlines, key=_order)) for metric in summary.metrics]
    costs = comparison.costs.get(compared) if comparison else None
    return Overview(
        summary._replace(metrics=sorted_metrics),
        metrics,
        rows,
        best,
        len(beaten),
        [names[model] for model in equals],
        {},
        [
            CostRow(
                f"{at.cost:g}",
                names[at.best],
                as_text(at.value, "share"),
                [names[model] for model in at.equals],
                as_text(1 / (at.cost + 1), "share"),
            )
            for at in (costs.at if costs else ())
        ],
        [(f"{cost:.2g}", names[model]) for cost, model in (costs.turns if costs else ())],
    )


def _metrics(summary: Summary) -> Iterator[MetricSummary]:
    """The metrics of an overview, the one that sorts the models first."""
    first = summary.first
    yield first._replace(is_tight=True)
    traded = (*first.measured.balances, first.measured.traded_against)
    more = [each for each in summary.metrics if each.measured.headline and each.measured.better and each != first]
    yield from sorted(more, key=lambda each: each.measured.name not in traded)[:_MORE]


def _competes(headline: Headline) -> bool:
    """Whether a model can be the best: its number is measurable, and it does not answer all questions alike."""
    return headline.is_measurable and not headline.is_alike and not math.isnan(headline.figure.value)


def _order(headline: Headline) -> tuple[bool, bool, float]:
    value, sign = headline.figure.value, -1 if headline.measured.higher_is_better else 1
    return not _competes(headline), math.isnan(value), 0.0 if math.isnan(value) else sign * value
