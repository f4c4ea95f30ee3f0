"""Values of a document that bring along what the figure of all documents needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["Carried", "Clustered", "ClusteredCounts", "cluster_of", "clusters_of"]


class Carried(float):
    """A document's number that carries what the figure of all documents needs (`of`).

    Ranks of a distributed run exchange the values of metrics only, so the counts travel with the value. In files it is a
    number.
    """

    of: Any

    def __new__(cls, value: float, of: Any) -> Carried:
        number = super().__new__(cls, value)
        number.of = of
        return number

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (float(self), self.of)


class Clustered(Carried):
    """A document's number that carries the name of its cluster: what documents that hang together have in common."""


class ClusteredCounts(list[Any]):
    """A document's counts that carry the name of its cluster (`of`). In files they are a list."""

    of: Any

    def __init__(self, counts: Sequence[Any], of: Any) -> None:
        super().__init__(counts)
        self.of = of

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (list(self), self.of)


def cluster_of(value: Any) -> Any:
    """The name of a value's cluster; empty where it carries none."""
    return value.of if isinstance(value, (Clustered, ClusteredCounts)) else ""


def clusters_of(names: Sequence[Any]) -> list[Any] | None:
    """The cluster of each row by these names; a row without a name is a cluster of its own. ``None`` where all are."""
    found = [name or (place,) for place, name in enumerate(names)]
    return found if len(set(found)) < len(found) else None
