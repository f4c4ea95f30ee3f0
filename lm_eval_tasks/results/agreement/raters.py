"""Raters, their ratings of items, and the pairs of raters that can be compared; and how messages and tables quote them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from custom_metrics.usage.printable import printable

__all__ = ["Key", "Pair", "Rater", "named", "names_of", "pairs_of", "quoted", "ratings_by_item", "shown"]

Key: TypeAlias = tuple[str, str]  # id and aspect of an item; the aspect is empty where there is none


class Rater(NamedTuple):
    """A rater's rating of each item: a number, a label or a `Tagged`; ``None`` where it is missing or unread."""

    name: str
    ratings: Mapping[Key, Any]


class Pair(NamedTuple):
    """Two raters and the items that both judged."""

    first: Rater
    second: Rater
    items: list[Key]

    @property
    def name(self) -> str:
        return f"{self.first.name}, {self.second.name}"


def names_of(files: Sequence[Path], columns: Sequence[str]) -> list[str]:
    """Short names that tell the raters apart.

    Raises:
        ValueError: one column of one file is named twice: it agrees with itself.
    """
    candidates = [path.name for path in files], list(columns), [f"{p}:{c}" for p, c in zip(files, columns, strict=True)]
    for names in candidates:
        if len({*names}) == len(files):
            return [shown(name) for name in names]
    raise ValueError(
        f"one column of one file is named twice: {', '.join(candidates[-1])}; for two columns --column A B"
    )


def ratings_by_item(rater: str, rows: Iterable[tuple[str, Key, Any]], notes: list[str]) -> dict[Key, Any]:
    """One rating of each item. A readable rating wins over an unread one.

    Args:
        rater: the name, for notes.
        rows: where each rating stands, its item, and the rating.
        notes: what a reader must know is added here.

    Raises:
        ValueError: an item has two different ratings.
    """
    ratings: dict[Key, Any] = {}
    repeated = 0
    for where, key, rating in rows:
        repeated += key in ratings
        if ratings.get(key) is None:
            ratings[key] = rating
        elif rating not in (None, ratings[key]):
            both = f"{quoted(ratings[key])} before, {quoted(rating)} here"
            raise ValueError(f"{where}: {named(key)} stands here a second time and differs ({both})")
    if repeated:
        notes.append(f"{rater}: {repeated} rows say again what was said before; they count once.")
    return ratings


def pairs_of(raters: Sequence[Rater], notes: list[str]) -> list[Pair]:
    """Every two raters that judged the same items. The number of items that only one of them judged goes into the notes."""
    pairs = []
    for first, second in combinations(raters, 2):
        pair = Pair(first, second, [key for key in first.ratings if key in second.ratings])
        alone = [(rater.name, len(rater.ratings) - len(pair.items)) for rater in (first, second)]
        if any(number for _, number in alone):
            numbers = ", ".join(f"{number} in {name} alone" for name, number in alone)
            notes.append(f"{pair.name}: {len(pair.items)} in both; {numbers}.")
        if pair.items:
            pairs.append(pair)
    if not pairs:
        some = "; ".join(f"{rater.name} has {', '.join(map(named, [*rater.ratings][:2]))}" for rater in raters[:2])
        raise ValueError(f"no item was judged by two raters: {some} (--id NAME says which column holds the ids)")
    return pairs


def named(key: Key) -> str:
    """An item in a message: its id, and its aspect where it has one."""
    return quoted(key[0]) + (f" ({quoted(key[1])})" if key[1] else "")


def quoted(value: Any) -> str:
    """A value in a message: short, and without what could act on a terminal."""
    quoted = f"{value:g}" if isinstance(value, float) else repr(value)
    return quoted if len(quoted) <= 60 else f"{quoted[:57]}..."


def shown(text: str) -> str:
    """A name in a table: on one line, short, and without what could act on a terminal."""
    text = " ".join(printable(text).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
