"""Readers of a results file: its tasks, and the record of where their numbers come from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["leaves_of", "read_results", "record_of", "said_of"]


_BY_TASK = ("n-samples", "n-shot", "versions", "groups", "group_subtasks")  # objects, where they are there


def read_results(path: Path) -> dict[str, Any]:
    """The content of a results file."""
    if path.is_dir():
        known = sorted(found.name for found in path.rglob("results_*.json"))
        raise ValueError(f"{path} is a folder; name a results file" + (f", such as {known[-1]}" if known else ""))
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
    if not all(isinstance(config, dict) for config in results["configs"].values()):
        raise ValueError(f"{path} is damaged: configs holds something that is no configuration of a task")
    if not all(isinstance(scores, dict) for scores in results["results"].values()):
        raise ValueError(f"{path} is damaged: results holds something that is no list of metrics")
    for key in _BY_TASK:
        if not isinstance(results.get(key) or {}, dict):
            raise ValueError(f"{path} is damaged: {key} is {type(results[key]).__name__}, not an object")
    if not all(isinstance(scores, dict) for scores in (results.get("groups") or {}).values()):
        raise ValueError(f"{path} is damaged: groups holds something that is no list of metrics")
    groups = results.get("group_subtasks") or {}
    if not all(
        isinstance(members, list) and all(isinstance(name, str) for name in members) for members in groups.values()
    ):
        raise ValueError(f"{path} is damaged: group_subtasks holds something that is no list of tasks")
    return results


def record_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The provenance of a task; empty where there is none."""
    metadata = config.get("metadata")
    record = metadata.get("provenance") if isinstance(metadata, Mapping) else None
    return dict(record) if isinstance(record, Mapping) and "failed" not in record else {}


def said_of(config: Mapping[str, Any], key: str) -> Any:
    """The value of `key` in a task's metadata; ``None`` where there is none."""
    metadata = config.get("metadata")
    return metadata.get(key) if isinstance(metadata, Mapping) else None


def leaves_of(name: str, groups: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The tasks of a group and of the groups in it, each once, also where a group holds itself; a task is its own."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        if one not in groups:
            yield one
        waiting += reversed(groups.get(one, ()))
