"""Paired comparisons of two models against worked examples, scipy and statsmodels."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import optimize, stats

from custom_metrics.hallucination import estimate
from custom_metrics.paired_rates import RATES, RateStratum, compare_rates, compare_ratios
from custom_metrics.statistics.multiple_comparisons import all_pairs, holm, ranks
from custom_metrics.statistics.paired_difference import ITERATIONS, compare_means
from custom_metrics.statistics.paired_shares import compare_shares, mcnemar, stratified_mcnemar, tango
from custom_metrics.statistics.random_effects import expected_errors, measured_errors
from custom_metrics.statistics.strata import across_strata, linearised

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
    assert (round(found.p, 3), round(found.p_exact, 3)) == (0.039, 0.070)


@pytest.mark.parametrize(("b", "c"), [(0, 0), (0, 1), (3, 3), (2, 9), (40, 61), (300, 260), (1200, 1300)])
def test_exact_p_is_that_of_scipy(b: int, c: int) -> None:
    mid, exact = map(float, mcnemar(b, c))
    if b + c:
        binomial = stats.binomtest(b, b + c)
        assert exact == pytest.approx(binomial.pvalue)
        below, at = stats.binom.cdf(min(b, c), b + c, 0.5), stats.binom.pmf(min(b, c), b + c, 0.5)
        assert mid == pytest.approx(1 - at / 2 if b == c else 2 * below - at)
    else:
        assert (mid, exact) == (1.0, 1.0)


@pytest.mark.parametrize(("b", "c", "n"), [(1, 7, 21), (12, 3, 60), (5, 5, 30), (0, 4, 40), (30, 18, 400)])
def test_tangos_bounds_are_where_the_score_statistic_is_196(b: int, c: int, n: int) -> None:
    """The chance of c under a bound is found by scipy's maximum likelihood instead of the closed form."""

    def score(delta: float) -> float:
        def unlikely(chance: float) -> float:
            parts = ((b, chance + delta), (c, chance), (n - b - c, 1 - 2 * chance - delta))
            return -sum(k * math.log(max(share, 1e-300)) for k, share in parts if k)

        lowest = max(0.0, -delta)
        chance = optimize.minimize_scalar(
            unlikely, bounds=(lowest, (1 - delta) / 2), method="bounded", options={"xatol": 1e-12}
        ).x
        return (b - c - n * delta) / math.sqrt(n * (2 * chance + delta * (1 - delta)))

    low, high = map(float, tango(b, c, n))
    assert score(low) == pytest.approx(1.959964, abs=2e-4)
    assert score(high) == pytest.approx(-1.959964, abs=2e-4)


@pytest.mark.parametrize(
    ("b", "c", "n", "z"),
    [
        ([1], [0], [1], 1.0),
        ([1, 2], [0, 5], [1, 20], (1 - 3 / 20) / math.sqrt(1 + 7 / 400)),
        ([1, 0, 2], [0, 0, 5], [1, 0, 20], (1 - 3 / 20) / math.sqrt(1 + 7 / 400)),  # a stratum without a document
        ([4, 1], [4, 1], [9, 9], 0.0),
        ([0, 0], [0, 0], [9, 9], 0.0),  # no discordant document
        ([0], [0], [0], 0.0),
    ],
)
def test_the_score_of_strata(b: list[int], c: list[int], n: list[int], z: float) -> None:
    assert float(stratified_mcnemar(b, c, n)) == pytest.approx(2 * stats.norm.sf(z))


@pytest.mark.parametrize("sizes", [(1, 1), (1, 5), (40, 3), (2, 3, 4)])
def test_bounds_of_a_group_stay_between_minus_one_and_one(sizes: tuple[int, ...]) -> None:
    """Each language differs in all documents, or in all but one."""
    for spare in (0, 1):
        found = compare_shares([table(0, size - spare, 0, spare) for size in sizes])
        assert -1 <= found.low <= found.difference <= found.high <= 1
        assert found.method == "stratified McNemar score test, MOVER of Tango intervals"


@pytest.mark.parametrize(
    ("compare", "message"),
    [
        (lambda: compare_means([1, 2], [3, 4]), r"a pair of each language, such as \[\(first, second\)\]"),
        (lambda: compare_means([1, 2]), "a pair of each language"),
        (lambda: compare_shares([0.3, 0.2, 1], [0, 0, 1]), "a pair of each language"),
        (lambda: compare_shares([([0.3, 0.2, 1], [0, 0, 1])]), "the first model's values are 1 .* or 0 .*, not 0.3"),
        (
            lambda: compare_shares([([0, 0, 1], [0, NAN, 2])]),
            "the second model's values are 1 .*, not 2; compare means",
        ),
        (
            lambda: compare_shares([([1, 0], [0, 1]), ([0, 1], [1])]),
            "the first model has values of 2 .*, the second of 1",
        ),
        (lambda: compare_means([([0.5, 1], [1])]), "values of 2 documents, the second of 1; both are of the same"),
        (lambda: compare_means([([1, None], [{}, 2])]), "the second model's values are not all numbers"),
        (lambda: compare_means([([[1.0, 2.0]], [[2.0, 1.0]])]), r"one number a document, not of shape \(1, 2\)"),
        (lambda: compare_ratios([([[1, 2]], [[1, 2], [0, 3]])]), "values of 1 documents, the second of 2"),
        (lambda: compare_ratios([([1, 2], [2, 3])]), r"2 numbers, or lists of 2, a document, not of shape \(2,\)"),
        (lambda: all_pairs([np.ones((3, 2)), np.ones((3, 3))]), "every language has values of the same models"),
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
    z = (3 / 4) / math.sqrt(3 / 16 + 20 / 10000)
    assert found.p == pytest.approx(2 * stats.norm.sf(z))
    assert found.low < found.difference < found.high
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


def test_p_below_what_resamples_can_tell_is_the_tail_of_t() -> None:
    rng = np.random.default_rng(5)
    second = rng.random(200)
    noise = rng.normal(0, 1, 200)
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    found = compare_means([(second + noise + 0.5, second)])  # t = 0.5 * sqrt(200) = 7.1
    assert 1e-13 < found.p < 1e-9
    assert 2 * stats.t.sf(0.5 * math.sqrt(200), 199) == pytest.approx(2.6e-11, rel=0.1)


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [
        ([0.5] * 6, [0.5] * 6, 1.0),  # not a difference
        ([0.5] * 6, [0.25] * 6, 2.0**-5),  # each the same: the sign test
        ([0.5], [0.25], 1.0),  # one document
    ],
)
def test_without_variance_there_are_no_bounds(first: list[float], second: list[float], p: float) -> None:
    found = compare_means([(first, second)])
    assert found.p == pytest.approx(p)
    assert math.isnan(found.low)
    assert math.isnan(found.high)


def test_two_documents_alike() -> None:
    """By the same amount in both, or by none."""
    methods = [compare_means([([1.0, 0.5], second)]).method for second in ([0.5, 0.0], [1.0, 0.5])]
    assert methods == ["sign test, as all differences are the same", "all values are the same"]


def test_strata_with_gaps_have_the_means_of_their_columns() -> None:
    gaps = np.array([[1.0, np.nan], [0.0, 1.0], [1.0, 0.0]])
    (rows,) = across_strata([gaps], [["a", "b", "c"]])
    assert rows.mean(axis=0) == pytest.approx(np.nanmean(gaps, axis=0))


def test_one_document_that_differs_shows_nothing() -> None:
    found = compare_means([([0.0] * 7 + [1.0], [0.0] * 8)])
    assert found.p > 0.05
    assert math.isnan(found.low)  # a third of the resamples lack the document


def test_a_group_of_means_counts_each_language_the_same() -> None:
    rng = np.random.default_rng(6)
    small, large = (rng.random(20), rng.random(20)), (rng.random(400), rng.random(400))
    found = compare_means([small, large])
    assert found.first == pytest.approx((small[0].mean() + large[0].mean()) / 2)
    error = math.sqrt(sum(np.var(a - b, ddof=1) / len(a) for a, b in (small, large))) / 2
    assert found.high - found.difference == pytest.approx(2 * error, rel=0.15)
    assert found.n == 420


# ------------------------------------------------------------------------------------------------------------- rates


def articles(seed: int, number: int = 60) -> np.ndarray:
    rng = np.random.default_rng(seed)
    total = rng.integers(20, 200, number)
    return np.column_stack([rng.binomial(total, rng.beta(2, 6, number)), total]).astype(float)


CALIBRATION = np.column_stack([np.arange(10, 50), np.full(40, 8), np.arange(40, 0, -1), np.full(40, 100)]).astype(float)


def test_linearised_values_have_the_ratio_as_their_mean() -> None:
    counts = articles(1)
    values = linearised(counts[:, 0], counts[:, 1])
    assert values.mean() == pytest.approx(counts[:, 0].sum() / counts[:, 1].sum())
    assert linearised([1.0, 0.0], [1.0, 1.0]) == pytest.approx([1.0, 0.0])  # of shares: the documents' values
    assert np.isnan(linearised([0.0], [0.0])).all()


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


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("languages", [1, 3])
def test_all_pairs_have_the_p_of_each(share: bool, languages: int) -> None:
    rng = np.random.default_rng(7)
    strata = [rng.random((40 + 15 * place, 4)) for place in range(languages)]
    if share:
        strata = [(values < 0.4).astype(float) for values in strata]
        strata[0][3, 1] = NAN
    p = all_pairs(strata)
    for one in range(4):
        for other in range(4):
            pairs = [(values[:, one], values[:, other]) for values in strata]
            if one == other:
                assert math.isnan(p[one, other])
            else:
                alone = (compare_shares if share else compare_means)(pairs)
                assert p[one, other] == pytest.approx(alone.p)


def test_of_ones_and_zeros_the_mean_can_be_tested_and_pairs_need_a_document_in_common() -> None:
    values = np.array([[1, 0, NAN], [1, 0, NAN], [1, 0, NAN], [1, 1, NAN], [0, 1, 1], [0, NAN, 0], [1, NAN, 1]])
    p = all_pairs([values[:4]])
    assert p.dtype == float
    assert p[0, 1] == p[1, 0] == pytest.approx(0.125)  # three of three, mid-p
    assert np.isnan(p[[0, 1, 2, 2], [2, 2, 0, 1]]).all()  # the third has no document
    assert all_pairs([values])[1, 2] == 1.0  # one in common, read alike
    as_means = all_pairs([values[:4, :2]], shares=False)
    assert as_means[0, 1] == pytest.approx(compare_means([(values[:4, 0], values[:4, 1])]).p)
    assert abs(as_means[0, 1] - 0.125) > 0.01


@pytest.mark.parametrize(
    ("values", "p", "higher_is_better", "ranked"),
    [
        ([0.9, 0.8, 0.2], (0.5, 0.001, 0.02), True, [1, 1, 3]),
        ([0.9, 0.8, 0.2], (0.5, 0.001, 0.02), False, [2, 2, 1]),
        ([0.9, 0.8, 0.2], (0.04, 0.001, 0.03), True, [1, 1, 2]),  # Holm: 0.003, 0.06, 0.06
        ([0.9, NAN, 0.2], (0.5, 0.001, 0.02), True, [1, None, 2]),
        ([0.9, 0.2], (0.0499,), True, [1, 2]),
        ([0.9, 0.2], (0.05,), True, [1, 1]),
        ([0.5, 0.5], (0.001,), True, [1, 1]),
        ([0.5, 0.5], (0.001,), False, [1, 1]),
        ([math.inf, math.inf], (0.001,), True, [1, 1]),
        ([NAN, 0.5], (NAN,), False, [None, 1]),
    ],
)
def test_models_that_do_not_differ_share_a_rank(
    values: list[float], p: tuple[float, ...], higher_is_better: bool, ranked: list[int | None]
) -> None:
    """p of the pairs 1 and 2, 1 and 3, 2 and 3; that of a model with itself counts for nothing."""
    table = np.ones((len(values), len(values)))
    above = np.triu_indices(len(values), 1)
    table[above] = table.T[above] = p
    given = table.copy()
    assert ranks(values, table, higher_is_better) == ranked
    assert np.array_equal(given, table, equal_nan=True)
