"""p of many pairs at once is that of each pair alone."""

from __future__ import annotations

import numpy as np
import pytest

from custom_metrics.statistics.paired_means import bounds_and_p, compare_mean_groups, pivots_of
from custom_metrics.statistics.paired_means_of_many import p_of_means

NAN = float("nan")


@pytest.mark.parametrize("rows", [2, 5, 14, 100, 500])
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("languages", [1, 2])
def test_each_pair_has_its_own_p(rows: int, missing: float, languages: int) -> None:
    rng = np.random.default_rng(rows)
    strata = [rng.normal(rng.normal(0, 0.5, 300), 1, (rows, 300)) for _ in range(languages)]
    for values in strata:
        values[rng.random(values.shape) < missing] = NAN
    p = p_of_means(strata)
    assert p == pytest.approx(bounds_and_p(pivots_of(strata))[2], rel=1e-9, nan_ok=True)
    if rows > 5:
        assert (p < 0.005).any()  # beyond what resamples can tell
        assert (p > 0.5).any()


def test_rows_that_count_for_no_pair_are_as_if_they_were_not_there() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(0.3, 1, (40, 20))
    values[::2] = NAN
    p = p_of_means([values])
    for pair in range(20):
        assert p[pair] == pytest.approx(compare_mean_groups([(values[:, pair], np.zeros(40))]).p)


@pytest.mark.parametrize(
    ("column", "p"),
    [
        ([0.0, 0.0, 0.0, 0.0, 0.0], 1.0),  # the same values
        ([0.5, 0.5, 0.5, 0.5, 0.5], 2**-4),  # a sign test
        ([-0.1, -0.1, -0.1, -0.1, -0.1], 2**-4),
        ([NAN, NAN, NAN, NAN, NAN], NAN),
        ([0.7, NAN, NAN, NAN, NAN], 1.0),
        ([1.0, -1.0, 1.0, -1.0, 0.0], 1.0),
    ],
)
@pytest.mark.parametrize("beside", [True, False])
def test_columns_without_spread(column: list[float], p: float, beside: bool) -> None:
    others = np.random.default_rng(1).normal(size=(5, 3)) if beside else np.empty((5, 0))
    values = np.column_stack([column, others])
    found = p_of_means([values])
    assert found[0] == pytest.approx(p, nan_ok=True)
    assert len(found) == values.shape[1]
    assert found[1:] == pytest.approx(p_of_means([others]) if beside else [])


def test_with_values_on_a_grid_ties_count_as_beyond() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(-1, 2, (14, 400)).astype(float)
    many, each = p_of_means([values]), bounds_and_p(pivots_of([values]))[2]
    assert (many >= each - 1e-12).all()
    assert np.abs(many - each).max() < 0.05  # each decides a tie by its rounding
    assert np.mean(many != each) < 0.2


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize(("iterations", "seed"), [(1, 1), (9, 2), (39, 3), (999, 4), (1000, 5), (1999, 6)])
def test_the_draws_are_those_of_each_pair(missing: float, iterations: int, seed: int) -> None:
    rng = np.random.default_rng(11)
    strata = [rng.normal(rng.normal(0, 0.5, 60), 1, (rows, 60)) for rows in (12, 9, 1)]
    strata[0][rng.random(strata[0].shape) < missing] = NAN
    p = p_of_means(strata, iterations, seed)
    assert p == pytest.approx(bounds_and_p(pivots_of(strata, iterations, seed))[2], rel=1e-9)
    if iterations > 9:
        assert (p != p_of_means(strata, iterations, seed + 1)).any()


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_no_pair_depends_on_the_size_of_its_differences_or_of_others(scale: float) -> None:
    """Three rows: a resample in nine holds one of them thrice, which has no variance."""
    values = np.random.default_rng(12).normal(0.4, 1, (3, 40))
    alone = p_of_means([values])
    assert p_of_means([values * scale]) == pytest.approx(alone)
    assert p_of_means([np.column_stack([values * scale, values + 1])])[:40] == pytest.approx(alone)
