"""What a page says of differences: between its models, with a verdict for each headline, and to published figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from custom_metrics.statistics.units import NOT_MEASURABLE, Unit
from lm_eval_tasks.data.sources import MissingSource
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.published.beside import PublishedDifference, compare_with_published
from lm_eval_tasks.results.compare import Comparison, Difference, compare_runs
from lm_eval_tasks.results.compare.rendering import p_value
from lm_eval_tasks.results.report.doubts import CORRECTED
from lm_eval_tasks.results.report.families import language_name, title_of
from lm_eval_tasks.results.report.headlines import Headline
from lm_eval_tasks.results.report.numbers import NO_BREAK, bounds, few, not_measurable, points, shown, unbroken
from lm_eval_tasks.runs import Answers, Run, TaskRun

_NOTHING_CORRECTED = "Of the corrected rates nothing can be said: the detector's errors are too little known."
_FLAGGED = "detected_rate"
_ALIKE = "{model} answers every question alike, and is said to be better than no other model."
_NAMED = 3  # languages that a verdict names
_PAIRS = 6  # verdicts of one headline; the table has all


class MetricDifferences(NamedTuple):
    """A metric of a benchmark: its rows of groups and single tasks (`main`), and those of each language, as texts."""

    benchmark: str
    measured: Metric
    filter: str
    main: list[dict[str, Any]]
    languages: list[dict[str, Any]]


class Verdict(NamedTuple):
    """What the difference of two models on a headline comes to: by how much, and how sure that is. Labels of the better
    and the other model, and how they stand, are empty where no difference is shown."""

    text: str
    better: str = ""
    other: str = ""
    relation: str = ""


class Differences(NamedTuple):
    """The differences between the models of a report: benchmark by benchmark, headlines first; family and metric to the
    verdicts; notes of the comparison, and why there is none."""

    metrics: list[MetricDifferences]
    verdicts: Mapping[tuple[str, str], list[Verdict]]
    notes: tuple[str, ...]


def differences(
    runs: Sequence[Run], headlines: Sequence[Headline], read: Callable[[TaskRun], Answers] = TaskRun.answers
) -> Differences | None:
    """The differences of runs; ``None`` for a single one.

    Raises:
        CorruptSource: a samples file is damaged.
    """
    if len(runs) < 2:
        return None
    try:
        comparison = compare_runs(runs, refuse=False, read_answers=read)
    except (ValueError, MissingSource) as error:  # nothing in common, other documents, no answers
        return Differences([], {}, (f"The models are not compared: {error}",))
    refused = tuple(f"{refusal.task} is not compared: {refusal.reason}" for refusal in comparison.refused)
    titles = {task.benchmark: title_of(task) for run in runs for task in run.tasks.values()}
    metrics = [*_metrics(comparison, titles)]
    nothing = () if metrics else ("The models are not compared: they were asked nothing that is the same.",)
    of_models: dict[tuple[str, str], list[Headline]] = {}
    for headline in headlines:
        of_models.setdefault((headline.family, headline.metric), []).append(headline)
    verdicts = {key: _verdicts(comparison, *key, listed) for key, listed in of_models.items()}
    return Differences(metrics, verdicts, (*nothing, *refused, *comparison.notes))


def _metrics(comparison: Comparison, titles: Mapping[str, str]) -> Iterator[MetricDifferences]:
    of_metrics: dict[tuple[str, str, str], list[Difference]] = {}  # in the comparison's order
    for each in comparison.differences:
        if each.headline:
            of_metrics.setdefault((each.benchmark, each.metric, each.filter), []).append(each)
    for (benchmark, _, filter_name), listed in of_metrics.items():
        width = max((abs(x) for each in listed for x in (each.low, each.high) if math.isfinite(x)), default=0.0)
        of_language = {each.task for each in listed if each.language and not each.group}
        found = MetricDifferences(titles[benchmark], listed[0].measured, filter_name, [], [])
        for each in listed:
            rows = found.languages if each.task in of_language and len(of_language) > 1 else found.main
            rows.append(_row(each, comparison.models, width))
        yield found


def _row(found: Difference, models: Sequence[str], width: float) -> dict[str, Any]:
    """A row, and its values to sort by. It is drawn on a scale of 0 to 100, with 50 for no difference, which ends at
    `width`."""
    unit, parts = found.measured.unit, (found.low, found.difference, found.high)
    drawn = None
    if width and all(map(math.isfinite, parts)):
        low, value, high = (round(50 + 50 * max(-1.0, min(1.0, part / width)), 2) for part in parts)
        drawn = low, value if found.is_measurable else None, high
    return {
        "task": f"{found.task}, mean over {found.tasks} tasks" if found.group else found.task,
        "first": models[found.first],
        "second": models[found.second],
        "first_value": shown(found.first_value, unit) if found.first_measurable else NOT_MEASURABLE,
        "second_value": shown(found.second_value, unit) if found.second_measurable else NOT_MEASURABLE,
        "difference": points(found.difference, unit) if found.is_measurable else NOT_MEASURABLE,
        "bounds": _bounds(found.low, found.high, unit),
        "p": p_value(found.p_adjusted),
        "sort": found.difference if math.isfinite(found.difference) else 0.0,
        "p_sort": found.p_adjusted if math.isfinite(found.p_adjusted) else 2.0,  # behind all others
        "drawn": drawn,
        "significant": found.significant,
        "better": models[found.better] if found.better is not None else "",
        "counted": f"{found.n} {found.unit}",
    }


def _bounds(low: float, high: float, unit: Unit) -> str:
    """The bounds of a difference; empty where there are none."""
    if math.isnan(low) or math.isnan(high):
        return ""
    return f"{points(low, unit).removesuffix(' points')} to {points(high, unit)}"


def _verdicts(comparison: Comparison, family: str, metric: str, headlines: Sequence[Headline]) -> list[Verdict]:
    """The verdicts of a family's metric, of which the models' headlines are."""
    languages = headlines[-1].languages
    rows, parts = _rows_of(comparison, family, metric, languages)
    if rows and metric in CORRECTED and all(math.isnan(row.p) for row in rows):
        # What is known all the same: which model the detector flags less.
        flagged, _ = _rows_of(comparison, family, _FLAGGED, languages)
        return [Verdict(_NOTHING_CORRECTED), *(_verdict(row, comparison) for row in flagged)][: _PAIRS + 1]
    alike = [headline.model for headline in headlines if headline.is_alike]
    verdicts = [_verdict(row, comparison) for row in rows] or list(_of_languages(parts, comparison))
    verdicts = [verdict for verdict in verdicts if verdict.better not in alike]
    verdicts.sort(key=lambda verdict: not verdict.better)
    if len(verdicts) > _PAIRS:
        verdicts = [verdict for verdict in verdicts if verdict.better][:_PAIRS]
    return verdicts + [Verdict(_ALIKE.format(model=_named(model))) for model in alike]


def _rows_of(
    comparison: Comparison, family: str, metric: str, languages: Container[str]
) -> tuple[list[Difference], list[Difference]]:
    """The rows of a family as a whole, or of its only language; and those of its languages."""
    parts = [
        row
        for row in comparison.select(metric)
        if not row.group and row.language in languages and row.task.startswith(family)
    ]
    alone = len({row.language for row in parts}) == 1
    return list(comparison.select(metric, family)) or (parts if alone else []), parts


def _verdict(row: Difference, comparison: Comparison) -> Verdict:
    unit = row.measured.unit
    first, second = comparison.models[row.first], comparison.models[row.second]
    if row.n == 0 or math.isnan(row.p):
        return Verdict(f"Of {_named(first)} and {_named(second)} nothing can be said.")
    p = p_value(row.p_adjusted)
    sure = (f"p < {p[1:]}" if p.startswith("<") else f"p = {p}").replace(" ", NO_BREAK)
    between = _bounds(row.low, row.high, unit)
    if row.better is None:
        found = "They differ" if row.significant else "No difference is shown"
        sure = f"95 % bounds {between}; {sure}" if between else sure
        size = points(row.difference, unit) if row.is_measurable else NOT_MEASURABLE
        return Verdict(f"{found}: {_named(first)} less {_named(second)} is {size} ({sure}).")
    size, low, high = (
        points(number, unit).removeprefix("+")
        for number in (abs(row.difference), *sorted((abs(row.low), abs(row.high))))
    )
    if between:
        sure = f"95 % bounds {low} to {high}; {sure}".replace(" points", "")
    better, other = (first, second) if row.better == row.first else (second, first)
    return Verdict(f"by {size} ({sure}).{_cost_of(row, comparison)}", better, other, row.measured.verdict)


def _cost_of(row: Difference, comparison: Comparison) -> str:
    """What the better of two models is worse at, in a sentence that follows the verdict; empty where nothing is shown."""
    pair = (row.first, row.second, row.filter)
    traded = comparison.select(row.measured.traded_against, row.task)
    cost = next((other for other in traded if (other.first, other.second, other.filter) == pair), None)
    if cost is None or cost.better in (None, row.better) or not (cost.first_measurable and cost.second_measurable):
        return ""
    more, less = (shown(value, cost.measured.unit) for value in (cost.first_value, cost.second_value))
    if row.better != row.first:
        more, less = less, more
    return unbroken(f" {row.measured.cost}: {more}, not {less}.")


def _of_languages(rows: Sequence[Difference], comparison: Comparison) -> Iterator[Verdict]:
    """A verdict for each pair of models on tasks that no group holds: in how many languages which is better."""

    def pair(row: Difference) -> tuple[int, int]:
        return row.first, row.second

    for models, group in groupby(sorted(rows, key=pair), key=pair):
        listed = list(group)
        won = {model: [language_name(row.language) for row in listed if row.better == model] for model in models}
        ahead, behind = sorted(models, key=lambda model: -len(won[model]))
        better, other = comparison.models[ahead], comparison.models[behind]
        if not won[ahead]:
            names = f"{_named(better)} and {_named(other)}"
            yield Verdict(f"Between {names}, no difference is shown in any of {len(listed)} languages.")
            continue
        parts = [f"in {len(won[ahead])} of {len(listed)} languages ({few(won[ahead], _NAMED)})"]
        if lost := won[behind]:
            parts.append(f"it is the other way round in {len(lost)} ({few(lost, _NAMED)})")
        if rest := len(listed) - len(won[ahead]) - len(lost):
            parts.append(f"no difference is shown in {rest}")
        yield Verdict("; ".join(parts) + ".", better, other, listed[0].measured.verdict)


def _named(label: str) -> str:
    return label.rpartition("/")[2] or label


def published_tables(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """The published figures of everything in some runs, in the order of the tasks: all that is known of them (``found``),
    the runs' own values with bounds, and rows with every run's difference, or why none is computed. Where that is the
    same for all, it is said once (``why_none``)."""
    for found in compare_with_published(runs):
        unit = found.measured.unit
        own = []
        for run, figure in found.figures.items():
            unknown = not_measurable(figure, unit)  # says the bounds
            own.append((run, unknown or shown(figure.value, unit), "" if unknown else bounds(figure, unit)))
        reasons = {each.why_none for _, against in found.rows for each in against}
        alike = next(iter(reasons)) if len(reasons) == 1 else ()
        rows = [
            (row.model, shown(row.value, unit), [] if alike else [(each.run, _less(each, unit)) for each in against])
            for row, against in found.rows
        ]
        yield {"found": found, "own": own, "rows": rows, "why_none": "; ".join(alike)}


def _less(against: PublishedDifference, unit: Unit) -> str:
    """A run's figure less a published one with its bounds, or why there is none."""
    if against.why_none:
        return "no difference: " + "; ".join(against.why_none)
    between = _bounds(against.low, against.high, unit)
    text = points(against.difference, unit) + (f" [{between}]" if between else "")
    return f"{text} ({'; '.join(against.differs_in)})" if against.differs_in else text
