"""The tasks of a results file whose numbers can be traced, and the options that were given for them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lm_eval_tasks.data import provenance
from lm_eval_tasks.runs.results_file import leaves_of, record_of, said_of

__all__ = ["chosen_tasks", "metadata_of"]


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


def _failure(config: Mapping[str, Any]) -> str:
    record = said_of(config, "provenance")
    return str(record.get("failed") or "") if isinstance(record, Mapping) else ""


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
