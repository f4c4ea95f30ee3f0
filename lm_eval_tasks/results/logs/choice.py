"""The choice of the fields of a log: of a known tool, or a guess where none fits, which an error shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import on_one_line, shorten
from lm_eval_tasks.results.logs.fields import ANY_TOOL, ROLES, Expressions, Fields, known_tools, path_of
from lm_eval_tasks.results.logs.traces import joined
from lm_eval_tasks.results.logs.values import decoded

_LISTED, _DEPTH = 40, 6  # fields of a record that an error lists, and fields within fields
_FEWEST_WORDS = 1.5  # a text of one word each is an id, a type or a role
_NEAR = 0.1  # of the scores of two guesses
_GOLD = re.compile("gold|truth|reference|expected|target|ideal", re.IGNORECASE)


def choose_fields(name: str, records: Sequence[Mapping[str, Any]], given: Expressions) -> Fields:
    """The fields of a log by its first records: of the tool that gives most answers with passages. Expressions that are
    `given` replace those of tools.

    Raises:
        UsageError: no tool gives an answer and passages, or a given expression gives nothing. It lists the fields of the
            first record, and guesses.
    """
    for role, wanted in given.items():
        if not any(path.value(record) is not None for path in wanted for record in records):
            shown = ", ".join(path.text for path in wanted)
            raise UsageError(f"{name}: --fields {role}={shown} gives no value; {_listing(records[0])}")
    best, best_fit = None, (0, 0)
    any_tool = {role: paths for role, paths in known_tools()[ANY_TOOL].items() if role in ROLES}
    for tool in [tool for tool in known_tools() if tool != ANY_TOOL]:
        own = known_tools()[tool]
        known = {
            role: (*own.get(role, ()), *any_tool.get(role, ())) for role in ROLES if role in own or role in any_tool
        }
        fields = Fields(tool, {**known, **given})
        read = [*joined((number, values) for number, values in enumerate(map(fields.tried, records)))]
        fit = (
            sum(
                bool(values.get("answer") and values.get("passages") and values["answer"] != values.get("question"))
                for _, values in read
            ),
            sum(map(len, read)),
        )
        if fit[0] and fit > best_fit:
            best, best_fit = fields, fit
    if best is None:
        guess = guessed_fields(records, given)
        hint = f"; the nearest guess is {guess}" if guess else ""
        raise UsageError(f"{name}: no known fields hold an answer and its passages; {_listing(records[0])}{hint}")
    return best


class _Leaf(NamedTuple):
    """A field of the first records: its kind, and the texts that it has."""

    kind: str
    texts: list[str]

    @property
    def words(self) -> float:
        return sum(len(text.split()) for text in self.texts) / max(1, len(self.texts))


def _leaves(records: Sequence[Mapping[str, Any]]) -> dict[str, _Leaf]:
    """The expressions of the records' values that are no objects, in order."""
    leaves: dict[str, _Leaf] = {}
    for record in records:
        for path, value in _walk(record, "", _DEPTH):
            kinds = {str: "text", bool: "true or false", int: "number", float: "number", type(None): "null"}
            leaf = leaves.setdefault(path, _Leaf(kinds.get(type(value), type(value).__name__), []))
            leaf.texts.extend([value] if isinstance(value, str) else [])
    return leaves


def _walk(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    inside = decoded(value)
    if isinstance(inside, dict) and inside and depth:
        for name, part in inside.items():
            yield from _walk(part, f"{path}.{path_of([str(name)])}" if path else path_of([str(name)]), depth - 1)
    elif isinstance(inside, list) and inside and depth and path:
        for part in inside[:_LISTED]:
            yield from _walk(part, f"{path}[]", depth - 1)
    elif path:
        yield path, value


def _listing(record: Mapping[str, Any]) -> str:
    """The fields of a record with their types, as an error shows them."""
    shown = [f"{on_one_line(path[:80])} ({leaf.kind})" for path, leaf in _leaves([record]).items()]
    return f"the first record has {shorten(shown, _LISTED) or 'no field'}"


def guessed_fields(records: Sequence[Mapping[str, Any]], given: Expressions) -> str:
    """The fields of the records that are most like an answer, passages and a question, by their names and their texts, as
    ``--fields`` takes them; empty where there are no two texts. Ids, types and other single words are none of them."""
    leaves = {path: leaf for path, leaf in _leaves(records).items() if leaf.words >= _FEWEST_WORDS and "'" not in path}
    chosen, near = {role: paths[0].text for role, paths in given.items()}, list[str]()
    for role in ("question", "passages", "answer"):
        names = {word for tool in known_tools().values() for path in tool.get(role, ()) for word in _words(path.text)}
        scores = {
            path: _likeness(path, names) + _look(role, path, leaves)
            for path in leaves
            if path not in chosen.values() and not _GOLD.search(_words(path)[-1])
        }
        ranked = sorted(scores, key=lambda path: -scores[path])
        if role not in chosen and ranked and (role != "question" or scores[ranked[0]] > 1):
            chosen[role] = ranked[0]
            near += [f"{role}={path}" for path in ranked[1:2] if scores[path] > scores[ranked[0]] - _NEAR]
    if not {"answer", "passages"} <= chosen.keys():
        return ""
    guess = ",".join(f"{role}={on_one_line(chosen[role])}" for role in ROLES if role in chosen)
    return f"--fields '{guess}'" + (f" (as near: {on_one_line(', '.join(near))})" if near else "")


def _likeness(path: str, names: Iterable[str]) -> float:
    words = _words(path)
    return max((SequenceMatcher(None, word, name).ratio() for word in words for name in names), default=0)


def _look(role: str, path: str, leaves: Mapping[str, _Leaf]) -> float:
    """How much the texts of a field look like questions, long passages of a list, or long texts that vary."""
    leaf, longest = leaves[path], max(leaf.words for leaf in leaves.values())
    if role == "question":
        return sum(text.rstrip()[-1:] in ("?", "\uff1f", "\u061f") for text in leaf.texts) / len(leaf.texts)
    more = ("[]" in path) - 0.3 if role == "passages" else 0.3 * len({*leaf.texts}) / len(leaf.texts)
    return leaf.words / longest + more


def _words(path: str) -> list[str]:
    """The last two names of a path."""
    return re.findall(r"[^\W\d](?:[\w-]*\w)?", path.lower())[-2:] or [""]
