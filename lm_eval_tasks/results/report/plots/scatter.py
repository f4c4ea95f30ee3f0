"""Two figures against each other, with bounds either way, in panels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.units import NOT_MEASURABLE
from lm_eval_tasks.results.report.plots import drawing
from lm_eval_tasks.results.report.plots.entries import MEAN, Colours, Entry, is_unknown

__all__ = ["Axis", "Dot", "Panel", "draw", "panels_by_model"]


class Axis(NamedTuple):
    """An axis.

    Attributes:
        label: what it measures.
        factor: 100 where shares are shown as percent.
        limits: of what is shown, after the factor; ``None`` for limits from the figures.
        is_log: whether it is logarithmic.
    """

    label: str
    factor: float = 1
    limits: tuple[float, float] | None = None
    is_log: bool = False

    def scaled(self, figure: Figure) -> Figure:
        """A figure as it is shown on this axis."""
        value, low, high = (self.factor * number for number in figure[:3])
        return Figure(value, low, high)


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
    def place(self) -> tuple[float, float]:
        """Its coordinates."""
        return self.x.value, self.y.value


class Panel(NamedTuple):
    """Dots under a title, and the axes that they stand in."""

    title: str
    dots: Sequence[Dot]
    x: Axis
    y: Axis

    def drawn(self) -> list[Dot]:
        """The dots that can be drawn, on the scale of the axes."""
        dots = [dot._replace(x=self.x.scaled(dot.x), y=self.y.scaled(dot.y)) for dot in self.dots]
        return [dot for dot in dots if not math.isnan(sum(dot.place))]


def panels_by_model(
    entries: Sequence[Entry], x: Axis, y: Axis, colours: Colours, notes: Mapping[str, str] | None = None
) -> list[Panel]:
    """A panel for each model, with a dot for each entry.

    Args:
        entries: each with two figures: x, then y.
        x, y: the axes.
        colours: of the models.
        notes: model to what stands below its name; ``None`` for nothing.
    """
    dots: dict[str, list[Dot]] = {}
    for model, part, figures in entries:
        label = "" if part == MEAN else part
        first, second = figures.values()
        dots.setdefault(model, []).append(Dot(label, first, second, colours[model], part == MEAN))
    titles = {model: drawing.wrapped(name, 34) for model, name in drawing.short_names(dots).items()}
    if notes:
        titles = {model: f"{title}\n{notes[model]}" for model, title in titles.items()}
    return [Panel(titles[model], of_model, x, y) for model, of_model in dots.items()]


def draw(
    panels: Sequence[Panel],
    series: Mapping[int, str] | None = None,
    same_scale: bool = True,
    same_limits: bool = False,
) -> Any:
    """The figure. Its legend names the series, or says what a large hollow dot is.

    Args:
        panels: side by side, at most three; then below.
        series: number to name, for the legend; ``None`` where the panels' titles say it.
        same_scale: whether the panels have the same axes and limits.
        same_limits: whether x and y show the same range.
    """
    figure, grid = drawing.panels(len(panels), 3.5 if len(panels) > 1 else 4.3, 3.4, sharey=same_scale)
    drawn = [panel.drawn() for panel in panels]
    everywhere = [dot for dots in drawn for dot in dots]
    for number, (axes, panel, dots) in enumerate(zip(grid, panels, drawn, strict=True)):
        _fill(axes, panel, dots)
        _set_limits(axes, panel, everywhere if same_scale else dots, same_limits)
        axes.set_title(panel.title, loc="left")
        if number + drawing.ACROSS >= len(panels):
            axes.set_xlabel(panel.x.label)
        if number % drawing.ACROSS == 0 or not same_scale:
            axes.set_ylabel(panel.y.label)
    if series:
        drawing.legend(figure, [drawing.handle(**drawing.look(number)) for number in series], [*series.values()])
    elif any(dot.is_mean for dot in everywhere):
        hollow = {**drawing.look(0, is_mean=True), "markeredgecolor": drawing.INK}
        drawing.legend(figure, [drawing.handle(**hollow)], ["mean over languages"])
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the panels have their places, which labels must not move
    for axes, dots in zip(grid, drawn, strict=True):
        _label(axes, dots)
    return figure


def _fill(axes: Any, panel: Panel, drawn: Sequence[Dot]) -> None:
    """Draw dots and their bounds, those of one look together."""
    for series, is_mean in dict.fromkeys((dot.series, dot.is_mean) for dot in drawn):
        alike = [dot for dot in drawn if (dot.series, dot.is_mean) == (series, is_mean)]
        look = drawing.look(series, is_mean)
        bounds = [((dot.x.low, dot.y.value), (dot.x.high, dot.y.value)) for dot in alike]
        bounds += [((dot.x.value, dot.y.low), (dot.x.value, dot.y.high)) for dot in alike]
        width, strength = (1.8, 0.9) if is_mean else (0.9, 0.45)
        drawing.segments(axes, bounds, color=look["color"], linewidth=width, alpha=strength)
        x, y = zip(*(dot.place for dot in alike), strict=True)
        axes.plot(x, y, linestyle="none", zorder=4 if is_mean else 3, **look)
    if not drawn:
        unknown = any(is_unknown(figure) for dot in panel.dots for figure in (dot.x, dot.y))
        axes.text(0.5, 0.5, NOT_MEASURABLE if unknown else "undefined", transform=axes.transAxes, ha="center")


def _set_limits(axes: Any, panel: Panel, drawn: Sequence[Dot], same_limits: bool) -> None:
    x, y = [dot.x for dot in drawn], [dot.y for dot in drawn]
    if same_limits:
        x = y = [*x, *y]
    axes.set(xlim=panel.x.limits or _limits(x, panel.x), ylim=panel.y.limits or _limits(y, panel.y))
    if panel.x.is_log:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_minor_formatter(lambda value, _: "")


def _limits(figures: Sequence[Figure], axis: Axis) -> tuple[float, float]:
    """From 0, so that lengths on paper are not misread, to what holds every upper bound, with a margin for marks."""
    values = [number for figure in figures for number in figure[:3] if not math.isnan(number)]
    top, bottom = max(values, default=0) or axis.factor, min([0, *values])
    margin = 0.05 * (top - bottom)
    return bottom - margin, top + margin


_AROUND = ((1, 1), (-1, 1), (1, -1), (-1, -1), (1, 0), (-1, 0), (0, 1), (0, -1))
"""Directions of a label, of which the first free one is taken: diagonal first, where no bounds are drawn."""

_HORIZONTAL = {1: "left", 0: "center", -1: "right"}
_VERTICAL = {1: "bottom", 0: "center", -1: "top"}
_DISTANCES = (4, 8)  # of a label from its mark, in points of print
_MOST = 4  # names in a label


def _label(axes: Any, dots: Sequence[Dot]) -> None:
    """Write labels beside dots, where they cover no mark, no other label and no axis. Dots at one place share a label. One
    that fits nowhere is left out."""
    from matplotlib.transforms import Bbox

    unit = axes.figure.dpi / 72
    taken = []
    at_one_place: dict[tuple[int, int], list[Dot]] = {}
    for dot in dots:
        x, y = axes.transData.transform(dot.place)
        taken.append(Bbox([(x, y), (x, y)]).padded((6 if dot.is_mean else 3) * unit))
        if dot.label:
            at_one_place.setdefault((round(x / unit / 2), round(y / unit / 2)), []).append(dot)
    for together in at_one_place.values():
        names = [*dict.fromkeys(dot.label for dot in together)]
        _label_point(axes, together[0].place, [_listed(names, most) for most in (_MOST, 1)], taken)


def _label_point(axes: Any, point: tuple[float, float], texts: Sequence[str], taken: list[Any]) -> None:
    """Write the first text that has room in the axes beside a point, and add its box to those that are taken."""
    for text, distance, (right, up) in itertools.product(texts, _DISTANCES, _AROUND):
        label = axes.annotate(
            text,
            point,
            xytext=(distance * right, distance * up * (0.6 if right else 1)),
            textcoords="offset points",
            ha=_HORIZONTAL[right],
            va=_VERTICAL[up],
            fontsize=7,
            annotation_clip=False,
        )
        box = label.get_window_extent()
        if axes.bbox.contains(*box.min) and axes.bbox.contains(*box.max) and not box.count_overlaps(taken):
            taken.append(box.padded(2))
            return
        label.remove()


def _listed(names: Sequence[str], most: int) -> str:
    """So many names in one text, and how many more there are: ``ar, de, en, fi, +3``."""
    return ", ".join([*names[:most], *([f"+{len(names) - most}"] if len(names) > most else [])])
