"""Plots as data: models' figures of some metrics, drawn as lines in a panel for each, or as points of a plane. A page draws
them in its own SVG; matplotlib draws them as files, for a paper."""

from __future__ import annotations

import io
import math
import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from custom_metrics.statistics.figures import NOT_MEASURABLE, UNDEFINED, Figure
from custom_metrics.usage.printable import on_one_line
from lm_eval_tasks.data import whole_file
from lm_eval_tasks.definition.schema import Metric

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

_LIMITS = {"share": (0.0, 1.0), "score": (0.0, 1.0), "correlation": (-1.0, 1.0), "rating": (1.0, 4.0)}
_ACROSS = 3  # panels side by side, at most


class Entry(NamedTuple):
    """A model's figures. Those that are not measurable have bounds and no value."""

    label: str  # of the model
    look: int  # the number of its colour and marker, which are the same in every plot
    group: str  # a language, a task of a group, or the mean; the system that a judge judged; or empty
    figures: Mapping[str, Figure]  # by metric
    is_part: bool  # whether the model's mean, or another group, follows it

    def figure(self, metric: str) -> Figure:
        return self.figures.get(metric, UNDEFINED)


class Line(NamedTuple):
    """A line of each panel: its label, and the entries whose figures stand below each other. A mean is set apart from the
    lines above."""

    label: str
    entries: Sequence[Entry]
    is_mean: bool = False


def largest_of(figures: Iterable[Figure]) -> float:
    """The largest value or bound; 1 where there is none, or it is 0."""
    values = (value for figure in figures for value in (figure.value, figure.high))
    return max((value for value in values if not math.isnan(value)), default=0.0) or 1.0


Drawn = tuple[int, float, float | None, float]
"""The look of a figure, and the places of its lower bound, value and upper bound on an axis of 100; without bounds the
value three times. The value is ``None`` if only bounds are known."""


def on_axis(figures: Iterable[tuple[int, Figure]], start: float, end: float) -> Iterator[Drawn]:
    """What is drawn of figures and their looks, without those of which nothing is known."""
    for look, (value, low, high, *_) in figures:
        known = [value if math.isnan(number) else number for number in (low, value, high)]
        if not math.isnan(known[0]):
            low, place, high = (round(max(0.0, min(100.0, 100 * (x - start) / (end - start))), 2) for x in known)
            yield look, low, None if math.isnan(value) else place, high


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


def marker_style(series: int) -> dict[str, Any]:
    """The marker of a series, for a line of matplotlib."""
    colour, marker = look_of(series)
    return {"marker": [*MARKERS][marker], "color": COLOURS[colour], "markersize": 5, "markeredgewidth": 0.5}


def legend(figure: Any, series: Mapping[str, int]) -> None:
    """Put a legend of names and looks of series above the panels, which keep their height; none for a single entry."""
    from matplotlib.lines import Line2D

    if len(series) < 2:
        return
    handles = [Line2D([], [], label=name, linestyle="none", **marker_style(look)) for name, look in series.items()]
    columns = max(1, int(figure.get_figwidth() / (0.6 + 0.065 * max(map(len, series)))))
    figure.set_figheight(figure.get_figheight() + 0.1 + 0.2 * -(-len(series) // columns))
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, handletextpad=0.4, columnspacing=1.4)


def wrapped(name: str, width: int, lines: int = 2) -> str:
    """A printable name on at most so many lines of `width` characters; what does not fit becomes an ellipsis."""
    texts = textwrap.wrap(on_one_line(name), width)
    if len(texts) > lines:
        texts[lines - 1 :] = [f"{texts[lines - 1][: width - 1]}…"]
    return "\n".join(texts)


# -------------------------------------------------------------------------------------------------------------- a plot


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
    metrics: Mapping[str, Metric]  # by name: a panel each; or of a plane two, to the right and upwards
    entries: Sequence[Entry]  # in the order of the table
    part: str  # what the group of an entry is
    series: Mapping[str, int]  # names of the legend, with the numbers of their colours and markers
    lines: Sequence[Line] = ()  # of the panels, from top to bottom; none of a plane
    family: str = ""  # of a plane, of whose models it is the overview: means of two metrics that are traded

    @property
    def points(self) -> list[Entry]:
        """The entries of a plane, those with both values. That of a part of a model's tasks is smaller, without bounds."""
        return [e for e in self.entries if not any(math.isnan(e.figure(name).value) for name in self.metrics)]

    @property
    def titles(self) -> dict[str, str]:
        """The titles of the panels, by metric."""
        return {name: metric.title or name.replace("_", " ") for name, metric in self.metrics.items()}

    def ends(self, metric: str) -> tuple[float, float]:
        """The ends of a metric's axis: of a panel those of its scale, or 0 and the largest value. Of a plane, both axes of
        shares end at the same value."""
        if self.family:
            largest = {name: 1.05 * largest_of(entry.figure(name) for entry in self.points) for name in self.metrics}
            is_percent = all(each.unit == "share" for each in self.metrics.values())
            return 0.0, max(largest.values()) if is_percent else largest[metric]
        limits = _LIMITS.get(self.metrics[metric].unit)
        return limits or (0.0, largest_of(entry.figure(metric) for entry in self.entries))

    def drawn(self, line: Line, metric: str) -> Iterator[Drawn]:
        """What is drawn of a line in a metric's panel."""
        return on_axis(((entry.look, entry.figure(metric)) for entry in line.entries), *self.ends(metric))

    @property
    def columns(self) -> dict[str, bool]:
        """The columns of its table, and whether their values are shares."""
        of_metrics = ((f"{name}{end}", name) for name in self.metrics for end in ("", "_low", "_high", "_n"))
        return {"model": False, self.part: False} | {n: self.metrics[name].unit == "share" for n, name in of_metrics}

    @property
    def rows(self) -> Iterator[tuple[str | float | int | None, ...]]:
        """The rows of its table, in the order of the plot: shares are fractions, and ``None`` is what is not defined."""
        for entry in self.entries:
            cells: list[str | float | int | None] = []
            for figure in map(entry.figure, self.metrics):
                value, low, high = (None if math.isnan(number) else number for number in figure[:3])
                is_unknown = value is None and None not in (low, high)
                cells += [NOT_MEASURABLE if is_unknown else value, low, high, figure.n]
            yield entry.label, entry.group, *cells

    def draw(self) -> Any:
        """The picture, a ``matplotlib.figure.Figure``."""
        picture = draw_plane(self) if self.family else draw_lines(self)
        legend(picture, {wrapped(name, 60, 1): look for name, look in self.series.items()})
        return picture

    def svg(self) -> str:
        """The picture as an ``<svg>`` element, with its title and caption.

        Raises:
            ModuleNotFoundError: matplotlib (``lm-eval-grounded[report]``) is not installed.
        """
        stream = io.StringIO()
        self.write(stream, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
        head, body = _NEEDLESS_DIGITS.sub("", stream.getvalue().partition("<svg ")[2].strip()).split(">", 1)
        title, caption = (escape(on_one_line(text)) for text in (self.title, self.caption))
        return f'<svg {head} role="img">\n<title>{title}</title><desc>{caption}</desc>{body}'

    def write(self, target: Path | io.StringIO, **options: Any) -> None:
        """Write the picture, with options of matplotlib's ``savefig``; errors as of :meth:`svg`."""
        try:
            import matplotlib
        except ModuleNotFoundError as error:
            install = "plots need matplotlib: pip install 'lm-eval-grounded[report]'"
            raise ModuleNotFoundError(install, name=error.name) from error
        # A fixed salt makes the same figures give the same bytes.
        with matplotlib.rc_context({**_STYLE, "svg.hashsalt": self.name}), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # the viewer has a font for it
            self.draw().savefig(target, **options)


def save(plots: Sequence[Plot], svg_dir: Path | None = None, png_dir: Path | None = None) -> list[Path]:
    """Write plots as files, ``<name>.svg`` and ``<name>.png``, into the folders that are given; errors as of
    :meth:`Plot.svg`."""
    written = []
    for plot, (folder, form) in product(plots, ((svg_dir, "svg"), (png_dir, "png"))):
        if folder is not None:
            written.append(folder / f"{plot.name}.{form}")
            with whole_file(written[-1]) as partial:
                if form == "png":
                    plot.write(partial, format="png", dpi=200)
                else:
                    partial.write_text(f'<?xml version="1.0" encoding="UTF-8"?>\n{plot.svg()}\n', "utf-8")
    return written


# ---------------------------------------------------------------------------------------------- drawn by matplotlib

_HEIGHT = 0.125  # inches of a figure


def draw_plane(plot: Plot) -> Any:
    """Draw points with their bounds as a figure."""
    picture, (axes,) = subplots([""], 4.4, 4.2)
    for entry in plot.points:
        (x, y), style = map(entry.figure, plot.metrics), {**marker_style(entry.look), "linestyle": "none"}
        axes.plot(x.value, y.value, **({**style, "markersize": 3, "alpha": 0.5} if entry.is_part else style))
        if not entry.is_part:
            axes.hlines(y.value, x.low, x.high, color=style["color"])
            axes.vlines(x.value, y.low, y.high, color=style["color"])
    (right, top), (x_metric, y_metric) = (plot.ends(name)[1] for name in plot.metrics), plot.metrics.values()
    axes.set(xlim=(-0.04 * right, right), ylim=(-0.04 * top, top), xlabel=x_metric.heading, ylabel=y_metric.heading)
    for axis in (axes.xaxis, axes.yaxis) if x_metric.unit == y_metric.unit == "share" else ():
        axis.set_major_formatter(PERCENT)
    return picture


def draw_lines(plot: Plot) -> Any:
    """Draw a panel for each metric as a figure."""
    labels = [wrapped(line.label, 30) for line in plot.lines]
    texts = [text for label in labels for text in label.split("\n")]
    most = max(len(line.entries) for line in plot.lines)
    height = max(_HEIGHT * most + 0.1, 0.14 * len(texts) / len(labels) + 0.1, 0.24)
    width, titles = 2.9 if len(plot.metrics) > 1 else 4.4, [wrapped(title, 34) for title in plot.titles.values()]
    figure, grid = subplots(titles, width, 0.9 + height * len(labels), 0.6 + 0.075 * max(map(len, texts)))
    figure.get_layout_engine().set(w_pad=0.1)
    for axes, (name, metric) in zip(grid, plot.metrics.items(), strict=True):
        by_look: dict[int, list[tuple[float, Figure]]] = {}
        for place, line in enumerate(plot.lines):
            if place:
                axes.axhline(place - 0.5, color=INK, linewidth=0.7, alpha=1 if line.is_mean else 0.12)
            number = len(line.entries)
            for at, entry in enumerate(line.entries):
                at_height = place + (at - (number - 1) / 2) * 0.8 / number
                by_look.setdefault(entry.look, []).append((at_height, entry.figure(name)))
        for look, points in by_look.items():
            heights, style = [y for y, _ in points], marker_style(look)
            axes.hlines(heights, [x.low for _, x in points], [x.high for _, x in points], color=style["color"])
            axes.plot([x.value for _, x in points], heights, linestyle="none", **style)
        axes.set_yticks(range(len(labels)), labels)
        axes.set(xlabel="" if metric.unit == "share" else metric.unit, ylim=(len(labels) - 0.5, -0.5))
        start, end = plot.ends(name)
        axes.set_xlim(start - 0.03 * (end - start), end + 0.03 * (end - start))
        if metric.unit == "share":
            axes.xaxis.set_major_formatter(PERCENT)
        axes.grid(False, axis="y")
        axes.tick_params(axis="y", length=0)
    return figure
