"""A mean over all answers from a few that people marked, joined with a cheaper reading of all answers.

People mark the answers of a probability sample; a detector (or a judge) has read every answer. Its reading of the drawn answers
says how far it errs, its reading of all answers takes the luck of the draw out (prediction-powered inference: Angelopoulos
et al. 2023, arXiv 2301.09633; with a weight for the reading: PPI++, arXiv 2311.01453; as a difference estimator of survey
sampling: Särndal, Swensson and Wretman 1992, section 6.3).

Assumed: answers are drawn independently, one after the other and with replacement, each time with known probabilities (Hansen
and Hurwitz 1943). Nothing is assumed of the detector: one that errs always, or at random, makes the bounds no better and,
but for a hundredth, no worse than marks alone. The bounds are of this run's answers, for readers like these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from custom_metrics.statistics.figures import UNDEFINED, Figure
from custom_metrics.statistics.intervals import sums_by_cluster

FEWEST = 5
"""Draws below which there are no bounds."""


class MarkedMean(NamedTuple):
    """A mean of all answers by marks of some."""

    figure: Figure  # its n is the number of draws
    slope: float  # lambda: how much of the reading's difference is taken off; 0: the reading says nothing
    alone: Figure  # by the marks alone
    residuals: NDArray[np.float64]  # (draws,) how far each draw moves the mean

    @property
    def worth(self) -> float:
        """How many draws without the reading would give bounds as narrow; ``nan`` where that is not known."""
        error, alone = self.figure.standard_error, self.alone.standard_error
        return self.figure.n * (alone / error) ** 2 if error > 0 else math.nan


def marked_mean(
    marked: ArrayLike,
    expected: ArrayLike,
    of_all: float,
    weights: ArrayLike | None = None,
    clusters: Sequence[Any] | None = None,
    lowest: float = 0.0,
    highest: float = 1.0,
) -> MarkedMean:
    """The mean of all answers: ``mean(h) - lambda * (mean(f) - F)``, lambda in [0, 1] by least squares of h on f.

    Args:
        marked: (draws,) h: what people found in each drawn answer, such as the share of its words that is made up. An answer
            that was drawn twice stands twice.
        expected: (draws,) f: the same by the detector.
        of_all: F: the mean of f over all answers, each weighted as the draw weights it.
        weights: (draws,) what each answer has to count over the probability by which it was drawn; default 1 each: they
            were drawn in proportion to what they count.
        clusters: (draws,) names of what draws hang together with, such as the article; default each by itself.
        lowest, highest: of the scale; bounds are within it.

    Returns:
        The mean with 95 % bounds by Student's t on the logit scale, whose degrees of freedom are the clusters less one, and
        less another where lambda is not 0. Where all residuals are 0 the bounds are those of a share of as many draws
        (Clopper and Pearson 1934). They are ``nan`` of fewer than five draws or two clusters; all is without a draw.

    Raises:
        ValueError: arrays of different lengths, a value outside the scale, a weight that is not positive.
    """
    h, f = np.asarray(marked, float), np.asarray(expected, float)
    w = np.ones(len(h)) if weights is None else np.asarray(weights, float)
    if not h.shape == f.shape == w.shape or h.ndim != 1:
        raise ValueError(f"{h.shape} marks, {f.shape} expected values, {w.shape} weights: of each draw one")
    if len(h) and not (lowest <= min(h.min(), f.min(), of_all) and max(h.max(), f.max(), of_all) <= highest):
        raise ValueError(f"a value is not between {lowest} and {highest}")
    if not (w > 0).all():
        raise ValueError("a weight is not positive")
    if not len(h):
        return MarkedMean(UNDEFINED, math.nan, UNDEFINED, h)
    slope = _slope(h, f, w)
    alone, _ = _mean(h, 0.0, w, clusters, (lowest, highest), 1)
    figure, residuals = _mean(h - slope * f, slope * of_all, w, clusters, (lowest, highest), 2 if slope else 1)
    return MarkedMean(figure, slope, alone, residuals)


def marked_difference(one: MarkedMean, other: MarkedMean, clusters: Sequence[Any] | None = None) -> Figure:
    """The difference of two means whose marks are of the same draws, one less the other, with 95 % bounds by Student's t.

    `clusters` are those of the means. ValueError where the numbers of draws differ.
    """
    if one.residuals.shape != other.residuals.shape:
        raise ValueError(f"{len(one.residuals)} and {len(other.residuals)} draws: a difference is of the same draws")
    if not len(one.residuals):
        return UNDEFINED
    difference = one.figure.value - other.figure.value
    error, number = _error(one.residuals - other.residuals, clusters)
    freedom = number - 1 - bool(one.slope or other.slope)
    if math.isnan(error) or freedom < 1:
        return Figure(difference, n=len(one.residuals))
    half = _t(freedom) * error
    return Figure(difference, difference - half, difference + half, error, len(one.residuals))


def _slope(h: NDArray[Any], f: NDArray[Any], w: NDArray[Any]) -> float:
    """Of least squares of h on f, in [0, 1]."""
    apart = f - np.average(f, weights=w)
    spread = float((w * w * apart) @ apart)
    if len(h) < FEWEST or spread <= 1e-12:
        return 0.0
    return min(1.0, max(0.0, float((w * w * apart) @ (h - np.average(h, weights=w))) / spread))


def _mean(
    values: NDArray[Any],
    added: float,
    w: NDArray[Any],
    clusters: Sequence[Any] | None,
    scale: tuple[float, float],
    parameters: int,
) -> tuple[Figure, NDArray[Any]]:
    """The weighted mean of values and what is added to it, with bounds; and how far each value moves it."""
    lowest, highest = scale
    mean = float(np.average(values, weights=w))
    residuals = w / w.mean() * (values - mean)
    value = min(highest, max(lowest, mean + added))
    error, number = _error(residuals, clusters, parameters)
    if math.isnan(error) or number <= parameters or len(values) < FEWEST:
        return Figure(value, n=len(values)), residuals
    place = (value - lowest) / (highest - lowest)
    if error <= 1e-12 or not 0 < place < 1:
        least = _least(number)
        low, high = max(0.0, place - least), min(1.0, place + least)
    else:
        half = _t(number - parameters) * error / (highest - lowest) / (place * (1 - place))
        logit = math.log(place / (1 - place))
        low, high = (1 / (1 + math.exp(-bound)) for bound in (logit - half, logit + half))
    return Figure(value, lowest + low * (highest - lowest), lowest + high * (highest - lowest), error, len(values)), residuals


def _error(residuals: NDArray[Any], clusters: Sequence[Any] | None, parameters: int = 1) -> tuple[float, int]:
    """Standard error of a mean by its residuals, summed by cluster, and the number of clusters."""
    sums = sums_by_cluster(residuals, clusters)
    number = len(sums)
    if number <= parameters:
        return math.nan, number
    return math.sqrt(number / (number - parameters) * float(sums @ sums)) / len(residuals), number


def _least(number: int) -> float:
    """So much may be in the part of the scale that none of this number of draws hit."""
    return 1 - 0.025 ** (1 / number)


def _t(freedom: int) -> float:
    from scipy.stats import t

    return float(t.ppf(0.975, freedom))
