"""The best of many scores, where what ranks first of equal ones follows from the data alone.

Partial sorting leaves the order of equal scores open; numpy's depends on the processor. Here the earlier row comes first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["best_of"]


def best_of(scores: NDArray[np.floating[Any]], k: int) -> NDArray[np.intp]:
    """Rows of the k largest scores, the largest first; of equal ones the earlier row.

    Args:
        scores: (rows,), none of them ``nan``.
        k: from 1 to the number of rows.
    """
    if k < len(scores):
        # The k-th largest score is the same whatever order the selection leaves behind.
        least = np.partition(scores, len(scores) - k)[len(scores) - k]
        rows = np.flatnonzero(scores >= least)
    else:
        rows = np.arange(len(scores))
    return rows[np.argsort(-scores[rows], kind="stable")][:k]
