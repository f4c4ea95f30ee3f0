"""The difference of two ratios of sums over the same clusters: flagged words over all words, F1, and corrected rates.

A ratio of sums is the mean of its linearised values, one a cluster (:mod:`custom_metrics.statistics.strata`).
Their paired bootstrap (:mod:`custom_metrics.statistics.paired_difference`) is a cluster bootstrap of the ratio.

A corrected rate of :mod:`custom_metrics.hallucination` is a function of the flagged share and of the detector's errors.
Both models' answers went through the same detector, so each resample corrects both with *the same* draw of its errors. They
cancel but for the scale of the difference: of one language, the estimated rates differ significantly exactly when the
detected ones do. This holds if the detector errs alike on the answers of both models.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from custom_metrics.hallucination import UNLIKELY, drawn_rates, rogan_gladen_rate
from custom_metrics.statistics.intervals import SIGNIFICANCE
from custom_metrics.statistics.paired_difference import (
    ITERATIONS,
    NO_DIFFERENCE,
    Floats,
    PairedDifference,
    bounds_and_p,
    compare_means,
    draws,
    paired_values,
    pivots_of,
)
from custom_metrics.statistics.random_effects import Errors
from custom_metrics.statistics.strata import across_strata, has_shared, linearised

RATES = ("detected_rate", "estimated_rate", "rogan_gladen_rate")

CLUSTERS = "paired cluster bootstrap-t"
CORRECTED = "paired cluster bootstrap-t, calibration drawn for both"

_FEWEST_BEYOND = 10
_UNBOUNDED = 1e6
_FARTHEST = 1e9  # the factor by which a resample without spread is stretched


def compare_ratios(
    strata: Sequence[tuple[Any, Any]], harmonic: bool = False, clusters: Sequence[Sequence[Any]] | None = None
) -> PairedDifference:
    """The difference of two ratios of sums, or of their means over languages.

    Args:
        strata: of each language, what each cluster adds to the two models' ratios: (clusters, 2) numerator and denominator,
            or (clusters, ratios, 2) where the figure is the mean of several ratios. Clusters are in the same order; one
            that a model has nothing of is (0, 0). A language in which a ratio is 0/0 is left out.
        harmonic: the figure is the harmonic mean of the ratios instead.
        clusters: of each language, the names of its clusters. Those that several languages have, such as a passage and its
            translations, are drawn together.

    Raises:
        ValueError: the two models' sums are of another form, or not of equally many clusters.
    """
    pairs = [paired_values(values_of_ratios(a, harmonic), values_of_ratios(b, harmonic)) for a, b in strata]
    if clusters is not None and has_shared(clusters):
        pairs = across_strata(pairs, clusters)
    return compare_means([(pair[:, 0], pair[:, 1]) for pair in pairs], method=CLUSTERS)


def values_of_ratios(sums: Any, harmonic: bool = False) -> Floats:
    """(clusters,) values whose mean is the mean of ratios of sums, or their harmonic mean, of (clusters, ratios, 2)."""
    array = np.asarray(sums)
    if array.ndim not in (2, 3) or array.shape[-1] != 2:
        raise ValueError(f"sums are 2 numbers, or lists of 2, a document, not of shape {array.shape}")
    values = linearised(array[..., 0], array[..., 1])
    if values.ndim == 1:
        return values
    if not harmonic:
        return np.asarray(values.mean(axis=1))
    ratios = values.mean(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = len(ratios) / np.sum(1 / ratios)
        slopes = (mean / ratios) ** 2 / len(ratios)
    return np.asarray(mean + (values - ratios) @ np.nan_to_num(slopes))  # a ratio of 0 has no slope, nor values but 0


class RateStratum(NamedTuple):
    """Two models' answers in a language: (articles, 2) words flagged and words in all, articles in the same order.

    Where the errors are expected from other languages (a pooled calibration), draws that contradict the answers are left
    out: FPR <= q <= TPR holds for a flagged share q, whatever part of the words is hallucinated.
    """

    first: Floats
    second: Floats
    errors: Errors | None = None  # of the detector there, with a draw for each resample of the bootstrap


def compare_rates(strata: Sequence[RateStratum], rate: str) -> PairedDifference:
    """The difference of two models' hallucination rates, or of their means over languages.

    A language in which the rate of a model is not defined is left out.
    """
    if rate == RATES[0]:
        return compare_ratios([(stratum.first, stratum.second) for stratum in strata])
    corrected = [*_corrected(strata, rate)]
    if not corrected:
        return NO_DIFFERENCE
    pivots = pivots_of([stratum.slope * (stratum.values[:, :1] - stratum.values[:, 1:]) for stratum in corrected])
    # Reflected and studentised draws of the flagged shares. Without correction, their difference has the pivots' bounds.
    with np.errstate(divide="ignore", invalid="ignore"):
        stretch = np.minimum(np.nan_to_num(pivots.errors / pivots.resampled_errors[0], nan=1.0), _FARTHEST)[:, None]
    drawn = np.zeros(2 * ITERATIONS)
    possible = np.ones(2 * ITERATIONS, dtype=bool)
    for place, stratum in enumerate(corrected):
        shares = stratum.values.mean(axis=0)
        centred = stratum.values - shares
        shift = np.concatenate([counts @ centred for counts in draws(len(centred), place)])
        shift = shift / len(centred) * stretch
        rates, feasible = stratum.rates(shares + np.concatenate([shift, -shift]), rate)
        drawn += (rates[:, 0] - rates[:, 1]) / len(corrected)
        possible &= feasible
    first, second = map(float, np.mean([stratum.observed for stratum in corrected], axis=0))
    possible &= ~np.isnan(drawn)
    low = high = p = math.nan
    if np.mean(possible) >= UNLIKELY:
        ordered = np.sort(drawn[possible])
        number = len(ordered) // 2
        outside = max(0, math.ceil(SIGNIFICANCE * (number + 1)) - 2)
        low, high = (float(end) if abs(end) < _UNBOUNDED else math.nan for end in ordered[[outside, -1 - outside]])
        p = float(min(1.0, (min(np.sum(ordered <= 0), np.sum(ordered >= 0)) + 1) / (number + 1)))
    # With few draws beyond 0, p is known to be small only; where all draws are 0 both rates are 0, or both are 1.
    if p <= (_FEWEST_BEYOND + 1) / (ITERATIONS + 1):
        p = min(p, float(bounds_and_p(pivots)[2][0]))
    clusters = sum(len(stratum.values) for stratum in corrected)
    return PairedDifference(first, second, first - second, low, high, p, clusters, CORRECTED)


class _Corrected(NamedTuple):
    """Flagged shares of two models in a language, with the errors that correct them."""

    errors: Errors
    values: Floats  # (articles, 2) linearised flagged shares
    observed: Floats  # (2,) corrected rates
    slope: float  # of the rate at the expected errors: what a difference of flagged shares is multiplied by

    def rates(self, shares: Floats, rate: str) -> tuple[Floats, Any]:
        """Corrected rates of drawn shares (2 * ITERATIONS, 2), with one draw of errors for both; and which are feasible."""
        true_positives, false_positives, ratios = np.concatenate([self.errors.draws] * 2).T[..., None]
        if rate != RATES[2]:
            return np.asarray(ratios * shares), np.ones(len(shares), dtype=bool)
        rates, consistent = drawn_rates(shares, true_positives, false_positives)
        feasible = consistent.all(axis=1) if self.errors.expected else (true_positives > false_positives)[:, 0]
        # Where few draws of the errors are consistent with a model's answers, nothing is known of its rate.
        return rates, feasible & bool(np.mean(consistent, axis=0).min() >= UNLIKELY)


def _corrected(strata: Sequence[RateStratum], rate: str) -> Iterator[_Corrected]:
    """The languages in which both models' rates are defined."""
    for first, second, errors in strata:
        if errors is None or not len(first):
            continue
        values = np.column_stack([linearised(counts[:, 0], counts[:, 1]) for counts in (first, second)])
        shares = values.mean(axis=0)
        true_positives, false_positives, slope, *_ = errors
        observed = slope * shares
        if rate == RATES[2]:
            slope = 1 / (true_positives - false_positives) if true_positives > false_positives else math.nan
            observed = np.array([rogan_gladen_rate(share, true_positives, false_positives) for share in shares])
        if not (np.isnan(observed).any() or math.isnan(slope)):
            yield _Corrected(errors, values, observed, slope)
