"""The top of a page of three models and more: of each family, and of each of its languages, all models on one axis.

The best stands first. Said are the best, the models that cannot be told from it, and those that are to be doubted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from custom_metrics.statistics.strata import mean_of
from lm_eval_tasks.definition.schema import BALANCED_ERROR, Metric, parts_of
from lm_eval_tasks.results.compare import Comparison
from lm_eval_tasks.results.report.families import language_name
from lm_eval_tasks.results.report.headlines import Headline
from lm_eval_tasks.results.report.page.summary import MetricSummary, Summary

_MORE = 2  # metrics beside the first: what it is traded against, and another headline


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
    better = _better(comparison, compared, key.measured)
    competing = {headline.model for headline in key.headlines if _competes(headline)}
    by_metric = [{headline.model: headline for headline in metric.headlines} for metric in metrics]
    most, doubts = max(len(headline.languages) for headline in key.headlines), summary.severe_doubts
    known = [headline.model for headline in sorted(key.headlines, key=_order)]
    rows = []
    for model in dict.fromkeys([*known, *(each.model for metric in summary.metrics for each in metric.headlines)]):
        headlines = tuple(of_metric.get(model) for of_metric in by_metric)
        rank = None
        if model in competing and key.measured.better and any(model in pair for pair in better):
            rank = 1 + sum(better.get((other, model), False) for other in competing)
        number = len(headlines[0].languages) if headlines[0] else most
        partly = f"mean over {number or 1} of {most} languages" if number < most else ""
        rows.append(Row(model, headlines, rank, "; ".join(filter(None, (partly, doubts.get(model, ""))))))
    first, others = rows[0], [row.model for row in rows[1:]]
    beaten = sum(better.get((first.model, other), False) for other in others)
    equals = [
        other for other in others if {better.get((first.model, other)), better.get((other, first.model))} == {False}
    ]
    best = first if first.rank and (beaten or equals) else None
    in_order = [MetricSummary(sorted(metric.headlines, key=_order)) for metric in summary.metrics]
    return Overview(summary._replace(metrics=in_order), metrics, rows, best, beaten, equals, {})


def _metrics(summary: Summary) -> Iterator[MetricSummary]:
    """The metrics of an overview, the one that sorts the models first."""
    by_name = {metric.measured.name: metric for metric in summary.metrics}
    first = summary.first
    for measured, parts in parts_of([each.measured for each in summary.metrics]).items():
        balanced = [*_balanced(*(by_name[part] for part in parts))] if measured is BALANCED_ERROR else []
        if balanced and first.measured.name in parts:
            yield MetricSummary(balanced, is_tight=True)
    yield first._replace(is_tight=True)
    price = first.measured.traded_against
    more = [each for each in summary.metrics if each.measured.headline and each.measured.better and each != first]
    yield from sorted(more, key=lambda each: each.measured.name != price)[:_MORE]


def _balanced(*rates: MetricSummary) -> Iterator[Headline]:
    """The mean of two rates of errors for each model that has both."""
    by_model = [{headline.model: headline for headline in rate.headlines} for rate in rates]
    for model in by_model[0]:
        parts = [of_rate[model] for of_rate in by_model if model in of_rate]
        unknown = {code for part in parts for code, figure in part.languages.items() if math.isnan(figure.value)}
        figures = [each for part in parts for code, each in part.languages.items() if code not in unknown]
        figure = mean_of(figures or [part.figure for part in parts], are_shares=True)
        if len(parts) == len(rates):
            yield replace(parts[0], measured=BALANCED_ERROR, figure=figure, explanation="")


def _better(comparison: Comparison | None, task: str, metric: Metric) -> dict[tuple[str, str], bool]:
    """Of each ordered pair of models that was compared on a task or group, whether the first is significantly better."""
    better = {}
    for row in comparison.select(metric.name, task) if comparison else ():
        if comparison and not math.isnan(row.p):
            for model, other in ((row.first, row.second), (row.second, row.first)):
                better[comparison.models[model], comparison.models[other]] = row.better == model
    return better


def _competes(headline: Headline) -> bool:
    """Whether a model can be the best: its number is measurable, and it does not answer all questions alike."""
    return headline.is_measurable and not headline.is_alike and not math.isnan(headline.figure.value)


def _order(headline: Headline) -> tuple[bool, bool, float]:
    value, sign = headline.figure.value, -1 if headline.measured.higher_is_better else 1
    return not _competes(headline), math.isnan(value), 0.0 if math.isnan(value) else sign * value
