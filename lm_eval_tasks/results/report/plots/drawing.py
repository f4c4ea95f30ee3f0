"""What all plots are drawn with: colours and markers, axes, panels, legends, and names that fit."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from custom_metrics.statistics.figures import Figure
from lm_eval_tasks.results.report.families import MEAN, language_name

INK = "#010203"
"""Stands for the colour of text and axes, which each picture replaces by its own."""

COLOURS = ("#0072b2", "#d55e00", "#008f68", "#c0609a", "#8c6d1f", "#6f6fc4", "#7a7a7a", "#b0413e")
"""Of series: after Okabe and Ito (2008), changed until each has a contrast of 3 to white and to near black."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
"""Of series: their shape tells them apart where their colour does not."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff]")
_BREAKS = re.compile(r"[-_/ .:,]")
_ACROSS = 3  # panels side by side, at most


class Axis(NamedTuple):
    """An axis: what it measures; a factor, 100 where shares are shown as percent; limits of what is shown, after the
    factor, ``None`` for limits from the figures; and the metric that it shows, empty where several share it."""

    label: str
    factor: float = 1
    limits: tuple[float, float] | None = None
    is_log: bool = False
    metric: str = ""

    def scaled(self, figure: Figure) -> Figure:
        """A figure as it is shown on this axis."""
        value, low, high = (self.factor * number for number in figure[:3])
        return Figure(value, low, high)


def panels(
    titles: Sequence[str], x: Sequence[Axis], width: float, height: float, margin: float = 0.7, sharey: bool = True
) -> tuple[Any, list[Any]]:
    """A figure and the axes of its panels, row by row: side by side, at most three, then below.

    Args:
        x: the axes of their values; named below the last row. Empty where nobody measures there.
        width, height, margin: of a panel, and at the left for labels, in inches.
        sharey: whether all have the same y axis, labelled at the left alone.
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


def look(series: int, is_mean: bool = False) -> Mapping[str, Any]:
    """The marker of a series; that of a mean is large and hollow."""
    colour = COLOURS[series % len(COLOURS)]
    return {
        "marker": MARKERS[series % len(MARKERS)],
        "markersize": 11 if is_mean else 5,
        "color": colour,
        "markerfacecolor": "none" if is_mean else colour,
        "markeredgecolor": colour,
        "markeredgewidth": 1.8 if is_mean else 0.5,
    }


def legend(figure: Any, entries: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Put a legend above the axes, which keep their height: names and styles of markers, with a line where they have a
    width. None without names."""
    from matplotlib.lines import Line2D

    if not entries:
        return
    names = [name for name, _ in entries]
    handles = [Line2D([], [], linestyle="-" if "linewidth" in style else "none", **style) for _, style in entries]
    columns = max(1, min(len(names), int(figure.get_figwidth() / (0.6 + 0.078 * max(map(len, names))))))
    figure.set_figheight(figure.get_figheight() + 0.1 + 0.2 * -(-len(names) // columns))
    figure.legend(handles, names, loc="outside upper left", ncols=columns, handletextpad=0.4, columnspacing=1.4)


def marks(
    axes: Any, points: Sequence[tuple[Figure, Figure]], look: Mapping[str, Any], width: float, alpha: float
) -> None:
    """Points of one look and their bounds either way, where they have them."""
    bounds = [((x.low, y.value), (x.high, y.value)) for x, y in points]
    bounds += [((x.value, y.low), (x.value, y.high)) for x, y in points]
    segments(axes, bounds, color=look["color"], linewidth=width, alpha=alpha)
    marked = [(x.value, y.value) for x, y in points if not math.isnan(x.value + y.value)]
    axes.plot([x for x, _ in marked], [y for _, y in marked], linestyle="none", **look)


def segments(axes: Any, ends: Iterable[tuple[tuple[float, float], tuple[float, float]]], **style: Any) -> None:
    """Straight lines of one style, as one path: a file of hundreds stays small. One with an unknown end is not drawn."""
    known = [(start, end) for start, end in ends if not math.isnan(sum(start) + sum(end))]
    if known:
        points = [point for start, end in known for point in (start, end, (math.nan, math.nan))]
        x, y = zip(*points, strict=True)
        axes.plot(x, y, solid_capstyle="butt", marker="none", zorder=2, **style)


def language_label(language: str) -> str:
    """A language's name and code; a mean is called so."""
    return language if language == MEAN else f"{language_name(language)}  {language}"


def readable(name: str) -> str:
    """A name without characters that no XML file may hold; each is U+FFFD."""
    return _CONTROL.sub("\ufffd", name)


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Name to a shorter one, where the names stay different: without the organisation before ``/``."""
    plain = {name: readable(name) for name in names}
    without = {name: text.rpartition("/")[2] or text for name, text in plain.items()}
    return without if len({*without.values()}) == len(plain) else plain


def wrapped(name: str, width: int, lines: int = 2) -> str:
    """A name on one or two lines of at most so many characters, broken at ``-``, ``_``, ``/`` and spaces where it can be.
    What is longer has an ellipsis in the middle. Unreadable characters are as of :func:`readable`."""
    name = readable(name)
    if len(name) > width * lines:
        kept = width * lines - 1
        name = f"{name[: kept - kept // 2]}…{name[len(name) - kept // 2 :]}"
    if len(name) <= width:
        return name
    breaks = [found.end() for found in _BREAKS.finditer(name) if len(name) - width <= found.end() <= width]
    end = breaks[-1] if breaks else width
    return f"{name[:end]}\n{name[end:]}"
