"""Names and values of files in messages and tables: short, and without what could act on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from custom_metrics.usage.printable import printable

__all__ = ["columns_of", "quoted", "shown"]


def quoted(value: Any) -> str:
    """A value in a message: short, and without what could act on a terminal."""
    quoted = f"{value:g}" if isinstance(value, float) else repr(value)
    return quoted if len(quoted) <= 60 else f"{quoted[:57]}..."


def shown(text: str) -> str:
    """A name in a table: on one line, short, and without what could act on a terminal."""
    text = " ".join(printable(text).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def columns_of(rows: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    """The first columns of some rows, for a message."""
    names = dict.fromkeys(name for _, row in rows for name in row)
    return ", ".join(map(quoted, [*names][:12])) + (", ..." if len(names) > 12 else "")
