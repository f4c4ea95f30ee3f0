"""Do p and bounds of shares hold where users are? ``python -m tests.benchmarks.statistics``, or ``make check-statistics``.

Simulates runs whose truth is known: two models over the same questions, some as hard for both; rates near 0, small strata,
and rates that are traded against each other. Prints a row for each case beside its bar, and ends with 1 if one is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.scores.balanced_error import balanced_error
from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.intervals import Z95
from custom_metrics.statistics.multiple_comparisons import holm
from custom_metrics.statistics.paired_difference import difference_of_shares
from custom_metrics.statistics.strata import mean_of_shares

ROUNDS = 2000
_SEED = 15
_ALIKE = 0.5  # of the questions are as hard for both models

Floats = NDArray[np.float64]


class Row(NamedTuple):
    """A simulated case: what is measured, its number, whether it is within its bar, and the bar."""

    what: str
    value: str
    holds: bool
    bar: str


class Pair(NamedTuple):
    """Two models: the shares of wrong answers of both by stratum, the strata's sizes, and what each counts."""

    name: str
    first: Sequence[float]
    second: Sequence[float]
    sizes: Sequence[int]
    parts: Sequence[float] | None = None


COST_3 = balanced_error.with_cost(3.0).weights

PAIRS = (
    Pair("equal, 250/250", [0.2, 0.2], [0.2, 0.2], [250, 250]),
    Pair("traded (.2/.05), 250/250", [0.2, 0.05], [0.05, 0.2], [250, 250]),
    Pair("traded, 60/26", [0.2, 0.05], [0.05, 0.2], [60, 26]),
    Pair("traded hard (.6/.02), 250/250", [0.6, 0.02], [0.02, 0.6], [250, 250]),
    Pair("one rate 0, 60/26", [0.0, 0.2], [0.0, 0.2], [60, 26]),
    Pair("rare (.03), 60/26", [0.03, 0.03], [0.03, 0.03], [60, 26]),
    Pair("18 strata of 50", [0.2] * 18, [0.2] * 18, [50] * 18),
    Pair("18 languages x traded, 25/25", [0.3, 0.1] * 18, [0.1, 0.3] * 18, [25] * 36),
    Pair("cost 3, (.05/.25) and (.1/.1), 250/250", [0.05, 0.25], [0.1, 0.1], [250, 250], COST_3),
    Pair("one share, 100", [0.1], [0.1], [100]),
    Pair("one share, rare (.02), 50", [0.02], [0.02], [50]),
)


def discordant(rng: np.random.Generator, pair: Pair, rounds: int) -> tuple[Floats, Floats, Floats]:
    """(strata, rounds) numbers of documents that the first model alone gets wrong, the second alone, and of all."""
    b, c = [], []
    for first, second, size in zip(pair.first, pair.second, pair.sizes, strict=True):
        alike, hard = rng.random((rounds, size)) < _ALIKE, rng.random((rounds, size))
        wrong = [np.where(alike, hard, rng.random((rounds, size))) < share for share in (first, second)]
        b.append((wrong[0] & ~wrong[1]).sum(axis=1))
        c.append((wrong[1] & ~wrong[0]).sum(axis=1))
    return np.array(b, float), np.array(c, float), np.array(pair.sizes, float)[:, None] + np.zeros((1, rounds))


def check_pairs(rounds: int = ROUNDS) -> Iterator[Row]:
    """How often equal models are called different, and how often the bounds hold the true difference."""
    for pair in PAIRS:
        b, c, n = discordant(np.random.default_rng(_SEED), pair, rounds)
        parts = np.array(pair.parts or [1 / len(n)] * len(n))[:, None] + np.zeros_like(n)
        _, low, high, p = difference_of_shares(b, c, n, parts)
        truth = float(parts[:, 0] @ (np.array(pair.first) - np.array(pair.second)))
        false, held = float(np.mean(p < 0.05)), float(np.mean((low <= truth) & (truth <= high)))
        assert np.array_equal(p < 0.05, (low > 0) | (high < 0)), pair.name
        if abs(truth) < 1e-12:
            yield Row(f"{pair.name}: called different", f"{100 * false:.1f} %", false <= 0.062, "<= 6.2 %")
        yield Row(f"{pair.name}: bounds hold", f"{100 * held:.1f} %", held >= 0.93, ">= 93 %")


class Mean(NamedTuple):
    """Shares of a model by stratum, and the strata's sizes."""

    name: str
    shares: Sequence[float]
    sizes: Sequence[int]


MEANS = (
    Mean("39 at .03, 19 at .92", [0.03, 0.92], [39, 19]),
    Mean("39 at 0, 19 at .9", [0.0, 0.9], [39, 19]),
    Mean("39 at .5, 19 at .5", [0.5, 0.5], [39, 19]),
    Mean("60 at .02, 26 at .02", [0.02, 0.02], [60, 26]),
    Mean("250 at .2, 250 at .05", [0.2, 0.05], [250, 250]),
    Mean("250 at .001, 250 at .3", [0.001, 0.3], [250, 250]),
    Mean("20 at .05, 20 at .9", [0.05, 0.9], [20, 20]),
    Mean("18 strata of 50 at .002", [0.002] * 18, [50] * 18),
    Mean("18 strata of 10 at .01", [0.01] * 18, [10] * 18),
    Mean("18 strata of 10 at .3", [0.3] * 18, [10] * 18),
    Mean("18 strata of 10, half at .1, half at .9", [0.1, 0.9] * 9, [10] * 18),
    Mean("18 strata of 30 at 0 to .5", np.linspace(0, 0.5, 18).tolist(), [30] * 18),
)


def check_means(rounds: int = ROUNDS) -> Iterator[Row]:
    """How often the bounds of a mean of shares hold; beside it, with the plain variance p(1 - p)/n of each stratum."""
    for mean in MEANS:
        sizes, truth = np.array(mean.sizes), float(np.mean(mean.shares))
        counts = np.random.default_rng(_SEED).binomial(sizes, mean.shares, (rounds, len(sizes)))
        held, plain, widths = 0, 0, []
        for hits in counts:
            figure = mean_of_shares([Figure(k / n, n=n) for k, n in zip(hits.tolist(), mean.sizes, strict=True)])
            held += figure.low <= truth <= figure.high
            widths.append(figure.high - figure.low)
            plain += _plain_holds(hits / sizes, sizes, truth)
        value = f"{100 * held / rounds:.1f} %, {np.mean(widths):.3f} wide (plain: {100 * plain / rounds:.1f} %)"
        yield Row(f"mean of {mean.name}", value, held / rounds >= 0.93, ">= 93 %")


def _plain_holds(shares: Floats, sizes: NDArray[np.int64], truth: float) -> bool:
    """Whether Wilson's interval holds the truth, for the effective number of documents by the plain variance."""
    mean, k = float(shares.mean()), len(shares)
    variance = float((shares * (1 - shares) / sizes).sum()) / k**2
    number = mean * (1 - mean) / variance if variance else k**2 / float((1 / sizes).sum())
    return abs(truth - mean) <= Z95 * np.sqrt(truth * (1 - truth) / number)  # the score test that Wilson's inverts


def check_ranks(rounds: int = ROUNDS // 4, models: int = 11) -> Iterator[Row]:
    """How often any of several equal models is called better than another, after Holm's correction over all pairs."""
    rng = np.random.default_rng(_SEED)
    for name, shares, size in (("balanced error, 250/250", (0.2, 0.2), 250), ("one rate, 50", (0.1,), 50)):
        counts = []
        for share in shares:
            alike, hard = rng.random((rounds, 1, size)) < _ALIKE, rng.random((rounds, 1, size))
            wrong = np.where(alike, hard, rng.random((rounds, models, size))) < share
            first, second = (wrong[:, list(side)] for side in zip(*combinations(range(models), 2), strict=True))
            counts.append([(first & ~second).sum(axis=-1).ravel(), (second & ~first).sum(axis=-1).ravel()])
        b, c = np.moveaxis(np.array(counts, float), 1, 0)
        p = difference_of_shares(b, c, np.full_like(b, size), np.full_like(b, 1 / len(shares)))[3]
        false = float(np.mean([(holm(of_round) < 0.05).any() for of_round in p.reshape(rounds, -1)]))
        yield Row(f"{models} equal models, {name}: any called better", f"{100 * false:.1f} %", false <= 0.07, "<= 7 %")


def print_checks(*checks: Callable[[], Iterator[Row]]) -> int:
    """Print each check's rows beside their bars; 1 if a bar is missed."""
    missed = 0
    for check in checks:
        print((check.__doc__ or "").partition("\n")[0])
        for row in check():
            missed += not row.holds
            print(f"  {row.what:75} {row.value:55} bar: {row.bar}{'' if row.holds else '   MISSED'}", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(print_checks(check_pairs, check_means, check_ranks))
