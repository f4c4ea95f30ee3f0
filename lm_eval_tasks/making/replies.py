"""What became of a model's reply: the rows that were made of it, and what was left out for which reason."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

__all__ = ["Reading", "kept", "left_out"]


class Reading(NamedTuple):
    """A reply, read.

    Attributes:
        rows: what was made, each the fields that the reply adds to its document.
        reasons: how many parts of the reply were left out, by reason.
    """

    rows: list[dict[str, Any]]
    reasons: Counter[str]


def kept(**fields: Any) -> Reading:
    """A reply of which all is kept, as one row."""
    return Reading([fields], Counter())


def left_out(reason: str) -> Reading:
    """A reply of which nothing is kept."""
    return Reading([], Counter([reason]))
