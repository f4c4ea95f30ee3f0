"""How a difference of two figures is shown."""

from __future__ import annotations

import math

from custom_metrics.statistics.units import Unit
from lm_eval_tasks.results.report.numbers import UNDEFINED_TEXT, shown

__all__ = ["points"]


def points(value: float, unit: Unit) -> str:
    """A difference: ``+12.3 points`` of percent, else the number with its sign."""
    if math.isnan(value):
        return UNDEFINED_TEXT
    sign = "\N{MINUS SIGN}" if value < 0 else "+"
    if unit == "share":
        return f"{sign}{100 * abs(value):.1f} points"
    return sign + shown(abs(value), unit)
