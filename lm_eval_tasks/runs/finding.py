"""Finding runs: from folders and files that a user names to :class:`~lm_eval_tasks.runs.run.Run`."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from custom_metrics.broken_run import Prompting
from lm_eval_tasks.data.atomic import finished
from lm_eval_tasks.data.samples import dated_task
from lm_eval_tasks.data.sources import MissingSource
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.definition.schema import Benchmark, Metric
from lm_eval_tasks.harness import WEIGHTLESS
from lm_eval_tasks.runs.results_file import leaves_of, read_results, record_of, said_of
from lm_eval_tasks.runs.run import Run, Settings, TaskRun

__all__ = ["RunFiles", "find_files", "read_files", "read_runs"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_DATED = re.compile(r".*_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.json")
_OWN_DATASET = re.compile(r"lm_eval_tasks\.(?P<benchmark>\w+)\.")
_ALL_TASKS = None


@dataclass(frozen=True)
class RunFiles:
    """The files in one folder that runs were written to.

    Attributes:
        folder: that they lie in.
        results: results files by date, oldest first.
        samples: date to task to samples file.
        task: the only task to read, ``None`` for all.
    """

    folder: Path
    results: Mapping[str, Path]
    samples: Mapping[str, Mapping[str, Path]]
    task: str | None = _ALL_TASKS


def read_runs(places: Iterable[Path]) -> list[Run]:
    """The runs in folders and files.

    Args:
        places: each a folder, a results file, or a samples file. Of a folder, and of every folder in it, all results count;
            where a task was run several times in one folder, its newest. A samples file is one task of its run.

    Raises:
        MissingSource: a place is not there, or holds no results.
        ValueError: a results file is damaged.
    """
    return [run for place in places for files in find_files(place) for run in read_files(files)]


def find_files(place: Path) -> list[RunFiles]:
    """The files of the runs in a place, folder by folder, without reading them.

    Raises:
        MissingSource: there are none.
    """
    if not place.exists():
        raise MissingSource(f"{place}: there is no such file or folder")
    if place.is_dir():
        named = finished(place, "*_*.json", "samples_*.jsonl")
        folders: dict[Path, list[Path]] = {}
        for path in named:
            folders.setdefault(path.parent, []).append(path)
        found = [_files_of(folder, paths) for folder, paths in folders.items()]
        found = [files for files in found if files.results or files.samples]
        if not found:
            raise MissingSource(
                f"{place}: no results_<date>.json and no samples_<task>_<date>.jsonl in it or below, as "
                f"`lm_eval --output_path DIR --log_samples` writes them"
            )
        return found
    beside = _files_of(place.parent, finished(place.parent, "*_*.json", "samples_*.jsonl"))
    dated = dated_task(place)
    if dated is None:
        match = _DATED.fullmatch(place.name)
        date = match["date"] if match else ""
        return [RunFiles(place.parent, {date: place}, {date: beside.samples.get(date, {})})]
    task, date = dated
    results = {date: beside.results[date]} if date in beside.results else {}
    return [RunFiles(place.parent, results, {date: {task: place}}, task)]


def _files_of(folder: Path, paths: Iterable[Path]) -> RunFiles:
    results: dict[str, Path] = {}
    samples: dict[str, dict[str, Path]] = {}
    for path in paths:
        if path.parent != folder:
            continue
        dated = dated_task(path)
        if dated is not None:
            samples.setdefault(dated[1], {})[dated[0]] = path
        elif match := _DATED.fullmatch(path.name):
            results[match["date"]] = path
    return RunFiles(folder, dict(sorted(results.items())), dict(sorted(samples.items())))


def read_files(files: RunFiles) -> list[Run]:
    """The runs in the files of a folder, one for each model.

    Raises:
        ValueError: a results file is damaged.
    """
    parts: dict[str, list[Run]] = {}
    for date in sorted({*files.results, *files.samples}):
        path = files.results.get(date)
        part = _part(files.folder, date, path, files.samples.get(date, {}), files.task)
        if part.tasks:
            parts.setdefault(part.model, []).append(part)
    return [_merged(of_model) for of_model in parts.values()]


def _part(folder: Path, date: str, path: Path | None, samples: Mapping[str, Path], only: str | None) -> Run:
    """What was written at one date."""
    results: Mapping[str, Any] = read_results(path) if path is not None else {}
    configs: Mapping[str, Any] = results.get("configs", {})
    order = [name for name in results.get("n-samples") or configs if name in configs]
    names = [name for name in dict.fromkeys((*order, *configs, *samples)) if only in (_ALL_TASKS, name)]
    tasks = {name: _task(name, results, samples.get(name), path) for name in names}
    listed: Mapping[str, Sequence[str]] = results.get("group_subtasks") or {}
    leaves = {group: tuple(leaves_of(group, listed)) for group in listed}
    groups = {group: tasks for group, tasks in leaves.items() if tasks}
    return Run(
        model=str(results.get("model_name") or _model_of(results) or folder.name),
        folder=folder,
        tasks=tasks,
        groups=groups,
        group_results=results.get("groups") or {},
        config=results.get("config") or {},
        date=date,
    )


def _model_of(results: Mapping[str, Any]) -> str:
    return str((results.get("config") or {}).get("model") or "")


def _merged(parts: Sequence[Run]) -> Run:
    """The parts of one model in one folder, of each task the newest."""
    tasks: dict[str, TaskRun] = {}
    groups: dict[str, tuple[str, ...]] = {}
    group_results: dict[str, Mapping[str, Any]] = {}
    dates: dict[str, str] = {}
    older: list[str] = []
    for part in parts:  # oldest first
        older += [f"{name} of {dates[name]}" for name in part.tasks if name in tasks]
        dates |= dict.fromkeys(part.tasks, part.date)
        tasks |= part.tasks
        groups |= part.groups
        group_results |= part.group_results
    if older:
        log.warning("%s: of each task the newest results count; passed over: %s", parts[-1].folder, ", ".join(older))
    whole = {group: members for group, members in groups.items() if tasks.keys() >= set(members)}
    newest = parts[-1]
    return Run(newest.model, newest.folder, tasks, whole, group_results, newest.config, newest.date)


def _task(name: str, results: Mapping[str, Any], samples: Path | None, path: Path | None) -> TaskRun:
    config: Mapping[str, Any] = results.get("configs", {}).get(name, {})
    record = record_of(config)
    figures = said_of(config, "figures")
    known = figures.items() if isinstance(figures, Mapping) else ()
    elsewhere = _table_elsewhere(config)
    benchmark = str(said_of(config, "benchmark").get("name") or "") if elsewhere else _benchmark(name, config)
    return TaskRun(
        task=name,
        benchmark=benchmark,
        language=_language(name, record),
        version=(results.get("versions") or {}).get(name),
        config=config,
        provenance=record,
        figures={name: found for name, found in known if _are_mappings(found)},
        metrics=_metrics(name, config, elsewhere or catalogue.table_named(benchmark)),
        settings=_settings(name, results, config, record),
        results=results.get("results", {}).get(name, {}),
        samples=samples,
        results_file=path,
        table_elsewhere=elsewhere,
    )


def _are_mappings(values: Any) -> bool:
    return isinstance(values, Mapping) and all(isinstance(value, Mapping) for value in values.values())


@lru_cache(maxsize=1)
def _benchmarks() -> dict[str, tuple[str, str]]:
    """Task to the folder of its benchmark and the code of its language."""
    return {
        task.name: (folder.name, str(task.options.get("language", "")))
        for folder in catalogue.folders()
        for task in catalogue.benchmark_of(folder).tasks
    }


def _benchmark(name: str, config: Mapping[str, Any]) -> str:
    if name in _benchmarks():
        return _benchmarks()[name][0]
    own = _OWN_DATASET.match(str(config.get("custom_dataset") or ""))  # a user's YAML that includes one of ours
    return own["benchmark"] if own else ""


def _language(name: str, record: Mapping[str, Any]) -> str:
    known = _benchmarks().get(name, ("", ""))[1]
    options = record.get("options")
    return known or (str(options.get("language") or "") if isinstance(options, Mapping) else "")


def _table_elsewhere(config: Mapping[str, Any]) -> Benchmark | None:
    """What a results file says of a benchmark that lies outside of this package."""
    described = said_of(config, "benchmark")
    return Benchmark.from_json(described) if isinstance(described, Mapping) else None


def _metrics(name: str, config: Mapping[str, Any], table: Benchmark | None) -> tuple[Metric, ...]:
    """The metrics that a results file lists; without one, those of the task in our tables."""
    said = config.get("metric_list")
    listed = (
        [entry for entry in said if isinstance(entry, Mapping) and "metric" in entry] if isinstance(said, list) else []
    )
    if listed:
        return tuple(
            replace(
                catalogue.metric_of(str(entry["metric"]), table),
                aggregation=str(entry.get("aggregation") or ""),
                higher_is_better=entry.get("higher_is_better"),
                denominator=str(entry.get("denominator") or ""),
            )
            for entry in listed
        )
    base = catalogue.base_of(name)
    metrics = base.metrics if base else ()
    return tuple(replace(metric, aggregation=metric.aggregation.rpartition(".")[2]) for metric in metrics)


def _settings(name: str, results: Mapping[str, Any], config: Mapping[str, Any], record: Mapping[str, Any]) -> Settings:
    prompt, asked, generation = record.get("prompt"), record.get("run"), config.get("generation_kwargs")
    shots = (results.get("n-shot") or {}).get(name)
    chat_template = str(results.get("chat_template_sha") or "")
    applied = bool(chat_template) or (isinstance(asked, Mapping) and asked.get("apply_chat_template") is True)
    return Settings(
        template=str(prompt.get("template_sha256") or "") if isinstance(prompt, Mapping) else "",
        shots=shots if isinstance(shots, int) else 0,
        chat_template=chat_template,
        system_instruction=str(results.get("system_instruction") or ""),
        generation=generation if isinstance(generation, Mapping) else {},
        limit=asked.get("limit") if isinstance(asked, Mapping) else None,
        prompting=Prompting(here=_model_of(results) not in WEIGHTLESS, chat_template=applied),
    )
