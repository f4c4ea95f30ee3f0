"""Corpus figures from per-document values, as the harness's aggregations.

The harness passes one value per document. ``nan`` means that the document is not in the metric's denominator; where no
document is, the figure is ``nan``, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from custom_metrics.intervals import bootstrap_mean, wilson

__all__ = ["bootstrap_high", "bootstrap_low", "defined_mean", "wilson_high", "wilson_low"]


def _counted(values: Sequence[float]) -> list[float]:
    return [float(value) for value in values if value == value]


def defined_mean(values: Sequence[float]) -> float:
    """Mean over the documents in the denominator."""
    counted = _counted(values)
    return math.fsum(counted) / len(counted) if counted else math.nan


def wilson_low(values: Sequence[float]) -> float:
    """Lower 95 % Wilson bound of a share, from values 1.0 (in the share), 0.0 (not) and ``nan``."""
    counted = _counted(values)
    return wilson(sum(counted), len(counted))[0]


def wilson_high(values: Sequence[float]) -> float:
    """Upper 95 % Wilson bound of a share, from values 1.0 (in the share), 0.0 (not) and ``nan``."""
    counted = _counted(values)
    return wilson(sum(counted), len(counted))[1]


def bootstrap_low(values: Sequence[float]) -> float:
    """Lower 95 % bootstrap bound of the mean."""
    return _bootstrap(tuple(_counted(values)))[0]


def bootstrap_high(values: Sequence[float]) -> float:
    """Upper 95 % bootstrap bound of the mean."""
    return _bootstrap(tuple(_counted(values)))[1]


@lru_cache(maxsize=64)
def _bootstrap(values: tuple[float, ...]) -> tuple[float, float]:  # both bounds come from one resampling
    return bootstrap_mean(values)
