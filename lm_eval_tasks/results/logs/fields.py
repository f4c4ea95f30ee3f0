"""Which fields of a log's records hold the answer, its passages, and what else is read of an answer.

Every known tool has rows in ``fields.tsv``, which lies beside this module and explains the roles. An expression is JMESPath
(https://jmespath.org) over a record that :func:`lm_eval_tasks.results.logs.values.stored` has read, so it leads into texts
of JSON; ``a:<docs>...</docs>`` are the texts between two marks in the messages of ``a``, ``a:<docs>...`` those to the end.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

import jmespath
from jmespath.exceptions import JMESPathError, JMESPathTypeError
from jmespath.visitor import TreeInterpreter

from custom_metrics.usage import shipped_rows
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import excerpt, on_one_line, without_surrogates
from custom_metrics.usage.secrets import blank
from lm_eval_tasks.results.logs.messages import answer_of, is_spoken, messages, question_of, tool_outputs
from lm_eval_tasks.results.logs.values import text_of

NUMBERS = ("tokens_in", "tokens_out", "cost", "latency")
"""The roles whose values are numbers."""
ROLES = (
    *("answer", "passages", "question", "language", "id", "model", "conversation", *NUMBERS, "label"),
    *("trace", "span", "parent", "time"),
)
"""What a field can be for."""
_SHOWN = ROLES[:11]  # as an option

ANY_TOOL = "any"  # tool of the rows that hold for all
_LONGEST_LABEL = 200  # characters; what is longer is a text, and groups nothing
_MARKS = re.compile(r"(?P<place>.+?):(?P<start>[^\d\]:\s].*?)\.\.\.(?P<end>.*)", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_INTERPRETER = TreeInterpreter()  # one for all, as making it takes as long as most expressions


class Expression(NamedTuple):
    """A JMESPath expression as it was written, and parsed; the marks between which texts stand."""

    text: str
    parsed: Any
    marks: re.Pattern[str] | None = None
    heads: frozenset[str] = frozenset()  # fields without which nothing stands there

    def value(self, record: Any) -> Any:
        """What it gives of a record; ``None`` for nothing, also where JMESPath knows no value."""
        if self.heads and isinstance(record, dict) and self.heads.isdisjoint(record):
            return None
        found = None
        with suppress(JMESPathError, TypeError, AttributeError):
            found = _INTERPRETER.visit(self.parsed, record)
        if self.marks is not None and found is not None:
            texts = (text for message in messages(found) for text in self.marks.findall(message.text))
            found = [text.strip() for text in texts if text.strip()]
        return None if found is False or found in ("", [], {}) else found

    def records(self, record: Any) -> list[Any]:
        """The objects of the list that it gives; empty for anything else."""
        found = self.value(record)
        return found if isinstance(found, list) and isinstance(found[0], dict) else []


@lru_cache(maxsize=1024)
def expression(text: str) -> Expression:
    """Read an expression; UsageError where it is none. A name with blanks or hyphens needs no quotation marks."""
    marked = _MARKS.fullmatch(text)
    place = marked["place"] if marked else text
    if re.fullmatch(r"[^\[\](){}|&?!@*'\"`,:=<>]*", place) and all(steps := place.split(".")):
        place = path_of(steps)
    try:
        parsed = jmespath.compile(place).parsed
        with suppress(JMESPathTypeError, TypeError, AttributeError):  # of a record without a field
            _INTERPRETER.visit(parsed, {})
    except JMESPathError as error:
        said = on_one_line(str(error).partition("\n")[0])
        raise UsageError(
            f"{excerpt(text)} is no JMESPath expression ({said}); write it as answer, outputs.answer or contexts[].text"
        ) from None
    ends = re.escape(marked["end"]) or r"\Z" if marked else ""
    marks = re.compile(f"{re.escape(marked['start'])}(.*?){ends}", re.DOTALL) if marked else None
    return Expression(text, parsed, marks, _heads(parsed))


def _heads(node: Mapping[str, Any]) -> frozenset[str]:
    """The fields of which a record must have one for an expression to lead anywhere; none where that is not known."""
    kind, inside = node["type"], [_heads(child) for child in node["children"]]
    if kind == "field":
        return frozenset([node["value"]])
    if kind == "multi_select_list":
        return frozenset().union(*inside) if all(inside) else frozenset()
    leads = re.search("projection|subexpression|index_exp|pipe|flatten|and_exp", kind)
    return inside[0] if leads else frozenset()


def path_of(steps: Sequence[str]) -> str:
    """The expression of names within names."""
    return ".".join(step if _PLAIN.fullmatch(step) else json.dumps(step, ensure_ascii=False) for step in steps)


Expressions = Mapping[str, tuple[Expression, ...]]
"""Role to expressions; of a record the first that gives a value counts (of labels, all)."""


@lru_cache(maxsize=1)
def known_tools() -> Mapping[str, Expressions]:
    """Tool to its expressions, in the order of the table; under ``any`` those that follow the ones of every tool."""
    tools: dict[str, dict[str, tuple[Expression, ...]]] = {}
    for row in shipped_rows(__package__, "fields.tsv"):
        of_tool = tools.setdefault(row["tool"], {})
        of_tool[row["role"]] = (*of_tool.get(row["role"], ()), expression(row["expression"]))
    return tools


def lists_of_records() -> tuple[Expression, ...]:
    """Where tools list their records in an object."""
    return known_tools()[ANY_TOOL]["records"]


@lru_cache(maxsize=1)
def first_names() -> frozenset[str]:
    """The fields of a record that has an answer: an object without them may hold records."""
    texts = (each.text for paths in known_tools().values() for each in paths.get("answer", ()))
    listing = {each.text for each in lists_of_records()}
    return frozenset(found[0] for text in texts if (found := _PLAIN.match(text))) - listing


class Fields(NamedTuple):
    """The expressions of a log, and the tool that they are of."""

    tool: str
    paths: Expressions

    def read(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """What a record has by role: the texts of answer and question, passages with title and text, labels by name, of the
        rest the value. What it lacks is absent; under ``left_out`` stands why it cannot be used."""
        values: dict[str, Any] = {}
        try:
            for role, every in self.paths.items():
                # of most expressions, which are those of other tools, a record has no field
                paths = [path for path in every if not path.heads or not path.heads.isdisjoint(record)]
                if role == "label":
                    found: Any = dict(label for path in paths for label in _labels(path, record))
                else:
                    found = next(filter(_is_any, (_read(role, path, record) for path in paths)), None)
                if _is_any(found):
                    values[role] = found
        except ValueError as error:
            return {"left_out": str(error)}
        except RecursionError:
            return {"left_out": "nested too deeply"}
        return values

    def as_option(self, records: Sequence[Mapping[str, Any]]) -> str:
        """The expressions that give values of these records, as ``--fields`` takes them."""
        giving: dict[str, str] = {}
        for role in _SHOWN:
            for path in reversed(self.paths.get(role, ())):
                if any(_is_any(Fields("", {role: (path,)}).read(record).get(role)) for record in records):
                    giving[role] = path.text
        return ",".join(f"{role}={text}" for role, text in giving.items())


def given_fields(option: str | None) -> dict[str, tuple[Expression, ...]]:
    """The expressions of ``--fields role=expression,role=expression``; several of a role are tried in order."""
    paths: dict[str, tuple[Expression, ...]] = {}
    for pair in re.split(rf",\s*(?=(?:{'|'.join(ROLES)})=)", option) if option else ():
        role, sign, path = pair.strip().partition("=")
        if role not in ROLES or not sign or not path:
            raise UsageError(f"--fields: {excerpt(pair)}: write ROLE=PATH,ROLE=PATH, with a role of {', '.join(ROLES)}")
        paths[role] = (*paths.get(role, ()), expression(path))
    return paths


def _is_any(value: Any) -> bool:
    return value is not None and value != "" and value != [] and value != {}


def _read(role: str, path: Expression, record: Mapping[str, Any]) -> Any:
    found = path.value(record)
    if found is None:
        return None
    return _READERS[role](found) if role in _READERS else text_of(found) or found


def _answer(value: Any) -> str:
    """What an assistant says in the value; ValueError where that is no text."""
    are_texts = [isinstance(part, str) for part in value] if isinstance(value, list) and text_of(value) is None else []
    if len(are_texts) > 1 and all(are_texts):
        raise ValueError("answer is a list of several values")
    if not isinstance(value, (str, list, dict)) and value == value:  # nan is how pandas writes nothing
        raise ValueError("answer is not text")
    return answer_of(value)


def passages_of(value: Any) -> list[dict[str, str]]:
    """Titles and texts of passages: of texts, of objects, of lists of these, or of what tools say in messages. ValueError
    where one is no text."""
    found = _passages(tool_outputs(value) if is_spoken(value) else value)
    return [passage for passage in found if any(map(str.strip, passage.values()))]


def _passages(value: Any) -> Iterator[dict[str, str]]:
    text = text_of(value)
    if isinstance(value, list) and (text is None or all(isinstance(part, (str, dict, list)) for part in value)):
        for part in value:
            yield from _passages(part)
    elif isinstance(value, dict):
        of = {role: known_tools()[ANY_TOOL][role] for role in ("title", "text")}
        held = next((each for path in of["text"] if (each := path.value(value)) is not None), None)
        title = next((each for path in of["title"] if isinstance(each := path.value(value), str)), "")
        if isinstance(held, (list, dict)):
            yield from _passages(held)
        elif held is not None and not isinstance(held, str):
            raise ValueError("text is not text")
        elif held is not None or title:
            yield {"title": title, "text": held or ""}
        elif not any(path.text in value for paths in of.values() for path in paths):  # a record that is a passage
            yield {"title": "", "text": text or json.dumps(value, ensure_ascii=False)}
    elif text is not None:
        yield {"title": "", "text": text}
    elif value is not None and value == value:
        raise ValueError("text is not text")


_READERS = {"answer": _answer, "question": question_of, "passages": passages_of}


def number_of(value: Any) -> float | None:
    """A finite number, also of a text; ``None`` for the rest."""
    with suppress(TypeError, ValueError, OverflowError):
        return number if not isinstance(value, bool) and math.isfinite(number := float(value)) else None
    return None


def _labels(path: Expression, record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and values that answers can be grouped by, without secrets: a value, those of an object, or a list as one."""
    value = path.value(record)
    labels = [*value.items()] if isinstance(value, dict) else [(path.text, value)]
    for key, label in labels:
        if isinstance(label, dict):
            labels += [(f"{key}.{name}", part) for name, part in label.items()]
        parts = label if isinstance(label, list) else [label]
        text = ", ".join(str(part) for part in parts if isinstance(part, (str, int, float)))
        if 0 < len(text) <= _LONGEST_LABEL:
            yield _label(key, text)


@lru_cache(maxsize=4096)
def _label(name: str, value: str) -> tuple[str, str]:
    ((shown, text),) = blank({name: value}).items()
    return without_surrogates(shown), without_surrogates(text)
