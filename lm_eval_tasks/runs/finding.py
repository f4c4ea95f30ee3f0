"""Finding runs: from folders and files that a user names to :class:`~lm_eval_tasks.runs.run.Run`."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from custom_metrics.broken_run import Prompting
from lm_eval_tasks.data.atomic import finished
from lm_eval_tasks.data.samples import dated_task
from lm_eval_tasks.data.sources import MissingSource
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.definition.schema import Benchmark, Metric
from lm_eval_tasks.harness import WEIGHTLESS
from lm_eval_tasks.runs.results_file import leaves_of, mapping, read_results, record_of, said_of
from lm_eval_tasks.runs.run import Run, Settings, TaskRun

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_DATED = re.compile(r".*_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.json")
_OWN_DATASET = re.compile(r"lm_eval_tasks\.(?P<benchmark>\w+)\.")


@dataclass(frozen=True)
class RunFiles:
    """The files in one folder that runs were written to."""

    folder: Path
    results: dict[str, Path]  # by date
    samples: dict[str, dict[str, Path]]  # date to task to file
    task: str | None = None  # the only one to read, ``None`` for all


def read_runs(places: Iterable[Path]) -> list[Run]:
    """The runs in folders, results files and samples files. Of a folder, and of every folder in it, all results count;
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
    folders: dict[Path, RunFiles] = {}
    for path in finished(place if place.is_dir() else place.parent, "*_*.json", "samples_*.jsonl"):
        if dated := dated_task(path):
            task, date = dated
            folders.setdefault(path.parent, RunFiles(path.parent, {}, {})).samples.setdefault(date, {})[task] = path
        elif match := _DATED.fullmatch(path.name):
            folders.setdefault(path.parent, RunFiles(path.parent, {}, {})).results[match["date"]] = path
    if place.is_dir():
        if not folders:
            raise MissingSource(
                f"{place}: no results_<date>.json and no samples_<task>_<date>.jsonl in it or below, as "
                f"`lm_eval --output_path DIR --log_samples` writes them"
            )
        return [*folders.values()]
    beside = folders.get(place.parent, RunFiles(place.parent, {}, {}))
    if dated := dated_task(place):
        task, date = dated
        results = {date: beside.results[date]} if date in beside.results else {}
        return [RunFiles(place.parent, results, {date: {task: place}}, task)]
    match = _DATED.fullmatch(place.name)
    date = match["date"] if match else ""
    return [RunFiles(place.parent, {date: place}, {date: beside.samples.get(date, {})})]


def read_files(files: RunFiles) -> list[Run]:
    """The runs in the files of a folder, one for each model; of each task the newest.

    Raises:
        ValueError: a results file is damaged.
    """
    runs: dict[str, Run] = {}
    older: dict[str, list[str]] = {}
    dates: dict[tuple[str, str], str] = {}
    for date in sorted({*files.results, *files.samples}):
        part = _part(files, date)
        if not part.tasks:
            continue
        model, before = part.model, runs.get(part.model, Run(part.model, files.folder, {}))
        older.setdefault(model, []).extend(
            f"{name} of {dates[model, name]}" for name in part.tasks if name in before.tasks
        )
        dates |= {(model, name): date for name in part.tasks}
        runs[model] = replace(
            part,
            tasks={**before.tasks, **part.tasks},
            groups={**before.groups, **part.groups},
            group_results={**before.group_results, **part.group_results},
        )
    for names in filter(None, older.values()):
        log.warning("%s: of each task the newest results count; passed over: %s", files.folder, ", ".join(names))
    return [
        replace(run, groups={group: names for group, names in run.groups.items() if run.tasks.keys() >= {*names}})
        for run in runs.values()
    ]


def _part(files: RunFiles, date: str) -> Run:
    """What was written at one date."""
    path, samples = files.results.get(date), files.samples.get(date, {})
    results: Mapping[str, Any] = read_results(path) if path is not None else {}
    configs: Mapping[str, Any] = results.get("configs", {})
    order = [name for name in results.get("n-samples") or configs if name in configs]
    names = [name for name in dict.fromkeys((*order, *configs, *samples)) if files.task in (None, name)]
    listed: Mapping[str, Sequence[str]] = results.get("group_subtasks") or {}
    leaves = {group: tuple(leaves_of(group, listed)) for group in listed}
    config = results.get("config") or {}
    return Run(
        model=str(results.get("model_name") or config.get("model") or files.folder.name),
        folder=files.folder,
        tasks={name: _task(name, results, samples.get(name), path) for name in names},
        groups={group: tasks for group, tasks in leaves.items() if tasks},
        group_results=results.get("groups") or {},
        config=config,
        date=date,
    )


def _task(name: str, results: Mapping[str, Any], samples: Path | None, path: Path | None) -> TaskRun:
    config: Mapping[str, Any] = results.get("configs", {}).get(name, {})
    record = record_of(config)
    listed = catalogue.task_named(name)
    benchmark, language = (listed[0], str(listed[1].options.get("language", ""))) if listed else ("", "")
    described = said_of(config, "benchmark")
    table: Benchmark | None
    if isinstance(described, Mapping):  # one that lies outside of this package
        benchmark, table = str(described.get("name") or ""), Benchmark.from_json(described)
    else:
        own = _OWN_DATASET.match(str(config.get("custom_dataset") or ""))  # a user's YAML that includes one of ours
        benchmark = benchmark or (own["benchmark"] if own else "")
        table = catalogue.tables().get(benchmark)
    figures = {
        filter_name: found
        for filter_name, found in mapping(said_of(config, "figures")).items()
        if isinstance(found, Mapping) and all(isinstance(figure, Mapping) for figure in found.values())
    }
    asked, shots = mapping(record.get("run")), (results.get("n-shot") or {}).get(name)
    chat_template = str(results.get("chat_template_sha") or "")
    settings = Settings(
        template=str(mapping(record.get("prompt")).get("template_sha256") or ""),
        shots=shots if isinstance(shots, int) else 0,
        chat_template=chat_template,
        system_instruction=str(results.get("system_instruction") or ""),
        generation=mapping(config.get("generation_kwargs")),
        limit=asked.get("limit"),
        prompting=Prompting(
            here=(results.get("config") or {}).get("model") not in WEIGHTLESS,
            chat_template=bool(chat_template) or asked.get("apply_chat_template") is True,
        ),
    )
    return TaskRun(
        task=name,
        benchmark=benchmark,
        language=language or str(mapping(record.get("options")).get("language") or ""),
        version=(results.get("versions") or {}).get(name),
        config=config,
        provenance=record,
        figures=figures,
        metrics=_metrics(name, config, table),
        settings=settings,
        results=results.get("results", {}).get(name, {}),
        samples=samples,
        results_file=path,
        table=table,
    )


def _metrics(name: str, config: Mapping[str, Any], table: Benchmark | None) -> tuple[Metric, ...]:
    """The metrics that a results file lists; without one, those of the task in our tables."""
    said = config.get("metric_list")
    listed = [entry for entry in (said if isinstance(said, list) else ()) if "metric" in mapping(entry)]
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
