"""Balanced error: how often a model is wrong where questions that can be answered, and those that cannot, count the same.

    balanced error = 1 - (share right of what can be answered + share right of what cannot) / 2

Declining everything, or nothing, is 0.5. Every question counts: an answer that cannot be read is wrong, so that nothing is
won by being unreadable and all models share one denominator. With a *cost* c, a made-up answer costs as much as c wrong
refusals: the error is (c * wrong of what cannot be answered + wrong of what can) / (c + 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custom_metrics.scores.aggregations import Aggregation, Strata, defined_share, matrix_of, places_of, runs_of
from custom_metrics.statistics.figures import UNDEFINED, Figure, Rows
from custom_metrics.statistics.paired_difference import Differences, Pairs, share_differences
from custom_metrics.statistics.strata import mean_of_shares

COSTS = (1.0, 3.0, 10.0)  # costs of a made-up answer that a report of several models looks at


class BalancedError(Aggregation):
    """The kind of a balanced error. Values are those of :func:`custom_metrics.statistics.figures.outcome`.

    Its rows are (documents, 2), whether the model was wrong about a question without an answer, or with one; else ``nan``.
    """

    clustered_by = ""
    shares_clusters = False
    form = (2,)
    weights = (0.5, 0.5)  # of questions without an answer, and of those with one

    def with_cost(self, cost: float) -> BalancedError:
        """The error with another cost of a made-up answer."""
        kind = BalancedError(self.name)
        kind.weights = cost / (cost + 1), 1 / (cost + 1)
        return kind

    def statistics(self, value: Any) -> list[float]:
        wrong = float(value["wrong"])
        return [math.nan, wrong] if value["answerable"] else [wrong, math.nan]

    def counted(self, rows: Rows) -> NDArray[np.bool_]:
        return np.asarray(~np.isnan(rows.values).all(axis=1))

    def two_rates(self, rows: Rows) -> tuple[float, float]:
        """How often the model is wrong about questions without an answer, and about those with one; ``nan`` without any."""
        columns = [column[~np.isnan(column)] for column in rows.values.T]
        made_up, missed = (float(c.mean()) if len(c) else math.nan for c in columns)
        return made_up, missed

    def value(self, rows: Rows) -> float:
        return float(sum(rate * weight for rate, weight in zip(self.two_rates(rows), self.weights, strict=True)))

    def figure(self, rows: Rows) -> Figure:
        """The error with the bounds of a mean of shares; undefined where one of both kinds of questions is missing."""
        figures = [defined_share.figure(Rows(column)) for column in rows.values.T]
        return mean_of_shares(figures, weights=self.weights) if all(figure.n for figure in figures) else UNDEFINED

    def mean_over(self, strata: Sequence[Figure], error: float = math.nan) -> Figure:
        return mean_of_shares(strata, error)

    def differences(self, strata: Strata, pairs: Pairs) -> Differences:
        """The differences of means of shares. A stratum in which a pair has questions of one kind alone is left out."""
        runs = runs_of(pairs)
        of_kinds = [
            matrix_of({run: rows._replace(values=rows.values[:, kind]) for run, rows in stratum.items()}, runs)
            for stratum in strata
            for kind in (0, 1)
        ]
        return share_differences(of_kinds, places_of(pairs, runs), [*self.weights] * len(strata), kinds=2)


def with_cost(figure: Figure, cost: float) -> Figure:
    """A balanced error of one task with another cost; one whose strata are not known is undefined."""
    if len(figure.strata) != 2:
        return UNDEFINED
    shares = [Figure(share, n=n) for share, n, _ in figure.strata]
    return mean_of_shares(shares, weights=balanced_error.with_cost(cost).weights)


balanced_error = BalancedError("balanced_error")
