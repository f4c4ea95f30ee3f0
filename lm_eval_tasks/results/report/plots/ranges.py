"""Panels of horizontal lines with figures and their bounds: languages or models by metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from custom_metrics.statistics.figures import Figure
from lm_eval_tasks.results.report.plots import drawing
from lm_eval_tasks.results.report.plots.drawing import Axis

SHARE = (-0.03, 1.03)
"""Limits for shares."""

_HEIGHT = 0.125  # inches of a figure


class Line(NamedTuple):
    """A line of a panel: its label, and its figures below each other. A mean is set apart from the lines above. `looks` are
    the numbers of the figures' colours and markers; default 0, 1, ..."""

    label: str
    figures: Sequence[Figure]
    is_mean: bool = False
    looks: Sequence[int] = ()


class Panel(NamedTuple):
    """Lines under a title, from top to bottom, and the axis of values. All panels of a picture have the same labels."""

    title: str
    lines: Sequence[Line]
    x: Axis


def draw(panels: Sequence[Panel], series: Sequence[str], looks: Sequence[int] = ()) -> Any:
    """Draw panels as a figure. Its legend names the series of these looks, by default 0, 1, ..."""
    lines = panels[0].lines
    labels = [text for line in lines for text in line.label.split("\n")]
    height = max(_HEIGHT * max(len(line.figures) for line in lines) + 0.1, 0.14 * len(labels) / len(lines) + 0.1, 0.24)
    margin = 0.6 + 0.075 * max(map(len, labels))
    width = 2.9 if len(panels) > 1 else 4.4
    figure, grid = drawing.panels([panel.title for panel in panels], width, 0.9 + height * len(lines), margin)
    figure.get_layout_engine().set(w_pad=0.1)
    for axes, panel in zip(grid, panels, strict=True):
        _draw_panel(axes, panel)
    drawing.legend(figure, [*zip(series, map(drawing.marker_style, looks or range(len(series))), strict=True)])
    return figure


def _draw_panel(axes: Any, panel: Panel) -> None:
    by_look: dict[int, list[tuple[float, Figure]]] = {}
    for place, line in enumerate(panel.lines):
        if place:
            axes.axhline(place - 0.5, color=drawing.INK, linewidth=0.7, alpha=1 if line.is_mean else 0.12)
        number = len(line.figures)
        for at, (look, figure) in enumerate(zip(line.looks or range(number), line.figures, strict=True)):
            height = place + (at - (number - 1) / 2) * 0.8 / number
            by_look.setdefault(look, []).append((height, figure))
    for look, points in by_look.items():
        heights, style = [y for y, _ in points], drawing.marker_style(look)
        axes.hlines(heights, [x.low for _, x in points], [x.high for _, x in points], color=style["color"])
        axes.plot([x.value for _, x in points], heights, linestyle="none", **style)
    axes.set_yticks(range(len(panel.lines)), [line.label for line in panel.lines])
    axes.set(xlabel=panel.x.label, ylim=(len(panel.lines) - 0.5, -0.5))
    axes.set_xlim(panel.x.limits or (0, None))
    if panel.x.is_percent:
        axes.xaxis.set_major_formatter(drawing.PERCENT)
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)
