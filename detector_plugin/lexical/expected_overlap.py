"""The choice of words to mark with the largest expected overlap (IoU) with what people marked."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["most_overlap"]

_POINTS, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)  # integrates a standard normal variable
_EMPTY = 2.0  # power of a word's probability to be fine: errors come with others, an answer without any is rare


def most_overlap(probabilities: NDArray[np.float64], lengths: NDArray[np.float64], spread: float) -> NDArray[np.bool_]:
    """(words,): the words to mark. They are the most probable ones, cut where the expected intersection over union is
    largest.

    Words of one answer err together: their log odds share a normal deviate of standard deviation `spread`. Given the
    deviate they are independent. The expected overlap of a set is approximated by expected intersection over expected
    union. The overlap of the empty set is 1 if nothing is hallucinated, else 0, so its expectation is the probability of
    the former.

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
