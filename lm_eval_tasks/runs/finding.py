"""Finding runs: from folders and files that a user names to :class:`~lm_eval_tasks.runs.run.Run`."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from custom_metrics.broken_run import Prompting
from lm_eval_tasks.data import finished
from lm_eval_tasks.data.provenance import mapping
from lm_eval_tasks.data.samples import dated_task
from lm_eval_tasks.data.sources import MissingSource
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.definition.schema import Benchmark, Metric
from lm_eval_tasks.harness import WEIGHTLESS
from lm_eval_tasks.runs import results_file
from lm_eval_tasks.runs.other_tasks import metric_of_other
from lm_eval_tasks.runs.results_file import leaves_of, metadata_of, plain_names, provenance_of, read_results
from lm_eval_tasks.runs.run import Run, Settings, TaskRun

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_DATED = re.compile(r".*_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.json")
_PROMPT = ("description", "doc_to_text", "doc_to_choice", "gen_prefix", "target_delimiter", "fewshot_delimiter")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of a function, another one in every run
_HEADLINES = 3  # of a task without a table: its first metrics
_OWN_DATASET = re.compile(r"lm_eval_tasks\.(?P<benchmark>\w+)\.")


@dataclass(frozen=True)
class RunFiles:
    """The results and samples files in one folder."""

    folder: Path
    results: dict[str, Path]  # by date
    samples: dict[str, dict[str, Path]]  # date to task to file
    task: str | None = None  # the only one to read, ``None`` for all


def read_runs(places: Iterable[Path]) -> list[Run]:
    """Read the runs in folders, results files and samples files. Folders are searched with all folders in them; of a task
    that was run several times in one folder, the newest results count. A samples file is one task of its run.

    Raises:
        MissingSource: a place is not there, or holds no results.
        ValueError: a results file is damaged.
    """
    return [run for place in places for files in find_files(place) for run in read_files(files)]


def find_files(place: Path) -> list[RunFiles]:
    """List the files of the runs in a place, folder by folder, without reading them; a MissingSource where there are
    none."""
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
    siblings = folders.get(place.parent, RunFiles(place.parent, {}, {}))
    if dated := dated_task(place):
        task, date = dated
        results = {date: siblings.results[date]} if date in siblings.results else {}
        return [RunFiles(place.parent, results, {date: {task: place}}, task)]
    match = _DATED.fullmatch(place.name)
    date = match["date"] if match else ""
    return [RunFiles(place.parent, {date: place}, {date: siblings.samples.get(date, {})})]


def find_files_once(places: Iterable[Path]) -> list[RunFiles]:
    """The files of the runs in several places, each folder once, with what any of the places has of it."""
    found: dict[Path, RunFiles] = {}
    for files in (files for place in places for files in find_files(place)):
        known = found.setdefault(files.folder.resolve(), files)
        samples = {date: known.samples.get(date, {}) | tasks for date, tasks in files.samples.items()}
        found[files.folder.resolve()] = replace(
            known,
            results={**known.results, **files.results},
            samples={**known.samples, **samples},
            task=known.task if known.task == files.task else None,
        )
    return [*found.values()]


def read_files(files: RunFiles) -> list[Run]:
    """Read the files of a folder: one run for each model, with the newest results of each task."""
    runs: dict[str, Run] = {}
    older: dict[str, list[str]] = {}
    dates: dict[tuple[str, str], str] = {}
    for date in sorted({*files.results, *files.samples}):
        run = _run_of_date(files, date)
        if not run.tasks:
            continue
        model, earlier = run.model, runs.get(run.model, Run(run.model, files.folder, {}))
        older.setdefault(model, []).extend(
            f"{name} of {dates[model, name]}" for name in run.tasks if name in earlier.tasks
        )
        dates |= {(model, name): date for name in run.tasks}
        runs[model] = replace(
            run,
            tasks={**earlier.tasks, **run.tasks},
            groups={**earlier.groups, **run.groups},
            group_results={**earlier.group_results, **run.group_results},
        )
    for names in filter(None, older.values()):
        log.warning("%s: of each task the newest results count; passed over: %s", files.folder, ", ".join(names))
    return [_in_groups(run) for run in runs.values()]


def _in_groups(run: Run) -> Run:
    """A run with those of its groups that are complete. To tasks that are in no table of ours the largest is the benchmark,
    of those groups that have a number which all of their tasks have."""
    groups = {group: names for group, names in run.groups.items() if run.tasks.keys() >= {*names}}
    group_of: dict[str, str] = {}
    for group, names in sorted(groups.items(), key=lambda entry: len(entry[1])):
        numbers = {key for key in run.group_results.get(group, {}) if "," in key}
        if all(numbers & run.tasks[name].results.keys() for name in names):
            group_of |= dict.fromkeys(names, group)
    others = {name: task for name, task in run.tasks.items() if task.table is None}
    tasks = {name: replace(task, benchmark=group_of.get(name, name)) for name, task in others.items()}
    return replace(run, groups=groups, tasks={**run.tasks, **tasks})


def _run_of_date(files: RunFiles, date: str) -> Run:
    path, samples = files.results.get(date), files.samples.get(date, {})
    results: Mapping[str, Any] = results_file.with_plain_names(read_results(path)) if path is not None else {}
    plain = plain_names(samples)
    samples = {plain[name]: file for name, file in samples.items()}
    only = plain.get(files.task, files.task) if files.task is not None else None
    configs: Mapping[str, Any] = results.get("configs", {})
    order = [name for name in results.get("n-samples") or configs if name in configs]
    names = [name for name in dict.fromkeys((*order, *configs, *samples)) if only in (None, name)]
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
    record = provenance_of(config)
    listed = catalogue.task_named(name)
    benchmark, language = (listed[0], str(listed[1].options.get("language", ""))) if listed else ("", "")
    described = metadata_of(config, "benchmark")
    table: Benchmark | None
    if isinstance(described, Mapping):  # a benchmark outside of this package
        benchmark, table = str(described.get("name") or ""), Benchmark.from_json(described)
    else:
        match = _OWN_DATASET.match(str(config.get("custom_dataset") or ""))  # a user's YAML that includes one of ours
        benchmark = benchmark or (match["benchmark"] if match else "")
        table = catalogue.table_named(benchmark)
    figures = {
        filter_name: by_metric
        for filter_name, by_metric in mapping(metadata_of(config, "figures")).items()
        if isinstance(by_metric, Mapping) and all(isinstance(figure, Mapping) for figure in by_metric.values())
    }
    if table is None and figures:
        table = Benchmark.from_json({})
    arguments, shots = mapping(record.get("run")), (results.get("n-shot") or {}).get(name)
    chat_template = str(results.get("chat_template_sha") or "")
    settings = Settings(
        template=str(
            mapping(record.get("prompt")).get("template_sha256") or (_template(config) if table is None else "")
        ),
        shots=shots if isinstance(shots, int) else 0,
        chat_template=chat_template,
        system_instruction=str(results.get("system_instruction") or ""),
        generation=mapping(config.get("generation_kwargs")),
        limit=arguments.get("limit"),
        harness=str(results.get("lm_eval_version") or ""),
        prompting=Prompting(
            model_prompted=(results.get("config") or {}).get("model") not in WEIGHTLESS,
            chat_template=bool(chat_template) or arguments.get("apply_chat_template") is True,
        ),
        chat_template_source=str(results.get("chat_template") or ""),
    )
    return TaskRun(
        task=name,
        benchmark=benchmark or name,
        language=language or str(mapping(record.get("options")).get("language") or ""),
        version=(results.get("versions") or {}).get(name),
        config=config,
        provenance=record,
        figures=figures,
        metrics=_metrics(name, config, table, results),
        settings=settings,
        results=results.get("results", {}).get(name, {}),
        samples=samples,
        results_file=path,
        table=table,
        size={key: n for key, n in mapping(mapping(results.get("n-samples")).get(name)).items() if isinstance(n, int)},
    )


def _template(config: Mapping[str, Any]) -> str:
    """SHA-256 of the prompt of a task that does not record it, empty where its configuration has none."""
    prompt = "\n".join(str(config.get(key) or "") for key in _PROMPT)
    return hashlib.sha256(_ADDRESS.sub("", prompt).encode("utf-8", "replace")).hexdigest() if prompt.strip() else ""


def _metrics(
    name: str, config: Mapping[str, Any], table: Benchmark | None, results: Mapping[str, Any]
) -> tuple[Metric, ...]:
    """The metrics that a results file lists, of a task in no table of ours those that it has values of; without a results
    file, those of the task in our tables."""
    metric_list = config.get("metric_list")
    entries = [mapping(entry) for entry in (metric_list if isinstance(metric_list, list) else ())]
    listed = {str(entry["metric"]): entry for entry in entries if "metric" in entry}
    values = mapping(mapping(results.get("results")).get(name)) if table is None else {}
    if with_value := [key.partition(",")[0] for key in values if "," in key and "_stderr," not in key]:
        in_order = dict.fromkeys((*listed, *with_value))  # a function is listed by its source
        listed = {metric: listed.get(metric, {}) for metric in in_order if metric in with_value}
    directions = mapping(mapping(results.get("higher_is_better")).get(name))
    if listed:
        return tuple(
            replace(
                metric_of_other(metric, place < _HEADLINES) if table is None else catalogue.metric_of(metric, table),
                aggregation=str(entry.get("aggregation") or ""),
                higher_is_better=higher if isinstance(higher, bool) else None,
                denominator=str(entry.get("denominator") or ("documents" if table is None else "")),
            )
            for place, (metric, entry) in enumerate(listed.items())
            for higher in [directions.get(metric, entry.get("higher_is_better"))]
        )
    base = catalogue.base_of(name)
    metrics = base.metrics if base else ()
    return tuple(replace(metric, aggregation=metric.aggregation.rpartition(".")[2]) for metric in metrics)
