"""Balanced error: how often a model is wrong where questions that can be answered, and those that cannot, count the same.

    balanced error = 1 - (share right of what can be answered + share right of what cannot) / 2

Declining everything, or nothing, is 0.5. Every question counts: an answer that cannot be read is wrong, so that nothing is
won by being unreadable and all models share one denominator. With a *cost* c, a made-up answer costs as much as c wrong
refusals: the error is (c * wrong of what cannot be answered + wrong of what can) / (c + 1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from custom_metrics.scores.aggregations import Aggregation
from custom_metrics.statistics.figures import UNDEFINED, Figure, share_figure

COSTS = (1.0, 3.0, 10.0)
"""Costs of a made-up answer that a report of several models looks at."""


def outcome(answerable: bool, right: bool) -> dict[str, int]:
    """The value of a document: whether its question can be answered, and whether the model was wrong."""
    return {"answerable": int(answerable), "wrong": int(not right)}


def weights(cost: float = 1.0) -> tuple[float, float]:
    """What the questions without an answer count, and those with one."""
    return cost / (cost + 1), 1 / (cost + 1)


def balanced_figure(values: Sequence[Mapping[str, Any] | None]) -> Figure:
    """The balanced error of documents, with its bounds; undefined where one of both kinds of questions is missing."""
    from custom_metrics.statistics.strata import mean_of_shares  # with numpy

    kinds: tuple[list[float], list[float]] = [], []
    for value in values:
        if value is not None:
            kinds[value["answerable"]].append(float(value["wrong"]))
    return mean_of_shares([share_figure(kind) for kind in kinds]) if all(kinds) else UNDEFINED


def with_cost(figure: Figure, cost: float) -> Figure:
    """A balanced error of one task with another cost; one whose strata are not known is undefined."""
    from custom_metrics.statistics.strata import mean_of_shares

    if len(figure.strata) != 2:
        return UNDEFINED
    return mean_of_shares([Figure(share, n=n) for share, n, _ in figure.strata], weights=weights(cost))


balanced_error = Aggregation("balanced_error", balanced_figure)
