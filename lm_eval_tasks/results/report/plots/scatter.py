"""Two figures against each other, with bounds either way, in panels of one scale."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.units import NOT_MEASURABLE
from lm_eval_tasks.results.report.plots.plot import is_unknown
from lm_eval_tasks.results.report.plots.point_labels import place

__all__ = ["Axis", "Dot", "Panel", "draw", "draw_apart"]


class Dot(NamedTuple):
    """A point.

    Attributes:
        label: beside it; empty for none.
        x, y: with bounds where they have them. A dot with an undefined one is not drawn.
        series: which colour and marker.
        is_mean: drawn large and hollow.
    """

    label: str
    x: Figure
    y: Figure
    series: int = 0
    is_mean: bool = False

    @property
    def is_defined(self) -> bool:
        """Whether it can be drawn."""
        return not math.isnan(self.x.value + self.y.value)


class Panel(NamedTuple):
    """Dots under a title."""

    title: str
    dots: Sequence[Dot]


class Axis(NamedTuple):
    """An axis.

    Attributes:
        label: what it measures.
        factor: 100 where shares are shown as percent.
        log: logarithmic, which only x can be.
    """

    label: str
    factor: float = 1
    log: bool = False


def draw(panels: Sequence[Panel], x: Axis, y: Axis, mean: str = "", is_square: bool = False, columns: int = 3) -> Any:
    """Panels of one scale, each in the colour of its dots.

    Args:
        panels: from left to right, then from top to bottom.
        x, y: the axes.
        mean: what a large hollow point is, for the legend; empty where there is none.
        is_square: both axes show the same range.
        columns: panels side by side, at most.
    """
    from lm_eval_tasks.results.report.plots import drawing

    side = min(columns, max(1, len(panels)))
    deep = -(-len(panels) // side) or 1
    means = mean and any(dot.is_mean and dot.is_defined for panel in panels for dot in panel.dots)
    made = drawing.figure(max(4.6, 3.4 * side + 0.5), (3.3 if side > 1 else 3.8) * deep + (0.5 if means else 0.3))
    grid = [*made.subplots(deep, side, sharex=True, sharey=True, squeeze=False).flat]
    every = [dot for panel in panels for dot in panel.dots]
    for number, (axes, panel) in enumerate(zip(grid, panels, strict=False)):
        _fill(axes, panel, x, y, every)
        if is_square:
            same = _limits([part for dot in every if dot.is_defined for part in (dot.x, dot.y)], x.factor)
            axes.set(xlim=same, ylim=same)
        if number + side >= len(panels):
            axes.set_xlabel(x.label)
            axes.tick_params(labelbottom=True)
        if number % side == 0:
            axes.set_ylabel(y.label)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    if means:
        handle = drawing.handle(0, is_mean=True)
        handle.set_markeredgecolor(drawing.INK)
        drawing.legend(made, [handle], [mean])
    _label(made, [(axes, panel.dots, x, y) for axes, panel in zip(grid, panels, strict=False)])
    return made


def draw_apart(parts: Sequence[tuple[Sequence[Dot], Axis, Axis]], series: Mapping[int, str]) -> Any:
    """Panels with axes of their own side by side, under one legend.

    Args:
        parts: dots and their axes.
        series: number to name, for the legend.
    """
    from lm_eval_tasks.results.report.plots import drawing

    width = 0.8 + 4.2 * len(parts)
    made = drawing.figure(width, 3.8 + drawing.legend_height([*series.values()], width))
    grid = made.subplots(1, len(parts), squeeze=False)[0]
    for axes, (dots, x, y) in zip(grid, parts, strict=True):
        _fill(axes, Panel("", dots), x, y, dots)
        axes.set(xlabel=x.label, ylabel=y.label)
    drawing.legend(made, [drawing.handle(number) for number in series], [*series.values()])
    _label(made, [(axes, dots, x, y) for axes, (dots, x, y) in zip(grid, parts, strict=True)])
    return made


def _fill(axes: Any, panel: Panel, x: Axis, y: Axis, every: Sequence[Dot]) -> None:
    from lm_eval_tasks.results.report.plots import drawing

    drawn = [dot for dot in panel.dots if dot.is_defined]
    for series, is_mean in dict.fromkeys((dot.series, dot.is_mean) for dot in drawn):
        alike = [dot for dot in drawn if (dot.series, dot.is_mean) == (series, is_mean)]
        _dots(axes, alike, x.factor, y.factor, drawing.look(series, is_mean))
    if not drawn:
        unknown = any(is_unknown(figure) for dot in panel.dots for figure in (dot.x, dot.y))
        axes.text(0.5, 0.5, NOT_MEASURABLE if unknown else "undefined", transform=axes.transAxes, ha="center")
    axes.set_title(panel.title, loc="left")
    shown = [dot for dot in every if dot.is_defined]
    axes.set_ylim(_limits([dot.y for dot in shown], y.factor))
    if x.log:
        low, high = _decades([x.factor * dot.x.value for dot in shown])
        axes.set(xscale="log", xlim=(low * 0.8, high / 0.8))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_minor_formatter(lambda value, _: "")
    else:
        axes.set_xlim(_limits([dot.x for dot in shown], x.factor))


def _limits(figures: Sequence[Figure], factor: float) -> tuple[float, float]:
    """From 0, so that lengths on paper are not misread, to what holds every upper bound, with a margin for marks."""
    values = [part for figure in figures for part in figure[:3] if not math.isnan(part)]
    top, bottom = (factor * max(values, default=1)) or factor, factor * min(0, *values, 0)
    margin = 0.05 * (top - bottom)
    return bottom - margin, top + margin


def _decades(values: Sequence[float]) -> tuple[float, float]:
    """The powers of ten around positive values."""
    logs = [math.log10(value) for value in values if value > 0] or [0.0]
    low, high = math.floor(min(logs)), math.ceil(max(logs))
    return 10.0**low, 10.0 ** max(high, low + 1)


def _label(made: Any, parts: Sequence[tuple[Any, Sequence[Dot], Axis, Axis]]) -> None:
    """Write the labels of all panels, once these have their places, which labels must not move."""
    made.draw_without_rendering()
    made.set_layout_engine("none")
    for axes, dots, x, y in parts:
        drawn = [dot for dot in dots if dot.is_defined]
        at = [(x.factor * dot.x.value, y.factor * dot.y.value) for dot in drawn]
        place(axes, at, [dot.label for dot in drawn], [6 if dot.is_mean else 3 for dot in drawn])


def _dots(axes: Any, dots: Sequence[Dot], x_factor: float, y_factor: float, look: Mapping[str, Any]) -> None:
    """The dots of one look, and their bounds."""
    from lm_eval_tasks.results.report.plots import drawing

    at = [(x_factor * dot.x.value, y_factor * dot.y.value) for dot in dots]
    across = [
        ((x_factor * dot.x.low, y), (x_factor * dot.x.high, y))
        for dot, (_, y) in zip(dots, at, strict=True)
        if not math.isnan(dot.x.low + dot.x.high)
    ]
    upright = [
        ((x, y_factor * dot.y.low), (x, y_factor * dot.y.high))
        for dot, (x, _) in zip(dots, at, strict=True)
        if not math.isnan(dot.y.low + dot.y.high)
    ]
    is_mean = dots[0].is_mean
    drawing.segments(
        axes,
        [*across, *upright],
        color=look["color"],
        linewidth=1.8 if is_mean else 0.9,
        alpha=0.9 if is_mean else 0.45,
    )
    axes.plot([x for x, _ in at], [y for _, y in at], linestyle="none", zorder=4 if is_mean else 3, **look)
