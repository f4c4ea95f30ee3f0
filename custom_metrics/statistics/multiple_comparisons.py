"""Holm's correction: of many comparisons, some are significant by chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["SIGNIFICANCE", "holm"]

SIGNIFICANCE = 0.05
"""Below this p, or adjusted p, a difference is called significant; bounds are for one less this: 95 %."""


def holm(p_values: Sequence[float] | NDArray[Any]) -> NDArray[np.float64]:
    """Adjusted p values (Holm 1979, "A simple sequentially rejective multiple test procedure").

    With those under :data:`SIGNIFICANCE` called significant, the chance that any true hypothesis of the family is among
    them is at most 5 %, however the comparisons depend on each other.

    Args:
        p_values: of a family of comparisons. ``nan`` (a comparison without data) stays ``nan``, and does not count.

    Returns:
        Adjusted p values, in their order, at most 1.

    Raises:
        ValueError: a p value is not between 0 and 1.
    """
    given = np.asarray(p_values, dtype=float)
    if not ((given >= 0) & (given <= 1) | np.isnan(given)).all():
        raise ValueError("p values are between 0 and 1")
    adjusted = np.full(given.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(given))
    order = tested[np.argsort(given[tested])]  # equal ones become equal in any order
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(given[order] * factors))
    return adjusted
