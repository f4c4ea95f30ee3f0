"""The pivots of a paired bootstrap resample by resample, and the bounds and p of pivots that are written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from custom_metrics.statistics import paired_draws
from custom_metrics.statistics.paired_draws import draws
from custom_metrics.statistics.paired_means import (
    Pivots,
    bounds_and_p,
    compare_mean_groups,
    compare_means,
    extrapolated,
    pivots_of,
    statistics_of,
)

NAN = math.nan


def test_each_resample_has_the_mean_and_the_error_of_the_rows_that_count() -> None:
    """Two languages; of the second, four of six rows count, so some resamples hold one of them or none."""
    rng = np.random.default_rng(8)
    strata = [rng.normal(size=12), np.array([3.0, NAN, 5.0, 4.5, NAN, -1.0])]
    found = pivots_of([values[:, None] for values in strata], iterations=400)
    shifts, variances, alone = np.zeros(400), np.zeros(400), 0
    for place, values in enumerate(strata):
        for at, counts in enumerate(np.concatenate([*draws(len(values), place, 400)])):
            rows = np.repeat(values, counts.astype(int))
            rows = rows[~np.isnan(rows)]
            alone += len(rows) == 1
            if len(rows):
                shifts[at] += rows.mean() - np.nanmean(values)
            if len(set(rows)) > 1:
                variances[at] += rows.var(ddof=1) / len(rows)
    assert alone > 5
    assert found.resampled_errors[0] == pytest.approx(np.sqrt(variances) / 2)
    assert found.squares[0] == pytest.approx(shifts**2 / variances)


@pytest.mark.parametrize(("sizes", "freedom"), [([1], 1), ([2], 1), ([3], 2), ([1, 1], 1), ([2, 3], 3)])
def test_degrees_of_freedom_are_rows_minus_strata_and_at_least_one(sizes: list[int], freedom: int) -> None:
    assert pivots_of([np.arange(size)[:, None] * 1.0 for size in sizes], iterations=5).freedom.tolist() == [freedom]


def test_one_row_has_its_own_difference() -> None:
    assert pivots_of([np.array([[0.25, -0.5]])], iterations=5).differences.tolist() == [0.25, -0.5]


def test_draws_that_fit_a_block_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired_draws, "_BLOCK", 7 * 90)
    (one,), (again,) = draws(7, iterations=90, seed=5), draws(7, iterations=90, seed=5)
    assert one is again
    first, last = draws(7, iterations=91, seed=5)
    assert (len(first), len(last)) == (90, 1)


# --------------------------------------------------------------------------------------------------------- bounds and p


def of_sizes(iterations: int, difference: float, error: float = 1.0, equal: float = 0.0) -> Pivots:
    """Pivots 1, 2, ... of one pair, in another order."""
    sizes = np.random.default_rng(1).permutation(np.arange(1.0, iterations + 1))
    one = np.ones(1)
    return Pivots(difference * one, error * one, sizes[None] ** 2, one[None], 99 * one, equal * one)


@pytest.mark.parametrize(
    ("iterations", "beyond"), [(19, 0), (20, 0), (39, 0), (59, 1), (60, 2), (79, 2), (80, 3), (999, 48), (1999, 98)]
)
def test_bounds_leave_out_as_many_pivots_as_keep_p_below_005(iterations: int, beyond: int) -> None:
    """With so many beyond a statistic p is below 0.05, with one more it is not; below 20 resamples it never is."""
    reach = iterations - beyond
    for difference in (reach, reach + 0.5, -reach, -reach - 0.5):
        low, high, p = (float(part[0]) for part in bounds_and_p(of_sizes(iterations, difference)))
        assert (low, high) == (difference - reach, difference + reach)
        assert p == pytest.approx((beyond + 1 + (abs(difference) == reach)) / (iterations + 1))
        if iterations > 19:
            assert (p < 0.05) == (low > 0 or high < 0)


def test_without_an_error_there_is_no_statistic_and_without_a_difference_no_p() -> None:
    pivots = of_sizes(39, 2.0, error=0.0, equal=4.0)
    assert statistics_of(pivots).tolist() == [0.0]
    assert bounds_and_p(pivots)[2].tolist() == [1 / 8]  # the sign test of four rows
    unknown = bounds_and_p(of_sizes(39, NAN, error=0.0))
    assert np.isnan(np.concatenate(unknown)).all()


@pytest.mark.parametrize(
    ("number", "anchor", "statistic", "iterations", "p"),
    [
        (9, 3.0, 3.0, 1999, 11 / 2000),  # at the tenth largest pivot: the share of it and what is beyond
        (9, 0.5, 0.5, 1000, 11 / 1001),
        (9, 3.0, 6.0, 1999, 2 * stats.norm.sf(2 * stats.norm.isf(11 / 4000))),  # twice as far out
        (0, 0.5, 1.0, 1000, 2 * stats.norm.sf(2 * stats.norm.isf(11 / 2002))),
        (9, 3.0, 2.9, 1999, 11 / 2000),  # never above that of the anchor
        (0, 0.5, 1.0, 999, 1 / 1000),  # too few resamples to tell the tail from
        (10, 3.0, 3.0, 1999, 11 / 2000),
        (57, 3.0, 2.0, 1999, 58 / 2000),
        (3, 0.0, 2.0, 1999, 4 / 2000),  # nine in ten pivots are 0
        (3, math.inf, 2.0, 1999, 4 / 2000),
    ],
)
def test_fewer_than_ten_pivots_beyond_leave_p_to_the_tail(
    number: int, anchor: float, statistic: float, iterations: int, p: float
) -> None:
    """Student's t of a hundred million degrees of freedom is normal."""
    numbers, anchors, statistics = np.array([number, 99]), np.array([anchor, 2.0]), np.array([statistic, 1.0])
    found = extrapolated(numbers, anchors, statistics, np.array([1e8, 4.0]), iterations)
    assert found == pytest.approx([p, 100 / (iterations + 1)], rel=2e-5)


def test_two_documents_that_differ_alike_are_a_sign_test() -> None:
    assert compare_means([0.5, 0.5], [0.25, 0.25]).method == "sign test, as all differences are the same"


def test_one_language_is_a_group_of_one() -> None:
    first, second = np.random.default_rng(9).normal(size=(2, 30))
    found = compare_means(first, second, 300, 7)
    assert found == compare_mean_groups([(first, second)], 300, 7)
    assert found.low != compare_means(first, second, 300, 8).low
    assert (found.p * 301) % 1 == pytest.approx(0.0, abs=1e-9)
