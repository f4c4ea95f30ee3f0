"""The difference of two models that answered the same documents."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["NO_DIFFERENCE", "Floats", "PairedDifference"]

Floats = NDArray[np.float64]


class PairedDifference(NamedTuple):
    """Two models' values over the same documents, and how sure their difference is; ``nan`` for what is not defined.

    Attributes:
        first, second: the values of both models.
        difference: first minus second.
        low, high: its 95 % bounds.
        p: two-sided, of the hypothesis that the difference is 0.
        n: what was paired: documents, or clusters of them (articles).
        method: what the bounds and p come from.
        p_exact: of the exact test, where `p` is its mid-p version.
    """

    first: float
    second: float
    difference: float
    low: float
    high: float
    p: float
    n: int
    method: str
    p_exact: float = math.nan

    def as_json(self) -> dict[str, Any]:
        """``null`` for what is not defined."""
        return {
            name: None if isinstance(part, float) and not math.isfinite(part) else part
            for name, part in self._asdict().items()
        }


NO_DIFFERENCE = PairedDifference(math.nan, math.nan, math.nan, math.nan, math.nan, math.nan, 0, "")
"""Of models without a document in common."""
