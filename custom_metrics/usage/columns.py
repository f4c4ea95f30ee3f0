"""Functions of a text that also take a list of texts: what belongs to each is then one value for all, or a list as long.

A list is also a tuple, an array or a Series (:func:`listed`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Set
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, cast, overload

from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import excerpt

P = ParamSpec("P")
T = TypeVar("T")
Texts: TypeAlias = "list[str] | tuple[str, ...]"


class OneOrMany(Protocol[P, T]):
    """A function of a text, and of a list of texts."""

    @overload
    def __call__(self, text: str, /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    def __call__(self, text: Texts, /, *args: Any, **kwargs: Any) -> list[T]: ...


def one_or_many(function: Callable[Concatenate[str, P], T]) -> OneOrMany[P, T]:
    """Let a function of a text take a list of texts, and return a list then. Errors are those of :func:`rows_of`."""
    signature, single = inspect.signature(function), cast("Callable[..., T]", function)

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        first, *names = bound.arguments
        texts = bound.arguments[first]
        rows = rows_of(texts, **{name: bound.arguments[name] for name in names})
        if isinstance(texts, str):
            return single(*rows[0])
        values = []
        for place, row in enumerate(rows):
            try:
                values.append(single(*row))
            except UsageError as error:
                raise UsageError(f"text {place}: {error}") from None
        return values

    return called


def rows_of(texts: str | Texts, **columns: Any) -> list[tuple[Any, ...]]:
    """Each text with its value of every column. A UsageError where a column is shorter or longer than the texts, or
    something is no text."""
    if isinstance(texts, str):
        return [(texts, *columns.values())]
    texts = [text_of(text, f"text {place}") for place, text in enumerate(listed(texts, "text"))]
    filled = []
    for name, column in columns.items():
        is_list = isinstance(column, Iterable) and not isinstance(column, str)
        values = listed(column, name, "values") if is_list else [column] * len(texts)
        if len(values) != len(texts):
            raise UsageError(f"{len(texts)} texts, but {len(values)} for {name}: {excerpt(values)}")
        filled.append(values)
    return list(zip(texts, *filled, strict=True))


def listed(values: Any, name: str, kind: str = "texts") -> list[Any]:
    """The values of a list, a tuple, a NumPy array, a pandas Series, or whatever else has them in order. A UsageError for a
    text, bytes, a dict, a set, a DataFrame, and what has no values."""
    dimensions: int = getattr(values, "ndim", 1)
    if hasattr(values, "tolist") and dimensions:
        return list(values.tolist())
    is_table, is_scalar = hasattr(values, "columns"), not dimensions
    no_list = isinstance(values, (str, bytes, bytearray, Mapping, Set)) or not isinstance(values, Iterable)
    if no_list or is_table or is_scalar:
        wrong = "; pass one of its columns" if is_table else "; it has no order" if isinstance(values, Set) else ""
        one = "a text or " if kind == "texts" else ""
        raise UsageError(
            f"{name}: expected {one}a list of {kind}, got {type(values).__name__}{wrong or f': {excerpt(values)}'}"
        )
    return list(values)


def flag_of(value: Any, name: str) -> bool:
    """The value if it is true or false; else a UsageError."""
    if not isinstance(value, bool):
        raise UsageError(f"{name} is True or False, got {type(value).__name__}")
    return value


def text_of(value: Any, name: str) -> str:
    """The value if it is a text; else a UsageError."""
    if not isinstance(value, str):
        raise UsageError(f"{name} is {type(value).__name__}, not a text: {excerpt(value)}")
    return value
