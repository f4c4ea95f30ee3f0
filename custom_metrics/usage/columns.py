"""Arguments of functions that take one text or a list of them: what belongs to a text is one value, or a list as long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from custom_metrics.usage.plain_errors import UsageError

Texts: TypeAlias = "str | Sequence[str]"


def rows_of(texts: Texts, **columns: Any) -> list[tuple[Any, ...]]:
    """Each text with its value of every column. A column of a list of texts is one value for all, or a list as long; a
    UsageError where it is shorter or longer, or something is no text."""
    if isinstance(texts, str):
        return [(texts, *columns.values())]
    if not isinstance(texts, Iterable) or isinstance(texts, (bytes, Mapping)):
        raise UsageError(f"expected a text or a list of texts, got {type(texts).__name__}: {texts!r:.60}")
    texts = [text_of(text, f"text {place}") for place, text in enumerate(texts)]
    filled = []
    for name, column in columns.items():
        values = [column] * len(texts) if column is None or isinstance(column, str) else list(column)
        if len(values) != len(texts):
            raise UsageError(f"{len(texts)} texts, but {len(values)} for {name}: {values!r:.60}")
        filled.append(values)
    return list(zip(texts, *filled, strict=True))


def text_of(value: Any, name: str) -> str:
    """The value if it is a text; else a UsageError."""
    if not isinstance(value, str):
        raise UsageError(f"{name} is {type(value).__name__}, not a text: {value!r:.60}")
    return value
