"""Readers of a results file: its tasks, and the record of where their numbers come from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_ENTRIES = {  # what objects of a results file hold
    "configs": "configuration of a task",
    "results": "list of metrics",
    "groups": "list of metrics",
    "group_subtasks": "list of tasks",
}


def read_results(path: Path) -> dict[str, Any]:
    """The content of a results file; a ValueError where it is damaged or none."""
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
    return results


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping; else an empty mapping."""
    return value if isinstance(value, Mapping) else {}


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
