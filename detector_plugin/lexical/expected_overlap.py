"""Which words to mark so that the expected overlap (IoU) with what people marked is largest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["most_overlap"]

_POINTS, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)  # integrates a standard normal variable
_EMPTY = 2.0  # power of a word's probability to be fine: errors come with others, an answer without any is rare


def most_overlap(probabilities: NDArray[np.float64], lengths: NDArray[np.float64], spread: float) -> NDArray[np.bool_]:
    """(words,) words to mark: those up to the cut in probability with the largest expected intersection over union.

    Words of one answer err together: their log odds share a normal deviate of standard deviation `spread`. Given it they
    are independent, and the expected overlap of a set is taken as expected intersection over expected union. The empty set
    has the probability that nothing is hallucinated, as its overlap is 1 then and 0 otherwise.

    Args:
        probabilities: (words,) that each word is hallucinated.
        lengths: (words,) characters.
        spread: of what the words share; 0 for independent words.
    """
    if not len(probabilities):
        return np.zeros(0, np.bool_)
    p = np.clip(probabilities, 1e-4, 1 - 1e-4)
    # A logistic curve smoothed by a normal one is flatter (MacKay 1992): steeper odds keep each word's own probability.
    odds = np.log(p / (1 - p)) * np.sqrt(1 + np.pi / 8 * spread**2)
    given = 1 / (1 + np.exp(-odds - spread * _POINTS[:, None]))
    share = _WEIGHTS / _WEIGHTS.sum()
    order = np.argsort(-p, kind="stable")
    mass = given[:, order] * lengths[order]
    inside = np.cumsum(mass, axis=1)
    union = np.cumsum(lengths[order]) + mass.sum(1, keepdims=True) - inside
    expected = share @ (inside / union)
    best = int(np.argmax(expected))
    marked = np.zeros(len(p), np.bool_)
    if expected[best] >= share @ np.exp(_EMPTY * np.log1p(-given).sum(1)):
        marked[order[: best + 1]] = True
    return marked
