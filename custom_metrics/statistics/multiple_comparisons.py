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

Model = TypeVar("Model", bound=Hashable)


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
    """Whether the first model is better, by the difference and corrected p; ``None`` where neither is shown to be."""
    if higher_is_better is None or not p < SIGNIFICANCE:
        return None
    return (difference > 0) == higher_is_better


def ranks(competing: Collection[Model], won: Collection[tuple[Model, Model]]) -> dict[Model, int]:
    """Rank of each model: one more than the number of significantly better ones. `won` are pairs of better and worse."""
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
