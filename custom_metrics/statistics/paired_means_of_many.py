"""p of many mean differences at once: that of :mod:`custom_metrics.statistics.paired_means`, without what bounds need.

A ranking of 200 models tests 19,900 pairs for each metric. :func:`custom_metrics.statistics.paired_means.pivots_of`
keeps five arrays of resamples by pairs. This counts how many pivots are beyond the observed one. It looks at their
sizes only where these are fewer than ten.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from custom_metrics.statistics.paired_difference import Floats
from custom_metrics.statistics.paired_draws import ITERATIONS, SEED, draws
from custom_metrics.statistics.paired_means import NOTHING, TAIL, bounds_and_p, extrapolated, pivots_of

__all__ = ["p_of_means"]

_AT_ONCE = 256  # pairs: the arrays of their resamples are 4 MB each
_ROUNDING = 1e-12  # by which two ways of computing a pivot may differ


def p_of_means(strata: Sequence[Floats], iterations: int = ITERATIONS, seed: int = SEED) -> Floats:
    """p of the hypothesis that a mean difference is 0.

    Args:
        strata: of each stratum (rows, pairs) differences; ``nan`` where a row does not count for a pair.
        iterations, seed: of the draws.

    Returns:
        (pairs,); ``nan`` for a pair without a row.
    """
    number = strata[0].shape[1]
    p = np.full(number, np.nan)
    used = [values[known] for values in strata if (known := ~np.isnan(values).all(axis=1)).any()]
    room = np.empty((4, iterations, _AT_ONCE))  # new memory for each block costs more than the arithmetic
    for start in range(number if used else 0)[::_AT_ONCE]:
        block = [values[:, start : start + _AT_ONCE] for values in used]
        complete = not any(np.isnan(values).any() for values in block)
        found = _p_of_block(block, room, seed) if complete else bounds_and_p(pivots_of(block, iterations, seed))[2]
        p[start : start + _AT_ONCE] = found
    return p


def _p_of_block(strata: Sequence[Floats], room: Floats, seed: int) -> Floats:
    """p of pairs for which all rows count; `room` is of (4, iterations, pairs or more)."""
    iterations = room.shape[1]
    means = np.array([values.mean(axis=0) for values in strata])
    squares = [(values - mean) ** 2 for values, mean in zip(strata, means, strict=True)]
    variance = np.sum([square.sum(axis=0) * _per_row(len(square)) for square in squares], axis=0)
    total = means.sum(axis=0)
    rows = sum(map(len, strata))
    p = np.where(total != 0, 2.0 ** (1 - rows), 1.0)  # of the sign test: the same difference everywhere
    varied = np.flatnonzero(variance > NOTHING * np.max(means**2, axis=0))
    if not len(varied):
        return p
    shifts, variances, moved, rest = room[:, :, : len(varied)]
    shifts[:], variances[:] = 0.0, 0.0
    for place, (values, mean, square) in enumerate(zip(strata, means, squares, strict=True)):
        n, done = len(values), 0
        for counts in draws(n, place, iterations, seed):
            block = slice(done, done := done + len(counts))
            np.matmul(counts, (values - mean)[:, varied], out=moved[block])
            np.matmul(counts, square[:, varied], out=rest[block])
        moved /= n
        shifts += moved
        moved *= moved
        moved *= n
        rest -= moved
        rest *= _per_row(n)
        variances += rest
    variance, total = variance[varied], total[varied]
    np.maximum(variances, NOTHING * variance, out=variances)  # of a resample in which all rows are the same
    sizes = shifts
    sizes *= sizes
    sizes /= variances  # squared pivots
    observed = total**2 / variance
    number = np.count_nonzero(sizes >= observed * (1 - _ROUNDING), axis=0)
    anchors = np.full(len(varied), np.nan)
    few = np.flatnonzero(number < TAIL)
    tenth = max(iterations - TAIL, 0)  # from the smallest
    anchors[few] = np.sqrt(np.partition(sizes[:, few], tenth, axis=0)[tenth])
    freedom = np.full(len(varied), float(rows - len(strata)))  # at least 1, as they vary
    p[varied] = extrapolated(number, anchors, np.sqrt(observed), freedom, iterations)
    return np.asarray(p)


def _per_row(rows: int) -> float:
    """What a sum of squares is multiplied by to be the squared standard error of a mean; 0 with fewer than two rows."""
    return 1 / (rows * (rows - 1)) if rows > 1 else 0.0
