"""The mean over languages: exact bounds of hand-made strata, and how often they hold the truth."""

from __future__ import annotations

import math
from statistics import fmean

import numpy as np
import pytest

from custom_metrics.statistics.figures import UNDEFINED, Figure
from custom_metrics.statistics.intervals import wilson
from custom_metrics.statistics.strata import mean_of_shares, mean_of_strata

NAN = math.nan


def share(count: int, n: int) -> Figure:
    return Figure(count / n, *wilson(count, n), math.sqrt(count / n * (1 - count / n) / n), n)


@pytest.mark.parametrize(
    ("figures", "mean"),
    [
        ([], UNDEFINED),
        ([UNDEFINED, UNDEFINED], UNDEFINED),
        ([Figure(0.4, 0.1, 0.6, 0.1, 9)], Figure(0.4, 0.1, 0.6, 0.1, 9)),
        ([Figure(0.4, 0.1, 0.6, 0.1, 9), UNDEFINED], Figure(0.4, 0.1, 0.6, 0.1, 9)),
        # error: sqrt(0.03^2 + 0.04^2) / 2, and 1.96 times that on either side
        (
            [Figure(0.5, 0.2, 1.1, 0.03, 4), Figure(0.7, 0.3, 1.5, 0.04, 6)],
            Figure(0.6, 0.6 - 1.959964 * 0.025, 0.6 + 1.959964 * 0.025, 0.025, 10),
        ),
        # the same without a standard error: sqrt(0.06^2 + 0.08^2) / 2 below, sqrt(0.12^2 + 0.16^2) / 2 above
        (
            [Figure(0.5, 0.44, 0.62, 0.03, 4), Figure(0.7, 0.62, 0.86, NAN, 6)],
            Figure(0.6, 0.55, 0.7, NAN, 10),
        ),
        # rates that were cut off at 0: known to a third, they average out; where they can be anything, nothing does
        ([Figure(0.0, 0.0, 0.3, NAN, 5)] * 9, Figure(0.0, 0.0, 0.1, NAN, 45)),
        ([Figure(0.0, 0.0, 1.0, NAN, 5)] * 18, Figure(0.0, 0.0, 1.0, NAN, 90)),
        # (sqrt(0.3^2 + 0.4^2) + 1) / 3 above
        (
            [Figure(0.0, 0.0, 0.3, NAN, 5), Figure(0.0, 0.0, 0.4, NAN, 5), Figure(0.0, 0.0, 1.0, NAN, 5)],
            Figure(0.0, 0.0, 0.5, NAN, 15),
        ),
        # skewed bounds: never further out than the mean of the strata's
        ([Figure(0.1, 0.09, 0.5, 0.1, 5)] * 2, Figure(0.1, 0.09, 0.1 + 1.959964 * 0.1 / math.sqrt(2), 0.0707107, 10)),
        ([Figure(0.5, n=3), Figure(0.7, 0.6, 0.8, 0.1, 3)], Figure(0.6, NAN, NAN, NAN, 6)),
    ],
)
def test_exact_means(figures: list[Figure], mean: Figure) -> None:
    assert mean_of_strata(figures) == pytest.approx(mean, nan_ok=True, rel=1e-6)


@pytest.mark.parametrize(
    ("figures", "mean"),
    [
        ([], UNDEFINED),
        ([share(1, 4), UNDEFINED], share(1, 4)),
        # every share 0: as 0 of 72 documents of one sample
        ([share(0, 4)] * 18, Figure(0.0, *wilson(0, 72), 0.0, 72)),
        ([share(0, 4), share(4, 4)], Figure(0.5, *wilson(4, 8), 0.0, 8)),
        # V = (2 * 0.25 / 9) / 4 = 1 / 72, and 0.25 / V = 18 documents
        ([share(5, 10), share(5, 10)], Figure(0.5, *wilson(9, 18), math.sqrt(1 / 72), 20)),
        # V = (0.1 * 0.9 / 99 + 0) / 4, and 0.55 * 0.45 / V = 1089 documents: languages that differ are strata
        ([share(10, 100), share(100, 100)], Figure(0.55, *wilson(0.55 * 1089, 1089), math.sqrt(0.09 / 396), 200)),
        # V = (0.25 / 1 + 0) / 4 of two documents each, and 0.1875 / V = 3 documents
        ([share(1, 2), share(0, 2)], Figure(0.25, *wilson(0.75, 3), 0.25, 4)),
        ([share(1, 1), share(0, 1)], Figure(0.5, *wilson(1, 2), math.sqrt(0.125), 2)),
        ([Figure(0.5, n=0), Figure(0.7, 0.6, 0.8, 0.1, 3)], Figure(0.6, NAN, NAN, NAN, 3)),
    ],
)
def test_exact_means_of_shares(figures: list[Figure], mean: Figure) -> None:
    assert mean_of_shares(figures) == pytest.approx(mean, nan_ok=True)


@pytest.mark.parametrize("rates", [(0.0, 0.3), (0.01, 0.05), (0.4, 0.6), (0.05, 0.95)])
@pytest.mark.parametrize("n", [4, 30, 250])
def test_bounds_hold_the_truth_nineteen_times_in_twenty(n: int, rates: tuple[float, float]) -> None:
    """2,000 samples of 18 languages each; 1.5 % is three standard errors of the simulation."""
    rng = np.random.default_rng(7)
    truths = np.linspace(*rates, 18)
    hits = 0
    for counts in rng.binomial(n, truths, size=(2000, 18)):
        found = mean_of_shares([Figure(count / n, n=n) for count in counts])
        hits += found.low <= fmean(truths) <= found.high
    assert hits / 2000 == pytest.approx(0.95, abs=0.02)
