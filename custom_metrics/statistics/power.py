"""How small a difference so many documents would show, and how many would show a given one.

A difference is *shown* if its two-sided p is under 5 %; the power is the chance of that. For a difference with a standard
error se, 80 % power needs

    difference = (z_0.975 + z_0.80) * se = 2.80 se,

so that rows with a paired variance s^2 = n se^2 must be n = (z_0.975 + z_0.80)^2 s^2 / difference^2 (normal approximation:
Chow, Shao and Wang 2008, "Sample Size Calculations in Clinical Research", section 3.2.2; of evaluations of language models
Miller 2024, "Adding Error Bars to Evals", section 5). Rows are documents, or clusters of dependent ones.

The paired variance of two shares is, without a difference, the share of discordant documents (Connor 1987, "Sample size
for testing differences in proportions for the paired-sample design"). A difference d has at least a share d of them,
however few were seen. So its variance is taken to be at least d, which makes at least 7.85 discordant documents.

All this is for one comparison. Corrected by Holm for others, a difference must be larger.
"""

from __future__ import annotations

import math

from custom_metrics.statistics.intervals import Z95

_REACH = Z95 + 0.8416212335729143  # standard errors: the second is the 80th percentile of the standard normal


def detectable_difference(standard_error: float, documents: int = 0) -> float:
    """The smallest difference that a comparison with this standard error shows with a power of 80 %.

    `documents` is the number of documents of two shares, which differ by at least 7.85 of them; 0 for other figures.
    ``nan`` where there is no variance, or a share would have to differ by more than 1.
    """
    if not standard_error > 0:
        return math.nan
    difference = max(_REACH * standard_error, _REACH**2 / documents if documents else 0.0)
    return difference if difference <= 1 or not documents else math.nan


def rows_needed(difference: float, variance: float, shares: bool = False) -> int:
    """The number of documents, or of clusters, that show a difference with a power of 80 %.

    `variance` is that of the paired difference of one document or cluster; for two `shares` of documents it is at least the
    difference. ValueError unless both are larger than 0.
    """
    if not (difference > 0 and variance > 0):
        raise ValueError(f"difference and variance must be larger than 0, got {difference:g} and {variance:g}")
    return math.ceil(_REACH**2 * (max(variance, difference) if shares else variance) / difference**2 - 1e-9)
