"""The provenance of every number of a report: its file, what it was measured on, and the command that made it."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from custom_metrics.statistics.units import NOT_MEASURABLE, is_measurable, without_point
from lm_eval_tasks.results.formats import as_text, bounds
from lm_eval_tasks.results.reproduce import commands_of, read_recorded
from lm_eval_tasks.runs import Run, TaskRun
from lm_eval_tasks.runs.run import recorded_settings


def command_files(runs: Mapping[str, Run]) -> Iterator[dict[str, Any]]:
    """The results files of some runs (label to run), each once, with the commands that made them, in order; with ``notes``
    on what the commands do not contain, or why there are none; and the number of the report's tasks in each file."""
    for model, run in runs.items():
        files = Counter(task.results_file for task in run.tasks.values() if task.results_file is not None)
        for path, tasks in files.items():
            try:
                commands, notes = commands_of(read_recorded(path))
            except (OSError, ValueError) as error:
                commands, notes = [], [str(error).replace(str(path), path.name)]
            where = {"model": model, "folder": path.parent.name, "file": path.name}
            yield {**where, "commands": commands, "notes": notes, "tasks": tasks}
        if not files:
            why = "There is no results file beside the samples: the command is not known."
            where = {"model": model, "folder": run.folder.name, "file": ""}
            yield {**where, "commands": [], "notes": [why], "tasks": len(run.tasks)}


def _tasks(runs: Mapping[str, Run], benchmark: str) -> Iterator[tuple[str, TaskRun]]:
    """The tasks of a benchmark with their model, ordered by task, so that models are next to each other."""
    names = dict.fromkeys(
        task.task for run in runs.values() for task in run.tasks.values() if task.benchmark == benchmark
    )
    return ((model, run.tasks[name]) for name in names for model, run in runs.items() if name in run.tasks)


def numbers(runs: Mapping[str, Run], benchmark: str) -> Iterator[dict[str, Any]]:
    """All figures of a benchmark's tasks, as rows of a table."""
    for model, task in _tasks(runs, benchmark):
        for filter_name in task.filters:
            written = task.figures.get(filter_name, {})
            for name in dict.fromkeys([*(metric.name for metric in task.metrics), *written]):
                figure, metric, entry = task.figure(name, filter_name), task.metric(name), written.get(name, {})
                value = without_point(figure, metric.unit).value
                yield {
                    "task": task.task,
                    "model": model,
                    "filter": filter_name,
                    "metric": name,
                    "value": as_text(value, metric.unit) if is_measurable(figure, metric.unit) else NOT_MEASURABLE,
                    "bounds": bounds(figure, metric.unit),
                    "n": figure.n,
                    "denominator": str(entry.get("denominator") or metric.denominator),
                    "sort": -1.0 if math.isnan(value) else value,  # undefined and unknown come before everything
                }


def origins(runs: Mapping[str, Run], benchmark: str) -> list[dict[str, Any]]:
    """Records of what the tasks of a benchmark depend on. Models with equal records share one."""
    records: dict[str, dict[str, Any]] = {}
    for model, task in _tasks(runs, benchmark):
        files = [entry for entry in task.provenance.get("files") or () if isinstance(entry, Mapping)]
        keys = ("repository", "revision", "path", "sha256")
        record = {
            "task": task.task,
            "facts": [*_facts(task)],
            "files": [{key: str(entry.get(key) or "") for key in keys} for entry in files],
            "not_comparable": [*task.not_comparable],
        }
        records.setdefault(json.dumps(record), {**record, "models": []})["models"].append(model)
    return [*records.values()]


_TITLES = {
    "version": "task version",
    "kept": "documents",
    "left_out": "left out",
    "read_from": "read from",
    "template": "prompt (SHA-256)",
    "shots": "examples in the prompt",
    "chat_template": "chat template (SHA-256)",
    "system_instruction": "system instruction",
}


def _facts(task: TaskRun) -> Iterator[tuple[str, str]]:
    """Names and values, as text, of the known facts about a task."""
    if task.samples is None:
        yield "answers", "not logged"
    for name, value in recorded_settings(task).items():
        if name == "limit" and value is not None:
            value = f"{value:g}"
        elif name == "shots":
            value = value or None
        elif name == "detector":
            value = " ".join(str(value[key]) for key in ("name", "version") if value.get(key))
        if text := _pairs(value):
            yield _TITLES.get(name, name), text


def _pairs(value: Any) -> str:
    if not isinstance(value, Mapping):
        return "" if value is None else str(value)
    return ", ".join(
        f"{key}: [{', '.join(map(str, item))}]" if isinstance(item, (list, tuple)) else f"{key}: {item}"
        for key, item in value.items()
        if item not in (None, "")
    )
