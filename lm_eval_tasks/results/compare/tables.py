"""A comparison in words and as tables: every difference, or, of three models and more, every model's value and rank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from custom_metrics.statistics.intervals import SIGNIFICANCE
from custom_metrics.statistics.paired_difference import rows_needed
from custom_metrics.statistics.units import NOT_MEASURABLE, Unit
from custom_metrics.usage.printable import on_one_line, shorten
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.results.board import Column
from lm_eval_tasks.results.compare import Comparison, Difference
from lm_eval_tasks.results.formats import (
    ARROWS,
    FRACTIONS,
    PAGE,
    Notation,
    Section,
    csv_of,
    json_of,
    p_value,
    render_sections,
    short_names,
)

WITH_POWER = f"with a power of 80 % (two-sided p < {SIGNIFICANCE}, this comparison alone)"
_EACH = 3  # languages up to which each has its verdict
_LONGEST_NAME = 40  # characters: a table fits into 100 columns
_HOW_TO_READ = (
    f"Rank: one more than the number of models that are significantly better (p < {SIGNIFICANCE}, by paired differences). "
    "A model that gives every question the same verdict has none, and over a mean one that lacks a task. Better than: the "
    "numbers of those models. --pairs prints every difference with its bounds and p, also by language."
)


def render(comparison: Comparison, form: str = "text", pairs: bool = False, notation: Notation = FRACTIONS) -> str:
    """The comparison as ``text``, ``markdown``, ``latex``, ``html``, ``csv`` or ``json``, with a line end. Data has all
    differences. For three models and more there is a table of each metric, unless `pairs` are asked for; else one table of
    all differences."""
    if form in ("csv", "json"):
        content = comparison.as_json()
        return csv_of(content["differences"]) if form == "csv" else json_of(content)
    if len(comparison.models) > 2 and not pairs:
        return render_sections(matrices(comparison, notation), form)
    return render_sections([differences_table(comparison, notation)], form)


def letter_of(index: int) -> str:
    """The letter that stands for a model in tables."""
    return chr(ord("A") + index) if index < 26 else f"M{index + 1}"


def legend(models: Sequence[str]) -> tuple[str, ...]:
    """The letters of the models, with their names."""
    return tuple(f"{letter_of(index)} = {on_one_line(model)}" for index, model in enumerate(models))


# ------------------------------------------------------------------------------------------------------ all differences


def differences_table(comparison: Comparison, notation: Notation = FRACTIONS) -> Section:
    """A table of all differences, with what is better in words, and how to read it."""
    names = [on_one_line(name) for name in comparison.models]
    letters = [letter_of(index) for index in range(len(names))]
    two = len(names) == 2
    filters = {(row.benchmark, row.metric, row.filter) for row in comparison.differences}
    several = len(filters) > len({filtered[:2] for filtered in filters})
    dropped = any(row.only_first or row.only_second for row in comparison.differences)
    header = ["task", "metric", *(letters if two else ("pair", "first", "second")), "difference", "p", "n", "shows"]
    rows = []
    for row in comparison.differences:
        cells = [
            f"{row.task} (mean of {row.tasks})" if row.group else row.task,
            row.metric + ARROWS[row.higher_is_better] + (f" ({row.filter})" if several else ""),
            *([] if two else [f"{letters[row.first]} - {letters[row.second]}"]),
            _value(row.first_value, row.first_own, row, notation) if row.first_measurable else NOT_MEASURABLE,
            _value(row.second_value, row.second_own, row, notation) if row.second_measurable else NOT_MEASURABLE,
            _difference(row, notation),
            p_value(row.p_adjusted) + ("*" if row.significant else ""),
            f"{row.n}" + ("" if row.unit == "documents" else f" {row.unit}"),
            "-" if math.isnan(row.detectable) else notation.size(row.detectable, row.measured.unit),
            *([f"{row.only_first} / {row.only_second}"] if dropped else []),
        ]
        rows.append(tuple(map(on_one_line, cells)))
    texts = sentences(comparison, [*short_names(comparison.models).values()], notation)
    before = (*legend(comparison.models), *map(on_one_line, _across(comparison, letters)))
    after = tuple(map(on_one_line, (*texts, *_explanations(comparison, letters))))
    return Section((*header, *(["only one"] if dropped else [])), tuple(rows), before, after)


def _value(value: float, run_value: float, row: Difference, notation: Notation) -> str:
    text, own_text = (notation.value(each, row.measured.unit) for each in (value, run_value))
    return text if text == own_text else f"{text} ({own_text})"


def _difference(row: Difference, notation: Notation) -> str:
    if row.n == 0:
        return "-"
    if not row.is_measurable and math.isnan(row.low + row.high):
        return NOT_MEASURABLE
    unit = row.measured.unit
    value = notation.difference(row.difference, unit) if row.is_measurable else NOT_MEASURABLE
    return f"{value} [{notation.range(row.low, row.high, unit) or '-'}]"


def sentences(comparison: Comparison, names: Sequence[str], notation: Notation = FRACTIONS) -> list[str]:
    """A sentence for each headline metric and pair of models: which is better and by how much, or that no difference is
    shown. `names` are the models' names to print."""
    by_pair: dict[tuple[Any, ...], list[Difference]] = {}
    for row in comparison.differences:
        key = (row.benchmark or row.task, row.metric, row.filter, row.first, row.second)
        by_pair.setdefault(key, []).append(row)
    texts = []
    for rows in by_pair.values():
        if not any(row.headline for row in rows):
            continue
        first, second = names[rows[0].first], names[rows[0].second]
        groups, tasks = [row for row in rows if row.group], [row for row in rows if not row.group]
        clauses = [verdict(row, names, notation) for row in groups or tasks if groups or len(tasks) < 2]
        if len(tasks) > 1:
            by_task = _languages_sentence(tasks, first, second)
            clauses.append(f"{'Of' if clauses else 'of'} {by_task}")
        about = f", {first} against {second}" if len(names) > 2 else ""
        texts.append(f"{rows[0].metric}{about}: {' '.join(clauses)}")
    return texts


def verdict(row: Difference, names: Sequence[str], notation: Notation = FRACTIONS) -> str:
    """One sentence on a difference, for terminals and pages: which model is better, both values, and the difference with
    bounds and p; or, where none is shown, how many documents would show one of this size. `names` are the models'."""
    first, second, unit = names[row.first], names[row.second], row.measured.unit
    where = f"over {row.task} (mean of {row.tasks} tasks)" if row.group else f"on {row.task}"
    if row.language and not row.group and row.task == f"{row.benchmark}_{row.language}":
        where = f"in {catalogue.languages().get(row.language, row.language)}"
    if row.n == 0:
        return f"{first} and {second} cannot be compared {where}: no document counts for both."
    if math.isnan(row.p):
        return f"{first} and {second} cannot be compared {where}: too little is known of the detector's errors."
    turned = row.significant and (row.better == row.second if row.better is not None else row.difference < 0)
    values, ends, sign = (row.first_value, row.second_value), (row.low, row.high), 1
    if turned:
        first, second, values, ends, sign = second, first, values[::-1], (-row.high, -row.low), -1
    shown = " against ".join(notation.value(value, unit) for value in values)
    known = f"{shown}, " if row.first_measurable and row.second_measurable else ""
    difference = notation.difference(sign * row.difference, unit) if row.is_measurable else NOT_MEASURABLE
    p = p_value(row.p_adjusted)
    p = f"p {p[0]} {p[1:]}" if p.startswith("<") else f"p = {p}"
    figures = f"{known}difference {difference}{_bounds(*ends, unit, notation)}, {p}."
    if row.significant:
        has = f"has a {'higher' if sign * row.difference > 0 else 'lower'} {row.measured.in_prose} than"
        return f"{first} {row.measured.wins or has} {second} {where}: {figures}"
    size = abs(row.difference)
    variance = row.n * row.standard_error**2
    needed = rows_needed(size, variance, row.of_shares) if size and variance > 0 else 0
    more = f" About {needed - row.n:,} more {row.unit} would show a difference of this size." if needed > row.n else ""
    return f"No difference is shown between {first} and {second} {where}: {figures}{more}"


def _bounds(low: float, high: float, unit: Unit, notation: Notation) -> str:
    ends = [notation.difference(end, unit).removesuffix(" points") for end in (low, high)]
    return "" if math.isnan(low + high) else f" [{', '.join(ends)}]"


def deciding(comparison: Comparison, task: str) -> Difference | None:
    """The difference that decides between the two models that have a task or group; ``None`` for other numbers of models.

    It is that of the most prominent headline. Where a rate is not measurable for one of the models, that which a detector
    flags decides instead of all rates that are corrected for its errors."""
    rows = [row for row in comparison.differences if row.task == task and row.headline]
    if len({(row.first, row.second) for row in rows}) != 1:
        return None
    if any(row.measured.needs and not row.is_shown for row in rows):
        rows = [row for row in rows if not row.measured.needs] or rows
    return max(rows, key=lambda row: (not math.isnan(row.p), row.measured.prominence))


def verdicts(comparison: Comparison, notation: Notation = PAGE) -> tuple[list[Difference], list[str]]:
    """What decides between two models on each benchmark, and a sentence on each; of more than :data:`_EACH` languages, on
    their mean."""
    rows: list[Difference] = []
    texts: list[str] = []
    names = [*short_names(comparison.models).values()]
    groups = {row.task: row for row in comparison.differences if row.group}
    for task in dict.fromkeys(row.task for row in comparison.differences):
        row = deciding(comparison, task)
        if row is None:
            continue
        mean = [each for each in groups.values() if each.benchmark == row.benchmark and each.tasks > _EACH]
        if row.group == bool(mean):
            rows.append(row)
            raw = " Compared is what a detector flags, as no corrected rate is measurable for both."
            texts.append(verdict(row, names, notation) + (raw if row.measured.is_raw else ""))
    return rows, texts


def short_table(comparison: Comparison) -> Section:
    """One row for each benchmark and language, and the verdict on it."""
    (rows, texts), names, cells = verdicts(comparison), [*short_names(comparison.models).values()], []
    for row in rows:
        unit = row.measured.unit
        values = [
            f"{names[model]} {PAGE.value(value, unit) if is_measurable else NOT_MEASURABLE}"
            for model, value, is_measurable in (
                (row.first, row.first_value, row.first_measurable),
                (row.second, row.second_value, row.second_measurable),
            )
        ]
        difference = f"{PAGE.difference(row.difference, unit)}{_bounds(row.low, row.high, unit, PAGE)}"
        p = p_value(row.p_adjusted) + ("*" if row.significant else "")
        cells.append((on_one_line(row.task), row.metric + ARROWS[row.higher_is_better], *values, difference, p))
    return Section(("task", "metric", "first", "second", "difference [95 %]", "p"), tuple(cells), (), tuple(texts))


def _languages_sentence(tasks: Sequence[Difference], first: str, second: str) -> str:
    """How many tasks show which model ahead, to follow "of"."""
    significant = [row for row in tasks if row.significant]
    directed = tasks[0].higher_is_better is not None
    up = [row for row in significant if (row.difference > 0) == (tasks[0].higher_is_better is not False)]
    counts = [(first, len(up)), (second, len(significant) - len(up))]
    clauses = [f"{model} is {'better' if directed else 'higher'} in {n}" for model, n in counts if n]
    unknown = sum(math.isnan(row.p) for row in tasks)
    not_shown = len(tasks) - len(significant) - unknown
    clauses += [f"no difference is shown in {not_shown}"] if not_shown else []
    clauses += [f"the models cannot be compared in {unknown}"] if unknown else []
    return f"{len(tasks)} tasks, {', '.join(clauses)}."


def _across(comparison: Comparison, names: Sequence[str]) -> list[str]:
    """The settings that the runs are compared across, and the tasks of other names that are compared, as lines."""
    lines = [
        f"Compared across {setting}: "
        + "; ".join(f"{name} has {value or 'none'}" for name, value in zip(names, values, strict=True))
        for setting, values in comparison.across.items()
    ]
    if pairs := [" with ".join(tasks) for tasks in comparison.paired.values()]:
        lines.append(f"Paired: {shorten(pairs, 2)}")
    return lines


def _explanations(comparison: Comparison, names: Sequence[str], pairs: bool = True) -> list[str]:
    """Notes below a table: what its columns mean (of one of `pairs`), the methods behind bounds and p, and the notes of the
    comparison."""
    rows = comparison.differences
    lines = []
    if pairs:
        lines = [
            f"Difference: first minus second, over what both models have, with 95 % bounds. * p < {SIGNIFICANCE}.",
            f"Shows: the smallest difference that so many documents show {WITH_POWER}.",
        ]
    if sizes := sorted({row.family for row in rows if row.family > 1}):
        of_many = len(comparison.models) > 2
        family = (
            "all pairs of models on a task or group" if of_many else "the languages of a task, or the tasks of a group"
        )
        lines.append(
            f"p is corrected by Holm over {family} ({', '.join(map(str, sizes))} comparisons). Metrics are not corrected "
            f"for each other. Bounds are those of each comparison alone."
        )
    lines += dict.fromkeys(f"{row.metric}: {row.measured.definition}." for row in rows if row.measured.balances)
    lines += [f"Doubts about {names[model]}: {'; '.join(doubts)}." for model, doubts in comparison.doubts.items()]
    if not all(row.is_shown for row in rows):
        lines.append("Not measurable: the 95 % bounds span more than half of the scale (--format json has the value).")
    if pairs and any(row.only_first or row.only_second for row in rows):
        lines.append("Only one: documents that count for one of both models alone, and are left out of both values.")
    values = [pair for row in rows for pair in ((row.first_value, row.first_own), (row.second_value, row.second_own))]
    if pairs and any(abs(value - run_value) > 1e-9 for value, run_value in values):
        lines.append("In brackets: the run's own value, over all documents that count for that model.")
    if methods := dict.fromkeys(row.method for row in rows if row.method):
        lines.append(f"Methods: {'; '.join(methods)}.")
    unshared = [
        f"{task.task}: {', '.join(f'{n} in {name} only' for name, n in zip(names, task.only, strict=True) if n)}"
        for task in comparison.joined
        if any(task.only)
    ]
    if unshared:
        more = f"; and {len(unshared) - 5} more tasks" if len(unshared) > 5 else ""
        lines.append(f"Documents that are not compared: {'; '.join(unshared[:5])}{more}.")
    lines += [f"{note}." for note in comparison.notes]
    return lines + [f"{refusal.task} is left out: {refusal.reason}." for refusal in comparison.refused]


# ------------------------------------------------------------------------------------------------------ of many models


def matrices(comparison: Comparison, notation: Notation = FRACTIONS) -> list[Section]:
    """A table of each metric of a group, or of a task that is in no group here: every model's value and rank, and which
    models it is better than."""
    in_groups = {(each.benchmark, each.metric.name, each.filter) for each in comparison.columns if each.group}
    columns = [
        column
        for column in comparison.columns
        if column.group or (column.benchmark, column.metric.name, column.filter) not in in_groups
    ]
    names = [shortened(on_one_line(name)) for name in comparison.models]
    across = f"across {', '.join(comparison.across)}" if comparison.across else ""
    sections = [_matrix(comparison, column, names, across, notation) for column in columns]
    notes = tuple(map(on_one_line, (_HOW_TO_READ, *_explanations(comparison, names, pairs=False))))
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
    rows = [row for row in comparison.select(column.metric.name, column.name) if row.filter == column.filter]
    place = {model: at for at, model in enumerate(column.order, 1)}
    cells = [
        (
            str(at),
            names[model],
            notation.value(cell.value, column.metric.unit) if cell.is_measurable else NOT_MEASURABLE,
            str(cell.rank or "-"),
            _ranges(sorted(place[other] for other in column.beaten_by(model))) or "-",
        )
        for model, at in place.items()
        for cell in [column.cells[model]]
    ]
    most = max(row.tasks for row in rows)
    partly = ", or of those that a model has" if any(row.tasks < most for row in rows) else ""
    where = f"{column.name} (mean of {most} tasks{partly})" if column.group else column.name
    metric = column.metric
    better = f", {metric.better} is better" if metric.better else ""
    filtered = f", {column.filter}" if column.filter not in ("answer", "tags", "none") else ""
    title = metric.title and f"{metric.title}: "
    lines = (
        f"{title}{metric.name}{filtered}{better}",
        "; ".join(filter(None, (where, across))),
        _detectable(rows, notation),
    )
    heading = tuple(map(on_one_line, filter(None, lines)))
    return Section(("no.", "model", "value", "rank", "better than"), tuple(cells), heading)


def _detectable(rows: Sequence[Difference], notation: Notation) -> str:
    """How small a difference the pairs show, in words; empty where that is not known."""
    most = max(row.tasks for row in rows)
    rows = [row for row in rows if row.tasks == most]
    smallest = sorted(row.detectable for row in rows if not math.isnan(row.detectable))
    extremes = (*smallest[:1], *smallest[-1:])
    ends = " to ".join(dict.fromkeys(notation.size(end, rows[0].measured.unit) for end in extremes))
    counts = " to ".join(dict.fromkeys(f"{f((row.n for row in rows if row.n), default=0):,}" for f in (min, max)))
    return f"{counts} {rows[0].unit} show a difference of {ends} (power 80 %, one comparison)" if ends else ""


def _ranges(numbers: Sequence[int]) -> str:
    """Rising numbers, with runs of them as ranges: ``2, 4-11``."""
    runs = [[at for _, at in run] for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
