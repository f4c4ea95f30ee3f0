"""Differences on a report: between its models, with a verdict for each headline, and to published figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from custom_metrics.statistics.units import NOT_MEASURABLE, Unit
from custom_metrics.usage.printable import shorten
from lm_eval_tasks.data.sources import MissingSource
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.published import PublishedDifference, compare_with_published
from lm_eval_tasks.results.compare import Comparison, Difference, compare_runs
from lm_eval_tasks.results.compare.tables import matrices
from lm_eval_tasks.results.formats import (
    NO_BREAK,
    Section,
    as_text,
    bounds,
    not_measurable,
    p_value,
    points,
    range_of_points,
    unbroken,
)
from lm_eval_tasks.results.report.families import MANY, language_name, title_of
from lm_eval_tasks.results.report.headlines import CORRECTED, Headline
from lm_eval_tasks.runs import Answers, Run, TaskRun

_NOTHING_CORRECTED = "The corrected rates cannot be compared: too little is known of the detector's errors."
_FLAGGED = "detected_rate"
_ALIKE = "{model} answers every question alike, so it is not called better than any other model."
_NAMED = 3  # languages that a verdict names


class MetricDifferences(NamedTuple):
    """The rows of a metric in a table of differences, as texts: groups and single tasks (`main`), and each language."""

    benchmark: str
    measured: Metric
    filter: str
    main: list[dict[str, Any]]
    languages: list[dict[str, Any]]


class Verdict(NamedTuple):
    """A sentence on the difference of two models on a headline: its size, and how sure it is. The labels of both models and
    their relation are empty where no difference is shown."""

    text: str
    better: str = ""
    worse: str = ""
    relation: str = ""


class Differences(NamedTuple):
    """The differences between the models of a report: rows by benchmark, headlines first; verdicts by family and metric;
    notes of the comparison, or the reason why there is none; and the comparison. Of many models it is shown as matrices."""

    metrics: list[MetricDifferences]
    verdicts: Mapping[tuple[str, str], list[Verdict]]
    notes: tuple[str, ...]
    comparison: Comparison | None = None
    matrices: Sequence[Section] = ()


def differences(
    runs: Sequence[Run], headlines: Sequence[Headline], read_answers: Callable[[TaskRun], Answers] = TaskRun.answers
) -> Differences | None:
    """The differences of runs; ``None`` for a single one."""
    if len(runs) < 2:
        return None
    try:
        comparison = compare_runs(runs, refuse=False, read_answers=read_answers)
    except (ValueError, MissingSource) as error:  # nothing in common, other documents, no answers
        return Differences([], {}, (f"The models are not compared: {error}",))
    refused = tuple(f"{refusal.task} is not compared: {refusal.reason}" for refusal in comparison.refused)
    metrics = [*_by_metric(comparison, {task.benchmark: title_of(task) for run in runs for task in run.tasks.values()})]
    nothing = () if metrics else ("The models are not compared: they were asked nothing that is the same.",)
    notes = (*nothing, *refused, *comparison.notes)
    if len(runs) >= MANY:
        tables = matrices(comparison, lambda value, metric: as_text(value, metric.unit)) if metrics else ()
        return Differences(metrics, {}, notes, comparison, tables)
    by_metric: dict[tuple[str, str], list[Headline]] = {}
    for headline in headlines:
        by_metric.setdefault((headline.family, headline.metric), []).append(headline)
    verdicts = {key: _verdicts(comparison, *key, listed) for key, listed in by_metric.items()}
    return Differences(metrics, verdicts, notes, comparison)


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


def _verdicts(comparison: Comparison, family: str, metric: str, headlines: Sequence[Headline]) -> list[Verdict]:
    """The verdicts on two models: on the mean of a family, or its only language; else in how many languages each leads."""
    languages = headlines[-1].languages
    rows, by_language = _split_rows(comparison, family, metric, languages)
    if rows and metric in CORRECTED and all(math.isnan(row.p) for row in rows):
        # Still known: which model the detector flags less.
        flagged, _ = _split_rows(comparison, family, _FLAGGED, languages)
        return [Verdict(_NOTHING_CORRECTED), *(_verdict(row, comparison) for row in flagged)]
    alike = [headline.model for headline in headlines if headline.is_alike]
    verdicts = [_verdict(row, comparison) for row in rows]
    if by_language and not verdicts:
        verdicts = [_language_verdict(by_language, comparison)]
    verdicts = [verdict for verdict in verdicts if verdict.better not in alike]
    return verdicts + [Verdict(_ALIKE.format(model=_short_name(model))) for model in alike]


def _split_rows(
    comparison: Comparison, family: str, metric: str, languages: Container[str]
) -> tuple[list[Difference], list[Difference]]:
    """The rows of a whole family, or of its only language; and the rows of its languages."""
    by_language = [
        row
        for row in comparison.select(metric)
        if not row.group and row.language in languages and row.task.startswith(family)
    ]
    is_single = len({row.language for row in by_language}) == 1
    return list(comparison.select(metric, family)) or (by_language if is_single else []), by_language


def _verdict(row: Difference, comparison: Comparison) -> Verdict:
    unit = row.measured.unit
    first, second = comparison.models[row.first], comparison.models[row.second]
    if row.n == 0 or math.isnan(row.p):
        return Verdict(f"{_short_name(first)} and {_short_name(second)} cannot be compared.")
    p = p_value(row.p_adjusted)
    evidence = (f"p < {p[1:]}" if p.startswith("<") else f"p = {p}").replace(" ", NO_BREAK)
    interval = range_of_points(row.low, row.high, unit)
    if row.better is None:
        statement = "They differ" if row.significant else "No difference is shown"
        evidence = f"95 % bounds {interval}; {evidence}" if interval else evidence
        size = points(row.difference, unit) if row.is_measurable else NOT_MEASURABLE
        return Verdict(f"{statement}: {_short_name(first)} minus {_short_name(second)} is {size} ({evidence}).")
    size, low, high = (
        points(number, unit).removeprefix("+")
        for number in (abs(row.difference), *sorted((abs(row.low), abs(row.high))))
    )
    if interval:
        evidence = f"95 % bounds {low} to {high}; {evidence}".replace(" points", "")
    better, worse = (first, second) if row.better == row.first else (second, first)
    return Verdict(f"by {size} ({evidence}).{_cost_of(row, comparison)}", better, worse, row.measured.verdict)


def _cost_of(row: Difference, comparison: Comparison) -> str:
    """A sentence on the traded metric if the better model is worse at it, to follow the verdict; else empty."""
    pair = (row.first, row.second, row.filter)
    traded = comparison.select(row.measured.traded_against, row.task)
    cost = next((price for price in traded if (price.first, price.second, price.filter) == pair), None)
    if cost is None or cost.better in (None, row.better) or not (cost.first_measurable and cost.second_measurable):
        return ""
    more, less = (as_text(value, cost.measured.unit) for value in (cost.first_value, cost.second_value))
    if row.better != row.first:
        more, less = less, more
    return unbroken(f" {row.measured.cost}: {more}, not {less}.")


def _language_verdict(rows: Sequence[Difference], comparison: Comparison) -> Verdict:
    """The verdict on two models on tasks without a group: the number of languages in which either is better."""
    models = rows[0].first, rows[0].second
    won = {model: [language_name(row.language) for row in rows if row.better == model] for model in models}
    ahead, behind = sorted(models, key=lambda model: -len(won[model]))
    better, worse = comparison.models[ahead], comparison.models[behind]
    if not won[ahead]:
        names = f"{_short_name(better)} and {_short_name(worse)}"
        return Verdict(f"Between {names}, no difference is shown in any of {len(rows)} languages.")
    clauses = [f"in {len(won[ahead])} of {len(rows)} languages ({shorten(won[ahead], _NAMED)})"]
    if lost := won[behind]:
        clauses.append(f"it is the other way round in {len(lost)} ({shorten(lost, _NAMED)})")
    if undecided := len(rows) - len(won[ahead]) - len(lost):
        clauses.append(f"no difference is shown in {undecided}")
    return Verdict("; ".join(clauses) + ".", better, worse, rows[0].measured.verdict)


def _short_name(label: str) -> str:
    return label.rpartition("/")[2] or label


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
