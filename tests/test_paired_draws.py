"""The draws of a paired bootstrap, the pivots of its resamples, and bounds and p of pivots that are written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from custom_metrics.paired_rates import RATES, RateStratum, compare_rates
from custom_metrics.statistics import paired_difference
from custom_metrics.statistics.multiple_comparisons import all_pairs
from custom_metrics.statistics.paired_difference import (
    Pivots,
    bounds_and_p,
    compare_means,
    draws,
    extrapolated,
    pivots_of,
)
from custom_metrics.statistics.random_effects import detector_errors
from tests.test_paired_statistics import articles

NAN = math.nan


def test_a_resample_is_as_many_rows_drawn_with_replacement() -> None:
    (counts,) = draws(30, iterations=500)
    assert counts.shape == (500, 30)
    assert (counts.sum(axis=1) == 30).all()
    assert counts.mean(axis=0) == pytest.approx(np.ones(30), abs=0.2)  # each row is drawn once on average
    assert not counts.flags.writeable  # it is kept for the next metric


def test_draws_depend_on_their_arguments_alone() -> None:
    def drawn(**arguments: int) -> np.ndarray:
        paired_difference._kept.cache_clear()
        return np.concatenate([*draws(20, iterations=50, **arguments)])

    assert (drawn() == drawn(stratum=0)).all()
    assert (drawn(stratum=0) != drawn(stratum=1)).any()


def test_blocks_change_nothing_but_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    strata = [(rng.random(40), rng.random(40)), (rng.random(70), rng.random(70))]
    rates = [
        RateStratum(articles(place), articles(place + 5), detector_errors(precision=0.6, recall=0.5))
        for place in (1, 2)
    ]
    whole = np.concatenate([*draws(40)]), compare_means(strata), compare_rates(rates, RATES[1])
    many = all_pairs([np.column_stack(pair) for pair in strata])
    monkeypatch.setattr(paired_difference, "_BLOCK", 40 * 600)
    blocks = [*draws(40)]
    assert [len(block) for block in blocks] == [600, 600, 600, 199]
    assert (np.concatenate(blocks) == whole[0]).all()
    assert compare_means(strata) == whole[1]
    assert compare_rates(rates, RATES[1]) == whole[2]
    assert all_pairs([np.column_stack(pair) for pair in strata]) == pytest.approx(many, nan_ok=True)
    monkeypatch.setattr(paired_difference, "_BLOCK", 39)  # fewer than a row of counts: one resample at a time
    assert [len(block) for block in draws(40, iterations=3)] == [1, 1, 1]


# ------------------------------------------------------------------------------------------------------- pivots of means


def test_a_pair_without_a_row_in_a_language_has_the_mean_of_the_others() -> None:
    rng = np.random.default_rng(2)
    both, alone = rng.random((30, 2)), np.column_stack([rng.random(20), np.full(20, NAN)])
    found = pivots_of([both, alone], iterations=200)
    of_one = pivots_of([both], iterations=200)
    assert found.differences == pytest.approx([(both[:, 0].mean() + alone[:, 0].mean()) / 2, both[:, 1].mean()])
    assert found.errors[0] == pytest.approx(math.hypot(stats.sem(both[:, 0]), stats.sem(alone[:, 0])) / 2)
    assert found.errors[1] == pytest.approx(stats.sem(both[:, 1]))
    assert (found.squares[1] == of_one.squares[1]).all()
    assert (found.resampled_errors[1] == of_one.resampled_errors[1]).all()
    assert found.freedom.tolist() == [48, 29]
    assert np.isnan(pivots_of([np.full((5, 1), NAN)], iterations=20).differences).all()


# ----------------------------------------------------------------------------------------------------- ratios and rates


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
