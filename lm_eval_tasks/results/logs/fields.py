"""Which fields of a log's records hold the answer, its passages, and what else is read of an answer.

Every known tool has rows in ``fields.tsv``, which lies beside this module and explains the roles.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any

from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import excerpt, on_one_line, shorten, without_surrogates
from custom_metrics.usage.secrets import blank
from custom_metrics.usage.shipped_tables import shipped_rows
from lm_eval_tasks.results.logs.paths import FieldPath, data_of, field_path

ROLES = tuple(
    "answer passages question language id model conversation tokens_in tokens_out cost latency label trace".split()
)
"""What a field can be for."""
NUMBERS = ("tokens_in", "tokens_out", "cost", "latency")
"""The roles whose values are numbers."""
FIRST = 100
"""Records that the tool of a log is chosen by."""

_ANY = "any"  # tool of the rows that hold for all
_TRACES = 1000  # whose passages are kept for an answer that comes later
_LISTED, _DEPTH = 40, 6  # fields of a record that an error lists, and fields within fields
_LONGEST_LABEL = 200  # characters; what is longer is a text, and groups nothing

_SIGNS = ",:='\"[]"  # of paths, options and shells: a name with one of them is not guessed

Paths = Mapping[str, tuple[FieldPath, ...]]
"""Role to paths; of a record the first that gives a value counts (of labels, all)."""


@lru_cache(maxsize=1)
def known_tools() -> Mapping[str, Paths]:
    """Tool to its paths, in the order of the table; under ``any`` those of passages and of lists of records."""
    tools: dict[str, dict[str, tuple[FieldPath, ...]]] = {}
    for row in shipped_rows(__package__, "fields.tsv"):
        paths = tools.setdefault(row["tool"], {})
        paths[row["role"]] = (*paths.get(row["role"], ()), field_path(row["path"]))
    return tools


@lru_cache(maxsize=1)
def lists_of_records() -> tuple[FieldPath, ...]:
    """The paths at which tools list their records in an object."""
    return tuple(path for paths in known_tools().values() for path in paths.get("records", ()))


@dataclass(frozen=True)
class Fields:
    """The paths of a log, and the tool that they are of."""

    tool: str
    paths: Paths
    _passages_of_traces: OrderedDict[str, list[Any]] = field(default_factory=OrderedDict, compare=False, repr=False)

    def read(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a record by role: of passages a list, of labels name to value, of the rest the value. What a record
        lacks is absent. A record that has passages but no answer lends them to the later ones of its trace."""
        values: dict[str, Any] = {}
        for role, paths in self.paths.items():
            if role == "label":
                labels = dict(label for path in paths for label in _labels(path, record))
                values |= {role: labels} if labels else {}
                continue
            for found in filter(None, (path.values(record) for path in paths)):
                values[role] = found if role == "passages" or len(found) > 1 else found[0]
                break
        if "trace" in values:
            kept, trace = self._passages_of_traces, str(values["trace"])
            if "passages" not in values and trace in kept:
                values["passages"] = kept[trace]
            elif "answer" not in values and "passages" in values:
                kept[trace] = values["passages"]
                while len(kept) > _TRACES:
                    kept.popitem(last=False)
                values["lent"] = True
        return values

    def as_option(self, records: Sequence[Mapping[str, Any]]) -> str:
        """The paths that give values of these records, as ``--fields`` takes them."""
        giving = {
            role: next((path.text for path in paths if any(map(path.values, records))), None)
            for role, paths in self.paths.items()
        }
        return ",".join(f"{role}={giving[role]}" for role in ROLES[:-2] if giving.get(role))


def given_fields(option: str | None) -> dict[str, tuple[FieldPath, ...]]:
    """The paths of ``--fields role=path,role=path``; several of a role are tried in order."""
    paths: dict[str, tuple[FieldPath, ...]] = {}
    for pair in (option or "").split(",") if option else ():
        role, sign, path = pair.strip().partition("=")
        if role not in ROLES or not sign or not path:
            raise UsageError(f"--fields: {excerpt(pair)}: write ROLE=PATH,ROLE=PATH, with a role of {', '.join(ROLES)}")
        paths[role] = (*paths.get(role, ()), field_path(path))
    return paths


def choose_fields(name: str, records: Sequence[Mapping[str, Any]], given: Paths) -> Fields:
    """The fields of a log by its first records. Paths that are `given` replace those of tools.

    Raises:
        UsageError: no tool's paths give an answer and passages, or a given path gives nothing. It lists the fields of the
            first record, and guesses.
    """
    for role, wanted in given.items():
        if not any(path.values(record) for path in wanted for record in records):
            shown = ", ".join(path.text for path in wanted)
            raise UsageError(f"{name}: --fields {role}={shown} gives no value; {_listing(records[0])}")
    best, best_fit = None, (0, 0)
    for tool in [tool for tool in known_tools() if tool != _ANY]:
        known = {role: paths for role, paths in known_tools()[tool].items() if role in ROLES}
        read = [*map(Fields(tool, {**known, **given}).read, records)]
        fit = sum(map(_has_texts, read)), sum(map(len, read))
        if fit[0] and fit > best_fit:
            best, best_fit = Fields(tool, {**known, **given}), fit
    if best is None:
        guess = guessed_fields(records[0], given)
        hint = f"; the nearest guess is --fields '{guess}'" if guess else ""
        raise UsageError(f"{name}: no known fields hold an answer and its passages; {_listing(records[0])}{hint}")
    return best


def _has_texts(values: Mapping[str, Any]) -> bool:
    """Whether values of :meth:`Fields.read` have an answer, and a text to hold it against."""
    try:
        return bool(text_of(values.get("answer"), "answer").strip() and passages_of(values.get("passages")))
    except (ValueError, RecursionError):
        return False


# ------------------------------------------------------------------------------------------------------ values


def text_of(value: Any, role: str) -> str:
    """A text, the parts of a message as one text, or the one text of a list; empty for nothing. ValueError for the rest."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, list):
        parts = [part for part in value if part is not None]
        if len(parts) > 1 and not all(isinstance(part, dict) for part in parts):
            raise ValueError(f"{role} is a list of several values")
        return "\n".join(filter(None, (text_of(part, role) for part in parts)))
    if isinstance(value, dict):
        return text_of(_of_passage(value, "text"), role)
    if not isinstance(value, str):
        raise ValueError(f"{role} is not text")
    return value


def passages_of(values: Any) -> list[dict[str, str]]:
    """Titles and texts of passages that are texts, objects, or lists of these, also a list that a text holds as JSON.
    ValueError where one is no text."""
    passages = []
    for value in values if isinstance(values, list) else [values]:
        if isinstance(value, str) and isinstance(listed := data_of(value), list):
            is_list = listed and all(isinstance(part, (str, dict)) for part in listed)
            value = listed if is_list else value
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, dict):
                passages.append({name: text_of(_of_passage(part, name), name) for name in ("title", "text")})
            else:
                passages.append({"title": "", "text": text_of(part, "text")})
    return [passage for passage in passages if any(map(str.strip, passage.values()))]


def number_of(value: Any) -> float | None:
    """A finite number, also of a text; ``None`` for the rest."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _of_passage(value: Mapping[str, Any], role: str) -> Any:
    found = (values[0] for path in known_tools()[_ANY][role] if (values := path.values(value)))
    return next(found, None)


def _labels(path: FieldPath, record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and values that answers can be grouped by, without secrets: a value, those of an object, or a list as one."""
    for value in path.values(record):
        value = data_of(value) if isinstance(value, str) else value
        fields = value if isinstance(value, dict) else {path.text: value}
        for key, label in fields.items():
            parts = label if isinstance(label, list) else [label]
            text = ", ".join(str(part) for part in parts if isinstance(part, (str, int, float)))
            if 0 < len(text) <= _LONGEST_LABEL:
                yield _label(str(key), text)


@lru_cache(maxsize=4096)
def _label(name: str, value: str) -> tuple[str, str]:
    ((shown, text),) = blank({name: value}).items()
    return without_surrogates(shown), without_surrogates(text)


# ------------------------------------------------------------------------------------------------------ where nothing fits


def _listing(record: Mapping[str, Any]) -> str:
    """The fields of a record with their types, as an error shows them."""
    shown = [f"{on_one_line(path[:80])} ({kind})" for path, kind in _leaves(record) if path]
    return f"the first record has {shorten(shown, _LISTED) or 'no field'}"


def _leaves(value: Any, path: str = "", depth: int = _DEPTH) -> Iterator[tuple[str, str]]:
    """The paths of a record's values, each with its type; of a list, those of its first part."""
    if isinstance(value, str) and isinstance(read := data_of(value), (dict, list)):
        value = read
    if isinstance(value, dict) and value and depth:
        for name, part in value.items():
            yield from _leaves(part, f"{path}.{name}" if path else str(name), depth - 1)
    elif isinstance(value, list) and value and depth and path:
        yield from _leaves(value[0], f"{path}[]", depth - 1)
    else:
        kinds = {str: "text", bool: "true or false", int: "number", float: "number", type(None): "null"}
        yield path, kinds.get(type(value), type(value).__name__)


def guessed_fields(record: Mapping[str, Any], given: Paths) -> str:
    """The fields of a record with names most like known ones of an answer, passages and a question, as ``--fields`` takes
    them; empty where it has no two texts."""
    plain = [path for path, kind in _leaves(record) if kind == "text" and not set(path.replace("[]", "")) & set(_SIGNS)]
    chosen = {role: paths[0].text for role, paths in given.items()}
    for role in ("passages", "answer", "question"):
        known = {
            word for paths in known_tools().values() for path in paths.get(role, ()) for word in _words(path.text)[-1:]
        }
        likeness = {
            path: max(SequenceMatcher(None, word, name).ratio() for word in _words(path) for name in known)
            + 0.3 * (("[]" in path) == (role == "passages"))
            for path in plain
            if path not in chosen.values()
        }
        if role not in chosen and likeness and (role != "question" or max(likeness.values()) > 1):
            chosen[role] = max(likeness, key=lambda path: likeness[path])
    if not {"answer", "passages"} <= chosen.keys():
        return ""
    return ",".join(f"{role}={on_one_line(chosen[role])}" for role in ROLES if role in chosen)


def _words(path: str) -> list[str]:
    """The last two names of a path."""
    return [step.lower() for step in field_path(path).steps if isinstance(step, str)][-2:]
