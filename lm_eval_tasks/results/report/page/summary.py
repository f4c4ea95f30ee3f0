"""What a page says of models: the columns of a family, with the doubts that many of its numbers share; and every number,
with what it was measured on.

Each family and language has an :class:`Overview`: all models on one axis, the best model, the models that show no
difference to it, and the best model by what a made-up answer costs.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby
from typing import Any, NamedTuple

from custom_metrics.statistics.figures import Figure, without_point
from lm_eval_tasks.definition.catalogue import language_name
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.results.board import MEAN, Cell, Column, Costs, Doubt
from lm_eval_tasks.results.compare import Comparison
from lm_eval_tasks.results.compare.verdicts import Verdict, verdict_on
from lm_eval_tasks.results.formats import ranges
from lm_eval_tasks.results.report.drawing import Drawn, largest_of, on_axis
from lm_eval_tasks.runs import TaskRun
from lm_eval_tasks.runs.run import recorded_settings, signature_of

_SEVERE = ("incomplete", "alike", "cut", "broken", "undefined", "invalid", "abstains", "clipped", "unlike")
"""Kinds of doubts that the first screen shows beside a model, the worst first. The others are shown below."""

_MORE = 2  # metrics of an overview beside the first: what it is traded against, and another headline
_WHERE = re.compile(r"in \d+ of \d+ (languages|tasks)")


class Row(NamedTuple):
    """A model in a table: its cells, ``None`` where it lacks one; its rank, ``None`` without one; doubts, in short; and the
    rows of three and more, from 1, that it is significantly better than: ``2, 4–11``."""

    model: str
    cells: tuple[Cell | None, ...]
    rank: int | None
    doubts: str
    better_than: str = ""


class Overview(NamedTuple):
    """The models of a family of tasks, or of one of its languages. The first column of `shown` sorts them: the balanced
    error, if there is one. What is traded against each other follows, and another headline."""

    family: str
    task: str  # the group whose mean is shown, or the task
    benchmark: str  # its title
    question: str  # that it answers
    doubts: list[Doubt]  # about all of its numbers
    columns: list[Column]
    shown: list[Column]
    rows: list[Row]
    best: Row | None  # the first row, if it was compared with others
    equals: list[str]  # models that show no difference to it
    costs: Costs | None
    verdict: Verdict | None  # the same as everywhere
    members: Mapping[str, str]  # language, or name of a task, to task
    languages: Mapping[str, Overview] = {}  # of a family of several, by code; or its tasks, by name
    parts: str = ""  # what these are
    group: int = 0  # the number of the group of models, which were asked the same: those of the first are the full runs
    apart: str = ""  # what sets a further group apart
    elsewhere: int = 0  # number of models in further groups

    @property
    def by_name(self) -> dict[str, Overview]:
        """The languages or tasks by their names, after their mean."""
        return {MEAN.title(): self, **{language_name(code): each for code, each in self.languages.items()}}

    @property
    def main_doubts(self) -> list[Doubt]:
        """One doubt of each kind, for the first screen."""
        return [*{doubt.kind: doubt for doubt in reversed(self.doubts)}.values()][::-1]


def end_of_scale(column: Column, is_tight: bool = False) -> float:
    """Where the drawn scale of a column ends: 1 for shares and scores (or what exceeds it), 4 for ratings, else the largest
    bound. A tight one of shares ends at the next tenth."""
    largest = largest_of(cell.figure for cell in column.cells.values())
    if is_tight and column.metric.unit in ("share", "score"):
        return math.ceil(10 * largest) / 10
    return max(largest, 4.0 if column.metric.unit == "rating" else 1.0)


def drawn(cell: Cell, column: Column, look: int, end: float) -> Iterator[Drawn]:
    """What is drawn of a cell in a model's look, on an axis from 0 to an end."""
    return on_axis([(look, without_point(cell.figure, column.metric.unit))], 0.0, end)


def common_doubts(columns: Iterable[Column]) -> list[Doubt]:
    """The doubts that all numbers of columns share; none for a single number, which has them beside it."""
    first, *others = [cell.reasons for column in columns for cell in column.cells.values()] or [()]
    return [doubt for doubt in first if all(doubt in of_cell for of_cell in others)] if others else []


def overviews(
    columns: Sequence[Column], of_parts: Sequence[Column], models: Sequence[str], comparison: Comparison | None
) -> list[Overview]:
    """The overviews of families, from the columns of families and of their languages or tasks, in their order; those of
    models that were asked something else come last."""
    by_task = {task: [*of_task] for task, of_task in groupby(of_parts, key=lambda column: column.name)}
    of_every, found = (common_doubts(columns), common_doubts(of_parts)), []
    for of_family in ([*group] for _, group in groupby(columns, key=lambda column: column.name)):
        in_runs = {run: cell.family for column in of_family for run, cell in column.cells.items() if cell.family}
        members = {part: task.task for run in sorted(in_runs) for part, task in in_runs[run].tasks.items()}
        ordered = sorted(members.items(), key=lambda member: language_name(member[0])) if len(members) > 1 else ()
        groups: dict[tuple[int, str], set[int]] = {}
        for run in sorted(in_runs):
            number, why = comparison.group_of(run, members.values()) if comparison else (0, "")
            groups.setdefault((number, why if number else ""), set()).add(run)
        for (number, why), runs in sorted(groups.items(), key=lambda group: group[0][0]):
            compares = comparison and comparison.of_group(number)
            inner = {
                code: _overview(own, of_every[1], {code: task}, models, compares)
                for code, task in ordered
                if (own := _only(by_task.get(task, ()), runs))
            }
            overview = _overview(_only(of_family, runs), of_every[0], members, models, compares)
            elsewhere = 0 if number else len(in_runs) - len(runs)
            found.append(overview._replace(languages=inner, group=number, apart=why, elsewhere=elsewhere))
    return sorted(found, key=lambda overview: overview.group > 0)


def _only(columns: Iterable[Column], runs: Collection[int]) -> list[Column]:
    """The columns with the cells of some runs; without those that have none."""
    of_runs = [replace(each, cells={run: cell for run, cell in each.cells.items() if run in runs}) for each in columns]
    return [column for column in of_runs if column.cells]


def _compared(
    column: Column, compared: str, members: Mapping[str, str], comparison: Comparison | None, without: Collection[Doubt]
) -> Column:
    """The column of a group or task, with the differences, ranks and doubts of a comparison, and `without` some doubts. A
    group without a column there whose numbers are all of one task, such as the language with people's marks, has that
    task's."""
    own, name = comparison and comparison.column(column.metric.name, compared), column.metric.name
    if comparison and own is None and len(members) > 1:
        figures = (cell.family.figures(name) for cell in column.cells.values() if cell.family)
        defined = {part for by_part in figures for part, figure in by_part.items() if not math.isnan(figure.value)}
        own = comparison.column(name, members[defined.pop()]) if len(defined) == 1 else None
    cells = {}
    for run, cell in column.cells.items():
        known = own.cells.get(run, cell) if own else cell
        reasons = tuple(each for each in cell.reasons if each not in without)
        cells[run] = cell._replace(rank=known.rank, doubts=known.doubts, reasons=reasons)
    return replace(own or column, name=column.name, benchmark=column.benchmark, metric=column.metric, cells=cells)


def _overview(
    columns: Sequence[Column],
    everywhere: Sequence[Doubt],
    members: Mapping[str, str],
    models: Sequence[str],
    comparison: Comparison | None,
) -> Overview:
    """The overview of a family's columns. The doubts of a model are those that not all numbers of the page or of the family
    share. `members` are the family's tasks, by language."""
    name, family = columns[0].name, next(cell.family for cell in columns[0].cells.values() if cell.family)
    compared = name if len(members) > 1 else next(iter(members.values()))
    common = [doubt for doubt in common_doubts(columns) if doubt not in everywhere]
    own = [_compared(each, compared, members, comparison, {*everywhere, *common}) for each in columns]
    verdict = verdict_on(comparison, compared) if comparison else None
    shown = _shown(own, verdict.leading.metric.name if verdict else "")
    rows = _rows(shown, own, models)
    first = models.index(rows[0].model) if rows[0].rank else -1
    equals = [models[run] for run in shown[0].equals(first)]
    best = rows[0] if equals or shown[0].beaten_by(first) else None
    costs = comparison.costs.get(compared) if comparison else None
    facts = columns[0].benchmark, family.question, common
    return Overview(name, compared, *facts, own, shown, rows, best, equals, costs, verdict, members, {}, family.parts)


def _rows(shown: Sequence[Column], columns: Sequence[Column], models: Sequence[str]) -> list[Row]:
    """A row for each model, in the order of the first column. Of several first ranks, a run with doubts stands last, and
    has none: to share it is no distinction."""
    first = shown[0]
    doubted = {run for run, cell in first.cells.items() if cell.doubts and cell.rank == 1}
    ranked = sorted(first.order, key=lambda run: 1 if run in doubted else 0 if first.cells[run].rank == 1 else 2)
    parts = {run: cell.family for run, cell in first.cells.items() if cell.family}
    most = max(len(family.tasks) for family in parts.values())
    ordered = [*dict.fromkeys([*ranked, *(run for column in columns for run in column.cells)])]
    at = {run: number for number, run in enumerate(ordered, 1)}
    rows = []
    for run in ordered:
        cell, number = first.cells.get(run), len(parts[run].tasks) if run in parts else most
        partly = f"mean over {number} of {most} {parts[run].parts}" if number < most else ""
        rank = cell.rank if cell and run not in doubted else None
        doubts = "; ".join(filter(None, (partly, *_severe(cell.reasons if cell else ()))))
        beaten = sorted(at[worse] for worse in first.beaten_by(run)) if cell and cell.rank and len(at) > 2 else ()
        cells = tuple(column.cells.get(run) for column in shown)
        rows.append(Row(models[run], cells, rank, doubts, ranges(beaten, "\N{EN DASH}")))
    return rows


def grid(tables: Iterable[Overview]) -> dict[str, list[Row | None]]:
    """The row of each model in several tables, in the order of the first table."""
    by_model = [{row.model: row for row in each.rows} for each in tables]
    return {model: [of_table.get(model) for of_table in by_model] for model in dict.fromkeys(chain(*by_model))}


def _severe(reasons: Sequence[Doubt]) -> Iterator[str]:
    """The severe doubts about a number, all about its answers among them, without details except the number of languages
    concerned."""
    for text in (doubt.text for kind in _SEVERE for doubt in reasons if doubt.kind == kind):
        where = _WHERE.search(text)
        yield text.partition(" (")[0].partition(":")[0] + (f" ({where[0]})" if where else "")


def _shown(columns: Sequence[Column], decides: str) -> list[Column]:
    """The most prominent column that is defined for a model; that which `decides` between two, or is traded against it."""

    def order(column: Column) -> tuple[bool, int]:
        return any(not math.isnan(cell.value) for cell in column.cells.values()), column.metric.prominence

    first = max(columns, key=order)
    traded = (*first.metric.balances, first.metric.traded_against)
    more = [each for each in columns if each.metric.headline and each.metric.better and each is not first]
    more.sort(key=lambda each: (each.metric.name != decides, each.metric.name not in traded))
    return [first, *more[:_MORE]]


# ---------------------------------------------------------------------------------------------------------- every number


def numbers(tasks: Iterable[tuple[str, TaskRun]]) -> Iterator[tuple[str, TaskRun, str, Metric, Figure, str]]:
    """All figures of models' tasks: model, task, filter, metric, figure and denominator."""
    for model, task in tasks:
        for filter_name in task.filters:
            written = task.figures.get(filter_name, {})
            for metric in map(task.metric, dict.fromkeys([*(metric.name for metric in task.metrics), *written])):
                denominator = str(written.get(metric.name, {}).get("denominator") or metric.denominator)
                yield model, task, filter_name, metric, task.figure(metric.name, filter_name), denominator


def origins(tasks: Iterable[tuple[str, TaskRun]]) -> list[dict[str, Any]]:
    """Records of what models' tasks depend on. Models with equal records share one."""
    records: dict[str, dict[str, Any]] = {}
    for model, task in tasks:
        files = [entry for entry in task.provenance.get("files") or () if isinstance(entry, Mapping)]
        keys = ("repository", "revision", "path", "sha256")
        listed = [{key: str(entry.get(key) or "") for key in keys} for entry in files]
        record: dict[str, Any] = {"task": task.task, "facts": [*_facts(task)], "files": listed}
        record["not_comparable"] = [*task.not_comparable]
        records.setdefault(json.dumps(record), {**record, "models": []})["models"].append(model)
    return [*records.values()]


_TITLES = {
    "version": "task version",
    "kept": "documents",
    "left_out": "left out",
    "read_from": "read from",
    "template": "prompt (SHA-256)",
    "shots": "examples in the prompt",
    "chat_template": "chat template (SHA-256)",
    "system_instruction": "system instruction",
}


def _facts(task: TaskRun) -> Iterator[tuple[str, str]]:
    """Names and values, as text, of the known facts about a task."""
    yield "signature", signature_of([task])
    if task.samples is None:
        yield "answers", "not logged"
    for name, value in recorded_settings(task).items():
        if name == "limit" and value is not None:
            value = f"{value:g}"
        elif name == "shots":
            value = value or None
        elif name == "detector":
            value = " ".join(str(value[key]) for key in ("name", "version") if value.get(key))
        if text := _pairs(value):
            yield _TITLES.get(name, name), text


def _pairs(value: Any) -> str:
    if not isinstance(value, Mapping):
        return "" if value is None else str(value)
    return ", ".join(
        f"{key}: [{', '.join(map(str, item))}]" if isinstance(item, (list, tuple)) else f"{key}: {item}"
        for key, item in value.items()
        if item not in (None, "")
    )
