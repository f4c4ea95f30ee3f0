"""Panels of horizontal lines with figures and their bounds: languages, tasks or systems by series."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from custom_metrics.statistics.figures import Figure
from lm_eval_tasks.results.report.plots import drawing
from lm_eval_tasks.results.report.plots.drawing import Axis
from lm_eval_tasks.results.report.plots.plot import is_unknown

SHARE, PERCENT = (-0.03, 1.03), (-3.0, 103.0)
"""Limits for shares; the same in percent."""

_HEIGHT = 0.125  # inches of a figure


class Line(NamedTuple):
    """A line of a panel: its label, and a figure for each series, undefined where there is none. Values to compare with are
    short ticks `behind` them. A mean is set apart from the lines above."""

    label: str
    figures: Sequence[Figure]
    behind: Sequence[float] = ()
    is_mean: bool = False


class Panel(NamedTuple):
    """Lines under a title, from top to bottom, and the axis of values. All panels of a picture have the same labels."""

    title: str
    lines: Sequence[Line]
    x: Axis


def draw(panels: Sequence[Panel], series: Sequence[str], behind: str = "") -> Any:
    """Draw panels as a figure. Its legend names the series, and the ticks `behind`; a single series has no legend."""
    labels = [line.label.split("\n") for panel in panels for line in panel.lines]
    tallest = max(map(len, labels), default=1)
    widest = max((len(text) for label in labels for text in label), default=0)
    height = max(len(series) * _HEIGHT + 0.1, 0.14 * tallest + 0.1, 0.24)
    lines = max((len(panel.lines) for panel in panels), default=1)
    width, x_axes = (2.9 if len(panels) > 1 else 4.4), [panel.x for panel in panels]
    titles = [panel.title for panel in panels]
    figure, grid = drawing.panels(titles, x_axes, width, 0.6 + height * lines, 0.6 + 0.075 * widest)
    figure.get_layout_engine().set(w_pad=0.1)
    for axes, panel in zip(grid, panels, strict=True):
        _draw_panel(axes, panel, len(series))
    legend = [(name, {"linewidth": 1.4, **drawing.marker_style(number)}) for number, name in enumerate(series)]
    if behind:
        legend.append((behind, {"marker": "|", "markersize": 7, "color": drawing.INK, "alpha": 0.5}))
    drawing.legend(figure, legend if len(legend) > 1 else [])
    return figure


def _draw_panel(axes: Any, panel: Panel, series: int) -> None:
    left, right = panel.x.limits or SHARE
    for is_mean, strength in ((True, 1.0), (False, 0.12)):  # rules between the lines
        heights = [y - 0.5 for y, line in enumerate(panel.lines) if y and line.is_mean == is_mean]
        rules = [((left, y), (right, y)) for y in heights]
        drawing.draw_lines(axes, rules, color=drawing.INK, linewidth=0.7, alpha=strength)
    ticks = [((x, y - 0.32), (x, y + 0.32)) for y, line in enumerate(panel.lines) for x in line.behind]
    drawing.draw_lines(axes, ticks, color=drawing.INK, linewidth=0.9, alpha=0.35)
    for number in range(series):
        middle = (number - (series - 1) / 2) * 0.8 / series
        points = [(panel.x.scaled(line.figures[number]), Figure(y + middle)) for y, line in enumerate(panel.lines)]
        drawing.draw_points(axes, points, drawing.marker_style(number), 1.4, 0.6)
    for y, line in enumerate(panel.lines):
        if all(math.isnan(figure.value) and not is_unknown(figure) for figure in line.figures):
            axes.text(0.01, y, "undefined", transform=axes.get_yaxis_transform(), va="center", fontsize=7)
    axes.set_yticks(range(len(panel.lines)), [line.label for line in panel.lines])
    axes.set(xlim=panel.x.limits, ylim=(len(panel.lines) - 0.5, -0.5))
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)
