"""Correlations over languages: exact values, and scipy's."""

from __future__ import annotations

import math

import numpy as np
import pytest

from custom_metrics.statistics.correlations import correlate

NAN = math.nan


@pytest.mark.parametrize(
    ("first", "second", "pearson", "pearson_p", "spearman", "spearman_p", "n"),
    [
        ([1, 2], [2, 1], NAN, NAN, NAN, NAN, 2),  # fewer than three
        ([], [], NAN, NAN, NAN, NAN, 0),
        ([1, 2, 3], [5, 5, 5], NAN, NAN, NAN, NAN, 3),  # the same everywhere
        ([1, 2, 3], [1, 2, 3], 1.0, 0.0, 1.0, 2 / 6, 3),  # two of six orders are as far from 0
        ([1, 2, 3, NAN], [3, 2, 1, 0], -1.0, 0.0, -1.0, 2 / 6, 3),  # a pair with nan is left out
        ([1, 2, 3], [1, 3, 2], 0.5, 2 / 3, 0.5, 1.0, 3),  # r of 1/2 with one degree of freedom: t = 1/sqrt(3), p = 2/3
        ([1, 2, 3, 4], [1, 2, 4, 3], 0.8, 0.2, 0.8, 8 / 24, 4),  # with two: p = 1 - r
        ([1, 1, 2, 2], [1, 1, 2, 2], 1.0, 0.0, 1.0, 8 / 24, 4),  # equal values share their rank
        ([False, True, False], [1, 5, 3], math.sqrt(3) / 2, 1 / 3, math.sqrt(3) / 2, 4 / 6, 3),  # yes is 1
        ([1e-200, 2e-200, 3e-200], [1e200, 3e200, 2e200], 0.5, 2 / 3, 0.5, 1.0, 3),  # whose squares are no numbers
    ],
)
def test_exact_correlations(
    first: list[float],
    second: list[float],
    pearson: float,
    pearson_p: float,
    spearman: float,
    spearman_p: float,
    n: int,
) -> None:
    found = correlate(first, second)
    assert found == pytest.approx((pearson, pearson_p, spearman, spearman_p, n), nan_ok=True, abs=1e-7)


@pytest.mark.parametrize("factor", [3, -3, 7, 0.1])
def test_a_correlation_of_rounded_numbers_is_not_beyond_1(factor: float) -> None:
    """Without a clip several of these are 1.0000000000000002 or -1.0000000000000002."""
    for number in range(3, 8):
        for start in range(1, 12):
            x = [1 / (start + place) for place in range(number)]
            found = correlate(x, [factor * value for value in x]).pearson
            assert 1 - 1e-12 < found * np.sign(factor) <= 1


def test_unequal_numbers_are_an_error() -> None:
    with pytest.raises(ValueError, match="3 numbers of the first quantity, but 2 of the second"):
        correlate([1, 2, 3], [1, 2])


@pytest.mark.parametrize("n", [3, 4, 9, 10, 18, 30, 31])
def test_as_scipy_has_them(n: int) -> None:
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed, against which this is checked")
    rng = np.random.default_rng(n)
    for slope in (0.0, 0.5, -2.0):
        x = rng.normal(size=n)
        y = np.round(slope * x + rng.normal(size=n), 1)  # with equal values among many
        found = correlate([*x], [*y])
        assert found[:2] == pytest.approx((stats.pearsonr(x, y).statistic, stats.pearsonr(x, y).pvalue), rel=1e-9)
        ranked = stats.spearmanr(x, y)
        assert found.spearman == pytest.approx(ranked.statistic)
        if n > 8:
            assert found.spearman_p == pytest.approx(ranked.pvalue, rel=1e-9)


def test_up_to_eight_pairs_p_is_a_share_of_all_orders() -> None:
    for number, orders in ((4, 24), (8, 40_320)):
        found = correlate(range(number), [at ^ 1 for at in range(number)])
        assert found.spearman_p * orders == pytest.approx(round(found.spearman_p * orders), abs=1e-6)
        assert 0 < found.spearman_p < 1
