"""From the words a detector flags to the rate at which a model hallucinates.

Three figures for the same answers (q is the flagged share of their words, H/N):

- *detected rate* = q: nothing corrected.
- *estimated rate* = P*H/(R*N), the mFAVA paper's Equation 1. Since P and R come from a calibration corpus with prevalence
  pi_cal and flagged share q_cal, it equals pi_cal * q/q_cal. It is right for answers like the calibration corpus, and
  pulls toward that corpus's prevalence for others (31 to 41 % of the words of mFAVA's gold sets).
- *Rogan-Gladen rate* = (q - FPR)/(TPR - FPR) clipped to [0, 1] (Rogan and Gladen 1978): right at any prevalence, if the
  detector errs as often as it did in calibration.

The last two carry the calibration's own uncertainty: a bootstrap resamples the calibration's documents along with the
answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from custom_metrics.detection import WordCounts
from custom_metrics.intervals import resampled_sums, spread
from custom_metrics.random_effects import Errors, expected, predicted
from custom_metrics.spans import covered, span_of
from custom_metrics.words import words

__all__ = [
    "Estimates",
    "Interval",
    "Rates",
    "doubts",
    "estimate",
    "estimated_rate",
    "flagged_words",
    "rates",
    "rogan_gladen_rate",
]

SEED = 1234
ITERATIONS = 2000


def flagged_words(
    answer: str, spans: Sequence[Sequence[object]] | None, language: str | None = None
) -> tuple[float, int]:
    """The number of words of an answer that a detector flags, and the number of all its words.

    Args:
        answer: the text.
        spans: of it, as :func:`custom_metrics.spans.span_of` reads them; ``None`` where the detector failed.
        language: ISO 639 code; decides what a word is.

    Returns:
        Words with a character in a span, ``nan`` where the detector failed; and all words.

    Raises:
        ValueError: an item of `spans` is not a span.
    """
    places = words(answer, language)
    if spans is None:
        return math.nan, len(places)
    return sum(category is not None for category in covered(places, map(span_of, spans))), len(places)


def estimated_rate(precision: float, recall: float, detected: float, total: float) -> float:
    """Share of words that are hallucinated, by Equation 1 of the mFAVA paper: ``P * H / (R * N)``.

    Args:
        precision: of the detector, in [0, 1].
        recall: of the detector, in [0, 1].
        detected: words it flagged, H.
        total: words of the answers, N.

    Returns:
        The rate; ``nan`` where a denominator is 0. It can exceed 1: the equation has no upper bound.
    """
    if not recall or not total:
        return math.nan
    return precision * detected / (recall * total)


def rogan_gladen_rate(flagged_share: float, true_positive_rate: float, false_positive_rate: float) -> float:
    """Share of words that are hallucinated, by Rogan and Gladen (1978): ``(q - FPR) / (TPR - FPR)``, in [0, 1].

    Returns:
        The rate, clipped to [0, 1]; ``nan`` where the detector flags hallucinated words and others equally often.
    """
    gained = true_positive_rate - false_positive_rate
    if not gained or math.isnan(gained) or math.isnan(flagged_share):
        return math.nan
    return min(1.0, max(0.0, (flagged_share - false_positive_rate) / gained))


class Interval(NamedTuple):
    """A rate with its 95 % bounds and its standard error, all ``nan`` where it is not defined."""

    value: float
    low: float
    high: float
    standard_error: float = math.nan


class Estimates(NamedTuple):
    """The three rates of a corpus of answers."""

    detected: Interval
    estimated: Interval
    rogan_gladen: Interval


class Rates(NamedTuple):
    """The same without bounds; ``nan`` where not defined."""

    detected: float
    estimated: float
    rogan_gladen: float


def rates(
    wild: np.ndarray[Any, Any],
    calibration: np.ndarray[Any, Any] | None = None,
    precision: float = math.nan,
    recall: float = math.nan,
    pooled: Mapping[str, Mapping[str, np.ndarray[Any, Any]]] | None = None,
) -> Rates:
    """The values of :func:`estimate`, which says what the arguments are, without its bootstrap."""
    flagged, total = np.asarray(wild).reshape(-1, 2).sum(axis=0)
    if not total:
        return Rates(math.nan, math.nan, math.nan)
    share = flagged / total
    if pooled is not None:
        true_positive_rate, false_positive_rate, ratio = expected(pooled)
        value = rogan_gladen_rate(share, true_positive_rate, false_positive_rate)
        return Rates(share, ratio * share, value if true_positive_rate > false_positive_rate else math.nan)
    if calibration is None:
        return Rates(share, estimated_rate(precision, recall, flagged, total), math.nan)
    counts = WordCounts(*np.asarray(calibration).reshape(-1, 4).sum(axis=0))
    return Rates(
        share,
        estimated_rate(counts.precision, counts.recall, flagged, total),
        rogan_gladen_rate(share, counts.recall, counts.false_positive_rate),
    )


def estimate(
    wild: np.ndarray[Any, Any],
    calibration: np.ndarray[Any, Any] | None = None,
    precision: float = math.nan,
    recall: float = math.nan,
    iterations: int = ITERATIONS,
    seed: int = SEED,
    pooled: Mapping[str, Mapping[str, np.ndarray[Any, Any]]] | None = None,
) -> Estimates:
    """The rates of a corpus of answers, with bounds from a cluster bootstrap.

    Args:
        wild: (clusters, 2): words flagged and words in all of each cluster; words of one article hang together, so they
            are drawn together.
        calibration: (documents, 4): true and false positives, false and true negatives of each calibration document; they
            are resampled too. ``None`` where only precision and recall are known (the paper's Table 10): the bounds then
            hold the answers' uncertainty alone, and there is no false positive rate.
        precision, recall: used where there is no `calibration`.
        iterations: resamples.
        seed: of the bootstrap.
        pooled: instead of `calibration`, for a language without one: word counts of answers in other languages, by
            language and model, see :func:`custom_metrics.random_effects.predicted`. The bounds then hold how much the
            detector's errors differ between languages and models.

    Returns:
        The three rates, ``nan`` where not defined: all of them without words, the corrected ones without calibration.
    """
    wild = np.asarray(wild).reshape(-1, 2)
    if not wild[:, 1].sum():
        return Estimates(*[Interval(math.nan, math.nan, math.nan)] * 3)
    point = rates(wild, calibration, precision, recall, pooled)
    flagged_again, total_again = resampled_sums(wild, iterations, seed).T
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = flagged_again / total_again
        if pooled is not None:
            return _from_errors(point, shares, predicted(pooled, iterations, seed + 1))
        if calibration is None:
            rogan_gladen_again: np.ndarray[Any, Any] | None = None
            estimated_again = precision / recall * shares if recall else None
        else:
            calibration = np.asarray(calibration).reshape(-1, 4)
            # Another seed: with the same one and as many clusters, both would draw the same rows together.
            tp, fp, fn, tn = resampled_sums(calibration, iterations, seed + 1).T
            estimated_again = np.where(tp > 0, (tp + fn) / (tp + fp) * shares, math.nan)  # P/R, with TP cancelled
            true_positives, false_positives = tp / (tp + fn), fp / (fp + tn)
            rogan_gladen_again = np.clip((shares - false_positives) / (true_positives - false_positives), 0.0, 1.0)
            if np.mean((false_positives <= shares) & (shares <= true_positives)) < UNLIKELY:
                rogan_gladen_again = None
    return Estimates(
        Interval(point.detected, *spread(shares)),
        _interval(point.estimated, estimated_again),
        _interval(point.rogan_gladen, rogan_gladen_again),
    )


UNLIKELY = 0.1
"""Of a flagged share q, FPR <= q <= TPR holds whatever part of the words is hallucinated. Where fewer of the drawn errors
than this go with it, the answers are unlike all that was annotated, and nothing is known of their rate."""


def _from_errors(point: Rates, shares: np.ndarray[Any, Any], errors: Errors) -> Estimates:
    """The rates with errors that are expected, and may turn out otherwise.

    Errors that cannot be are left out: of a flagged share q, FPR <= q <= TPR holds whatever part of the words is
    hallucinated. Where next to none can be, nothing is known, and the bounds are 0 and 1.
    """
    true_positives, false_positives, ratios = errors.draws.T
    possible = (false_positives <= shares) & (shares <= true_positives) & (false_positives < true_positives)
    drawn = (shares - false_positives)[possible] / (true_positives - false_positives)[possible]
    low, high, error = spread(drawn) if np.mean(possible) >= UNLIKELY else (0.0, 1.0, math.nan)
    value = point.rogan_gladen
    if errors.true_positive_rate <= errors.false_positive_rate:
        value = low = high = error = math.nan
    return Estimates(
        Interval(point.detected, *spread(shares)),
        # Equation 1 has no upper bound, and the ratio's tail is long; a share of words has one.
        Interval(point.estimated, *spread(np.minimum(ratios * shares, max(1.0, point.estimated)))),
        Interval(value, min(low, value), max(high, value), error),
    )


USELESS_BELOW = 0.1
FAR = 2.0


def doubts(flagged_share: float, calibration: WordCounts) -> list[str]:
    """Reasons not to trust the corrected rates; empty where there is none.

    - The detector hardly tells hallucinated words from others: TPR - FPR is under 0.1, and every error of the calibration
      is multiplied by more than ten.
    - The flagged share is more than twice, or less than half, that of the calibration corpus: the answers are unlike what
      the detector was measured on, and Equation 1, which scales the calibration's prevalence, is far from home.
    """
    if math.isnan(flagged_share):
        return ["there is not a word to count"]
    reasons = []
    gained = calibration.recall - calibration.false_positive_rate
    if math.isnan(gained):
        reasons.append("its calibration texts hold no hallucinated word, or no other")
    elif gained < USELESS_BELOW:
        reasons.append(
            f"the detector flags {calibration.recall:.1%} of hallucinated and {calibration.false_positive_rate:.1%} of "
            f"other words of its calibration corpus; a difference under {USELESS_BELOW:.0%} tells next to nothing"
        )
    usual = calibration.flagged_share
    if usual and not usual / FAR <= flagged_share <= usual * FAR:
        reasons.append(
            f"{flagged_share:.1%} of the words are flagged, {usual:.1%} in the calibration corpus: the answers are unlike "
            f"the texts that the detector was measured on, and the estimated rate assumes they are alike"
        )
    return reasons


def _interval(point: float, resampled: np.ndarray[Any, Any] | None) -> Interval:
    """Bounds of a rate by what was resampled; 0 and 1 where that tells nothing."""
    if math.isnan(point):
        return Interval(math.nan, math.nan, math.nan)
    if resampled is None:
        return Interval(point, 0.0, 1.0)
    return Interval(point, *spread(resampled))
