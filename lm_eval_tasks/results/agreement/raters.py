"""Raters, their ratings of items, and the pairs of raters that can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from lm_eval_tasks.results.agreement.quoting import quoted, shown

__all__ = ["Key", "Pair", "Rater", "named", "names_of", "once", "pairs_of"]

Key: TypeAlias = tuple[str, str]  # id and aspect of an item; the aspect is empty where there is none


class Rater(NamedTuple):
    """A rater's rating of each item: a number, a label or a `Tagged`; ``None`` where it is missing or unread."""

    name: str
    said: Mapping[Key, Any]


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


def once(name: str, said: Iterable[tuple[str, Key, Any]], notes: list[str]) -> dict[Key, Any]:
    """One rating of each item. A readable rating wins over an unread one.

    Raises:
        ValueError: an item has two different ratings.
    """
    found: dict[Key, Any] = {}
    repeated = 0
    for where, key, value in said:
        repeated += key in found
        if found.get(key) is None:
            found[key] = value
        elif value not in (None, found[key]):
            both = f"{quoted(found[key])} before, {quoted(value)} here"
            raise ValueError(f"{where}: {named(key)} stands here a second time and differs ({both})")
    if repeated:
        notes.append(f"{name}: {repeated} rows say again what was said before; they count once.")
    return found


def pairs_of(raters: Sequence[Rater], notes: list[str]) -> list[Pair]:
    """Every two raters that judged the same items, and the number of items that only one of them judged."""
    pairs = []
    for first, second in combinations(raters, 2):
        pair = Pair(first, second, [key for key in first.said if key in second.said])
        alone = [f"{len(one.said) - len(pair.items)} in {one.name} alone" for one in pair[:2]]
        if any(len(one.said) > len(pair.items) for one in (first, second)):
            notes.append(f"{pair.name}: {len(pair.items)} in both; {', '.join(alone)}.")
        if pair.items:
            pairs.append(pair)
    if not pairs:
        some = "; ".join(f"{one.name} has {', '.join(map(named, [*one.said][:2]))}" for one in raters[:2])
        raise ValueError(f"no item was judged by two raters: {some} (--id NAME says which column holds the ids)")
    return pairs


def named(key: Key) -> str:
    """An item in a message: its id, and its aspect where it has one."""
    return quoted(key[0]) + (f" ({quoted(key[1])})" if key[1] else "")
