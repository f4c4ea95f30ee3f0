"""Bounds of a share of unequal units: of answers in conversations, of words in answers, of words in drawn answers.

A unit has a size and a part of it that is a hit. Bounds of clusters are Korn and Graubard's ("Confidence intervals for
proportions with small expected number of positive counts estimated from survey data", Survey Methodology 24, 1998): the
number of independent trials with the same variance, times the squared ratio of Student's quantiles, in Clopper and
Pearson's.

A few units that are wholly wrong may hold most of a low rate. Where none or one of them was seen, the variance that was
seen says nothing of them. So while fewer than ten units are over a half, the upper bound is at least (*two parts*)

    sum of the parts under a half + Clopper and Pearson's upper bound of the share of units over a half * their mean part

where the mean part is 1 if no unit is over a half, and units are counted by Kish's effective number. The lower bound has
the same rule for the misses. ``make check-statistics`` and ``make check-marks`` simulate how often the bounds hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from custom_metrics.statistics.intervals import SIGNIFICANCE, clopper_pearson

Floats = NDArray[np.float64]

BOUNDS_OF_BOTH = "MOVER of two shares of clusters"

_LEAST_P = 1e-12
"""No smaller p is looked for."""

FEW = 10
"""From so many units over a half on, the variance that was seen tells what they hold."""


def two_part_bounds(
    parts: ArrayLike,
    weights: ArrayLike,
    level: float = SIGNIFICANCE,
    more: ArrayLike = 1.0,
    values: ArrayLike | None = None,
) -> tuple[Floats, Floats]:
    """What the lower bound of a weighted mean is at most, and the upper bound at least; 1 and 0 where that is nothing.

    Args:
        parts: (..., units) of each unit, from 0 to 1.
        weights: (..., units) in proportion to what each counts; not all of them 0.
        level: the probability with which bounds miss the mean.
        more: (...) what the number of units is multiplied by, where those that were not seen are part of a small whole.
        values: (..., units) the numbers whose mean it is, if these are parts less what was expected of them.
    """
    halves, shares = np.asarray(parts, float), np.asarray(weights, float)
    numbers = halves if values is None else np.asarray(values, float)
    shares = shares / shares.sum(axis=-1, keepdims=True)
    units = np.asarray(more, float) / (shares**2).sum(axis=-1)
    at_most = 1 - _with_unseen(1 - halves, 1 - numbers, shares, units, level)
    return at_most, _with_unseen(halves, numbers, shares, units, level)


def _with_unseen(parts: Floats, values: Floats, shares: Floats, units: Floats, level: float) -> Floats:
    """The least upper bound of a mean of an effective number of units; 0 where :data:`FEW` or more are over a half."""
    large = shares * (parts >= 0.5)
    of_large = large.sum(axis=-1)
    mean = np.where(of_large > 0, (large * values).sum(axis=-1) / np.where(of_large > 0, of_large, 1.0), 1.0)
    most = clopper_pearson(of_large * units, units, level)[1]
    least = np.clip(((shares - large) * values).sum(axis=-1) + most * mean, 0.0, 1.0)
    return np.asarray(np.where(of_large * units < FEW, least, 0.0))


def share_of_clusters(hits: ArrayLike, sizes: ArrayLike, level: float = SIGNIFICANCE) -> tuple[Floats, Floats, Floats]:
    """Bounds of the share of hits of all clusters together, and its standard error (jackknife: Efron and Stein 1981). All
    are ``nan`` without a cluster, the standard error also of one, which counts as one trial.

    Args:
        hits, sizes: (..., clusters) numbers; a cluster of size 0 does not count.
        level: the probability with which bounds miss the share.
    """
    from scipy.special import stdtrit

    k, m = np.asarray(hits, float), np.asarray(sizes, float)
    clusters, total = (m > 0).sum(axis=-1), m.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = k.sum(axis=-1) / total
        moves = (k - share[..., None] * m) / (total[..., None] - m)  # of the share, without each cluster
        error = np.where(clusters > 1, np.sqrt((clusters - 1) / clusters * (moves**2).sum(axis=-1)), np.nan)
        # of clusters that are all alike, or of one, their number is all there is
        trials = np.where(error > 1e-15, share * (1 - share) / error**2, total**2 / (m**2).sum(axis=-1))
        freedoms = [np.maximum(number - 1, 1) for number in (total, clusters)]
        ratio = stdtrit(freedoms[0], 1 - level / 2) / stdtrit(freedoms[1], 1 - level / 2)
        # where no variance was seen, none was estimated with few degrees of freedom
        trials = np.minimum(trials, total) * np.where(error > 1e-15, np.minimum(1.0, ratio) ** 2, 1.0)
        low, high = clopper_pearson(share * trials, trials, level)
        at_most, at_least = two_part_bounds(np.where(m > 0, k / m, 0.0), m, level)
    return np.minimum(low, at_most), np.maximum(high, at_least), np.asarray(error)


def difference_of_clusters(hits: ArrayLike, others: ArrayLike, sizes: ArrayLike) -> tuple[float, float, float]:
    """95 % bounds of the difference of two shares over the same clusters, and p, the level at which bounds touch 0: MOVER
    (Zou and Donner 2008) from the bounds of both shares, as if they were independent, which errs on the careful side. Where
    no cluster differs they are those of nothing seen."""
    numbers, size = (np.asarray(hits, float), np.asarray(others, float)), np.asarray(sizes, float)
    if np.array_equal(*numbers):
        unseen = float(two_part_bounds(np.zeros_like(size), size)[1])
        return -unseen, unseen, 1.0
    one, other = (float(number.sum() / size.sum()) for number in numbers)

    def reaches(level: float) -> tuple[float, float]:
        """How far the bounds of this level are below and above the difference."""
        (low, high), (other_low, other_high) = (
            map(float, share_of_clusters(each, size, level)[:2]) for each in numbers
        )
        return math.hypot(one - low, other_high - other), math.hypot(high - one, other - other_low)

    below, above = reaches(SIGNIFICANCE)
    p = level_of(lambda level: abs(one - other) > reaches(level)[int(one < other)])
    return one - other - below, one - other + above, p


def level_of(excludes: Callable[[float], bool]) -> float:
    """The level at which bounds begin to exclude 0; on the side of :data:`SIGNIFICANCE` where the 95 % bounds have it."""
    least, greatest = (_LEAST_P, SIGNIFICANCE) if excludes(SIGNIFICANCE) else (SIGNIFICANCE, 1.0)
    if excludes(least) or not excludes(greatest):
        return least if excludes(least) else greatest
    while greatest - least > 1e-6 * greatest:
        middle = math.sqrt(least * greatest)
        least, greatest = (least, middle) if excludes(middle) else (middle, greatest)
    return least
