"""Functions of a text that also take a list of texts: what belongs to each is then one value for all, or a list as long."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, cast, overload

from custom_metrics.usage.plain_errors import UsageError

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
        values = [single(*row) for row in rows_of(texts, **{name: bound.arguments[name] for name in names})]
        return values[0] if isinstance(texts, str) else values

    return called


def rows_of(texts: str | Texts, **columns: Any) -> list[tuple[Any, ...]]:
    """Each text with its value of every column. A UsageError where a column is shorter or longer than the texts, or
    something is no text."""
    if isinstance(texts, str):
        return [(texts, *columns.values())]
    if not isinstance(texts, Iterable) or isinstance(texts, (bytes, Mapping)):
        raise UsageError(f"expected a text or a list of texts, got {type(texts).__name__}: {texts!r:.60}")
    texts = [text_of(text, f"text {place}") for place, text in enumerate(texts)]
    filled = []
    for name, column in columns.items():
        is_list = isinstance(column, Iterable) and not isinstance(column, str)
        values = list(column) if is_list else [column] * len(texts)
        if len(values) != len(texts):
            raise UsageError(f"{len(texts)} texts, but {len(values)} for {name}: {values!r:.60}")
        filled.append(values)
    return list(zip(texts, *filled, strict=True))


def text_of(value: Any, name: str) -> str:
    """The value if it is a text; else a UsageError."""
    if not isinstance(value, str):
        raise UsageError(f"{name} is {type(value).__name__}, not a text: {value!r:.60}")
    return value
