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
from lm_eval_tasks.results.leaderboard.entry import Entry, HeadlineFigure, TaskEntry

MEAN_COLUMN = "mean"


@dataclass(frozen=True)
class Cell:
    """A figure of a run."""

    figure: Figure
    unit: Unit
    rank: int | None = None
    competes: bool = (
        True  # whether it can have a rank: it is measurable, and the run does not answer all questions alike
    )
    marked: bool = False  # whether there are doubts about the run's answers: a first rank is no distinction


class Column(NamedTuple):
    """A column of a table. Its name is a language, a task, or :data:`MEAN_COLUMN` for their mean; empty in a table of one
    task. The metric is empty if it is the table's title."""

    name: str
    metric: str
    higher_is_better: bool | None


@dataclass(frozen=True)
class Standing:
    """A row: the number of a run in the entries, its cells by column (none for a task that it has not done), and the doubts
    about its answers to the table's tasks."""

    entry: int
    cells: Mapping[Column, Cell]
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table of one metric, of two that are traded against each other, or of all metrics of a single task, without a
    title. If there are several languages or tasks, the first column is their mean. Rows are sorted by the first column,
    the best first."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Standing, ...]


@dataclass(frozen=True)
class Section:
    """The tables of runs of a family of tasks under the same conditions."""

    family: str
    number: int  # from 1 if runs of the family had different conditions; else 0
    conditions: Mapping[str, str]  # name to value of the shared conditions, or the number of values if tasks differ
    doubts: tuple[str, ...]  # why figures are not comparable with published ones, with the tasks concerned
    unranked: Mapping[int, str]  # entry to why it has no rank
    tables: tuple[Table, ...]


MetricOfFilter = tuple[str, str]
"""The names of a metric and of its filter: :attr:`HeadlineFigure.key`."""


@dataclass
class _RunGroup:
    """Runs whose shared tasks have the same conditions."""

    members: dict[int, dict[str, TaskEntry]] = field(default_factory=dict)  # number of the entry to its tasks
    conditions: dict[tuple[str, str], str] = field(default_factory=dict)  # by task and name
    tested: dict[str, Floats] = field(default_factory=dict)

    def add(self, number: int, tasks: dict[str, TaskEntry]) -> bool:
        """Add a run if its conditions are the same; return whether they are."""
        conditions = {(task, name): value for task in tasks for name, value in tasks[task].conditions.items()}
        if any(self.conditions.get(key, value) != value for key, value in conditions.items()):
            return False
        self.members[number] = tasks
        self.conditions |= conditions
        return True

    def p_of_pairs(self, strata: Sequence[Floats], by_document: bool) -> Floats:
        """p of all pairs, cached, as two corrections of the same flagged shares have the same."""
        described = repr([by_document, *((array.shape, array.dtype.str) for array in strata)]).encode()
        key = hashlib.sha256(b"".join((described, *(array.tobytes() for array in strata)))).hexdigest()
        if key not in self.tested:
            self.tested[key] = all_pairs(strata, shares=by_document)
        return self.tested[key]


def sections_of(entries: Sequence[Entry]) -> list[Section]:
    """The sections of all families of tasks, sorted by name. A run is in one section of a family."""
    families: dict[str, dict[int, dict[str, TaskEntry]]] = {}
    for number, entry in enumerate(entries):
        for task in entry.tasks:
            families.setdefault(task.family, {}).setdefault(number, {})[task.task] = task
    sections = []
    for family, runs in sorted(families.items()):
        groups: list[_RunGroup] = []
        for number, tasks in runs.items():
            if not any(group.add(number, tasks) for group in groups):
                groups.append(_RunGroup())
                groups[-1].add(number, tasks)
        groups.sort(key=lambda group: -len(group.members))
        sections += [_section(family, place if len(groups) > 1 else 0, group) for place, group in enumerate(groups, 1)]
    return sections


def _section(family: str, number: int, group: _RunGroup) -> Section:
    tasks = {name: task for members in group.members.values() for name, task in sorted(members.items())}
    values: dict[str, dict[str, None]] = {}
    for (_, condition), labels in group.conditions.items():
        values.setdefault(condition, {})[labels] = None
    concerned: dict[str, set[str]] = {}
    for members in group.members.values():
        for name, task in members.items():
            for doubt in task.doubts:
                concerned.setdefault(doubt, set()).add(name)
    return Section(
        family=family,
        number=number,
        conditions={
            condition: ", ".join(labels) if len(labels) < 4 else f"{len(labels)} of them, one a language"
            for condition, labels in values.items()
        },
        doubts=tuple(
            doubt if len(names) == len(tasks) or len(names) > 3 else f"{', '.join(sorted(names))}: {doubt}"
            for doubt, names in concerned.items()
        ),
        unranked={
            entry: reason
            for entry, members in group.members.items()
            for reason in [task.unranked for task in members.values() if task.unranked][:1]
        },
        tables=tuple(_tables(group, sorted(tasks.values(), key=lambda task: task.task))),
    )


def _tables(group: _RunGroup, tasks: Sequence[TaskEntry]) -> Iterator[Table]:
    """A table for each metric, together with the one that it is traded against, as neither is meaningful alone."""
    traded = {headline.key: headline.metric.traded_against for task in tasks for headline in task.headlines}
    if len(tasks) == 1:
        yield _table("", group, [("", _key_title(key), key, [tasks[0].task]) for key in traded])
        return
    remaining = dict.fromkeys(traded)
    for (metric, name), traded_with in traded.items():
        if (metric, name) not in remaining:
            continue
        together = [key for key in ((metric, name), (traded_with, name)) if key in remaining]
        for key in together:
            del remaining[key]
        by_key = {key: [task for task in tasks if _headline(task, key)] for key in together}
        alone = len(together) == 1
        columns = [(MEAN_COLUMN, "" if alone else key[0], key, [task.task for task in by_key[key]]) for key in together]
        for task in tasks:
            columns += [
                (task.language or task.task, "" if alone else key[0], key, [task.task])
                for key in together
                if task in by_key[key]
            ]
        yield _table(_key_title((" and ".join(metric for metric, _ in together), name)), group, columns)


def _key_title(key: MetricOfFilter) -> str:
    return key[0] if key[1] in ("answer", "tags") else ", ".join(key)


def _headline(task: TaskEntry | None, key: MetricOfFilter) -> HeadlineFigure | None:
    return next((headline for headline in task.headlines if headline.key == key), None) if task else None


def _table(title: str, group: _RunGroup, columns: Sequence[tuple[str, str, MetricOfFilter, Sequence[str]]]) -> Table:
    """A table of columns, each given by its name, the name of the metric, its key, and the tasks whose mean it is."""
    runs = group.members
    cells: dict[int, dict[Column, Cell]] = {number: {} for number in runs}
    header = []
    for name, metric, key, tasks in columns:
        figures = {
            number: headlines
            for number, run_tasks in runs.items()
            if len(headlines := [each for task in tasks if (each := _headline(run_tasks.get(task), key))]) == len(tasks)
        }
        direction = next((headlines[0].metric.higher_is_better for headlines in figures.values()), None)
        header.append(column := Column(name, metric, direction))
        column_cells = {
            number: _cell(headlines, [runs[number][task] for task in tasks]) for number, headlines in figures.items()
        }
        testable = {
            number: headlines
            for number, headlines in figures.items()
            if column_cells[number].competes
            and all(len(headline.numbers) for headline in headlines)
            and not any(runs[number][task].unranked for task in tasks)
        }
        run_ranks = _ranks(testable, column_cells, group) if len(testable) > 1 else {}
        for number, cell in column_cells.items():
            cells[number][column] = replace(cell, rank=run_ranks.get(number))
    table_tasks = dict.fromkeys(task for *_, tasks in columns for task in tasks)
    rows = [
        Standing(number, by_column, _marks([runs[number][task] for task in table_tasks if task in runs[number]]))
        for number, by_column in cells.items()
        if by_column
    ]
    rows.sort(key=lambda row: _order(row.cells.get(header[0]), header[0].higher_is_better))
    return Table(title, tuple(header), tuple(rows))


def _order(cell: Cell | None, higher_is_better: bool | None) -> tuple[float, ...]:
    if cell is None:
        return 2, math.inf, math.inf
    return not cell.competes, cell.rank or math.inf, -cell.figure.value if higher_is_better else cell.figure.value


def _cell(headlines: Sequence[HeadlineFigure], tasks: Sequence[TaskEntry]) -> Cell:
    rows = [Rows(headline.numbers, headline.passages) for headline in headlines] if _share_passages(headlines) else []
    metric = headlines[0].metric
    figure = mean_of([headline.figure for headline in headlines], metric.is_share, error_across(rows))
    competes = is_measurable(figure, metric.unit) and not all(task.alike for task in tasks)
    return Cell(figure, metric.unit, competes=competes, marked=any(task.alike or task.unread for task in tasks))


def _share_passages(headlines: Sequence[HeadlineFigure]) -> bool:
    """Whether the numbers of all tasks are by passage, and two tasks share a passage."""
    passages = [headline.passages for headline in headlines]
    return all(passages) and has_shared(passages)


def _marks(tasks: Sequence[TaskEntry]) -> tuple[str, ...]:
    """The doubts about a run's answers, with the languages concerned if not all are."""
    where: dict[str, list[str]] = {}
    for task in tasks:
        for mark in (*task.alike, *task.unread):
            where.setdefault(mark, []).append(task.language or task.task)
    return tuple(
        mark
        if len(names) == len(tasks)
        else f"{mark} ({', '.join(names) if len(names) < 4 else f'{len(names)} of {len(tasks)}'})"
        for mark, names in where.items()
    )


def _ranks(
    headlines: Mapping[int, Sequence[HeadlineFigure]], cells: Mapping[int, Cell], group: _RunGroup
) -> dict[int, int | None]:
    """The ranks of at least two runs in a column, by their figures of its tasks."""
    first = next(iter(headlines.values()))  # all runs have the same passages
    strata = [np.array([figure.numbers for figure in figures]).T for figures in zip(*headlines.values(), strict=True)]
    if _share_passages(first):
        strata = across_strata(strata, [figure.passages for figure in first])
    higher_is_better = first[0].metric.higher_is_better is True
    p = group.p_of_pairs(strata, first[0].by_document)
    return dict(
        zip(headlines, ranks([cells[number].figure.value for number in headlines], p, higher_is_better), strict=True)
    )
