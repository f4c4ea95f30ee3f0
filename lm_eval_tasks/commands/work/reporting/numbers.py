"""How a figure is shown: percent for shares, decimals for scores, the same everywhere in a report."""

from __future__ import annotations

import math
from typing import Literal

from custom_metrics.figures import Figure

__all__ = ["NO_BREAK", "UNDEFINED_TEXT", "Unit", "bounds", "shown", "unbroken", "unit_of", "with_bounds"]

Unit = Literal["share", "score", "characters", "words", "rating"]

UNDEFINED_TEXT = "undefined"
NO_BREAK = "\N{NO-BREAK SPACE}"

_SCORES = ("rougeL", "recall", "rougeLp", "k_precision", "iou", "rho", "f1", "precision", "ndcg")
_DECIMALS = {"score": 3, "rating": 2}
_RATINGS = ("f_plus_a", "faithfulness", "appropriateness")


def unit_of(metric: str) -> Unit:
    """The unit of a metric's values, by its name; a share where the name says nothing else."""
    if metric in _RATINGS:
        return "rating"
    if metric.startswith("length"):
        return "characters"
    if metric.endswith("_words"):
        return "words"
    name = metric.partition("@")[0]
    return "score" if any(name == score or name.startswith(f"{score}_") for score in _SCORES) else "share"


def unbroken(text: str) -> str:
    """A text in which no line ends between a number and its percent sign."""
    return text.replace(" %", f"{NO_BREAK}%")


def shown(value: float, unit: Unit) -> str:
    """A number with its unit: ``20.8 %``, ``0.379``, ``191``, ``3.21``."""
    if math.isnan(value):
        return UNDEFINED_TEXT
    if unit == "share":
        return f"{100 * value:.1f} %"
    return f"{value:.{_DECIMALS.get(unit, 0)}f}"


def bounds(figure: Figure, unit: Unit) -> str:
    """The 95 % bounds: ``13.3 to 31.1 %``; empty where there are none."""
    if math.isnan(figure.low) or math.isnan(figure.high):
        return ""
    low, high = shown(figure.low, unit), shown(figure.high, unit)
    return f"{low.removesuffix(' %')} to {high}"


def with_bounds(figure: Figure, unit: Unit) -> str:
    """The number and its bounds in brackets."""
    between = bounds(figure, unit)
    return f"{shown(figure.value, unit)} [{between}]" if between else shown(figure.value, unit)
