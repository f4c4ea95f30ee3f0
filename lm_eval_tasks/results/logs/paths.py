"""Where a value stands in a record: ``outputs.documents[].page_content``.

=====================  ==========================================================================================
``a.b``                the field ``b`` of the field ``a``, or the field ``a.b``, as OpenTelemetry names its attributes
``a[]``                each part of a list; of what is no list, itself
``a[0]``, ``a[-1]``    one part of a list
``a[role=user]``       the parts of a list whose field ``role`` is ``user``; before all names, the record if it is so
``a:START...END``      the texts within ``a`` that stand between two marks; without END, to the end of the text
=====================  ==========================================================================================

A name after a list is a field of each of its parts. A text that holds JSON, or a Python list as pandas writes it to CSV, is
read as what it holds where a path leads into it. OTLP's lists of ``{"key", "value"}`` count as objects.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import takewhile
from typing import Any, NamedTuple, TypeAlias

from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import excerpt

_Step: TypeAlias = "str | int | tuple[str, str] | None"  # a name, a place in a list, a condition, each
_STEP = re.compile(r"(?:^|\.)(?P<name>[^.\[\]]+)|\[(?:(?P<place>-?\d+)|(?P<field>[^\[\]=]+)=(?P<wanted>[^\[\]]*))?\]")
_LONGEST_CELL = 4 << 20  # characters of a cell that is read as a Python list
_TOKEN = re.compile(
    r"""'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"|['"]|\b\d+(?:\.\d*)?(?:e[+-]?\d+)?\b""", re.DOTALL
)
_LITERAL = re.compile(r"(?:[\[\]{}(),:\s0-]|None|True|False)*")
_APPLIED = re.compile(r"[\w\])}]\s*[\[({-]|-\s*-")  # a call, a part of something, a difference


class FieldPath(NamedTuple):
    """A path as it was written, and what it is made of; see :func:`field_path`."""

    text: str
    steps: tuple[_Step, ...]
    marks: tuple[str, str] | None
    heads: frozenset[str] = frozenset()  # fields of which a record has one, or nothing stands there

    def values(self, record: Any) -> list[Any]:
        """What stands there, in order, without nulls and empty texts."""
        if self.heads and isinstance(record, dict) and self.heads.isdisjoint(record):
            return []  # of most paths, which are those of other tools
        values = [value for value in _walk(record, self.steps) if value is not None and value not in ("", [])]
        if self.marks is None:
            return values
        start, end = (re.escape(mark) for mark in self.marks)
        between = re.compile(f"{start}(.*?){end or chr(92) + 'Z'}", re.DOTALL)
        texts = (between.findall(value) for value in values if isinstance(value, str))
        return [found.strip() for each in texts for found in each if found.strip()]


@lru_cache(maxsize=1024)
def field_path(text: str) -> FieldPath:
    """Read a path; UsageError where it is none."""
    place, _, marks = text.partition(":") if "..." in text else (text, "", "")
    steps, at = list[_Step](), 0
    while match := _STEP.match(place, at):
        at = match.end()
        if match["field"]:
            steps.append((match["field"], match["wanted"]))
        else:
            steps.append(match["name"] or (int(match["place"]) if match["place"] else None))
    if at < len(place) or not steps:
        raise UsageError(
            f"{excerpt(text)} is not a path of a field; write it as answer, outputs.answer or contexts[].text"
        )
    start, _, end = marks.partition("...")
    return FieldPath(text, tuple(steps), (start, end) if start else None, frozenset(_heads(tuple(steps))))


def data_of(text: str) -> Any:
    """What a text holds that is JSON or a Python list; the text where it is neither."""
    if text.lstrip()[:1] not in ("[", "{"):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    if len(text) > _LONGEST_CELL or not _is_literal(text):
        return text
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in the text, which they would quote
            return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def _is_literal(text: str) -> bool:
    """Whether a text has nothing but texts, numbers, names of constants, brackets and commas. Python 3.10 crashes on what
    ``ast.literal_eval`` would refuse if that is nested deeply enough: sums, attributes, parts of parts."""
    rest, at = [], 0
    for match in _TOKEN.finditer(text):
        if match[0] in ("'", '"'):  # a quotation without an end
            return False
        rest += [text[at : match.start()], "0"]
        at = match.end()
    shape = "".join([*rest, text[at:]])
    return bool(_LITERAL.fullmatch(shape)) and not _APPLIED.search(shape)


def _walk(value: Any, steps: tuple[_Step, ...]) -> Iterator[Any]:
    if not steps:
        yield value
        return
    if isinstance(value, str):
        value = data_of(value)
    step, is_list = steps[0], isinstance(value, list)
    if step is None:
        for part in value if is_list else [value]:
            yield from _walk(part, steps[1:])
    elif isinstance(step, int):
        if is_list and -len(value) <= step < len(value):
            yield from _walk(value[step], steps[1:])
    elif isinstance(step, tuple):
        field, wanted = step[0].split("."), step[1]
        parts = value if is_list else [value]
        yield from _walk([part for part in parts if wanted in map(str, _walk(part, tuple(field)))], steps[1:])
    elif is_list and (attributes := _attributes(value)) is not None:
        yield from _walk(attributes, steps)
    elif is_list:
        for part in value:
            if not isinstance(part, list):  # thousands of which may be nested
                yield from _walk(part, steps)
    elif isinstance(value, Mapping):
        heads = _heads(steps)
        for place, name in enumerate(heads):
            if name in value:
                yield from _walk(value[name], steps[len(heads) - place :])
                return


@lru_cache(maxsize=1024)
def _heads(steps: tuple[_Step, ...]) -> tuple[str, ...]:
    """The names that steps begin with, as one, then without the last, and so on."""
    names = [str(name) for name in takewhile(lambda step: isinstance(step, str), steps)]
    return tuple(".".join(names[:length]) for length in range(len(names), 0, -1))


def _attributes(parts: list[Any]) -> dict[str, Any] | None:
    """The attributes of a span as OTLP has them, by name; ``None`` for any other list."""
    if not parts or not all(isinstance(part, dict) and part.keys() == {"key", "value"} for part in parts):
        return None
    return {str(part["key"]): _otlp(part["value"]) for part in parts}


def _otlp(value: Any) -> Any:
    """A value of OTLP's JSON, which names its type: ``{"intValue": "3"}``."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((kind, content),) = value.items()
    if kind == "arrayValue":
        return [_otlp(part) for part in content.get("values", [])] if isinstance(content, dict) else content
    if kind == "kvlistValue":
        return _attributes(content.get("values", [])) if isinstance(content, dict) else content
    return content
