"""The differences between models as a page shows them: rows with bounds and p, and a verdict for each headline."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from custom_metrics.statistics.units import NOT_MEASURABLE, Unit
from lm_eval_tasks.data.sources import MissingSource
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.results.compare import Comparison, Difference, compare_runs
from lm_eval_tasks.results.compare.rendering import p_value
from lm_eval_tasks.results.report.doubts import CORRECTED
from lm_eval_tasks.results.report.families import language_name, title_of
from lm_eval_tasks.results.report.headlines import Headline
from lm_eval_tasks.results.report.numbers import NO_BREAK, points, shown, unbroken
from lm_eval_tasks.runs import Answers, Run, TaskRun

__all__ = ["Differences", "MetricDifferences", "Row", "Verdict", "differences"]

_NOTHING_CORRECTED = "Of the corrected rates nothing can be said: the detector's errors are too little known."
_FLAGGED = "detected_rate"
_ALIKE = "{model} answers every question alike, and is said to be better than no other model."
_NAMED = 3  # languages that a verdict names
_PAIRS = 6  # verdicts of one headline; the table has all


@dataclass(frozen=True)
class Row:
    """Two models on one metric of a task or group, as text.

    Attributes:
        task: name of it; a group's says over how many tasks its mean is.
        first, second, better: labels of the models; `better` is empty where none is shown to be.
        sort, p_sort: the difference and p, to sort by.
        drawn: lower bound, difference and upper bound on a scale of 0 to 100, with 50 for no difference; ``None`` where
            there are no bounds, and for a difference that is not measurable.
        significant: whether the models differ, as corrected for the number of comparisons.
        counted: what was paired.
    """

    task: str
    first: str
    second: str
    first_value: str
    second_value: str
    difference: str
    bounds: str
    p: str
    sort: float
    p_sort: float
    drawn: tuple[float, float | None, float] | None
    significant: bool
    better: str
    counted: str


@dataclass(frozen=True)
class MetricDifferences:
    """A metric of a benchmark: its rows of groups and single tasks (`main`), and those of each language."""

    benchmark: str
    measured: Metric
    filter: str
    main: tuple[Row, ...]
    languages: tuple[Row, ...]


@dataclass(frozen=True)
class Verdict:
    """What the difference of two models on a headline comes to.

    Attributes:
        text: by how much, and how sure that is.
        better, other: labels; empty where no difference is shown.
        relation: what the better one does.
    """

    text: str
    better: str = ""
    other: str = ""
    relation: str = ""


@dataclass(frozen=True)
class Differences:
    """The differences between the models of a report.

    Attributes:
        metrics: benchmark by benchmark, headlines first.
        verdicts: family and metric to the verdicts.
        notes: of the comparison, and why there is none.
    """

    metrics: tuple[MetricDifferences, ...]
    verdicts: Mapping[tuple[str, str], tuple[Verdict, ...]]
    notes: tuple[str, ...]


def differences(
    runs: Sequence[Run], headlines: Sequence[Headline], read: Callable[[TaskRun], Answers] = TaskRun.answers
) -> Differences | None:
    """The differences of runs; ``None`` for a single one.

    Args:
        runs: of the report.
        headlines: of them. They and the differences are read by the same filters.
        read: the answers of a task, where they have been read already.

    Raises:
        CorruptSource: a samples file is damaged.
    """
    if len(runs) < 2:
        return None
    try:
        comparison = compare_runs(runs, refuse=False, read=read)
    except (ValueError, MissingSource) as error:  # nothing in common, other documents, no answers
        return Differences((), {}, (f"The models are not compared: {error}",))
    refused = tuple(f"{refusal.task} is not compared: {refusal.reason}" for refusal in comparison.refused)
    titles = {task.benchmark: title_of(task) for run in runs for task in run.tasks.values()}
    metrics = tuple(_metrics(comparison, titles))
    nothing = () if metrics else ("The models are not compared: they were asked nothing that is the same.",)
    return Differences(metrics, _verdicts(comparison, headlines), (*nothing, *refused, *comparison.notes))


def _metrics(comparison: Comparison, titles: Mapping[str, str]) -> Iterator[MetricDifferences]:
    of_metrics: dict[tuple[str, str, str], list[Difference]] = {}  # in the comparison's order
    for each in comparison.differences:
        if each.headline:
            of_metrics.setdefault((each.benchmark, each.metric, each.filter), []).append(each)
    for (benchmark, _, filter_name), listed in of_metrics.items():
        width = max((abs(x) for each in listed for x in (each.low, each.high) if math.isfinite(x)), default=0.0)
        of_language = {each.task for each in listed if each.language and not each.group}
        if len(of_language) == 1:
            of_language = set()
        rows = [(each.task in of_language, _row(each, comparison.models, width)) for each in listed]
        yield MetricDifferences(
            titles[benchmark],
            listed[0].measured,
            filter_name,
            tuple(row for is_language, row in rows if not is_language),
            tuple(row for is_language, row in rows if is_language),
        )


def _row(found: Difference, models: Sequence[str], width: float) -> Row:
    unit = found.measured.unit
    return Row(
        task=f"{found.task}, mean over {found.tasks} tasks" if found.group else found.task,
        first=models[found.first],
        second=models[found.second],
        first_value=shown(found.first_value, unit) if found.first_measurable else NOT_MEASURABLE,
        second_value=shown(found.second_value, unit) if found.second_measurable else NOT_MEASURABLE,
        difference=_size(found),
        bounds=_bounds(found, unit),
        p=p_value(found.p_adjusted),
        sort=found.difference if math.isfinite(found.difference) else 0.0,
        p_sort=found.p_adjusted if math.isfinite(found.p_adjusted) else 2.0,  # behind all others
        drawn=_drawn(found, width),
        significant=found.significant,
        better=models[found.better] if found.better is not None else "",
        counted=f"{found.n} {found.unit}",
    )


def _size(found: Difference) -> str:
    return points(found.difference, found.measured.unit) if found.is_measurable else NOT_MEASURABLE


def _bounds(found: Difference, unit: Unit) -> str:
    if math.isnan(found.low) or math.isnan(found.high):
        return ""
    return f"{points(found.low, unit).removesuffix(' points')} to {points(found.high, unit)}"


def _drawn(found: Difference, width: float) -> tuple[float, float | None, float] | None:
    parts = (found.low, found.difference, found.high)
    if not width or not all(map(math.isfinite, parts)):
        return None
    low, value, high = (round(50 + 50 * max(-1.0, min(1.0, part / width)), 2) for part in parts)
    return low, value if found.is_measurable else None, high


# ------------------------------------------------------------------------------------------------------------ verdicts


def _verdicts(comparison: Comparison, headlines: Sequence[Headline]) -> dict[tuple[str, str], tuple[Verdict, ...]]:
    of_models: dict[tuple[str, str], list[Headline]] = {}
    for headline in headlines:
        of_models.setdefault((headline.family, headline.metric), []).append(headline)
    return {
        (family, metric): tuple(_of_headline(comparison, family, metric, listed))
        for (family, metric), listed in of_models.items()
    }


def _of_headline(comparison: Comparison, family: str, metric: str, headlines: Sequence[Headline]) -> list[Verdict]:
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
        for row in comparison.of(metric)
        if not row.group and row.language in languages and row.task.startswith(family)
    ]
    alone = len({row.language for row in parts}) == 1
    return list(comparison.of(metric, family)) or (parts if alone else []), parts


def _cost_of(row: Difference, comparison: Comparison) -> str:
    """What the better of two models is worse at, in a sentence that follows the verdict; empty where nothing is shown."""
    pair = (row.first, row.second, row.filter)
    traded = comparison.of(row.measured.traded_against, row.task)
    cost = next((other for other in traded if (other.first, other.second, other.filter) == pair), None)
    if cost is None or cost.better in (None, row.better) or not (cost.first_measurable and cost.second_measurable):
        return ""
    more, less = (shown(value, cost.measured.unit) for value in (cost.first_value, cost.second_value))
    if row.better != row.first:
        more, less = less, more
    return unbroken(f" {row.measured.cost}: {more}, not {less}.")


def _verdict(row: Difference, comparison: Comparison) -> Verdict:
    unit = row.measured.unit
    first, second = comparison.models[row.first], comparison.models[row.second]
    if row.n == 0 or math.isnan(row.p):
        return Verdict(f"Of {_named(first)} and {_named(second)} nothing can be said.")
    p = _p_of(row)
    if row.better is None:
        bounds = _bounds(row, unit)
        found = "They differ" if row.significant else "No difference is shown"
        sure = f"95 % bounds {bounds}; {p}" if bounds else p
        return Verdict(f"{found}: {_named(first)} less {_named(second)} is {_size(row)} ({sure}).")
    better, other = (first, second) if row.better == row.first else (second, first)
    size = points(abs(row.difference), unit).removeprefix("+")
    bounds = " to ".join(
        points(bound, unit).removeprefix("+").removesuffix(" points")
        for bound in sorted(abs(bound) for bound in (row.low, row.high) if not math.isnan(bound))
    )
    sure = f"95 % bounds {bounds}; {p}" if _bounds(row, unit) else p
    return Verdict(f"by {size} ({sure}).{_cost_of(row, comparison)}", better, other, row.measured.verdict)


def _of_languages(rows: Sequence[Difference], comparison: Comparison) -> Iterator[Verdict]:
    """A verdict for each pair of models on tasks that no group holds: in how many languages which is better."""

    def pair(row: Difference) -> tuple[int, int]:
        return row.first, row.second

    for models, group in groupby(sorted(rows, key=pair), key=pair):
        listed = list(group)
        won = {model: [row for row in listed if row.better == model] for model in models}
        ahead, behind = sorted(models, key=lambda model: -len(won[model]))
        yield _of_pair(listed, comparison.models[ahead], won[ahead], comparison.models[behind], won[behind])


def _of_pair(
    rows: Sequence[Difference], ahead: str, won: Sequence[Difference], behind: str, lost: Sequence[Difference]
) -> Verdict:
    """In how many of some languages which of two models is better."""
    rest = len(rows) - len(won) - len(lost)
    if not won:
        names = f"{_named(ahead)} and {_named(behind)}"
        return Verdict(f"Between {names}, no difference is shown in any of {len(rows)} languages.")
    parts = [f"in {len(won)} of {len(rows)} languages ({_languages(won)})"]
    if lost:
        parts.append(f"it is the other way round in {len(lost)} ({_languages(lost)})")
    if rest:
        parts.append(f"no difference is shown in {rest}")
    return Verdict("; ".join(parts) + ".", ahead, behind, rows[0].measured.verdict)


def _languages(rows: Sequence[Difference]) -> str:
    named = ", ".join(language_name(row.language) for row in rows[:_NAMED])
    return f"{named} and {len(rows) - _NAMED} more" if len(rows) > _NAMED else named


def _named(label: str) -> str:
    return label.rpartition("/")[2] or label


def _p_of(row: Difference) -> str:
    """``p < 0.001`` on one line."""
    p = p_value(row.p_adjusted)
    return (f"p < {p[1:]}" if p.startswith("<") else f"p = {p}").replace(" ", NO_BREAK)
