"""The difference of two shares of the same documents, and of two means of shares: Tango's interval, MOVER, and their p.

Of n documents, b are in the first model's share alone and c in the second's alone (*discordant*). The difference of the
shares is (b - c)/n.

- *Bounds* of one share are Tango's asymptotic score interval (Tango 1998, "Equivalence test and confidence interval for
  the difference in proportions for the paired-sample design").
- A mean of shares, such as one over languages or over the two rates of a balanced error, has *strata*. Its bounds recover
  the variance of each stratum from its Tango interval (MOVER: Zou and Donner 2008, "Construction of confidence limits about
  effect measures: a general approach").
- *p* is the level at which the interval touches 0, so that p is under 0.05 exactly where the 95 % bounds leave 0 out. Of
  one stratum that is McNemar's test without continuity correction (McNemar 1947). The exact p stands beside.

A test that assumes no difference in each stratum has no power where rates are traded, as their differences have opposite
signs. ``make check-statistics`` simulates how often the interval and p are right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from custom_metrics.statistics.intervals import SIGNIFICANCE, Z95
from custom_metrics.statistics.paired_difference import NO_DIFFERENCE, Floats, PairedDifference

TANGO = "Tango score interval, p of the same score"
MOVER = "MOVER of Tango score intervals, p by inverting it"

_BISECTIONS = 50  # halve [-1, 1] to less than 1e-14
_FARTHEST = 40.0  # standard errors; beyond, p is no float
_TINY = float(np.finfo(float).tiny)  # instead of a variance of 0


def is_share(strata: Sequence[Floats]) -> bool:
    """Whether all values are 1.0 or 0.0, or ``nan``: their mean is a share."""
    return all(bool(np.isin(values[~np.isnan(values)], (0.0, 1.0)).all()) for values in strata)


def share_differences(
    strata: Sequence[Floats],
    pairs: Sequence[tuple[int, int]],
    weights: Sequence[float] | None = None,
    together: int = 1,
) -> list[PairedDifference]:
    """The differences of pairs of models, over the documents that count for both.

    Args:
        strata: (documents, models) values 1.0, 0.0, or ``nan`` where a document does not count.
        pairs: the columns of the models to compare.
        weights: what each stratum counts; default each the same. Of a pair, strata without a document are left out.
        together: so many strata in a row are left out together, such as the two of a balanced error.
    """
    places = tuple(np.array(pairs, dtype=int).T)
    b, c, n, shared = np.moveaxis(np.array([[m[places] for m in discordant(values)] for values in strata]), 1, 0)
    blocks = n.reshape(-1, together, len(pairs))
    n = np.where((blocks > 0).all(axis=1, keepdims=True), blocks, 0.0).reshape(n.shape)
    b, c, shared = (np.where(n > 0, counts, 0.0) for counts in (b, c, shared))
    parts = _parts(n, np.ones(len(n)) if weights is None else weights)
    difference, low, high, p = difference_of_shares(b, c, n, parts)
    sizes = np.maximum(n, 1.0)
    first, second = (parts * (shared + b) / sizes).sum(axis=0), (parts * (shared + c) / sizes).sum(axis=0)
    variances = ((b + c) / sizes - ((b - c) / sizes) ** 2) / sizes  # McNemar 1947; Agresti 2002, section 10.1
    error = np.sqrt((parts**2 * variances).sum(axis=0))
    totals = n.sum(axis=0).astype(int)
    exact = exact_mcnemar(b[0], c[0]) if len(n) == 1 else np.full(len(pairs), math.nan)
    method = TANGO if len(n) == 1 else MOVER
    columns = (first, second, difference, low, high, p, totals, [method] * len(pairs), exact, error)
    rows = zip(*(np.asarray(column).tolist() for column in columns), strict=True)
    return [PairedDifference(*row) if row[6] else NO_DIFFERENCE for row in rows]


def _parts(n: Floats, weights: Any) -> Floats:
    """The part that each stratum has in the mean of each pair: (strata, pairs); ``nan`` of a pair without a document."""
    parts = np.where(n > 0, np.asarray(weights, dtype=float)[:, None], 0.0)
    with np.errstate(invalid="ignore"):
        return np.asarray(parts / parts.sum(axis=0))


def difference_of_shares(b: Any, c: Any, n: Any, parts: Any) -> tuple[Floats, Floats, Floats, Floats]:
    """The mean over strata of (b - c)/n, its 95 % bounds, and p, each (pairs,).

    Args:
        b, c, n: (strata, pairs) numbers of discordant documents, and of all; a stratum may be without any.
        parts: (strata, pairs) what each stratum counts in the mean; they add up to 1.
    """
    from scipy import special

    b, c, n = (np.asarray(counts, dtype=float) for counts in (b, c, n))
    n = np.maximum(n, 1.0)
    difference, low = _lower(b, c, n, parts, Z95)
    high = -_lower(c, b, n, parts, Z95)[1]
    more, less = np.maximum(b, c), np.minimum(b, c)
    if len(n) == 1:
        reach = ((more - less) / np.sqrt(np.maximum(b + c, _TINY)))[0]
    else:
        more, less = np.where(difference > 0, b, c), np.where(difference > 0, c, b)
        reach, far = np.zeros_like(difference), np.full_like(difference, _FARTHEST)
        for _ in range(_BISECTIONS):  # to where the bound nearer to 0 touches it
            middle = (reach + far) / 2
            beyond = _lower(more, less, n, parts, middle)[1] > 0
            reach, far = np.where(beyond, middle, reach), np.where(beyond, far, middle)
    p = np.where(difference == 0, 1.0, 2 * special.ndtr(-reach))
    outside = (low > 0) | (high < 0)  # where p and bounds are rounded, the bounds decide
    p = np.where(outside, np.minimum(p, np.nextafter(SIGNIFICANCE, 0)), np.maximum(p, SIGNIFICANCE))
    return difference, low, high, np.asarray(np.where(np.isnan(difference), np.nan, p))


def _lower(b: Floats, c: Floats, n: Floats, parts: Floats, z: Any) -> tuple[Floats, Floats]:
    """The mean over strata of (b - c)/n, and its lower bound at z standard errors."""
    differences = (b - c) / n
    mean = (parts * differences).sum(axis=0)
    distances = parts * (differences - tango_lower(b, c, n, z))
    return mean, np.asarray(mean - np.sqrt((distances**2).sum(axis=0)))


def discordant(values: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """How all pairs of models differ in (documents, models) values 1.0, 0.0 or ``nan``, as (models, models) numbers of
    documents: in the share of the row's model alone, of the column's alone, counted for both, and in both shares."""
    ones, zeros = (values == 1).astype(float), (values == 0).astype(float)
    only_row, counted = ones.T @ zeros, ones + zeros
    return only_row, only_row.T, counted.T @ counted, ones.T @ ones


def exact_mcnemar(b: Any, c: Any) -> Floats:
    """The two-sided p of McNemar's exact test, from numbers of discordant documents; 1.0 without one."""
    from scipy import special

    return np.asarray(np.minimum(1.0, 2 * special.bdtr(np.minimum(b, c).astype(int), np.add(b, c).astype(int), 0.5)))


def tango_lower(b: Any, c: Any, n: Any, z: Any = Z95) -> Floats:
    """The lower bound of (b - c)/n by Tango's score interval; the upper one is ``-tango_lower(c, b, n)``.

    It is where the score statistic equals z. Its variance is that of the difference, with the probability of b estimated by
    maximum likelihood under the bound (equation 5 of the paper).
    """
    b, c, n = (np.asarray(counts, dtype=float) for counts in (b, c, n))
    low, high = (c - b) / n, np.ones(np.broadcast_shapes(b.shape, c.shape, n.shape, np.shape(z)))  # of (c - b)/n
    for _ in range(_BISECTIONS):
        delta = (low + high) / 2
        linear = -b - c + (2 * n - c + b) * delta
        constant = -b * delta * (1 - delta)
        chance = (np.sqrt(np.maximum(0, linear**2 - 8 * n * constant)) - linear) / (4 * n)
        variance = n * (2 * chance + delta * (1 - delta))
        score = (c - b - n * delta) / np.sqrt(np.maximum(variance, _TINY))  # it falls as delta rises
        low, high = np.where(score >= -z, delta, low), np.where(score >= -z, high, delta)
    return np.asarray(-(low + high) / 2)
