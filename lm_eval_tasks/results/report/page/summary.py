"""The top of a page: which numbers stand where, and what is said once instead of at every number."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from lm_eval_tasks.results.report.doubts import Doubt
from lm_eval_tasks.results.report.families import language_name
from lm_eval_tasks.results.report.headlines import Headline
from lm_eval_tasks.results.report.numbers import bounds, not_measurable, shown, unbroken, with_bounds
from lm_eval_tasks.results.report.prices import PRICES

__all__ = ["Interval", "MetricSummary", "Row", "Summary", "benchmark_name", "metric_title", "summaries"]

_TITLES = {
    "rogan_gladen_rate": "Words that are made up, corrected",
    "estimated_rate": "Words that are made up, estimated",
    "detected_rate": "Words that a detector flags",
    "hallucination_rate": "Claims an answer that no passage holds",
    "error_rate": "Overlooks an answer that a passage holds",
    "hallucinated_share": "Words of an answer that a detector flags",
    "unanswerable_accuracy": "Declines what cannot be answered",
    "answerable_abstention_rate": "Declines what can be answered",
    "rougeL": "Agrees with the reference answers",
    "length": "Length of an answer",
    "gold_retrieved": "Gold passage among those retrieved",
    "iou": "Agrees with people on what is hallucinated",
    "rho": "Ranks characters as people do",
    "f1": "Finds hallucinated words",
    "f_plus_a": "Faithful and appropriate, as a judge rates it",
    "faithfulness": "Faithful, as a judge rates it",
    "appropriateness": "Appropriate, as a judge rates it",
}
"""Metric to what it is about, in the reader's words."""

_FIRST = (
    "rogan_gladen_rate",
    "estimated_rate",
    "detected_rate",
    "hallucination_rate",
    "hallucinated_share",
    "unanswerable_accuracy",
    "iou",
    "f1",
    "f_plus_a",
)
"""The metric of a family that the first screen shows: what is made up, or what is nearest to it."""

_SEVERE = ("broken", "alike", "undefined", "invalid", "clipped", "unlike")
"""Kinds of doubts that the first screen says beside a model, the worst first. The others are below."""

_QUESTIONS = (
    ("mfava_detection", "Does it find what is made up?"),
    ("clapnq_judge", "How good are the answers, as a judge rates them?"),
    ("nomiracl", "Does it know when the passages do not answer?"),
    ("clapnq", "Does it answer from the passages, and decline what they do not answer?"),
    ("mfava", "How much of what it says without a source is made up?"),
    ("mushroom", "Does it find what people marked as hallucinated?"),
)
_NAMES = {"nomiracl": "NoMIRACL", "clapnq": "CLAPnq", "mfava": "mFAVA", "mushroom": "Mu-SHROOM"}
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
        metric: its name in the results.
        filter: whose reading.
        title: what it is about.
        denominator: the documents that count.
        better: ``lower``, ``higher`` or empty.
        scale: what 0 and 100 of the intervals stand for.
        rows: of the models.
    """

    metric: str
    filter: str
    title: str
    denominator: str
    better: str
    scale: tuple[str, str]
    rows: tuple[Row, ...]


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
        known = {metric.metric: metric for metric in self.metrics}
        return next((known[name] for name in _FIRST if name in known), self.metrics[0])

    @property
    def prices(self) -> dict[str, str]:
        """Model to what its number on the first screen may have cost, in words; empty where nothing is."""
        if self.first.metric not in PRICES:
            return {}
        wanted = PRICES[self.first.metric].metric
        price = next((metric for metric in self.metrics if metric.metric == wanted), None)
        if price is None:
            return {}
        title = price.title[:1].lower() + price.title[1:]
        return {row.model: unbroken(f"{title}: {row.value}") for row in price.rows}


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
            _metric(metric, list(group), (*everywhere, *common))
            for metric, group in groupby(listed, key=lambda one: one.metric)
        ]
        benchmark = listed[0].benchmark
        found.append(Summary(family, benchmark_name(benchmark), _question(family), common, tuple(metrics)))
    return everywhere, found


def _common(listed: Sequence[Headline]) -> tuple[Doubt, ...]:
    """The doubts that hold for each of some numbers; of a single number none, as they stand beside it."""
    if len(listed) < 2:
        return ()
    return tuple(doubt for doubt in listed[0].doubts if all(doubt in one.doubts for one in listed))


def _metric(metric: str, listed: Sequence[Headline], common: Iterable[Doubt]) -> MetricSummary:
    first = listed[0]
    top = _top(listed)
    better = {True: "higher", False: "lower", None: ""}[first.higher_is_better]
    return MetricSummary(
        metric,
        first.filter,
        metric_title(metric),
        first.denominator,
        better,
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


def _question(family: str) -> str:
    return next((question for start, question in _QUESTIONS if family.startswith(start)), "")


def benchmark_name(folder: str) -> str:
    """A benchmark as its paper calls it; "other tasks" for those that are in no table of ours."""
    return _NAMES.get(folder, folder) or "other tasks"


def metric_title(metric: str) -> str:
    """What a metric is about, in the reader's words; its name where there are none."""
    return _TITLES.get(metric, metric)
