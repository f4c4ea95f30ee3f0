"""Figures on lines below each other, each with its bounds, in panels of one scale: languages, tasks or models by series."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from custom_metrics.figures import Figure
from lm_eval_tasks.commands.work.reporting.plots.scatter import Axis

__all__ = ["PERCENT", "Line", "Panel", "draw"]

PERCENT = (-3.0, 103.0)
"""Limits for shares in percent."""

_HEIGHT = 0.17  # inches of a figure


class Line(NamedTuple):
    """A line of a panel.

    Attributes:
        label: before it.
        figures: one a series, undefined where there is none.
        behind: further values, drawn as short ticks: what others have reached.
        is_mean: set apart from the lines above.
    """

    label: str
    figures: Sequence[Figure]
    behind: Sequence[float] = ()
    is_mean: bool = False


class Panel(NamedTuple):
    """Lines under a title. All panels of a picture have the same labels."""

    title: str
    lines: Sequence[Line]


def draw(panels: Sequence[Panel], x: Axis, limits: tuple[float, float], series: Sequence[str], behind: str = "") -> Any:
    """The figure.

    Args:
        panels: side by side, at most three; then below.
        x: the axis of values.
        limits: of what is shown of it.
        series: names of the series, for the legend.
        behind: what the ticks are, for the legend; empty where there are none.
    """
    from matplotlib.lines import Line2D

    from lm_eval_tasks.commands.work.reporting.plots import drawing

    side = min(3, max(1, len(panels)))
    deep = -(-len(panels) // side) or 1
    lines = max((len(panel.lines) for panel in panels), default=1)
    widest = max((len(part) for panel in panels for line in panel.lines for part in line.label.split("\n")), default=0)
    room = max(len(series) * _HEIGHT + 0.1, 0.3)
    handles = [drawing.handle(number, line=1.4) for number in range(len(series))]
    names = [*series]
    if behind:
        handles.append(Line2D([], [], linestyle="none", marker="|", markersize=7, color=drawing.INK, alpha=0.5))
        names.append(behind)
    per_row = 3 if sum(map(len, names[:3])) < 34 * side else 1
    made = drawing.figure(
        0.6 + 0.075 * widest + (4.4 if side == 1 else 2.9 * side),
        (0.75 + room * lines) * deep + 0.22 * -(-len(names) // per_row) + 0.2,
    )
    grid = [*made.subplots(deep, side, sharex=True, sharey=True, squeeze=False).flat]
    for number, (axes, panel) in enumerate(zip(grid, panels, strict=False)):
        _panel(axes, panel, x, limits, len(series), drawing)
        axes.set_title(panel.title, loc="left")
        if number + side >= len(panels):
            axes.set_xlabel(x.label)
            axes.tick_params(labelbottom=True)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    drawing.legend(made, handles, names, per_row)
    return made


def _panel(axes: Any, panel: Panel, x: Axis, limits: tuple[float, float], series: int, drawing: Any) -> None:
    step = 0.8 / series if series else 0
    for place, line in enumerate(panel.lines):
        if line.is_mean and place:
            axes.axhline(place - 0.5, color=drawing.INK, linewidth=0.8)
        if line.behind:
            at = [x.factor * value for value in line.behind]
            axes.plot(at, [place] * len(at), linestyle="none", marker="|", markersize=10, color=drawing.INK, alpha=0.4)
        for number, figure in enumerate(line.figures):
            if math.isnan(figure.value):
                continue
            y = place + (number - (series - 1) / 2) * step
            look = drawing.look(number)
            if not math.isnan(figure.low + figure.high):
                bounds = [x.factor * figure.low, x.factor * figure.high]
                axes.plot(bounds, [y, y], color=look["color"], linewidth=1.4, alpha=0.6, solid_capstyle="butt")
            axes.plot(x.factor * figure.value, y, linestyle="none", **look)
        if all(math.isnan(figure.value) for figure in line.figures):
            axes.text(0.01, place, "undefined", transform=axes.get_yaxis_transform(), va="center", fontsize=7)
    axes.set_yticks(range(len(panel.lines)), [line.label for line in panel.lines])
    axes.set_ylim(len(panel.lines) - 0.5, -0.5)
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(limits)
