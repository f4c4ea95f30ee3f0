"""The runs below a folder, each read once: its figures, their conditions, and what each document adds to them.

They are cached until one of a run's files changes.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tqdm import tqdm

from custom_metrics.broken_run import count
from custom_metrics.scores.aggregations import NotMeasured, defined_mean
from custom_metrics.statistics.figures import Figure, FigureOfStrata, Rows, Stratum
from custom_metrics.statistics.units import Unit
from detector_plugin.detector import SPEED
from lm_eval_tasks.data.atomic import whole_file
from lm_eval_tasks.data.provenance import PACKAGE
from lm_eval_tasks.data.sources import CorruptSource, MissingSource
from lm_eval_tasks.definition.catalogue import kind_of
from lm_eval_tasks.definition.schema import Metric, preferred_first
from lm_eval_tasks.detection.marked import RECORDS, draw_of
from lm_eval_tasks.results.doubts import doubts_about_answers, read_answers, signs_of
from lm_eval_tasks.results.joining import JoinedTask
from lm_eval_tasks.results.measuring import Measured, measure, pooled
from lm_eval_tasks.runs import Run, TaskRun
from lm_eval_tasks.runs.finding import find_files_once, read_files
from lm_eval_tasks.runs.other_tasks import described, mean_of_group
from lm_eval_tasks.runs.run import SettingsOfTask, recorded_settings, settings_of_run, with_cost

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

MARKS = "marks"
"""The condition that has the draw of people's marks (:func:`lm_eval_tasks.detection.marked.draw_of`)."""


MODELS, DETECTORS, OTHER = KINDS = ("Models", "Detectors", "Other tasks of the harness")
"""What tasks measure: language models; detectors; or, of tasks that have no table here, what upstream says."""


@dataclass(frozen=True)
class HeadlineFigure:
    """A figure on the leaderboard, and what its documents add to it: the rows of run 0, of documents in the order of their
    names."""

    metric: Metric
    filter: str
    figure: Figure
    measured: Measured | None = field(default=None, compare=False)  # None if it cannot be compared

    @property
    def key(self) -> tuple[str, str]:
        """The names of the metric and of the filter."""
        return self.metric.name, self.filter

    def to_json(self) -> dict[str, Any]:
        """It as a JSON object."""
        measured = self.measured
        rows = measured and {"kind": measured.kind.name, "unit": measured.unit, **measured.rows[0].to_json()}
        content = {"metric": asdict(self.metric), "filter": self.filter, "figure": self.figure}
        return {**content, "strata": self.figure.strata, "rows": rows}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], cost: float) -> HeadlineFigure:
        """The inverse of :meth:`to_json`, for a cost of a made-up answer. KeyError, TypeError or ValueError: any other
        object."""
        metric = Metric(**{**content["metric"], "balances": tuple(content["metric"]["balances"])})
        figure, strata = Figure(*content["figure"]), [Stratum(*stratum) for stratum in content["strata"]]
        figure = FigureOfStrata.of(figure, strata) if strata else figure
        rows, measured = content["rows"], None
        if rows and (kind := kind_of(Metric("", aggregation=rows["kind"]))):  # else no package here has the kind
            measured = Measured(kind, {0: Rows.from_json(rows)}, rows["unit"]).with_cost(cost)
        return cls(metric, content["filter"], figure, measured)


@dataclass(frozen=True)
class TaskEntry:
    """A task of a run."""

    task: str
    language: str
    family: str
    conditions: dict[str, str]  # equal for runs that are ranked together; without `documents` if they were not logged
    headlines: Sequence[HeadlineFigure]
    figures: Mapping[str, Any]  # all figures, by filter and metric
    units: Mapping[str, Unit]  # of the figures, by metric
    doubts: Sequence[str]  # why the figures are not comparable with published ones
    unranked: str = ""  # why the task cannot be ranked; empty where it can
    alike: Sequence[str] = ()  # how the run answers every question alike, for which it is not ranked
    unread: Sequence[str] = ()  # other doubts about the answers, such as many that are Invalid
    title: str = ""  # of its benchmark
    question: str = ""  # that it answers
    kind: str = MODELS  # one of `KINDS`


@dataclass(frozen=True)
class Entry:
    """A run on the leaderboard."""

    model: str
    folder: str  # of its files, relative to the folder of runs; ``.`` for that folder
    date: str
    made: dict[str, str]  # known settings, as text: the model's arguments, versions
    tasks: Sequence[TaskEntry]  # those with a figure on the leaderboard
    others: Sequence[str] = ()  # names of the other tasks: of other benchmarks, or not scored
    digest: str = ""  # of its files
    speed: float = 0.0  # documents that a detector read in a second; 0 where it was not measured
    settings: Mapping[str, SettingsOfTask] = field(default_factory=dict)  # by task, for the labels of runs

    def to_json(self) -> dict[str, Any]:
        """The entry as a JSON object."""
        tasks = [
            {**vars(task), "headlines": [headline.to_json() for headline in task.headlines]} for task in self.tasks
        ]
        return {**vars(self), "tasks": tasks}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], cost: float = 1.0) -> Entry:
        """The inverse of :meth:`to_json`, for a cost of a made-up answer. KeyError, TypeError or ValueError: any other
        object."""
        tasks = []
        for task in content["tasks"]:
            headlines = [HeadlineFigure.from_json(headline, cost) for headline in task["headlines"]]
            tasks.append(TaskEntry(**{**task, "headlines": headlines}))
        return cls(**{**content, "tasks": tasks})


def entry_of(run: Run, folder: str) -> Entry:
    """The entry of a run; reads all of its answers."""
    tasks = [_task(task) for task in run.tasks.values() if task.benchmark and _headlines(task)]
    listed = {task.task for task in tasks}
    tasks = [*_grouped(tasks, run)]
    settings = {name: _text(run.config[name]) for name in ("model", "model_args", "gen_kwargs") if run.config.get(name)}
    for versions in (recorded_settings(task)["versions"] for task in [*run.tasks.values()][:1]):
        settings |= {"versions": ", ".join(f"{name} {number}" for name, number in versions.items())} if versions else {}
    detector = run.config.get("detector")
    speed = detector.get(SPEED) if isinstance(detector, Mapping) else None
    others = [name for name in run.tasks if name not in listed]
    speed = speed if isinstance(speed, float) else 0.0
    return Entry(run.model, folder, run.date, settings, tasks, others, speed=speed, settings=settings_of_run(run))


def _grouped(tasks: Sequence[TaskEntry], run: Run) -> Iterator[TaskEntry]:
    """The tasks, with those of a group that weights them by their numbers of documents as one of all their documents. The
    tasks of a group whose number is neither that nor their unweighted mean are families of their own."""
    families: dict[str, list[TaskEntry]] = {}
    for task in tasks:
        families.setdefault(task.family if task.kind == OTHER else task.task, []).append(task)
    for name, in_order in families.items():
        members = sorted(in_order, key=lambda task: task.task)
        numbers = run.group_results.get(name, {})
        common = [head.key for head in members[0].headlines if isinstance(numbers.get(",".join(head.key)), float)]
        kept = [[head for head in task.headlines if head.key in common] for task in members]
        of_group = [_pooled(column, numbers[",".join(column[0].key)]) for column in zip(*kept, strict=False)]
        weighted = {kind for _, kind in of_group}
        if None in weighted or not weighted:
            yield from (replace(task, family=task.task) if task.kind == OTHER else task for task in members)
        elif True not in weighted:
            yield from (replace(task, headlines=heads) for task, heads in zip(members, kept, strict=True))
        else:
            yield replace(
                members[0],
                task=name,
                conditions={key: _digest(t.conditions.get(key, "") for t in members) for key in members[0].conditions},
                headlines=[headline for headline, _ in of_group],
                figures={f"{t.task}, {key}": values for t in members for key, values in t.figures.items()},
                unranked=next((task.unranked for task in members if task.unranked), ""),
            )


def _pooled(column: Sequence[HeadlineFigure], reported: float) -> tuple[HeadlineFigure, bool | None]:
    """The figure of a group from those of its tasks, with all of their documents; and whether the group is weighted
    (:func:`lm_eval_tasks.runs.other_tasks.is_weighted`)."""
    first = column[0]
    figure, weighted = mean_of_group([head.figure for head in column], kind_of(first.metric) or defined_mean, reported)
    tasks = [head.measured for head in column if head.measured is not None]
    (measured,) = pooled(tasks, [0]) if len(tasks) == len(column) else (None,)
    return HeadlineFigure(first.metric, first.filter, figure, measured), weighted


def _headlines(task: TaskRun) -> list[Metric]:
    """The metrics of a task that have a rank: its headlines with a direction, except uncorrected counts of what a detector
    flags, and fallbacks of a metric that is there: where that is not measurable, they are no better known."""
    figures: Iterable[str] = task.figures.get(task.headline_filter, {})
    if task.table is None:
        figures = [m.name for m in task.metrics if not math.isnan(task.figure(m.name, task.headline_filter).value)]
    ranked = [
        metric
        for metric in task.metrics
        if metric.name in figures
        and task.is_headline(metric.name)
        and metric.higher_is_better is not None
        and not metric.is_raw
    ]
    names = {metric.name for metric in ranked}
    return [metric for metric in preferred_first(ranked) if metric.fallback_for not in names]


def _task(task: TaskRun) -> TaskEntry:
    filter_name, conditions, table = task.headline_filter, _conditions(task), task.table
    joined, unranked, signs = None, "", count(())
    try:
        answers = read_answers(task)
    except MissingSource:
        unranked = "its answers were not logged (--log_samples)"
    except CorruptSource as error:
        unranked = str(error)
    else:
        signs, task = signs_of(task, answers), described(task, answers)
        if answers:
            joined = JoinedTask.join(task.task, {0: (task.task, task, answers)})
            documents = zip(answers.contents.tolist(), answers.keys, range(len(answers)), strict=True)
            order = [index for _, _, index in sorted(documents)]
            passages = dict.fromkeys(answers.passages[index] for index in order) if answers.passages else {"": None}
            passage_names = passages if all(passages) else ()
            conditions["documents"] = _digest([*map(answers.content, order), *passage_names])
    doubts: dict[bool, dict[str, None]] = {True: {}, False: {}}
    for kind, summary, _ in doubts_about_answers(task, filter_name, signs):
        doubts[kind == "alike"][summary] = None
    return TaskEntry(
        task=task.task,
        language=task.language,
        family=task.family,
        conditions=conditions,
        headlines=[_headline(task, metric, filter_name, joined) for metric in _headlines(task)],
        figures={name: dict(figures) for name, figures in task.figures.items()},
        units={metric: task.metric(metric).unit for figures in task.figures.values() for metric in figures},
        doubts=task.not_comparable,
        unranked=unranked,
        alike=[*doubts[True]],
        unread=[*doubts[False]],
        title=table.title if table else "",
        question=table.question(task.task) if table else "",
        kind=OTHER if table is None else DETECTORS if table.measures_detectors(task.task) else MODELS,
    )


def _headline(task: TaskRun, metric: Metric, filter_name: str, joined: JoinedTask | None) -> HeadlineFigure:
    figure, measured = task.figure(metric.name, filter_name), None
    if math.isnan(figure.value):
        raise ValueError(f"{task.task}: the results have no value of {metric.name}")
    if joined is not None:
        with suppress(NotMeasured):
            measured = measure(joined, metric, filter_name)
    if measured is not None and not measured.counted(0).any():
        measured = None
    return HeadlineFigure(metric, filter_name, figure, measured)


def _conditions(task: TaskRun) -> dict[str, str]:
    recorded = recorded_settings(task)
    conditions = {"version": str(task.version), "prompt": recorded["template"][:12], "shots": str(recorded["shots"])}
    instruction = recorded["system_instruction"]
    conditions["system instruction"] = _digest([instruction]) if instruction else "none"
    if detector := recorded["detector"]:
        values = (detector.get(key) for key in ("name", "version", "threshold", "options"))
        conditions["detector"] = " ".join(_text(key) for key in values if key)
        conditions["calibration"] = _text(recorded["calibration"].get("file", "none"))
    if draws := [draw for record in RECORDS if (draw := draw_of(task.provenance, record))]:
        conditions[MARKS] = " ".join(draws)
    return conditions


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _digest(texts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()[:12]


# ----------------------------------------------------------------------------------------------- the runs of a folder

_FORMAT = 13  # of a cache file; earlier ones may hold secrets
_DAMAGED = (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)
"""Errors that reading a damaged results file can raise."""


def root_of(places: Sequence[Path]) -> Path:
    """The folder that the names of runs' folders are relative to: that of one place, or what several have in common."""
    folders = [place if place.is_dir() else place.parent for place in places]
    return folders[0] if len(folders) == 1 else Path(os.path.commonpath(folders))


def read_entries(
    places: Sequence[Path], root: Path, cache: Path, cost: float = 1.0
) -> tuple[list[Entry], dict[str, str], int]:
    """The runs in some places, ordered by place and folder, each once; the folders that no run could be read from, and why;
    and the number of folders that had to be read, because the cache has no current entry of them.

    Args:
        places: folders of runs, or files; absolute where they are several.
        root: :func:`root_of` them.
        cost: what a made-up answer counts in balanced errors; with another one, all runs are read anew.
        cache: folder of cache files; damaged ones are written anew, and those of runs that are gone removed.

    Raises:
        MissingSource: there is no run in one of them, readable or not.
    """
    entries: list[Entry] = []
    unreadable: dict[str, str] = {}
    cache_files: list[Path] = []
    updated = 0
    for files in tqdm(find_files_once(places), desc="Reading runs", unit=" runs", disable=None):
        folder = files.folder.relative_to(root).as_posix()
        samples = (path for tasks in files.samples.values() for path in tasks.values())
        stats = [(path.name, path.stat()) for path in sorted({*files.results.values(), *samples})]
        states = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
        digest = hashlib.sha256(json.dumps([_FORMAT, version(PACKAGE), cost, folder, states]).encode()).hexdigest()
        cache_file = cache / f"{digest[:32]}.json"
        try:
            folder_entries = _cached(cache_file, cost)
            if folder_entries is None:
                updated += 1
                runs = (with_cost(run, cost) for run in read_files(files))
                folder_entries = [replace(entry_of(run, folder), digest=digest) for run in runs]
                with whole_file(cache_file) as partial:
                    partial.write_text(json.dumps([entry.to_json() for entry in folder_entries]), "utf-8")
        except _DAMAGED as error:
            reason = str(error) or type(error).__name__
            unreadable[folder] = reason.replace(f"{root}/", "")
            log.warning("%s: cannot be read: %s", files.folder, reason)
        else:
            entries += folder_entries
            cache_files.append(cache_file)
    for path in {*cache.glob("*.json")} - {*cache_files}:
        path.unlink(missing_ok=True)
    return entries, unreadable, updated


def _cached(cache_file: Path, cost: float) -> list[Entry] | None:
    """The entries of a cache file; ``None`` where it is missing or damaged."""
    try:
        return [Entry.from_json(entry, cost) for entry in json.loads(cache_file.read_text("utf-8"))]
    except FileNotFoundError:
        return None
    except _DAMAGED as error:
        log.warning("%s is damaged (%s); the run is read anew", cache_file, error)
        return None
