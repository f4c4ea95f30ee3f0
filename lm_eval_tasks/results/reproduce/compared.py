"""Comparison of what a number depends on: where it was made, and here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

__all__ = ["ABSENT", "DIFFERS", "SAME", "UNKNOWN", "Compared", "compare", "versions"]

SAME, DIFFERS, ABSENT, UNKNOWN = "same", "differs", "not here", "unknown"


class Compared(NamedTuple):
    """Something that a number depends on, there and here.

    Attributes:
        state: ``same``, ``differs``, ``not here``, or ``unknown`` where it cannot be told.
        what: it is, with its version where that is the same.
        details: both sums or versions where they differ, or why it cannot be told.
    """

    state: str
    what: str
    details: tuple[str, ...] = ()


def compare(what: str, there: Any, here: Any, kind: str) -> Compared:
    """One thing there and here: the same, or both sums or versions (`kind`)."""
    if there == here:
        return Compared(SAME, what)
    return Compared(DIFFERS, what, (f"{kind} there: {there}", f"{kind} here:  {here}"))


def versions(results: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> list[Compared]:
    """The versions of the libraries that the records name."""
    from importlib.metadata import PackageNotFoundError, version

    def here(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "none"

    there: dict[str, Any] = {}
    for record in records:
        there |= record.get("versions") or {}
    for name in ("lm_eval", "transformers"):
        said = results.get(f"{name}_version")
        if said and said != "N/A":
            there[name] = said
    return [compare(f"{name} {said}", str(said), here(name), "version") for name, said in there.items()]
