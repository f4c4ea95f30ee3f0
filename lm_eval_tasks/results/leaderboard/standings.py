"""The tables of a leaderboard: runs that were asked the same, as columns of :mod:`lm_eval_tasks.results.board`.

A family of tasks has a summary, and tables by language behind it. An overview holds the main columns of all summaries, for
each of :data:`~lm_eval_tasks.results.leaderboard.entry.KINDS`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, NamedTuple

from custom_metrics.scores.aggregations import NotMeasured
from custom_metrics.statistics.figures import Figure
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.published import rows_for
from lm_eval_tasks.results.board import Cell, Column, mean_figure, place_of, tested
from lm_eval_tasks.results.doubts import by_part
from lm_eval_tasks.results.leaderboard.entry import DETECTORS, KINDS, MARKS, Entry, HeadlineFigure, TaskEntry
from lm_eval_tasks.results.measuring import Measured

MEAN_COLUMN = "mean"
_SPEED = Metric("documents a second", higher_is_better=True, unit="words")


class Standing(NamedTuple):
    """A row: the number of a run in the entries, and the doubts about its answers to the table's tasks."""

    entry: int
    marks: tuple[str, ...] = ()


class Published(NamedTuple):
    """Published values beside those of runs, without a rank: of a detector, or of a team of a shared task."""

    model: str
    source: str
    values: Mapping[int, float]  # by the place of their column


@dataclass(frozen=True)
class Table:
    """Columns of the board, whose names are languages, tasks, benchmarks, or :data:`MEAN_COLUMN` for the mean of languages;
    empty in a table of one task. Rows are sorted by the first column, the best first."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Standing, ...]
    published: tuple[Published, ...] = ()

    def label(self, column: Column) -> str:
        """The metric of a column; empty if it is the table's title."""
        label = _with_filter(column.metric.name, column.filter)
        return "" if label == self.title else label


@dataclass(frozen=True)
class Section:
    """The tables of runs of a family of tasks under the same conditions.

    Of several languages or tasks, the summary has the means of the runs that have them all; a table by language follows for
    each metric, or for two that are traded against each other. Of a single task, the summary is all there is.
    """

    family: str
    title: str  # of the benchmark
    question: str  # that the tasks answer
    kind: str  # one of `KINDS`
    prominence: int  # of its most prominent metric
    number: int  # from 1 if runs of the family had different conditions; else 0
    conditions: Mapping[str, str]  # name to value of the shared conditions, or the number of values if tasks differ
    doubts: tuple[str, ...]  # why figures are not comparable with published ones, with the tasks concerned
    unranked: Mapping[int, str]  # entry to why it has no rank
    summary: Table
    main: tuple[int, ...]  # places of the summary's columns that stand in the overview
    tables: tuple[Table, ...]


_Draft = tuple[str, HeadlineFigure, Sequence[str]]
"""A column before its runs: its name, its metric with the figure of any task, and the tasks whose mean it is."""


@dataclass
class _RunGroup:
    """Runs of a family whose shared tasks have the same conditions."""

    family: str
    members: dict[int, dict[str, TaskEntry]] = field(default_factory=dict)  # number of the entry to its tasks
    conditions: dict[tuple[str, str], str] = field(default_factory=dict)  # by task and name
    varied: set[str] = field(default_factory=set)  # names of conditions that are not those of all members

    def add(self, number: int, tasks: dict[str, TaskEntry], but_for: Collection[str] = ()) -> bool:
        """Add a run if its conditions are the same, `but_for` some of them; return whether they are."""
        conditions = {(task, name): value for task in tasks for name, value in tasks[task].conditions.items()}
        differ = {key[1] for key, value in conditions.items() if self.conditions.get(key, value) != value}
        if differ <= {*but_for, MARKS}:  # of other draws only the rates by marks are not ranked
            self.members[number] = tasks
            self.varied |= differ
            self.conditions = conditions | self.conditions
            return True
        return False


def sections_of(entries: Sequence[Entry]) -> list[Section]:
    """The sections of all families of tasks, by :data:`KINDS` and name; detectors by the prominence of their metrics, so
    that answers of models come before inserted errors. A run is in one section of a family."""
    families: dict[str, dict[int, dict[str, TaskEntry]]] = {}
    for number, entry in enumerate(entries):
        for task in entry.tasks:
            families.setdefault(task.family, {}).setdefault(number, {})[task.task] = task
    sections = []
    for family, runs in sorted(families.items()):
        groups: list[_RunGroup] = []
        for number, tasks in runs.items():
            if not any(group.add(number, tasks) for group in groups):
                groups.append(_RunGroup(family))
                groups[-1].add(number, tasks)
        groups.sort(key=lambda group: -len(group.members))
        _add_settings(groups, [entry.model for entry in entries])
        sections += [_section(place if len(groups) > 1 else 0, group) for place, group in enumerate(groups, 1)]
    return sorted(sections, key=lambda each: (KINDS.index(each.kind), each.kind == DETECTORS and -each.prominence))


_ASKED = ("prompt", "shots", "system instruction")  # conditions that a model can be tried under
_OF_DRAWS = "of several draws; rates of that which most runs are of are ranked"


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
    """The main columns of all families side by side, a table for each of :data:`KINDS` that has runs.

    Runs of a second group of a family are not in it. Detectors whose speed was measured have that, too.
    """
    tables = []
    for kind in KINDS:
        chosen = [each for each in sections if each.kind == kind and each.number < 2]
        columns: list[Column] = []
        marks: dict[int, dict[str, None]] = {}
        published: dict[tuple[str, str], dict[int, float]] = {}
        for section in chosen:
            name = section.title if sum(each.title == section.title for each in chosen) == 1 else section.family
            places = {place: len(columns) + number for number, place in enumerate(section.main)}
            columns += [replace(section.summary.columns[place], name=name) for place in section.main]
            for row in section.summary.rows:
                marks.setdefault(row.entry, {}).update(dict.fromkeys(row.marks))
            for model, source, theirs in section.summary.published:
                values = {places[place]: value for place, value in theirs.items() if place in places}
                published.setdefault((model, source), {}).update(values)
        speeds = {number: speed for number in marks if kind == DETECTORS and (speed := entries[number].speed)}
        if speeds:
            cells = {number: Cell(speed, Figure(speed), competes=False) for number, speed in speeds.items()}
            columns.append(Column("", _SPEED, "", cells))
        if marks:
            rows = [Standing(number, tuple(of_run)) for number, of_run in marks.items()]
            beside = [Published(*key, values) for key, values in published.items() if values]
            tables.append(Table(kind, tuple(columns), _sorted(rows, columns), tuple(beside)))
    return tables


def _section(number: int, group: _RunGroup) -> Section:
    tasks: dict[str, TaskEntry] = {}
    for members in group.members.values():
        for name, task in members.items():
            known = tasks.setdefault(name, task)
            keys = {headline.key for headline in known.headlines}
            more = [headline for headline in task.headlines if headline.key not in keys]
            tasks[name] = replace(known, headlines=[*known.headlines, *more])  # a run without a denominator has fewer
    values: dict[str, dict[str, None]] = {}
    for (_, condition), labels in group.conditions.items():
        values.setdefault(condition, {})[labels] = None
    doubts: dict[str, dict[str, None]] = {name: {} for name in tasks}
    for name, task in (item for members in group.members.values() for item in members.items()):
        doubts[name] |= dict.fromkeys(task.doubts)
    ordered = sorted(tasks.values(), key=lambda task: task.task)
    together = _traded_together(ordered)
    leading = max(together, key=lambda metrics: max(each.metric.prominence for each in metrics))  # sorts a report, too
    traded = [leading, *(metrics for metrics in together if metrics is not leading)]
    drafts = [_drafts(metrics, MEAN_COLUMN if len(ordered) > 1 else "", ordered) for metrics in traded]
    summary = _table("", group, [draft for of_metrics in drafts for draft in of_metrics])
    in_overview = [
        len(traded) < 3 or metrics in (leading, together[0])
        for metrics, of_metrics in zip(traded, drafts, strict=True)
        for _ in of_metrics
    ]
    return Section(
        family=group.family,
        title=ordered[0].title or group.family,
        question=ordered[0].question,
        kind=ordered[0].kind,
        prominence=max(each.metric.prominence for each in leading),
        number=number,
        conditions={
            condition: ", ".join(labels) if len(labels) < 4 else f"{len(labels)} of them, one a language"
            for condition, labels in values.items()
        }
        | {name: _OF_DRAWS if name == MARKS else "as the runs are named" for name in group.varied},
        doubts=by_part(doubts),
        unranked={
            entry: reason
            for entry, members in group.members.items()
            for reason in [task.unranked for task in members.values() if task.unranked][:1]
        },
        summary=summary,
        main=tuple(place for place, is_shown in enumerate(in_overview) if is_shown),
        tables=tuple(_by_language(group, ordered, traded, summary)) if len(ordered) > 1 else (),
    )


def _traded_together(tasks: Sequence[TaskEntry]) -> list[list[HeadlineFigure]]:
    """The headline metrics, each together with the one that it is traded against, as neither is meaningful alone, and with
    their balanced error, which comes first."""
    by_key = {headline.key: headline for task in tasks for headline in task.headlines}
    together = []
    while by_key:
        first = by_key.pop(next(iter(by_key)))
        partners = [*first.metric.balances, first.metric.traded_against]
        found = [by_key.pop((name, first.filter), None) for name in dict.fromkeys(partners)]
        together.append([first, *filter(None, found)])
    return together


def _drafts(metrics: Sequence[HeadlineFigure], name: str, tasks: Sequence[TaskEntry]) -> list[_Draft]:
    """The means of metrics over the tasks that have them."""
    of_metrics = [(each, [task.task for task in tasks if _headline(task, each.key)]) for each in metrics]
    return [(name, each, names) for each, names in of_metrics if names]


def _by_language(
    group: _RunGroup, tasks: Sequence[TaskEntry], traded: Sequence[Sequence[HeadlineFigure]], summary: Table
) -> Iterator[Table]:
    """A table by language for each metric, or for several that are traded against each other, in the summary's order."""
    order = {row.entry: place for place, row in enumerate(summary.rows)}  # runs that lack a language are not in it
    for metrics in traded:
        drafts = [draft for task in tasks for draft in _drafts(metrics, task.language or task.task, [task])]
        names = " and ".join(each.metric.name for each in metrics)
        table = _table(_with_filter(names, metrics[0].filter), group, drafts)
        yield replace(table, rows=tuple(sorted(table.rows, key=lambda row: order.get(row.entry, len(order)))))


def _with_filter(name: str, filter_name: str) -> str:
    return name if filter_name in ("answer", "tags", "none", "") else f"{name}, {filter_name}"


def _headline(task: TaskEntry | None, key: tuple[str, str]) -> HeadlineFigure | None:
    return next((headline for headline in task.headlines if headline.key == key), None) if task else None


def _table(title: str, group: _RunGroup, drafts: Sequence[_Draft]) -> Table:
    """A table of columns. Those of one metric are its languages."""
    columns = tested([_column(group, *draft) for draft in drafts])
    names = dict.fromkeys(task for _, _, tasks in drafts for task in tasks)
    rows = []
    for number, members in group.members.items():
        of_run = [members[task] for task in names if task in members]
        marks = by_part({task.language or task.task: (*task.alike, *task.unread) for task in of_run})
        rows += [Standing(number, marks)] if any(number in column.cells for column in columns) else []
    return Table(title, tuple(columns), _sorted(rows, columns), tuple(_published(drafts)))


def _column(group: _RunGroup, name: str, head: HeadlineFigure, names: Sequence[str]) -> Column:
    """The column of the board: the runs that have all of its tasks (`names`), and what can be compared of their answers."""
    metric, parts = head.metric, len(names)
    cells: dict[int, Cell] = {}
    by_task: list[dict[int, Measured]] = [{} for _ in names]
    for number, of_run in group.members.items():
        headlines = [each for task in names if (each := _headline(of_run.get(task), head.key))]
        if len(headlines) < parts:
            continue
        tasks = [of_run[task] for task in names]
        measured = [each.measured for each in headlines if each.measured is not None]
        figure = mean_figure([each.figure for each in headlines], metric, [(task, 0) for task in measured])
        doubted, alike = any(task.alike or task.unread for task in tasks), all(task.alike for task in tasks)
        cells[number] = Cell.of(figure, metric, alike)._replace(doubted=doubted)
        if len(measured) == parts and not any(task.unranked for task in tasks):
            for of_task, own in zip(by_task, measured, strict=True):
                of_task[number] = own
    apart = {run for of_task in by_task for run in _apart(of_task)}
    by_task = [{number: own for number, own in of_task.items() if number not in apart} for of_task in by_task]
    merged = [
        replace(next(iter(of_task.values())), rows={number: own.rows[0] for number, own in of_task.items()})
        for of_task in by_task
        if of_task
    ]
    return Column(name, metric, head.filter, cells, merged, group=parts > 1, family=group.family)


def _apart(runs: Mapping[int, Measured]) -> Collection[int]:
    """The runs that cannot be compared with the others on a task."""
    try:
        kinds = [own.kind for own in runs.values()][:1]
        return [int(run) for kind in kinds for run in kind.check({str(run): own.rows[0] for run, own in runs.items()})]
    except NotMeasured:
        return runs.keys()


def _sorted(rows: Sequence[Standing], columns: Sequence[Column]) -> tuple[Standing, ...]:
    def order(row: Standing) -> list[Any]:
        return [place_of(each.cells.get(row.entry), each.metric.higher_is_better) for each in columns]

    return tuple(sorted(rows, key=order))


_MANY = 12  # published detectors: of more, the best, the middle and the last are shown


def _published(drafts: Sequence[_Draft]) -> Iterator[Published]:
    """Published values of detectors, the best by the first column first. One of a whole group says so."""
    values: dict[tuple[str, str], dict[int, list[float]]] = {}
    for place, (_, figure, tasks) in enumerate(drafts):
        for task in tasks:
            for row in rows_for(task, figure.metric.name):
                if row.source.of == "detector":
                    model = row.model if row.task == task else f"{row.model} (all of {row.task})"
                    source = f"{row.source}; {row.split} answers" if row.split else str(row.source)
                    values.setdefault((model, source), {}).setdefault(place, []).append(row.value)
    whole = {
        key: {place: fmean(each) for place, each in by_place.items() if len(each) == len(drafts[place][2])}
        for key, by_place in values.items()
    }
    ranked = sorted(filter(whole.get, whole), key=lambda key: -whole[key].get(0, 0))
    many = len(ranked) > _MANY
    for place in sorted({0, len(ranked) // 2, len(ranked) - 1}) if many else range(len(ranked)):
        model, source = ranked[place]
        yield Published(f"{model} ({place + 1} of {len(ranked)})" if many else model, source, whole[ranked[place]])
