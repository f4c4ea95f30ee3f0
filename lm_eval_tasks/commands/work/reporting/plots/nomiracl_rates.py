"""NoMIRACL: hallucination rate against error rate, a point for each model and language, with bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from custom_metrics.figures import Figure
from lm_eval_tasks.commands.work.reporting.families import Family
from lm_eval_tasks.commands.work.reporting.headlines import filter_of
from lm_eval_tasks.commands.work.reporting.plots.model_names import short_names, wrapped
from lm_eval_tasks.commands.work.reporting.plots.plot import Cell, Plot
from lm_eval_tasks.commands.work.reporting.plots.point_labels import place

__all__ = ["MEAN", "Point", "plot", "points"]

RATES = ("hallucination_rate", "error_rate")
MEAN = "mean"
"""In place of a language: the mean over a model's languages."""

_COLUMNS = (
    "model",
    "language",
    *(f"{rate}{part}" for rate in RATES for part in ("", "_low", "_high", "_n")),
)


class Point(NamedTuple):
    """A model in a language, or its mean over languages (:data:`MEAN`)."""

    model: str
    language: str
    hallucination: Figure
    error: Figure

    @property
    def is_defined(self) -> bool:
        """Whether both rates are, so that it can be drawn."""
        return not math.isnan(self.hallucination.value + self.error.value)


def points(families: Sequence[tuple[str, Family]]) -> list[Point]:
    """The points of models, model by model, the mean last where a model has several languages.

    Args:
        families: name of the model and its tasks.
    """
    found = []
    for model, family in families:
        filter_name = filter_of(family.any)
        hallucination, error = (family.figures(rate, filter_name) for rate in RATES)
        found += [Point(model, language, hallucination[language], error[language]) for language in family.tasks]
        if len(family.tasks) > 1:
            found.append(Point(model, MEAN, *(family.mean(rate, filter_name) for rate in RATES)))
    return found


def plot(families: Sequence[tuple[str, Family]]) -> Plot:
    """The plot of a family of tasks."""
    found = points(families)
    family = families[0][1]
    undefined = [f"{point.language} of {point.model}" for point in found if not point.is_defined]
    caption = (
        "Each point is a model in a language; the large one is its mean over languages. Right: it claims an answer where "
        "no passage holds one. Up: it says that it does not know where a passage holds the answer. Lower left is better. "
        f"Lines are 95 % bounds. Answers are read by the filter {filter_of(family.any)}."
    )
    if undefined:
        caption += f" Not drawn, because a rate is undefined: {', '.join(undefined)}."
    return Plot(
        name=f"{family.name}_rates",
        title=f"Hallucination rate against error rate ({family.name})",
        caption=caption,
        columns=_COLUMNS,
        rows=tuple(_row(point) for point in found),
        draw=lambda: draw(found),
    )


def _row(point: Point) -> tuple[Cell, ...]:
    return (point.model, point.language, *_cells(point.hallucination), *_cells(point.error))


def _cells(figure: Figure) -> tuple[Cell, ...]:
    return (*(None if math.isnan(part) else part for part in figure[:3]), figure.n)


def draw(found: Sequence[Point]) -> Any:
    """A panel for each model; at most three in a row."""
    from lm_eval_tasks.commands.work.reporting.plots import drawing

    models = [*dict.fromkeys(point.model for point in found)]
    names = short_names(models)
    columns = min(3, max(1, len(models)))
    rows = -(-len(models) // columns) or 1
    made = drawing.figure(max(4.2, 3.5 * columns), 3.6 * rows)
    panels = made.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat
    placed = []
    for number, (axes, model) in enumerate(zip(panels, models, strict=False)):
        colour = drawing.COLOURS[number % len(drawing.COLOURS)]
        marker = drawing.MARKERS[number % len(drawing.MARKERS)]
        drawn = [point for point in found if point.model == model and point.is_defined]
        for point in drawn:
            is_mean = point.language == MEAN
            _cross(axes, point, colour, 2.0 if is_mean else 0.8, 1 if is_mean else 0.35)
            axes.plot(
                *(100 * point.hallucination.value, 100 * point.error.value),
                linestyle="none",
                marker=marker,
                markersize=9 if is_mean else 4.5,
                color=colour,
                markeredgecolor=drawing.INK if is_mean else colour,
                markeredgewidth=1,
                zorder=4 if is_mean else 3,
            )
        if not drawn:
            axes.text(0.5, 0.5, "undefined", transform=axes.transAxes, ha="center")
        axes.set_title(wrapped(names[model], 34), loc="left")
        axes.set(xlim=(-4, 104), ylim=(-4, 104), aspect="equal")
        placed.append((axes, drawn))
    for axes in [*panels][len(models) :]:
        axes.set_axis_off()
    made.supxlabel("hallucination rate (%)", fontsize=9)
    made.supylabel("error rate (%)", fontsize=9)
    for axes, drawn in placed:
        at = [(100 * point.hallucination.value, 100 * point.error.value) for point in drawn]
        place(axes, at, [point.language for point in drawn])
    return made


def _cross(axes: Any, point: Point, colour: str, width: float, strength: float) -> None:
    x, y = 100 * point.hallucination.value, 100 * point.error.value
    style = {"color": colour, "linewidth": width, "alpha": strength, "solid_capstyle": "butt", "zorder": 2}
    if not math.isnan(point.hallucination.low):
        axes.plot([100 * point.hallucination.low, 100 * point.hallucination.high], [y, y], **style)
    if not math.isnan(point.error.low):
        axes.plot([x, x], [100 * point.error.low, 100 * point.error.high], **style)
