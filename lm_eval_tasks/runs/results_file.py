"""Readers of a results file: its tasks, and the record of where their numbers come from."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from custom_metrics.usage.printable import shorten
from custom_metrics.usage.secrets import blank
from lm_eval_tasks.data.provenance import mapping

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_TEXTS = re.compile("chat_template$|description$|gen_prefix$|doc_to_|process_|fewshot_|target_delim")
"""Keys of prompts and code, which are no settings. The system instruction is one: pages show it among the others."""
_ENTRIES = {  # what objects of a results file hold
    "configs": "configuration of a task",
    "results": "list of metrics",
    "groups": "list of metrics",
    "group_subtasks": "list of tasks",
}


_BY_TASK = ("results", "configs", "versions", "n-shot", "n-samples", "higher_is_better", "task_hashes")
"""What a results file has by task, and by group."""


def read_results(path: Path) -> dict[str, Any]:
    """The content of a results file, without secrets in its settings; a ValueError where it is damaged or none. The log
    names the settings that hold any, once: the harness writes them as they were typed."""
    if path.is_dir():
        names = sorted(file.name for file in path.rglob("results_*.json"))
        raise ValueError(f"{path} is a folder; name a results file" + (f", such as {names[-1]}" if names else ""))
    try:
        results = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no results file, or a damaged one: {error}") from error
    if not isinstance(results, dict) or not all(
        isinstance(results.get(key), dict) for key in ("results", "configs", "config")
    ):
        raise ValueError(
            f"{path} is no results file of `lm_eval` or `lm-eval-grounded score` (results_*.json: an object with results, "
            f"configs and config)"
        )
    for key in (*_ENTRIES, "n-samples", "n-shot", "versions"):
        entries = results.get(key) or {}
        if not isinstance(entries, dict):
            raise ValueError(f"{path} is damaged: {key} is {type(entries).__name__}, not an object")
        kind = list if key == "group_subtasks" else dict
        for entry in entries.values() if key in _ENTRIES else ():
            if not isinstance(entry, kind) or not all(isinstance(item, str) for item in entry):
                raise ValueError(f"{path} is damaged: {key} holds something that is no {_ENTRIES[key]}")
    found: list[str] = []
    texts = {key: value for key, value in results.items() if isinstance(value, str)}
    try:
        results |= _without_secrets("", texts, found)
        results["config"] = _without_secrets("config.", results["config"], found)
        configs = results["configs"].items()
        results["configs"] = {task: _without_secrets(f"configs.{task}.", config, found) for task, config in configs}
    except RecursionError as error:
        raise ValueError(f"{path} is damaged: its settings hold each other without end") from error
    if found:
        _warn(path, shorten(found))
    return results


def plain_names(names: Iterable[str]) -> dict[str, str]:
    """Names of tasks to what 0.4 calls them: 0.5 writes ``group::task`` for a group's. A name that several have stays."""
    plain = {name: name.rpartition("::")[2] for name in names}
    often = Counter(plain.values())
    return {name: short if often[short] == 1 else name for name, short in plain.items()}


def with_plain_names(results: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a results file with the :func:`plain_names` of its tasks."""
    plain = plain_names({name for key in _BY_TASK for name in mapping(results.get(key))})
    groups: Mapping[str, Sequence[str]] = results.get("group_subtasks") or {}
    by_task = {key: mapping(results.get(key)) for key in _BY_TASK if key in results}
    return {
        **results,
        **{key: {plain[name]: value for name, value in entries.items()} for key, entries in by_task.items()},
        "group_subtasks": {group: [plain.get(name, name) for name in names] for group, names in groups.items()},
    }


def _without_secrets(where: str, settings: Mapping[str, Any], found: list[str]) -> dict[str, Any]:
    """Settings without secrets. The names of those that held any, with the prefix `where`, are added to `found`."""
    clean = dict(settings)
    for key in [key for key in settings if not _TEXTS.match(key)]:
        (clean[key],) = blank({key: settings[key]}).values()
        if clean[key] is not settings[key] and clean[key] != settings[key]:
            found.append(f"{where}{key}")
    return clean


@cache  # once, however often a command reads the file
def _warn(path: Path, places: str) -> None:
    log.warning(
        "%s holds what looks like a key or a password, in %s. It is neither shown nor written here; remove it before you "
        "share the file",
        *(path, places),
    )


def metadata_of(config: Mapping[str, Any], key: str) -> Any:
    """The value of `key` in a task's metadata; ``None`` where there is none."""
    return mapping(config.get("metadata")).get(key)


def provenance_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The provenance of a task; empty where there is none."""
    record = mapping(metadata_of(config, "provenance"))
    return {} if "failed" in record else dict(record)


def leaves_of(name: str, groups: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The tasks of a group and of the groups in it, each once, even if a group contains itself; for a task, itself."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        member = waiting.pop()
        if member not in seen:
            seen.add(member)
            if member not in groups:
                yield member
            waiting += reversed(groups.get(member, ()))
