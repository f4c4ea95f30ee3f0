"""The tables of a leaderboard: runs that were asked the same, their figures, and their ranks."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from custom_metrics.statistics.figures import Figure, Rows
from custom_metrics.statistics.multiple_comparisons import all_pairs, ranks
from custom_metrics.statistics.paired_difference import Floats
from custom_metrics.statistics.strata import across_strata, error_across, has_shared, mean_of
from custom_metrics.statistics.units import Unit, is_measurable
from lm_eval_tasks.results.leaderboard.entry import Entry, Measured, TaskEntry
from lm_eval_tasks.results.leaderboard.numbers import SHARE

__all__ = ["MEAN_COLUMN", "Cell", "Column", "Section", "Standing", "Table", "sections_of"]

MEAN_COLUMN = "mean"


@dataclass(frozen=True)
class Cell:
    """A figure of a run.

    Attributes:
        figure: ``nan`` for bounds that are not known.
        unit: of its values.
        rank: ``None`` where it has none.
        competes: whether it could have one: its value is measurable, and the run does not answer every question alike.
        marked: whether something is wrong with the run's answers to these tasks: a first rank is then no distinction.
    """

    figure: Figure
    unit: Unit
    rank: int | None = None
    competes: bool = True
    marked: bool = False


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        name: a language, a task, :data:`MEAN_COLUMN` for their mean; empty in a table of one task.
        metric: its name; empty where it is the table's title.
        higher_is_better: ``None`` where neither is.
    """

    name: str
    metric: str
    higher_is_better: bool | None


@dataclass(frozen=True)
class Standing:
    """A row: a run by its number in the entries, its cells by column, and what is wrong with its answers to the table's
    tasks. A run that has not done a task has no cell."""

    entry: int
    cells: Mapping[Column, Cell]
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """Metrics of tasks that runs share: one metric, two that are bought with each other, or all of a single task.

    Attributes:
        title: the metric, or both; empty where the table is of one task.
        columns: with several languages or tasks their mean comes first; two metrics stand side by side in each.
        rows: best first, by the first column.
    """

    title: str
    columns: tuple[Column, ...]
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


Wanted = Sequence[tuple[str, str, str]]
"""Task, metric and filter of what a column is of."""


def _tables(part: _Part, tasks: Sequence[TaskEntry]) -> Iterator[Table]:
    traded = {(one.metric, one.filter): one.traded_against for task in tasks for one in task.measured}
    metrics = list(traded)
    if len(tasks) == 1:
        yield _table(
            "", part, [("", _named(metric, name), [(tasks[0].task, metric, name)]) for metric, name in metrics]
        )
        return
    for together in _together(traded):
        alone = len(together) == 1
        columns: list[tuple[str, str, Wanted]] = []
        for place in (MEAN_COLUMN, *(task.task for task in tasks)):
            for metric, name in together:
                having = [t for t in tasks if any((one.metric, one.filter) == (metric, name) for one in t.measured)]
                wanted = [(task.task, metric, name) for task in having if place in (MEAN_COLUMN, task.task)]
                called = next((task.language or task.task for task in having if task.task == place), place)
                if wanted:
                    columns.append((called, "" if alone else metric, wanted))
        yield _table(_named(" and ".join(metric for metric, _ in together), together[0][1]), part, columns)


def _together(traded: Mapping[tuple[str, str], str]) -> Iterator[tuple[tuple[str, str], ...]]:
    """Metrics and filters, each with the one that it is traded against: neither says anything without the other."""
    left = dict.fromkeys(traded)
    for (metric, name), other in traded.items():
        if (metric, name) in left:
            found = tuple(one for one in ((metric, name), (other, name)) if one in left)
            for one in found:
                left.pop(one)
            yield found


def _named(metric: str, name: str) -> str:
    return metric if name in ("answer", "tags") else f"{metric}, {name}"


def _table(title: str, part: _Part, columns: Sequence[tuple[str, str, Wanted]]) -> Table:
    cells: dict[int, dict[Column, Cell]] = {number: {} for number in part.members}
    made = []
    for name, metric, wanted in columns:
        measured = {
            number: found
            for number, tasks in part.members.items()
            if len(found := [one for task, *which in wanted if (one := _measured(tasks.get(task), which))])
            == len(wanted)
        }
        direction = next((found[0].higher_is_better for found in measured.values()), None)
        made.append(column := Column(name, metric, direction))
        of_column = {number: _cell(found, part.members[number], wanted) for number, found in measured.items()}
        of_models = _ranks(measured, of_column, part, wanted, direction)
        for number, cell in of_column.items():
            cells[number][column] = replace(cell, rank=of_models.get(number))
    tasks = dict.fromkeys(task for *_, wanted in columns for task, *_ in wanted)
    rows = [
        Standing(number, found, _marks([part.members[number][task] for task in tasks if task in part.members[number]]))
        for number, found in cells.items()
        if found
    ]
    rows.sort(key=lambda row: _order(row.cells.get(made[0]), made[0].higher_is_better))
    return Table(title, tuple(made), tuple(rows))


def _measured(task: TaskEntry | None, which: Sequence[str]) -> Measured | None:
    return next((one for one in task.measured if [one.metric, one.filter] == which), None) if task else None


def _order(cell: Cell | None, higher_is_better: bool | None) -> tuple[float, ...]:
    if cell is None:
        return 2, math.inf, math.inf
    return not cell.competes, cell.rank or math.inf, -cell.figure.value if higher_is_better else cell.figure.value


def _cell(found: Sequence[Measured], tasks: Mapping[str, TaskEntry], wanted: Wanted) -> Cell:
    unit = found[0].unit
    asked = [tasks[task] for task, *_ in wanted]
    passages = _shared_passages(found, asked)
    rows = [Rows(one.numbers, names) for one, names in zip(found, passages, strict=True)] if passages else []
    figure = mean_of([one.figure for one in found], found[0].is_share, error_across(rows))
    competes = is_measurable(figure, unit) and not all(task.alike for task in asked)
    return Cell(figure, unit, competes=competes, marked=any(task.alike or task.unread for task in asked))


def _shared_passages(found: Sequence[Measured], tasks: Sequence[TaskEntry]) -> list[tuple[str, ...]]:
    """Of each task the passages of its figure's numbers; nothing where one has none, or no two tasks have one in common."""
    passages = [task.passages for task in tasks]
    known = all(len(one.numbers) == len(names) > 0 for one, names in zip(found, passages, strict=True))
    return passages if known and has_shared(passages) else []


def _marks(tasks: Sequence[TaskEntry]) -> tuple[str, ...]:
    """What is wrong with a run's answers, and in which of several languages."""
    where: dict[str, list[str]] = {}
    for task in tasks:
        for said in (*task.alike, *task.unread):
            where.setdefault(said, []).append(task.language or task.task)
    return tuple(
        said if len(of) == len(tasks) else f"{said} ({', '.join(of) if len(of) < 4 else f'{len(of)} of {len(tasks)}'})"
        for said, of in where.items()
    )


def _ranks(
    measured: Mapping[int, Sequence[Measured]],
    cells: Mapping[int, Cell],
    part: _Part,
    wanted: Wanted,
    higher_is_better: bool | None,
) -> dict[int, int]:
    """Of the runs that compete and whose answers are known, where there are two of them."""
    testable = [
        number
        for number, found in measured.items()
        if cells[number].competes
        and all(one.kind for one in found)
        and not any(part.members[number][task].unranked for task, *_ in wanted)
    ]
    if higher_is_better is None or len(testable) < 2:
        return {}
    share = measured[testable[0]][0].kind == SHARE
    strata = [np.array([measured[number][place].numbers for number in testable]).T for place in range(len(wanted))]
    first = testable[0]  # whose passages are those of all
    passages = _shared_passages(measured[first], [part.members[first][task] for task, *_ in wanted])
    if passages:
        strata, share = across_strata(strata, passages), False
    values = [cells[number].figure.value for number in testable]
    found = ranks(values, part.p_of_pairs(strata, share), higher_is_better)
    return {number: rank for number, rank in zip(testable, found, strict=True) if rank is not None}
