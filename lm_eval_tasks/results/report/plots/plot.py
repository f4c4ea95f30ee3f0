"""A plot: its data as rows, what it shows in words, and its picture as SVG or PNG."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from lm_eval_tasks.data.atomic import whole_file
from lm_eval_tasks.results.report.plots.drawing import INK, readable
from lm_eval_tasks.results.report.plots.entries import Cell

__all__ = ["DARK", "LIGHT", "Plot", "save"]

LIGHT, DARK = "#16191f", "#e9ecf1"
"""Ink of a picture: for a light and for a dark ground."""

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


@dataclass(frozen=True)
class Plot:
    """A plot and the table that says the same.

    Attributes:
        name: for file names and for ids in a page: letters, digits, ``_`` and ``-``; no two plots of a report share it.
        title: one line.
        caption: what is shown, how bounds were computed, and what is left out and why.
        columns: of the table.
        rows: of the table, in the order of the plot. Shares are fractions in [0, 1], as in the results.
        draw: makes the picture, a ``matplotlib.figure.Figure``.
    """

    name: str
    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    draw: Callable[[], Any] = field(repr=False, compare=False)

    def svg(self, ink: str = LIGHT) -> str:
        """The picture as an ``<svg>`` element without a background; it is drawn once for all inks.

        Args:
            ink: colour of axes and text.

        Raises:
            ModuleNotFoundError: matplotlib (``lm-eval-grounded[report]``) is not installed.
        """
        return self._svg.replace(INK, ink)

    @cached_property
    def _svg(self) -> str:
        stream = io.StringIO()
        self._write(stream, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
        svg = stream.getvalue()
        return _compact(svg[svg.index("<svg ") :].strip())

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of the picture, in points of print."""
        width, height = re.findall(r'(?:width|height)="([\d.]+)pt"', self._svg)[:2]
        return float(width), float(height)

    def png(self, path: Path) -> None:
        """Write the picture as PNG, dark on white; errors as of :meth:`svg`."""
        self._write(path, format="png", dpi=200, facecolor="white")

    def _write(self, target: Path | io.StringIO, **options: Any) -> None:
        try:
            import matplotlib
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "plots need matplotlib: pip install 'lm-eval-grounded[report]'", name=error.name
            ) from error
        # With a salt the same figures give the same bytes.
        with matplotlib.rc_context({**_STYLE, "svg.hashsalt": self.name}), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # the browser has a font for it
            self.draw().savefig(target, **options)


def _compact(svg: str) -> str:
    """The same picture in a third fewer bytes: each style stands once, and numbers have two decimals. Texts stay."""
    styles: dict[str, int] = {}
    svg = _NEEDLESS.sub("", svg)
    svg = _STYLE_ATTRIBUTE.sub(lambda found: f'class="s{styles.setdefault(found[1], len(styles))}"', svg)
    rules = "".join(f".s{number}{{{style}}}" for style, number in styles.items())
    return svg.replace("</style>", f"{rules}</style>", 1)


def save(plots: Sequence[Plot], svg_dir: Path | None = None, png_dir: Path | None = None) -> list[Path]:
    """Write plots as files, dark on white: ``<name>.svg`` and ``<name>.png``.

    Args:
        plots: of a report.
        svg_dir: folder for SVG; ``None`` for none.
        png_dir: folder for PNG; ``None`` for none.

    Returns:
        The files.

    Raises:
        ModuleNotFoundError: as of :meth:`Plot.svg`.
    """
    written = []
    for plot in plots:
        if svg_dir is not None:
            written.append(svg_dir / f"{plot.name}.svg")
            with whole_file(written[-1]) as partial:
                partial.write_text(_standing_alone(plot), "utf-8")
        if png_dir is not None:
            written.append(png_dir / f"{plot.name}.png")
            with whole_file(written[-1]) as partial:
                plot.png(partial)
    return written


def _standing_alone(plot: Plot) -> str:
    """The picture as a document of its own: on white, with a name and a description."""
    title, caption = (escape(readable(text)) for text in (plot.title, plot.caption))
    start, rest = plot.svg().split(">", 1)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'{start} role="img" style="background:#fff">\n<title>{title}</title><desc>{caption}</desc>{rest}\n'
    )
