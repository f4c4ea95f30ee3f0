"""Correlations of two quantities over languages: Pearson's r and Spearman's rho, each with its p."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["FEWEST", "Correlation", "correlate"]

FEWEST = 3
"""Pairs; of fewer, a correlation says nothing."""

_EXACT = 8  # pairs up to which all orders are tried, 40,320 of eight
_ROUNDING = 1e-9


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
    from scipy import stats

    if len(first) != len(second):
        raise ValueError(f"{len(first)} numbers of the first quantity, but {len(second)} of the second")
    pairs = [(x, y) for x, y in zip(first, second, strict=True) if not math.isnan(x + y)]
    number = len(pairs)
    x, y = (np.array([pair[side] for pair in pairs], dtype=float) for side in (0, 1))
    if number < FEWEST or np.ptp(x) == 0 or np.ptp(y) == 0:
        return Correlation(math.nan, math.nan, math.nan, math.nan, number)
    pearson, spearman = stats.pearsonr(x, y), stats.spearmanr(x, y)
    p = _share_of_orders(stats.rankdata(x), stats.rankdata(y)) if number <= _EXACT else spearman.pvalue
    return Correlation(float(pearson.statistic), float(pearson.pvalue), float(spearman.statistic), float(p), number)


def _share_of_orders(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """The share of all orders of `y` whose covariance with `x` is as far from 0."""
    orders = np.array([*permutations(y)]) - y.mean()
    covariances = np.abs(orders @ (x - x.mean()))
    return float(np.mean(covariances >= covariances[0] - _ROUNDING))
