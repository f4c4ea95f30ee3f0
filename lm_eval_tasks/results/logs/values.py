"""Values as tools store them: texts that hold JSON or what Python and numpy print of lists and objects (:func:`decoded`),
and names with dots and numbers, or OTLP's lists of keys and values, for fields within fields (:func:`nested`)."""

from __future__ import annotations

import ast
import json
import re
import warnings
from functools import lru_cache
from typing import Any

_BEGINNINGS = ("[", "{", '"')
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


def decoded(value: Any) -> Any:
    """What a text holds that is JSON, or a list or object as Python prints it, also within quotes; else the value."""
    return _decoded(value) if isinstance(value, str) and value.lstrip()[:1] in _BEGINNINGS else value


@lru_cache(maxsize=64)  # as several fields lead into a text
def _decoded(text: str) -> Any:
    try:
        return decoded(nested(json.loads(text)))
    except (ValueError, RecursionError):
        pass
    try:
        is_text = text.lstrip()[:1] == '"' or len(text) > _LONGEST
        return (
            text if is_text else nested(json.loads(_as_json(text), object_hook=lambda fields: fields.get("", fields)))
        )
    except (ValueError, SyntaxError, RecursionError):
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
        if kind in ("text", "number", "word", "key", "call", "open") and is_whole:
            if not is_apart:
                raise ValueError("a part of something")
            made.append(",")
        if kind in ("text", "number", "word"):
            if kind == "text":
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of escapes in the text, which they would quote
                    token = json.dumps(ast.literal_eval(token))
            made += ['"":'] * (made[-1:] == ["{("]) + [token if kind != "word" else _WORDS.get(token, "null")]
        elif kind == "key":
            made.append(json.dumps(token) + ":")
        elif kind == "colon" and made:
            made += [":"] if made[-1].startswith('"') else [json.dumps(made.pop()), ":"]
        elif kind in ("call", "open"):
            made += ['"":'] * (made[-1:] == ["{("]) + ["{(" if kind == "call" else token.replace("(", "[")]
            closing.append("}" if kind == "call" else _CLOSING[token])
        elif kind == "close":
            made = made[:-1] if made[-1:] == [","] else made  # as behind the one part of a tuple
            made.append(closing.pop() if closing else token)
        elif kind == "comma":
            made.append(",")
        is_apart = kind == "space"
        is_whole = is_whole if is_apart else kind in ("text", "number", "word", "close")
    return "".join(made).replace("{(", "{")


def nested(value: Any) -> Any:
    """Names with dots as fields within fields, and numbers among them as places: ``documents.0.content`` becomes
    ``documents[0].content``. OTLP's list of keys and values becomes an object."""
    if isinstance(value, list):
        if value and all(isinstance(part, dict) and part.keys() == {"key", "value"} for part in value):
            return nested({str(part["key"]): _otlp(part["value"]) for part in value})
        return [nested(part) for part in value]
    if not isinstance(value, dict):
        return value
    made = {name: nested(part) for name, part in value.items()}
    for name in filter(_DOTTED.fullmatch, value):
        *steps, last = name.split(".")
        at: Any = made
        for step in steps:
            at = at.setdefault(step, {}) if isinstance(at, dict) else at
        if isinstance(at, dict):
            at.setdefault(last, made.pop(name))
    return _with_places(made) if made.keys() != value.keys() else made


def _with_places(value: Any) -> Any:
    if not isinstance(value, dict):
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
