"""Many models compared at once: the differences of all pairs, Holm's correction over one family of them, and ranks.

The rules stand here alone, for every page:

- the *family* of a correction (:func:`adjusted`),
- when one model is *better* than another (:func:`better`): by the paired difference, over what counts for both,
- the *rank* (:func:`ranks`): models that do not differ share it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from custom_metrics.statistics.intervals import SIGNIFICANCE

Model = TypeVar("Model", bound=Hashable)
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def adjusted(columns: Sequence[tuple[Any, Any]]) -> list[tuple[Floats, Ints]]:
    """The p of each column's pairs, (pairs,), corrected by Holm over the pair's family; and the comparisons in it.

    The columns, (pairs, 2) models and (pairs,) p, are one metric's: its languages, or a single mean over them. The family
    is all pairs of models in the column, as these decide its ranks. Where a column has but one pair, it is the same pair in
    all such columns: two models compared language by language. A ``nan`` (a comparison without data) stays ``nan``, and
    does not count.
    """
    corrected: list[tuple[Floats, Ints]] = []
    families: dict[Any, list[tuple[int, Ints]]] = {}
    for number, (pairs, p) in enumerate(columns):
        known = np.flatnonzero(~np.isnan(p))
        is_alone = len(known) == 1
        families.setdefault(frozenset(pairs[known[0]]) if is_alone else number, []).append((number, known))
        corrected.append((np.full(len(pairs), np.nan), np.full(len(pairs), 1 if is_alone else max(1, len(known)))))
    for members in families.values():
        found = holm(np.concatenate([np.asarray(columns[number][1])[known] for number, known in members]))
        for (number, known), p in zip(
            members, np.split(found, np.cumsum([len(known) for _, known in members])[:-1]), strict=True
        ):
            corrected[number][0][known], corrected[number][1][known] = p, len(found)
    return corrected


def better(difference: Any, p: Any, higher_is_better: bool | None) -> Any:
    """Which model is better, by the difference and corrected p, numbers or arrays: 1 the first, -1 the second; 0 where
    neither is shown to be."""
    if higher_is_better is None:
        return np.zeros_like(p, dtype=int)
    return np.where(np.less(p, SIGNIFICANCE), np.where(np.greater(difference, 0) == higher_is_better, 1, -1), 0)


def ranks(competing: Collection[Model], won: Iterable[tuple[Model, Model]]) -> dict[Model, int]:
    """Rank of each model: one more than the number of significantly better ones. `won` are pairs of better and worse."""
    able = {*competing}
    beaten = Counter(worse for winner, worse in won if winner in able)
    return {model: 1 + beaten[model] for model in competing}


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
