"""The best of many scores, in an order that follows from the data alone: of equal scores the earlier row comes first.

Partial sorting leaves the order of equal scores open, and numpy's depends on the processor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["best_of"]

_BLOCK = 64  # rows whose maximum is taken first: a pass over all scores is much faster than a selection among them


def best_of(scores: NDArray[np.floating[Any]], k: int) -> NDArray[np.intp]:
    """Rows of the k largest scores, the largest first; of equal ones the earlier row.

    Args:
        scores: (rows,), none of them ``nan``.
        k: from 1 to the number of rows.
    """
    rows = np.flatnonzero(scores >= _at_most_kth(scores, k))
    found = scores[rows]
    if k < len(rows):
        chosen = found >= _kth(found, k)
        rows, found = rows[chosen], found[chosen]
    return rows[np.argsort(-found, kind="stable")][:k]


def _at_most_kth(scores: NDArray[np.floating[Any]], k: int) -> Any:
    """A score that k rows reach at least, and mostly few more: the k-th largest of the maxima of blocks of rows."""
    blocks = len(scores) // _BLOCK
    if k > blocks:
        return -np.inf
    return _kth(scores[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(1), k)


def _kth(scores: NDArray[np.floating[Any]], k: int) -> Any:
    """The k-th largest: the same whatever order the selection leaves behind."""
    return np.partition(scores, len(scores) - k)[len(scores) - k]
