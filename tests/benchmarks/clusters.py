"""Do bounds of shares hold where units are few or unequal, and the gate's level? ``python -m tests.benchmarks.clusters``.

``make check-statistics`` runs it. A row has the worst of all rates and correlations (beta-binomial) of a number of units of
one kind. Ends with 1 if a bar is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import product

import numpy as np
from numpy.typing import NDArray

from custom_metrics.scores.aggregations import defined_share
from custom_metrics.statistics.figures import Figure, Rows
from custom_metrics.statistics.intervals import share_of_clusters, wilson
from lm_eval_tasks.results.logs.gate import FAILED, check_limit
from tests.benchmarks.statistics import Row, print_checks

ROUNDS = 2000
RATES, CORRELATIONS = (0.01, 0.02, 0.05, 0.1, 0.3, 0.5, 0.9), (0.05, 0.3, 0.8)
UNITS = (1, 2, 3, 5, 10, 15, 30, 60, 200)
ANSWERS = (1, 3, 10, 30, 100, 1000)
_SEED = 44

Sizes = NDArray[np.int64]
KINDS: Mapping[str, Callable[[np.random.Generator, tuple[int, int]], Sizes]] = {
    "conversations of 3 answers": lambda rng, shape: np.full(shape, 3),
    "conversations of 10 answers": lambda rng, shape: np.full(shape, 10),
    "conversations of 6 on average (geometric)": lambda rng, shape: rng.geometric(1 / 6, shape),
    "conversations of 3 to 400 (heavy-tailed)": lambda rng, shape: np.minimum(
        np.ceil(2 * rng.pareto(1.1, shape) + 1), 400
    ).astype(int),
    "answers of words (log-normal)": lambda rng, shape: np.ceil(rng.lognormal(4, 0.7, shape)).astype(int),
}


def hits_of(rng: np.random.Generator, sizes: Sizes, rate: float, correlation: float) -> Sizes:
    """Hits of clusters whose rates have a beta distribution."""
    first, second = (share * (1 - correlation) / correlation for share in (rate, 1 - rate))
    return rng.binomial(sizes, rng.beta(first, second, sizes.shape))


def check_shares(rounds: int = ROUNDS) -> Iterator[Row]:
    """How often the bounds of a share hold: the worst of 7 rates and 3 correlations."""
    rng = np.random.default_rng(_SEED)
    for (kind, sizes_of), number in product(KINDS.items(), UNITS):
        cells = []
        for rate, correlation in product(RATES, CORRELATIONS):
            sizes = sizes_of(rng, (rounds, number))
            low, high, _ = share_of_clusters(hits_of(rng, sizes, rate, correlation), sizes)
            held = float(np.mean((low <= rate) & (rate <= high)))
            cells.append((held, rate, correlation, float(np.mean(high - low))))
        held, rate, correlation, width = min(cells)
        value = f"{100 * held:.1f} %, {width:.3f} wide (rate {rate}, correlation {correlation})"
        yield Row(f"{number} {kind}", value, held >= 0.93, ">= 93 %")


def check_gate(rounds: int = ROUNDS) -> Iterator[Row]:
    """How often ``--fail-over`` fails at a truth that is the limit: the worst of 5 limits, and of 3 correlations."""
    rng = np.random.default_rng(_SEED)
    for number, size in product(ANSWERS, (1, 3, 10)):
        if number < size:
            continue
        cells = []
        for limit, correlation in product((0.01, 0.05, 0.1, 0.2, 0.3), CORRELATIONS if size > 1 else (0.0,)):
            sizes = np.full((rounds, number // size), size)
            sizes[:, 0] += number % size
            if size > 1:
                hits = hits_of(rng, sizes, limit, correlation)
                bounds = np.transpose(share_of_clusters(hits, sizes)[:2])
            else:
                hits = rng.binomial(sizes, limit)
                bounds = np.array([wilson(flagged, number) for flagged in hits.sum(axis=1).tolist()])
            figures = zip((hits.sum(axis=1) / number).tolist(), bounds.tolist(), strict=True)
            failed = [check_limit(Figure(share, *of, n=number), limit).status == FAILED for share, of in figures]
            cells.append((float(np.mean(failed)), limit, correlation))
        failed_most, limit, correlation = max(cells)
        value = f"{100 * failed_most:.1f} % (limit {limit}, correlation {correlation})"
        what = f"gate at its limit, {number} answers, {size} to a conversation"
        yield Row(what, value, failed_most <= 0.05, "<= 5 %")


def check_differences(rounds: int = ROUNDS) -> Iterator[Row]:
    """How often equal logs of conversations are called different, and how often ``--baseline`` fails."""
    rng = np.random.default_rng(_SEED)
    cells = product(((5, 5), (15, 10), (40, 3), (40, 10)), (0.05, 0.3), (0.1, 0.8))
    for (number, size), rate, correlation in cells:
        sizes = np.full((2 * rounds, number), size)
        first, second = (share * (1 - correlation) / correlation for share in (rate, 1 - rate))
        rates = rng.beta(first, second, sizes.shape)
        flags = (rng.random((*sizes.shape, size)) < rates[..., None]).reshape(2 * rounds, -1).astype(float)
        names = np.repeat(np.arange(number), size).astype(str).tolist()
        models = {model: Rows(of_model, names) for model, of_model in enumerate(flags)}
        found = defined_share.differences([models], [(2 * model, 2 * model + 1) for model in range(rounds)])
        low, high, p = found.low, found.high, found.p
        assert np.array_equal(p < 0.05, (low > 0) | (high < 0))
        false, failed = float(np.mean(p < 0.05)), float(np.mean(low > 0))
        what = f"{number} conversations of {size}, rate {rate}, correlation {correlation}"
        yield Row(f"{what}: called different", f"{100 * false:.1f} %", false <= 0.06, "<= 6 %")
        yield Row(f"{what}: baseline fails", f"{100 * failed:.1f} %", failed <= 0.05, "<= 5 %")


if __name__ == "__main__":
    sys.exit(print_checks(check_shares, check_gate, check_differences))
