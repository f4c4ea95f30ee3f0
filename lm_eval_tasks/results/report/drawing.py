"""Plots as data: lines of figures with their bounds, and points in a plane. A page draws them in its own SVG; matplotlib
draws them as files, for a paper."""

from __future__ import annotations

import io
import math
import re
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from custom_metrics.statistics.figures import Figure
from lm_eval_tasks.data import whole_file

INK = "#16191f"
"""The colour of text and axes in files, as on a light page."""

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
    """An axis: its label; its ends, by default 0 and the largest value; and whether values are shown as percent."""

    label: str
    limits: tuple[float, float] | None = None
    is_percent: bool = False


class Line(NamedTuple):
    """A line of a panel: its label, and its figures below each other. A mean is set apart from the lines above. `looks` are
    the numbers of the figures' colours and markers; default 0, 1, ..."""

    label: str
    figures: Sequence[Figure]
    is_mean: bool = False
    looks: Sequence[int] = ()


class Panel(NamedTuple):
    """Lines under a title, from top to bottom, and the axis of values. All panels of a plot have the same labels."""

    title: str
    lines: Sequence[Line]
    x: Axis

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the axis."""
        return self.x.limits or (0.0, _largest(figure for line in self.lines for figure in line.figures))

    def drawn(self, line: Line) -> Iterator[tuple[int, float, float | None, float]]:
        """The look of each figure of a line that is known, and the places of its bounds and value on an axis of 100."""
        for look, figure in zip(line.looks or range(len(line.figures)), line.figures, strict=True):
            if places := on_axis(figure, *self.ends):
                yield look, *places


class Point(NamedTuple):
    """A point of a plane. That of a part of a model's tasks is smaller, and has no bounds."""

    look: int
    x: Figure
    y: Figure
    is_part: bool = False


class Plane(NamedTuple):
    """Points between two axes, which begin at 0; of two shares both end at the same value."""

    x: Axis
    y: Axis
    points: Sequence[Point]

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of both axes."""
        right, top = (1.05 * _largest(getattr(point, side) for point in self.points) for side in ("x", "y"))
        return (max(right, top),) * 2 if self.x.is_percent and self.y.is_percent else (right, top)


def _largest(figures: Iterator[Figure]) -> float:
    values = (value for figure in figures for value in (figure.value, figure.high))
    return max((value for value in values if not math.isnan(value)), default=0.0) or 1.0


def on_axis(figure: Figure, start: float, end: float) -> tuple[float, float | None, float] | None:
    """Lower bound, value and upper bound on an axis of 100; without bounds the value three times. The value is ``None`` if
    only bounds are known; the result is ``None`` if nothing is."""
    value, low, high = figure[:3]
    known = [value if math.isnan(number) else number for number in (low, value, high)]
    if math.isnan(known[0]):
        return None
    low, value, high = (round(max(0.0, min(100.0, 100 * (x - start) / (end - start))), 2) for x in known)
    return low, None if math.isnan(figure.value) else value, high


def ticks(end: float) -> list[float]:
    """Three to six round numbers from 0 to an end."""
    size = 10 ** math.floor(math.log10(end))
    step = next(size * part for part in (0.2, 0.5, 1, 2) if end / (size * part) < 6)
    return [round(step * number, 12) for number in range(int(end / step + 1e-9) + 1)]


def subplots(titles: Sequence[str], width: float, height: float, margin: float = 0.7) -> tuple[Any, list[Any]]:
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


def wrapped(name: str, width: int, lines: int = 2) -> str:
    """A name on at most so many lines of `width` characters; what does not fit becomes an ellipsis. Characters are those of
    :func:`readable`."""
    texts = textwrap.wrap(readable(name), width)
    if len(texts) > lines:
        texts[lines - 1 :] = [f"{texts[lines - 1][: width - 1]}…"]
    return "\n".join(texts)


# -------------------------------------------------------------------------------------------------------------- a plot


Row = tuple[str | float | int | None, ...]
"""A row of a plot's table; ``None`` for what is not defined."""

_INKED = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "grid.color")
_STYLE = {
    "svg.fonttype": "none",  # text stays text, which is smaller than its outlines
    "text.parse_math": False,  # a dollar sign in a model's name is one
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": 9,
    "axes.titlesize": "medium",
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.12,
    **dict.fromkeys(_INKED, INK),
}
_NEEDLESS_DIGITS = re.compile(r"(?<=\.\d\d)\d+(?=[^<>]*>)")


@dataclass(frozen=True)
class Plot:
    """A plot, with the same data as a table."""

    name: str  # for files and ids in a page, unique in a report: letters, digits, ``_`` and ``-``
    title: str
    caption: str  # what is shown, how bounds were computed, and what is left out and why
    columns: tuple[str, ...]
    rows: tuple[Row, ...]  # in the order of the plot; shares are fractions in [0, 1], as in the results
    series: Mapping[str, int]  # names of the legend, with the numbers of their colours and markers
    panels: tuple[Panel, ...] = ()  # lines of figures, or
    plane: Plane | None = None  # points
    shares: frozenset[str] = frozenset()  # the columns, without ``_low`` and ``_high``, whose values are shares
    family: str = ""  # of whose models it is the overview: means of two metrics that are traded against each other

    def draw(self) -> Any:
        """The picture, a ``matplotlib.figure.Figure``."""
        legend_of = {wrapped(name, 60, 1): look for name, look in self.series.items()}
        return draw_plane(self.plane, legend_of) if self.plane else draw_lines(self.panels, legend_of)

    def svg(self) -> str:
        """The picture as an ``<svg>`` element.

        Raises:
            ModuleNotFoundError: matplotlib (``lm-eval-grounded[report]``) is not installed.
        """
        stream = io.StringIO()
        self.write(stream, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
        drawn = stream.getvalue()
        return _NEEDLESS_DIGITS.sub("", drawn[drawn.index("<svg ") :].strip())

    def write(self, target: Path | io.StringIO, **options: Any) -> None:
        """Write the picture, with options of matplotlib's ``savefig``; errors as of :meth:`svg`."""
        try:
            import matplotlib
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "plots need matplotlib: pip install 'lm-eval-grounded[report]'", name=error.name
            ) from error
        # A fixed salt makes the same figures give the same bytes.
        with matplotlib.rc_context({**_STYLE, "svg.hashsalt": self.name}), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # the viewer has a font for it
            self.draw().savefig(target, **options)


def save(plots: Sequence[Plot], svg_dir: Path | None = None, png_dir: Path | None = None) -> list[Path]:
    """Write plots as files: ``<name>.svg``, with a name and a description, and ``<name>.png``, into the
    folders that are given; errors as of :meth:`Plot.svg`."""
    written = []
    for plot in plots:
        if svg_dir is not None:
            title, caption = (escape(readable(text)) for text in (plot.title, plot.caption))
            start, body = plot.svg().split(">", 1)
            written.append(svg_dir / f"{plot.name}.svg")
            with whole_file(written[-1]) as partial:
                partial.write_text(
                    '<?xml version="1.0" encoding="UTF-8"?>\n'
                    f'{start} role="img">\n<title>{title}</title><desc>{caption}</desc>{body}\n',
                    "utf-8",
                )
        if png_dir is not None:
            written.append(png_dir / f"{plot.name}.png")
            with whole_file(written[-1]) as partial:
                plot.write(partial, format="png", dpi=200)
    return written


# ---------------------------------------------------------------------------------------------- drawn by matplotlib

_HEIGHT = 0.125  # inches of a figure


def draw_plane(plane: Plane, series: Mapping[str, int]) -> Any:
    """Draw points with their bounds as a figure. Its legend names the series."""
    picture, (axes,) = subplots([""], 4.4, 4.2)
    for look, x, y, is_part in plane.points:
        style = {**marker_style(look), "linestyle": "none"}
        axes.plot(x.value, y.value, **({**style, "markersize": 3, "alpha": 0.5} if is_part else style))
        if not is_part:
            axes.hlines(y.value, x.low, x.high, color=style["color"])
            axes.vlines(x.value, y.low, y.high, color=style["color"])
    right, top = plane.ends
    axes.set(xlim=(-0.04 * right, right), ylim=(-0.04 * top, top), xlabel=plane.x.label, ylabel=plane.y.label)
    for axis, is_percent in ((axes.xaxis, plane.x.is_percent), (axes.yaxis, plane.y.is_percent)):
        if is_percent:
            axis.set_major_formatter(PERCENT)
    legend(picture, [(name, marker_style(look)) for name, look in series.items()])
    return picture


def draw_lines(panels: Sequence[Panel], series: Mapping[str, int]) -> Any:
    """Draw panels as a figure. Its legend names the series."""
    lines = [line._replace(label=wrapped(line.label, 30)) for line in panels[0].lines]
    labels = [text for line in lines for text in line.label.split("\n")]
    height = max(_HEIGHT * max(len(line.figures) for line in lines) + 0.1, 0.14 * len(labels) / len(lines) + 0.1, 0.24)
    margin = 0.6 + 0.075 * max(map(len, labels))
    width = 2.9 if len(panels) > 1 else 4.4
    titles = [wrapped(panel.title, 34) for panel in panels]
    figure, grid = subplots(titles, width, 0.9 + height * len(lines), margin)
    figure.get_layout_engine().set(w_pad=0.1)
    for axes, panel in zip(grid, panels, strict=True):
        _draw_panel(axes, panel, [line.label for line in lines])
    legend(figure, [(name, marker_style(look)) for name, look in series.items()])
    return figure


def _draw_panel(axes: Any, panel: Panel, labels: Sequence[str]) -> None:
    by_look: dict[int, list[tuple[float, Figure]]] = {}
    for place, line in enumerate(panel.lines):
        if place:
            axes.axhline(place - 0.5, color=INK, linewidth=0.7, alpha=1 if line.is_mean else 0.12)
        number = len(line.figures)
        for at, (look, figure) in enumerate(zip(line.looks or range(number), line.figures, strict=True)):
            height = place + (at - (number - 1) / 2) * 0.8 / number
            by_look.setdefault(look, []).append((height, figure))
    for look, points in by_look.items():
        heights, style = [y for y, _ in points], marker_style(look)
        axes.hlines(heights, [x.low for _, x in points], [x.high for _, x in points], color=style["color"])
        axes.plot([x.value for _, x in points], heights, linestyle="none", **style)
    axes.set_yticks(range(len(panel.lines)), labels)
    axes.set(xlabel=panel.x.label, ylim=(len(panel.lines) - 0.5, -0.5))
    start, end = panel.ends
    axes.set_xlim(start - 0.03 * (end - start), end + 0.03 * (end - start))
    if panel.x.is_percent:
        axes.xaxis.set_major_formatter(PERCENT)
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)
