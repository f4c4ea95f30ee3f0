"""All pairs of many models compared at once, Holm's correction, and ranks by significance: models that do not differ share
a rank.

Pairs are compared over the same documents and with the same draws. p is that of
:mod:`custom_metrics.statistics.paired_shares` or :mod:`custom_metrics.statistics.paired_difference`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custom_metrics.statistics.intervals import SIGNIFICANCE
from custom_metrics.statistics.paired_difference import Floats, bounds_and_p, pivots_of
from custom_metrics.statistics.paired_shares import discordant, mcnemar, stratified_mcnemar

_PAIRS_AT_ONCE = 256  # the arrays of their resamples are 4 MB each


def is_share(strata: Sequence[Floats]) -> bool:
    """Whether all values are 1.0 or 0.0: their mean is a share."""
    return all(bool(np.isin(values[~np.isnan(values)], (0.0, 1.0)).all()) for values in strata)


def all_pairs(strata: Sequence[Floats], shares: bool = True) -> Floats:
    """p of every pair of models, not corrected for their number.

    Args:
        strata: one language, or several for their mean: (documents, models) values, ``nan`` where a document does not
            count for a model. For a ratio of sums the values are those of
            :func:`custom_metrics.statistics.strata.linearised`, a row for each cluster. The corrected rates of
            one detector have the p of the detected rate.
        shares: whether values that are all 1.0 or 0.0 are compared as shares.

    Returns:
        (models, models), symmetric; ``nan`` on the diagonal, and where two models have no document in common.
    """
    models = strata[0].shape[1]
    if any(values.shape[1] != models for values in strata):
        raise ValueError("every language has values of the same models")
    if shares and is_share(strata):
        b, c, n = np.moveaxis(np.array([discordant(values) for values in strata]), 1, 0)
        p = mcnemar(b[0], c[0])[0] if len(strata) == 1 else stratified_mcnemar(b, c, n)
        p = np.where(n.sum(axis=0) > 0, p, np.nan)
    else:
        rows, columns = np.triu_indices(models, 1)
        p = np.full((models, models), np.nan)
        for start in range(0, len(rows), _PAIRS_AT_ONCE):
            first, second = rows[start : start + _PAIRS_AT_ONCE], columns[start : start + _PAIRS_AT_ONCE]
            differences = [values[:, first] - values[:, second] for values in strata]
            p[first, second] = p[second, first] = bounds_and_p(pivots_of(differences))[2]
    np.fill_diagonal(p, np.nan)
    return p


def ranks(values: Sequence[float], p: Floats, higher_is_better: bool) -> list[int | None]:
    """Rank of each model: one more than the number of models that are significantly better, by the p of :func:`all_pairs`
    and Holm's correction. ``None`` for a model without a value."""
    table = p.copy()
    above = np.triu_indices(len(table), 1)
    table[above] = table.T[above] = holm(table[above])
    scores = np.asarray(values) if higher_is_better else -np.asarray(values)
    better = (scores[:, None] > scores[None, :]) & (table < SIGNIFICANCE)  # the row's model than the column's
    return [
        None if np.isnan(score) else int(1 + number) for score, number in zip(scores, better.sum(axis=0), strict=True)
    ]


def holm(p_values: Sequence[float] | NDArray[Any]) -> NDArray[np.float64]:
    """Adjusted p values (Holm 1979, "A simple sequentially rejective multiple test procedure").

    With those under :data:`SIGNIFICANCE` called significant, the chance that any true hypothesis of the family is among
    them is at most 5 %, however the comparisons depend on each other.

    ``nan`` (a comparison without data) stays ``nan``, and does not count. ValueError for what is no p value.
    """
    p = np.asarray(p_values, dtype=float)
    if (p < 0).any() or (p > 1).any():
        raise ValueError("p values are between 0 and 1")
    adjusted = np.full(p.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested])]  # equal ones become equal in any order
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * factors))
    return adjusted
