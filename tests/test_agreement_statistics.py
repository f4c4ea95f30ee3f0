"""Statistics of agreement: exact figures, the reference libraries' values, and bounds of whole clusters."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from custom_metrics.statistics.agreement import (
    any_label,
    cohen_kappa,
    contingency_table,
    equal_share,
    estimate,
    kendall_tau_b,
    quadratic_weights,
)
from custom_metrics.statistics.intervals import resampled_sums

NAN = math.nan


@pytest.mark.parametrize(
    ("cells", "exact", "kappa", "weighted", "tau"),
    [
        ([[20, 5], [10, 15]], 0.7, 0.4, 0.4, 0.4082482904638630),  # expected agreement 0.5: (0.7 - 0.5) / 0.5
        ([[45, 15], [25, 15]], 0.6, 3 / 23, 3 / 23, 0.1336306209562122),  # as many equal, but more by chance
        ([[25, 35], [5, 35]], 0.6, 7 / 27, 7 / 27, 0.3118047822311618),
        ([[5, 0], [0, 5]], 1.0, 1.0, 1.0, 1.0),
        ([[0, 5], [5, 0]], 0.0, -1.0, -1.0, -1.0),
        ([[25, 25], [25, 25]], 0.5, 0.0, 0.0, 0.0),
        ([[1, 1, 0], [0, 1, 1], [0, 0, 1]], 0.6, 7 / 17, 11 / 16, 0.75),
        ([[0, 0, 1], [0, 1, 0], [1, 0, 0]], 1 / 3, 0.0, -1.0, -1.0),
        ([[9, 0], [0, 0]], 1.0, NAN, NAN, NAN),  # both constant and equal: no evidence that they agree
        ([[0, 9], [0, 0]], 0.0, 0.0, 0.0, NAN),  # both constant and different
        ([[4, 5], [0, 0]], 4 / 9, 0.0, 0.0, NAN),
        ([[0, 0], [0, 0]], NAN, NAN, NAN, NAN),
        ([[3]], 1.0, NAN, NAN, NAN),
    ],
)
def test_statistics_of_a_table(cells: list[list[int]], exact: float, kappa: float, weighted: float, tau: float) -> None:
    array = np.array(cells)
    found = [
        equal_share(array),
        cohen_kappa(array),
        cohen_kappa(array, quadratic_weights(range(len(cells)))),
        kendall_tau_b(array),
    ]
    assert found == pytest.approx([exact, kappa, weighted, tau], abs=1e-15, nan_ok=True)


PAIRS = st.integers(1, 6).flatmap(
    lambda k: st.tuples(st.just(k), st.lists(st.tuples(*[st.integers(0, k - 1)] * 2), min_size=2, max_size=60))
)


@settings(deadline=None)  # the first example imports both libraries
@given(PAIRS)
def test_statistics_equal_scikit_learns_and_scipys(case: tuple[int, list[tuple[int, int]]]) -> None:
    labels, pairs = case
    first, second = zip(*pairs, strict=True)
    cells = contingency_table(pairs, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is not defined
        expected = [
            metrics.cohen_kappa_score(first, second, labels=range(labels)),
            metrics.cohen_kappa_score(first, second, labels=range(labels), weights="quadratic"),
            stats.kendalltau(first, second).statistic,
        ]
    found = [cohen_kappa(cells), cohen_kappa(cells, quadratic_weights(range(labels))), kendall_tau_b(cells)]
    assert found == pytest.approx(expected, abs=1e-12, nan_ok=True)
    assert equal_share(cells) == pytest.approx(np.mean([a == b for a, b in pairs]))


@pytest.mark.parametrize(
    ("scores", "last_row"),
    [
        ([1, 2, 3], [1, 0.25, 0]),
        ([1, 2, 4], [1, 4 / 9, 0]),  # a scale of four of which 3 was never used
        ([-1e308, 0, 1e308], [1, 0.25, 0]),
        ([7], [0]),
        ([], None),
    ],
)
def test_quadratic_weights_are_of_the_scores_and_not_of_their_rank(scores: list[float], last_row: Any) -> None:
    weights = quadratic_weights(scores)
    assert weights.shape == (len(scores), len(scores))
    assert last_row is None or weights[-1] == pytest.approx(last_row)


@pytest.mark.parametrize("pairs", [[(0, 2)], [(-1, 0)], [(5, 5)]])
def test_labels_out_of_range_are_refused(pairs: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="labels must be between 0 and 1, got"):
        contingency_table(pairs, 2)
    assert contingency_table([], 2).tolist() == [[0, 0], [0, 0]]


def test_bounds_are_seeded_and_of_whole_clusters() -> None:
    items = np.array([np.eye(4)[cell].reshape(2, 2) for cell in [0] * 20 + [1] * 5 + [2] * 10 + [3] * 15])
    found = estimate(items, cohen_kappa)
    assert found == estimate(items, cohen_kappa)
    # Fleiss, Cohen and Everitt 1969: the standard error of this kappa is 0.1276; 1.96 of it either side
    assert found[:3] == pytest.approx((0.4, 0.4 - 0.250, 0.4 + 0.250), abs=0.02)
    documents = np.array([items[at : at + 10].sum(axis=0) for at in range(0, 50, 10)])  # whose items are all alike
    wider = estimate(documents, cohen_kappa)
    assert wider.value == found.value
    assert wider.high - wider.low > found.high - found.low


TABLES = np.array(
    [[[9, 1], [2, 3]], [[4, 4], [0, 7]], [[1, 0], [5, 20]], [[3, 2], [1, 1]], [[0, 6], [2, 2]], [[8, 0], [1, 9]]]
)


def test_bounds_are_percentiles_of_the_statistic_of_every_resample() -> None:
    low, high = np.percentile(cohen_kappa(resampled_sums(TABLES.reshape(6, 4)).reshape(-1, 2, 2)), [2.5, 97.5])
    assert estimate(TABLES, cohen_kappa)[:3] == (float(cohen_kappa(TABLES.sum(0))), low, high)
    assert np.isnan(estimate(TABLES[:1], cohen_kappa)[1:3]).all()  # one cluster


def test_counts_of_many_words_do_not_overflow() -> None:
    many = np.array([[100_000, 20_000], [10_000, 300_000]])
    assert kendall_tau_b(many) == pytest.approx(float(kendall_tau_b(many / 1000)), abs=1e-12)
    assert quadratic_weights([0, 10**30]).dtype == float


def test_any_label_is_the_first_against_the_others() -> None:
    assert any_label(np.arange(9).reshape(3, 3)).tolist() == [[0, 1 + 2], [3 + 6, 4 + 5 + 7 + 8]]
