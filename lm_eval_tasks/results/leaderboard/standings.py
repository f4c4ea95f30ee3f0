"""The tables of a leaderboard: runs that were asked the same, their figures, and their ranks.

A family of tasks has a summary, and tables by language behind it. An overview holds the main columns of all summaries: one
for language models, and one for detectors, which the detection tasks measure.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from statistics import fmean
from typing import NamedTuple

import numpy as np

from custom_metrics.statistics.figures import Figure, Rows
from custom_metrics.statistics.multiple_comparisons import adjusted, all_pairs, better, ranks
from custom_metrics.statistics.paired_difference import Floats
from custom_metrics.statistics.strata import across_strata, error_across, has_shared, mean_of
from custom_metrics.statistics.units import Unit, is_measurable
from lm_eval_tasks.detection.marked import marked_rate
from lm_eval_tasks.published import rows_for
from lm_eval_tasks.results.leaderboard.entry import Entry, HeadlineFigure, TaskEntry

MEAN_COLUMN = "mean"

SPEED = "documents a second"


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
    """A column of a table. Its name is a language, a task, a benchmark, or :data:`MEAN_COLUMN` for the mean of languages;
    empty in a table of one task. The metric is empty if it is the table's title."""

    name: str
    metric: str
    higher_is_better: bool | None
    title: str = ""  # of the metric, in plain words


@dataclass(frozen=True)
class Standing:
    """A row: the number of a run in the entries, its cells by column (none for a task that it has not done), and the doubts
    about its answers to the table's tasks."""

    entry: int
    cells: Mapping[Column, Cell]
    marks: tuple[str, ...] = ()


class Published(NamedTuple):
    """Published values beside those of runs, without a rank: of a detector, or of a team of a shared task."""

    model: str
    source: str
    values: Mapping[Column, float]


@dataclass(frozen=True)
class Table:
    """A table of figures. Rows are sorted by the first column, the best first."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Standing, ...]
    published: tuple[Published, ...] = ()

    def unit(self, column: Column) -> Unit:
        """The unit of a column's figures."""
        return next((row.cells[column].unit for row in self.rows if column in row.cells), "score")


@dataclass(frozen=True)
class Section:
    """The tables of runs of a family of tasks under the same conditions.

    Of several languages or tasks, the summary has the means of the runs that have them all; a table by language follows for
    each metric, or for two that are traded against each other. Of a single task, the summary is all there is.
    """

    family: str
    title: str  # of the benchmark
    question: str  # that the tasks answer
    of_detectors: bool
    is_other: bool  # whether its tasks are in no table of ours
    prominence: int  # of its most prominent metric
    number: int  # from 1 if runs of the family had different conditions; else 0
    conditions: Mapping[str, str]  # name to value of the shared conditions, or the number of values if tasks differ
    doubts: tuple[str, ...]  # why figures are not comparable with published ones, with the tasks concerned
    unranked: Mapping[int, str]  # entry to why it has no rank
    summary: Table
    main: tuple[Column, ...]  # columns of the summary that stand in the overview
    tables: tuple[Table, ...]


MetricOfFilter = tuple[str, str]
"""The names of a metric and of its filter: :attr:`HeadlineFigure.key`."""

_Parts = Sequence[tuple[str, MetricOfFilter]]
"""The task and metric of each figure whose mean a column has."""


@dataclass
class _RunGroup:
    """Runs whose shared tasks have the same conditions."""

    members: dict[int, dict[str, TaskEntry]] = field(default_factory=dict)  # number of the entry to its tasks
    conditions: dict[tuple[str, str], str] = field(default_factory=dict)  # by task and name
    varied: set[str] = field(default_factory=set)  # names of conditions that are not those of all members
    tested: dict[str, dict[tuple[int, int], tuple[float, float]]] = field(default_factory=dict)

    def add(self, number: int, tasks: dict[str, TaskEntry], but_for: Collection[str] = ()) -> bool:
        """Add a run if its conditions are the same, `but_for` some of them; return whether they are."""
        conditions = {(task, name): value for task in tasks for name, value in tasks[task].conditions.items()}
        differ = {key[1] for key, value in conditions.items() if self.conditions.get(key, value) != value}
        if differ <= {*but_for}:
            self.members[number] = tasks
            self.varied |= differ
            self.conditions = conditions | self.conditions
            return True
        return False

    def pairs(
        self, strata: Sequence[Floats], by_document: bool, weights: Sequence[float]
    ) -> dict[tuple[int, int], tuple[float, float]]:
        """:func:`all_pairs`, cached, as two corrections of the same flagged shares have the same."""
        described = repr([by_document, *weights, *((array.shape, array.dtype.str) for array in strata)]).encode()
        key = hashlib.sha256(b"".join((described, *(array.tobytes() for array in strata)))).hexdigest()
        if key not in self.tested:
            self.tested[key] = all_pairs(strata, by_document, weights)
        return self.tested[key]


def sections_of(entries: Sequence[Entry]) -> list[Section]:
    """The sections of all families of tasks, those of language models first, by name, those of detectors by the prominence
    of their metrics: answers of models before inserted errors. A run is in one section of a family."""
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
        _add_settings(groups, [entry.model for entry in entries])
        sections += [_section(family, place if len(groups) > 1 else 0, group) for place, group in enumerate(groups, 1)]
    return sorted(sections, key=lambda each: (each.is_other, each.of_detectors, each.of_detectors and -each.prominence))


_ASKED = ("prompt", "shots", "system instruction")  # conditions that a model can be tried under


def _add_settings(groups: list[_RunGroup], models: Sequence[str]) -> None:
    """Move runs that were asked otherwise into the first group that has another run of their model over the same documents:
    there they are rows of their own, which the labels of runs tell apart. Groups without a run are removed."""
    for place, group in enumerate(groups):
        for other in groups[place + 1 :]:
            for number, tasks in [*other.members.items()]:
                tried = any(models[number] == models[member] for member in group.members)
                if tried and group.add(number, tasks, but_for=_ASKED):
                    del other.members[number]
    groups[:] = [group for group in groups if group.members]


def overviews(sections: Sequence[Section], entries: Sequence[Entry]) -> list[Table]:
    """The main columns of all families side by side: for language models, for detectors, and of tasks that are in no
    table of ours, where there are such runs.

    Runs of a second group of a family are not in it. Detectors whose speed was measured have that, too.
    """
    tables = []
    titles = {(False, False): "Models", (True, False): "Detectors", (False, True): "Other tasks of the harness"}
    for kind, title in titles.items():
        parts = [each for each in sections if (each.of_detectors, each.is_other) == kind and each.number < 2]
        columns: list[Column] = []
        cells: dict[int, dict[Column, Cell]] = {}
        marks: dict[int, dict[str, None]] = {}
        published: list[Published] = []
        for section in parts:
            name = section.title if sum(part.title == section.title for part in parts) == 1 else section.family
            renamed = {column: column._replace(name=name) for column in section.main}
            columns += renamed.values()
            for row in section.summary.rows:
                by_column = {renamed[column]: row.cells[column] for column in renamed if column in row.cells}
                cells.setdefault(row.entry, {}).update(by_column)
                marks.setdefault(row.entry, {}).update(dict.fromkeys(row.marks))
            for theirs in section.summary.published:
                values = {renamed[column]: value for column, value in theirs.values.items() if column in renamed}
                published.append(theirs._replace(values=values))
        if title == "Detectors" and any(entries[number].speed for number in cells):
            columns.append(speed := Column("", SPEED, True))
            for number, by_column in cells.items():
                if entries[number].speed:
                    by_column[speed] = Cell(Figure(entries[number].speed), "words", competes=False)
        if cells:
            rows = [Standing(number, by_column, tuple(marks[number])) for number, by_column in cells.items()]
            tables.append(Table(title, tuple(columns), _sorted(rows, columns), tuple(published)))
    return tables


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
    ordered = sorted(tasks.values(), key=lambda task: task.task)
    pairs = _families(ordered)
    of_pairs = [_columns(pair, MEAN_COLUMN if len(ordered) > 1 else "", ordered) for pair in pairs]
    summary = _table("", group, [column for columns in of_pairs for column in columns])
    prominent = max(pairs, key=lambda pair: max(each.metric.prominence for each in pair))
    in_overview = [len(pairs) < 3 or pair in (pairs[0], prominent) for pair in pairs]
    return Section(
        family=family,
        title=ordered[0].title or family,
        question=ordered[0].question,
        of_detectors=ordered[0].of_detectors,
        is_other=ordered[0].is_other,
        prominence=max(each.metric.prominence for each in prominent),
        number=number,
        conditions={
            condition: ", ".join(labels) if len(labels) < 4 else f"{len(labels)} of them, one a language"
            for condition, labels in values.items()
        }
        | dict.fromkeys(group.varied, "as the runs are named"),
        doubts=tuple(
            doubt if len(names) == len(tasks) or len(names) > 3 else f"{', '.join(sorted(names))}: {doubt}"
            for doubt, names in concerned.items()
        ),
        unranked={
            entry: reason
            for entry, members in group.members.items()
            for reason in [task.unranked for task in members.values() if task.unranked][:1]
        },
        summary=summary,
        main=tuple(
            column for columns, chosen in zip(of_pairs, in_overview, strict=True) if chosen for column, _ in columns
        ),
        tables=tuple(_by_language(group, ordered, pairs, summary)) if len(ordered) > 1 else (),
    )


def _families(tasks: Sequence[TaskEntry]) -> list[list[HeadlineFigure]]:
    """The headline metrics, each together with the one that it is traded against, as neither is meaningful alone, and with
    their balanced error, which comes first."""
    by_key = {headline.key: headline for task in tasks for headline in task.headlines}
    families = []
    while by_key:
        first = by_key.pop(next(iter(by_key)))
        partners = [*first.metric.balances, first.metric.traded_against]
        found = [by_key.pop((name, first.filter), None) for name in dict.fromkeys(partners)]
        families.append([first, *filter(None, found)])
    return families


def _columns(family: Sequence[HeadlineFigure], name: str, tasks: Sequence[TaskEntry]) -> list[tuple[Column, _Parts]]:
    """Their means over the tasks that have them."""
    parts = [[(task.task, each.key) for task in tasks if _headline(task, each.key)] for each in family]
    return [(_column(name, each), of_metric) for each, of_metric in zip(family, parts, strict=True) if of_metric]


def _by_language(
    group: _RunGroup, tasks: Sequence[TaskEntry], pairs: Sequence[Sequence[HeadlineFigure]], summary: Table
) -> Iterator[Table]:
    """A table by language for each metric, or for two that are traded against each other, in the summary's order."""
    order = {row.entry: place for place, row in enumerate(summary.rows)}  # runs that lack a language are not in it
    for pair in pairs:
        columns = [column for task in tasks for column in _columns(pair, task.language or task.task, [task])]
        if len(pair) == 1:  # the metric is the table's title
            columns = [(column._replace(metric=""), parts) for column, parts in columns]
        names = " and ".join(each.metric.name for each in pair)
        table = _table(_with_filter(names, pair[0].filter), group, columns)
        yield replace(table, rows=tuple(sorted(table.rows, key=lambda row: order.get(row.entry, len(order)))))


def _column(name: str, headline: HeadlineFigure) -> Column:
    metric = headline.metric
    return Column(name, _with_filter(metric.name, headline.filter), metric.higher_is_better, metric.heading)


def _with_filter(name: str, filter_name: str) -> str:
    return name if filter_name in ("answer", "tags", "none") else f"{name}, {filter_name}"


def _headline(task: TaskEntry | None, key: MetricOfFilter) -> HeadlineFigure | None:
    return next((headline for headline in task.headlines if headline.key == key), None) if task else None


def _table(title: str, group: _RunGroup, columns: Sequence[tuple[Column, _Parts]]) -> Table:
    """A table of columns, each with the figures whose mean it has. Columns of one metric are its languages."""
    runs = group.members
    cells: dict[int, dict[Column, Cell]] = {number: {} for number in runs}
    metrics: dict[MetricOfFilter, dict[Column, dict[int, list[HeadlineFigure]]]] = {}  # the figures that can be tested
    for column, parts in columns:
        testable = metrics.setdefault(parts[0][1], {}).setdefault(column, {})
        for number, run_tasks in runs.items():
            figures = [each for task, key in parts if (each := _headline(run_tasks.get(task), key))]
            if len(figures) == len(parts):
                cells[number][column] = _cell(figures, [run_tasks[task] for task, _ in parts])
                if all(figure.numbers for figure in figures) and not any(run_tasks[t].unranked for t, _ in parts):
                    testable[number] = figures
    for of_metric in metrics.values():
        for column, won in _won(of_metric, group).items():
            competing = [number for number in of_metric[column] if cells[number][column].competes]
            for number, rank in ranks(competing, won).items():
                cells[number][column] = replace(cells[number][column], rank=rank)
    table_tasks = dict.fromkeys(task for _, parts in columns for task, _ in parts)
    rows = [
        Standing(number, by_column, _marks([runs[number][task] for task in table_tasks if task in runs[number]]))
        for number, by_column in cells.items()
        if by_column
    ]
    header = [column for column, _ in columns]
    return Table(title, tuple(header), _sorted(rows, header), tuple(_published(columns)))


def _sorted(rows: Sequence[Standing], columns: Sequence[Column]) -> tuple[Standing, ...]:
    return tuple(sorted(rows, key=lambda row: [_order(row.cells.get(each), each.higher_is_better) for each in columns]))


def _order(cell: Cell | None, higher_is_better: bool | None) -> tuple[float, ...]:
    if cell is None:
        return 2, math.inf, math.inf
    return not cell.competes, cell.rank or math.inf, -cell.figure.value if higher_is_better else cell.figure.value


def _published(columns: Sequence[tuple[Column, _Parts]]) -> Iterator[Published]:
    """Published values of detectors: of several that have every column of the table, the best, the middle and the last."""
    values: dict[tuple[str, str], dict[Column, list[float]]] = {}
    for column, parts in columns:
        for task, (metric, _) in parts:
            for row in rows_for(task, metric):
                if row.source.of == "detector":
                    source = f"{row.source}; {row.split} answers" if row.split else str(row.source)
                    by_column = values.setdefault((row.model, source), {})
                    by_column.setdefault(column, []).append(row.value)
    full = {
        key: {column: fmean(of_column) for column, of_column in by_column.items()}
        for key, by_column in values.items()
        if all(len(by_column.get(column, ())) == len(parts) for column, parts in columns)
    }
    ranked = sorted(full, key=lambda key: -full[key][columns[0][0]])
    for place in sorted({0, len(ranked) // 2, len(ranked) - 1}) if ranked else ():
        model, source = ranked[place]
        name = f"{model} ({place + 1} of {len(ranked)})" if len(ranked) > 1 else model
        yield Published(name, source, full[ranked[place]])


def _cell(headlines: Sequence[HeadlineFigure], tasks: Sequence[TaskEntry]) -> Cell:
    rows = []
    if _share_passages(headlines):
        rows = [Rows(headline.numbers[0], headline.passages) for headline in headlines]
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


def _won(
    columns: Mapping[Column, Mapping[int, Sequence[HeadlineFigure]]], group: _RunGroup
) -> dict[Column, set[tuple[int, int]]]:
    """The pairs of a better and a worse run in each column of a metric that has two runs."""
    tested = {column: _differences(figures, group) for column, figures in columns.items() if len(figures) > 1}
    p_values = adjusted([{pair: p for pair, (_, p) in found.items()} for found in tested.values()])
    won: dict[Column, set[tuple[int, int]]] = {column: set() for column in tested}
    for (column, found), of_pairs in zip(tested.items(), p_values, strict=True):
        for pair, (difference, _) in found.items():
            first = better(difference, of_pairs[pair].p, column.higher_is_better)
            if first is not None:
                won[column].add(pair if first else pair[::-1])
    return won


def _differences(
    headlines: Mapping[int, Sequence[HeadlineFigure]], group: _RunGroup
) -> dict[tuple[int, int], tuple[float, float]]:
    """The paired differences of all runs in a column, by their figures of its tasks, and their p."""
    first, runs = next(iter(headlines.values())), [*headlines]  # all runs have the same passages
    if first[0].marked is not None:
        marked = [
            {run: rows for run, figures in headlines.items() if (rows := figures[place].marked) is not None}
            for place in range(len(first))
        ]
        pairs = [*combinations(runs, 2)]
        results = marked_rate.differences(marked, pairs)
        return {pair: (result.difference, result.p) for pair, result in zip(pairs, results, strict=True)}
    strata = [
        np.array(numbers).T
        for figures in zip(*headlines.values(), strict=True)
        for numbers in zip(*(figure.numbers for figure in figures), strict=True)
    ]
    weights = [stratum.weight for figure in first for stratum in figure.figure.strata] or [1.0] * len(strata)
    if _share_passages(first):
        strata = across_strata(strata, [figure.passages for figure in first])
    found = group.pairs(strata, first[0].by_document, weights)
    return {(runs[a], runs[b]): values for (a, b), values in found.items()}
