"""The difference of two shares of the same documents: McNemar's test and Tango's interval.

Of n documents, b are in the first model's share alone and c in the second's alone (*discordant*). The difference of the
shares is (b - c)/n.

- *p* is the mid-p version of McNemar's exact conditional test (McNemar 1947; Fagerland, Lydersen and Laake 2013, "The
  McNemar test for binary matched-pairs data", equation 5). The exact test is conservative: with few discordant documents it
  finds far fewer than 5 % of true hypotheses significant. Its p is given beside.
- *Bounds* are Tango's asymptotic score interval (Tango 1998, "Equivalence test and confidence interval for the difference
  in proportions for the paired-sample design").

The two are not inversions of each other: with few discordant documents p may be 0.04 where the bounds still hold 0. p
decides what is significant.

The mean of a share over languages has languages as strata. p is that of McNemar's score test: without a difference, the
discordant documents of each language fall to either model by a fair coin. The bounds recover the variance of each language
from its Tango interval (MOVER: Zou and Donner 2008, "Construction of confidence limits about effect measures: a general
approach").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from custom_metrics.statistics.intervals import Z95
from custom_metrics.statistics.paired_difference import NO_DIFFERENCE, Floats, PairedDifference, pairs_of

MCNEMAR = "McNemar mid-p, Tango score interval"
STRATIFIED = "stratified McNemar score test, MOVER of Tango intervals"

_BISECTIONS = 60  # halve [-1, 1] to less than a float's step
_TINY = float(np.finfo(float).tiny)  # instead of a variance of 0


def compare_shares(strata: Sequence[tuple[Any, Any]], *others: NoReturn) -> PairedDifference:
    """The difference of two shares, or of their means over languages, in which each language counts the same.

    Strata are as those of :func:`custom_metrics.statistics.paired_difference.compare_means`, of values 1.0 (in the
    share) or 0.0.

    Raises:
        ValueError: values are neither 1 nor 0, nor ``nan``, or not of equally many documents.
    """
    pairs = pairs_of(strata, others, share=True)
    if not pairs:
        return NO_DIFFERENCE
    counts = [(np.sum(x > y), np.sum(x < y), len(x)) for x, y in (pair.T for pair in pairs)]
    b, c, n = np.array(counts).T
    bounds = tango(b, c, n)
    differences = (b - c) / n
    first, second, difference = np.column_stack([[pair.mean(axis=0) for pair in pairs], differences]).mean(axis=0)
    if len(pairs) == 1:
        (low,), (high,) = bounds
        (p,), (exact,) = mcnemar(b, c)
        method = MCNEMAR
    else:
        below, above = (np.sqrt(np.sum((differences - bound) ** 2)) / len(pairs) for bound in bounds)
        low, high = difference - below, difference + above
        p, exact, method = stratified_mcnemar(b, c, n), math.nan, STRATIFIED
    error = np.sqrt(np.sum(((b + c) / n - differences**2) / n)) / len(pairs)  # McNemar 1947; Agresti 2002, section 10.1
    first, second, difference, low, high, p = map(float, (first, second, difference, low, high, p))
    return PairedDifference(first, second, difference, low, high, p, int(n.sum()), method, float(exact), float(error))


def discordant(values: Floats) -> tuple[Floats, Floats, Floats]:
    """How all pairs of models differ in (documents, models) values 1.0, 0.0 or ``nan``: of each pair the documents where
    the row's model alone is in the share, those where the column's alone is, and those that count for both."""
    ones, zeros = (values == 1).astype(float), (values == 0).astype(float)
    only_row = ones.T @ zeros
    counted = ones + zeros
    return only_row, only_row.T, counted.T @ counted


def mcnemar(b: Any, c: Any) -> tuple[Floats, Floats]:
    """The mid-p and exact p of McNemar's test, two-sided, from numbers of discordant documents; both 1.0 without one."""
    from scipy import special

    few, total = np.minimum(b, c).astype(int), np.add(b, c).astype(int)
    up_to = special.bdtr(few, total, 0.5)
    below = np.where(few > 0, special.bdtr(np.maximum(few - 1, 0), total, 0.5), 0.0)
    mid = np.where(2 * few == total, 1 - (up_to - below) / 2, below + up_to)
    return np.where(total > 0, mid, 1.0), np.minimum(1.0, 2 * up_to)


def tango(b: Any, c: Any, n: Any) -> tuple[Floats, Floats]:
    """Tango's 95 % score interval of (b - c)/n.

    The bounds are where the score statistic equals z. Its variance is that of the difference, with the probability of c
    estimated by maximum likelihood under the bound (equation 5 of the paper).
    """
    b, c, n = (np.asarray(counts, dtype=float) for counts in (b, c, n))
    upper = _tango_upper(b, c, n)
    return -_tango_upper(c, b, n), upper


def _tango_upper(b: Floats, c: Floats, n: Floats) -> Floats:
    low = (b - c) / n
    high = np.ones_like(low)
    for _ in range(_BISECTIONS):
        delta = (low + high) / 2
        linear = -b - c + (2 * n - b + c) * delta
        constant = -c * delta * (1 - delta)
        chance = (np.sqrt(np.maximum(0, linear**2 - 8 * n * constant)) - linear) / (4 * n)
        variance = n * (2 * chance + delta * (1 - delta))
        score = (b - c - n * delta) / np.sqrt(np.maximum(variance, _TINY))  # it falls as delta rises
        low, high = np.where(score >= -Z95, delta, low), np.where(score >= -Z95, high, delta)
    return np.asarray((low + high) / 2)


def stratified_mcnemar(b: Any, c: Any, n: Any) -> Floats:
    """p of the mean over strata, the first axis, of (b - c)/n, by the score test.

    z is the mean over the standard error that it has without a difference. With one stratum this is McNemar's test without
    continuity correction. Strata without a document add nothing. Without a discordant document p is 1.
    """
    from scipy import special

    b, c, n = (np.asarray(counts, dtype=float) for counts in (b, c, n))
    sizes = np.maximum(n, 1.0)  # without a document there is no discordant one
    difference = ((b - c) / sizes).sum(axis=0)
    variance = ((b + c) / sizes**2).sum(axis=0)
    return np.asarray(2 * special.ndtr(-np.abs(difference) / np.sqrt(np.maximum(variance, _TINY))))
