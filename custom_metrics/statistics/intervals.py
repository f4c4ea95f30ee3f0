"""Confidence intervals: of a share (Wilson), the difference of two (Newcombe), any other figure (resamples of clusters).

A share of unequal units is one of answers in conversations, of words in answers, of words in drawn answers. Its bounds are
Korn and Graubard's ("Confidence intervals for proportions with small expected number of positive counts estimated from
survey data", Survey Methodology 24, 1998): Clopper and Pearson's with the number of independent trials of the same
variance, times the squared ratio of Student's quantiles.

A few units that are wholly wrong may hold most of a low rate. Where none or one of them was seen, the variance that was
seen says nothing of them. So while fewer than ten units are over a half, the upper bound is at least (*two parts*)

    sum of the parts under a half + Clopper and Pearson's upper bound of the share of units over a half * their mean part

where the mean part is 1 if no unit is over a half, and units are counted by Kish's effective number. The lower bound has
the same rule for the misses. ``make check-statistics`` and ``make check-marks`` simulate how often the bounds hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_BLOCK = 1 << 20  # counts held at once by the bootstrap: 8 MB
_MANY = 1000  # clusters whose resamples are drawn in another way, which is ten times as fast
_FEW_DISTINCT = 1 / 16  # share of distinct rows up to which draws of these are faster than draws of clusters

RESAMPLES = 2000  # resamples of a bootstrap for the bounds of a figure
SEED = 1234  # the seed of every resampling: the same answers have the same bounds
SIGNIFICANCE = 0.05  # below this p, or adjusted p, a difference is called significant; all bounds are for 95 %
Z95 = 1.959963984540054  # the 97.5th percentile of the standard normal: that of 1 - SIGNIFICANCE / 2


def wilson(successes: float, trials: float) -> tuple[float, float]:
    """95 % Wilson score interval of a share (Wilson 1927; Brown, Cai and DasGupta 2001, equation 4).

    Trials are documents, of a stratified sample their effective number. Both bounds are in [0, 1]; ``nan`` without trials.
    ValueError for more successes than trials, or fewer than none.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"successes must be between 0 and trials, got {successes} of {trials}")
    if trials == 0:
        return math.nan, math.nan
    share = successes / trials
    squared = Z95 * Z95
    centre = share + squared / (2 * trials)
    spread = Z95 * math.sqrt(share * (1 - share) / trials + squared / (4 * trials * trials))
    scale = 1 + squared / trials
    low = 0.0 if successes == 0 else (centre - spread) / scale
    high = 1.0 if successes == trials else (centre + spread) / scale
    return low, high


def clopper_pearson(hits: ArrayLike, trials: ArrayLike, level: float = SIGNIFICANCE) -> tuple[Floats, Floats]:
    """Bounds of a share that miss it with the probability `level` at most, half of it on each side (Clopper and Pearson
    1934). Arrays of one shape; numbers of effective trials need not be whole."""
    from scipy.special import betaincinv

    x, n = np.asarray(hits, float), np.asarray(trials, float)
    least = 1e-9  # of the parameters of a beta distribution, which are above 0
    low = np.where(x <= least, 0.0, betaincinv(np.maximum(x, least), np.maximum(n - x + 1, least), level / 2))
    high = np.where(n - x <= least, 1.0, betaincinv(x + 1, np.maximum(n - x, least), 1 - level / 2))
    return low, high


def t95(freedom: float) -> float:
    """The 97.5th percentile of Student's t."""
    from scipy import special

    return float(-special.stdtrit(freedom, SIGNIFICANCE / 2))


def unseen_share(trials: Any) -> Any:
    """The 95 % upper bound of a share of which none was seen in so many trials (Clopper and Pearson 1934)."""
    return 1 - (SIGNIFICANCE / 2) ** (1 / trials)


def newcombe(successes: int, trials: int, other_successes: int, other_trials: int) -> tuple[float, float, float]:
    """The difference of two independent shares with 95 % bounds: Newcombe's hybrid score interval (Newcombe 1998, "Interval
    estimation for the difference between independent proportions", Statistics in Medicine 17, method 10).

    Difference, lower and upper bound are ``nan`` where a denominator is 0; errors are those of :func:`wilson`.
    """
    low, high = wilson(successes, trials)
    other_low, other_high = wilson(other_successes, other_trials)
    if not trials or not other_trials:
        return math.nan, math.nan, math.nan
    share, other_share = successes / trials, other_successes / other_trials
    below, above = math.hypot(share - low, other_high - other_share), math.hypot(high - share, other_share - other_low)
    return share - other_share, share - other_share - below, share - other_share + above


def resampled_sums(clusters: NDArray[Any], iterations: int = RESAMPLES, seed: int = SEED) -> NDArray[np.float64]:
    """(iterations, quantities) resampled sums of a cluster bootstrap: each is over as many clusters as there are, drawn
    with replacement; the same for the same clusters and seed, in any order. Each row of (clusters, quantities), of which
    there is at least one, is what a document (or article) adds to the sums."""
    array = np.asarray(clusters, dtype=float)
    array = array[np.lexsort(array.T)]  # by content: which draw falls on which row must not depend on its place
    rng = np.random.default_rng(seed)
    number, shares = len(array), np.full(len(array), 1 / len(array))
    if number > _MANY:
        rows, times = np.unique(array, axis=0, return_counts=True)
        if len(rows) > _FEW_DISTINCT * number:
            drawn = (np.bincount(rng.integers(number, size=number), minlength=number) for _ in range(iterations))
            return np.array([counts @ array for counts in drawn])
        array, shares = rows, times / number  # equal rows are drawn as one, so much more often
    block = max(1, _BLOCK // len(array))  # resamples at a time, to bound the memory
    sums = []
    for done in range(0, iterations, block):
        counts = rng.multinomial(number, shares, size=min(block, iterations - done))
        sums.append(counts @ array)
    return np.concatenate(sums)


def sums_by_cluster(rows: NDArray[Any], clusters: Sequence[Any] | None) -> NDArray[Any]:
    """Sum rows by cluster: (clusters, ...), in the order in which clusters come first. `clusters` names that of each
    row, as many as there are rows (else a ValueError); with ``None`` each row is its own."""
    if clusters is None:
        return rows
    if len(clusters) != len(rows):
        raise ValueError(f"the clusters of {len(clusters)} rows, but {len(rows)} rows")
    numbers: dict[Any, int] = {}
    places = [numbers.setdefault(name, len(numbers)) for name in clusters]
    sums = np.zeros((len(numbers), *rows.shape[1:]))
    np.add.at(sums, places, rows)
    return sums


def spread(resampled: NDArray[Any]) -> tuple[float, float, float]:
    """How far resampled figures vary: 95 % bounds, and the standard deviation, which is the figure's standard error.
    Figures that are ``nan`` (0/0) are left out; more than one in twenty leave none. Equal ones have no bounds."""
    defined = resampled[~np.isnan(resampled)]
    if defined.size < max(2, 0.95 * resampled.size):
        return math.nan, math.nan, math.nan
    if np.ptp(defined) <= 1e-12:
        return math.nan, math.nan, 0.0
    low, high = np.quantile(defined, [SIGNIFICANCE / 2, 1 - SIGNIFICANCE / 2])
    return float(low), float(high), float(np.std(defined, ddof=1))


BOUNDS_OF_BOTH = "MOVER of two shares of clusters"

_LEAST_P = 1e-12  # no smaller p is looked for
FEW = 10  # from so many units over a half on, the variance that was seen tells what they hold


def two_part_bounds(
    parts: ArrayLike,
    weights: ArrayLike,
    more: ArrayLike = 1.0,
    values: ArrayLike | None = None,
    level: float = SIGNIFICANCE,
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
        at_most, at_least = two_part_bounds(np.where(m > 0, k / m, 0.0), m, level=level)
    return np.minimum(low, at_most), np.maximum(high, at_least), np.asarray(error)


def difference_of_clusters(hits: ArrayLike, others: ArrayLike, sizes: ArrayLike) -> tuple[float, float, float]:
    """95 % bounds of the difference of two shares over the same clusters, and p, the level at which bounds touch 0: MOVER
    (Zou and Donner 2008) from the bounds of both shares, as if independent. If none differs: of nothing seen."""
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
