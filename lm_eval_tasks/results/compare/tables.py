"""A comparison in words and as tables: every difference, or, of three models and more, every model's value and rank."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from custom_metrics.statistics.figures import NOT_MEASURABLE
from custom_metrics.statistics.intervals import SIGNIFICANCE
from custom_metrics.usage.printable import on_one_line, shorten
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.results import formats
from lm_eval_tasks.results.board import Cell, Column
from lm_eval_tasks.results.compare import Comparison, Difference, differences_of
from lm_eval_tasks.results.compare.verdicts import in_brackets, verdicts
from lm_eval_tasks.results.formats import ARROWS, FRACTIONS, PAGE, Notation, Section, render_sections, short_names

WITH_POWER = f"with a power of 80 % (two-sided p < {SIGNIFICANCE}, this comparison alone)"
_LONGEST_NAME = 40  # characters: a table fits into 100 columns
_HOW_TO_READ = (
    f"Rank: one more than the number of models that are significantly better (p < {SIGNIFICANCE}, by paired differences). "
    "A model that gives every question the same verdict has none, and over a mean one that lacks a task. Better than: the "
    "numbers of those models. --pairs prints every difference with its bounds and p, also by language."
)


def render(
    comparison: Comparison, form: str = "text", pairs: bool = False, short: bool = False, notation: Notation = FRACTIONS
) -> str:
    """The comparison as ``text``, ``markdown``, ``latex``, ``html``, ``csv`` or ``json``, with a line end. Data has all
    differences. For three models and more there is a table of each metric, unless `pairs` are asked for; else one table of
    all differences. A `short` one has a row and a verdict for each benchmark and language."""
    if form == "csv":
        return formats.csv_of([row.as_json(comparison.models) for row in comparison.differences])
    if form == "json":
        told = [line for verdict in verdicts(comparison) for line in verdict.lines]
        return formats.json_of(comparison.as_json() | {"verdicts": told})
    if len(comparison.models) > 2 and not (pairs or short):
        return render_sections(matrices(comparison, notation), form)
    table = short_table(comparison) if short else differences_table(comparison, notation)
    return render_sections([table], form)


def letter_of(index: int) -> str:
    """The letter that stands for a model in tables."""
    return chr(ord("A") + index) if index < 26 else f"M{index + 1}"


def legend(models: Sequence[str]) -> tuple[str, ...]:
    """The letters of the models, with their names."""
    return tuple(f"{letter_of(index)} = {on_one_line(model)}" for index, model in enumerate(models))


_SIGNATURES = 3  # lines; tables in JSON have all

# ------------------------------------------------------------------------------------------------------ all differences


def differences_table(comparison: Comparison, notation: Notation = FRACTIONS) -> Section:
    """A table of all differences, with what is better in words, and how to read it."""
    letters = [letter_of(index) for index in range(len(comparison.models))]
    two, differences = len(letters) == 2, comparison.differences
    filters = {(row.column.benchmark, row.metric.name, row.column.filter) for row in differences}
    several = len(filters) > len({filtered[:2] for filtered in filters})
    dropped = any(row.only_first or row.only_second for row in differences)
    header = ["task", "metric", *(letters if two else ("pair", "first", "second")), "difference", "p", "n", "shows"]
    rows = []
    for row in differences:
        column, result = row.column, row.result
        cells = [
            f"{column.name} (mean of {row.tasks})" if column.group else column.name,
            _named(row.metric) + (f" ({column.filter})" if several else ""),
            *([] if two else [f"{letters[row.first]} - {letters[row.second]}"]),
            *(_value(value, cell, row, notation) for value, cell in zip(result[:2], row.cells, strict=True)),
            _difference(row, notation),
            _p(row),
            f"{result.n}" + ("" if row.unit == "documents" else f" {row.unit}"),
            "-" if math.isnan(row.detectable) else notation.size(row.detectable, row.metric.unit),
            *([f"{row.only_first} / {row.only_second}"] if dropped else []),
        ]
        rows.append(tuple(map(on_one_line, cells)))
    texts = [line for verdict in verdicts(comparison, notation) for line in verdict.lines]
    having = [(setting, have) for setting, have in _having(comparison, letters) if setting != "version"]
    across = [f"Compared across {setting}: {have}" for setting, have in having]
    if pairs := [" with ".join(tasks) for tasks in comparison.paired.values()]:
        across.append(f"Paired: {shorten(pairs, 2)}")
    before = (*reservations(comparison), *legend(comparison.models), *map(on_one_line, across))
    after = tuple(map(on_one_line, (*texts, *_explanations(comparison, letters))))
    return Section((*header, *(["only one"] if dropped else [])), tuple(rows), before, after)


def _named(metric: Metric) -> str:
    return metric.name + ARROWS[metric.higher_is_better]


def _p(row: Difference) -> str:
    return formats.p_value(row.p_adjusted) + ("*" if row.significant else "")


def _value(value: float, cell: Cell, row: Difference, notation: Notation) -> str:
    text, own = (notation.value(each, row.metric.unit) for each in (value, cell.value))
    return NOT_MEASURABLE if not cell.is_measurable else text if text == own else f"{text} ({own})"


def _difference(row: Difference, notation: Notation) -> str:
    result, unit = row.result, row.metric.unit
    if result.n == 0:
        return "-"
    value = notation.difference(result.difference, unit) if row.is_measurable else NOT_MEASURABLE
    if not row.is_measurable and math.isnan(result.low + result.high):
        return value
    return f"{value} [{notation.range(result.low, result.high, unit) or '-'}]"


def short_table(comparison: Comparison) -> Section:
    """One row for each benchmark and language, and the verdict on it: of two models, or of the best and the next."""
    names, cells, told = [*short_names(comparison.models).values()], [], verdicts(comparison)
    for row in (verdict.leading for verdict in told):
        unit, pair = row.metric.unit, (row.first, row.second)
        values = [
            f"{names[model]} {PAGE.value(value, unit) if cell.is_measurable else NOT_MEASURABLE}"
            for model, value, cell in zip(pair, row.result[:2], row.cells, strict=True)
        ]
        difference = f"{PAGE.difference(row.result.difference, unit)}{in_brackets(*row.result[3:5], unit)}"
        cells.append((on_one_line(row.column.name), _named(row.metric), *values, difference, _p(row)))
    lines = tuple(on_one_line(line) for verdict in told for line in verdict.lines)
    header = ("task", "metric", "first", "second", "difference [95 %]", "p")
    return Section(header, tuple(cells), reservations(comparison), lines)


def reservations(comparison: Comparison) -> tuple[str, ...]:
    """What a reader must know before any figure: that tasks are of several versions, and what is left out, and why."""
    having = _having(comparison, [*short_names(comparison.models).values()])
    others = "Other versions of the tasks, so a difference need not be one of the models"
    lines = [f"{others}: {have}." for setting, have in having if setting == "version"]
    left_out: dict[str, list[str]] = {}
    for refusal in comparison.refused:
        left_out.setdefault(refusal.reason, []).append(refusal.task)
    lines += [f"{shorten(tasks, 3)}: not compared, as {reason}." for reason, tasks in left_out.items()]
    return tuple(map(on_one_line, lines))


def _having(comparison: Comparison, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The settings that the runs are compared across, each with what every run has."""
    for setting, values in comparison.across.items():
        have = (f"{name} has {value or 'none'}" for name, value in zip(names, values, strict=True))
        yield setting, "; ".join(have)


def _explanations(comparison: Comparison, names: Sequence[str], pairs: bool = True) -> list[str]:
    """Notes below a table: what its columns mean (of one of `pairs`), the methods behind bounds and p, and the notes of the
    comparison."""
    rows = comparison.differences if pairs else comparison.spanning
    lines = []
    if pairs:
        lines = [
            f"Difference: first minus second, over what both models have, with 95 % bounds. * p < {SIGNIFICANCE}.",
            f"Shows: the smallest difference that so many documents show {WITH_POWER}.",
        ]
    if sizes := sorted({row.family for row in rows if row.family > 1}):
        of_many = len(comparison.models) > 2
        languages = "the languages of a task, or the tasks of a group"
        family = "all pairs of models on a task or group" if of_many else languages
        lines.append(
            f"p is corrected by Holm over {family} ({', '.join(map(str, sizes))} comparisons). Metrics are not corrected "
            f"for each other. Bounds are those of each comparison alone."
        )
    lines += dict.fromkeys(f"{each.name}: {each.definition}." for each in (row.metric for row in rows) if each.balances)
    lines += [f"Doubts about {names[model]}: {'; '.join(doubts)}." for model, doubts in comparison.doubts.items()]
    if not all(row.has_values and row.is_measurable for row in rows):
        lines.append("Not measurable: the 95 % bounds span more than half of the scale (--format json has the value).")
    if pairs and any(row.only_first or row.only_second for row in rows):
        lines.append("Only one: documents that count for one of both models alone, and are left out of both values.")
    values = [pair for row in rows for pair in zip(row.result[:2], row.cells, strict=True)]
    if pairs and any(abs(value - cell.value) > 1e-9 for value, cell in values):
        lines.append("In brackets: the run's own value, over all documents that count for that model.")
    if methods := dict.fromkeys(row.result.method for row in rows if row.result.method):
        lines.append(f"Methods: {'; '.join(methods)}.")
    unshared = []
    for task in comparison.joined:
        only = [f"{n} in {name} only" for name, n in zip(names, task.only, strict=True) if n]
        unshared += [f"{task.task}: {', '.join(only)}"] if only else []
    if unshared:
        more = f"; and {len(unshared) - 5} more tasks" if len(unshared) > 5 else ""
        lines.append(f"Documents that are not compared: {'; '.join(unshared[:5])}{more}.")
    return [*lines, *(f"{note}." for note in comparison.notes), *_signatures(comparison, names)]


def _signatures(comparison: Comparison, names: Sequence[str]) -> list[str]:
    """The signatures of the groups, and of the tasks of benchmarks without one; those of several models, where they differ,
    behind the models' names."""
    in_groups = {column.benchmark for column in comparison.columns if column.group}
    shown = {column.name for column in comparison.columns if column.group or column.benchmark not in in_groups}
    lines = []
    for by_model in (comparison.signatures[name] for name in comparison.signatures if name in shown):
        models: dict[str, list[str]] = {}
        for name, line in zip(names, by_model, strict=True):
            models.setdefault(line, []).append(name)
        models.pop("", None)
        lines += [line if len(models) == 1 else f"{', '.join(of)}: {line}" for line, of in models.items()]
    return lines[:_SIGNATURES] + (
        [f"Signatures of {len(lines) - _SIGNATURES} more: --format json."] if len(lines) > _SIGNATURES else []
    )


# ------------------------------------------------------------------------------------------------------ of many models


def matrices(comparison: Comparison, notation: Notation = FRACTIONS) -> list[Section]:
    """A table of each metric of a group, or of a task that is in no group here: every model's value and rank, and which
    models it is better than."""

    def figure_of(column: Column) -> tuple[str, ...]:
        return column.benchmark, column.metric.name, column.filter

    in_groups = {figure_of(column) for column in comparison.columns if column.group}
    columns = [column for column in comparison.columns if column.group or figure_of(column) not in in_groups]
    names = [shortened(on_one_line(name)) for name in comparison.models]
    across = f"across {', '.join(comparison.across)}" if comparison.across else ""
    sections = [_matrix(comparison, column, names, across, notation) for column in columns]
    told = [line for verdict in verdicts(comparison, notation) for line in verdict.lines]
    notes = tuple(map(on_one_line, (*told, _HOW_TO_READ, *_explanations(comparison, names, pairs=False))))
    sections[:1] = [replace(first, before=(*reservations(comparison), *first.before)) for first in sections[:1]]
    return [*sections[:-1], *(replace(last, after=notes) for last in sections[-1:])]


def shortened(name: str, most: int = _LONGEST_NAME) -> str:
    """A name of at most so many characters: its beginning and its end, which tell models apart, and if possible the
    settings behind it."""
    if len(name) <= most:
        return name
    model, bracket, settings = name.partition(" (")
    if bracket and (rest := most - len(settings) - 2) >= 10:
        return f"{shortened(model, rest)} ({settings}"
    head = most // 2
    return f"{name[: head - 1]}…{name[head - most :]}"


def _matrix(comparison: Comparison, column: Column, names: Sequence[str], across: str, notation: Notation) -> Section:
    rows = [*differences_of(column)]
    place = {model: at for at, model in enumerate(column.order, 1)}
    cells = []
    for at, model in enumerate(column.order, 1):
        cell, beaten = column.cells[model], sorted(place[other] for other in column.beaten_by(model))
        value = notation.value(cell.value, column.metric.unit) if cell.is_measurable else NOT_MEASURABLE
        cells.append((str(at), names[model], value, str(cell.rank or "-"), formats.ranges(beaten) or "-"))
    most = max(row.tasks for row in rows)
    partly = ", or of those that a model has" if any(row.tasks < most for row in rows) else ""
    where = f"{column.name} (mean of {most} tasks{partly})" if column.group else column.name
    metric = column.metric
    better = f", {metric.better} is better" if metric.better else ""
    filtered = f", {column.filter}" if column.filter not in ("answer", "tags", "none") else ""
    title = metric.title and f"{metric.title}: "
    title = f"{title}{metric.name}{filtered}{better}"
    lines = title, "; ".join(filter(None, (where, across))), _detectable(rows, notation)
    heading = tuple(map(on_one_line, filter(None, lines)))
    return Section(("no.", "model", "value", "rank", "better than"), tuple(cells), heading)


def _detectable(rows: Sequence[Difference], notation: Notation) -> str:
    """How small a difference the pairs show, in words; empty where that is not known."""
    most = max(row.tasks for row in rows)
    rows = [row for row in rows if row.tasks == most]
    smallest = sorted(row.detectable for row in rows if not math.isnan(row.detectable))
    extremes = (*smallest[:1], *smallest[-1:])
    ends = " to ".join(dict.fromkeys(notation.size(end, rows[0].metric.unit) for end in extremes))
    sizes = [row.result.n for row in rows if row.result.n]
    counts = " to ".join(dict.fromkeys(f"{f(sizes, default=0):,}" for f in (min, max)))
    return f"{counts} {rows[0].unit} show a difference of {ends} (power 80 %, one comparison)" if ends else ""
