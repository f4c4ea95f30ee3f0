"""The top of a page: which numbers stand where, and what is said once instead of at every number."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.results.report.doubts import Doubt
from lm_eval_tasks.results.report.families import language_name
from lm_eval_tasks.results.report.headlines import Headline
from lm_eval_tasks.results.report.numbers import bounds, not_measurable, shown, unbroken, with_bounds

__all__ = ["Interval", "MetricSummary", "Row", "Summary", "summaries"]

_SEVERE = ("broken", "alike", "undefined", "invalid", "clipped", "unlike")
"""Kinds of doubts that the first screen says beside a model, the worst first. The others are below."""

OTHER_TASKS = "other tasks"
"""What stands in place of a benchmark's name for tasks that are in no table."""

BETTER = {True: "higher", False: "lower", None: ""}
_WIDTH = 100.0
_WHERE = re.compile(r"in \d+ of \d+ languages")


@dataclass(frozen=True)
class Interval:
    """A number and its bounds on a scale of 0 to 100, to be drawn; without bounds both are the number's place. What is not
    measurable has bounds alone, and ``None`` for a value."""

    low: float
    value: float | None
    high: float


@dataclass(frozen=True)
class Row:
    """One model's number; the bounds stand with the value where it is not measurable."""

    model: str
    value: str
    bounds: str
    interval: Interval | None
    says: str
    doubts: tuple[Doubt, ...]
    languages: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class MetricSummary:
    """A metric of a family, with every model's number.

    Attributes:
        measured: the metric, as the table of its benchmark describes it.
        filter: whose reading.
        denominator: the documents that count.
        better: ``lower``, ``higher`` or empty.
        scale: what 0 and 100 of the intervals stand for.
        rows: of the models.
    """

    measured: Metric
    filter: str
    denominator: str
    better: str
    scale: tuple[str, str]
    rows: tuple[Row, ...]

    @property
    def metric(self) -> str:
        """Its name in the results."""
        return self.measured.name

    @property
    def title(self) -> str:
        """What it is about."""
        return self.measured.heading


@dataclass(frozen=True)
class Summary:
    """A family of tasks at the top of a page.

    Attributes:
        family: its name.
        benchmark: as its paper calls it; empty for other tasks.
        question: that it answers.
        doubts: about every number of it.
        metrics: the first one stands on the first screen.
    """

    family: str
    benchmark: str
    question: str
    doubts: tuple[Doubt, ...]
    metrics: tuple[MetricSummary, ...]

    @property
    def severe(self) -> dict[str, str]:
        """Model to the worst doubts about its number on the first screen, in few words."""
        found = {}
        for row in self.first.rows:
            said = [doubt.text for kind in _SEVERE for doubt in row.doubts if doubt.kind == kind]
            if said:
                found[row.model] = "; ".join(map(_in_few_words, said[:2]))
        return found

    @property
    def main_doubts(self) -> tuple[Doubt, ...]:
        """One of each kind, for the first screen."""
        return tuple({doubt.kind: doubt for doubt in reversed(self.doubts)}.values())[::-1]

    @property
    def more_doubts(self) -> int:
        """How many more there are about its first metric."""
        return len(self.doubts) - len(self.main_doubts) + sum(len(row.doubts) for row in self.first.rows)

    @property
    def first(self) -> MetricSummary:
        """The metric for the first screen."""
        return max(self.metrics, key=lambda metric: metric.measured.prominence)

    @property
    def traded_against(self) -> dict[str, str]:
        """Model to its number on the metric that the first one is traded against, in words; empty where there is none."""
        other = next((metric for metric in self.metrics if metric.metric == self.first.measured.traded_against), None)
        if other is None:
            return {}
        title = other.title[:1].lower() + other.title[1:]
        return {row.model: unbroken(f"{title}: {row.value}") for row in other.rows}


def _in_few_words(doubt: str) -> str:
    """A doubt without its details, but for how many languages it holds in."""
    where = _WHERE.search(doubt)
    return doubt.partition(" (")[0].partition(":")[0] + (f" ({where[0]})" if where else "")


def summaries(headlines: Sequence[Headline]) -> tuple[tuple[Doubt, ...], list[Summary]]:
    """The doubts about every number, and families with their metrics, in the order of the headlines."""
    found = []
    everywhere = _common(headlines)
    for family, of_family in groupby(headlines, key=lambda one: one.family):
        listed = list(of_family)
        common = tuple(doubt for doubt in _common(listed) if doubt not in everywhere)
        metrics = [
            _metric(list(group), (*everywhere, *common)) for _, group in groupby(listed, key=lambda one: one.metric)
        ]
        found.append(Summary(family, listed[0].benchmark or OTHER_TASKS, listed[0].question, common, tuple(metrics)))
    return everywhere, found


def _common(listed: Sequence[Headline]) -> tuple[Doubt, ...]:
    """The doubts that hold for each of some numbers; of a single number none, as they stand beside it."""
    if len(listed) < 2:
        return ()
    return tuple(doubt for doubt in listed[0].doubts if all(doubt in one.doubts for one in listed))


def _metric(listed: Sequence[Headline], common: Iterable[Doubt]) -> MetricSummary:
    first = listed[0]
    top = _top(listed)
    return MetricSummary(
        first.measured,
        first.filter,
        first.denominator,
        BETTER[first.measured.higher_is_better],
        (shown(0.0, first.unit), shown(top, first.unit)),
        tuple(_row(one, top, common) for one in listed),
    )


def _row(one: Headline, top: float, common: Iterable[Doubt]) -> Row:
    languages: Mapping[str, str] = {code: with_bounds(figure, one.unit) for code, figure in one.languages.items()}
    unknown = not_measurable(one.figure, one.unit)
    return Row(
        one.model,
        unknown or shown(one.figure.value, one.unit),
        "" if unknown else bounds(one.figure, one.unit),
        _interval(one, top),
        one.says,
        tuple(doubt for doubt in one.doubts if doubt not in common),
        tuple((code, language_name(code), text) for code, text in languages.items()),
    )


def _top(listed: Sequence[Headline]) -> float:
    """The end of the scale: 1 for shares and scores (or what exceeds it), 4 for ratings, else the largest bound."""
    largest = max((x for one in listed for x in (one.figure.value, one.figure.high) if not math.isnan(x)), default=1.0)
    least = {"share": 1.0, "score": 1.0, "rating": 4.0}.get(listed[0].unit, 1.0)
    return max(largest, least)


def _interval(one: Headline, top: float) -> Interval | None:
    value, low, high = one.figure.value, one.figure.low, one.figure.high
    if math.isnan(value):
        return None
    places = [max(0.0, min(_WIDTH, _WIDTH * (value if math.isnan(x) else x) / top)) for x in (low, value, high)]
    low, value, high = (round(place, 2) for place in places)
    return Interval(low, value if one.is_measurable else None, high)
