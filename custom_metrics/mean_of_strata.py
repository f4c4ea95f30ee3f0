"""The mean of figures over independent strata, such as languages, in which each stratum counts the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from custom_metrics.figures import UNDEFINED, Figure

__all__ = ["mean_of_strata"]


def mean_of_strata(figures: Sequence[Figure]) -> Figure:
    """The mean of the strata's values with 95 % bounds.

    The variance of a mean of k independent figures is the sum of their variances over k squared. It is recovered from each
    stratum's own bounds, apart for either side (MOVER: Zou and Donner 2008, "Construction of confidence limits about effect
    measures: a general approach", Statistics in Medicine 27, equations 6 and 7; for shares with Wilson's bounds Zou, Huang
    and Zhang 2009, Computational Statistics and Data Analysis 53): the lower bound is the mean less
    sqrt(sum((value - low)^2)) / k, the upper one the mean and sqrt(sum((high - value)^2)) / k. So a stratum where 0 of 4
    were counted adds its uncertainty, where a standard error of 0 would add none, and the bounds stay inside of [0, 1].

    Args:
        figures: of the strata. Undefined ones are left out.

    Returns:
        A figure whose ``n`` is the sum of theirs. Undefined where no stratum is defined. Bounds, or the standard error, are
        ``nan`` where a stratum has none.
    """
    defined = [figure for figure in figures if not math.isnan(figure.value)]
    if not defined:
        return UNDEFINED
    if len(defined) == 1:
        return defined[0]
    mean, number = fmean(figure.value for figure in defined), len(defined)
    below = math.hypot(*(figure.value - figure.low for figure in defined)) / number
    above = math.hypot(*(figure.high - figure.value for figure in defined)) / number
    error = math.hypot(*(figure.standard_error for figure in defined)) / number
    return Figure(mean, mean - below, mean + above, error, sum(figure.n for figure in defined))
