"""Drawing tools of all plots: colours and markers, axes, panels, legends, and names that fit."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

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

PERCENT = "{x:.0%}"
"""The format of shares along an axis."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff]")
_ACROSS = 3  # panels side by side, at most


class Axis(NamedTuple):
    """An axis: its label; its limits, by default from 0 to the largest value; and whether values are shown as percent."""

    label: str
    limits: tuple[float, float] | None = None
    is_percent: bool = False


def panels(titles: Sequence[str], width: float, height: float, margin: float = 0.7) -> tuple[Any, list[Any]]:
    """A figure and the axes of its panels, at most three side by side; they share the y axis. `width` and `height` are of
    a panel, `margin` is at the left for labels, all in inches."""
    from matplotlib.figure import Figure as Picture

    across = min(_ACROSS, len(titles))
    down = -(-len(titles) // across)
    figure = Picture(figsize=(margin + width * across, 0.3 + height * down), layout="constrained")
    grid = [*figure.subplots(down, across, sharey=True, squeeze=False).flat]
    for axes in grid[len(titles) :]:
        axes.set_axis_off()
    for axes, title in zip(grid, titles, strict=False):
        axes.set_title(title, loc="left")
    return figure, grid[: len(titles)]


def look_of(series: int) -> tuple[int, int]:
    """The numbers of a series' colour and marker: no two of 64 series are alike, and the next begin anew."""
    return series % len(COLOURS), (series + series // len(COLOURS)) % len(MARKERS)


def marker_style(series: int, size: float = 5) -> dict[str, Any]:
    """The marker of a series, for a line of matplotlib."""
    colour, marker = look_of(series)
    return {"marker": [*MARKERS][marker], "color": COLOURS[colour], "markersize": size, "markeredgewidth": 0.5}


def legend(figure: Any, entries: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Put a legend of names and styles of markers above the panels, which keep their height; none for a single entry."""
    from matplotlib.lines import Line2D

    if len(entries) < 2:
        return
    handles = [Line2D([], [], label=name, linestyle="none", **style) for name, style in entries]
    columns = max(1, int(figure.get_figwidth() / (0.6 + 0.065 * max(len(name) for name, _ in entries))))
    figure.set_figheight(figure.get_figheight() + 0.1 + 0.2 * -(-len(entries) // columns))
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, handletextpad=0.4, columnspacing=1.4)


def readable(name: str) -> str:
    """A name in which characters that XML forbids are replaced by U+FFFD."""
    return _CONTROL.sub("\ufffd", name)


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Name to a shorter one, without the organisation before ``/`` if the names stay different."""
    plain = {name: readable(name) for name in names}
    without = {name: text.rpartition("/")[2] or text for name, text in plain.items()}
    return without if len({*without.values()}) == len(plain) else plain


def wrapped(name: str, width: int, lines: int = 2) -> str:
    """A name on at most so many lines of `width` characters; what does not fit becomes an ellipsis. Characters are those of
    :func:`readable`."""
    texts = textwrap.wrap(readable(name), width)
    if len(texts) > lines:
        texts[lines - 1 :] = [f"{texts[lines - 1][: width - 1]}…"]
    return "\n".join(texts)
