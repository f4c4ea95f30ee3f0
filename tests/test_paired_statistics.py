"""Paired comparisons of two models against worked examples, scipy and statsmodels."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats import contingency_tables

from custom_metrics.hallucination import RATES, estimate
from custom_metrics.statistics.multiple_comparisons import adjusted, better, holm, ranks
from custom_metrics.statistics.paired_difference import (
    ITERATIONS,
    difference_of_shares,
    exact_mcnemar,
    share_differences,
    tango_lower,
)
from custom_metrics.statistics.random_effects import expected_errors, measured_errors
from tests.paired import RateStratum, compare_means, compare_rates, compare_shares, holm_by_statsmodels

NAN = math.nan


def table(both: int, first: int, second: int, neither: int) -> tuple[list[float], list[float]]:
    """Two models' values from a table of two by two."""
    pairs = [(1.0, 1.0)] * both + [(1.0, 0.0)] * first + [(0.0, 1.0)] * second + [(0.0, 0.0)] * neither
    return [one for one, _ in pairs], [other for _, other in pairs]


# ------------------------------------------------------------------------------------------------------------ shares


def test_the_example_of_fagerland_lydersen_and_laake() -> None:
    """Airway hyper-responsiveness before and after stem cell transplantation (2014, Table I and section 9.1)."""
    found = compare_shares([table(1, 1, 7, 12)])
    assert (found.first, found.second, found.n) == (pytest.approx(2 / 21), pytest.approx(8 / 21), 21)
    assert found.difference == pytest.approx(-6 / 21)
    assert (round(found.low, 3), round(found.high, 3)) == (-0.517, -0.026)
    assert (round(found.p, 3), round(found.p_exact, 3)) == (0.034, 0.070)


@pytest.mark.parametrize(("b", "c"), [(0, 0), (0, 1), (3, 3), (2, 9), (40, 61), (300, 260), (1200, 1300)])
def test_p_is_that_of_mcnemars_test_and_the_exact_one_stands_beside(b: int, c: int) -> None:
    found = compare_shares([table(1, b, c, 2)])
    if b + c:
        asymptotic, exact = (
            contingency_tables.mcnemar([[1, b], [c, 2]], exact=exact, correction=False).pvalue
            for exact in (False, True)
        )
        assert (found.p, found.p_exact) == pytest.approx((asymptotic, exact))
        assert exact == pytest.approx(stats.binomtest(b, b + c).pvalue)
    else:
        assert (found.p, found.p_exact) == (1.0, 1.0)
    assert exact_mcnemar(np.array([b]), np.array([c])).tolist() == [found.p_exact]


@pytest.mark.parametrize("z", [0.01, 0.5, 1.959964, 5.0, 39.0])
def test_the_root_of_the_cubic_is_that_of_the_score(z: float) -> None:
    """Both bounds by bisection of the score, with the likeliest chance as the paper has it (equation 5)."""
    rng = np.random.default_rng(5)
    n = np.concatenate([rng.integers(1, most, 200, endpoint=True) for most in (2, 12, 100, 3000, 100_000)]).astype(
        float
    )
    b = rng.binomial(n.astype(int), rng.choice([0.0, 0.01, 0.05, 0.5], len(n))).astype(float)
    c = rng.binomial((n - b).astype(int), rng.choice([0.0, 0.01, 0.05, 0.5, 0.99], len(n))).astype(float)
    low, high = (c - b) / n, np.ones(len(n))  # of (c - b)/n
    for _ in range(60):
        delta = (low + high) / 2
        linear = (2 * n - c + b) * delta - b - c
        chance = (np.sqrt(np.maximum(0, linear**2 + 8 * n * b * delta * (1 - delta))) - linear) / (4 * n)
        score = (c - b - n * delta) / np.sqrt(np.maximum(n * (2 * chance + delta * (1 - delta)), 1e-300))
        low, high = np.where(score >= -z, delta, low), np.where(score >= -z, high, delta)
    np.testing.assert_allclose(tango_lower(b, c, n, z), -(low + high) / 2, rtol=0, atol=1e-10)


def smoothed(b: int, c: int, n: int) -> float:
    """The least distance of a bound from the difference, in a stratum of fewer than 100 documents, of z = 1."""
    one, other = (b + 0.5) / (n + 1), (c + 0.5) / (n + 1)
    return math.sqrt((one + other - (one - other) ** 2) / n) if n < 100 else 0.0


@settings(deadline=None, max_examples=10)
@given(st.integers(1, 18), st.sampled_from([3, 12, 100, 3000]), st.integers(0, 2**32 - 1))
def test_p_and_bounds_say_the_same_and_turn_with_the_models(strata: int, most: int, seed: int) -> None:
    """Of fifty pairs of models at once; many of few documents, so that some differ in all of them and some in none."""
    rng = np.random.default_rng(seed)
    n = rng.integers(1, most, (strata, 50), endpoint=True)
    b = rng.binomial(n, rng.choice([0.0, 0.05, 0.5, 1.0], 50))
    c = rng.binomial(n - b, rng.choice([0.0, 0.05, 0.5, 1.0], 50))
    weights = rng.random(n.shape) + 0.01
    parts = weights / weights.sum(axis=0)
    difference, low, high, p = difference_of_shares(b, c, n, parts)
    assert ((p < 0.05) == ((low > 0) | (high < 0))).all()
    rounding = 1e-12
    assert (np.diff([np.full(50, -1), low, difference, high, np.ones(50)], axis=0) > -rounding).all()
    assert ((p >= 0) & (p <= 1)).all()
    for found, expected in zip(difference_of_shares(c, b, n, parts), (-difference, -high, -low, p), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    if strata == 1:
        z = np.abs(b - c)[0] / np.sqrt(np.maximum(b + c, 1))[0]
        np.testing.assert_allclose(p, 2 * stats.norm.sf(z), rtol=1e-9)

    def reach(one: np.ndarray, other: np.ndarray, z: np.ndarray | float) -> np.ndarray:
        """MOVER written out: the root of the squared distances of the strata's bounds."""
        distances = (one - other) / n - tango_lower(one, other, n, z)
        if strata > 1:
            distances = np.maximum(distances, z * np.vectorize(smoothed)(one, other, n))
        return np.sqrt(((parts * distances) ** 2).sum(axis=0))

    np.testing.assert_allclose(low, np.maximum(-1, difference - reach(b, c, 1.959964)), atol=1e-6)
    np.testing.assert_allclose(high, np.minimum(1, difference + reach(c, b, 1.959964)), atol=1e-6)
    # p is the level of the interval that ends at 0, but where rounding would have it on the other side of 0.05
    more, less = np.where(difference > 0, (b, c), (c, b))
    known = (np.abs(difference) > 1e-9) & (p > 1e-300)
    found = reach(more, less, stats.norm.isf(np.maximum(p, 1e-300) / 2))
    np.testing.assert_allclose(np.abs(difference)[known], found[known], rtol=1e-6)


def test_a_stratum_without_a_document_for_both_is_left_out_with_those_it_belongs_to() -> None:
    """Two strata a language, as of a balanced error: the language with documents of one kind alone counts for nothing."""
    rng = np.random.default_rng(3)
    whole = [rng.integers(0, 2, (20, 3)).astype(float) for _ in range(4)]
    missing = [*whole, whole[0], np.where(np.arange(3) == 1, NAN, whole[1])]
    weights = [0.75, 0.25] * 3
    pairs = [(0, 1), (0, 2), (1, 2)]
    found = share_differences(missing, pairs, weights, kinds=2)
    for pair, one in zip(pairs, found, strict=True):
        strata = whole if 1 in pair else missing
        alone = compare_shares([tuple(values[:, pair].T) for values in strata], weights=weights[: len(strata)])
        assert one == pytest.approx(alone, nan_ok=True)
    apart = share_differences(missing, pairs, weights)[0]  # the first kind of the third language counts by itself
    assert apart.n == 100
    assert found[0].n == 80


@pytest.mark.parametrize(
    ("compare", "message"),
    [
        (lambda: holm([0.5, 1.5]), "p values are between 0 and 1"),
        (lambda: measured_errors(np.array([[1, 2, 3]])), "word counts are four numbers a document"),
        (lambda: measured_errors(np.array([[1, 2, 3, -1]])), "word counts are four numbers a document"),
    ],
)
def test_values_of_another_form_are_an_error_in_words(compare: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compare()


def test_no_document_in_common_is_no_difference() -> None:
    none = RateStratum(np.empty((0, 2)), np.empty((0, 2)), measured_errors(CALIBRATION))
    of_rates = [compare_rates(strata, rate) for strata in ([], [none]) for rate in RATES]
    for found in (compare_shares([([NAN], [1.0])]), compare_means([([], [])]), *of_rates):
        assert found.n == 0
        assert math.isnan(found.p)


def test_a_group_of_shares_counts_each_language_the_same() -> None:
    small, large = table(1, 3, 0, 0), table(50, 10, 10, 30)
    found = compare_shares([small, large, ([NAN], [1.0])])
    assert found.first == pytest.approx((1 + 0.6) / 2)
    assert found.difference == pytest.approx(0.75 / 2)
    assert found.n == 104
    assert found.low < found.difference < found.high
    weighed = compare_shares([small, large, ([NAN], [1.0])], weights=[1, 3, 100])
    assert weighed.first == pytest.approx((1 + 3 * 0.6) / 4)
    assert weighed.difference == pytest.approx(0.75 / 4)
    # MOVER: with equal languages, the distance to a bound falls with the root of their number.
    one, four = compare_shares([large]), compare_shares([large] * 4)
    assert four.difference - four.low == pytest.approx((one.difference - one.low) / 2)


# ------------------------------------------------------------------------------------------------------------- means


def test_bounds_of_normal_differences_are_those_of_the_t_test() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.normal(0.5, 1, 200), rng.normal(0.3, 1, 200)
    found, usual = compare_means([(first, second)]), stats.ttest_rel(first, second)
    bounds = usual.confidence_interval()
    assert found.difference == pytest.approx(first.mean() - second.mean())
    assert found.low == pytest.approx(bounds.low, abs=0.02)
    assert found.high == pytest.approx(bounds.high, abs=0.02)
    assert found.p == pytest.approx(usual.pvalue, abs=0.02)


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [
        ([0.5] * 6, [0.5] * 6, 1.0),  # not a difference
        ([0.5] * 6, [0.25] * 6, 2.0**-5),  # each the same: the sign test
        ([0.75] * 30, [0.5] * 30, 2.0**-29),
        ([0.7] * 30, [0.5] * 30, 2.0**-29),  # the mean is rounded
        ([0.1] * 30, [0.3] * 30, 2.0**-29),
        ([0.1 + 0.2] * 30, [0.3] * 30, 1.0),  # no difference but rounding
        ([0.5] * 5, [0.25] * 5, 2.0**-4),
    ],
)
def test_equal_differences_have_the_sign_test_and_bounds_of_nothing_else_seen(
    first: list[float], second: list[float], p: float
) -> None:
    """A share u of documents, of which none was seen, may differ as much the other way: the mean is within 2 u |c|."""
    found = compare_means([(first, second)])
    assert found.p == pytest.approx(p)
    assert found.method == ("all values are the same" if p == 1 else "sign test, as all differences are the same")
    reach = 2 * (1 - 0.025 ** (1 / len(first))) * abs(first[0] - second[0]) if p < 1 else NAN
    bounds = pytest.approx((found.difference - reach, found.difference + reach), nan_ok=True)
    assert (found.low, found.high) == bounds
    assert (found.p < 0.05) == (found.low > 0 or found.high < 0)


@pytest.mark.parametrize("number", [1, 2, 4])
def test_fewer_than_five_documents_have_neither_p_nor_bounds(number: int) -> None:
    for second in (0.25, 0.5):
        found = compare_means([([0.5] * number, [second] * number)])
        assert found.n == number
        assert np.isnan([found.p, found.low, found.high]).all()


@pytest.mark.parametrize(
    ("differences", "low", "high", "p"),
    [
        # Poisson: one seen may be 5.572 expected; p is twice the chance of one at most of so many standard errors
        ([1.0] * 99 + [2.0], 1.01 - 0.0456, 1.01 + 0.0456, 2 * stats.poisson.cdf(1, 102)),
        ([1.0] + [0.0] * 7, 0.125 - 0.5241, 0.125 + 0.5241, None),
    ],
)
def test_a_document_that_differs_alone_has_the_reach_of_a_rare_one(
    differences: list[float], low: float, high: float, p: float | None
) -> None:
    """Where a resample in a hundred lacks all that differs."""
    found = compare_means([(differences, [0.0] * len(differences))])
    assert (found.p < 0.05) == (found.low > 0 or found.high < 0)
    assert (found.low, found.high) == (pytest.approx(low, abs=0.0005), pytest.approx(high, abs=0.0005))
    if p is not None:
        assert found.p == pytest.approx(p, rel=1e6)  # of 1e-42


@pytest.mark.parametrize(
    ("strata", "method", "error"),
    [
        # one document has the variance of the other 50: sqrt(s^2 + s^2 / 50) / 2
        (
            [[0.4], [0.1, -0.1] * 25],
            "strata of fewer than 5 have the pooled variance",
            0.5 * (0.01 / 0.98 * 1.02) ** 0.5,
        ),
        ([[0.1], [0.2], [0.3], [0.4], [0.5]], "over the strata's means", math.sqrt(0.025 / 5)),
        ([[0.1], [0.2], [0.3], [0.4]], "over the strata's means", NAN),
    ],
)
def test_a_stratum_of_one_document_is_not_known_without_error(
    strata: list[list[float]], method: str, error: float
) -> None:
    found = compare_means([(values, [0.0] * len(values)) for values in strata])
    assert found.difference == pytest.approx(np.mean([np.mean(values) for values in strata]))
    assert found.method == f"paired bootstrap-t, {method}"
    assert found.n == (len(strata) if method.startswith("over") else 51)
    if math.isnan(error):
        assert np.isnan([found.p, found.low]).all()
    else:
        assert found.standard_error == pytest.approx(error)
        assert found.low < found.difference < found.high


# ------------------------------------------------------------------------------------------------------------- rates


def articles(seed: int, number: int = 60) -> np.ndarray:
    rng = np.random.default_rng(seed)
    total = rng.integers(20, 200, number)
    return np.column_stack([rng.binomial(total, rng.beta(2, 6, number)), total]).astype(float)


CALIBRATION = np.column_stack([np.arange(10, 50), np.full(40, 8), np.arange(40, 0, -1), np.full(40, 100)]).astype(float)


def test_the_error_of_the_calibration_is_common_and_cancels() -> None:
    first = articles(1)
    second = first * [0.8, 1.0]
    errors = measured_errors(CALIBRATION[:6], ITERATIONS)  # of six documents: very uncertain
    detected, estimated, rogan = (compare_rates([RateStratum(first, second, errors)], rate) for rate in RATES)
    run = estimate(first, measured_errors(CALIBRATION[:6]))
    assert [found.first for found in (detected, estimated, rogan)] == pytest.approx([figure.value for figure in run])
    assert estimated.high - estimated.low < (run.estimated.high - run.estimated.low) / 2
    assert detected.p == pytest.approx(estimated.p)
    assert detected.p < rogan.p < 0.05  # by some draws, all that either model has flagged are the detector's slips
    assert min(found.low for found in (detected, estimated, rogan)) > 0


def test_a_pooled_calibration_is_drawn_once_for_both() -> None:
    rng = np.random.default_rng(9)
    pooled = {
        code: {f"m{k}": CALIBRATION[rng.integers(40, size=12)] for k in range(2)} for code in ("de", "fi", "it", "sv")
    }
    first = articles(1)
    parts = RateStratum(first, first * [0.7, 1.0], expected_errors(pooled, ITERATIONS))
    alone = estimate(first, expected_errors(pooled)).rogan_gladen
    found = compare_rates([parts], "rogan_gladen_rate")
    assert found.first == pytest.approx(alone.value)
    assert found.low > 0
    assert found.p < 0.05


# ------------------------------------------------------------------------------------------------------ many at once


HOLM = [0.01, 0.04, NAN, 0.03, 0.005, 0.9, 0.04]


def test_holm_in_exact_numbers() -> None:
    assert holm(HOLM) == pytest.approx([0.05, 0.12, NAN, 0.12, 0.03, 0.9, 0.12], nan_ok=True)
    assert holm([]).size == 0
    assert holm([0.7, 0.6, 0.4]).tolist() == [1.0, 1.0, 1.0]
    assert holm([1, 0, 1]).tolist() == [1.0, 0.0, 1.0]


@given(st.lists(st.floats(0, 1), max_size=30))
def test_holm_is_that_of_statsmodels(p_values: list[float]) -> None:
    expected = holm_by_statsmodels(p_values) if p_values else []
    assert holm(p_values) == pytest.approx(expected)


PAIRS = [("a", "b"), ("a", "c"), ("b", "c")]


@pytest.mark.parametrize(
    ("columns", "families", "corrected"),
    [
        # three models: the pairs of each language
        ([(0.01, 0.04, 0.03), (0.02, 0.9, NAN)], [(3, 3, 3), (2, 2, 2)], [(0.03, 0.06, 0.06), (0.04, 0.9, NAN)]),
        # two models: the same pair in all languages
        ([(0.01,), (0.04,), (0.03,)], [(3,)] * 3, [(0.03,), (0.06,), (0.06,)]),
        ([(0.01,), (NAN,), (0.03,)], [(2,), (1,), (2,)], [(0.02,), (NAN,), (0.03,)]),
        # two models alone in one language and three in another: both are families of their own
        ([(0.01, 0.04, 0.03), (0.02,)], [(3, 3, 3), (1,)], [(0.03, 0.06, 0.06), (0.02,)]),
        # of a third model nothing is known: the pair is alone in both
        ([(0.01, NAN, NAN), (0.02, NAN, NAN)], [(2, 1, 1)] * 2, [(0.02, NAN, NAN), (0.02, NAN, NAN)]),
        ([(NAN,)], [(1,)], [(NAN,)]),
        ([], [], []),
    ],
)
def test_a_family_is_the_pairs_of_a_column_or_one_pair_over_all(
    columns: list[tuple[float, ...]], families: list[tuple[int, ...]], corrected: list[tuple[float, ...]]
) -> None:
    found = adjusted([(PAIRS[: len(p)], p) for p in columns])
    assert [tuple(family) for _, family in found] == families
    for (p, _), expected in zip(found, corrected, strict=True):
        assert p == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("difference", "p", "higher_is_better", "who"),
    [
        *((0.1, 0.04, True, 1), (0.1, 0.04, False, -1), (-0.1, 0.04, True, -1), (-0.1, 0.04, False, 1)),
        *((0.1, 0.05, True, 0), (0.1, 0.0499, True, 1), (0.1, 0.001, None, 0), (NAN, NAN, True, 0)),
    ],
)
def test_the_better_model_is_that_of_the_paired_difference(
    difference: float, p: float, higher_is_better: bool | None, who: int
) -> None:
    assert better(difference, p, higher_is_better) == who


@pytest.mark.parametrize(
    ("competing", "won", "ranked"),
    [
        ("abc", "ac bc", {"a": 1, "b": 1, "c": 3}),
        ("abc", "ac", {"a": 1, "b": 1, "c": 2}),
        ("bc", "ac ab bc", {"b": 1, "c": 2}),  # what does not compete, wins nothing
        ("abc", "", {"a": 1, "b": 1, "c": 1}),
        ("abc", "ab bc ca", {"a": 2, "b": 2, "c": 2}),  # over other documents each
        ("", "ab", {}),
    ],
)
def test_a_rank_is_one_more_than_the_number_of_better_models(competing: str, won: str, ranked: dict[str, int]) -> None:
    assert ranks([*competing], {(first, second) for first, second in won.split()}) == ranked
