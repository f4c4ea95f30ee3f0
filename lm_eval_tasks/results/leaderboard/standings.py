"""The tables of a leaderboard: runs that were asked the same, their figures, and their ranks."""

from __future__ import annotations

import hashlib
import math
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from custom_metrics.statistics.figures import Figure, Rows
from custom_metrics.statistics.multiple_comparisons import all_pairs, ranks
from custom_metrics.statistics.paired_difference import Floats
from custom_metrics.statistics.strata import across_strata, error_across, has_shared, mean_of
from custom_metrics.statistics.units import Unit, is_measurable
from lm_eval_tasks.results.leaderboard.entry import Entry, HeadlineFigure, TaskEntry

MEAN_COLUMN = "mean"


@dataclass(frozen=True)
class Cell:
    """A figure of a run."""

    figure: Figure
    unit: Unit
    rank: int | None = None
    competes: bool = (
        True  # it can have a rank: its value is measurable, and the run does not answer every question alike
    )
    marked: bool = False  # something is wrong with the run's answers to these tasks: a first rank is no distinction


class Column(NamedTuple):
    """A column of a table: its name is a language, a task, or :data:`MEAN_COLUMN` for their mean, and empty in a table
    of one task. The metric is empty where it is the table's title."""

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
    """Metrics of tasks that runs share: one metric, two that are bought with each other, or all of a single task, which
    has no title. With several languages or tasks the column of their mean comes first. The best row by it is the
    first."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Standing, ...]


@dataclass(frozen=True)
class Section:
    """Runs of a family of tasks that were asked the same."""

    family: str
    number: int  # from 1, where runs of the family were not asked the same; else 0
    conditions: Mapping[str, str]  # what they share, name to what it is: one value where it is the same for all tasks
    doubts: tuple[str, ...]  # why figures are not comparable with the published ones, with the tasks they concern
    unranked: Mapping[int, str]  # entry to why it has no rank
    tables: tuple[Table, ...]


MetricOfFilter = tuple[str, str]
"""The names of a metric and of the filter that it is read by."""


@dataclass
class _Part:
    """Runs that agree in all conditions of the tasks they share: number of the entry to its tasks."""

    members: dict[int, dict[str, TaskEntry]] = field(default_factory=dict)
    conditions: dict[tuple[str, str], str] = field(default_factory=dict)  # of task and name
    tested: dict[str, Floats] = field(default_factory=dict)

    def takes(self, number: int, tasks: dict[str, TaskEntry]) -> bool:
        """Whether a run was asked the same; then it is one of these."""
        conditions = {(name, what): said for name, task in tasks.items() for what, said in task.conditions.items()}
        if any(self.conditions.get(which, said) != said for which, said in conditions.items()):
            return False
        self.members[number] = tasks
        self.conditions |= conditions
        return True

    def p_of_pairs(self, strata: Sequence[Floats], by_document: bool) -> Floats:
        """p of all pairs. They are kept: two corrections of the same flagged shares have the same."""
        key = hashlib.sha256(pickle.dumps([by_document, *strata])).hexdigest()
        if key not in self.tested:
            self.tested[key] = all_pairs(strata, shares=by_document)
        return self.tested[key]


def sections_of(entries: Sequence[Entry]) -> list[Section]:
    """The tables of all families of tasks, in the order of their names. A run is in one section of a family."""
    families: dict[str, dict[int, dict[str, TaskEntry]]] = {}
    for number, entry in enumerate(entries):
        for task in entry.tasks:
            families.setdefault(task.family, {}).setdefault(number, {})[task.task] = task
    sections = []
    for family, runs in sorted(families.items()):
        parts: list[_Part] = []
        for number, tasks in runs.items():
            if not any(part.takes(number, tasks) for part in parts):
                parts.append(_Part())
                parts[-1].takes(number, tasks)
        parts.sort(key=lambda part: -len(part.members))
        sections += [_section(family, place if len(parts) > 1 else 0, part) for place, part in enumerate(parts, 1)]
    return sections


def _section(family: str, number: int, part: _Part) -> Section:
    tasks = {name: task for members in part.members.values() for name, task in sorted(members.items())}
    values: dict[str, dict[str, None]] = {}
    for (_, condition), said in part.conditions.items():
        values.setdefault(condition, {})[said] = None
    concerned: dict[str, set[str]] = {}
    for members in part.members.values():
        for name, task in members.items():
            for doubt in task.doubts:
                concerned.setdefault(doubt, set()).add(name)
    return Section(
        family=family,
        number=number,
        conditions={
            condition: ", ".join(said) if len(said) < 4 else f"{len(said)} of them, one a language"
            for condition, said in values.items()
        },
        doubts=tuple(
            doubt if len(of) == len(tasks) or len(of) > 3 else f"{', '.join(sorted(of))}: {doubt}"
            for doubt, of in concerned.items()
        ),
        unranked={
            entry: reason
            for entry, members in part.members.items()
            for reason in [task.unranked for task in members.values() if task.unranked][:1]
        },
        tables=tuple(_tables(part, sorted(tasks.values(), key=lambda task: task.task))),
    )


def _tables(part: _Part, tasks: Sequence[TaskEntry]) -> Iterator[Table]:
    """A table for each metric with the one that it is traded against: neither says anything without the other."""
    traded = {(each.metric.name, each.filter): each.metric.traded_against for task in tasks for each in task.headlines}
    if len(tasks) == 1:
        yield _table("", part, [("", _named(which), which, [tasks[0].task]) for which in traded])
        return
    left = dict.fromkeys(traded)
    for (metric, name), other in traded.items():
        if (metric, name) not in left:
            continue
        together = [which for which in ((metric, name), (other, name)) if which in left]
        for which in together:
            del left[which]
        having = {which: [task for task in tasks if _headline(task, which)] for which in together}
        alone = len(together) == 1
        columns = [
            (MEAN_COLUMN, "" if alone else which[0], which, [task.task for task in having[which]]) for which in together
        ]
        for task in tasks:
            columns += [
                (task.language or task.task, "" if alone else which[0], which, [task.task])
                for which in together
                if task in having[which]
            ]
        yield _table(_named((" and ".join(metric for metric, _ in together), name)), part, columns)


def _named(which: MetricOfFilter) -> str:
    return which[0] if which[1] in ("answer", "tags") else ", ".join(which)


def _headline(task: TaskEntry | None, which: MetricOfFilter) -> HeadlineFigure | None:
    return next((each for each in task.headlines if (each.metric.name, each.filter) == which), None) if task else None


def _table(title: str, part: _Part, columns: Sequence[tuple[str, str, MetricOfFilter, Sequence[str]]]) -> Table:
    """A table of columns, each with its name, the metric's, what it is of, and the tasks whose mean it is."""
    cells: dict[int, dict[Column, Cell]] = {number: {} for number in part.members}
    made = []
    for name, metric, which, tasks in columns:
        figures = {
            number: found
            for number, of_run in part.members.items()
            if len(found := [each for task in tasks if (each := _headline(of_run.get(task), which))]) == len(tasks)
        }
        direction = next((found[0].metric.higher_is_better for found in figures.values()), None)
        made.append(column := Column(name, metric, direction))
        of_column = {
            number: _cell(found, [part.members[number][task] for task in tasks]) for number, found in figures.items()
        }
        testable = {
            number: found
            for number, found in figures.items()
            if of_column[number].competes
            and all(len(each.numbers) for each in found)
            and not any(part.members[number][task].unranked for task in tasks)
        }
        of_models = _ranks(testable, of_column, part) if len(testable) > 1 else {}
        for number, cell in of_column.items():
            cells[number][column] = replace(cell, rank=of_models.get(number))
    asked = dict.fromkeys(task for *_, tasks in columns for task in tasks)
    rows = [
        Standing(number, found, _marks([part.members[number][task] for task in asked if task in part.members[number]]))
        for number, found in cells.items()
        if found
    ]
    rows.sort(key=lambda row: _order(row.cells.get(made[0]), made[0].higher_is_better))
    return Table(title, tuple(made), tuple(rows))


def _order(cell: Cell | None, higher_is_better: bool | None) -> tuple[float, ...]:
    if cell is None:
        return 2, math.inf, math.inf
    return not cell.competes, cell.rank or math.inf, -cell.figure.value if higher_is_better else cell.figure.value


def _cell(headlines: Sequence[HeadlineFigure], tasks: Sequence[TaskEntry]) -> Cell:
    rows = [Rows(each.numbers, each.passages) for each in headlines] if _share_passages(headlines) else []
    metric = headlines[0].metric
    figure = mean_of([each.figure for each in headlines], metric.is_share, error_across(rows))
    competes = is_measurable(figure, metric.unit) and not all(task.alike for task in tasks)
    return Cell(figure, metric.unit, competes=competes, marked=any(task.alike or task.unread for task in tasks))


def _share_passages(headlines: Sequence[HeadlineFigure]) -> bool:
    """Whether the numbers of some tasks are by passage, and two of them have one in common."""
    return all(each.passages for each in headlines) and has_shared([each.passages for each in headlines])


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
    headlines: Mapping[int, Sequence[HeadlineFigure]], cells: Mapping[int, Cell], part: _Part
) -> dict[int, int | None]:
    """The ranks of two runs or more, by the figures of the tasks that a column is of."""
    first = next(iter(headlines.values()))  # whose passages are those of all
    strata = [np.array([each.numbers for each in of_task]).T for of_task in zip(*headlines.values(), strict=True)]
    if _share_passages(first):
        strata = across_strata(strata, [each.passages for each in first])
    higher_is_better = first[0].metric.higher_is_better is True
    p = part.p_of_pairs(strata, first[0].by_document)
    return dict(
        zip(headlines, ranks([cells[number].figure.value for number in headlines], p, higher_is_better), strict=True)
    )
