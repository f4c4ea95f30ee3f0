"""The board: runs by columns. Everything that ranks runs, or says which is better, reads it here.

A :class:`Column` is a metric over one task, or the mean of several tasks: languages, or a group. It has a :class:`Cell` for
each of its runs, and the paired difference of any two. :func:`tested` computes differences, corrects p over its family, and
ranks; the rules themselves are those of :mod:`custom_metrics.statistics.multiple_comparisons`. Comparison and
report choose the columns and the runs in them, and render what is here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.scores.aggregations import defined_mean
from custom_metrics.scores.balanced_error import COSTS, BalancedError
from custom_metrics.statistics.figures import Figure, is_measurable, without_point
from custom_metrics.statistics.multiple_comparisons import adjusted, better, ranks
from custom_metrics.statistics.paired_difference import Differences, Floats, together
from custom_metrics.statistics.strata import error_across
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.definition.catalogue import kind_of
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.results.measuring import Measured, pooled
from lm_eval_tasks.runs import Run, TaskRun
from lm_eval_tasks.runs.other_tasks import WHY_NO_MEAN, mean_of_group

Pair = tuple[int, int]
"""The numbers of two runs, the smaller first."""

MEAN = "mean"
"""The key, in place of a language, of the mean over a model's languages."""


@dataclass(frozen=True)
class Family:
    """The tasks of a run that differ only in language, or those of a group."""

    name: str  # of their group, such as ``nomiracl_role``; of the task itself if it has no language
    tasks: Mapping[str, TaskRun]  # by language, in the order of the run; ``""`` for a task without one; others by name
    languages: int = 0  # number of languages of its group; 0 where no group of ours has this name
    results: Mapping[str, Any] = field(default_factory=dict)  # of a complete group: ``metric,filter`` to value

    @property
    def any_task(self) -> TaskRun:
        """One of its tasks, for what they share: metrics and filters."""
        return next(iter(self.tasks.values()))

    @property
    def parts(self) -> str:
        """What its tasks are, in the plural."""
        named = any(self.tasks) and not self.any_task.language
        return "tasks" if named or self.any_task.table is None else "languages"

    @property
    def question(self) -> str:
        """The question that it answers; empty where it has none."""
        table = self.any_task.table
        return table.question(self.name) if table else ""

    @property
    def filter(self) -> str:
        """The filter whose readings of the answers count."""
        return self.any_task.headline_filter

    @property
    def is_whole(self) -> bool:
        """Whether every language of its group is in the run."""
        return 0 < self.languages <= len(self.tasks)

    def figures(self, metric: str) -> dict[str, Figure]:
        """The figures of a metric by language; undefined where no document is in the denominator."""
        return {language: task.figure(metric, self.filter) for language, task in self.tasks.items()}

    def mean(self, metric: str) -> Figure:
        """The mean of a metric over the languages, as the board has it; for a single task, its figure."""
        return reported_figure([*self.tasks.values()], metric, self.filter, self.results)

    def why_no_mean(self, metric: str) -> str:
        """The first reason why a metric of another task is no mean of its documents' values; empty where there is none."""
        by_metric = (task.figures.get(self.filter, {}) for task in self.tasks.values())
        return next((str(why) for each in by_metric if (why := each.get(metric, {}).get(WHY_NO_MEAN))), "")

    def drawable(self, metric: str) -> dict[str, Figure]:
        """Figures to draw: by language, sorted, and last their mean (:data:`MEAN`). What is not measurable has no value."""
        figures = dict(sorted(self.figures(metric).items()))
        if len(figures) > 1:
            figures[MEAN] = self.mean(metric)
        unit = self.any_task.metric(metric).unit
        return {language: without_point(figure, unit) for language, figure in figures.items()}


def families(run: Run) -> list[Family]:
    """The families of a run, in the order of its tasks.

    If the run has a complete group of ours, the family is exactly that group, so that its mean is the group's number. A
    further language of the same benchmark (``mfava_fa`` beside the group ``mfava``) is then a family of its own.
    """
    by_name: dict[str, dict[str, TaskRun]] = {}
    for task in run.tasks.values():
        by_name.setdefault(task.family, {})[task.part] = task
    listed: list[Family] = []
    for name, tasks in by_name.items():
        members = {*{**run.groups, **catalogue.groups(run.tasks)}.get(name, ())}
        is_whole = bool(members) and members <= {task.task for task in tasks.values()}
        outside = {language: task for language, task in tasks.items() if is_whole and task.task not in members}
        inside = {language: task for language, task in tasks.items() if language not in outside}
        results = run.group_results.get(name, {}) if is_whole else {}
        listed.append(Family(name, inside, len(members), results))
        listed += [Family(task.task, {language: task}) for language, task in outside.items()]
    return listed


# ---------------------------------------------------------------------------------------------------- columns and cells


class Doubt(NamedTuple):
    """A reason to trust a number less: ``not_comparable``, ``few``, ``unbounded``, ``undefined``, ``calibration``,
    ``clipped``, ``unlike``, ``invalid``, ``abstains``, ``readings``, ``alike``, ``cut`` or ``broken``."""

    kind: str
    text: str  # without a full stop


class Cell(NamedTuple):
    """A run in a column. Those of a report's headlines have words, too."""

    value: float  # over all documents that count for the run
    figure: Figure  # the same as the run's results have it, with bounds
    is_measurable: bool = True  # whether the value may be shown (:mod:`custom_metrics.statistics.figures`)
    competes: bool = True  # whether it can have a rank: measurable, and not the same verdict on every question
    doubts: tuple[str, ...] = ()  # about the answers, in short: a first rank is then no distinction
    rank: int | None = None
    family: Family | None = None  # the run's tasks in the column
    explanation: str = ""  # a sentence that explains the number
    reasons: tuple[Doubt, ...] = ()  # the doubts in full

    @classmethod
    def of(cls, figure: Figure, metric: Metric, is_alike: bool) -> Cell:
        """The cell of a run's figure, without a rank. `is_alike`: the run gives every question the same verdict."""
        shown = is_measurable(figure, metric.unit)
        return cls(figure.value, figure, shown, shown and not is_alike)


@dataclass(frozen=True, eq=False)
class PairResults:
    """The differences of pairs of runs, with p corrected over families of comparisons."""

    pairs: NDArray[np.int64]  # (pairs, 2) numbers of the runs, the smaller first; in order
    found: Differences  # (pairs,) first less second
    p: Floats  # (pairs,) corrected
    family: NDArray[np.int64]  # (pairs,) number of comparisons
    whole: NDArray[np.bool_]  # (pairs,) whether ranks rest on it. A run that lacks some tasks has a value, and no rank

    def __len__(self) -> int:
        return len(self.pairs)


_UNTESTED = PairResults(
    np.empty((0, 2), dtype=int), together([]), np.empty(0), np.empty(0, dtype=int), np.empty(0, dtype=bool)
)


@dataclass(frozen=True)
class Column:
    """A metric over a task, or over several. Runs are known by their numbers."""

    name: str  # of the task or group
    metric: Metric
    filter: str
    cells: Mapping[int, Cell]
    measured: Sequence[Measured] = field(default=(), repr=False, compare=False)  # of each task, what can be compared
    group: bool = False  # whether it is the mean over its tasks, each of which counts the same
    weighted: bool = False  # whether each task of the group counts by its number of documents instead
    benchmark: str = ""
    family: str = ""  # of tasks, which differ in their language alone: their columns are one family of the correction
    language: str = ""  # empty for a group
    headline: bool = False
    tested: PairResults = field(default=_UNTESTED, repr=False, compare=False)
    _known: dict[frozenset[int], list[Measured]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def present(self) -> dict[int, frozenset[int]]:
        """The places of the tasks that each run can be compared on; of a group those with a document that counts. A single
        task keeps the others, to say that no document counts."""
        of_tasks = [{run for run in of.rows if not self.group or of.counted(run).any()} for of in self.measured]
        return {run: frozenset(at for at, of in enumerate(of_tasks) if run in of) for run in {*chain(*of_tasks)}}

    def shared(self, pair: Pair) -> Sequence[Measured]:
        """The tasks that two runs can be compared on; none if these have several kinds of figures."""
        return self._tasks_of(self.present.get(pair[0], frozenset()) & self.present.get(pair[1], frozenset()))

    def _tasks_of(self, both: frozenset[int]) -> Sequence[Measured]:
        if both not in self._known:
            tasks = [self.measured[place] for place in sorted(both)]
            self._known[both] = tasks if len({task.form for task in tasks}) == 1 else []
        return self._known[both]

    def number_shared(self) -> NDArray[np.int64]:
        """(runs, runs) number of the tasks that each two of :attr:`present` can be compared on."""
        kinds = [*{*self.present.values()}]
        of_kinds = np.array([[len(self._tasks_of(one & other)) for other in kinds] for one in kinds], dtype=int)
        of_runs = [kinds.index(self.present[run]) for run in sorted(self.present)]
        return np.asarray(of_kinds.reshape(len(kinds), len(kinds))[np.ix_(of_runs, of_runs)])

    @cached_property
    def won(self) -> list[Pair]:
        """The pairs of a better and a worse run, of those that ranks rest on."""
        tested = self.tested
        signs = np.where(tested.whole, better(tested.found.difference, tested.p, self.metric.higher_is_better), 0)
        return [*map(tuple, np.concatenate([tested.pairs[signs > 0], tested.pairs[signs < 0][:, ::-1]]).tolist())]

    @cached_property
    def competing(self) -> list[int]:
        """The runs that can have a rank."""
        whole = {*np.unique(self.tested.pairs[self.tested.whole]).tolist()}
        able = [run for run, cell in self.cells.items() if cell.competes and not math.isnan(cell.value)]
        return [run for run in able if run in whole]

    @property
    def ranks(self) -> dict[int, int]:
        """The rank of each run that has one."""
        return {run: cell.rank for run, cell in self.cells.items() if cell.rank is not None}

    @property
    def order(self) -> list[int]:
        """The runs by rank, and of equal ones the best value first; those that do not compete last."""
        return sorted(self.cells, key=lambda run: _place_of(self.cells[run], self.metric.higher_is_better))

    @cached_property
    def _beaten(self) -> dict[int, list[int]]:
        beaten: dict[int, list[int]] = {}
        for winner, worse in self.won:
            beaten.setdefault(winner, []).append(worse)
        return beaten

    def beaten_by(self, run: int) -> list[int]:
        """The runs that this one is significantly better than."""
        return self._beaten.get(run, [])

    def equals(self, run: int) -> list[int]:
        """The competing runs that show no difference to this one, in order."""
        tested, apart = self.tested, {*chain(*(pair for pair in self.won if run in pair))}
        known = tested.pairs[tested.whole & ~np.isnan(tested.found.p) & (tested.pairs == run).any(axis=1)]
        able = {*known.flat} & {*self.competing} - apart - {run}
        return [other for other in self.order if other in able]


def _place_of(cell: Cell, higher_is_better: bool | None) -> tuple[bool, float, bool, float]:
    """What sorts the cells of a column: those that compete come first, by rank and value."""
    unknown = math.isnan(cell.value)
    value = 0.0 if unknown else -cell.value if higher_is_better else cell.value
    return unknown or not cell.competes, cell.rank or math.inf, unknown, value


def mean_figure(figures: Sequence[Figure], metric: Metric, measured: Sequence[tuple[Measured, int]]) -> Figure:
    """The mean of a run's figures over tasks. `measured` has each task, with the run's number in it. If tasks have clusters
    in common, as languages have passages, the standard error is over these."""
    together = [(task, run) for task, run in measured if len(figures) > 1 and task.kind.shares_clusters]
    rows = [task.kind.linear(task.rows[run]) for task, run in together]
    named = len(rows) == len(figures) and all(all(each.clusters) for each in rows)
    kind = measured[0][0].kind if measured else kind_of(metric) or defined_mean
    return kind.mean_over(figures, error_across(rows) if rows and named else math.nan)


def reported_figure(
    tasks: Sequence[TaskRun], metric: str, filter_name: str, results: Mapping[str, Any] | None = None
) -> Figure:
    """The figure of a run over tasks, each of which counts the same, as its results files have it; no answer is read.

    Where tasks share passages, the standard error is that of their group's `results` (``metric,filter`` to value), which is
    clustered by passage. Of a group of other tasks it is :func:`lm_eval_tasks.runs.other_tasks.mean_of_group`.
    """
    figures = [task.figure(metric, filter_name) for task in tasks]
    kinds = {kind_of(task.metric(metric), task.table) for task in tasks}
    kind = (kinds.pop() if len(kinds) == 1 else None) or defined_mean
    value, error = ((results or {}).get(f"{name},{filter_name}") for name in (metric, f"{metric}_stderr"))
    if tasks[0].table is None and isinstance(value, float):
        return mean_of_group(figures, kind, value)[0]
    mean = kind.mean_over(figures)
    if isinstance(error, float) and isinstance(value, float) and math.isclose(value, mean.value) and not mean.strata:
        return kind.mean_over(figures, error)
    return mean


def tested(columns: Sequence[Column]) -> list[Column]:
    """The columns with the differences of all pairs of their runs, and with ranks."""
    found = [_differences(column) for column in columns]
    families: dict[tuple[object, ...], list[int]] = {}
    for number, column in enumerate(columns):
        family = column.family or column.name, column.metric.name, column.filter, column.group
        families.setdefault(family, []).append(number)
    for numbers in families.values():  # pairs that ranks do not rest on are not in the column's family
        of_columns = [(found[number], found[number].whole) for number in numbers]
        parts = [(of, part) for of, whole in of_columns for part in (whole, ~whole) if part.any()]
        corrected = adjusted([(of.pairs[part], of.found.p[part]) for of, part in parts])
        for (of, part), by_pair in zip(parts, corrected, strict=True):
            of.p[part], of.family[part] = by_pair
    return [_ranked(replace(column, tested=of)) for column, of in zip(columns, found, strict=True)]


def _ranked(column: Column) -> Column:
    if column.metric.higher_is_better is None:
        return column
    by_run = ranks(column.competing, column.won)
    return replace(column, cells={run: cell._replace(rank=by_run.get(run)) for run, cell in column.cells.items()})


def _differences(column: Column) -> PairResults:
    """The differences of the pairs that share tasks, not yet corrected."""
    first, second = np.triu_indices(len(column.present), 1)
    tasks = column.number_shared()[first, second]
    pairs = np.array(sorted(column.present), dtype=int)[np.column_stack([first, second])[tasks > 0]]
    if not len(pairs):
        return _UNTESTED
    kind = column.measured[0].kind  # of a pair, tasks count that both runs have
    if column.weighted:
        documents = (
            ([of.rows for of in pooled(_by_name(column.shared(pair)), pair)], [pair]) for pair in pairs.tolist()
        )
        found = np.concatenate([kind.differences(*each) for each in documents]).view(np.recarray)
    else:
        found = kind.differences([task.rows for task in _by_name(column.measured)], pairs)
    return PairResults(
        pairs, found, np.empty(len(pairs)), np.empty(len(pairs), dtype=int), tasks[tasks > 0] == tasks.max()
    )


def _by_name(tasks: Sequence[Measured]) -> list[Measured]:
    """The tasks in the order of their names: what is drawn for each does not depend on the order in a results file."""
    return sorted(tasks, key=lambda each: each.task)


# -------------------------------------------------------------------------------------- what a made-up answer costs

_LEAST, _MOST = 0.1, 100.0
"""Costs between which another model can become the best: beyond them one of the two rates is all that counts."""


@dataclass(frozen=True)
class AtCost:
    """The best run at a cost of a made-up answer: its error rate, and the runs that show no difference to it."""

    cost: float
    best: int
    value: float
    equals: tuple[int, ...]


@dataclass(frozen=True)
class Costs:
    """The best runs of a task or group at several costs (:mod:`custom_metrics.scores.balanced_error`); and from which cost
    on which run has the lowest error rate, the first from a cost of 0.1 on, up to 100."""

    at: tuple[AtCost, ...]
    turns: tuple[tuple[float, int], ...]


def cost_of(column: Column) -> float:
    """The cost of a made-up answer in the column of a balanced error; 1 in any other."""
    kinds = [task.kind for task in column.measured if isinstance(task.kind, BalancedError)]
    made_up, missed = kinds[0].weights if kinds else (1.0, 1.0)
    return made_up / missed


def _two_rates(tasks: Sequence[Measured], run: int) -> tuple[float, float]:
    """How often a run makes up an answer, and how often it misses one, over tasks that each count the same; ``nan`` where
    they have no balanced error, or the run lacks one of them."""
    kinds = [(task.kind, task.rows[run]) for task in tasks if run in task.rows]
    rates = [kind.two_rates(rows) for kind, rows in kinds if isinstance(kind, BalancedError)]
    made_up, missed = np.mean(rates, axis=0).tolist() if rates and len(rates) == len(tasks) else (math.nan, math.nan)
    return made_up, missed


def turning_cost(column: Column, pair: Pair) -> tuple[float, int] | None:
    """The cost of a made-up answer at which two runs have the same balanced error, and the run that has the lower one above
    it. ``None`` where it is not between 0.1 and 100, or one run is ahead at any cost."""
    tasks = column.shared(pair)
    rates = {run: _two_rates(tasks, run) for run in pair}
    cautious, other = sorted(pair, key=lambda run: rates[run][0])
    cost = _crossing(rates[other], rates[cautious])
    return (cost, cautious) if _LEAST <= cost <= _MOST else None


def _crossing(one: tuple[float, float], cautious: tuple[float, float]) -> float:
    """The cost c of c * made_up + missed being the same for two runs, of which the second makes up less; else ``nan``."""
    less = one[0] - cautious[0]
    return (cautious[1] - one[1]) / less if less > 0 else math.nan


def best_by_cost(column: Column, asked: float) -> Costs | None:
    """The best of the runs that compete in the column of a balanced error, at the usual costs and the one `asked` for.
    ``None`` for fewer than two that have all tasks. Holm's family is that of the ranks: all pairs of runs that have all
    tasks, whether they compete or not."""
    of_runs = {run: _two_rates(column.measured, run) for run in sorted(column.cells)}
    shares = {run: rates for run, rates in of_runs.items() if not math.isnan(sum(rates))}
    able = {run: of_run for run, of_run in shares.items() if run in column.competing}
    if len(able) < 2:
        return None
    at = []
    for cost in sorted({*COSTS, asked}):
        values = {run: (cost * made_up + missed) / (cost + 1) for run, (made_up, missed) in shares.items()}
        best, at_cost = min(able, key=lambda run: values[run]), column
        if not math.isclose(cost, cost_of(column)) or len(shares) < len(column.present):
            weighed = [task.with_cost(cost) for task in column.measured]
            tasks = [replace(task, rows={run: task.rows[run] for run in shares}) for task in weighed]
            (at_cost,) = tested([replace(column, measured=tasks)])
        apart = {*chain(*(pair for pair in at_cost.won if best in pair)), best}
        equals = sorted((run for run in able if run not in apart), key=lambda run: values[run])
        at.append(AtCost(cost, best, values[best], tuple(equals)))
    return Costs(tuple(at), tuple(_turns(able)))


def _turns(shares: Mapping[int, tuple[float, float]]) -> Iterable[tuple[float, int]]:
    """The lower envelope of the runs' error rates over the cost: from which cost on which run is the lowest."""

    def lowest(cost: float) -> int:  # of equal ones, the one that makes up less
        return min(shares, key=lambda run: (round(cost * shares[run][0] + shares[run][1], 12), shares[run][0]))

    cost, turns = _LEAST, [(_LEAST, lowest(_LEAST))]
    while True:
        own = shares[turns[-1][1]]
        crossings = [(_crossing(own, theirs), theirs[0], run) for run, theirs in shares.items()]
        later = [crossing for crossing in crossings if cost < crossing[0] <= _MOST]
        if not later:
            return turns
        cost, _, run = min(later)
        turns.append((cost, run))
