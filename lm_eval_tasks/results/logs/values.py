"""Values as tools store them, read once for a whole record (:func:`stored`): texts that hold JSON or what Python and numpy
print of lists and objects, names with dots and numbers, and OTLP's lists of keys and values."""

from __future__ import annotations

import ast
import json
import re
import warnings
from typing import Any

_LONGEST = 4 << 20  # characters of a text that is read as Python prints it
_TEXT = r"""[bru]?(?:'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*")"""
# What Python prints of values, none of which touches the one before it. All else, such as a name or a sum, is code.
_PRINTED = re.compile(
    rf"""(?<![\w.'")\]}}])(?:{_TEXT}|-?\d+(?:\.\d*)?(?:e[-+]?\d+)?|(?:None|True|False|nan|object)\b|[A-Za-z_]\w*=
    |(?:[a-z_]\w*\.){{,3}}(?:[A-Z]\w*|array|list|str_|float\d+|int\d+)\(|[\[({{])|[\])}},:\s]|(?P<code>.)""",
    re.DOTALL | re.VERBOSE,
)
_BETWEEN = re.compile(rf"""{_TEXT}|(?<=[\w.'")\]}}])\s+(?=[\w'"\[({{-])""", re.DOTALL)  # texts; and values of numpy
_DOTTED = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)+")
# What a text holds, which has the text; JMESPath's functions know it by its type's name.
_HELD: dict[type, Any] = {kind: type(kind.__name__, (kind,), {"text": ""}) for kind in (list, dict)}


def stored(value: Any) -> Any:
    """A value with its texts, names and numbers read: what a text holds has that text (:func:`text_of`), and
    ``documents.0.content`` becomes ``documents[0].content``. RecursionError where it is nested too deeply."""
    if isinstance(value, str):
        return _held(value) if value.lstrip()[:1] in ("[", "{", '"') else value
    if isinstance(value, dict) and text_of(value) is None:
        return _undotted({name: stored(part) for name, part in value.items()})
    if not isinstance(value, list) or text_of(value) is not None:
        return value
    if value and all(isinstance(part, dict) and part.keys() == {"key", "value"} for part in value):
        return stored({str(part["key"]): _otlp(part["value"]) for part in value})
    return [*map(stored, value)]


def text_of(value: Any) -> str | None:
    """A text, or the one that holds the value."""
    return value if isinstance(value, str) else getattr(value, "text", None)


def _held(text: str) -> Any:
    for read in (json.loads, _printed):
        try:
            value = stored(read(text))
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if not isinstance(value, (list, dict)):
            return value if isinstance(value, str) else text
        held = _HELD[list if isinstance(value, list) else dict](value)
        held.text = text_of(value) or text
        return held
    return text


def _printed(text: str) -> Any:
    """The value that Python printed, or numpy, which prints no commas. ValueError for anything else, such as code, which
    is not parsed: some of it ends the process."""
    if len(text) > _LONGEST or text.lstrip()[0] == '"' or any(each["code"] for each in _PRINTED.finditer(text)):
        raise ValueError("not what Python prints")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes in the text, which they would quote
        return _value(ast.parse(_BETWEEN.sub(lambda each: each[0].strip() or ",", text).strip(), mode="eval").body)


def _value(node: ast.expr) -> Any:
    """The value of an expression; of a call its one argument, or those that have names."""
    match node:
        case ast.Constant(value=str() | int() | float() | None as value):
            return value
        case ast.List(parts) | ast.Tuple(parts):
            return [*map(_value, parts)]
        case ast.Dict(keys, values):
            return {str(key and _value(key)): _value(part) for key, part in zip(keys, values, strict=True)}
        case ast.Call(args=[value]):
            return _value(value)
        case ast.Call(args=[], keywords=named):
            return {str(each.arg): _value(each.value) for each in named}
        case ast.UnaryOp(operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.Name():  # nan, or the type of an array
            return None
    raise ValueError("code")


def _undotted(value: dict[str, Any]) -> Any:
    dotted = [*filter(_DOTTED.fullmatch, value)]
    for name in dotted:
        *steps, last = name.split(".")
        at: Any = value
        for step in steps:
            at = at.setdefault(step, {}) if isinstance(at, dict) else at
        if isinstance(at, dict):
            at.setdefault(last, value.pop(name))
    return _with_places(value) if dotted else value


def _with_places(value: Any) -> Any:
    if not isinstance(value, dict) or text_of(value) is not None:
        return value
    value = {name: _with_places(part) for name, part in value.items()}
    if value and all(isinstance(name, str) and name.isdecimal() for name in value):
        return [value[name] for name in sorted(value, key=int)]
    return value


def _otlp(value: Any) -> Any:
    """A value of OTLP's JSON, which names its type: ``{"intValue": "3"}``."""
    match [*value.items()] if isinstance(value, dict) else []:
        case [("arrayValue", dict(content))]:
            return [*map(_otlp, content.get("values") or [])]
        case [("kvlistValue", dict(content))]:
            return content.get("values") or []
        case [(_, content)]:
            return content
    return value
