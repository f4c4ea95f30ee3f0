"""Hallucination rates: from the words that a detector flags to the rate at which a model hallucinates.

Three figures for the same answers (q is the flagged share of their words, H/N):

- *detected rate* = q: nothing corrected.
- *estimated rate* = P*H/(R*N), the mFAVA paper's Equation 1. Since P and R come from a calibration corpus with prevalence
  pi_cal and flagged share q_cal, it equals pi_cal * q/q_cal. It is right for answers like the calibration corpus, and pulls
  toward that corpus's prevalence for others (31 to 41 % of the words of mFAVA's gold sets).
- *Rogan-Gladen rate* = (q - FPR)/(TPR - FPR) clipped to [0, 1] (Rogan and Gladen 1978): right at any prevalence, if the
  detector errs as often as it did in calibration.

Each resample of the answers is corrected by errors drawn from their distribution in the calibration
(:func:`custom_metrics.statistics.random_effects.measured_errors`). In *the difference of two models*, whose answers went
through the same detector, each resample corrects both with *the same* draw of its errors. They cancel but for the scale: of
one language, the estimated rates differ significantly exactly when the detected ones do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.reading.spans import covered, span_of
from custom_metrics.reading.words import words
from custom_metrics.scores.aggregations import Aggregation, Ratios, Strata
from custom_metrics.scores.detection import WordCounts
from custom_metrics.statistics import intervals
from custom_metrics.statistics.figures import UNDEFINED, Figure, Rows
from custom_metrics.statistics.intervals import RESAMPLES, SIGNIFICANCE, spread
from custom_metrics.statistics.paired_difference import (
    FEWEST,
    ITERATIONS,
    NEGLIGIBLE,
    NO_DIFFERENCE,
    Differences,
    Floats,
    PairedDifference,
    Pairs,
    bounds_and_p,
    draws,
    pivots_of,
    together,
)
from custom_metrics.statistics.random_effects import Errors

RATES = ("detected_rate", "estimated_rate", "rogan_gladen_rate")

CORRECTED = "paired cluster bootstrap-t, calibration drawn for both"

_FEWEST_BEYOND = 10
_UNBOUNDED = 1e6
_FARTHEST = 1e9  # the factor by which a resample without spread is stretched


def flagged_words(answer: str, spans: Sequence[Sequence[Any]] | None, language: str | None = None) -> tuple[float, int]:
    """How many words of an answer have a character in a span (``nan`` where the detector failed), and how many it has.

    Spans are as :func:`custom_metrics.reading.spans.span_of` reads and refuses them, ``None`` where the detector failed.
    """
    places = words(answer, language)
    if spans is None:
        return math.nan, len(places)
    return sum(category is not None for category in covered(places, map(span_of, spans))), len(places)


def estimated_rate(precision: float, recall: float, detected: float, total: float) -> float:
    """Share of words that are hallucinated, by Equation 1 of the mFAVA paper: ``P * H / (R * N)``, H detected of N words.

    It is ``nan`` where a denominator is 0, and can exceed 1: the equation has no upper bound.
    """
    return precision * detected / (recall * total) if recall and total else math.nan


def rogan_gladen_rate(flagged_share: float, true_positive_rate: float, false_positive_rate: float) -> float:
    """Share of words that are hallucinated, by Rogan and Gladen (1978): ``(q - FPR) / (TPR - FPR)``, clipped to [0, 1].

    It is ``nan`` where the detector flags hallucinated words and others equally often.
    """
    youden_index = true_positive_rate - false_positive_rate
    if not youden_index or math.isnan(youden_index) or math.isnan(flagged_share):
        return math.nan
    return min(1.0, max(0.0, (flagged_share - false_positive_rate) / youden_index))


class Estimates(NamedTuple):
    """The three rates of a corpus of answers; their ``n`` is not set."""

    detected: Figure
    estimated: Figure
    rogan_gladen: Figure


def rates(counts: NDArray[Any], errors: Errors | None = None) -> tuple[float, float, float]:
    """The values of :func:`estimate` without its bootstrap; ``nan`` where not defined."""
    flagged, total = np.asarray(counts).reshape(-1, 2).sum(axis=0)
    if not total:
        return math.nan, math.nan, math.nan
    share = flagged / total
    if errors is None:
        return share, math.nan, math.nan
    value = rogan_gladen_rate(share, errors.true_positive_rate, errors.false_positive_rate)
    if errors.expected and errors.true_positive_rate <= errors.false_positive_rate:
        value = math.nan
    return share, errors.ratio * share, value


def estimate(counts: NDArray[Any], errors: Errors | None = None) -> Estimates:
    """The rates of a corpus of answers: the flagged share with bounds by :mod:`custom_metrics.statistics.intervals`, the
    corrected ones by a cluster bootstrap (95 % bounds hold 93 % of the time with five calibration documents).

    Args:
        counts: (clusters, 2): words flagged and words in all of each cluster, such as an article.
        errors: of the detector (:mod:`custom_metrics.statistics.random_effects`). Of errors without draws that differ (the
            paper's Table 10) the bounds hold the answers' uncertainty alone.

    Returns:
        The three rates, ``nan`` where not defined: all of them without words, the corrected ones without errors.
    """
    counts = np.asarray(counts).reshape(-1, 2)
    if not counts[:, 1].sum():
        return Estimates(UNDEFINED, UNDEFINED, UNDEFINED)
    share, equation_1, rogan_gladen = rates(counts, errors)
    low, high, error = map(float, intervals.share_of_clusters(*counts.T))
    detected = Figure(share, low, high, error)
    if errors is None:
        return Estimates(detected, UNDEFINED, UNDEFINED)
    flagged_sums, total_sums = intervals.resampled_sums(counts, len(errors.draws)).T
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = flagged_sums / total_sums
    # Equation 1 has no upper bound, and the ratio's tail is long; a share of words has one.
    drawn = np.minimum(errors.draws[:, 2] * shares, max(1.0, equation_1))
    estimated = UNDEFINED if math.isnan(equation_1) else Figure(equation_1, *spread(drawn))
    corrected = _corrected(rogan_gladen, shares, errors)
    if (corrected.low, corrected.high) == (0.0, 1.0):
        estimated = estimated._replace(low=0.0, high=1.0)  # nothing is known of the rate: no flagged word is no 0.000
    return Estimates(detected, estimated, corrected)


UNLIKELY = 0.2
"""Least share of drawn errors that are consistent with a flagged share q: FPR <= q <= TPR, whatever part of the words is
hallucinated. Where fewer are, the answers are unlike all that was annotated, and nothing is known of their rate."""


def drawn_rates(shares: Floats, true_positives: Floats, false_positives: Floats) -> tuple[Floats, NDArray[Any]]:
    """Rogan-Gladen rates of drawn shares and errors, and whether these are consistent with the share (:data:`UNLIKELY`)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        drawn = np.clip((shares - false_positives) / (true_positives - false_positives), 0.0, 1.0)
        return drawn, (false_positives <= shares) & (shares <= true_positives)


def _corrected(value: float, shares: NDArray[Any], errors: Errors) -> Figure:
    """The Rogan-Gladen rate with bounds from drawn shares and errors; 0 and 1 where nothing is known. Expected errors that
    are impossible are left out. Measured ones all count: a draw by which the detector flags other words as often as
    hallucinated ones leaves the rate unknown, and counts as 0 in the lower bound and 1 in the upper."""
    if math.isnan(value):
        return UNDEFINED
    true_positives, false_positives, _ = errors.draws.T
    drawn, possible = drawn_rates(shares, true_positives, false_positives)
    if np.mean(possible) < UNLIKELY:
        return Figure(value, 0.0, 1.0)
    discriminates = true_positives > false_positives
    if errors.expected:
        low, high, error = spread(drawn[possible & discriminates])
        return Figure(value, min(low, value), max(high, value), error)
    low, high = spread(np.where(discriminates, drawn, 0.0))[0], spread(np.where(discriminates, drawn, 1.0))[1]
    return Figure(value, low, high, spread(drawn[discriminates])[2])


MIN_YOUDEN_INDEX = 0.1
MAX_SHARE_RATIO = 2.0


def doubts(flagged_share: float, calibration: WordCounts) -> list[str]:
    """Reasons not to trust the corrected rates: Youden's index TPR - FPR under 0.1, which multiplies errors by ten; and a
    flagged share over twice, or under half, that of the calibration corpus."""
    reasons = []
    youden_index = calibration.recall - calibration.false_positive_rate
    if math.isnan(youden_index):
        reasons.append("its calibration texts hold no hallucinated word, or no other")
    elif youden_index < MIN_YOUDEN_INDEX:
        reasons.append(
            f"the detector flags {calibration.recall:.1%} of hallucinated and {calibration.false_positive_rate:.1%} of "
            f"other words of its calibration corpus; a difference under {MIN_YOUDEN_INDEX:.0%} tells next to nothing"
        )
    usual = calibration.flagged_share
    if usual and not usual / MAX_SHARE_RATIO <= flagged_share <= usual * MAX_SHARE_RATIO:
        reasons.append(
            f"{flagged_share:.1%} of the words are flagged, {usual:.1%} in the calibration corpus: the answers are unlike "
            f"the texts that the detector was measured on, and the estimated rate assumes they are alike"
        )
    return reasons


class Corrected(NamedTuple):
    """Flagged shares of two models in a language, with the errors that correct them. Of expected errors (a pooled
    calibration), draws that contradict the answers are left out: FPR <= q <= TPR holds for a flagged share q."""

    errors: Errors
    values: Floats  # (articles, 2) linearised flagged shares
    observed: Floats  # (2,) corrected rates
    slope: float  # of the rate at the expected errors: what a difference of flagged shares is multiplied by

    @classmethod
    def of(cls, errors: Errors, values: Floats, rate: str) -> Corrected | None:
        """From (articles, 2) linearised flagged shares; ``None`` where the rate of a model is not defined."""
        shares = values.mean(axis=0)
        true_positives, false_positives, slope, *_ = errors
        observed = slope * shares
        if rate == RATES[2]:
            slope = 1 / (true_positives - false_positives) if true_positives > false_positives else math.nan
            observed = np.array([rogan_gladen_rate(share, true_positives, false_positives) for share in shares])
        defined = not (np.isnan(observed).any() or math.isnan(slope))
        return cls(errors, values, observed, slope) if defined else None

    def rates(self, shares: Floats, rate: str) -> tuple[Floats, Any]:
        """Corrected rates of drawn shares (2 * ITERATIONS, 2), with one draw of errors for both; and which are feasible."""
        true_positives, false_positives, ratios = np.concatenate([self.errors.draws] * 2).T[..., None]
        if rate != RATES[2]:
            return np.asarray(ratios * shares), np.ones(len(shares), dtype=bool)
        rates, consistent = drawn_rates(shares, true_positives, false_positives)
        feasible = consistent.all(axis=1) if self.errors.expected else (true_positives > false_positives)[:, 0]
        # Where few draws of the errors are consistent with a model's answers, nothing is known of its rate.
        return rates, feasible & bool(np.mean(consistent, axis=0).min() >= UNLIKELY)


class HallucinationRate(Ratios):
    """The kind of a rate; its rows are (documents, 2) words flagged and words in all, clustered by article.

    A subclass knows the errors of the detector: :meth:`errors`.
    """

    clustered_by = "article"
    shares_clusters = False
    additions = Aggregation.additions  # articles count alike, as in the draws of the corrected rates

    def __init__(self, name: str, rate: str) -> None:
        super().__init__(name)
        self.rate = rate  # of RATES
        self.corrected = rate != RATES[0]

    def errors(self, context: Any, iterations: int) -> Errors | None:
        """The errors of the detector by the `context` of rows, with so many draws; ``None`` where they are not known."""
        raise NotImplementedError

    def value(self, rows: Rows) -> float:
        errors = None if self.rate == RATES[0] else self.errors(rows.context, ITERATIONS)
        return rates(rows.values[self.counted(rows)], errors)[RATES.index(self.rate)]

    def figure(self, rows: Rows) -> Figure:
        rates = self.estimates(rows)
        return rates[RATES.index(self.rate)]._replace(n=self.size(rows))

    def estimates(self, rows: Rows) -> Estimates:
        return estimate(self.by_cluster(rows).values, self.errors(rows.context, RESAMPLES))

    def differences(self, strata: Strata, pairs: Pairs) -> Differences:
        if self.rate == RATES[0]:
            return super().differences(strata, pairs)
        return together([self._difference([of for of in strata if {*pair} <= of.keys()], *pair) for pair in pairs])

    def _difference(self, strata: Strata, first: int, second: int) -> PairedDifference:
        of_strata: list[Corrected] = []
        for stratum in strata:
            both = self.counted(stratum[first]) & self.counted(stratum[second])
            errors = self.errors(stratum[first].context, ITERATIONS)
            shares = [self.linear(stratum[run].only(both)).values for run in (first, second)]
            if errors is not None and both.any():
                of_strata += filter(None, [Corrected.of(errors, np.column_stack(shares), self.rate)])
        return compare_corrected(of_strata, self.rate) if of_strata else NO_DIFFERENCE


def compare_corrected(corrected: Sequence[Corrected], rate: str) -> PairedDifference:
    """The difference of two models' corrected rates, or of their means over languages."""
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
    if high - low <= NEGLIGIBLE or clusters - len(corrected) < FEWEST - 1:
        low, high, p = _unvaried(corrected, first - second, p, rate == RATES[2])
    return PairedDifference(first, second, first - second, low, high, p, clusters, CORRECTED)


def _unvaried(corrected: Sequence[Corrected], difference: float, p: float, bounded: bool) -> tuple[float, float, float]:
    """Bounds and p where no draw varies, such as that of two models without a flagged word. A share u of a language's
    articles may differ, of which none was seen: by as much as all words flagged for one model, and none for the other
    (MOVER over languages). All are ``nan`` of fewer than five articles."""
    sizes = [len(stratum.values) for stratum in corrected]
    if sum(sizes) - len(sizes) < FEWEST - 1:
        return math.nan, math.nan, math.nan
    distances = [
        intervals.unseen_share(len(of.values)) * of.slope * (1 + abs(float(np.subtract(*of.values.mean(axis=0)))))
        for of in corrected
    ]
    reach = math.hypot(*distances) / len(sizes)
    low, high = difference - reach, difference + reach
    if bounded:
        low, high = max(low, -1.0), min(high, 1.0)
    outside = low > 0 or high < 0
    return low, high, min(p, float(np.nextafter(SIGNIFICANCE, 0))) if outside else max(p, SIGNIFICANCE)
