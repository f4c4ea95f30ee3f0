"""The choice of the fields of a log: of a known tool, or a guess where none fits, which an error shows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import on_one_line, shorten
from lm_eval_tasks.results.logs.fields import ANY_TOOL, ROLES, Expressions, Fields, known_tools, path_of
from lm_eval_tasks.results.logs.traces import joined
from lm_eval_tasks.results.logs.values import text_of

_LISTED, _DEPTH = 40, 6  # fields of a record that an error lists, and fields within fields
_FEWEST_WORDS = 1.5  # a text of one word each is an id, a type or a role
_NEAR = 0.1  # of the scores of two guesses
_GOLD = re.compile("gold|truth|reference|expected|target|ideal", re.IGNORECASE)
_KINDS = {str: "text", bool: "true or false", int: "number", float: "number", type(None): "null"}


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

    def fit(fields: Fields) -> tuple[int, int]:
        read = [values for _, values in joined(enumerate(map(fields.read, records)))]
        texts = [[values.get(role) for role in ("answer", "passages", "question")] for values in read]
        return sum(bool(answer and passages and answer != asked) for answer, passages, asked in texts), sum(
            map(len, read)
        )

    of_any = known_tools()[ANY_TOOL]
    known = {
        tool: {role: found for role in ROLES if (found := own.get(role, ()) + of_any.get(role, ()))}
        for tool, own in known_tools().items()
        if tool != ANY_TOOL
    }
    best = max((Fields(tool, {**paths, **given}) for tool, paths in known.items()), key=fit)
    if fit(best)[0]:
        return best
    guess = guessed_fields(records, given)
    hint = f"; the nearest guess is {guess}" if guess else ""
    raise UsageError(f"{name}: no known fields hold an answer and its passages; {_listing(records[0])}{hint}")


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


def _listing(record: Mapping[str, Any]) -> str:
    """The fields of a record with their types, as an error shows them."""
    kinds = {path: _KINDS.get(type(value), type(value).__name__) for path, value in _leaves(record)}
    shown = [f"{on_one_line(path[:80])} ({kind})" for path, kind in kinds.items()]
    return f"the first record has {shorten(shown, _LISTED) or 'no field'}"


def guessed_fields(records: Sequence[Mapping[str, Any]], given: Expressions) -> str:
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
    guess = ",".join(f"{role}={on_one_line(chosen[role])}" for role in ROLES if role in chosen)
    return f"--fields '{guess}'" + (f" (as near: {on_one_line(', '.join(near))})" if near else "")


def _words(path: str) -> list[str]:
    """The last two names of a path."""
    return re.findall(r"[^\W\d](?:[\w-]*\w)?", path.lower())[-2:] or [""]
