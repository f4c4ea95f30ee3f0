"""Three models and more: a table for each metric, with every model's value and rank, and which models it is better than."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby

from custom_metrics.statistics.intervals import SIGNIFICANCE
from custom_metrics.statistics.units import NOT_MEASURABLE
from custom_metrics.usage.printable import on_one_line
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.results.compare.comparison import Column, Comparison, Difference
from lm_eval_tasks.results.compare.rendering import Section, explanations, number, sections

_LONGEST_NAME = 40  # characters: a table fits into 100 columns

_HOW_TO_READ = (
    f"Rank: one more than the number of models that are significantly better (p < {SIGNIFICANCE}, by paired differences). "
    "A model that gives every question the same verdict has none, and over a mean one that lacks a task. Better than: the "
    "numbers of those models. --pairs prints every difference with its bounds and p, also by language."
)


def tables_of(comparison: Comparison, pairs: bool = False) -> list[Section]:
    """The tables that ``compare`` prints: :func:`matrices` of three models and more, unless `pairs` are asked for."""
    return matrices(comparison) if len(comparison.models) > 2 and not pairs else sections(comparison)


def matrices(
    comparison: Comparison, write: Callable[[float, Metric], str] = lambda value, metric: number(value)
) -> list[Section]:
    """A table of each metric of a group, or of a task that is in no group here. `write` gives a value's text: on a terminal
    and in files, fractions."""
    in_groups = {(row.benchmark, row.metric, row.filter) for row in comparison.differences if row.group}
    tables: dict[tuple[str, str, str], list[Difference]] = {}
    for row in comparison.differences:
        if row.group or (row.benchmark, row.metric, row.filter) not in in_groups:
            tables.setdefault((row.task, row.metric, row.filter), []).append(row)
    names = [shortened(on_one_line(name)) for name in comparison.models]
    across = f"across {', '.join(comparison.across)}" if comparison.across else ""
    sections = [_matrix(rows, names, across, write) for rows in tables.values()]
    notes = tuple(map(on_one_line, (_HOW_TO_READ, *explanations(comparison, names, pairs=False))))
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


def _matrix(
    rows: Sequence[Difference], names: Sequence[str], across: str, write: Callable[[float, Metric], str]
) -> Section:
    first, most = rows[0], max(row.tasks for row in rows)
    column = Column.of(rows)
    shown: dict[int, bool] = {}
    for row in rows:
        shown |= {row.first: row.first_measurable, row.second: row.second_measurable}
    models, ranks = column.order, column.ranks
    place = {model: at for at, model in enumerate(models, 1)}
    cells = [
        (
            str(place[model]),
            names[model],
            write(column.values[model], first.measured) if shown[model] else NOT_MEASURABLE,
            str(ranks.get(model, "-")),
            _ranges(sorted(place[other] for other in column.beaten_by(model))) or "-",
        )
        for model in models
    ]
    partly = ", or of those that a model has" if any(row.tasks < most for row in rows) else ""
    where = f"{first.task} (mean of {most} tasks{partly})" if first.group else first.task
    better = {True: ", higher is better", False: ", lower is better", None: ""}[first.higher_is_better]
    filtered = f", {first.filter}" if first.filter not in ("answer", "tags", "none") else ""
    title = first.measured.title and f"{first.measured.title}: "
    lines = f"{title}{first.metric}{filtered}{better}", "; ".join(filter(None, (where, across))), _detectable(rows)
    heading = tuple(map(on_one_line, filter(None, lines)))
    return Section(("no.", "model", "value", "rank", "better than"), tuple(cells), heading)


def _detectable(rows: Sequence[Difference]) -> str:
    """How small a difference the pairs show, in words; empty where that is not known."""
    most = max(row.tasks for row in rows)
    rows = [row for row in rows if row.tasks == most]
    smallest = sorted(row.detectable for row in rows if not math.isnan(row.detectable))
    ends = " to ".join(dict.fromkeys(map(number, (*smallest[:1], *smallest[-1:]))))
    counts = " to ".join(dict.fromkeys(f"{f((row.n for row in rows if row.n), default=0):,}" for f in (min, max)))
    return f"{counts} {rows[0].unit} show a difference of {ends} (power 80 %, one comparison)" if ends else ""


def _ranges(numbers: Sequence[int]) -> str:
    """Rising numbers, with runs of them as ranges: ``2, 4-11``."""
    runs = [[at for _, at in run] for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
