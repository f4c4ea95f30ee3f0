"""Corpus figures from per-document values, as the harness's aggregations that know their own standard error.

The harness passes one value per document. ``None`` means that the document is not in the metric's denominator. A figure
with an empty denominator is ``nan``, never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from custom_metrics.statistics.figures import Figure, Rows, mean_figure, rows_of_mean, share_figure


class Aggregation:
    """A function from the values of all documents to a figure. The harness calls it and gets the figure's value.

    Task YAMLs know it by its name; `rows` are the figure's linearised values, where it has these.
    """

    def __init__(
        self, name: str, figure: Callable[[Sequence[Any]], Figure], rows: Callable[[Sequence[Any]], Rows] | None = None
    ) -> None:
        self.name = name
        self.figure = figure
        self.rows = rows

    def __call__(self, values: Sequence[Any]) -> float:
        return float(self.figure(values).value)

    def standard_error(self, values: Sequence[Any]) -> float:
        """The standard error of the figure; ``nan`` where it has none."""
        return float(self.figure(values).standard_error)

    def __repr__(self) -> str:  # stands in results files, as the harness writes down the configuration
        return self.name

    def __deepcopy__(self, memo: dict[int, Any]) -> Aggregation:
        return self


defined_mean = Aggregation("defined_mean", mean_figure, rows_of_mean)
defined_share = Aggregation("defined_share", share_figure, rows_of_mean)
