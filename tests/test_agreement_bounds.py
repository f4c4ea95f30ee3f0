"""Statistics of agreement in exact numbers: bounds from resamples that anybody can draw, large tables, no warnings."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from custom_metrics.statistics.agreement import (
    any_label,
    cohen_kappa,
    equal_share,
    estimate,
    kendall_tau_b,
    quadratic_weights,
)
from custom_metrics.statistics.intervals import resampled_sums

TABLES = np.array(
    [[[9, 1], [2, 3]], [[4, 4], [0, 7]], [[1, 0], [5, 20]], [[3, 2], [1, 1]], [[0, 6], [2, 2]], [[8, 0], [1, 9]]]
)


@pytest.mark.parametrize(("iterations", "seed"), [(50, 7), (301, 1234)])
def test_bounds_are_percentiles_of_the_statistic_of_every_resample(iterations: int, seed: int) -> None:
    sums = resampled_sums(TABLES.reshape(6, 4), iterations, seed).reshape(iterations, 2, 2)
    low, high = np.percentile(cohen_kappa(sums), [2.5, 97.5])
    assert estimate(TABLES, cohen_kappa, iterations, seed) == (float(cohen_kappa(TABLES.sum(0))), low, high)


def test_a_bootstrap_has_two_thousand_resamples_and_the_projects_seed() -> None:
    assert estimate(TABLES, cohen_kappa) == estimate(TABLES, cohen_kappa, 2000, 1234)
    assert estimate(TABLES, cohen_kappa) != estimate(TABLES, cohen_kappa, 2001, 1234)


def test_two_clusters_have_bounds() -> None:
    found = estimate(TABLES[:2], equal_share)
    assert found.low <= found.value <= found.high


def test_counts_of_many_words_do_not_overflow() -> None:
    many = np.array([[100_000, 20_000], [10_000, 300_000]])
    assert kendall_tau_b(many) == pytest.approx(float(kendall_tau_b(many / 1000)), abs=1e-12)
    assert quadratic_weights([0, 10**30]).dtype == float


def test_one_unit_has_a_share_of_equal_labels_and_no_unit_has_none_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert equal_share(np.array([[1, 0], [0, 0]])) == 1
        assert np.isnan(equal_share(np.zeros((2, 2))))
        assert np.isnan(kendall_tau_b(np.array([[5, 0], [0, 0]])))


def test_any_label_of_many_tables_is_that_of_each() -> None:
    tables = np.arange(27).reshape(3, 3, 3)
    assert any_label(tables).tolist() == [any_label(table).tolist() for table in tables]
    assert any_label(tables[0]).tolist() == [[0, 1 + 2], [3 + 6, 4 + 5 + 7 + 8]]
