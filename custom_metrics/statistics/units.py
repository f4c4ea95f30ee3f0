"""Units of metrics, and the one rule for figures that are too uncertain to be shown.

A figure whose 95 % bounds span more than half of its scale is *not measurable*: its value carries almost no information,
and 0.0 would look like the best of all. Reports and comparisons show the bounds alone: :func:`is_measurable`
decides, and :func:`without_point` takes the value away. The harness's table and results lack a corrected rate that is not
measurable.
"""

from __future__ import annotations

import math
from typing import Literal

from custom_metrics.statistics.figures import Figure

Unit = Literal["share", "score", "correlation", "characters", "words", "rating", "number"]

MAX_USEFUL_CI_WIDTH = 0.5
"""Width of 95 % bounds, as a part of the scale, above which a figure is not measurable."""

FEW = 10
"""Number of questions below which a share is almost meaningless: the 95 % bound of 0 of 9 is 0.3."""

FEWEST_UNSAID = 50
"""Documents below which a figure's number of documents is shown beside it."""

NOT_MEASURABLE = "not measurable"
"""The text in place of such a figure."""

_SCALES: dict[Unit, tuple[float, float]] = {"share": (0, 1), "score": (0, 1), "correlation": (-1, 1), "rating": (1, 4)}
"""Unit to the ends of its scale; lengths in characters and words, and numbers of any kind, have none."""


def fixed(value: float, decimals: int, sign: str = "") -> str:
    """A number with so many decimals; from ten million on as a power of ten, ``1.234e+07``. `sign` is that of a format."""
    return f"{value:{sign}.{decimals}f}" if abs(value) < 1e7 else f"{value:{sign}.4g}"


def is_wide(low: float, high: float, scale: float = 1.0) -> bool:
    """Whether bounds span more than half of a scale of this length; unknown bounds (``nan``) do not."""
    return high - low > MAX_USEFUL_CI_WIDTH * scale


def is_measurable(figure: Figure, unit: Unit) -> bool:
    """Whether a figure may be shown as a number. One without bounds may: how sure it is, is not known."""
    least, greatest = _SCALES.get(unit, (0, math.inf))
    return not is_wide(figure.low, figure.high, greatest - least)


def within_scale(figure: Figure, unit: Unit) -> Figure:
    """A figure whose bounds end where its scale does: those of a mean of few scores may reach beyond."""
    least, greatest = _SCALES.get(unit, (-math.inf, math.inf))
    if not (figure.low < least or figure.high > greatest):
        return figure
    return figure._replace(low=max(figure.low, least), high=min(figure.high, greatest))


def small_n(figure: Figure) -> str:
    """``n = 26`` for a figure of few documents; empty for others, and where the number is not known."""
    return f"n = {figure.n}" if 0 < figure.n < FEWEST_UNSAID else ""


def without_point(figure: Figure, unit: Unit) -> Figure:
    """A figure as it is drawn: one that is not measurable keeps its bounds and loses its value."""
    return figure if is_measurable(figure, unit) else figure._replace(value=math.nan, standard_error=math.nan)
