"""A plot: figures of models by language or by task as a table, in words, and as a picture in SVG or PNG."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.units import NOT_MEASURABLE
from custom_metrics.usage.printable import shorten
from lm_eval_tasks.data.atomic import whole_file
from lm_eval_tasks.results.report.families import Family
from lm_eval_tasks.results.report.plots.drawing import INK, readable

LIGHT, DARK = "#16191f", "#e9ecf1"
"""Ink of a picture for a light and for a dark background."""

Row = tuple[str | float | int | None, ...]
"""A row of a plot's table; ``None`` for what is not defined."""

_STYLE = {
    "svg.fonttype": "none",  # text stays text, which is smaller than its outlines
    "text.parse_math": False,  # a dollar sign in a model's name is one
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.8,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": INK,
    "grid.alpha": 0.12,
    "grid.linewidth": 0.7,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "path.simplify": False,
}
_NEEDLESS = re.compile(r' transform="rotate\(-0 [^)]*\)"|(?<=\.\d\d)\d+(?=[^<>]*>)|(?<=\n)\s+')
_STYLE_ATTRIBUTE = re.compile(r'style="([^"<>]*)"(?=[^<>]*>)')
_NAMED = 6  # entries in a caption


class Model(NamedTuple):
    """A model's tasks: its name in the report, the number of its colour, which is the same in every plot, and a family."""

    name: str
    colour: int
    family: Family


class Entry(NamedTuple):
    """Figures to draw of a model in a group: a language or :data:`~lm_eval_tasks.results.report.families.MEAN`, a task, or
    a system that a judge has rated. Figures that are not measurable have bounds and no value."""

    model: str
    colour: int
    group: str
    figures: Mapping[str, Figure]


def by_language(models: Iterable[Model], metrics: Sequence[str]) -> list[Entry]:
    """An entry for each language, model by model; the mean is last if a model has several languages."""
    entries: list[Entry] = []
    for model, colour, family in models:
        drawn = {metric: family.drawable(metric) for metric in metrics}
        entries += [
            Entry(model, colour, language, {metric: figures[language] for metric, figures in drawn.items()})
            for language in drawn[metrics[0]]
        ]
    return entries


def by_task(models: Iterable[Model], metrics: Iterable[str]) -> list[Entry]:
    """An entry for each task, in the order of the families."""
    return [
        Entry(model, colour, family.name, {metric: family.drawable_mean(metric) for metric in metrics})
        for model, colour, family in models
    ]


def is_unknown(figure: Figure) -> bool:
    """Whether a figure, as it is drawn, is not measurable; an undefined one has no bounds either."""
    return math.isnan(figure.value) and not math.isnan(figure.low + figure.high)


def columns_of(*metrics: str) -> tuple[str, ...]:
    """The columns of figures, four for each metric: value, bounds, and the number of documents."""
    return tuple(f"{metric}{ending}" for metric in metrics for ending in ("", "_low", "_high", "_n"))


def cells(*figures: Figure) -> Row:
    """Figures in the columns of :func:`columns_of`."""
    row: list[Any] = []
    for figure in figures:
        value, low, high = (None if math.isnan(number) else number for number in figure[:3])
        row += [NOT_MEASURABLE if is_unknown(figure) else value, low, high, figure.n]
    return tuple(row)


def rows_of(entries: Iterable[Entry], about: Callable[[Entry], Row] = lambda entry: ()) -> tuple[Row, ...]:
    """A row for each entry: model, group, the columns that `about` gives, and the cells of its figures."""
    return tuple((entry.model, entry.group, *about(entry), *cells(*entry.figures.values())) for entry in entries)


def not_drawn(entries: Iterable[Entry]) -> str:
    """A sentence of a caption about points that are not drawn, and why; empty where all are."""
    reasons: dict[str, list[str]] = {}
    for entry in entries:
        missing = [is_unknown(figure) for figure in entry.figures.values() if math.isnan(figure.value)]
        if missing:
            why = "its bounds span more than half of the scale" if all(missing) else "a rate is undefined"
            reasons.setdefault(why, []).append(f"{entry.group} of {entry.model}")
    return "".join(f" Not drawn, because {why}: {shorten(names, _NAMED)}." for why, names in reasons.items())


@dataclass(frozen=True)
class Plot:
    """A plot, with the same data as a table."""

    name: str  # for files and ids in a page, unique in a report: letters, digits, ``_`` and ``-``
    title: str
    caption: str  # what is shown, how bounds were computed, and what is left out and why
    columns: tuple[str, ...]
    rows: tuple[Row, ...]  # in the order of the plot; shares are fractions in [0, 1], as in the results
    draw: Callable[[], Any] = field(repr=False, compare=False)  # makes a ``matplotlib.figure.Figure``
    family: str = ""  # of whose models it is the overview: means of two metrics that are traded against each other

    def svg(self, ink: str = LIGHT) -> str:
        """The picture as an ``<svg>`` element without a background, drawn once for all inks: colours of axes and text.

        Raises:
            ModuleNotFoundError: matplotlib (``lm-eval-grounded[report]``) is not installed.
        """
        return self._svg.replace(INK, ink)

    @cached_property
    def _svg(self) -> str:
        """The picture with a third fewer bytes than matplotlib's: each style is written once, numbers have two decimals."""
        stream = io.StringIO()
        self.write(stream, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
        drawn = stream.getvalue()
        styles: dict[str, int] = {}
        svg = _NEEDLESS.sub("", drawn[drawn.index("<svg ") :].strip())
        svg = _STYLE_ATTRIBUTE.sub(lambda match: f'class="s{styles.setdefault(match[1], len(styles))}"', svg)
        rules = "".join(f".s{number}{{{style}}}" for style, number in styles.items())
        return svg.replace("</style>", f"{rules}</style>", 1)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of the picture, in points of print."""
        width, height = re.findall(r'(?:width|height)="([\d.]+)pt"', self._svg)[:2]
        return float(width), float(height)

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
            warnings.filterwarnings("ignore", "Glyph .* missing")  # the browser has a font for it
            self.draw().savefig(target, **options)


def save(plots: Sequence[Plot], svg_dir: Path | None = None, png_dir: Path | None = None) -> list[Path]:
    """Write plots as files, dark on white: ``<name>.svg``, with a name and a description, and ``<name>.png``, into the
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
                    f'{start} role="img" style="background:#fff">\n<title>{title}</title><desc>{caption}</desc>{body}\n',
                    "utf-8",
                )
        if png_dir is not None:
            written.append(png_dir / f"{plot.name}.png")
            with whole_file(written[-1]) as partial:
                plot.write(partial, format="png", dpi=200, facecolor="white")
    return written
