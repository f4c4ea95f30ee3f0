"""Confidence intervals: Wilson for a share of independent documents, Newcombe for the difference of two such shares, and
the resamples of a cluster bootstrap for any other figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_BLOCK = 1 << 20  # counts held at once by the bootstrap: 8 MB
_MANY = 1000  # clusters whose resamples are drawn in another way, which is ten times as fast
_FEW_DISTINCT = 1 / 16  # share of distinct rows up to which draws of these are faster than draws of clusters

RESAMPLES = 2000
"""Resamples of a bootstrap for the bounds of a figure."""

SEED = 1234
"""The seed of every resampling: the same answers have the same bounds."""

SIGNIFICANCE = 0.05
"""Below this p, or adjusted p, a difference is called significant. All bounds are for one less this: 95 %."""

Z95 = 1.959963984540054  # the 97.5th percentile of the standard normal: that of 1 - SIGNIFICANCE / 2


def wilson(successes: float, trials: float) -> tuple[float, float]:
    """95 % Wilson score interval of a share (Wilson 1927; Brown, Cai and DasGupta 2001, equation 4).

    Trials are documents, of a stratified sample their effective number. Both bounds are in [0, 1]; ``nan`` without trials.

    Raises:
        ValueError: more successes than trials, or fewer than none.
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


def clopper_pearson(
    hits: ArrayLike, trials: ArrayLike, level: float = SIGNIFICANCE
) -> tuple[NDArray[Any], NDArray[Any]]:
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

    For shares over the same documents it is wider than a paired interval, so it errs on the careful side. The first share
    less the second, lower and upper bound are all ``nan`` where a denominator is 0; errors are those of :func:`wilson`.
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
    with replacement; the same for the same clusters and seed.

    Each row of (clusters, quantities), of which there is at least one, is what a document (or article) adds to the sums.
    The order of the rows changes nothing, because ranks of a distributed run gather them in an order of their own.
    """
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

    Figures that are ``nan`` (0/0 in a resample) are left out. All are ``nan`` where these are more than one in twenty: the
    others would be a selection. Equal ones have no bounds, which would be of no width.
    """
    defined = resampled[~np.isnan(resampled)]
    if defined.size < max(2, 0.95 * resampled.size):
        return math.nan, math.nan, math.nan
    if np.ptp(defined) <= 1e-12:
        return math.nan, math.nan, 0.0
    low, high = np.quantile(defined, [SIGNIFICANCE / 2, 1 - SIGNIFICANCE / 2])
    return float(low), float(high), float(np.std(defined, ddof=1))
