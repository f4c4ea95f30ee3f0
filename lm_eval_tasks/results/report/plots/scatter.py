"""Scatter plots of two figures in panels, with bounds in both directions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.units import NOT_MEASURABLE
from lm_eval_tasks.results.report.families import MEAN
from lm_eval_tasks.results.report.plots import drawing
from lm_eval_tasks.results.report.plots.drawing import Axis
from lm_eval_tasks.results.report.plots.plot import Entry, is_unknown


class _Dot(NamedTuple):
    """An entry that can be drawn, its figures on the scale of the axes."""

    entry: Entry
    x: Figure
    y: Figure

    @property
    def marker_style(self) -> tuple[int, bool]:
        """The number of its colour, and whether it is a mean."""
        return self.entry.colour, self.entry.group == MEAN

    @property
    def place(self) -> tuple[float, float]:
        return self.x.value, self.y.value


class Panel(NamedTuple):
    """A panel: its title, its entries, and its axes."""

    title: str
    entries: Sequence[Entry]
    x: Axis
    y: Axis

    def figures(self, entry: Entry) -> list[Figure]:
        """The figures of an entry on the scale of the axes."""
        return [axis.scaled(entry.figures[axis.metric]) for axis in (self.x, self.y)]

    @property
    def dots(self) -> list[_Dot]:
        """The entries that can be drawn."""
        dots = [_Dot(entry, *self.figures(entry)) for entry in self.entries]
        return [dot for dot in dots if not math.isnan(sum(dot.place))]


def by_model(entries: Sequence[Entry], x: Axis, y: Axis, notes: Mapping[str, str] | None = None) -> list[Panel]:
    """A panel for each model, with a dot for each entry. `notes` are texts to show below the models' names."""
    panels = []
    for model, name in drawing.short_names(entry.model for entry in entries).items():
        title = drawing.wrapped(name, 34) + (f"\n{notes[model]}" if notes else "")
        panels.append(Panel(title, [entry for entry in entries if entry.model == model], x, y))
    return panels


def draw(panels: Sequence[Panel], names: Mapping[int, str] | None = None, same_limits: bool = False) -> Any:
    """Draw panels as a figure. Its legend names the models, or explains large hollow dots.

    Args:
        panels: all with the same axes and limits, unless there are `names`.
        names: colour number to model, for panels with several models; ``None`` if the titles name the models.
        same_limits: whether x and y show the same range.
    """
    x_axes = [panel.x for panel in panels]
    width, titles = (3.5 if len(panels) > 1 else 4.3), [panel.title for panel in panels]
    figure, grid = drawing.panels(titles, x_axes, width, 3.4, sharey=names is None)
    drawn = [panel.dots for panel in panels]
    everywhere = [dot for dots in drawn for dot in dots]
    for axes, panel, dots in zip(grid, panels, drawn, strict=True):
        for style in dict.fromkeys(dot.marker_style for dot in dots):
            alike = [(dot.x, dot.y) for dot in dots if dot.marker_style == style]
            zorder, line, alpha = (4, 1.8, 0.9) if style[1] else (3, 0.9, 0.45)
            drawing.draw_points(axes, alike, {**drawing.marker_style(*style), "zorder": zorder}, line, alpha)
        if not dots:
            unknown = any(is_unknown(figure) for entry in panel.entries for figure in panel.figures(entry))
            axes.text(0.5, 0.5, NOT_MEASURABLE if unknown else "undefined", transform=axes.transAxes, ha="center")
        in_range = everywhere if names is None else dots
        x, y = [dot.x for dot in in_range], [dot.y for dot in in_range]
        if same_limits:
            x = y = [*x, *y]
        axes.set(xlim=_limits(x, panel.x), ylim=_limits(y, panel.y))
        if panel.x.is_log:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.xaxis.set_minor_formatter(lambda value, _: "")
        if names or axes.get_subplotspec().is_first_col():
            axes.set_ylabel(panel.y.label)
    if names:
        drawing.legend(figure, [(name, drawing.marker_style(number)) for number, name in names.items()])
    elif any(is_mean for _, is_mean in (dot.marker_style for dot in everywhere)):
        hollow = {**drawing.marker_style(0, is_mean=True), "markeredgecolor": drawing.INK}
        drawing.legend(figure, [("mean over languages", hollow)])
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the panels have their places, which labels must not move
    for axes, dots in zip(grid, drawn, strict=True):
        _label(axes, dots)
    return figure


def _limits(figures: Sequence[Figure], axis: Axis) -> tuple[float, float]:
    """The limits of an axis; if it has none, from 0 to the largest upper bound, with a margin for marks."""
    if axis.limits is not None:
        return axis.limits
    values = [number for figure in figures for number in figure[:3] if not math.isnan(number)]
    top, bottom = max(values, default=0) or axis.factor, min([0, *values])
    margin = 0.05 * (top - bottom)
    return bottom - margin, top + margin


_AROUND = ((1, 1), (-1, 1), (1, -1), (-1, -1), (1, 0), (-1, 0), (0, 1), (0, -1))
"""Directions of a label, of which the first free one is used: diagonal first, because no bounds are drawn there."""

_HORIZONTAL = {1: "left", 0: "center", -1: "right"}
_VERTICAL = {1: "bottom", 0: "center", -1: "top"}
_DISTANCES = (4, 8)  # of a label from its mark, in points of print
_MOST = (4, 1)  # names in a label; the first number for which there is room


def _label(axes: Any, dots: Sequence[_Dot]) -> None:
    """Write labels beside dots without covering a mark, another label or an axis. Dots at one place share a label:
    ``ar, de, en, fi, +3``. Labels that fit nowhere are left out."""
    from matplotlib.transforms import Bbox

    unit = axes.figure.dpi / 72
    occupied = []
    at_one_place: dict[tuple[int, int], list[_Dot]] = {}
    for dot in dots:
        x, y = axes.transData.transform(dot.place)
        is_mean = dot.marker_style[1]
        occupied.append(Bbox([(x, y), (x, y)]).padded((6 if is_mean else 3) * unit))
        if dot.entry.group and not is_mean:
            at_one_place.setdefault((round(x / unit / 2), round(y / unit / 2)), []).append(dot)
    for dots_there in at_one_place.values():
        names = [*dict.fromkeys(dot.entry.group for dot in dots_there)]
        for most, distance, (right, up) in itertools.product(_MOST, _DISTANCES, _AROUND):
            label = axes.annotate(
                ", ".join([*names[:most], *([f"+{len(names) - most}"] if len(names) > most else [])]),
                dots_there[0].place,
                xytext=(distance * right, distance * up * (0.6 if right else 1)),
                textcoords="offset points",
                ha=_HORIZONTAL[right],
                va=_VERTICAL[up],
                fontsize=7,
                annotation_clip=False,
            )
            box = label.get_window_extent()
            if axes.bbox.contains(*box.min) and axes.bbox.contains(*box.max) and not box.count_overlaps(occupied):
                occupied.append(box.padded(2))
                break
            label.remove()
