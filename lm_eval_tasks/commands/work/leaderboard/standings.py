"""The tables of a leaderboard: runs that were asked the same, their figures, and their ranks."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np

from custom_metrics.intervals import Z95
from custom_metrics.paired_difference import Floats
from custom_metrics.significance_ranks import all_pairs, ranks
from lm_eval_tasks.commands.work.leaderboard.entry import Entry, Measured, TaskEntry
from lm_eval_tasks.commands.work.leaderboard.numbers import SHARE

__all__ = ["MEAN_COLUMN", "Cell", "Section", "Standing", "Table", "sections_of"]

MEAN_COLUMN = "mean"


@dataclass(frozen=True)
class Cell:
    """A figure of a run; ``nan`` for bounds that are not known, ``rank`` is ``None`` where it has none."""

    value: float
    low: float
    high: float
    rank: int | None = None
    n: int = 0
    doubtful: bool = False


@dataclass(frozen=True)
class Standing:
    """A row: a run by its number in the entries, and its cells by column. A run that has not done a task has no cell."""

    entry: int
    cells: Mapping[str, Cell]


@dataclass(frozen=True)
class Table:
    """A metric of tasks that runs share, or the metrics of one task.

    Attributes:
        title: the metric; empty where columns are metrics.
        columns: languages, tasks or metrics; with several languages their mean comes first.
        higher_is_better: of each column; ``None`` where neither is.
        rows: best first, by the first column.
    """

    title: str
    columns: tuple[str, ...]
    higher_is_better: tuple[bool | None, ...]
    rows: tuple[Standing, ...]


@dataclass(frozen=True)
class Section:
    """Runs of a family of tasks that were asked the same.

    Attributes:
        family: of the tasks, without their language.
        benchmark: its folder.
        number: from 1, where runs of the family were not asked the same; else 0.
        conditions: what they share, name to what it is: one value where it is the same for all tasks.
        doubts: why figures are not comparable with the published ones, with the tasks they concern.
        unranked: entry to why it has no rank.
        tables: one a metric.
    """

    family: str
    benchmark: str
    number: int
    conditions: Mapping[str, str]
    doubts: tuple[str, ...]
    unranked: Mapping[int, str]
    tables: tuple[Table, ...]


@dataclass
class _Part:
    """Runs that agree in all conditions of the tasks they share."""

    conditions: dict[tuple[str, str], str] = field(default_factory=dict)
    members: dict[int, dict[str, TaskEntry]] = field(default_factory=dict)
    tested: dict[str, Floats] = field(default_factory=dict)

    def p_of_pairs(self, strata: Sequence[Floats], share: bool) -> Floats:
        """p of all pairs. They are kept: two corrections of the same flagged shares have the same."""
        digest = hashlib.sha256(repr([share, *(values.shape for values in strata)]).encode())
        for values in strata:
            digest.update(np.ascontiguousarray(values).tobytes())
        key = digest.hexdigest()
        if key not in self.tested:
            self.tested[key] = all_pairs(strata, share)
        return self.tested[key]

    def takes(self, tasks: Mapping[str, TaskEntry]) -> bool:
        return all(
            self.conditions.get((name, condition), said) == said
            for name, task in tasks.items()
            for condition, said in task.conditions.items()
        )

    def add(self, number: int, tasks: dict[str, TaskEntry]) -> None:
        self.members[number] = tasks
        for name, task in tasks.items():
            self.conditions |= {(name, condition): said for condition, said in task.conditions.items()}


def sections_of(entries: Sequence[Entry]) -> list[Section]:
    """The tables of all families of tasks, in the order of their names. A run is in one section of a family."""
    families: dict[str, dict[int, dict[str, TaskEntry]]] = {}
    for number, entry in enumerate(entries):
        for task in entry.tasks:
            families.setdefault(task.family, {}).setdefault(number, {})[task.task] = task
    return [section for family, runs in sorted(families.items()) for section in _sections(family, runs)]


def _sections(family: str, runs: Mapping[int, dict[str, TaskEntry]]) -> Iterator[Section]:
    parts: list[_Part] = []
    for number, tasks in runs.items():
        part = next((part for part in parts if part.takes(tasks)), None)
        if part is None:
            parts.append(part := _Part())
        part.add(number, tasks)
    parts.sort(key=lambda part: -len(part.members))
    for place, part in enumerate(parts, 1):
        tasks = {name: task for members in part.members.values() for name, task in members.items()}
        unranked = {
            number: reason
            for number, members in part.members.items()
            if (reason := next((task.unranked for task in members.values() if task.unranked), ""))
        }
        yield Section(
            family=family,
            benchmark=next(iter(tasks.values())).benchmark,
            number=place if len(parts) > 1 else 0,
            conditions=_said(part),
            doubts=_doubts(part),
            unranked=unranked,
            tables=tuple(_tables(part, sorted(tasks.values(), key=lambda task: task.task))),
        )


def _said(part: _Part) -> dict[str, str]:
    found: dict[str, dict[str, None]] = {}
    for (_, condition), said in part.conditions.items():
        found.setdefault(condition, {})[said] = None
    return {
        condition: ", ".join(said) if len(said) < 4 else f"{len(said)} of them, one a language"
        for condition, said in found.items()
    }


def _doubts(part: _Part) -> tuple[str, ...]:
    concerned: dict[str, set[str]] = {}
    for members in part.members.values():
        for name, task in members.items():
            for doubt in task.doubts:
                concerned.setdefault(doubt, set()).add(name)
    number = len({name for members in part.members.values() for name in members})
    return tuple(
        doubt if len(tasks) == number or len(tasks) > 3 else f"{', '.join(sorted(tasks))}: {doubt}"
        for doubt, tasks in concerned.items()
    )


def _tables(part: _Part, tasks: Sequence[TaskEntry]) -> Iterator[Table]:
    metrics = list(dict.fromkeys((one.metric, one.filter) for task in tasks for one in task.measured))
    if len(tasks) == 1:
        columns = {_column(metric, name): [(tasks[0].task, metric, name)] for metric, name in metrics}
        yield _table("", part, columns)
        return
    for metric, name in metrics:
        names = [
            task.task for task in tasks if any((one.metric, one.filter) == (metric, name) for one in task.measured)
        ]
        languages = {task.task: task.language for task in tasks}
        columns = {MEAN_COLUMN: [(task, metric, name) for task in names]}
        columns |= {languages[task] or task: [(task, metric, name)] for task in names}
        yield _table(_column(metric, name), part, columns)


def _column(metric: str, name: str) -> str:
    return metric if name in ("answer", "tags") else f"{metric}, {name}"


def _table(title: str, part: _Part, columns: Mapping[str, Sequence[tuple[str, str, str]]]) -> Table:
    cells: dict[int, dict[str, Cell]] = {number: {} for number in part.members}
    better = []
    for column, wanted in columns.items():
        measured = {
            number: found
            for number, tasks in part.members.items()
            if len(found := [one for task, *which in wanted if (one := _measured(tasks.get(task), which))])
            == len(wanted)
        }
        direction = next((found[0].higher_is_better for found in measured.values()), None)
        better.append(direction)
        of_models = _ranks(measured, part, wanted, direction)
        for number, found in measured.items():
            doubtful = any(part.members[number][task].doubts for task, *_ in wanted)
            cells[number][column] = _cell(found, of_models.get(number), doubtful)
    first = next(iter(columns))
    rows = [Standing(number, found) for number, found in cells.items() if found]
    rows.sort(key=lambda row: _order(row.cells.get(first), better[0]))
    return Table(title, tuple(columns), tuple(better), tuple(rows))


def _measured(task: TaskEntry | None, which: Sequence[str]) -> Measured | None:
    return next((one for one in task.measured if [one.metric, one.filter] == which), None) if task else None


def _order(cell: Cell | None, higher_is_better: bool | None) -> tuple[float, float]:
    if cell is None:
        return math.inf, math.inf
    return cell.rank or math.inf, -cell.value if higher_is_better else cell.value


def _cell(found: Sequence[Measured], rank: int | None, doubtful: bool) -> Cell:
    if len(found) == 1:
        (one,) = found
        low, high = (math.nan if bound is None else bound for bound in (one.low, one.high))
        return Cell(one.value, low, high, rank, one.n, doubtful)
    value = fmean(one.value for one in found)
    errors = [one.standard_error for one in found]
    error = math.nan
    if all(part is not None for part in errors):
        error = math.sqrt(sum(part**2 for part in errors if part is not None)) / len(found)
    return Cell(value, value - Z95 * error, value + Z95 * error, rank, sum(one.n for one in found), doubtful)


def _ranks(
    measured: Mapping[int, Sequence[Measured]],
    part: _Part,
    wanted: Sequence[tuple[str, str, str]],
    higher_is_better: bool | None,
) -> dict[int, int]:
    """Of the runs whose answers are known, where there are two of them."""
    testable = [
        number
        for number, found in measured.items()
        if all(one.kind for one in found) and not any(part.members[number][task].unranked for task, *_ in wanted)
    ]
    if higher_is_better is None or len(testable) < 2:
        return {}
    share = measured[testable[0]][0].kind == SHARE
    strata = [np.array([measured[number][place].numbers for number in testable]).T for place in range(len(wanted))]
    values = [fmean(one.value for one in measured[number]) for number in testable]
    found = ranks(values, part.p_of_pairs(strata, share), higher_is_better)
    return {number: rank for number, rank in zip(testable, found, strict=True) if rank is not None}
