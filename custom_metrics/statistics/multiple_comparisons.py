"""Many models compared at once: the differences of all pairs, Holm's correction over one family of them, and ranks.

The rules stand here alone, for every page:

- the *family* of a correction (:func:`adjusted`),
- when one model is *better* than another (:func:`better`): by the paired difference, over what counts for both,
- the *rank* (:func:`ranks`): models that do not differ share it.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from custom_metrics.statistics.intervals import SIGNIFICANCE
from custom_metrics.statistics.paired_difference import Floats, bounds_and_p, pivots_of
from custom_metrics.statistics.paired_shares import is_share, share_differences

Model = TypeVar("Model", bound=Hashable)

_PAIRS_AT_ONCE = 256  # the arrays of their resamples are 4 MB each


def all_pairs(
    strata: Sequence[Floats], shares: bool = True, weights: Sequence[float] | None = None
) -> dict[tuple[int, int], tuple[float, float]]:
    """The paired difference of every two models, first less second, and its p, not corrected for their number.

    Args:
        strata: one language, or several for their mean: (documents, models) values, ``nan`` where a document does not
            count for a model. For a ratio of sums the values are those of
            :func:`custom_metrics.statistics.strata.linearised`, a row for each cluster. The corrected rates of
            one detector have the p of the detected rate.
        shares: whether values that are all 1.0 or 0.0 are compared as shares.
        weights: of the strata of shares; default each the same.

    Returns:
        By the places of both models, the first before the second. ``nan`` where they have no document in common.
    """
    models = strata[0].shape[1]
    if any(values.shape[1] != models for values in strata):
        raise ValueError("every language has values of the same models")
    rows, columns = np.triu_indices(models, 1)
    pairs = [*zip(rows.tolist(), columns.tolist(), strict=True)]
    if shares and is_share(strata):
        found = share_differences(strata, pairs, weights) if pairs else []
        return {pair: (each.difference, each.p) for pair, each in zip(pairs, found, strict=True)}
    tested: dict[tuple[int, int], tuple[float, float]] = {}
    for start in range(0, len(pairs), _PAIRS_AT_ONCE):
        block = slice(start, start + _PAIRS_AT_ONCE)
        pivots = pivots_of([values[:, rows[block]] - values[:, columns[block]] for values in strata])
        numbers = zip(pivots.differences.tolist(), bounds_and_p(pivots)[2].tolist(), strict=True)
        tested |= dict(zip(pairs[block], numbers, strict=True))
    return tested


class Adjusted(NamedTuple):
    """A p corrected by Holm, and the number of comparisons in its family."""

    p: float
    family: int


def adjusted(columns: Sequence[Mapping[tuple[Model, Model], float]]) -> list[dict[tuple[Model, Model], Adjusted]]:
    """The p of each column's pairs, corrected over the pair's family.

    The columns are one metric's: its languages, or a single mean over them. The family is all pairs of models in the
    column, as these decide its ranks. Where a column has but one pair, it is the same pair in all such columns: two models
    compared language by language. A ``nan`` (a comparison without data) stays ``nan``, and does not count.
    """
    families: dict[Any, list[tuple[int, tuple[Model, Model]]]] = {}
    for number, column in enumerate(columns):
        tested = [pair for pair, p in column.items() if not np.isnan(p)]
        for pair in column:
            alone = len(tested) < 2 and pair in tested
            families.setdefault(frozenset(pair) if alone else number, []).append((number, pair))
    corrected: list[dict[tuple[Model, Model], Adjusted]] = [{} for _ in columns]
    for members in families.values():
        p_values = holm([columns[number][pair] for number, pair in members])
        size = max(1, int(np.isfinite(p_values).sum()))
        for (number, pair), p in zip(members, p_values.tolist(), strict=True):
            corrected[number][pair] = Adjusted(p, size)
    return corrected


def better(difference: float, p: float, higher_is_better: bool | None) -> bool | None:
    """Whether the first of two models is better than the second, by their paired difference and corrected p. ``None``
    where that is not shown, or neither direction is better."""
    if higher_is_better is None or not p < SIGNIFICANCE:
        return None
    return (difference > 0) == higher_is_better


def ranks(competing: Collection[Model], won: Collection[tuple[Model, Model]]) -> dict[Model, int]:
    """Rank of each model that competes: one more than the number of those that are significantly better. `won` holds the
    pairs of a better and a worse model (:func:`better`)."""
    return {model: 1 + sum((other, model) in won for other in competing) for model in competing}


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
