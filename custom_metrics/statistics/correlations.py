"""Correlations of two quantities over languages: Pearson's r and Spearman's rho, each with its p."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["FEWEST", "Correlation", "correlate", "ranks", "student_p"]

FEWEST = 3
"""Pairs; of fewer, a correlation says nothing."""

_EXACT = 8  # pairs up to which all orders are tried, 40,320 of eight
_ROUNDING = 1e-12

Floats = NDArray[np.float64]


class Correlation(NamedTuple):
    """Correlations of pairs; ``nan`` where they are not defined.

    Attributes:
        pearson, pearson_p: r; p is two-sided, of Student's t with n - 2 degrees of freedom.
        spearman, spearman_p: rho, of ranks; equal values share their mean rank. p is two-sided: for up to eight pairs the
            share of all orders whose rho is as far from 0, for more Student's t as for r.
        n: pairs.
    """

    pearson: float
    pearson_p: float
    spearman: float
    spearman_p: float
    n: int


def correlate(first: Sequence[float], second: Sequence[float]) -> Correlation:
    """Correlate two quantities.

    Args:
        first, second: one number each for every pair; a pair with ``nan`` is left out.

    Returns:
        All ``nan`` for fewer than :data:`FEWEST` pairs, and where a quantity is the same everywhere.

    Raises:
        ValueError: they are not equally many.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} numbers of the first quantity, but {len(second)} of the second")
    pairs = [(x, y) for x, y in zip(first, second, strict=True) if not math.isnan(x + y)]
    number = len(pairs)
    x, y = (np.array([pair[side] for pair in pairs], dtype=float) for side in (0, 1))
    if number < FEWEST or np.ptp(x) == 0 or np.ptp(y) == 0:
        return Correlation(math.nan, math.nan, math.nan, math.nan, number)
    r, rho = _pearson(x, y), _pearson(ranks(x), ranks(y))
    of_orders = _share_of_orders(ranks(x), ranks(y), rho) if number <= _EXACT else _p(rho, number)
    return Correlation(r, _p(r, number), rho, of_orders, number)


def ranks(values: Floats) -> Floats:
    """Ranks from 1 on; those that tie share their mean rank."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    mean: Floats = (last - (count - 1) / 2)[place]
    return mean


def student_p(t: float, freedom: int) -> float:
    """P(|T| >= |t|) of Student's t, exactly (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4).

    Args:
        t: the statistic, which may be infinite.
        freedom: degrees of freedom, 1 or more.

    Returns:
        In [0, 1]; ``nan`` of ``nan``.
    """
    if math.isinf(t):
        return 0.0
    angle = math.atan2(abs(t), math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = total = cosine if odd else 1.0
    for place in range(3 if odd else 2, freedom, 2):
        term *= cosine * cosine * (place - 1) / place
        total += term
    inside = 2 / math.pi * (angle + sine * (0 if freedom == 1 else total)) if odd else sine * total
    return max(1 - inside, 0.0)


def _p(r: float, number: int) -> float:
    rest = 1 - r * r
    return student_p(r * math.sqrt((number - 2) / rest) if rest > _ROUNDING else math.inf, number - 2)


def _pearson(x: Floats, y: Floats) -> float:
    dx, dy = _deviations(x), _deviations(y)
    return max(-1.0, min(1.0, float(dx @ dy) / math.sqrt(float(dx @ dx) * float(dy @ dy))))


def _deviations(values: Floats) -> Floats:
    """From the mean, as shares of the largest: the squares of the smallest numbers would be 0."""
    apart = values - values.mean()
    return np.asarray(apart / np.abs(apart).max())


def _share_of_orders(x: Floats, y: Floats, rho: float) -> float:
    orders = np.array([*permutations(range(len(y)))])
    dx, dy = x - x.mean(), y - y.mean()
    found = dy[orders] @ dx / math.sqrt(float(dx @ dx) * float(dy @ dy))
    return float(np.mean(np.abs(found) >= abs(rho) - _ROUNDING))
