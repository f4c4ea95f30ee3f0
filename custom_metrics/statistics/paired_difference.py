"""The difference of two models that answered the same documents: of two means, and of two shares.

*Means* are compared by a studentised paired bootstrap. Documents are drawn with replacement, and both models' values go
with them. Each resample gives a *pivot*: its mean difference minus that of all documents, over its own standard error. The
bounds are as many standard errors on either side as 95 % of the pivots reach (symmetric bootstrap-t: Hall 1988, "On
symmetric bootstrap confidence intervals"; Davison and Hinkley 1997, section 5.2). With 100 documents, many of which have
the value 0, or with long tails, its level stays at 5 %; that of the percentile bootstrap and the equal-tailed bootstrap-t
does not. Holm's correction needs p values below 0.005, which 1,999 resamples cannot resolve: these are from the tail of
Student's t, scaled to go through the tenth-largest pivot. A mean over languages has languages as strata: documents are
drawn within each, and each language counts the same.

*Power*: a difference is shown if its two-sided p is under 5 %. For a chance of 80 % of that, it must be z_0.975 + z_0.80 =
2.80 standard errors. So n = 2.80^2 s^2 / difference^2 documents, or clusters of dependent ones, with a paired variance s^2
show it (normal approximation: Chow, Shao and Wang 2008, "Sample Size Calculations in Clinical Research", section 3.2.2; of
evaluations of language models Miller 2024, "Adding Error Bars to Evals", section 5). Of two shares, s^2 is at least the
difference d, as a share d of the documents is discordant (Connor 1987, "Sample size for testing differences in proportions
for the paired-sample design"); so there are at least 7.85 of them. Corrected by Holm, a difference must be larger.

*Shares*, and means of shares. Of n documents, b are in the first model's share alone and c in the second's alone
(*discordant*); the difference is (b - c)/n. Its bounds are Tango's asymptotic score interval (Tango 1998, "Equivalence test
and confidence interval for the difference in proportions for the paired-sample design"). Those of a mean over *strata*,
such as languages or the two rates of a balanced error, recover the variance of each stratum from its Tango interval (MOVER:
Zou and Donner 2008, "Construction of confidence limits about effect measures: a general approach"). *p* is the level at
which the interval touches 0; of one stratum that is McNemar's test without continuity correction (McNemar 1947), and the
exact p stands beside. A test that assumes no difference in each stratum has no power where rates are traded.

Everywhere p is under 0.05 exactly where 0 lies outside of the bounds. ``make check-statistics`` simulates both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.statistics.intervals import RESAMPLES, SEED, SIGNIFICANCE, Z95, unseen_share

Floats = NDArray[np.float64]
Pairs = Sequence[tuple[int, int]] | NDArray[np.int64]  # numbers of two models

Form = Literal["", "positive", "rate"]  # what is known of numbers: nothing, none is negative, between 0 and 1
ITERATIONS = RESAMPLES - 1  # with the observed one 2,000, of which 2.5 % are a whole number

_BLOCK = 1 << 22  # counts held at once: 32 MB
_PAIRS_AT_ONCE = 256  # the arrays of their resamples are 4 MB each

FEWEST = 5  # independent units, of which at least so many have bounds and p
BOOTSTRAP = "paired bootstrap-t"
CLUSTERS = "paired cluster bootstrap-t"
POOLED = f"strata of fewer than {FEWEST} have the pooled variance"
OVER_STRATA = "over the strata's means"
SAME_EVERYWHERE = "sign test, as all differences are the same"
NONE_DIFFERS = "all values are the same"

TAIL = 10  # pivots beyond a statistic, with fewer of which p is extrapolated
_REACH = Z95 + 0.8416212335729143  # standard errors of 80 % power; the latter is the normal's 80th percentile
NEGLIGIBLE = 1e-12  # what is below this share of the whole is rounding
FEW = 50.0  # degrees of freedom below which bounds are at least those of Student's t, where rows are unequal
_EQUAL_RESAMPLES = 0.01  # more than so many resamples of equal differences: few units carry the scatter


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
Differences = np.recarray[Any, Any]  # (pairs,) differences, with the fields of :class:`PairedDifference` as arrays
_FIELDS = [(name, {"n": int, "method": object}.get(name, float)) for name in PairedDifference._fields]


def together(found: Sequence[PairedDifference]) -> Differences:
    """Differences as one array: 200 models have 20,000 pairs."""
    return np.array(found, dtype=_FIELDS).view(np.recarray)


def difference_at(found: Differences, place: int) -> PairedDifference:
    return PairedDifference(*found[place].item())


def mean_differences(
    strata: Sequence[Floats],
    pairs: Pairs,
    method: str = BOOTSTRAP,
    freedom: Sequence[float] = (),
) -> Differences:
    """The differences of pairs of models on a mean, or on the mean over strata of their means.

    Args:
        strata: of each (rows, models) numbers, all of which count.
        pairs: the columns of the models to compare.
        method: its name, for the results.
        freedom: of each pair, degrees of freedom of unequal rows (:func:`freedom_of`).
    """
    means = np.mean([values.mean(axis=0) for values in strata], axis=0).tolist()
    if len(strata) > 1 and sum(map(len, strata)) - len(strata) < FEWEST - 1:
        strata, method = [np.array([values.mean(axis=0) for values in strata])], f"{method}, {OVER_STRATA}"
    elif len(strata) > 1 and min(map(len, strata)) < FEWEST:
        method = f"{method}, {POOLED}"
    number = sum(map(len, strata))
    at_once = max(1, min(_PAIRS_AT_ONCE, _BLOCK // max(map(len, strata))))
    results = []
    for start in range(0, len(pairs), at_once):
        block = np.asarray(pairs[start : start + at_once])
        first, second = block.T
        sizes = [np.maximum(*(np.abs(values[:, side]).max(axis=0) for side in (first, second))) for values in strata]
        pivots = pivots_of([values[:, first] - values[:, second] for values in strata], scale=np.max(sizes, axis=0))
        bounds = bounds_and_p(pivots, np.array(freedom[start : start + at_once]))
        columns = (of.tolist() for of in (pivots.differences, *bounds, pivots.errors))
        for (one, other), difference, low, high, p, error in zip(block.tolist(), *columns, strict=True):
            how = method
            if error == 0 and number >= FEWEST:
                how = SAME_EVERYWHERE if difference else NONE_DIFFERS
            values = means[one], means[other], difference, low, high, p
            results.append(PairedDifference(*values, number, how, math.nan, error))
    return together(results)


class Pivots(NamedTuple):
    """Mean differences of pairs of models, and how they vary between resamples, each (pairs,) or (pairs, iterations). A
    pivot is infinite where the resample holds nothing but equal differences that are not the observed mean."""

    differences: Floats  # means over strata of the mean differences
    errors: Floats  # their standard errors
    squares: Floats  # of the resamples' pivots
    resampled_errors: Floats  # of the resamples' differences
    freedom: float  # degrees of freedom: rows minus strata
    equal: Floats  # rows where the differences of each stratum are the same and not all 0, else 0
    carrying: Any = math.inf  # units that carry the scatter, where so few do that resamples lack them; else infinite
    largest: Any = 0.0  # absolute difference of a stratum


def pivots_of(strata: Sequence[Floats], iterations: int = ITERATIONS, scale: Any = 0.0) -> Pivots:
    """The pivots of (rows, pairs) differences of each stratum.

    `scale` is the size of the numbers that they are differences of, (pairs,): what is negligible beside it is rounding. Of
    several strata of which some have fewer than :data:`FEWEST` rows, a row of these has the pooled variance and residuals.
    """
    number, rows, freedom = strata[0].shape[1], sum(map(len, strata)), sum(map(len, strata)) - len(strata)
    sizes = [np.abs(values).max(axis=0) for values in strata]
    rounding = NEGLIGIBLE * np.max([*sizes, np.zeros(number) + scale], axis=0)
    means = [np.where(np.abs(of := values.sum(axis=0) / len(values)) > rounding, of, 0.0) for values in strata]
    residuals = [values - of for values, of in zip(strata, means, strict=True)]
    residuals = [np.ascontiguousarray(np.where(np.abs(of) > rounding, of, 0.0).T) for of in residuals]
    small = [len(strata) > 1 and len(values) < FEWEST for values in strata]
    spread = [of * math.sqrt(of.shape[1] / (of.shape[1] - 1)) for of in residuals if any(small) and of.shape[1] > 1]
    pool = np.concatenate(spread or [np.zeros((number, 1))], axis=1)
    variance, pooled, fourth = np.zeros((3, number))
    shifts, variances = np.zeros((2, number, iterations))
    all_squares = np.zeros((number, iterations if any(small) else 0))
    for place, (centred, is_small) in enumerate(zip(residuals, small, strict=True)):
        size, squares = centred.shape[1], centred**2
        sums = squares.sum(axis=1)
        pooled += sums
        fourth += (squares**2).sum(axis=1) / max(size * (size - 1), 1) ** 2
        variance += 0.0 if is_small else sums / max(size * (size - 1), 1)
        done = 0
        few = np.random.default_rng([SEED, place, pool.shape[1], size])
        for counts in [_counts(few, pool.shape[1], iterations, size)] if is_small else draws(size, place, iterations):
            block = slice(done, done := done + len(counts))
            drawn = pool if is_small else centred
            shift = drawn @ counts.T
            shift /= size
            shifts[:, block] += shift
            around = (pool**2 if is_small else squares) @ counts.T - size * np.square(shift, out=shift)
            around[around <= NEGLIGIBLE * (sums + is_small * (pool**2).sum(axis=1))[:, None]] = 0.0  # rounding
            if any(small):
                all_squares[:, block] += around
            if not is_small:
                around /= max(size * (size - 1), 1)
                variances[:, block] += around
    if any(small):
        parts = sum(1 / len(values) for values, is_small in zip(strata, small, strict=True) if is_small)
        parts /= max(freedom, 1)
        variance += parts * pooled
        variances += parts * all_squares
    np.square(shifts, out=shifts)
    shifts[shifts < (1e-18 * variance)[:, None]] = 0.0  # rounding
    with np.errstate(invalid="ignore", divide="ignore"):
        pivots = shifts / variances
    pivots[np.isnan(pivots)] = 0.0
    unknown = np.isinf(pivots)
    few = unknown.mean(axis=1) > _EQUAL_RESAMPLES
    pivots[few[:, None] & unknown] = 0.0
    with np.errstate(invalid="ignore", divide="ignore"):
        carrying = np.where(few, np.maximum(variance**2 / fourth, 1.0), math.inf)
    resampled_errors = np.sqrt(variances, out=variances)
    resampled_errors /= len(strata)
    differences, errors = np.sum(means, axis=0) / len(strata), np.sqrt(variance) / len(strata)
    largest = np.abs(means).max(axis=0)
    equal = np.where((variance == 0) & (largest > 0), float(rows), 0.0)
    return Pivots(differences, errors, pivots, resampled_errors, freedom, equal, carrying, largest)


def freedom_of(strata: Sequence[Floats], scatter: Sequence[Floats]) -> float:
    """The degrees of freedom of a mean over strata of (rows,) values, each of which is expected to have a part in its
    stratum's variance (`scatter`): (sum)^2 / (sum of squares) - 1 of the parts; of strata by Satterthwaite (1946). Infinite
    from :data:`FEW` on, and where parts are equal: there the bootstrap needs no help."""
    variances = np.array([values.var(ddof=1) / len(values) if len(values) > 1 else 0.0 for values in strata])
    parts = [of / of.max() if of.any() else np.ones_like(of) for of in scatter]
    rows = np.array([of.sum() ** 2 / (of**2).sum() for of in parts])
    if not variances.any() or all(np.ptp(of) <= NEGLIGIBLE for of in parts):
        return math.inf
    freedom = variances.sum() ** 2 / (variances**2 / np.maximum(rows - 1, NEGLIGIBLE)).sum()
    return float(freedom) if freedom < FEW else math.inf


def bounds_and_p(pivots: Pivots, unequal: Any = ()) -> tuple[Floats, Floats, Floats]:
    """Lower and upper 95 % bounds of the differences, and p, each (pairs,).

    All are ``nan`` of fewer than :data:`FEWEST` rows (of strata: of fewer than four degrees of freedom). Where all
    differences are c, they are those of nothing else seen: a share u of the documents, Clopper and Pearson's upper bound,
    may differ by up to -c, so that the mean is within 2uc of c; p is then that of the sign test. Where all are 0 there are
    no bounds, and p is 1. With `unequal` degrees of freedom, (pairs,), they are at least Student's.
    """
    from scipy import special

    iterations = pivots.squares.shape[1]
    outside = max(0, math.ceil(SIGNIFICANCE * (iterations + 1)) - 2)  # with one more p is SIGNIFICANCE
    places = [iterations - min(TAIL, iterations), iterations - 1 - outside]  # from the smallest
    ordered = np.partition(pivots.squares, sorted(set(places)))
    anchor, limit = (ordered[:, place] for place in places)
    varies = pivots.errors > 0
    statistic = np.divide(np.abs(pivots.differences), pivots.errors, out=np.zeros_like(pivots.errors), where=varies)
    # Beyond the limit exactly where the bounds say so: roots and squares are rounded.
    outer, inner = np.maximum(statistic**2, np.nextafter(limit, np.inf)), np.minimum(statistic**2, limit)
    squared = np.where(statistic > np.sqrt(limit), outer, inner)
    number = np.count_nonzero(pivots.squares >= squared[:, None], axis=1)
    p = extrapolated_p(number, np.sqrt(anchor), statistic, pivots.freedom, iterations)
    reach = np.sqrt(limit)
    few = np.isfinite(pivots.carrying)
    k = np.where(few, pivots.carrying, 1.0)
    at_least = (special.gammaincinv(k + 1, 1 - SIGNIFICANCE / 2) - k) / np.sqrt(k)
    p = np.where(few, np.maximum(p, np.minimum(1.0, 2 * special.gammaincc(k + 1, k + statistic * np.sqrt(k)))), p)
    reach = np.where(few, np.maximum(reach, at_least), reach) * pivots.errors
    known = np.ones_like(varies)
    if len(unequal):
        known &= unequal > 0
        limit_t = -special.stdtrit(np.maximum(unequal, NEGLIGIBLE), SIGNIFICANCE / 2) * pivots.errors
        reach = np.maximum(reach, np.where(np.isfinite(unequal), limit_t, 0.0))
        p_t = 2 * special.stdtr(np.maximum(unequal, NEGLIGIBLE), -statistic)
        p = np.where(np.isfinite(unequal), np.maximum(p, p_t), p)
    n = np.maximum(pivots.equal, 1.0)
    unseen = 2 * unseen_share(n) * pivots.largest
    with np.errstate(invalid="ignore", divide="ignore"):
        of_equal = 2 * (1 - np.abs(pivots.differences) / (2 * pivots.largest)) ** n
    reach = np.where(varies, reach, np.where(pivots.equal > 0, unseen, np.nan))
    p = np.where(varies, p, np.where(pivots.equal > 0, np.minimum(1.0, of_equal), 1.0))
    known &= pivots.freedom >= FEWEST - 1
    p = np.where(known, p, np.nan)
    reach = np.where(known & np.isfinite(reach), reach, np.nan)
    return pivots.differences - reach, pivots.differences + reach, p


def figure_bounds(values: Floats, form: Form, freedom: Any = math.inf) -> tuple[Floats, Floats]:
    """95 % bounds of the means of (rows, figures) numbers, by the same bootstrap; ``nan`` of fewer than :data:`FEWEST`.

    Those of numbers that are ``"positive"`` or 0 are on a logarithmic scale, the upper one a share of 2/rows further out:
    small samples of long tails lack the tail. Those of a ``"rate"`` are the wider ones of the plain and the logistic scale.
    """
    rows, number = values.shape
    pivots = pivots_of([np.sort(values, axis=0)])  # the order of rows changes nothing
    low, high, _ = bounds_and_p(pivots, np.zeros(number) + freedom)
    mean, reach = pivots.differences, (high - low) / 2
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        if form == "rate":
            if rows >= FEWEST:  # nothing was seen
                reach = np.where(np.isnan(reach) & (pivots.errors == 0), 2 * unseen_share(rows), reach)
            odds, stretched = mean / (1 - mean), np.exp(reach / (mean * (1 - mean)))
            inside = (mean > 0) & (mean < 1)
            low = np.where(inside, np.fmin(mean - reach, 1 / (1 + stretched / odds)), mean - reach)
            high = np.where(inside, np.fmax(mean + reach, 1 / (1 + 1 / (odds * stretched))), mean + reach)
            return np.maximum(low, 0.0), np.minimum(high, 1.0)
        if form == "positive":
            far = np.minimum(reach / mean, 300.0)
            low = np.where(mean > 0, mean * np.exp(-far), low)
            high = np.where(mean > 0, mean * np.exp(far * (1 + 2 / rows)), high)
    return low, high


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
    replacement. The draws depend on the arguments alone, and those of different strata are independent. The rows of all
    models must be in the same order, which should not depend on that of the runs."""
    if rows * iterations <= _BLOCK:
        yield _cached_counts(rows, stratum, iterations).astype(float)
        return
    rng = np.random.default_rng([SEED, stratum, rows])
    block = max(1, _BLOCK // rows)
    for done in range(0, iterations, block):
        yield _counts(rng, rows, min(block, iterations - done))


@lru_cache(maxsize=32)  # a task's metrics, and its pairs of models, have the same; so do the tasks of a mean
def _cached_counts(rows: int, stratum: int, iterations: int) -> NDArray[np.uint16]:  # a quarter of 32 MB at most
    return _counts(np.random.default_rng([SEED, stratum, rows]), rows, iterations).astype(np.uint16)


def _counts(rng: np.random.Generator, rows: int, resamples: int, drawn: int = 0) -> Floats:
    """How often each row is in resamples that draw so many rows; by default as many as there are."""
    places = rng.integers(rows, size=(resamples, drawn or rows))
    places += rows * np.arange(resamples)[:, None]
    return np.bincount(places.ravel(), minlength=rows * resamples).reshape(resamples, rows).astype(float)


def detectable_difference(standard_error: float, documents: int = 0) -> float:
    """The smallest difference that a comparison with this standard error shows with a power of 80 %. `documents` is their
    number for two shares, which differ by at least 7.85 of them; 0 for other figures. ``nan`` without variance."""
    if not standard_error > 0:
        return math.nan
    difference = max(_REACH * standard_error, _REACH**2 / documents if documents else 0.0)
    return difference if difference <= 1 or not documents else math.nan


def rows_needed(difference: float, variance: float, shares: bool = False) -> int:
    """The number of documents, or of clusters, that show a difference with a power of 80 %. `variance` is that of the
    paired difference of one of them; for two `shares` it is at least the difference. Both are above 0, else ValueError."""
    if not (difference > 0 and variance > 0):
        raise ValueError(f"difference and variance must be larger than 0, got {difference:g} and {variance:g}")
    return math.ceil(_REACH**2 * (max(variance, difference) if shares else variance) / difference**2 - 1e-9)


# ------------------------------------------------------------------------------------------- shares, and means of shares

TANGO = "Tango score interval, p of the same score"
MOVER = "MOVER of Tango score intervals, p by inverting it"

SMALL_STRATUM = 100  # documents below which an interval is at least that of half a discordant one more for either model
_FARTHEST = 40.0  # standard errors; beyond, p is no float
_STEPS = 9  # from a first guess to where a bound touches 0, within 1e-12
_TINY = float(np.finfo(float).tiny)  # instead of a variance of 0


def is_share(strata: Sequence[Floats]) -> bool:
    """Whether all values are 1.0 or 0.0, or ``nan``: their mean is a share."""
    return all(bool(np.isin(values[~np.isnan(values)], (0.0, 1.0)).all()) for values in strata)


def share_differences(
    strata: Sequence[Floats],
    pairs: Pairs,
    weights: Sequence[float] | None = None,
    kinds: int = 1,
) -> Differences:
    """The differences of pairs of models, over the documents that count for both.

    Args:
        strata: (documents, models) values 1.0, 0.0, or ``nan`` where a document does not count.
        pairs: the columns of the models to compare.
        weights: what each stratum counts; default each the same. Of a pair, strata without a document are left out.
        kinds: so many strata in a row are left out together, such as the two of a balanced error.
    """
    places = tuple(np.asarray(pairs, dtype=int).T)
    b, c, n, shared = np.moveaxis(np.array([[m[places] for m in discordant(values)] for values in strata]), 1, 0)
    blocks = n.reshape(-1, kinds, len(pairs))
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
    found = together([NO_DIFFERENCE] * len(pairs))
    for name, column in zip(
        PairedDifference._fields,
        (first, second, difference, low, high, p, totals, TANGO if len(n) == 1 else MOVER, exact, error),
        strict=True,
    ):
        found[name] = np.where(totals > 0, column, found[name])
    return found


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
    nearer_bound, (more, less) = np.where(difference > 0, low, -high), np.where(difference > 0, (b, c), (c, b))
    low, high = np.maximum(low, -1.0), np.minimum(high, 1.0)
    reach, far, kept = np.zeros_like(difference), np.full_like(difference, _FARTHEST), np.zeros_like(difference)
    above, below = np.abs(difference), _lower(more, less, n, parts, far)[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        middle = np.clip(np.nan_to_num(Z95 * above / (above - nearer_bound)), reach, far)
    for _ in range(_STEPS):  # the Illinois method (Dowell and Jarratt 1971), to where the bound nearer to 0 touches it
        bound = _lower(more, less, n, parts, middle)[1]
        nearer = bound > 0
        above = np.where(nearer, bound, np.where(kept < 0, above / 2, above))  # an end that stays twice counts half
        below = np.where(nearer, np.where(kept > 0, below / 2, below), bound)
        reach, far, kept = np.where(nearer, middle, reach), np.where(nearer, far, middle), np.where(nearer, 1, -1)
        with np.errstate(invalid="ignore", divide="ignore"):
            middle = np.clip(np.nan_to_num((reach * below - far * above) / (below - above)), reach, far)
    p = np.where(difference == 0, 1.0, 2 * special.ndtr(-middle))
    outside = (low > 0) | (high < 0)  # where p and bounds are rounded, the bounds decide
    p = np.where(outside, np.minimum(p, np.nextafter(SIGNIFICANCE, 0)), np.maximum(p, SIGNIFICANCE))
    return difference, low, high, np.asarray(np.where(np.isnan(difference), np.nan, p))


def _lower(b: Floats, c: Floats, n: Floats, parts: Floats, z: Any) -> tuple[Floats, Floats]:
    """The mean over strata of (b - c)/n, and its lower bound at z standard errors."""
    differences = (b - c) / n
    mean = (parts * differences).sum(axis=0)
    distances = differences - tango_lower(b, c, n, z)
    if len(n) > 1 and (n < SMALL_STRATUM).any():
        likely_b, likely_c = (b + 0.5) / (n + 1), (c + 0.5) / (n + 1)
        floor = z * np.sqrt((likely_b + likely_c - (likely_b - likely_c) ** 2) / n)
        distances = np.where(n < SMALL_STRATUM, np.maximum(distances, floor), distances)
    distances = parts * distances
    return mean, np.asarray(mean - np.sqrt((distances**2).sum(axis=0)))


def discordant(values: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """How all pairs of models differ in (documents, models) values 1.0, 0.0 or ``nan``, as (models, models) numbers of
    documents: in the share of the row's model alone, of the column's alone, counted for both, and in both shares."""
    ones, zeros = (values == 1).astype(float), (values == 0).astype(float)
    with _blas().limit(limits=1, user_api="blas"):  # products of milliseconds: threads would wait for each other
        only_row, counted = ones.T @ zeros, ones + zeros
        return only_row, only_row.T, counted.T @ counted, ones.T @ ones


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def exact_mcnemar(b: Any, c: Any) -> Floats:
    """The two-sided p of McNemar's exact test, from numbers of discordant documents; 1.0 without one."""
    from scipy import special

    return np.asarray(np.minimum(1.0, 2 * special.bdtr(np.minimum(b, c).astype(int), np.add(b, c).astype(int), 0.5)))


def tango_lower(b: Any, c: Any, n: Any, z: Any = Z95) -> Floats:
    """The lower bound of (b - c)/n by Tango's score interval; the upper one is ``-tango_lower(c, b, n)``.

    It is where the score statistic equals z. Its variance is that of the difference, with the probability of b estimated by
    maximum likelihood under the bound (equation 5 of the paper). Without that probability the equation is a cubic one: with
    k = z^2/n, the difference d = (b - c)/n and the discordant share s = (b + c)/n, a bound is (d + y)/(1 + k), where

        y^3 = k (k + s - d^2) y + k^2 d (1 - s)

    has three real roots. The least and the greatest belong to the bounds, the one between them to no probability.
    """
    b, c, n = (np.asarray(counts, dtype=float) for counts in (b, c, n))
    k, difference, share = np.square(z) / n, (b - c) / n, (b + c) / n
    root = np.sqrt(k * (k + share - difference**2) / 3)
    cosine = k**2 * difference * (1 - share) / 2 / np.maximum(root * root * root, _TINY)  # no power: it is slow
    angle = np.arccos(np.clip(cosine, -1.0, 1.0))
    return np.asarray((difference + 2 * root * np.cos((angle + 2 * math.pi) / 3)) / (1 + k))
