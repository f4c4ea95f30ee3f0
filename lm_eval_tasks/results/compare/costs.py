"""Which of several models is best, by what a made-up answer costs (:mod:`custom_metrics.scores.balanced_error`)."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from custom_metrics.scores.balanced_error import COSTS, BalancedError
from custom_metrics.statistics.multiple_comparisons import adjusted, better
from lm_eval_tasks.results.compare.measuring import Measured, differences

_LEAST, _MOST = 0.1, 100.0
"""Costs between which another model can become the best: beyond them one of the two rates is all that counts."""


@dataclass(frozen=True)
class AtCost:
    """The best of the models at a cost: its error rate, and the models that show no difference to it."""

    cost: float
    best: int
    value: float
    equals: tuple[int, ...]


@dataclass(frozen=True)
class Costs:
    """The best models of a task or group at several costs; and from which cost on which model has the lowest error rate,
    the first from a cost of 0.1 on, up to 100."""

    at: tuple[AtCost, ...]
    turns: tuple[tuple[float, int], ...]


def best_by_cost(tasks: Sequence[Measured], competing: Collection[int], asked: float) -> Costs | None:
    """The best of the runs that compete on the balanced error of a task, or of its mean over several, at the usual costs
    and the one `asked` for. ``None`` for fewer than two runs that have all tasks."""
    shares: dict[int, tuple[float, float]] = {}
    for run in sorted(competing):
        if all(run in task.rows for task in tasks):
            rates = [kind.two_rates(task.rows[run]) for task in tasks if isinstance(kind := task.kind, BalancedError)]
            made_up, missed = np.mean(rates, axis=0).tolist()
            if not math.isnan(made_up + missed):
                shares[run] = made_up, missed
    if len(shares) < 2:
        return None
    pairs, at = [*combinations(shares, 2)], []
    for cost in sorted({*COSTS, asked}):
        weighed = [task.with_cost(cost) for task in tasks]
        found = differences(weighed, pairs)
        (p_values,) = adjusted([{pair: result.p for pair, result in zip(pairs, found, strict=True)}])
        differ = {
            frozenset(pair)
            for pair, result in zip(pairs, found, strict=True)
            if better(result.difference, p_values[pair].p, False) is not None
        }
        values = {run: (cost * made_up + missed) / (cost + 1) for run, (made_up, missed) in shares.items()}
        order = sorted(values, key=lambda run: values[run])
        equals = tuple(run for run in order[1:] if frozenset((run, order[0])) not in differ)
        at.append(AtCost(cost, order[0], values[order[0]], equals))
    return Costs(tuple(at), tuple(_turns(shares)))


def _turns(shares: Mapping[int, tuple[float, float]]) -> list[tuple[float, int]]:
    """The lower envelope of the models' error rates over the cost: from which cost on which model is the lowest."""

    def lowest(cost: float) -> int:  # of equal ones, that which makes up less
        return min(shares, key=lambda run: (round(cost * shares[run][0] + shares[run][1], 12), shares[run][0]))

    cost, turns = _LEAST, [(_LEAST, lowest(_LEAST))]
    while True:
        made_up, missed = shares[turns[-1][1]]
        crossings = [
            ((theirs[1] - missed) / (made_up - theirs[0]), theirs[0], run)
            for run, theirs in shares.items()
            if theirs[0] < made_up
        ]
        later = [crossing for crossing in crossings if cost < crossing[0] <= _MOST]
        if not later:
            return turns
        cost, _, run = min(later)
        turns.append((cost, run))
