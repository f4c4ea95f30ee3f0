"""Drawing tools of all plots: colours and markers, axes, panels, legends, and names that fit."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from custom_metrics.statistics.figures import Figure
from lm_eval_tasks.definition.catalogue import metric_of
from lm_eval_tasks.results.report.families import MEAN, language_name

INK = "#010203"
"""A placeholder for the colour of text and axes, which each picture replaces by its own."""

COLOURS = ("#0072b2", "#d55e00", "#008f68", "#c0609a", "#8c6d1f", "#6f6fc4", "#7a7a7a", "#b0413e")
"""Colours of series: after Okabe and Ito (2008), changed to have a contrast of 3 to white and to near black."""

MARKERS = {
    "o": "M-4.2 0a4.2 4.2 0 1 0 8.4 0a4.2 4.2 0 1 0-8.4 0",
    "s": "M-3.8-3.8h7.6v7.6h-7.6z",
    "^": "M0-5L5 4H-5z",
    "D": "M0-5.2L5.2 0L0 5.2L-5.2 0z",
    "v": "M0 5L5-4H-5z",
    "P": "M-1.7-5h3.4v3.3h3.3v3.4h-3.3v3.3h-3.4v-3.3h-3.3v-3.4h3.3z",
    "X": "M0-2.4L2.6-5L5-2.6L2.4 0L5 2.6L2.6 5L0 2.4L-2.6 5L-5 2.6L-2.4 0L-5-2.6L-2.6-5z",
    "<": "M-5 0L4-5V5z",
}
"""Markers of series, which distinguish them beside colours: matplotlib name, and path that a page draws, middle at 0."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff]")
_BREAKS = re.compile(r"[-_/ .:,]")
_ACROSS = 3  # panels side by side, at most


class Axis(NamedTuple):
    """An axis: its label; a factor, 100 to show shares as percent; limits of the scaled values, ``None`` for limits from
    the figures; and its metric, empty where several share it."""

    label: str
    factor: float = 1
    limits: tuple[float, float] | None = None
    is_log: bool = False
    metric: str = ""

    def scaled(self, figure: Figure) -> Figure:
        """A figure multiplied by the axis's factor."""
        value, low, high = (self.factor * number for number in figure[:3])
        return Figure(value, low, high)


def axis_of(metric: str) -> Axis:
    """The axis of a metric, with its title; shares are in percent."""
    is_share, name = metric_of(metric).unit == "share", metric_of(metric).title or metric_of(metric).in_prose
    return Axis(f"{name} (%)", 100, metric=metric) if is_share else Axis(name, metric=metric)


def panels(
    titles: Sequence[str], x: Sequence[Axis], width: float, height: float, margin: float = 0.7, sharey: bool = True
) -> tuple[Any, list[Any]]:
    """A figure and the axes of its panels, row by row: side by side, at most three, then below.

    Args:
        x: the axes of their values; labelled below the last row. Empty where x is no measure.
        width, height, margin: of a panel, and at the left for labels, in inches.
        sharey: whether all have the same y axis, labelled only at the left.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Picture

    across = min(_ACROSS, max(1, len(titles)))
    down = -(-len(titles) // across) or 1
    figure = Picture(figsize=(margin + width * across, 0.3 + height * down), layout="constrained")
    FigureCanvasAgg(figure)  # measures texts
    grid = [*figure.subplots(down, across, sharey=sharey, squeeze=False).flat]
    for axes in grid[len(titles) :]:
        axes.set_axis_off()
    for axes, title in zip(grid, titles, strict=False):
        axes.set_title(title, loc="left")
    for axes, axis in [*zip(grid, x, strict=False)][-across:]:
        axes.set_xlabel(axis.label)
    return figure, grid[: len(titles)]


def look_of(series: int) -> tuple[int, int]:
    """The numbers of a series' colour and marker: no two of 64 series are alike, and the next begin anew."""
    return series % len(COLOURS), (series + series // len(COLOURS)) % len(MARKERS)


def marker_style(series: int, is_mean: bool = False) -> Mapping[str, Any]:
    """The marker of a series; for a mean it is large and hollow."""
    of_colour, of_marker = look_of(series)
    colour = COLOURS[of_colour]
    return {
        "marker": [*MARKERS][of_marker],
        "markersize": 11 if is_mean else 5,
        "color": colour,
        "markerfacecolor": "none" if is_mean else colour,
        "markeredgecolor": colour,
        "markeredgewidth": 1.8 if is_mean else 0.5,
    }


def legend(figure: Any, entries: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Put a legend above the axes, which keep their height: names and styles of markers, with a line where a style has a
    width. Without names there is no legend."""
    from matplotlib.lines import Line2D

    if not entries:
        return
    names = [name for name, _ in entries]
    handles = [Line2D([], [], linestyle="-" if "linewidth" in style else "none", **style) for _, style in entries]
    columns = max(1, min(len(names), int(figure.get_figwidth() / (0.6 + 0.078 * max(map(len, names))))))
    figure.set_figheight(figure.get_figheight() + 0.1 + 0.2 * -(-len(names) // columns))
    figure.legend(handles, names, loc="outside upper left", ncols=columns, handletextpad=0.4, columnspacing=1.4)


def draw_points(
    axes: Any, points: Sequence[tuple[Figure, Figure]], style: Mapping[str, Any], width: float, alpha: float
) -> None:
    """Draw points of one style, with their bounds in both directions where they have them."""
    bounds = [((x.low, y.value), (x.high, y.value)) for x, y in points]
    bounds += [((x.value, y.low), (x.value, y.high)) for x, y in points]
    draw_lines(axes, bounds, color=style["color"], linewidth=width, alpha=alpha)
    marked = [(x.value, y.value) for x, y in points if not math.isnan(x.value + y.value)]
    axes.plot([x for x, _ in marked], [y for _, y in marked], linestyle="none", **style)


def draw_lines(axes: Any, ends: Iterable[tuple[tuple[float, float], tuple[float, float]]], **style: Any) -> None:
    """Draw straight lines of one style as one path, which keeps files small. Lines with an unknown end are not drawn."""
    drawable = [(start, end) for start, end in ends if not math.isnan(sum(start) + sum(end))]
    if drawable:
        points = [point for start, end in drawable for point in (start, end, (math.nan, math.nan))]
        x, y = zip(*points, strict=True)
        axes.plot(x, y, solid_capstyle="butt", marker="none", zorder=2, **style)


def language_label(language: str) -> str:
    """A language's name and code; ``mean`` for the mean."""
    return language if language == MEAN else f"{language_name(language)}  {language}"


def readable(name: str) -> str:
    """A name in which characters that XML forbids are replaced by U+FFFD."""
    return _CONTROL.sub("\ufffd", name)


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Name to a shorter one, without the organisation before ``/`` if the names stay different."""
    plain = {name: readable(name) for name in names}
    without = {name: text.rpartition("/")[2] or text for name, text in plain.items()}
    return without if len({*without.values()}) == len(plain) else plain


def wrapped(name: str, width: int, lines: int = 2) -> str:
    """A name on one or two lines of at most `width` characters, broken at ``-``, ``_``, ``/`` and spaces where possible.
    Longer names get an ellipsis in the middle. Characters are those of :func:`readable`."""
    name = readable(name)
    if len(name) > width * lines:
        visible = width * lines - 1
        name = f"{name[: visible - visible // 2]}…{name[len(name) - visible // 2 :]}"
    if len(name) <= width:
        return name
    breaks = [match.end() for match in _BREAKS.finditer(name) if len(name) - width <= match.end() <= width]
    end = breaks[-1] if breaks else width
    return f"{name[:end]}\n{name[end:]}"
