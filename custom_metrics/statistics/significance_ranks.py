"""Ranks by significance: models that do not differ share a rank.

All pairs of many models are compared at once, over the same documents and with the same draws. p is that of
:mod:`custom_metrics.statistics.paired_shares` or :mod:`custom_metrics.statistics.paired_means`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from custom_metrics.statistics.multiple_comparisons import SIGNIFICANCE, holm
from custom_metrics.statistics.paired_difference import Floats
from custom_metrics.statistics.paired_draws import ITERATIONS, SEED
from custom_metrics.statistics.paired_means_of_many import p_of_means
from custom_metrics.statistics.paired_shares import discordant, mcnemar, stratified_mcnemar

__all__ = ["all_pairs", "is_share", "ranks"]

_PAIRS_AT_ONCE = 4096


def is_share(strata: Sequence[Floats]) -> bool:
    """Whether all values are 1.0 or 0.0: their mean is a share."""
    return all(bool(np.isin(values[~np.isnan(values)], (0.0, 1.0)).all()) for values in strata)


def all_pairs(
    strata: Sequence[Floats], share: bool | None = None, iterations: int = ITERATIONS, seed: int = SEED
) -> Floats:
    """p of every pair of models, not corrected for their number.

    Args:
        strata: one language, or several for their mean: (documents, models) values, ``nan`` where a document does not
            count for a model. For a ratio of sums the values are those of
            :func:`custom_metrics.statistics.linearisation.linearised`, a row for each cluster. The corrected rates of
            one detector have the p of the detected rate.
        share: whether the values are 1.0 or 0.0; default what they are.
        iterations, seed: of the bootstrap of means.

    Returns:
        (models, models), symmetric; ``nan`` on the diagonal, and where two models have no document in common.

    Raises:
        ValueError: languages of other models, or a share of values that are neither 1 nor 0.
    """
    models = strata[0].shape[1]
    if any(values.shape[1:] != (models,) for values in strata):
        raise ValueError(f"every language has values of the same models, not of {[*map(np.shape, strata)]}")
    if share and not is_share(strata):
        raise ValueError("values of a share are 1 or 0")
    if is_share(strata) if share is None else share:
        counts = np.array([discordant(values) for values in strata])
        b, c, n = np.moveaxis(counts, 1, 0)
        p = mcnemar(b[0], c[0])[0] if len(strata) == 1 else stratified_mcnemar(b, c, n)
        p = np.where(n.sum(axis=0) > 0, p, np.nan)
    else:
        rows, columns = np.triu_indices(models, 1)
        p = np.full((models, models), np.nan)
        for start in range(0, len(rows), _PAIRS_AT_ONCE):
            first, second = rows[start : start + _PAIRS_AT_ONCE], columns[start : start + _PAIRS_AT_ONCE]
            differences = [values[:, first] - values[:, second] for values in strata]
            p[first, second] = p[second, first] = p_of_means(differences, iterations, seed)
    np.fill_diagonal(p, np.nan)
    return p


def ranks(values: Sequence[float], p: Floats, higher_is_better: bool, corrected: bool = True) -> list[int | None]:
    """Rank of each model: one more than the number of models that are significantly better.

    Args:
        values: of the models.
        p: (models, models) of :func:`all_pairs`.
        higher_is_better: whether a higher value is.
        corrected: by Holm over all pairs. Else 5 % of equal pairs are called different.

    Returns:
        ``None`` for a model without a value.
    """
    table = p.copy()
    if corrected:
        above = np.triu_indices(len(table), 1)
        table[above] = holm(table[above])
        table.T[above] = table[above]
    found = np.asarray(values)
    if not higher_is_better:
        found = -found
    better = (found[:, None] > found[None, :]) & (table < SIGNIFICANCE)  # the row's model than the column's
    return [
        None if np.isnan(value) else int(1 + number) for value, number in zip(found, better.sum(axis=0), strict=True)
    ]
