"""Values as tools store them, read once for a whole record (:func:`stored`): texts that hold JSON or what Python and numpy
print of lists and objects, names with dots and numbers, and OTLP's lists of keys and values."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Callable
from typing import Any

_LONGEST = 4 << 20  # characters of a text that is read as Python prints it
# What Python prints of a value, without names, sums and parts, which are code.
_TOKEN = re.compile(
    r"""[bru]?(?P<text>'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*")"""
    r"|(?P<number>-?\d+(?:\.\d*)?(?:e[-+]?\d+)?)|(?P<word>None|True|False|nan|object)\b|(?P<key>[A-Za-z_]\w*)="
    r"|(?P<call>(?:[a-z_]\w*\.)*(?:[A-Z]\w*|array|list|str_|float\d+|int\d+)\()"
    r"|(?P<open>[\[({])|(?P<close>[\])}])|(?P<comma>,)|(?P<colon>:)|(?P<space>\s+)",
    re.DOTALL,
)
_DOTTED = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)+")
_WORDS = {"True": "true", "False": "false"}
_CLOSING = {"[": "]", "(": "]", "{": "}"}


class _List(list[Any]):
    """A list that a text holds."""

    text = ""


class _Object(dict[str, Any]):
    """An object that a text holds."""

    text = ""


_List.__name__, _Object.__name__ = "list", "dict"  # by which JMESPath's functions know them


def stored(value: Any) -> Any:
    """A value with its texts, names and numbers read: what a text holds has that text (:func:`text_of`), and
    ``documents.0.content`` becomes ``documents[0].content``. RecursionError where it is nested too deeply."""
    if isinstance(value, str):
        return _held(value) if value.lstrip()[:1] in ("[", "{", '"') else value
    if text_of(value) is not None:
        return value
    if isinstance(value, list):
        if value and all(isinstance(part, dict) and part.keys() == {"key", "value"} for part in value):
            return stored({str(part["key"]): _otlp(part["value"]) for part in value})
        return [stored(part) for part in value]
    return _undotted(value) if isinstance(value, dict) else value


def text_of(value: Any) -> str | None:
    """A text, or the one that holds the value."""
    return value if isinstance(value, str) else getattr(value, "text", None)


def _held(text: str) -> Any:
    readers: list[Callable[[str], Any]] = [json.loads]
    if text.lstrip()[0] != '"' and len(text) <= _LONGEST:
        readers.append(lambda text: json.loads(_as_json(text), object_hook=lambda fields: fields.get("", fields)))
    for read in readers:
        try:
            value = stored(read(text))
        except (ValueError, SyntaxError, RecursionError):
            continue
        if not isinstance(value, (list, dict)):
            return value if isinstance(value, str) else text
        held: Any = _List(value) if isinstance(value, list) else _Object(value)
        held.text = text_of(value) or text
        return held
    return text


def _as_json(text: str) -> str:
    """What Python printed, as JSON: of a call the arguments by name, or its first one. numpy prints no commas. ValueError
    for anything else, such as code."""
    made, closing, at, is_whole, is_apart = list[str](), list[str](), 0, False, True
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError("not what Python prints")
        kind, token, at = str(match.lastgroup), match[str(match.lastgroup)], match.end()
        if kind in ("text", "number", "word", "key", "call", "open"):
            if is_whole and not is_apart:
                raise ValueError("a part of something")
            made += [","] * is_whole + ['"":'] * (kind != "key" and made[-1:] == ["{("])
        if kind == "text":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of escapes in the text, which they would quote
                made.append(json.dumps(ast.literal_eval(token)))
        elif kind == "colon" and made:
            made += [":"] if made[-1].startswith('"') else [json.dumps(made.pop()), ":"]
        elif kind in ("call", "open"):
            made.append("{(" if kind == "call" else token.replace("(", "["))
            closing.append("}" if kind == "call" else _CLOSING[token])
        elif kind == "close":
            made = made[:-1] if made[-1:] == [","] else made  # as behind the one part of a tuple
            made.append(closing.pop() if closing else token)
        elif kind != "space":
            made.append({"key": json.dumps(token) + ":", "word": _WORDS.get(token, "null")}.get(kind, token))
        is_apart = kind == "space"
        is_whole = is_whole if is_apart else kind in ("text", "number", "word", "close")
    return "".join(made).replace("{(", "{")


def _undotted(value: dict[str, Any]) -> Any:
    made = {name: stored(part) for name, part in value.items()}
    for name in filter(_DOTTED.fullmatch, value):
        *steps, last = name.split(".")
        at: Any = made
        for step in steps:
            at = at.setdefault(step, {}) if isinstance(at, dict) else at
        if isinstance(at, dict):
            at.setdefault(last, made.pop(name))
    return _with_places(made) if made.keys() != value.keys() else made


def _with_places(value: Any) -> Any:
    if not isinstance(value, dict) or isinstance(value, _Object):
        return value
    value = {name: _with_places(part) for name, part in value.items()}
    if value and all(isinstance(name, str) and name.isdecimal() for name in value):
        return [value[name] for name in sorted(value, key=int)]
    return value


def _otlp(value: Any) -> Any:
    """A value of OTLP's JSON, which names its type: ``{"intValue": "3"}``."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((kind, content),) = value.items()
    if kind in ("arrayValue", "kvlistValue") and isinstance(content, dict):
        parts = content.get("values") or []
        return [_otlp(part) for part in parts] if kind == "arrayValue" else parts
    return content
