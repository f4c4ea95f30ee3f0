"""A plot: its data as rows, what it shows in words, and its picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.units import NOT_MEASURABLE
from lm_eval_tasks.data.atomic import whole_file

__all__ = ["Cell", "Plot", "cells", "columns_of", "is_unknown", "not_drawn", "save"]

Cell = str | float | int | None
"""A cell of the table that equals a plot; ``None`` for what is not defined."""


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

    @cached_property
    def svg(self) -> str:
        """The picture as an ``<svg>`` element, to stand in a page or in a file. Axes and text have the page's colour.

        Raises:
            ModuleNotFoundError: matplotlib (``lm-eval-grounded[report]``) is not installed.
        """
        from lm_eval_tasks.results.report.plots.drawing import as_svg

        return as_svg(self.draw, self.name, self.title, self.caption)

    def png(self, path: Path) -> None:
        """Write the picture as PNG, dark on white.

        Raises:
            ModuleNotFoundError: as of :attr:`svg`.
        """
        from lm_eval_tasks.results.report.plots.drawing import write_png

        with whole_file(path) as partial:
            write_png(self.draw, partial)


_NAMED = 6  # points that a caption names


def columns_of(metric: str) -> tuple[str, ...]:
    """The columns of a figure: value, bounds, and how many documents."""
    return metric, f"{metric}_low", f"{metric}_high", f"{metric}_n"


def cells(figure: Figure) -> tuple[Cell, ...]:
    """A figure, as it is drawn, in the columns of :func:`columns_of`: one with bounds and no value is not measurable."""
    value, low, high = (None if math.isnan(part) else part for part in figure[:3])
    return NOT_MEASURABLE if is_unknown(figure) else value, low, high, figure.n


def is_unknown(figure: Figure) -> bool:
    """Whether a figure, as it is drawn, is not measurable; an undefined one has no bounds either."""
    return math.isnan(figure.value) and not math.isnan(figure.low + figure.high)


def not_drawn(points: Iterable[tuple[str, Sequence[Figure]]]) -> str:
    """A sentence of a caption about points that are not drawn, and why; empty where all are.

    Args:
        points: name of each point, and its figures.
    """
    reasons: dict[str, list[str]] = {}
    for name, figures in points:
        if any(math.isnan(figure.value) and not is_unknown(figure) for figure in figures):
            reasons.setdefault("a rate is undefined", []).append(name)
        elif any(map(is_unknown, figures)):
            reasons.setdefault("its bounds span more than half of the scale", []).append(name)
    return "".join(f" Not drawn, because {why}: {_few(names)}." for why, names in reasons.items())


def _few(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


_FILE = '<?xml version="1.0" encoding="UTF-8"?>\n'


def save(plots: Sequence[Plot], svg_dir: Path | None = None, png_dir: Path | None = None) -> list[Path]:
    """Write plots as files, ``<name>.svg`` and ``<name>.png``.

    Args:
        plots: of a report.
        svg_dir: folder for SVG; ``None`` for none.
        png_dir: folder for PNG; ``None`` for none.

    Returns:
        The files.

    Raises:
        ModuleNotFoundError: as of :attr:`Plot.svg`.
    """
    written = []
    for plot in plots:
        if svg_dir is not None:
            path = svg_dir / f"{plot.name}.svg"
            # Dark on white wherever it is shown; in a page the colours are the page's.
            alone = plot.svg.replace("<svg ", '<svg color="#1a1a1a" ', 1).replace(
                'style="', 'style="background:#fff;', 1
            )
            with whole_file(path) as partial:
                partial.write_text(_FILE + alone + "\n", "utf-8")
            written.append(path)
        if png_dir is not None:
            path = png_dir / f"{plot.name}.png"
            plot.png(path)
            written.append(path)
    return written
