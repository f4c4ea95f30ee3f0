"""Confidence intervals: Wilson for a share of independent documents, percentile bootstrap for a mean of values."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

__all__ = ["bootstrap_mean", "wilson"]

_BLOCK = 1 << 20  # counts held at once by the bootstrap: 8 MB

Z95 = 1.959963984540054  # the 97.5th percentile of the standard normal


def wilson(successes: float, trials: int, z: float = Z95) -> tuple[float, float]:
    """Wilson score interval of a share (Wilson 1927; Brown, Cai and DasGupta 2001, equation 4).

    Args:
        successes: how many of the trials.
        trials: how many documents are in the denominator.
        z: standard normal quantile; the default gives 95 %.

    Returns:
        Lower and upper bound, both in [0, 1]; ``(nan, nan)`` without trials.

    Raises:
        ValueError: more successes than trials, or fewer than none.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"successes must be between 0 and trials, got {successes} of {trials}")
    if trials == 0:
        return math.nan, math.nan
    share = successes / trials
    centre = share + z * z / (2 * trials)
    spread = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    low = 0.0 if successes == 0 else (centre - spread) / scale
    high = 1.0 if successes == trials else (centre + spread) / scale
    return low, high


def bootstrap_mean(values: Sequence[float], iterations: int = 2000, seed: int = 1234) -> tuple[float, float]:
    """95 % percentile bootstrap interval of the mean over documents.

    Args:
        values: one value per document; ``nan`` values are left out.
        iterations: resamples.
        seed: of the generator; the same values and seed give the same bounds.

    Returns:
        Lower and upper bound; ``(nan, nan)`` without values.
    """
    array = np.asarray(values, dtype=float)
    array = array[~np.isnan(array)]
    if array.size == 0:
        return math.nan, math.nan
    rng = np.random.default_rng(seed)
    shares = np.full(array.size, 1 / array.size)
    block = max(1, _BLOCK // array.size)  # so many resamples at a time bound the memory
    means: list[float] = []
    while len(means) < iterations:
        counts = rng.multinomial(array.size, shares, size=min(block, iterations - len(means)))
        means.extend(counts @ array / array.size)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)
