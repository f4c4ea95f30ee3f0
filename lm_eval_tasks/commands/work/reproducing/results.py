"""Readers of a results file: its tasks, and the record of where their numbers come from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_eval_tasks import provenance

__all__ = ["chosen_tasks", "leaves_of", "metadata_of", "read_results", "record_of", "said_of"]


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
    return results


def record_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The provenance of a task; empty where there is none."""
    metadata = config.get("metadata")
    record = metadata.get("provenance") if isinstance(metadata, Mapping) else None
    return dict(record) if isinstance(record, Mapping) and "failed" not in record else {}


def chosen_tasks(results: Mapping[str, Any], task: str | None, path: Path) -> list[str]:
    """The tasks of ours in it, in the order they were run: all, or those of the task or group `task`."""
    order = list(results.get("n-samples") or results["configs"])
    names = [name for name in order if name in results["configs"]]
    if task is not None:
        groups = results.get("group_subtasks") or {}
        wanted = set(leaves_of(task, groups))
        names = [name for name in names if name in wanted]
        if not names:
            known = ", ".join([*groups, *results["configs"]])
            raise ValueError(f"{path} has no task {task}; it has {known}")
    ours = [name for name in names if record_of(results["configs"][name])]
    if ours:
        return ours
    failed = [name for name in names if _failure(results["configs"][name])]
    if failed:
        why = _failure(results["configs"][failed[0]])
        raise ValueError(f"{path}: where the numbers of {failed[0]} come from could not be written down then: {why}")
    if any("lm_eval_tasks" in str(said_of(config, "config_source")) for config in results["configs"].values()):
        raise ValueError(
            f"{path} was written by a version of {provenance.PACKAGE} that did not yet say where its numbers come from; "
            f"run the tasks again ({', '.join(names)})"
        )
    raise ValueError(f"{path} has no results of {provenance.PACKAGE}: its tasks are {', '.join(names) or 'none'}")


def said_of(config: Mapping[str, Any], key: str) -> Any:
    """The value of `key` in a task's metadata; ``None`` where there is none."""
    metadata = config.get("metadata")
    return metadata.get(key) if isinstance(metadata, Mapping) else None


def _failure(config: Mapping[str, Any]) -> str:
    record = said_of(config, "provenance")
    return str(record.get("failed") or "") if isinstance(record, Mapping) else ""


def leaves_of(name: str, groups: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The tasks of a group and of the groups in it; a task is its own."""
    if name not in groups:
        yield name
    for member in groups.get(name, ()):
        yield from leaves_of(member, groups)


def metadata_of(
    results: Mapping[str, Any], configs: Mapping[str, Mapping[str, Any]], records: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The options that were given with ``--metadata``."""
    arguments = results["config"].get("model_args")
    found: dict[str, Any] = {}
    for name, config in configs.items():
        answers = records[name].get("answers")
        said = answers.get("metadata") if isinstance(answers, Mapping) else None
        found |= said if isinstance(said, Mapping) else provenance.metadata_given(config, arguments)
    return found
