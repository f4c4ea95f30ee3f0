"""The result of comparing runs, as plain values for the command, the report and the leaderboard."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.intervals import SIGNIFICANCE
from custom_metrics.statistics.multiple_comparisons import better, ranks
from custom_metrics.statistics.paired_shares import MOVER, TANGO
from custom_metrics.statistics.power import detectable_difference
from custom_metrics.statistics.units import is_measurable
from lm_eval_tasks.definition.schema import Metric

if TYPE_CHECKING:
    from lm_eval_tasks.results.compare.costs import Costs


@dataclass(frozen=True)
class Difference:
    """The difference of two models on a metric of a task or of a group of tasks. What is not defined is ``nan``."""

    task: str  # or the group
    benchmark: str  # its folder; empty for a task that is in no table of ours
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


@dataclass(frozen=True)
class DocumentCounts:
    """The number of documents of a task that at least two runs have (`documents`), and of those that only one model has
    (`only`, by model; ``None`` for a model that did not run the task)."""

    task: str
    documents: int
    only: tuple[int | None, ...]


@dataclass(frozen=True)
class Refusal:
    """A reason why a task cannot be compared: the kind of difference (``documents``, ``prompts``, ``detectors``,
    ``calibrations`` or ``answers``), a text with the first example, and the setting to compare across if that helps."""

    task: str
    kind: str
    reason: str
    setting: str = ""


@dataclass(frozen=True)
class Column:
    """The models of a comparison on a metric of a task or group, each by its number."""

    values: Mapping[int, float]  # over all documents that count for the model
    competing: frozenset[int]
    won: frozenset[tuple[int, int]]  # pairs of a better and a worse model
    tested: frozenset[frozenset[int]]  # pairs of which something can be said
    higher_is_better: bool | None

    @classmethod
    def of(cls, rows: Sequence[Difference]) -> Column:
        """The column of all its differences. A model that lacks some of a group's tasks has a value, over those that it
        has, and no rank."""
        values: dict[int, float] = {}
        competes: dict[int, bool] = {}
        most = max(row.tasks for row in rows)
        whole = [row for row in rows if row.tasks == most]
        for row in rows:
            values |= {row.first: row.first_own, row.second: row.second_own}
        for row in whole:
            competes |= {row.first: row.first_competes, row.second: row.second_competes}
        won = {
            (row.better, row.second if row.better == row.first else row.first)
            for row in whole
            if row.better is not None
        }
        tested = frozenset(frozenset((row.first, row.second)) for row in whole if not math.isnan(row.p))
        able = frozenset(model for model, value in values.items() if competes.get(model) and not math.isnan(value))
        return cls(values, able, frozenset(won), tested, rows[0].higher_is_better)

    @property
    def ranks(self) -> dict[int, int]:
        """The rank of each model that competes (:func:`custom_metrics.statistics.multiple_comparisons.ranks`)."""
        return ranks(self.competing, self.won) if self.higher_is_better is not None else {}

    @property
    def order(self) -> list[int]:
        """The models by rank, and of equal ones the best value first; those that do not compete last."""
        sign, by_rank = -1 if self.higher_is_better else 1, self.ranks

        def place(model: int) -> tuple[bool, float, bool, float]:
            value = self.values[model]
            unknown = math.isnan(value)
            rank = by_rank.get(model, math.inf)
            return model not in self.competing, rank, unknown, 0.0 if unknown else sign * value

        return sorted(self.values, key=place)

    def beaten_by(self, model: int) -> list[int]:
        """The models that this one is significantly better than."""
        return [worse for winner, worse in self.won if winner == model]

    def equals(self, model: int) -> list[int]:
        """The competing models that show no difference to this one."""
        return [
            other
            for other in self.order
            if other != model
            and other in self.competing
            and frozenset((model, other)) in self.tested
            and not {(model, other), (other, model)} & self.won
        ]


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

    def select(self, metric: str, task: str | None = None) -> Iterator[Difference]:
        """The differences on a metric, of one task or of all."""
        return (row for row in self.differences if row.metric == metric and task in (None, row.task))

    def column(self, metric: str, task: str) -> Column | None:
        """The models on a metric of a task or group; ``None`` where it is not compared."""
        rows = [*self.select(metric, task)]
        return Column.of(rows) if rows else None

    def as_json(self) -> dict[str, Any]:
        """The comparison as a JSON object, with names of models, and ``null`` for what is not defined."""
        content = asdict(self)
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
