"""A mean over all answers, from marks of a few of them and a cheaper reading of all.

People mark the answers of a probability sample; a detector (or a judge) has read every answer. Its reading of the drawn
answers shows how far it errs; its reading of all takes the luck of the draw out. This is prediction-powered inference
(Angelopoulos et al. 2023, arXiv 2301.09633) with a weight for the reading (PPI++, arXiv 2311.01453), in survey sampling the
difference estimator (Särndal, Swensson and Wretman 1992, section 6.3).

Assumptions: answers were drawn one after the other, with replacement and known probabilities (Hansen and Hurwitz 1943).
Nothing is assumed of the detector: one that guesses leaves the bounds as wide as marks alone have them. The bounds are for
the answers of this run and for marks like these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from custom_metrics.statistics.figures import UNDEFINED, Figure
from custom_metrics.statistics.intervals import SIGNIFICANCE, sums_by_cluster
from custom_metrics.statistics.paired_difference import PairedDifference

FEWEST_DRAWS = 5
"""Of fewer there are no bounds."""

METHOD = "t test of paired marks"

_FAR = 3.0
"""So many logits from the value to a bound the logit is no straight line any more: bounds are then those of the mean."""


class Draws(NamedTuple):
    """The answers that were drawn, each once. Arrays are (answers,)."""

    times: NDArray[np.float64]  # how often each was drawn
    weights: NDArray[np.float64]  # what it counts among all over the probability by which it is drawn
    clusters: (
        Sequence[Any] | None
    )  # names of what answers hang together with, such as the article; None: each by itself

    @classmethod
    def of(cls, times: ArrayLike, weights: ArrayLike | None = None, clusters: Sequence[Any] | None = None) -> Draws:
        """Without weights the answers were drawn in proportion to what they count, such as their words.

        Raises:
            ValueError: lengths differ, an answer was not drawn, or a weight is not positive.
        """
        numbers = np.asarray(times, float)
        each = np.ones(numbers.shape) if weights is None else np.asarray(weights, float)
        if numbers.ndim != 1 or each.shape != numbers.shape or (clusters is not None and len(clusters) != len(numbers)):
            raise ValueError("times, weights and clusters have one value for each drawn answer")
        if not ((numbers >= 1).all() and (each > 0).all()):
            raise ValueError("each answer was drawn once or more, and its weight is positive")
        return cls(numbers, each, clusters)


class MarkedMean(NamedTuple):
    """A mean of all answers by marks of some of them."""

    figure: Figure  # n: how many draws
    slope: float  # lambda, the part of the reading's difference that is taken off; 0: the reading is not used
    alone: Figure  # by the marks alone
    residuals: NDArray[np.float64]  # (answers,) by how much one draw of each differs from the mean

    @property
    def worth(self) -> float:
        """How many draws would give a standard error as small without the reading; ``nan`` where that is not known."""
        error, alone = self.figure.standard_error, self.alone.standard_error
        return self.figure.n * (alone / error) ** 2 if error > 0 else math.nan


def marked_mean(
    draws: Draws, marked: ArrayLike, expected: ArrayLike, of_all: float, scale: tuple[float, float] = (0.0, 1.0)
) -> MarkedMean:
    """The mean of all answers, ``mean(h) - lambda * (mean(f) - F)``, lambda in [0, 1] by least squares of h on f.

    Args:
        draws: which answers were drawn.
        marked: (answers,) h, what people say of each, such as the share of its words that is made up.
        expected: (answers,) f, the same by the detector.
        of_all: F, the mean of f over all answers of the run, weighted as the draws are.
        scale: the least and the greatest value there can be.

    Returns:
        The mean with 95 % bounds by Student's t on the logit of its place on the scale. At the ends of the scale, and where
        all draws say the same, they are by t alone, and no narrower than those of a share without a hit (Clopper and
        Pearson 1934). The standard error is the one for small samples, HC3 (MacKinnon and White 1985). There are no bounds
        below five draws; without a draw all is ``nan``.

    Raises:
        ValueError: not one value for each drawn answer, or one outside the scale.
    """
    h, f = np.asarray(marked, float), np.asarray(expected, float)
    if not h.shape == f.shape == draws.times.shape:
        raise ValueError(f"{h.shape} marks and {f.shape} expected values of {draws.times.shape} drawn answers")
    if not all(scale[0] <= value <= scale[1] for value in (*h, *f, of_all)):
        raise ValueError(f"a value is not between {scale[0]} and {scale[1]}")
    if not len(h):
        return MarkedMean(UNDEFINED, 0.0, UNDEFINED, h)
    alone = _mean(draws, h, 0.0, scale)
    deviations = draws.weights * _deviations(draws, f)
    squares = float(draws.times * deviations @ deviations)
    if squares < 1e-12 * (scale[1] - scale[0]) ** 2 or alone.figure.n < FEWEST_DRAWS:
        return alone
    slope = min(1.0, max(0.0, float(draws.times * draws.weights * deviations @ _deviations(draws, h)) / squares))
    leverage = deviations**2 / squares if 0 < slope < 1 else None
    return _mean(draws, h - slope * f, slope * of_all, scale, leverage)._replace(slope=slope, alone=alone.figure)


def marked_harmonic_mean(draws: Draws, means: Sequence[MarkedMean], scale: tuple[float, float]) -> MarkedMean:
    """The harmonic mean of marked means of the same draws, such as F+A of faithfulness and appropriateness.

    Its standard error is by the delta method: each draw counts by how far it moves each mean, times the derivative of the
    harmonic mean (Taylor linearisation: Särndal, Swensson and Wretman 1992, section 5.5). The bounds are as those of
    :func:`marked_mean`; ``slope`` is ``nan``, as each mean has its own.

    Raises:
        ValueError: a mean is not of these draws.
    """
    if not all(mean.residuals.shape == draws.times.shape for mean in means):
        raise ValueError("all means are of the same draws")
    values = np.array([mean.figure.value for mean in means])
    value = float(len(values) / np.sum(1 / values))
    derivatives = (value / values) ** 2 / len(values)
    residuals = derivatives @ np.array([mean.residuals for mean in means])
    error, freedom = _standard_error(draws, residuals, any(0 < mean.slope < 1 for mean in means))
    figure = _figure(value, error, freedom, int(draws.times.sum()), scale)
    return MarkedMean(figure, math.nan, figure, residuals)


def marked_difference(*strata: tuple[Draws, MarkedMean, MarkedMean]) -> PairedDifference:
    """The difference of two models' means: of a stratum, such as a language, their means of the same draws.

    Returns:
        The mean over the strata, with 95 % bounds and p by Student's t. The degrees of freedom of several strata are
        Satterthwaite's (1946); where all draws differ alike, p is the sign test's. ``n`` is the number of draws.

    Raises:
        ValueError: means of a stratum are not of its draws.
    """
    from scipy.stats import t

    values, variances, freedoms = [], [], []
    for draws, first, second in strata:
        if not first.residuals.shape == second.residuals.shape == draws.times.shape:
            raise ValueError("both means are of the same draws")
        learned = 0 < first.slope < 1 or 0 < second.slope < 1
        error, freedom = _standard_error(draws, first.residuals - second.residuals, learned)
        values.append((first.figure.value, second.figure.value))
        variances.append(error**2)
        freedoms.append(freedom)
    of_first, of_second = (float(mean) for mean in np.mean(values, axis=0))
    difference, error = of_first - of_second, math.sqrt(sum(variances)) / len(strata)
    squares = sum(variance**2 / freedom for variance, freedom in zip(variances, freedoms, strict=True))
    degrees = sum(variances) ** 2 / squares if squares > 0 else min(freedoms)
    half = _t(degrees) * error
    number = sum(first.figure.n for _, first, _ in strata)
    if error == 0:  # the same difference in all draws: a sign test
        p = 1.0 if difference == 0 else 2.0 ** (1 - number)
    else:
        p = float(2 * t.sf(abs(difference) / error, degrees))
    low, high = difference - half, difference + half
    return PairedDifference(of_first, of_second, difference, low, high, p, number, METHOD)


def _deviations(draws: Draws, values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values - np.average(values, weights=draws.times * draws.weights)


def _mean(
    draws: Draws,
    values: NDArray[np.float64],
    shift: float,
    scale: tuple[float, float],
    leverage: NDArray[np.float64] | None = None,
) -> MarkedMean:
    """The weighted mean of values, shifted. The `leverage` of each draw is that of a slope that was learned from them."""
    number = int(draws.times.sum())
    residuals = draws.weights / np.average(draws.weights, weights=draws.times) * _deviations(draws, values)
    if leverage is not None:
        residuals = residuals / (1 - np.minimum(leverage, 1 - 1 / number))
    mean = float(np.average(values, weights=draws.times * draws.weights)) + shift
    error, freedom = _standard_error(draws, residuals, leverage is not None)
    figure = _figure(mean, error, freedom, number, scale)
    return MarkedMean(figure, 0.0, figure, residuals)


def _figure(mean: float, error: float, freedom: float, number: int, scale: tuple[float, float]) -> Figure:
    """A mean with its bounds on a scale."""
    from scipy.special import expit, logit

    lowest, width = scale[0], scale[1] - scale[0]
    place = min(1.0, max(0.0, (mean - lowest) / width))
    low = high = math.nan
    if not math.isnan(error):
        reach = _t(freedom) * error / width
        half = reach / (place * (1 - place)) if 0 < place < 1 else math.inf
        if reach > 1e-9 and half < _FAR:
            low, high = map(float, expit(logit(place) + np.array([-half, half])))
        else:
            reach = max(reach, 1 - (SIGNIFICANCE / 2) ** (1 / number))
            low, high = max(0.0, place - reach), min(1.0, place + reach)
    value, low, high = (lowest + part * width for part in (place, low, high))
    return Figure(value, low, high, error, number)


def _standard_error(draws: Draws, residuals: NDArray[np.float64], learned: bool) -> tuple[float, float]:
    """Of a mean, by its residuals, and the degrees of freedom; ``nan`` where there are too few draws. A slope that was
    `learned` from them takes one degree.

    Draws of one answer are independent. Different answers of one cluster are not: their products count where they make the
    bounds wider. A few answers with most of the spread tell less of it than many with the same: with the kurtosis k of the
    residuals, of n draws there are at most 2n / (k - (n - 3) / (n - 1)) degrees of freedom, n - 1 of a normal distribution
    (O'Neill 2014, "Some useful moment results in sampling problems").
    """
    number = int(draws.times.sum())
    freedom, sums = float(number - 1 - learned), draws.times * residuals
    variance = squares = float(sums @ residuals)
    if draws.clusters is not None:
        of_clusters = sums_by_cluster(sums, draws.clusters)
        variance += max(0.0, float(of_clusters @ of_clusters - sums @ sums))
        freedom -= len(sums) - len(of_clusters)
    if number < FEWEST_DRAWS or freedom < 2 - learned:
        return math.nan, freedom
    if squares**2 > 0:  # of residuals of 1e-100 it is 0
        kurtosis = number * float(draws.times @ residuals**4) / squares**2
        freedom = min(freedom, 2 * number / (kurtosis - (number - 3) / (number - 1)))
    return math.sqrt(variance / number / (number - 1)), freedom


def _t(freedom: float) -> float:
    from scipy.stats import t

    return float(t.ppf(1 - SIGNIFICANCE / 2, freedom))
