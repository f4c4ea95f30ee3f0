"""Correlations over languages, in exact numbers."""

from __future__ import annotations

import math

import pytest

from custom_metrics.statistics.agreement import correlate

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


def test_unequal_numbers_are_an_error() -> None:
    with pytest.raises(ValueError, match="3 numbers of the first quantity, but 2 of the second"):
        correlate([1, 2, 3], [1, 2])


def test_up_to_eight_pairs_p_is_a_share_of_all_orders() -> None:
    for number, orders in ((4, 24), (8, 40_320)):
        found = correlate(range(number), [at ^ 1 for at in range(number)])
        assert found.spearman_p * orders == pytest.approx(round(found.spearman_p * orders), abs=1e-6)
        assert 0 < found.spearman_p < 1
