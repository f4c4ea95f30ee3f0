"""A plot: figures of models as a table, in words, and as a picture in SVG or PNG."""

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

LIGHT, DARK = "#16191f", "#e9ecf1"
"""Ink of a picture for a light and for a dark background."""

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
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none"),
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
    draw: Callable[[], Any] = field(repr=False, compare=False)  # makes a ``matplotlib.figure.Figure``
    shares: frozenset[str] = frozenset()  # the columns, without ``_low`` and ``_high``, whose values are shares
    family: str = ""  # of whose models it is the overview: means of two metrics that are traded against each other

    def svg(self, ink: str = LIGHT) -> str:
        """The picture as an ``<svg>`` element without a background, drawn once for all inks: colours of axes and text.

        Raises:
            ModuleNotFoundError: matplotlib (``lm-eval-grounded[report]``) is not installed.
        """
        return self._svg.replace(INK, ink)

    @cached_property
    def _svg(self) -> str:
        stream = io.StringIO()
        self.write(stream, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
        drawn = stream.getvalue()
        return _NEEDLESS_DIGITS.sub("", drawn[drawn.index("<svg ") :].strip())

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
