"""How small a difference so many documents show: the formulas, and simulations of their power."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from custom_metrics.statistics.paired_difference import detectable_difference, difference_of_shares, rows_needed
from tests.paired import compare_means, compare_shares

REACH = 1.959963984540054 + 0.8416212335729143


@pytest.mark.parametrize(
    ("error", "documents", "difference"),
    [
        (0.02, 0, REACH * 0.02),
        (0.02, 1000, REACH * 0.02),
        (0.001, 100, REACH**2 / 100),  # fewer than eight discordant documents show nothing
        (0.1, 7, math.nan),  # nor do seven documents
        (0.0, 100, math.nan),  # nothing varies
        (math.nan, 0, math.nan),
    ],
)
def test_the_smallest_difference_is_2_8_standard_errors(error: float, documents: int, difference: float) -> None:
    assert detectable_difference(error, documents) == pytest.approx(difference, nan_ok=True)


def test_so_many_documents_are_needed() -> None:
    assert rows_needed(0.02, 0.2) == math.ceil(REACH**2 * 0.2 / 0.02**2) == 3925
    assert rows_needed(0.1, 0.01, shares=True) == math.ceil(REACH**2 / 0.1) == 79
    assert rows_needed(5.0, 40.0**2) == 503  # characters
    # The documents seen are as many as their smallest difference needs.
    assert rows_needed(detectable_difference(0.05), 250 * 0.05**2) == 250
    for difference, variance in ((0, 1), (-0.1, 1), (math.nan, 1), (0.1, 0), (0.1, math.nan)):
        with pytest.raises(ValueError, match="must be larger than 0"):
            rows_needed(difference, variance)


@pytest.mark.parametrize(
    ("discordant", "difference", "of_three"),
    [(0.1, 0.03, 0.8), (0.2, 0.05, 0.8), (0.4, 0.1, 0.8), (0.15, 0.1, 0.74)],  # the last: 36 documents a language
)
def test_paired_shares_have_a_power_of_80_percent(discordant: float, difference: float, of_three: float) -> None:
    """Of 2,000 simulated comparisons with so many documents, 80 % ± 4 show the difference: on one task, and on the mean
    over three languages with a third of the documents each. With five discordant documents a language it is less: the
    bounds are then cautious."""
    rng = np.random.default_rng(26)
    chances = [(discordant + difference) / 2, (discordant - difference) / 2, 1 - discordant]
    n = rows_needed(difference, discordant - difference**2, shares=True)
    for strata, power in ((1, 0.8), (3, of_three)):
        b, c, _ = np.moveaxis(rng.multinomial(n // strata, chances, size=(strata, 2000)), 2, 0)
        p = difference_of_shares(b, c, np.full_like(b, n // strata), np.full(b.shape, 1 / strata))[3]
        assert np.mean(p < 0.05) == pytest.approx(power, abs=0.04)


def test_where_few_documents_are_discordant_the_power_is_at_least_80_percent() -> None:
    n = rows_needed(0.02, 0.001, shares=True)
    b = np.random.default_rng(26).binomial(n, 0.02, size=(1, 4000))
    p = difference_of_shares(b, np.zeros_like(b), np.full_like(b, n), np.ones_like(b))[3]
    assert n == 393
    assert np.mean(p < 0.05) == pytest.approx(stats.binom.sf(3, n, 0.02), abs=0.015)  # four, all on one side: z = 2
    assert stats.binom.sf(3, n, 0.02) > 0.8


def test_paired_means_have_a_power_of_80_percent() -> None:
    """With 120 documents and differences of long tails; the bootstrap is exact where the formula is normal."""
    rng = np.random.default_rng(26)
    n = rows_needed(0.1, 0.39**2)
    differences = 0.1 + 0.39 / math.sqrt(2) * rng.laplace(size=(400, n))
    shown = [compare_means([(row, np.zeros(n))]).p < 0.05 for row in differences]
    assert n == 120
    assert np.mean(shown) == pytest.approx(0.8, abs=0.06)


def test_comparisons_have_the_standard_error_of_their_difference() -> None:
    first, second = np.random.default_rng(1).binomial(1, 0.6, size=(2, 90)).astype(float)
    for compare, ddof in ((compare_shares, 0), (compare_means, 1)):
        error = (first - second).std(ddof=ddof) / math.sqrt(90)
        assert compare([(first, second)]).standard_error == pytest.approx(error)
        assert compare([(first, second)] * 4).standard_error == pytest.approx(error / 2)
