"""The differences between models as a page shows them: rows with bounds and p, and a verdict for each headline."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from custom_metrics.statistics.units import NOT_MEASURABLE, Unit, unit_of
from lm_eval_tasks.data.sources import MissingSource
from lm_eval_tasks.results.compare import Comparison, Difference, compare_runs
from lm_eval_tasks.results.compare.wording import p_value
from lm_eval_tasks.results.report.families import language_name
from lm_eval_tasks.results.report.headlines import Headline
from lm_eval_tasks.results.report.numbers import NO_BREAK, shown, unbroken
from lm_eval_tasks.results.report.points import points
from lm_eval_tasks.results.report.prices import PRICES
from lm_eval_tasks.runs import Answers, Run, TaskRun

__all__ = ["Differences", "MetricDifferences", "Row", "Verdict", "differences"]

_LESS = {
    "rogan_gladen_rate": "makes up less than",
    "estimated_rate": "makes up less than",
    "detected_rate": "has fewer words flagged than",
    "hallucinated_share": "makes up less than",
    "hallucination_rate": "makes up less than",
    "unanswerable_accuracy": "is better at declining than",
}
"""Metric to how its better model is said to stand to the other."""

_NOTHING_CORRECTED = "Of the corrected rates nothing can be said: the detector's errors are too little known."
_CORRECTED = ("rogan_gladen_rate", "estimated_rate")
_FLAGGED = "detected_rate"

_BETTER = "is better than"
_ALIKE = "{model} answers every question alike, and is said to be better than no other model."
_NAMED = 3  # languages that a verdict names
_PAIRS = 6  # verdicts of one headline; the table has all


@dataclass(frozen=True)
class Row:
    """Two models on one metric of a task or group.

    Attributes:
        task: name of it; a group's says over how many tasks its mean is.
        first, second: labels of the models.
        first_value, second_value, difference, bounds, p: as text.
        sort, p_sort: the difference and p, to sort by.
        drawn: lower bound, difference and upper bound on a scale of 0 to 100, with 50 for no difference; ``None`` where
            there are no bounds, and for a difference that is not measurable.
        significant: whether the models differ, as corrected for the number of comparisons.
        better: label of the better model; empty where none is shown to be.
        counted: what was paired.
        method: what bounds and p come from.
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
    method: str


@dataclass(frozen=True)
class MetricDifferences:
    """A metric of a benchmark: its rows of groups and single tasks, and those of each language.

    Attributes:
        benchmark, metric, filter: of it.
        better: ``lower``, ``higher`` or empty.
        main: rows of groups and of tasks without a language.
        languages: rows of each language.
        family: comparisons that p is corrected for.
    """

    benchmark: str
    metric: str
    filter: str
    better: str
    main: tuple[Row, ...]
    languages: tuple[Row, ...]
    family: int


@dataclass(frozen=True)
class Verdict:
    """What the difference of two models on a headline comes to.

    Attributes:
        better, other: labels; empty where no difference is shown.
        relation: what the better one does.
        text: by how much, and how sure that is.
    """

    better: str
    other: str
    relation: str
    text: str


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
        found = compare_runs(runs, refuse=False, read=read)
    except (ValueError, MissingSource) as error:  # nothing in common, other documents, no answers
        return Differences((), {}, (f"The models are not compared: {error}",))
    refused = tuple(f"{refusal.task} is not compared: {refusal.reason}" for refusal in found.refused)
    metrics = tuple(_metrics(found))
    nothing = () if metrics else ("The models are not compared: they were asked nothing that is the same.",)
    return Differences(metrics, _verdicts(found, headlines), (*nothing, *refused, *found.notes))


def _metrics(found: Comparison) -> Iterator[MetricDifferences]:
    def key(row: Difference) -> tuple[str, str, str]:
        return row.benchmark, row.metric, row.filter

    listed_rows = [row for row in found.differences if row.headline]
    places = {key(row): place for place, row in reversed([*enumerate(listed_rows)])}
    rows = sorted(listed_rows, key=lambda row: places[key(row)])  # in the comparison's order
    for (benchmark, metric, filter_name), group in groupby(rows, key=key):
        listed = list(group)
        width = max((abs(x) for row in listed for x in (row.low, row.high) if math.isfinite(x)), default=0.0)
        apart = {row.task: row.language and not row.group for row in listed}
        alone = sum(map(bool, apart.values())) == 1
        better = {True: "higher", False: "lower", None: ""}[listed[0].higher_is_better]
        yield MetricDifferences(
            benchmark,
            metric,
            filter_name,
            better,
            tuple(_row(row, found, width) for row in listed if not apart[row.task] or alone),
            tuple(_row(row, found, width) for row in listed if apart[row.task] and not alone),
            max(row.family for row in listed),
        )


def _row(row: Difference, found: Comparison, width: float) -> Row:
    unit = unit_of(row.metric)
    models = found.models
    return Row(
        task=f"{row.task}, mean over {row.tasks} tasks" if row.group else row.task,
        first=models[row.first],
        second=models[row.second],
        first_value=shown(row.first_value, unit) if row.first_measurable else NOT_MEASURABLE,
        second_value=shown(row.second_value, unit) if row.second_measurable else NOT_MEASURABLE,
        difference=points(row.difference, unit) if row.is_measurable else NOT_MEASURABLE,
        bounds=_bounds(row, unit),
        p=p_value(row.p_adjusted),
        sort=row.difference if math.isfinite(row.difference) else 0.0,
        p_sort=row.p_adjusted if math.isfinite(row.p_adjusted) else 2.0,  # behind all others
        drawn=_drawn(row, width),
        significant=row.significant,
        better=models[row.better] if row.better is not None else "",
        counted=f"{row.n} {row.unit}",
        method=row.method,
    )


def _bounds(row: Difference, unit: Unit) -> str:
    if math.isnan(row.low) or math.isnan(row.high):
        return ""
    return f"{points(row.low, unit).removesuffix(' points')} to {points(row.high, unit)}"


def _drawn(row: Difference, width: float) -> tuple[float, float | None, float] | None:
    parts = (row.low, row.difference, row.high)
    if not width or not all(map(math.isfinite, parts)):
        return None
    low, value, high = (round(50 + 50 * max(-1.0, min(1.0, part / width)), 2) for part in parts)
    return low, value if row.is_measurable else None, high


# ------------------------------------------------------------------------------------------------------------ verdicts


def _verdicts(found: Comparison, headlines: Sequence[Headline]) -> dict[tuple[str, str], tuple[Verdict, ...]]:
    wanted = dict.fromkeys((one.family, one.metric) for one in headlines)
    languages = {(one.family, one.metric): one.languages.keys() for one in headlines}
    alike: dict[tuple[str, str], list[str]] = {}
    for one in headlines:
        if one.is_alike:
            alike.setdefault((one.family, one.metric), []).append(one.model)
    verdicts = {}
    for family, metric in wanted:
        rows, parts = _rows_of(found, family, metric, languages[family, metric])
        if rows and metric in _CORRECTED and all(math.isnan(row.p) for row in rows):
            # What is known all the same: which model the detector flags less.
            flagged = _rows_of(found, family, _FLAGGED, languages[family, metric])[0]
            listed = [Verdict("", "", "", _NOTHING_CORRECTED), *(_verdict(row, found) for row in flagged)]
            verdicts[family, metric] = tuple(listed[: _PAIRS + 1])
            continue
        listed = [_verdict(row, found, _price_of(row, found)) for row in rows] or list(_of_languages(parts, found))
        degenerate = alike.get((family, metric), ())
        listed = [one for one in listed if one.better not in degenerate]
        listed.sort(key=lambda one: not one.better)
        if len(listed) > _PAIRS:
            listed = [one for one in listed if one.better][:_PAIRS]
        listed += [Verdict("", "", "", _ALIKE.format(model=_named(model))) for model in degenerate]
        verdicts[family, metric] = tuple(listed)
    return verdicts


def _rows_of(
    found: Comparison, family: str, metric: str, languages: Container[str]
) -> tuple[list[Difference], list[Difference]]:
    """The rows of a family as a whole, or of its only language; and those of its languages."""
    rows = list(found.of(metric, family))
    parts = [
        row for row in found.of(metric) if not row.group and row.language in languages and row.task.startswith(family)
    ]
    alone = len({row.language for row in parts}) == 1
    return rows or (parts if alone else []), parts


def _price_of(row: Difference, found: Comparison) -> str:
    """What the better of two models is worse at, in a sentence that follows the verdict; empty where nothing is shown."""
    if row.better is None or row.metric not in PRICES:
        return ""
    metric, paid = PRICES[row.metric]
    pair = (row.first, row.second, row.filter)
    price = next((one for one in found.of(metric, row.task) if (one.first, one.second, one.filter) == pair), None)
    if price is None or price.better in (None, row.better) or not (price.first_measurable and price.second_measurable):
        return ""
    values = (shown(value, unit_of(metric)) for value in (price.first_value, price.second_value))
    more, less = values if row.better == row.first else reversed([*values])
    return unbroken(f" {paid}: {more}, not {less}.")


def _verdict(row: Difference, found: Comparison, price: str = "") -> Verdict:
    unit = unit_of(row.metric)
    first, second = found.models[row.first], found.models[row.second]
    if row.n == 0 or math.isnan(row.p):
        return Verdict("", "", "", f"Of {_named(first)} and {_named(second)} nothing can be said.")
    bounds = _bounds(row, unit)
    sure = f"95 % bounds {bounds}; {_said_p(row.p_adjusted)}" if bounds else _said_p(row.p_adjusted)
    if row.better is None:
        said = "They differ" if row.significant else "No difference is shown"
        size = points(row.difference, unit) if row.is_measurable else NOT_MEASURABLE
        pair = f"{said}: {_named(first)} less {_named(second)} is {size} ({sure})."
        return Verdict("", "", "", pair)
    better, other = (first, second) if row.better == row.first else (second, first)
    size = points(abs(row.difference), unit).removeprefix("+")
    sizes = sorted(abs(part) for part in (row.low, row.high) if math.isfinite(part))
    between = " to ".join(points(part, unit).removeprefix("+").removesuffix(" points") for part in sizes)
    sure = f"95 % bounds {between}; {_said_p(row.p_adjusted)}" if len(sizes) == 2 else sure
    return Verdict(better, other, _LESS.get(row.metric, _BETTER), f"by {size} ({sure}).{price}")


def _of_languages(rows: Sequence[Difference], found: Comparison) -> Iterator[Verdict]:
    """A verdict for each pair of models on tasks that no group holds: in how many languages which is better."""
    for (one, other), group in groupby(
        sorted(rows, key=lambda row: (row.first, row.second)), key=lambda row: (row.first, row.second)
    ):
        listed = list(group)
        first, second = found.models[one], found.models[other]
        yield _of_pair(
            listed,
            (first, [row for row in listed if row.better == one]),
            (second, [row for row in listed if row.better == other]),
        )


def _of_pair(
    rows: Sequence[Difference], one: tuple[str, list[Difference]], other: tuple[str, list[Difference]]
) -> Verdict:
    """In how many of some languages which of two models is better."""
    (ahead, won), (behind, lost) = sorted((one, other), key=lambda each: -len(each[1]))
    rest = len(rows) - len(won) - len(lost)
    if not won:
        names = f"{_named(ahead)} and {_named(behind)}"
        return Verdict("", "", "", f"Between {names}, no difference is shown in any of {len(rows)} languages.")
    parts = [f"in {len(won)} of {len(rows)} languages ({_languages(won)})"]
    if lost:
        parts.append(f"it is the other way round in {len(lost)} ({_languages(lost)})")
    if rest:
        parts.append(f"no difference is shown in {rest}")
    return Verdict(ahead, behind, _LESS.get(rows[0].metric, _BETTER), "; ".join(parts) + ".")


def _languages(rows: Sequence[Difference]) -> str:
    named = ", ".join(language_name(row.language) for row in rows[:_NAMED])
    return f"{named} and {len(rows) - _NAMED} more" if len(rows) > _NAMED else named


def _named(label: str) -> str:
    return label.rpartition("/")[2] or label


def _said_p(p: float) -> str:
    """``p < 0.001`` on one line."""
    said = p_value(p)
    return f"p < {said[1:]}".replace(" ", NO_BREAK) if said.startswith("<") else f"p = {said}".replace(" ", NO_BREAK)
