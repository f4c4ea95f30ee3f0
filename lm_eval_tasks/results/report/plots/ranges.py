"""Figures on lines below each other, each with its bounds, in panels of one scale: languages, tasks or models by series."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from custom_metrics.statistics.figures import Figure
from lm_eval_tasks.results.report.plots.plot import is_unknown
from lm_eval_tasks.results.report.plots.scatter import Axis

__all__ = ["PERCENT", "Line", "Panel", "draw"]

PERCENT = (-3.0, 103.0)
"""Limits for shares in percent."""

_HEIGHT = 0.125  # inches of a figure


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
    """Lines under a title. All panels of a picture have the same labels.

    Attributes:
        title: above it.
        lines: from top to bottom.
        x: the axis of values.
        limits: of what is shown of it.
    """

    title: str
    lines: Sequence[Line]
    x: Axis
    limits: tuple[float, float]


def draw(panels: Sequence[Panel], series: Sequence[str], behind: str = "") -> Any:
    """The figure.

    Args:
        panels: side by side, at most three; then below.
        series: names of the series, for the legend; there is none for one series.
        behind: what the ticks are, for the legend; empty where there are none.
    """
    from lm_eval_tasks.results.report.plots import drawing

    side = min(3, max(1, len(panels)))
    deep = -(-len(panels) // side) or 1
    lines = max((len(panel.lines) for panel in panels), default=1)
    labels = [part for panel in panels for line in panel.lines for part in line.label.split("\n")]
    tall = max((line.label.count("\n") + 1 for panel in panels for line in panel.lines), default=1)
    room = max(len(series) * _HEIGHT + 0.1, 0.14 * tall + 0.1, 0.24)
    handles = [drawing.handle(number, line=1.4) for number in range(len(series))] if len(series) > 1 or behind else []
    names = [*series][: len(handles)]
    if behind:
        handles.append(drawing.tick_handle())
        names.append(behind)
    width = 0.6 + 0.075 * max(map(len, labels), default=0) + (4.4 if side == 1 else 2.9 * side)
    made = drawing.figure(width, (0.75 + room * lines) * deep + drawing.legend_height(names, width))
    made.get_layout_engine().set(w_pad=0.1)
    grid = [*made.subplots(deep, side, sharey=True, squeeze=False).flat]
    for number, (axes, panel) in enumerate(zip(grid, panels, strict=False)):
        _fill(axes, panel, len(series), drawing)
        axes.set_title(panel.title, loc="left")
        if number + side >= len(panels):
            axes.set_xlabel(panel.x.label)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    drawing.legend(made, handles, names)
    return made


def _fill(axes: Any, panel: Panel, series: int, drawing: Any) -> None:
    factor, step = panel.x.factor, 0.8 / max(series, 1)
    _behind(axes, panel, drawing)
    for number in range(series):
        look = drawing.look(number)
        heights = [place + (number - (series - 1) / 2) * step for place in range(len(panel.lines))]
        shown = [
            (line.figures[number], y)
            for line, y in zip(panel.lines, heights, strict=True)
            if not math.isnan(line.figures[number].value) or is_unknown(line.figures[number])
        ]
        drawing.segments(
            axes,
            [((factor * one.low, y), (factor * one.high, y)) for one, y in shown if not math.isnan(one.low + one.high)],
            color=look["color"],
            linewidth=1.4,
            alpha=0.6,
        )
        marked = [(one, y) for one, y in shown if not is_unknown(one)]
        axes.plot([factor * one.value for one, _ in marked], [y for _, y in marked], linestyle="none", **look)
    for place, line in enumerate(panel.lines):
        if all(math.isnan(figure.value) and not is_unknown(figure) for figure in line.figures):
            axes.text(0.01, place, "undefined", transform=axes.get_yaxis_transform(), va="center", fontsize=7)
    axes.set_yticks(range(len(panel.lines)), [line.label for line in panel.lines])
    axes.set(xlim=panel.limits, ylim=(len(panel.lines) - 0.5, -0.5))
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)


def _behind(axes: Any, panel: Panel, drawing: Any) -> None:
    """Lines between the lines, and what others have reached."""
    left, right = panel.limits
    means = [place for place, line in enumerate(panel.lines) if line.is_mean and place]
    between = [place for place in range(1, len(panel.lines)) if place not in means]
    for places, strength in ((means, 1.0), (between, 0.12)):
        drawing.segments(
            axes,
            [((left, place - 0.5), (right, place - 0.5)) for place in places],
            color=drawing.INK,
            linewidth=0.7,
            alpha=strength,
        )
    ticks = [
        ((panel.x.factor * value, place - 0.32), (panel.x.factor * value, place + 0.32))
        for place, line in enumerate(panel.lines)
        for value in line.behind
    ]
    drawing.segments(axes, ticks, color=drawing.INK, linewidth=0.9, alpha=0.35)
