"""Changes of an input: parts left out, doubled, moved and replaced by what parsers stumble over.

Drawing an input costs milliseconds, changing one microseconds. So most of 100,000 inputs are changes of drawn ones.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from random import Random
from typing import Any

from tests.fuzz.texts import ODD, WORDS

MOST = 4  # changes of an input
_VALUES = [0, 1, -1, 2**63, 0.5, -0.0, 1e308, math.nan, math.inf, None, True, "", "a", "1", [], {}, [[]], {"": None}]
_LONGEST = 2000  # characters; changes of changes would double for ever
_INSERTED = [*ODD, *WORDS, "<", ">", "{", "[", '"', "'", "\\", "&", "%", ":", ",", "-", "\r\n", "0", "NaN", "\ufeff"]


def changed(value: Any, random: Random) -> Any:
    """A value of the same type with one to four changes. The value itself stays as it is."""
    for _ in range(random.randint(1, MOST)):
        value = _once(value, random)
    return value


def _once(value: Any, random: Random) -> Any:
    if isinstance(value, str):
        return _text(value, random)
    if isinstance(value, bytes):
        return _bytes(value, random)
    if isinstance(value, tuple):
        at = random.randrange(len(value))
        return (*value[:at], _once(value[at], random), *value[at + 1 :])
    if isinstance(value, list):
        return _listed(value, random)
    if isinstance(value, dict):
        return _mapped(value, random)
    return random.choice(_VALUES)


def _text(text: str, random: Random) -> str:
    start, end = sorted(random.randint(0, len(text)) for _ in range(2))
    part = text[start:end]
    to = random.randint(0, len(text))
    made: str = random.choice(_OF_TEXT)(text, part, start, end, to, random)
    return made[:_LONGEST]


_OF_TEXT: list[Callable[[str, str, int, int, int, Random], str]] = [
    lambda text, part, start, end, to, random: text[:start] + text[end:],
    lambda text, part, start, end, to, random: text[:to] + part + text[to:],
    lambda text, part, start, end, to, random: text[:to] + random.choice(_INSERTED) + text[to:],
    lambda text, part, start, end, to, random: text[:to] + random.choice(_INSERTED) + text[to + 1 :],
    lambda text, part, start, end, to, random: text[:to] + chr(random.randrange(0x110000)) + text[to:],
    lambda text, part, start, end, to, random: text[:start] + part.swapcase() + text[end:],
    lambda text, part, start, end, to, random: text[:start] + part * random.randint(2, 5) + text[end:],
]


def _bytes(content: bytes, random: Random) -> bytes:
    """A file: one of its lines changes, as JSON where it is some, or a byte does."""
    if random.random() < 0.1:
        at = random.randint(0, len(content))
        return content[:at] + random.randbytes(1) + content[at + random.randint(0, 1) :]
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    if random.random() < 0.2:
        return "\n".join(_listed(lines, random, within=False)).encode("utf-8", "surrogateescape")
    at = random.randrange(len(lines))
    try:
        lines[at] = json.dumps(_once(json.loads(lines[at]), random))
    except (ValueError, RecursionError):
        lines[at] = _text(lines[at], random)
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _listed(values: list[Any], random: Random, within: bool = True) -> list[Any]:
    if not values:
        return [random.choice(_VALUES)] if within else [""]
    at, to = random.randrange(len(values)), random.randint(0, len(values))
    kind = random.randrange(6)
    if within and kind > 2:
        return [*values[:at], _once(values[at], random), *values[at + 1 :]]
    if kind % 3 == 0:
        return values[:at] + values[at + 1 :]
    if kind % 3 == 1:
        return [*values[:to], values[at], *values[to:]][:50]
    return [*values[at:], *values[:at]]


def _mapped(values: dict[Any, Any], random: Random) -> dict[Any, Any]:
    if not values:
        return {random.choice(["", "id", "text"]): random.choice(_VALUES)}
    key = random.choice(list(values))
    kind = random.randrange(8)
    if kind == 0:
        return {name: value for name, value in values.items() if name != key}
    if kind == 1:
        return {**values, key: random.choice(_VALUES)}
    if kind == 2:
        return {**values, key: values[random.choice(list(values))]}
    return {**values, key: _once(values[key], random)}
