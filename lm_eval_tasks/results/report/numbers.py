"""Figures as text: percent for shares, decimals for scores, the same everywhere in a report and on a leaderboard."""

from __future__ import annotations

import math
from collections.abc import Sequence

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.units import NOT_MEASURABLE, Unit, fixed, is_measurable, small_n

UNDEFINED_TEXT = "undefined"
NO_BREAK = "\N{NO-BREAK SPACE}"

_DECIMALS = {"score": 3, "correlation": 3, "rating": 2, "number": 3}


def unbroken(text: str) -> str:
    """A text with no-break spaces between numbers and percent signs."""
    return text.replace(" %", f"{NO_BREAK}%")


def as_text(value: float, unit: Unit) -> str:
    """A number with its unit: ``20.8 %``, ``0.379``, ``191``, ``3.21``."""
    if math.isnan(value):
        return UNDEFINED_TEXT
    if unit == "share":
        return f"{fixed(100 * value, 1)} %"
    return fixed(value, 1 if unit == "number" and abs(value) >= 10 else _DECIMALS.get(unit, 0))


def points(value: float, unit: Unit) -> str:
    """A difference: ``+12.3 points`` of percent, else the number with its sign."""
    if math.isnan(value):
        return UNDEFINED_TEXT
    sign = "\N{MINUS SIGN}" if value < 0 else "+"
    if unit == "share":
        return f"{sign}{fixed(100 * abs(value), 1)} points"
    return sign + as_text(abs(value), unit)


def bounds(figure: Figure, unit: Unit) -> str:
    """The 95 % bounds: ``13.3 to 31.1 %``; empty where there are none."""
    if math.isnan(figure.low) or math.isnan(figure.high):
        return ""
    low, high = as_text(figure.low, unit), as_text(figure.high, unit)
    return f"{low.removesuffix(' %')} to {high}"


def range_of(figure: Figure, unit: Unit) -> str:
    """The number; if it is not measurable, only its bounds, in whole percent for shares: ``0 to 100 %``."""
    if is_measurable(figure, unit):
        return as_text(figure.value, unit)
    return f"{100 * figure.low:.0f} to {100 * figure.high:.0f} %" if unit == "share" else bounds(figure, unit)


def not_measurable(figure: Figure, unit: Unit, needs: str = "") -> str:
    """``not measurable (0 to 100 %)`` if a figure is not (:mod:`custom_metrics.statistics.units`), with what it `needs`:
    ``not measurable without marks (0 to 100 %)``; empty for any other figure."""
    without = f" without {needs}" if needs else ""
    return "" if is_measurable(figure, unit) else f"{NOT_MEASURABLE}{without} ({range_of(figure, unit)})"


def with_bounds(figure: Figure, unit: Unit) -> str:
    """The number with its bounds in brackets, and the number of documents, if these are few; if it is not measurable, the
    text of :func:`not_measurable`."""
    interval = ", ".join(filter(None, (bounds(figure, unit), small_n(figure))))
    value = as_text(figure.value, unit)
    return not_measurable(figure, unit) or (f"{value} [{interval}]" if interval else value)


def shorten(names: Sequence[str], most: int) -> str:
    """At most `most` names, and the number of further ones: ``de, fr and 3 more``."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
