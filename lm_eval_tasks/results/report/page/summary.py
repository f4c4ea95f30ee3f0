"""The top of a page: which numbers stand where, and what is said once instead of at every number."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.results.report.documents import TaskDocuments
from lm_eval_tasks.results.report.doubts import Doubt
from lm_eval_tasks.results.report.headlines import Headline
from lm_eval_tasks.results.report.numbers import shown, unbroken

_SEVERE = ("broken", "alike", "undefined", "invalid", "clipped", "unlike")
"""Kinds of doubts that the first screen says beside a model, the worst first. The others are below."""

_SCALES = {"share": 1.0, "score": 1.0, "rating": 4.0}
_WIDTH = 100.0
_EXAMPLES = 3
_QUESTION = 80  # characters of a question
_WHERE = re.compile(r"in \d+ of \d+ languages")


class MetricSummary(NamedTuple):
    """A metric of a family, with every model's headline. Their doubts are those that are not said elsewhere."""

    headlines: list[Headline]

    @property
    def measured(self) -> Metric:
        """The metric, as the table of its benchmark describes it."""
        return self.headlines[0].measured

    @property
    def top(self) -> float:
        """The end of the scale: 1 for shares and scores (or what exceeds it), 4 for ratings, else the largest bound."""
        values = (value for one in self.headlines for value in (one.figure.value, one.figure.high))
        largest = max((value for value in values if not math.isnan(value)), default=1.0)
        return max(largest, _SCALES.get(self.measured.unit, 1.0))

    @property
    def scale(self) -> tuple[str, str]:
        """What 0 and 100 of an interval stand for."""
        return shown(0.0, self.measured.unit), shown(self.top, self.measured.unit)

    def interval(self, headline: Headline) -> tuple[float, float | None, float] | None:
        """Lower bound, value and upper bound on a scale of 0 to 100, to be drawn; without bounds all are the value's place.
        What is not measurable has bounds alone, and ``None`` for a value; what is undefined has nothing."""
        value, low, high = headline.figure.value, headline.figure.low, headline.figure.high
        if math.isnan(value):
            return None
        places = (_WIDTH * (value if math.isnan(part) else part) / self.top for part in (low, value, high))
        low, value, high = (round(max(0.0, min(_WIDTH, place)), 2) for place in places)
        return low, value if headline.is_measurable else None, high


class Summary(NamedTuple):
    """A family of tasks at the top of a page: its name, its benchmark as the paper calls it, the question that it answers,
    doubts about every number of it, and its metrics."""

    family: str
    benchmark: str
    question: str
    doubts: list[Doubt]
    metrics: list[MetricSummary]

    @property
    def first(self) -> MetricSummary:
        """The metric for the first screen."""
        return max(self.metrics, key=lambda metric: metric.measured.prominence)

    @property
    def severe(self) -> dict[str, str]:
        """Model to the worst doubts about its number on the first screen, without their details, but for how many languages
        they hold in."""
        found = {}
        for one in self.first.headlines:
            worst = [doubt.text for kind in _SEVERE for doubt in one.doubts if doubt.kind == kind][:2]
            if worst:
                found[one.model] = "; ".join(
                    text.partition(" (")[0].partition(":")[0] + (f" ({where[0]})" if where else "")
                    for text, where in zip(worst, map(_WHERE.search, worst), strict=True)
                )
        return found

    @property
    def main_doubts(self) -> list[Doubt]:
        """One of each kind, for the first screen."""
        return [*{doubt.kind: doubt for doubt in reversed(self.doubts)}.values()][::-1]

    @property
    def more_doubts(self) -> int:
        """How many more there are about its first metric."""
        return len(self.doubts) - len(self.main_doubts) + sum(len(one.doubts) for one in self.first.headlines)

    @property
    def traded_against(self) -> dict[str, str]:
        """Model to its number on the metric that the first one is traded against, in words; empty where there is none."""
        name = self.first.measured.traded_against
        other = next((metric for metric in self.metrics if metric.measured.name == name), None)
        if other is None:
            return {}
        title = other.measured.heading[:1].lower() + other.measured.heading[1:]
        return {one.model: unbroken(f"{title}: {one.value}") for one in other.headlines}


def summaries(headlines: Sequence[Headline]) -> tuple[list[Doubt], list[Summary]]:
    """The doubts about every number, and families with their metrics, in the order of the headlines."""
    everywhere = _common(headlines)
    listed = []
    for family, of_family in groupby(headlines, key=lambda one: one.family):
        members = list(of_family)
        common = [doubt for doubt in _common(members) if doubt not in everywhere]
        said = {*everywhere, *common}
        alone = [replace(one, doubts=tuple(doubt for doubt in one.doubts if doubt not in said)) for one in members]
        metrics = [MetricSummary([*group]) for _, group in groupby(alone, key=lambda one: one.metric)]
        listed.append(Summary(family, members[0].benchmark, members[0].question, common, metrics))
    return everywhere, listed


def _common(listed: Sequence[Headline]) -> list[Doubt]:
    """The doubts that hold for each of some numbers; of a single number none, as they stand beside it."""
    if len(listed) < 2:
        return []
    return [doubt for doubt in listed[0].doubts if all(doubt in one.doubts for one in listed)]


def examples(tasks: Collection[str], documents: Sequence[TaskDocuments]) -> list[tuple[str, str, str]]:
    """Up to three documents of tasks in which a model made something up, of as many tasks as can be, English ones first:
    id on the page, beginning of the question, and language.

    Those that another model got right come first. A wrong answer that declines makes nothing up, and is none.
    """
    found = []
    for place, task in enumerate(documents):
        for number, document in enumerate(task.shown, 1):
            kinds = [answer.kinds for answer in document.answers]
            made_up = any("hallucinated" in one or ("wrong" in one and "abstained" not in one) for one in kinds)
            if task.task in tasks and made_up:
                rank = ("disagree" not in document.kinds, task.language != "en", number, place)
                question = " ".join("".join(piece.text for piece in document.question.pieces).split())
                shown = question if len(question) <= _QUESTION else f"{question[:_QUESTION].rstrip()}…"
                found.append((rank, task.task, (f"{task.task}-{number}", shown, document.language)))
    ranked = [(task, example) for _, task, example in sorted(found)]
    first = dict(reversed(ranked))
    ranked.sort(key=lambda each: each[1] is not first[each[0]])
    return [example for _, example in ranked[:_EXAMPLES]]
