"""A mean from marks of a few answers and a reading of all: exact cases, properties, and how often bounds hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import t

from custom_metrics.statistics.intervals import SIGNIFICANCE
from custom_metrics.statistics.marked import Draws, marked_difference, marked_mean

NAN = math.nan
HALVES = [0.0, 0.5, 1.0, 0.5, 0.5]
ONES = [1] * 5


@pytest.mark.parametrize(
    ("marked", "expected", "of_all", "value", "low", "high", "error", "slope"),
    [
        # the reading says nothing: mean and Student's t with 4 degrees, se^2 = 0.5 / 4 / 5, half = 2.7764 * se / 0.25
        (HALVES, [0.3] * 5, 0.9, 0.5, 0.147295, 0.852705, 0.158114, 0.0),
        # the reading is what people say: F, and what five draws without a difference leave open, 1 - 0.025 ** (1 / 5)
        (HALVES, HALVES, 0.4, 0.4, 0.0, 0.921824, 0.0, 1.0),
        # the reading says the opposite: lambda is never negative
        (HALVES, [1.0, 0.5, 0.0, 0.5, 0.5], 0.4, 0.5, 0.147295, 0.852705, 0.158114, 0.0),
        # half of what the reading says: lambda 0.5, and no residual is left
        ([0.25, 0.5, 0.75, 0.5, 0.5], HALVES, 0.4, 0.45, 0.0, 0.971824, 0.0, 0.5),
        # nothing is made up in any: a share of 0 of 5 (Clopper and Pearson)
        ([0.0] * 5, HALVES, 0.4, 0.0, 0.0, 0.521824, 0.0, 0.0),
        # too few for bounds
        (HALVES[:4], HALVES[:4], 0.4, 0.5, NAN, NAN, NAN, 0.0),
    ],
)
def test_exact_cases(
    marked: Any, expected: Any, of_all: float, value: float, low: float, high: float, error: float, slope: float
) -> None:
    found = marked_mean(Draws.of(np.ones(len(marked))), marked, expected, of_all)
    figure = (found.figure.value, found.figure.low, found.figure.high, found.figure.standard_error)
    assert figure == pytest.approx((value, low, high, error), abs=2e-6, nan_ok=True)
    assert (found.figure.n, found.slope) == (len(marked), pytest.approx(slope))


@pytest.mark.parametrize(
    ("left_out", "error", "freedom"), [(1.0, 0.158114, 4), (0.5, 0.111803, 2.5), (0.25, 0.079057, 1.25)]
)
def test_only_what_a_draw_may_leave_out_is_uncertain(left_out: float, error: float, freedom: float) -> None:
    """Five answers that are each left out a quarter of the time have 1.25 degrees of freedom."""
    found = marked_mean(Draws.of(ONES, left_out=[left_out] * 5), HALVES, [0.3] * 5, 0.3)
    assert (found.figure.value, found.figure.standard_error) == pytest.approx((0.5, error), abs=1e-6)
    assert found.freedom == pytest.approx(freedom)
    assert found.figure.high == pytest.approx(1 / (1 + math.exp(-t.ppf(0.975, freedom) * error / 0.25)), abs=1e-5)


def test_of_all_answers_nothing_is_uncertain() -> None:
    draws = Draws.of([3, 2, 1], left_out=[0] * 3)
    first, second = (marked_mean(draws, marked, [0.3] * 3, 0.3) for marked in ([1, 0.5, 0], [1, 0.5, 0.6]))
    assert first.figure[:4] == pytest.approx((2 / 3, 2 / 3, 2 / 3, 0))
    assert first.bounds(0.2) == first.figure[1:3]
    assert second.freedom == math.inf


@pytest.mark.one_python("how often bounds hold the truth")
@pytest.mark.parametrize("number", [30, 60])
def test_a_difference_is_about_questions_like_these(number: int) -> None:
    """Runs of 60 questions, of which half or all answers are marked, with a detector that reads them well: the marks of the
    run alone would say that any two runs differ. 400 runs of two equal models."""
    rng, held, significant = np.random.default_rng(3), [], 0
    for _ in range(400):
        shares = rng.beta(1.5, 3, (2, 60))
        reading = np.clip(shares + rng.normal(0, 0.05, shares.shape), 0, 1)
        drawn = rng.permutation(60)[:number]
        draws = Draws.of(np.ones(number), left_out=np.full(number, 1 - number / 60))
        both = [(of[drawn], read[drawn], float(read.mean())) for of, read in zip(shares, reading, strict=True)]
        means = [marked_mean(draws, *each, of_questions=True) for each in both]
        assert [mean.figure.value for mean in means] == [marked_mean(draws, *each).figure.value for each in both]
        result = marked_difference((draws, *means))
        held.append(result.low <= 0 <= result.high)
        significant += result.p < SIGNIFICANCE
    assert 0.93 <= np.mean(held) <= 0.98
    assert significant == 400 - sum(held)


@pytest.mark.one_python("how often bounds hold the truth")
def test_two_runs_of_which_one_abstains_are_compared_without_bias() -> None:
    """The first answers everything, and makes up much where it is hard. The second abstains there. By the questions that
    both answer the first would make up as much as the second; over all answers it makes up 0.2 more."""
    rng, results, restricted = np.random.default_rng(11), [], []
    hard = rng.random(600) < 0.35
    words = np.array([rng.lognormal(4, 0.7, 600), np.where(hard, 0, rng.lognormal(4, 0.7, 600))])
    made_up = rng.beta(1, 8, (2, 600))
    made_up[0][hard] = rng.beta(5, 2, hard.sum())
    shares = words / words.sum(axis=1, keepdims=True)
    truth = float(shares[0] @ made_up[0] - shares[1] @ made_up[1])
    chances = shares.mean(axis=0)
    for _ in range(400):
        keys = rng.exponential(size=600) / chances
        drawn, threshold = np.argsort(keys)[:40], np.sort(keys)[40]
        included = -np.expm1(-chances[drawn] * threshold)
        draws = [Draws.of(share[drawn] / included, left_out=1 - included) for share in shares]
        pairs = zip(draws, made_up[:, drawn], strict=True)
        means = [marked_mean(each, marks, np.zeros(40), 0, of_questions=True) for each, marks in pairs]
        results.append(marked_difference((draws[0], *means)))
        both = shares[1][drawn] > 0
        restricted.append(np.subtract(*(np.average(m[drawn][both], weights=1 / included[both]) for m in made_up)))
    assert truth > 0.15
    assert np.mean([each.difference for each in results]) == pytest.approx(truth, abs=0.01)
    assert abs(np.mean(restricted) - truth) > 0.1
    assert 0.93 <= np.mean([each.low <= truth <= each.high for each in results]) <= 0.99


def test_answers_of_one_article_make_the_bounds_wider() -> None:
    marked, reading = [0.0, 0.0, 1.0, 1.0, 0.5, 0.5], [0.4] * 6
    apart, together, one = (
        marked_mean(Draws.of([1] * 6, clusters=names), marked, reading, 0.4).figure
        for names in (None, ["a", "a", "b", "b", "c", "c"], ["a"] * 6)
    )
    assert together.standard_error == pytest.approx(apart.standard_error * math.sqrt(2))  # both of an article agree
    assert (apart.n, together.n) == (6, 6)
    assert math.isnan(one.low)  # of a single article nothing is known of others


def test_worth_is_the_number_of_draws_without_the_reading() -> None:
    rng = np.random.default_rng(1)
    reading = rng.random(400)
    marked = np.clip(reading + rng.normal(0, 0.1, 400), 0, 1)
    found = marked_mean(Draws.of(np.ones(400)), marked, reading, 0.5)
    assert found.worth == pytest.approx(400 * (found.alone.standard_error / found.figure.standard_error) ** 2)
    assert found.worth > 2_000
    assert math.isnan(marked_mean(Draws.of(ONES), HALVES, HALVES, 0.4).worth)


@pytest.mark.parametrize(
    ("first", "second", "strata", "expected"),
    [
        # equal marks: correlated by 0.95 at most, so half the width of the mean's own bounds times the root of 0.1
        (HALVES, HALVES, 1, (0.0, -0.1115352, 0.1115352, 1.0, 5)),
        # none of 30 is marked: each rate may be 1 - 0.025 ** (1 / 30); Student's t says that they differ by 0 to 0
        ([0.0] * 30, [0.0] * 30, 1, (0.0, -0.1157033, 0.1157033, 1.0, 30)),
        # one of 30 is, by half: sqrt((1 / 60) ** 2 + 0.1157033 ** 2) below
        ([0.5] + [0.0] * 29, [0.0] * 30, 1, (1 / 60, -0.1002309, 0.1323700, 1.0, 30)),
        # the same mark everywhere: what five draws leave open of each, on a scale that ends at 1
        ([0.6] * 5, [0.4] * 5, 1, (0.2, -0.5379702, 0.7656854, 0.9331044, 5)),
        # sqrt(x^2 + y^2 - 2 r x y) of the distances to the bounds of both, with r = 0.25 / sqrt(0.15)
        (HALVES, [0.0, 0.0, 0.5, 0.5, 0.0], 1, (0.3, -0.0669048, 0.5752761, 0.0865515, 5)),
        # of two equal strata each side is shorter by the root of two
        (HALVES, [0.0, 0.0, 0.5, 0.5, 0.0], 2, (0.3, 0.0405591, 0.4946497, 0.0306524, 10)),
        # four draws have no bounds
        (HALVES[:4], HALVES[1:], 1, (-0.125, NAN, NAN, NAN, 4)),
    ],
)
def test_bounds_of_a_difference_are_those_of_both_means_recombined(
    first: list[float], second: list[float], strata: int, expected: tuple[float, ...]
) -> None:
    draws = Draws.of(np.ones(len(first)))
    means = [marked_mean(draws, marks, [0.3] * len(first), 0.3) for marks in (first, second)]
    result = marked_difference(*[(draws, *means)] * strata)
    assert result[2:7] == pytest.approx(expected, abs=2e-7, nan_ok=True)


def test_a_correlation_is_that_of_clusters_where_answers_hang_together() -> None:
    """By answer the residuals of both are uncorrelated, by article they are equal."""
    first, second, names = [0.0, 0.2, 0.8, 1.0] * 2, [0.2, 0.0, 1.0, 0.8] * 2, [*"aabbccdd"]
    apart, together = (
        marked_difference((draws, *(marked_mean(draws, marks, [0.3] * 8, 0.3) for marks in (first, second))))
        for draws in (Draws.of([1] * 8), Draws.of([1] * 8, clusters=names))
    )
    mean = marked_mean(Draws.of([1] * 8, clusters=names), first, [0.3] * 8, 0.3).figure
    assert together.high == pytest.approx((mean.high - mean.value) * math.sqrt(0.1))
    assert apart.high > together.high


def test_an_answer_of_weight_0_changes_nothing_but_the_draws() -> None:
    alone = marked_mean(Draws.of(ONES), HALVES, HALVES[::-1], 0.4)
    beside = marked_mean(Draws.of([*ONES, *[0] * 5]), [*HALVES, *HALVES], [*HALVES[::-1], *HALVES], 0.4)
    assert (*beside.figure, beside.slope, *beside.bounds(0.2)) == (*alone.figure, alone.slope, *alone.bounds(0.2))
    assert beside.residuals == pytest.approx([*(2 * alone.residuals), *[0] * 5])  # a mean over twice as many draws
    assert beside.alone == alone.alone


SHARES = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0.1, 10)), min_size=1, max_size=30)


@given(SHARES, st.floats(0, 1))
def test_what_always_holds(answers: list[tuple[float, float, float]], of_all: float) -> None:
    """Bounds are shares, and hold the value."""
    marked, expected, weights = map(np.array, zip(*answers, strict=True))
    found = marked_mean(Draws.of(weights), marked, expected, of_all)
    assert 0 <= found.slope <= 1
    if not math.isnan(found.figure.low):
        assert 0 <= found.figure.low <= found.figure.value + 1e-9 <= found.figure.high + 2e-9 <= 1 + 3e-9


@given(st.lists(st.tuples(*[st.floats(0, 1)] * 4, *[st.floats(0, 10)] * 2), min_size=1, max_size=12), st.integers(1, 3))
def test_p_is_small_exactly_where_0_is_outside_the_bounds(answers: list[tuple[float, ...]], strata: int) -> None:
    *columns, first, second = map(np.array, zip(*answers, strict=True))
    assume(first.any() and second.any())
    both = Draws.of(first), Draws.of(second)
    means = [marked_mean(draws, *columns[2 * n : 2 * n + 2], 0.5) for n, draws in enumerate(both)]
    result = marked_difference(*[(both[0], *means)] * strata)
    if math.isnan(result.low):
        assert math.isnan(result.p)
        return
    assert (result.p < SIGNIFICANCE) == (result.low > 0 or result.high < 0)
    assert result.low <= result.difference <= result.high
    turned = marked_difference(*[(both[0], *means[::-1])] * strata)
    assert (turned.low, turned.high, turned.p) == pytest.approx((-result.high, -result.low, result.p))
