"""What a results file says of its run: the tasks whose numbers can be traced, and the options that were given for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_eval_tasks.data import provenance
from lm_eval_tasks.runs.results_file import leaves_of, read_results, record_of, said_of

__all__ = ["RecordedRun", "read_recorded"]


@dataclass(frozen=True)
class RecordedRun:
    """A results file, as far as its tasks are ours and chosen.

    Attributes:
        results: the whole content.
        configs: task to its configuration, in the order they were run.
        records: task to the provenance of its numbers.
        metadata: the options that were given with ``--metadata``.
    """

    results: Mapping[str, Any]
    configs: Mapping[str, Mapping[str, Any]]
    records: Mapping[str, Mapping[str, Any]]
    metadata: Mapping[str, Any]

    @property
    def config(self) -> Mapping[str, Any]:
        """Model, arguments, seeds and limit, as the harness writes them."""
        config: Mapping[str, Any] = self.results["config"]
        return config


def read_recorded(path: Path, task: str | None = None) -> RecordedRun:
    """Read a results file.

    Args:
        path: ``results_*.json`` of ``lm_eval`` or of ``lm-eval-grounded score``.
        task: one task or group of it; default all.

    Raises:
        ValueError: it is no such file, is damaged, or says nothing of where its numbers come from.
        OSError: it cannot be read.
    """
    results = read_results(path)
    configs = {name: results["configs"][name] for name in _chosen_tasks(results, task, path)}
    records = {name: record_of(config) for name, config in configs.items()}
    arguments = results["config"].get("model_args")
    metadata: dict[str, Any] = {}
    for name, config in configs.items():
        answers = records[name].get("answers")
        given = answers.get("metadata") if isinstance(answers, Mapping) else None
        metadata |= given if isinstance(given, Mapping) else provenance.metadata_given(config, arguments)
    return RecordedRun(results, configs, records, metadata)


def _chosen_tasks(results: Mapping[str, Any], task: str | None, path: Path) -> list[str]:
    """The tasks of ours, in the order they were run: all, or those of the task or group `task`."""
    configs = results["configs"]
    names = [name for name in results.get("n-samples") or configs if name in configs]
    if task is not None:
        groups = results.get("group_subtasks") or {}
        leaves = set(leaves_of(task, groups))
        names = [name for name in names if name in leaves]
        if not names:
            raise ValueError(f"{path} has no task {task}; it has {', '.join([*groups, *configs])}")
    ours = [name for name in names if record_of(configs[name])]
    if not ours:
        raise ValueError(f"{path}{_why_untraceable(configs, names)}")
    return ours


def _why_untraceable(configs: Mapping[str, Mapping[str, Any]], names: Iterable[str]) -> str:
    for name in names:
        record = said_of(configs[name], "provenance")
        if isinstance(record, Mapping) and record.get("failed"):
            return f": where the numbers of {name} come from could not be written down then: {record['failed']}"
    tasks = ", ".join(names)
    if any("lm_eval_tasks" in str(said_of(config, "config_source")) for config in configs.values()):
        return (
            f" was written by a version of {provenance.PACKAGE} that did not yet say where its numbers come from; "
            f"run the tasks again ({tasks})"
        )
    return f" has no results of {provenance.PACKAGE}: its tasks are {tasks or 'none'}"
