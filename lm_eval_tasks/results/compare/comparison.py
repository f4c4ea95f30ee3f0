"""The result of comparing runs, as plain values for the command, the report and Python."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.intervals import SIGNIFICANCE, Z95
from custom_metrics.statistics.multiple_comparisons import better
from custom_metrics.statistics.paired_difference import detectable_difference
from custom_metrics.statistics.paired_shares import MOVER, TANGO
from custom_metrics.statistics.units import is_measurable
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.results.board import Column, Costs
from lm_eval_tasks.results.joining import DocumentCounts, Refusal


@dataclass(frozen=True)
class Difference:
    """The difference of two models on a metric of a task or of a group of tasks. What is not defined is ``nan``."""

    task: str  # or the group
    benchmark: str  # its folder; the name of a task that has no table
    language: str  # empty for a group
    group: bool  # a group is the mean over its tasks, each of which counts the same
    tasks: int
    metric: str
    filter: str
    higher_is_better: bool | None  # None: neither is
    headline: bool
    first: int  # the models, by their places in :attr:`Comparison.models`
    second: int
    first_value: float  # over what both models have
    second_value: float
    difference: float  # first minus second, with its 95 % bounds
    low: float
    high: float
    p: float  # two-sided
    p_exact: float  # of McNemar's exact test, for a share of one task
    p_adjusted: float  # by Holm, over the `family`: :func:`custom_metrics.statistics.multiple_comparisons.adjusted`
    family: int
    n: int  # what was paired, in `unit`: documents, articles, questions
    unit: str
    only_first: int  # documents that count only for one of the models, and are in neither value
    only_second: int
    first_own: float  # the models' values over all documents that count for them, as their runs report them
    second_own: float
    method: str  # of bounds and p
    denominator: str  # the documents that count, in words
    measured: Metric
    first_competes: bool = True  # whether it can have a rank: measurable, and not the same verdict on every question
    second_competes: bool = True
    first_measurable: bool = True  # whether its own value may be shown (:mod:`custom_metrics.statistics.units`)
    second_measurable: bool = True  # the paired difference can be measurable where the values are not
    standard_error: float = math.nan  # of the difference; where only bounds are known, a quarter of their width
    documents: int = 0  # that were paired; as many as `n`, unless they are in clusters

    @property
    def of_shares(self) -> bool:
        """Whether both values are shares of documents."""
        return self.method in (TANGO, MOVER)

    @property
    def detectable(self) -> float:
        """The smallest difference that so many documents show with a power of 80 %, without correction for others."""
        return detectable_difference(self.standard_error, self.n if self.of_shares else 0)

    @property
    def is_measurable(self) -> bool:
        """Whether the difference may be shown, on a scale twice as long as the metric's. Without bounds, whether both
        values may be."""
        if math.isnan(self.low + self.high):
            return self.first_measurable and self.second_measurable
        return is_measurable(Figure(self.difference / 2, self.low / 2, self.high / 2), self.measured.unit)

    @property
    def significant(self) -> bool:
        """Whether the models differ, at 5 % for the whole family."""
        return self.p_adjusted < SIGNIFICANCE

    @property
    def better(self) -> int | None:
        """Number of the model that is significantly better; ``None`` where none is, or neither direction is better."""
        first = better(self.difference, self.p_adjusted, self.higher_is_better)
        return None if first is None else self.first if first else self.second


def differences_of(column: Column) -> Iterator[Difference]:
    """The rows of a column."""
    for (first, second), (result, p, family) in column.tested.items():
        both = column.shared((first, second))
        counted = [(each.counted(first), each.counted(second)) for each in both]
        documents, unit = sum(int((a & b).sum()) for a, b in counted), both[0].unit
        one, other = column.cells[first], column.cells[second]
        if math.isnan(result.standard_error):
            result = result._replace(standard_error=(result.high - result.low) / (2 * Z95))
        values = result._asdict()
        yield Difference(
            task=column.name,
            benchmark=column.benchmark,
            language=column.language,
            group=column.group,
            tasks=len(both),
            metric=column.metric.name,
            filter=column.filter,
            higher_is_better=column.metric.higher_is_better,
            headline=column.headline,
            first=first,
            second=second,
            first_value=values.pop("first"),
            second_value=values.pop("second"),
            p_adjusted=p,
            family=family,
            unit="passages" if result.n < documents and unit == "documents" else unit,  # that tasks share
            only_first=sum(int((a & ~b).sum()) for a, b in counted),
            only_second=sum(int((b & ~a).sum()) for a, b in counted),
            first_own=one.value,
            second_own=other.value,
            denominator=column.metric.denominator,
            measured=column.metric,
            first_competes=one.competes,
            second_competes=other.competes,
            first_measurable=one.is_measurable,
            second_measurable=other.is_measurable,
            documents=documents,
            **values,
        )


class Incomparable(ValueError):
    """Runs were not asked the same or not scored in the same way. The message says what differs and what to do."""


@dataclass(frozen=True)
class Comparison:
    """Runs compared pair by pair."""

    models: tuple[str, ...]  # all different
    differences: tuple[Difference, ...]  # headline metrics first, groups before their tasks
    joined: tuple[DocumentCounts, ...]  # of each task, which documents were compared
    notes: tuple[str, ...]  # what a reader should know: other generation settings, left out documents and metrics
    refused: tuple[Refusal, ...] = ()  # tasks that cannot be compared, and were left out
    across: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # setting that differs to its value by model
    paired: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # task to its other names in runs
    doubts: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # about a model's answers
    costs: Mapping[str, Costs] = field(default_factory=dict)  # of three models and more: by task or group
    columns: Sequence[Column] = ()  # in the order of the differences

    def select(self, metric: str, task: str | None = None) -> Iterator[Difference]:
        """The differences on a metric, of one task or of all."""
        return (row for row in self.differences if row.metric == metric and task in (None, row.task))

    def column(self, metric: str, task: str) -> Column | None:
        """The models on a metric of a task or group; ``None`` where it is not compared."""
        return next((each for each in self.columns if (each.metric.name, each.name) == (metric, task)), None)

    def as_json(self) -> dict[str, Any]:
        """The comparison as a JSON object, with names of models, and ``null`` for what is not defined."""
        content = asdict(replace(self, columns=()))
        del content["columns"]
        for row, difference in zip(content["differences"], self.differences, strict=True):
            row["first"], row["second"] = self.models[difference.first], self.models[difference.second]
            row |= {"significant": difference.significant, "detectable": difference.detectable}
            del row["measured"]
            row |= {name: None for name, value in row.items() if isinstance(value, float) and not math.isfinite(value)}
        for costs in content["costs"].values():
            for at_cost in costs["at"]:
                at_cost["best"] = self.models[at_cost["best"]]
                at_cost["equals"] = [self.models[model] for model in at_cost["equals"]]
            costs["turns"] = [(cost, self.models[model]) for cost, model in costs["turns"]]
        content["doubts"] = {self.models[model]: [*doubts] for model, doubts in self.doubts.items()}
        for task in content["joined"]:
            task["only"] = dict(zip(self.models, task["only"], strict=True))
        return content
