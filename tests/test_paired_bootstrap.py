"""The bootstrap of paired differences: its draws and pivots, and corrected rates written out draw by draw."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from custom_metrics.hallucination import CORRECTED, RATES
from custom_metrics.statistics.paired_difference import Pivots, bounds_and_p, draws, extrapolated_p
from custom_metrics.statistics.random_effects import Errors, measured_errors
from tests.paired import RateStratum, compare_rates, compare_ratios
from tests.test_paired_statistics import articles

NAN = math.nan
DETECTED, ESTIMATED, ROGAN_GLADEN = RATES


def of_sizes(iterations: int, difference: float, error: float = 1.0, equal: float = 0.0) -> Pivots:
    """Pivots 1, 2, ... of one pair, in another order."""
    sizes = np.random.default_rng(1).permutation(np.arange(1.0, iterations + 1))
    one = np.ones(1)
    return Pivots(difference * one, error * one, sizes[None] ** 2, one[None], 99, equal * one)


@pytest.mark.parametrize(("iterations", "beyond"), [(19, 0), (20, 0), (39, 0), (59, 1), (60, 2), (79, 2), (999, 48)])
def test_bounds_leave_out_as_many_pivots_as_keep_p_below_005(iterations: int, beyond: int) -> None:
    """With so many beyond a statistic p is below 0.05, with one more it is not; below 20 resamples it never is."""
    reach = iterations - beyond
    for difference in (reach, reach + 0.5, -reach, -reach - 0.5):
        low, high, p = (float(part[0]) for part in bounds_and_p(of_sizes(iterations, difference)))
        assert (low, high) == (difference - reach, difference + reach)
        assert p == pytest.approx((beyond + 1 + (abs(difference) == reach)) / (iterations + 1))
        if iterations > 19:
            assert (p < 0.05) == (low > 0 or high < 0)


@pytest.mark.parametrize(
    ("number", "anchor", "statistic", "iterations", "p"),
    [
        (9, 3.0, 3.0, 1999, 11 / 2000),  # at the tenth largest pivot: the share of it and what is beyond
        (9, 3.0, 6.0, 1999, 2 * stats.norm.sf(2 * stats.norm.isf(11 / 4000))),  # twice as far out
        (9, 3.0, 2.9, 1999, 11 / 2000),  # never above that of the anchor
        (0, 0.5, 1.0, 999, 1 / 1000),  # too few resamples to tell the tail from
        (10, 3.0, 3.0, 1999, 11 / 2000),
        (3, 0.0, 2.0, 1999, 4 / 2000),  # nine in ten pivots are 0
        (3, math.inf, 2.0, 1999, 4 / 2000),
    ],
)
def test_fewer_than_ten_pivots_beyond_leave_p_to_the_tail(
    number: int, anchor: float, statistic: float, iterations: int, p: float
) -> None:
    """Student's t of a hundred million degrees of freedom is normal."""
    numbers, anchors, statistics = np.array([number, 99]), np.array([anchor, 2.0]), np.array([statistic, 1.0])
    found = extrapolated_p(numbers, anchors, statistics, 1e8, iterations)
    assert found == pytest.approx([p, 100 / (iterations + 1)], rel=2e-5)


def flagged(share: float, number: int = 64, spread: int = 6, seed: int = 1) -> np.ndarray[Any, Any]:
    """(articles, 2) flagged words of 64 each; about that share, some more and some less."""
    words = np.random.default_rng(seed).permutation(np.repeat([64 * share - spread, 64 * share + spread], number // 2))
    return np.column_stack([words, np.full(number, 64.0)])


def errors_of(*drawn: tuple[int, float, float, float]) -> Errors:
    """Errors with so many draws of true positive rate, false positive rate and ratio each; the first are expected."""
    return Errors(*drawn[0][1:], np.concatenate([np.tile(rates, (number, 1)) for number, *rates in drawn]))


def test_f1_is_the_harmonic_mean_of_precision_and_recall_with_the_same_bounds() -> None:
    one, other = np.random.default_rng(3).integers(0, 9, (2, 50, 3))  # tp, fp, fn
    as_f1, as_mean = [], []
    for tp, fp, fn in (one.T, other.T):
        as_f1.append(np.column_stack([2 * tp, 2 * tp + fp + fn]))
        as_mean.append(np.stack([np.column_stack([tp, tp + fp]), np.column_stack([tp, tp + fn])], axis=1))
    f1, mean = compare_ratios([tuple(as_f1)]), compare_ratios([tuple(as_mean)], harmonic=True)
    assert mean[:6] == pytest.approx(f1[:6])


def test_a_harmonic_mean_with_a_ratio_of_zero_is_zero() -> None:
    one = np.random.default_rng(4).integers(1, 5, (20, 3, 2))
    other = one.copy()
    other[:, 0, 0] = 0
    found = compare_ratios([(one, other)], harmonic=True)
    top, bottom = one.sum(axis=0).T
    assert (found.first, found.second, found.n) == (pytest.approx(3 / (bottom / top).sum()), 0.0, 20)
    other[:, 0, 1] = 0  # 0/0
    assert compare_ratios([(one, other)], harmonic=True).n == 0


def test_documents_without_hallucinated_or_flagged_words_have_draws_and_no_warning() -> None:
    errors = measured_errors(np.array([[0, 0, 0, 90], [0, 0, 7, 90], [3, 2, 5, 90], [0, 5, 1, 0]]), 400)
    assert errors[:3] == (3 / 16, 7 / 277, pytest.approx((3 / 10) / (3 / 16)))
    assert 0 < np.min(errors.draws[:, :2]) < np.max(errors.draws[:, :2]) < 1
    blind = measured_errors(np.array([[0, 2, 5, 90], [0, 1, 3, 50]]), 50)  # it never finds anything
    assert blind[:3] == (0.0, pytest.approx(3 / 143), pytest.approx(NAN, nan_ok=True))
    assert compare_rates([RateStratum(articles(1), articles(2), blind)], ESTIMATED).n == 0


def test_documents_that_differ_alike_are_drawn_as_they_are() -> None:
    """The shift of a resample is common to both models and is not studentised; rates below FPR are clipped to 0."""
    second = flagged(0.25, spread=8)
    first = second + np.array([4.0, 0.0])
    found = compare_rates([RateStratum(first, second, errors_of((1999, 1.0, 0.25, 1.0)))], ROGAN_GLADEN)
    (counts,) = draws(64)
    shift = counts @ (second[:, 0] / 64 - 0.25) / 64
    shares = 0.25 + np.concatenate([shift, -shift])
    expected = np.sort((np.maximum(shares + 1 / 16, 0.25) - np.maximum(shares, 0.25)) / 0.75)
    assert (found.low, found.high) == (pytest.approx(expected[98]), pytest.approx(expected[-99]))
    assert found.low < found.high


@pytest.mark.parametrize(("weak", "undefined", "of_draws"), [(0, 0, False), (5, 0, False), (6, 0, True), (5, 1, True)])
def test_p_is_of_the_shares_where_ten_draws_of_1999_are_beyond(weak: int, undefined: int, of_draws: bool) -> None:
    """Each draw of the errors is read twice. In so many, nothing flagged is hallucinated, and the rates are equal."""
    errors = errors_of((1999 - weak - undefined, 0.9, 0.1, 1.0), (weak, 0.9, 0.1, 0.0), (undefined, 0.9, 0.1, NAN))
    pair = flagged(0.5), flagged(0.3, seed=2)
    found = compare_rates([RateStratum(*pair, errors)], ESTIMATED)
    assert found.p == pytest.approx((2 * weak + 1) / (2000 - undefined) if of_draws else compare_ratios([pair]).p)
    assert (found.p > 1e-6) == of_draws


@pytest.mark.parametrize("order", [1, -1])
def test_a_language_of_which_nothing_is_known_leaves_no_bounds(order: int) -> None:
    known = RateStratum(flagged(0.5), flagged(0.3), errors_of((1999, 0.9, 0.1, 1.0)))
    unlike = RateStratum(flagged(0.5), flagged(0.3), errors_of((1999, 0.4, 0.1, 1.0)))  # more flagged than is found
    found = compare_rates([known, unlike][::order], ROGAN_GLADEN)
    assert found.difference == pytest.approx((0.5 + 1 - 0.25 - 2 / 3) / 2)
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    assert compare_rates([known], ROGAN_GLADEN).low > 0


@pytest.mark.parametrize(("fitting", "known"), [(399, False), (400, True)])
def test_a_fifth_of_the_draws_must_go_with_the_answers(fitting: int, known: bool) -> None:
    errors = errors_of((fitting, 0.9, 0.1, 1.0), (1999 - fitting, 0.9, 0.3, 1.0))
    first, second = flagged(0.5, spread=0), flagged(0.25, spread=0)
    found = compare_rates([RateStratum(first, second, errors)], ROGAN_GLADEN)
    assert math.isnan(found.low) != known


def test_expected_errors_that_go_against_the_answers_are_left_out() -> None:
    """In half of the draws more of the words are flagged wrongly than the models have flagged in all."""
    errors = errors_of((1000, 0.9, 0.1, 1.0), (999, 0.9, 0.6, 1.0))
    pair = flagged(0.4), flagged(0.2, seed=2)
    measured, pooled = (
        compare_rates([RateStratum(*pair, errors._replace(expected=by))], ROGAN_GLADEN) for by in (False, True)
    )
    assert measured.difference == pooled.difference == pytest.approx(0.25)
    assert (measured.low, measured.p) == (0.0, 1999 / 2000)  # there, both rates are 0
    assert pooled.low == pytest.approx(0.25 - (pooled.high - 0.25), abs=0.02)
    assert pooled.low > 0.15
    assert pooled.p < 0.001


def test_all_and_nothing_flagged_by_a_perfect_detector_are_known() -> None:
    every, none = flagged(1.0, spread=0), flagged(0.0, spread=0)
    found = compare_rates([RateStratum(every, none, errors_of((1999, 1.0, 0.0, 1.0)))], ROGAN_GLADEN)
    assert (found.first, found.second) == (1.0, 0.0)
    unseen = 1 - 0.025 ** (1 / 64)  # of 64 articles; in another, all words may be flagged the other way round
    assert (found.low, found.high) == (pytest.approx(1 - 2 * unseen), 1.0)
    assert found.p == 2.0**-63  # the sign test of 64 articles
    # one that tells nothing apart has no rate
    strata = [RateStratum(flagged(0.5), flagged(0.25), errors_of((1999, 0.25, 0.25, 1.0)))]
    assert compare_rates(strata, ROGAN_GLADEN).n == 0
    assert compare_rates(strata, ESTIMATED).n == 64


@pytest.mark.parametrize("order", [1, -1])
def test_two_models_without_a_flagged_word_may_differ_in_what_was_not_seen(order: int) -> None:
    none, fewer = flagged(0.0, spread=0), flagged(0.0, number=20, spread=0)
    errors = errors_of((1999, 0.9, 0.1, 2.0))
    found = compare_rates([RateStratum(none, none, errors)], ESTIMATED)
    unseen = 2 * (1 - 0.025 ** (1 / 64))  # times the rate of a flagged word
    assert (found.difference, found.p) == (0.0, 1.0)
    assert (found.low, found.high) == pytest.approx((-unseen, unseen))
    strata = [RateStratum(none, none, errors), RateStratum(fewer, fewer, errors)][::order]
    assert compare_rates(strata, ESTIMATED).high == pytest.approx(math.hypot(unseen, 2 * (1 - 0.025**0.05)) / 2)


def test_a_perfect_detector_corrects_nothing() -> None:
    """Over two languages of different size, the bounds and p of the corrected rate are those of the flagged share."""
    perfect = errors_of((1999, NAN, NAN, 1.0))
    strata = [RateStratum(articles(1), articles(2), perfect), RateStratum(articles(3, 25), articles(4, 25), perfect)]
    flagged, corrected = (compare_rates(strata, rate) for rate in RATES[:2])
    assert (corrected.n, corrected.method) == (85, CORRECTED)
    for name in ("first", "second", "difference", "low", "high"):
        assert getattr(corrected, name) == pytest.approx(getattr(flagged, name), rel=1e-9), name
    assert corrected.p == pytest.approx(flagged.p, abs=0.002)
