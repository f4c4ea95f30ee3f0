"""A number that brings something along."""

from __future__ import annotations

from typing import Any

__all__ = ["Carried"]


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
        return Carried, (float(self), self.of)
