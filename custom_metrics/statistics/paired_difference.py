"""The difference of two models that answered the same documents: of two means, and of two shares.

*Means* are compared by a studentised paired bootstrap. Documents are drawn with replacement, and both models' values go
with them. Each resample gives a *pivot*: its mean difference minus that of all documents, over its own standard error.
The bounds are as many standard errors on either side as 95 % of the pivots reach (symmetric bootstrap-t: Hall 1988, "On
symmetric bootstrap confidence intervals"; Davison and Hinkley 1997, section 5.2). With 100 documents, many of which
have the value 0, or with long tails, its level stays at 5 %; that of the percentile bootstrap and the equal-tailed
bootstrap-t does not.

Bounds and p come from the same pivots: p is under 0.05 exactly where 0 lies outside of the bounds. Holm's correction
needs p values below 0.005, which 1,999 resamples cannot resolve: these are from the tail of Student's t, scaled to go
through the tenth-largest pivot.

The mean over languages has languages as strata: documents are drawn within each, and each language counts the same.

A difference is *shown* if its two-sided p is under 5 %; the power is the chance of that. For a power of 80 %, a
difference must be z_0.975 + z_0.80 = 2.80 standard errors. So n = 2.80^2 s^2 / difference^2 documents, or clusters of
dependent ones, with a paired variance s^2 show it (normal approximation: Chow, Shao and Wang 2008, "Sample Size
Calculations in Clinical Research", section 3.2.2; of evaluations of language models Miller 2024, "Adding Error Bars to
Evals", section 5). Of two shares, s^2 is at least the difference d, as a share d of the documents is discordant (Connor
1987, "Sample size for testing differences in proportions for the paired-sample design"); so there are at least 7.85 of
them. All this is for one comparison. Corrected by Holm for others, a difference must be larger.

*Shares*, and means of shares, are compared by Tango's interval, MOVER, and their p. Of n documents, b are in the first
model's share alone and c in the second's alone (*discordant*). The difference of the shares is (b - c)/n.

- *Bounds* of one share are Tango's asymptotic score interval (Tango 1998, "Equivalence test and confidence interval for
the difference in proportions for the paired-sample design"). - A mean of shares, such as one over languages or over the
two rates of a balanced error, has *strata*. Its bounds recover the variance of each stratum from its Tango interval
(MOVER: Zou and Donner 2008, "Construction of confidence limits about effect measures: a general approach"). - *p* is
the level at which the interval touches 0, so that p is under 0.05 exactly where the 95 % bounds leave 0 out. Of one
stratum that is McNemar's test without continuity correction (McNemar 1947). The exact p stands beside.

A test that assumes no difference in each stratum has no power where rates are traded, as their differences have opposite
signs. ``make check-statistics`` simulates how often the interval and p are right.
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


# ------------------------------------------------------------------------------------------- shares, and means of shares

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
