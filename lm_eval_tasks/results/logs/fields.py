"""Which fields of a log's records hold the answer, its passages, and what else is read of an answer.

Every known tool has rows in ``fields.tsv``, which lies beside this module and explains the roles; where none fits, the
error has a guess. An expression is JMESPath (https://jmespath.org) over a record that
:func:`lm_eval_tasks.results.logs.values.stored` has read, so it leads into texts of JSON; ``a:<docs>...</docs>`` are the
texts between two marks in the messages of ``a``, ``a:<docs>...`` those to the end.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError, JMESPathTypeError
from jmespath.visitor import TreeInterpreter

from custom_metrics.usage import shipped_rows
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import excerpt, on_one_line, shorten, without_surrogates
from custom_metrics.usage.secrets import blank
from lm_eval_tasks.results.logs.messages import given_by_tools, last_said, messages
from lm_eval_tasks.results.logs.traces import joined
from lm_eval_tasks.results.logs.values import text_of

NUMBERS = ("tokens_in", "tokens_out", "cost", "latency")
"""The roles whose values are numbers."""
_SHOWN = ("answer", "passages", "question", "language", "id", "model", "conversation", *NUMBERS)  # as an option
ROLES = (*_SHOWN, "label", "trace", "span", "parent", "time")
"""What a field can be for."""

ANY_TOOL = "any"  # tool of the rows that hold for all
_PARTS = ("text", "title")  # of a passage
_LONGEST_LABEL = 200  # characters; what is longer is a text, and groups nothing
_MARKS = re.compile(r"(?P<place>.+?):(?P<start>[^\d\]:\s].*?)\.\.\.(?P<end>.*)", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_NAMES = re.compile(r"[^\[\](){}|&?!@*'\"`,:=<>.]+(?:\.[^\[\](){}|&?!@*'\"`,:=<>.]+)*")
_HEADS = re.compile(r"(?!.*\|\|)\[?((?:[A-Za-z_][\w.]*(?:, *)?)+)(?:[].\[ ][^&=!<>('`]*)?", re.ASCII | re.DOTALL)
_LISTED, _DEPTH = 40, 6  # fields of a record that an error lists, and fields within fields
_FEWEST_WORDS = 1.5  # a text of one word each is an id, a type or a role
_NEAR = 0.1  # of the scores of two guesses
_GOLD = re.compile("gold|truth|reference|expected|target|ideal", re.IGNORECASE)
_KINDS = {str: "text", bool: "true or false", int: "number", float: "number", type(None): "null"}
_INTERPRETER = TreeInterpreter()  # one for all, as making it takes as long as most expressions


class Expression:
    """A JMESPath expression, or one with marks between which texts stand; UsageError where it is none. A name with blanks
    or hyphens needs no quotation marks. Without any of the fields `heads` it gives nothing; an empty one is not known."""

    def __init__(self, text: str) -> None:
        marked = _MARKS.fullmatch(text)
        place = marked["place"] if marked else text
        if _NAMES.fullmatch(place):
            place = path_of(place.split("."))
        try:
            self.parsed = jmespath.compile(place).parsed
            with suppress(JMESPathTypeError, TypeError, AttributeError):  # of a record without a field
                _INTERPRETER.visit(self.parsed, {})
        except JMESPathError as error:
            said, *_ = map(on_one_line, str(error).splitlines())
            wrong = f"{excerpt(text)} is no JMESPath expression ({said})"
            raise UsageError(f"{wrong}; write it as answer, outputs.answer or contexts[].text") from None
        ends = re.escape(marked["end"]) or r"\Z" if marked else ""
        self.marks = re.compile(f"{re.escape(marked['start'])}(.*?){ends}", re.DOTALL) if marked else None
        names = found[1].split(",") if (found := _HEADS.fullmatch(place)) else [""]
        self.text, self.heads = text, frozenset(name.strip().partition(".")[0] for name in names)

    def value(self, record: Any) -> Any:
        """What it gives of a record; ``None`` for nothing, also where JMESPath knows no value."""
        found = None
        with suppress(JMESPathError, TypeError, AttributeError):
            found = _INTERPRETER.visit(self.parsed, record)
        if self.marks is not None:
            texts = (text for message in messages(found) for text in self.marks.findall(message.text))
            found = [text.strip() for text in texts if text.strip()]
        return None if found is False or found in ("", [], {}) else found


def path_of(steps: Sequence[str]) -> str:
    """The expression of names within names."""
    return ".".join(step if _PLAIN.fullmatch(step) else json.dumps(step, ensure_ascii=False) for step in steps)


Expressions = Mapping[str, tuple[Expression, ...]]
"""Role to expressions; of a record the first that gives a value counts (of labels, all)."""


@lru_cache(maxsize=1)
def known_tools() -> Mapping[str, Expressions]:
    """Tool to its expressions, in the order of the table; under ``any`` those that follow the ones of every tool."""
    tools: dict[str, dict[str, tuple[Expression, ...]]] = defaultdict(lambda: defaultdict(tuple))
    for row in shipped_rows(__package__, "fields.tsv"):
        tools[row["tool"]][row["role"]] += (Expression(row["expression"]),)
    return tools


def given_fields(option: str | None) -> dict[str, tuple[Expression, ...]]:
    """The expressions of ``--fields role=expression,role=expression``; several of a role are tried in order."""
    paths: dict[str, tuple[Expression, ...]] = {}
    for pair in re.split(rf",\s*(?=(?:{'|'.join(ROLES)})=)", option) if option else ():
        role, sign, path = pair.strip().partition("=")
        if role not in ROLES or not sign or not path:
            raise UsageError(f"--fields: {excerpt(pair)}: write ROLE=PATH,ROLE=PATH, with a role of {', '.join(ROLES)}")
        paths[role] = (*paths.get(role, ()), Expression(path))
    return paths


@dataclass(frozen=True, eq=False)
class Fields:
    """The expressions of a log, and the tool that they are of."""

    tool: str
    paths: Expressions

    def read(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """What a record has by role: the texts of answer and question, passages with title and text, labels by name, of the
        rest the value. What it lacks is absent; under ``left_out`` stands why it cannot be used."""
        values: dict[str, Any] = {}
        try:
            for role, paths in _leading(self, frozenset((*record, ""))):
                read, given = _READERS.get(role, _as_it_is), ((path.value(record), path.text) for path in paths)
                found = (read(value, text) for value, text in given if value is not None)
                kept = (each for each in found if each not in (None, "", [], {}))
                value = dict(label for labels in kept for label in labels) if role == "label" else next(kept, None)
                if value is not None and value != {}:
                    values[role] = value
        except ValueError as error:
            return {"left_out": str(error)}
        except RecursionError:
            return {"left_out": "nested too deeply"}
        return values

    def as_option(self, records: Sequence[Mapping[str, Any]]) -> str:
        """The expressions that give values of these records, as ``--fields`` takes them."""
        paths = ((role, path) for role in _SHOWN for path in self.paths.get(role, ())[::-1])
        giving = {of: path.text for of, path in paths for each in records if of in Fields("", {of: (path,)}).read(each)}
        return ",".join(f"{role}={text}" for role, text in giving.items())


@lru_cache(maxsize=1024)
def _leading(fields: Fields, names: frozenset[str]) -> list[tuple[str, list[Expression]]]:
    """The expressions that can give values of a record with these fields: most are those of other tools."""
    found = ((role, [path for path in every if path.heads & names]) for role, every in fields.paths.items())
    return [(role, paths) for role, paths in found if paths]


def _as_it_is(value: Any, _: str) -> Any:
    return text_of(value) or value


def _answer(value: Any, _: str) -> str:
    """What an assistant says in the value; ValueError where that is no text."""
    if isinstance(value, list) and text_of(value) is None and len(value) > 1 and {*map(type, value)} == {str}:
        raise ValueError("answer is a list of several values")
    if not isinstance(value, (str, list, dict)) and value == value:  # nan is how pandas writes nothing
        raise ValueError("answer is not text")
    return last_said(value, "answer")


def _passages(value: Any) -> Iterator[dict[str, str]]:
    """Titles and texts of passages: of texts, of objects, or of lists of these. ValueError where one is no text."""
    text, rows = text_of(value), known_tools()[ANY_TOOL]
    if isinstance(value, list) and (text is None or all(isinstance(part, (str, dict, list)) for part in value)):
        for part in value:
            yield from _passages(part)
    elif isinstance(value, dict):
        given = ((each for path in rows[of] if (each := path.value(value)) is not None) for of in _PARTS)
        held, title = (next(each, None) for each in given)
        title = title if isinstance(title, str) else ""
        if isinstance(held, (list, dict)):
            yield from _passages(held)
        elif held is not None and not isinstance(held, str):
            raise ValueError("text is not text")
        elif held is not None or title:
            yield {"title": title, "text": held or ""}
        elif value.keys().isdisjoint(path.text for of in _PARTS for path in rows[of]):
            yield {"title": "", "text": text or json.dumps(value, ensure_ascii=False)}  # a record that is a passage
    elif text is not None:
        yield {"title": "", "text": text}
    elif value is not None and value == value:
        raise ValueError("text is not text")


def _number(value: Any, _: str) -> float | None:
    """A finite number, also of a text; ``None`` for the rest."""
    with suppress(TypeError, ValueError, OverflowError):
        return number if not isinstance(value, bool) and math.isfinite(number := float(value)) else None
    return None


def _labels(value: Any, name: str) -> list[tuple[str, str]]:
    """Names and values that answers can be grouped by, without secrets: a value, those of an object, or a list as one."""
    labels, made = [*value.items()] if isinstance(value, dict) else [(name, value)], []
    for key, label in labels:
        if isinstance(label, dict):
            labels += [(f"{key}.{name}", part) for name, part in label.items()]
        parts = label if isinstance(label, list) else [label]
        text = ", ".join(str(part) for part in parts if isinstance(part, (str, int, float)))
        made += [_label(key, text)] if 0 < len(text) <= _LONGEST_LABEL else []
    return made


@lru_cache(maxsize=4096)
def _label(name: str, value: str) -> tuple[str, str]:
    ((shown, text),) = blank({name: value}).items()
    return without_surrogates(shown), without_surrogates(text)


_READERS: Mapping[str, Callable[[Any, str], Any]] = {
    "answer": _answer,
    "question": lambda value, _: last_said(value, "question"),
    "passages": lambda value, _: [each for each in _passages(given_by_tools(value)) if "".join(each.values()).strip()],
    "label": _labels,
    **dict.fromkeys(NUMBERS, _number),
}


def choose_fields(name: str, records: Sequence[Mapping[str, Any]], given: Expressions) -> Fields:
    """The fields of a log by its first records: of the tool that gives most answers with passages. Expressions that are
    `given` replace those of tools. UsageError, with the first record's fields and a guess, where no tool gives both, or a
    given expression gives nothing."""
    kinds = {path: _KINDS.get(type(value), type(value).__name__) for path, value in _leaves(records[0])}
    fields = [f"{on_one_line(path[:80])} ({kind})" for path, kind in kinds.items()]
    listing = f"the first record has {shorten(fields, _LISTED) or 'no field'}"
    for role, wanted in given.items():
        if not any(path.value(record) is not None for path in wanted for record in records):
            shown = ", ".join(path.text for path in wanted)
            raise UsageError(f"{name}: --fields {role}={shown} gives no value; {listing}")

    def fit(fields: Fields) -> tuple[int, int]:
        read = [values for _, values in joined(enumerate(map(fields.read, records)))]
        whole = sum({"answer", "passages"} <= each.keys() and each["answer"] != each.get("question") for each in read)
        return whole, sum(map(len, read))

    of_any = known_tools()[ANY_TOOL]
    known = [
        Fields(tool, {**{role: (*own.get(role, ()), *of_any.get(role, ())) for role in ROLES}, **given})
        for tool, own in known_tools().items()
        if tool != ANY_TOOL
    ]
    best = max(known, key=fit)
    if fit(best)[0]:
        return best
    raise UsageError(f"{name}: no known fields hold an answer and its passages; {listing}{_guess(records, given)}")


def _leaves(value: Any, path: str = "", depth: int = _DEPTH) -> Iterator[tuple[str, Any]]:
    """The expressions of a record's values that are no objects, in order."""
    if isinstance(value, dict) and value and depth:
        for name, part in value.items():
            yield from _leaves(part, f"{path}.{path_of([str(name)])}".lstrip("."), depth - 1)
    elif isinstance(value, list) and value and depth and path:
        for part in value[:_LISTED]:
            yield from _leaves(part, f"{path}[]", depth - 1)
    elif path:
        yield path, text_of(value) or value


def _guess(records: Sequence[Mapping[str, Any]], given: Expressions) -> str:
    """The fields of the records that are most like an answer, passages and a question, by their names and their texts, as
    ``--fields`` takes them; empty where there are no two texts. Ids, types and other single words are none of them."""
    texts: dict[str, list[str]] = {}
    for path, value in (leaf for record in records for leaf in _leaves(record)):
        if isinstance(value, str) and "'" not in path and not _GOLD.search(_words(path)[-1]):
            texts.setdefault(path, []).append(value)
    words = {path: sum(len(text.split()) for text in of) / len(of) for path, of in texts.items()}
    words = {path: number for path, number in words.items() if number >= _FEWEST_WORDS}
    chosen, near = {role: paths[0].text for role, paths in given.items()}, list[str]()
    for role in ("question", "passages", "answer"):
        names = {word for tool in known_tools().values() for path in tool.get(role, ()) for word in _words(path.text)}
        scores: dict[str, float] = {}
        for path in words.keys() - chosen.values():
            likeness = max(SequenceMatcher(None, word, name).ratio() for word in _words(path) for name in names)
            asks = sum(text.rstrip()[-1:] in ("?", "\uff1f", "\u061f") for text in texts[path]) / len(texts[path])
            varied, is_list = len({*texts[path]}) / len(texts[path]), "[]" in path
            looks = {"question": asks, "passages": is_list - 0.3, "answer": 0.3 * varied - is_list}
            scores[path] = likeness + looks[role] + (role != "question") * words[path] / max(words.values())
        ranked = sorted(scores, key=lambda path: (-scores[path], path))
        if role not in chosen and ranked and (role != "question" or scores[ranked[0]] > 1):
            chosen[role] = ranked[0]
            near += [f"{role}={path}" for path in ranked[1:2] if scores[path] > scores[ranked[0]] - _NEAR]
    if not {"answer", "passages"} <= chosen.keys():
        return ""
    guess = ",".join(f"{role}={chosen[role]}" for role in ROLES if role in chosen)
    also = f" (as near: {on_one_line(', '.join(near))})" if near else ""
    return f"; the nearest guess is --fields '{on_one_line(guess)}'{also}"


def _words(path: str) -> list[str]:
    """The last two names of a path."""
    return re.findall(r"[^\W\d](?:[\w-]*\w)?", path.lower())[-2:] or [""]
