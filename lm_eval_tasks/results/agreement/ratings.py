"""Ratings of items: numbers of a scale, or labels without an order."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from custom_metrics.statistics.agreement import (
    cohen_kappa,
    contingency_table,
    equal_share,
    kendall_tau_b,
    quadratic_weights,
)
from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.results.agreement.raters import Pair, Rater, quoted
from lm_eval_tasks.results.agreement.results import Result, Table, estimates_of

__all__ = ["compare_ratings", "rating_of"]

_LARGEST_SCALE = 101  # 0 to 100; more different ratings are measurements or free texts
_ALL = "all aspects"


def compare_ratings(pairs: Iterable[Pair], raters: Sequence[Rater], notes: list[str]) -> list[Result]:
    """Each pair on each aspect, and on all of them together where there are several."""
    ratings = dict.fromkeys(rating for rater in raters for rating in rater.ratings.values() if rating is not None)
    if len(ratings) > _LARGEST_SCALE:
        some = ", ".join(map(quoted, [*ratings][:3]))
        raise ValueError(
            f"{len(ratings)} different ratings ({some}, ...) are no scale; --column NAME says where they are"
        )
    labels = [rating for rating in ratings if isinstance(rating, str)]
    statistics: dict[str, Callable[[Table], Table] | None] = {"exact": equal_share, "kappa": cohen_kappa}
    if labels:
        scale = sorted(ratings, key=str)
        statistics |= {"weighted kappa": None, "tau-b": None}
        where = next(rater.name for rater in raters if labels[0] in rater.ratings.values())
        notes.append(f"No order (so no weighted kappa, no tau-b): {quoted(labels[0])} in {where} is no number.")
    else:
        scale = sorted(ratings)
        weights = quadratic_weights(scale)
        statistics |= {"weighted kappa": lambda tables: cohen_kappa(tables, weights), "tau-b": kendall_tau_b}
    numbers = {rating: number for number, rating in enumerate(scale)}
    results = []
    for pair in pairs:
        aspects = sorted({aspect for _, aspect in pair.items})
        for group in [*aspects, _ALL] if len(aspects) > 1 else aspects:
            items = [key for key in pair.items if group in (_ALL, key[1])]
            by_id: dict[str, list[tuple[int, int]]] = defaultdict(list)  # the aspects of one answer are no two answers
            for key in items:
                both = pair.first.ratings[key], pair.second.ratings[key]
                if None not in both:
                    by_id[key[0]].append((numbers[both[0]], numbers[both[1]]))
            rated = sum(map(len, by_id.values()))
            tables = [contingency_table(both, len(scale)) for both in by_id.values()]
            counts = {"items": rated, "unread": len(items) - rated}
            results.append(Result(pair.name, group or "-", counts, estimates_of(tables, statistics, len(scale))))
    return results


def rating_of(where: str, value: Any) -> float | str | None:
    """A finite number, else a label; ``None`` for what says that there is none."""
    if value is None:
        return None
    if not isinstance(value, (str, int, float)):
        raise CorruptSource(f"{where}: a rating is a number or a label, found {quoted(value)}")
    label = str(value).strip()
    if label.lower() in ("", "nan", "unread"):
        return None
    try:
        number = float(label)
    except ValueError:
        return label
    return number if math.isfinite(number) and "_" not in label else label  # Python reads 1_0 as 10
