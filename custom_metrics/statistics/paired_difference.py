"""The difference of two models that answered the same documents; and that of two means, by a studentised paired bootstrap.

Documents are drawn with replacement, and both models' values go with them. Each resample gives a *pivot*: its mean
difference minus that of all documents, over its own standard error. The bounds are as many standard errors on either side
as 95 % of the pivots reach (symmetric bootstrap-t: Hall 1988, "On symmetric bootstrap confidence intervals"; Davison and
Hinkley 1997, section 5.2). With 100 documents, many of which have the value 0, or with long tails, its level stays at 5 %;
that of the percentile bootstrap and the equal-tailed bootstrap-t does not.

Bounds and p come from the same pivots: p is under 0.05 exactly where 0 lies outside of the bounds. Holm's correction needs
p values below 0.005, which 1,999 resamples cannot resolve: these are from the tail of Student's t, scaled to go through the
tenth-largest pivot.

The mean over languages has languages as strata: documents are drawn within each, and each language counts the same.

A difference is *shown* if its two-sided p is under 5 %; the power is the chance of that. For a power of 80 %, a difference
must be z_0.975 + z_0.80 = 2.80 standard errors. So n = 2.80^2 s^2 / difference^2 documents, or clusters of dependent ones,
with a paired variance s^2 show it (normal approximation: Chow, Shao and Wang 2008, "Sample Size Calculations in Clinical
Research", section 3.2.2; of evaluations of language models Miller 2024, "Adding Error Bars to Evals", section 5). Of two
shares, s^2 is at least the difference d, as a share d of the documents is discordant (Connor 1987, "Sample size for testing
differences in proportions for the paired-sample design"); so there are at least 7.85 of them. All this is for one
comparison. Corrected by Holm for others, a difference must be larger.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.statistics.intervals import RESAMPLES, SEED, SIGNIFICANCE, Z95

Floats = NDArray[np.float64]

ITERATIONS = RESAMPLES - 1  # with the observed one 2,000, of which 2.5 % are a whole number

_BLOCK = 1 << 22  # counts held at once: 32 MB
_PAIRS_AT_ONCE = 256  # the arrays of their resamples are 4 MB each

BOOTSTRAP = "paired bootstrap-t"
CLUSTERS = "paired cluster bootstrap-t"
SAME_EVERYWHERE = "sign test, as all differences are the same"
NONE_DIFFERS = "all values are the same"

TAIL = 10  # pivots beyond a statistic, with fewer of which p is extrapolated
_REACH = (
    Z95 + 0.8416212335729143
)  # standard errors of 80 % power: the second is the 80th percentile of the standard normal
NEGLIGIBLE = 1e-12  # a variance below this share of the whole one is rounding


class PairedDifference(NamedTuple):
    """Two models' values over the same documents, and how sure their difference is; ``nan`` for what is not defined."""

    first: float
    second: float
    difference: float  # first minus second
    low: float  # its 95 % bounds
    high: float
    p: float  # two-sided, of the hypothesis that the difference is 0
    n: int  # pairs: of documents, or of clusters of them (articles)
    method: str  # of the bounds and p
    p_exact: float = math.nan  # of McNemar's exact test, for a share of one stratum
    standard_error: float = math.nan  # of the difference; nan where only the bounds are known


NO_DIFFERENCE = PairedDifference(math.nan, math.nan, math.nan, math.nan, math.nan, math.nan, 0, "")
"""The difference of models without a document in common."""


def mean_differences(
    strata: Sequence[Floats], pairs: Sequence[tuple[int, int]], method: str = BOOTSTRAP
) -> list[PairedDifference]:
    """The differences of pairs of models on a mean, or on the mean over strata of their means.

    Args:
        strata: of each (rows, models) numbers, all of which count.
        pairs: the columns of the models to compare.
        method: its name, for the results.
    """
    means = np.mean([values.mean(axis=0) for values in strata], axis=0).tolist()
    number = sum(map(len, strata))
    at_once = max(1, min(_PAIRS_AT_ONCE, _BLOCK // max(map(len, strata))))
    results = []
    for start in range(0, len(pairs), at_once):
        block = pairs[start : start + at_once]
        first, second = np.array(block).T
        pivots = pivots_of([values[:, first] - values[:, second] for values in strata])
        columns = pivots.differences, *bounds_and_p(pivots), pivots.errors
        for (one, other), difference, low, high, p, error in zip(block, *columns, strict=True):
            how = method
            if error == 0 and number > 1:
                how = SAME_EVERYWHERE if difference else NONE_DIFFERS
            numbers = float(difference), float(low), float(high), float(p)
            results.append(PairedDifference(means[one], means[other], *numbers, number, how, math.nan, float(error)))
    return results


class Pivots(NamedTuple):
    """Mean differences of pairs of models, and how they vary between resamples, each (pairs,) or (pairs, iterations).

    A resample's pivot is its difference minus the observed one, over its own standard error. It is infinite where the
    resample holds nothing but equal differences that are not the observed mean.
    """

    differences: Floats  # means over strata of the mean differences
    errors: Floats  # their standard errors
    squares: Floats  # of the resamples' pivots
    resampled_errors: Floats  # of the resamples' differences
    freedom: float  # degrees of freedom: rows minus strata
    equal: Floats  # rows where all differences are the same and not 0, else 0


def pivots_of(strata: Sequence[Floats], iterations: int = ITERATIONS) -> Pivots:
    """The pivots of (rows, pairs) differences of each stratum."""
    number, rows = strata[0].shape[1], sum(map(len, strata))
    total, variance = np.zeros((2, number))
    shifts, variances = np.zeros((2, number, iterations))
    for place, stratum in enumerate(strata):
        values, size = np.ascontiguousarray(stratum.T), len(stratum)
        means = values.sum(axis=1) / size
        centred = values - means[:, None]
        squares = centred**2
        scale = squares.sum(axis=1)
        total += means
        variance += _variance(np.zeros((number, 1)), scale[:, None], size, scale)[:, 0]
        done = 0
        for counts in draws(size, place, iterations):
            block = slice(done, done := done + len(counts))
            shift = centred @ counts.T
            shift /= size
            shifts[:, block] += shift
            variances[:, block] += _variance(np.square(shift, out=shift), squares @ counts.T, size, scale)
    np.square(shifts, out=shifts)
    shifts[shifts < (1e-18 * variance)[:, None]] = 0.0  # rounding
    with np.errstate(invalid="ignore", divide="ignore"):
        pivots = shifts / variances
    pivots[np.isnan(pivots)] = 0.0
    resampled_errors = np.sqrt(variances, out=variances)
    resampled_errors /= len(strata)
    differences, errors = total / len(strata), np.sqrt(variance) / len(strata)
    equal = np.where((variance == 0) & (differences != 0), float(rows), 0.0)
    return Pivots(differences, errors, pivots, resampled_errors, max(rows - len(strata), 1), equal)


def _variance(squared_shift: Floats, squares: Floats, size: int, scale: Floats) -> Floats:
    """The squared standard error of means of `size` rows; 0 for fewer than two. It is computed from sums of squares about
    another centre, and the squared shift of the means from that centre, which is overwritten. Values that are negligible
    beside `scale`, the (pairs,) sums of squares of all rows, are rounding."""
    squared_shift *= -size
    squared_shift += squares
    squared_shift[squared_shift <= NEGLIGIBLE * scale[:, None]] = 0.0
    squared_shift /= size * (size - 1) if size > 1 else math.inf
    return squared_shift


def bounds_and_p(pivots: Pivots) -> tuple[Floats, Floats, Floats]:
    """Lower and upper 95 % bounds of the differences, and p, each (pairs,).

    Bounds are ``nan`` where resamples do not vary: one row, or equal differences. p is then that of the sign test.
    """
    iterations = pivots.squares.shape[1]
    outside = max(
        0, math.ceil(SIGNIFICANCE * (iterations + 1)) - 2
    )  # beyond the bounds; with one more p is SIGNIFICANCE
    places = [iterations - min(TAIL, iterations), iterations - 1 - outside]  # from the smallest
    ordered = np.partition(pivots.squares, sorted(set(places)))
    anchor, limit = (ordered[:, place] for place in places)
    varies = pivots.errors > 0
    reach = np.sqrt(limit) * pivots.errors
    reach[~(varies & np.isfinite(reach))] = np.nan
    statistic = np.divide(np.abs(pivots.differences), pivots.errors, out=np.zeros_like(reach), where=varies)
    # Beyond the limit exactly where the bounds say so: roots and squares are rounded.
    outer, inner = np.maximum(statistic**2, np.nextafter(limit, np.inf)), np.minimum(statistic**2, limit)
    squared = np.where(statistic > np.sqrt(limit), outer, inner)
    number = np.count_nonzero(pivots.squares >= squared[:, None], axis=1)
    p = extrapolated_p(number, np.sqrt(anchor), statistic, pivots.freedom, iterations)
    p = np.where(varies, p, np.where(pivots.equal > 0, np.exp2(1.0 - pivots.equal), 1.0))
    return pivots.differences - reach, pivots.differences + reach, p


def extrapolated_p(number: Any, anchor: Floats, statistic: Floats, freedom: float, iterations: int) -> Floats:
    """p from how many pivots are at least as large as the statistic, all (pairs,); where these are fewer than ten of a
    thousand or more, from the tail of Student's t beyond the anchor, the tenth largest pivot."""
    from scipy import special

    p = np.asarray((number + 1) / (iterations + 1))
    at_anchor = (TAIL + 1) / (iterations + 1)
    few = (number < TAIL) & (iterations >= 100 * TAIL) & np.isfinite(anchor) & (anchor > 0)
    # The anchor is as far out as its share of Student's t: how much wider than t the pivots are.
    usual = -special.stdtrit(freedom, at_anchor / 2)
    tail = 2 * special.stdtr(freedom, -statistic[few] * usual / anchor[few])
    p[few] = np.minimum(at_anchor, tail)
    return p


def draws(rows: int, stratum: int = 0, iterations: int = ITERATIONS) -> Iterator[Floats]:
    """How often each row is in each resample, block by block: (resamples, rows). A resample draws as many rows with
    replacement.

    The draws depend on the arguments alone, and those of different strata are independent. The rows of all models must be
    in the same order, which should not depend on that of the runs.
    """
    if rows * iterations <= _BLOCK:
        yield _cached_counts(rows, stratum, iterations)
        return
    rng = np.random.default_rng([SEED, stratum, rows])
    block = max(1, _BLOCK // rows)
    for done in range(0, iterations, block):
        yield _counts(rng, rows, min(block, iterations - done))


@lru_cache(maxsize=4)  # a task's metrics, and its pairs of models, have the same
def _cached_counts(rows: int, stratum: int, iterations: int) -> Floats:
    counts = _counts(np.random.default_rng([SEED, stratum, rows]), rows, iterations)
    counts.setflags(write=False)
    return counts


def _counts(rng: np.random.Generator, rows: int, resamples: int) -> Floats:
    drawn = rng.integers(rows, size=(resamples, rows))
    drawn += rows * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=rows * resamples).reshape(resamples, rows).astype(float)


def detectable_difference(standard_error: float, documents: int = 0) -> float:
    """The smallest difference that a comparison with this standard error shows with a power of 80 %.

    `documents` is the number of documents of two shares, which differ by at least 7.85 of them; 0 for other figures.
    ``nan`` where there is no variance, or a share would have to differ by more than 1.
    """
    if not standard_error > 0:
        return math.nan
    difference = max(_REACH * standard_error, _REACH**2 / documents if documents else 0.0)
    return difference if difference <= 1 or not documents else math.nan


def rows_needed(difference: float, variance: float, shares: bool = False) -> int:
    """The number of documents, or of clusters, that show a difference with a power of 80 %.

    `variance` is that of the paired difference of one document or cluster; for two `shares` of documents it is at least the
    difference. ValueError unless both are larger than 0.
    """
    if not (difference > 0 and variance > 0):
        raise ValueError(f"difference and variance must be larger than 0, got {difference:g} and {variance:g}")
    return math.ceil(_REACH**2 * (max(variance, difference) if shares else variance) / difference**2 - 1e-9)
