"""The difference of two shares over independent samples."""

from __future__ import annotations

import math

from custom_metrics.statistics.intervals import wilson

__all__ = ["newcombe"]


def newcombe(successes: int, trials: int, other_successes: int, other_trials: int) -> tuple[float, float, float]:
    """The difference of two independent shares with 95 % bounds: Newcombe's hybrid score interval (Newcombe 1998, "Interval
    estimation for the difference between independent proportions", Statistics in Medicine 17, method 10).

    For shares over the same documents it is wider than a paired interval, so it errs on the careful side.

    Args:
        successes, trials: of the one share.
        other_successes, other_trials: of the other.

    Returns:
        The first share less the second, lower and upper bound, all in [-1, 1]; all ``nan`` where a denominator is 0.

    Raises:
        ValueError: more successes than trials, or fewer than none.
    """
    low, high = wilson(successes, trials)
    other_low, other_high = wilson(other_successes, other_trials)
    if not trials or not other_trials:
        return math.nan, math.nan, math.nan
    share, other = successes / trials, other_successes / other_trials
    difference = share - other
    below = math.hypot(share - low, other_high - other)
    above = math.hypot(high - share, other - other_low)
    return difference, difference - below, difference + above
