"""What a model could buy a good number with: one that never answers makes nothing up."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["PRICES", "Price"]


class Price(NamedTuple):
    """The other side of a metric.

    Attributes:
        metric: that rises with it; lower is better.
        paid: what is said where the better model has more of it.
    """

    metric: str
    paid: str


PRICES = {
    "hallucination_rate": Price("error_rate", "It overlooks more answers that are there"),
    "unanswerable_accuracy": Price("answerable_abstention_rate", "It declines more of what can be answered, too"),
}
"""Metric of the first screen to its price."""
