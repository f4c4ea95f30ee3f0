"""Options as Python and the command line give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from detector_plugin.detector import UnusableDetector

__all__ = ["flag", "number", "one_of"]


def one_of(option: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise UnusableDetector(f"option {option}: {value!r} is none of {', '.join(known)}")


def number(option: str, value: Any, kind: Any, least: float, most: float = float("inf")) -> Any:
    try:
        found = kind(value)
        if isinstance(value, bool) or found != float(value) or not least <= found <= most:
            raise ValueError
    except (TypeError, ValueError):
        what = "a whole number" if kind is int else "a number"
        span = f"from {least} to {most}" if most != float("inf") else f"from {least} on"
        raise UnusableDetector(f"option {option}: {value!r} is not {what} {span}") from None
    return found


def flag(option: str, value: Any) -> bool:
    known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if str(value).casefold() not in known:
        raise UnusableDetector(f"option {option}: {value!r} is neither True nor False")
    return known[str(value).casefold()]
