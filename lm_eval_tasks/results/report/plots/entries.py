"""The data of plots: figures of models by language or by task, and as cells of a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.units import NOT_MEASURABLE
from lm_eval_tasks.results.report.families import Family

__all__ = [
    "MEAN",
    "UNDEFINED",
    "Cell",
    "Colours",
    "Entry",
    "Named",
    "by_language",
    "by_task",
    "cells",
    "columns_of",
    "is_unknown",
    "language_figures",
    "not_drawn",
    "rows_of",
]

Cell = str | float | int | None
"""A cell of the table that equals a plot; ``None`` for what is not defined."""

Named = tuple[str, Family]
"""The name of a model, and its tasks."""

Colours = Mapping[str, int]
"""The name of a model to the number of its colour, which is the same in every plot."""

MEAN = "mean"
"""In place of a language: the mean over a model's languages."""

UNDEFINED = Figure(math.nan)

_NAMED_IN_CAPTION = 6


class Entry(NamedTuple):
    """Figures of a model in one part of a benchmark.

    Attributes:
        model: its name in the report.
        part: a language or :data:`MEAN`, a task, or a system that a judge has rated.
        figures: metric to figure, as they are drawn: what is not measurable has bounds and no value.
    """

    model: str
    part: str
    figures: Mapping[str, Figure]


def language_figures(family: Family, metric: str) -> dict[str, Figure]:
    """Language to figure, in the order of the codes; where there are several, their mean is last (:data:`MEAN`)."""
    filter_name = family.any.headline_filter
    figures = dict(sorted(family.drawn(metric, filter_name).items()))
    return {**figures, MEAN: family.drawn_mean(metric, filter_name)} if len(figures) > 1 else figures


def by_language(families: Iterable[Named], metrics: Sequence[str]) -> list[Entry]:
    """An entry a language, model by model; the mean is last where a model has several languages."""
    entries: list[Entry] = []
    for model, family in families:
        columns = {metric: language_figures(family, metric) for metric in metrics}
        entries += [
            Entry(model, language, {metric: column[language] for metric, column in columns.items()})
            for language in columns[metrics[0]]
        ]
    return entries


def by_task(families: Iterable[Named], metrics: Iterable[str]) -> list[Entry]:
    """An entry a task, in the order of the families."""
    return [
        Entry(model, family.name, {metric: family.drawn_mean(metric, family.any.headline_filter) for metric in metrics})
        for model, family in families
    ]


def is_unknown(figure: Figure) -> bool:
    """Whether a figure, as it is drawn, is not measurable; an undefined one has no bounds either."""
    return math.isnan(figure.value) and not math.isnan(figure.low + figure.high)


def columns_of(*metrics: str) -> tuple[str, ...]:
    """The columns of figures, four a metric: value, bounds, and how many documents."""
    return tuple(f"{metric}{ending}" for metric in metrics for ending in ("", "_low", "_high", "_n"))


def cells(*figures: Figure) -> tuple[Cell, ...]:
    """Figures in the columns of :func:`columns_of`."""
    row: list[Cell] = []
    for figure in figures:
        value, low, high = (None if math.isnan(number) else number for number in figure[:3])
        row += [NOT_MEASURABLE if is_unknown(figure) else value, low, high, figure.n]
    return tuple(row)


def rows_of(entries: Iterable[Entry]) -> tuple[tuple[Cell, ...], ...]:
    """A row an entry: model, part, and the cells of its figures."""
    return tuple((entry.model, entry.part, *cells(*entry.figures.values())) for entry in entries)


def not_drawn(entries: Iterable[Entry]) -> str:
    """A sentence of a caption about points that are not drawn, and why; empty where all are."""
    reasons: dict[str, list[str]] = {}
    for entry in entries:
        name = f"{entry.part} of {entry.model}"
        if any(math.isnan(figure.value) and not is_unknown(figure) for figure in entry.figures.values()):
            reasons.setdefault("a rate is undefined", []).append(name)
        elif any(map(is_unknown, entry.figures.values())):
            reasons.setdefault("its bounds span more than half of the scale", []).append(name)
    sentences = []
    for why, names in reasons.items():
        more = len(names) - _NAMED_IN_CAPTION
        rest = f" and {more} more" if more > 0 else ""
        sentences.append(f" Not drawn, because {why}: {', '.join(names[:_NAMED_IN_CAPTION])}{rest}.")
    return "".join(sentences)
