"""A figure of many documents: its value, how sure it is, and over how many documents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

__all__ = ["UNDEFINED", "Figure", "counted", "mean_figure", "share_figure"]


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

    Bounds come from a bootstrap. The standard error is the harness's: s/sqrt(n) with s over n - 1.

    Args:
        values: one a document; ``None`` where it is not in the denominator.
    """
    from custom_metrics.intervals import bootstrap_mean  # numpy is not imported before there is something to compute

    found = counted(values)
    if not found:
        return UNDEFINED
    return Figure(fmean(found), *bootstrap_mean(found), _standard_error(found), len(found))


def share_figure(values: Sequence[float | None]) -> Figure:
    """As :func:`mean_figure`, for values 1.0 (in the share) and 0.0 (not): the bounds are Wilson's."""
    from custom_metrics.intervals import wilson

    found = counted(values)
    if not found:
        return UNDEFINED
    return Figure(fmean(found), *wilson(sum(found), len(found)), _standard_error(found), len(found))


def _standard_error(values: Sequence[float]) -> float:
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
