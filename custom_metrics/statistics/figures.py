"""A figure of many documents: its value, how sure it is, and over how many documents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

from custom_metrics.statistics.document_values import cluster_of, clusters_of

if TYPE_CHECKING:
    from custom_metrics.statistics.linearisation import Rows

__all__ = ["UNDEFINED", "Figure", "counted", "mean_figure", "rows_of_mean", "share_figure"]


class Figure(NamedTuple):
    """A figure of many documents; ``nan`` for what is not defined.

    Attributes:
        value: the figure.
        low, high: its 95 % bounds.
        standard_error: of the value.
        n: documents in the denominator.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    standard_error: float = math.nan
    n: int = 0

    def as_json(self, denominator: str = "") -> dict[str, Any]:
        """For a results file: ``null`` for what is not defined.

        Args:
            denominator: what the documents are that count, in words.
        """
        parts = {name: getattr(self, name) for name in ("value", "low", "high", "standard_error")}
        return {
            **{name: None if math.isnan(part) else float(part) for name, part in parts.items()},
            "n": self.n,
            "denominator": denominator,
        }


UNDEFINED = Figure(math.nan)


def counted(values: Sequence[float | None]) -> list[float]:
    """The values of the documents that are in the denominator: neither ``None`` nor ``nan``."""
    return [float(value) for value in values if value is not None and value == value]


def mean_figure(values: Sequence[float | None]) -> Figure:
    """The mean of the documents' values.

    Bounds come from a bootstrap. The standard error is the harness's: s/sqrt(n) with s over n - 1. Of documents that hang
    together (:class:`custom_metrics.statistics.document_values.Clustered`) both are over their clusters, and the standard
    error is that of a ratio of sums (Taylor linearisation).

    Args:
        values: one a document; ``None`` where it is not in the denominator.
    """
    from custom_metrics.statistics.intervals import (  # numpy is imported where it is needed
        bootstrap_mean,
        resampled_sums,
        spread,
    )

    found = counted(values)
    if not found:
        return UNDEFINED
    sums = _of_clusters(values)
    if sums is not None:
        top, bottom = resampled_sums(sums).T
        return Figure(fmean(found), *spread(top / bottom)[:2], _cluster_error(sums), len(found))
    return Figure(fmean(found), *bootstrap_mean(found), _standard_error(found), len(found))


def share_figure(values: Sequence[float | None]) -> Figure:
    """As :func:`mean_figure`, for values 1.0 (in the share) and 0.0 (not): the bounds are Wilson's.

    Of documents that hang together they are those of the number of documents that would give the standard error over
    clusters in a simple sample (Korn and Graubard 1998): at most as many as there are, and as clusters where it is 0.
    """
    from custom_metrics.statistics.intervals import wilson

    found = counted(values)
    if not found:
        return UNDEFINED
    sums = _of_clusters(values)
    if sums is not None:
        share, error = fmean(found), _cluster_error(sums)
        documents = min(len(found), share * (1 - share) / error**2) if error > 0 else len(sums)
        return Figure(share, *wilson(share * documents, documents), error, len(found))
    return Figure(fmean(found), *wilson(sum(found), len(found)), _standard_error(found), len(found))


def rows_of_mean(values: Sequence[float | None]) -> Rows:
    """The values of :func:`mean_figure` or :func:`share_figure`, and their clusters."""
    import numpy as np

    from custom_metrics.statistics.linearisation import Rows

    return Rows(np.array(values, dtype=float), [cluster_of(value) for value in values])


def _standard_error(values: Sequence[float]) -> float:
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def _of_clusters(values: Sequence[float | None]) -> Any:
    """(clusters, 2) sum and number of the values that count; ``None`` where no two of them hang together."""
    known = [value for value in values if value is not None and value == value]
    clusters = clusters_of([cluster_of(value) for value in known])
    if clusters is None:
        return None
    import numpy as np

    from custom_metrics.statistics.intervals import sums_by_cluster

    return sums_by_cluster(np.array([[float(value), 1.0] for value in known]), clusters)


def _cluster_error(sums: Any) -> float:
    """The standard error of a mean from (clusters, 2) sums and numbers; ``nan`` of a single cluster."""
    number = len(sums)
    total, documents = sums.sum(axis=0)
    apart = sums[:, 0] - total / documents * sums[:, 1]
    return math.sqrt(number / (number - 1) * float(apart @ apart)) / documents if number > 1 else math.nan
