"""The runs below a folder, each read once: its figures, what they were measured on, and the numbers whose means they are.

What was read is kept until one of a run's files changes.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from custom_metrics.broken_run import are_equal
from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.paired_difference import Floats
from custom_metrics.statistics.units import Unit
from lm_eval_tasks.data.atomic import whole_file
from lm_eval_tasks.data.digests import sha256_of
from lm_eval_tasks.data.provenance import PACKAGE
from lm_eval_tasks.data.sources import CorruptSource, MissingSource
from lm_eval_tasks.definition.schema import Metric, preferred_first
from lm_eval_tasks.results.compare.joining import JoinedTask
from lm_eval_tasks.results.compare.measuring import NotMeasured, measure
from lm_eval_tasks.results.report.doubts import EQUAL, one_sided, unreadable_doubts
from lm_eval_tasks.runs import Run, TaskRun
from lm_eval_tasks.runs.finding import find_files, read_files

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own


@dataclass(frozen=True)
class HeadlineFigure:
    """A figure on the leaderboard, and the numbers whose mean it is, as a comparison has them
    (:meth:`lm_eval_tasks.results.compare.measuring.Measured.numbers`).

    Numbers of rates that a calibration corrects are those of the flagged share: corrected by the same calibration, of one
    language, rates differ significantly where the flagged shares do.
    """

    metric: Metric
    filter: str
    figure: Figure
    numbers: Floats = field(default_factory=partial(np.empty, 0), compare=False)  # empty where it cannot be compared
    by_document: bool = True  # whether there is a number for each document
    passages: Sequence[str] = ()  # of annotated answers, the passage of each number


@dataclass(frozen=True)
class TaskEntry:
    """A task of a run."""

    task: str
    language: str
    family: str
    conditions: dict[str, str]  # the same for runs that are ranked together; no `documents` where they were not logged
    headlines: Sequence[HeadlineFigure]
    figures: Mapping[str, Any]  # all of them, by filter and metric
    units: Mapping[str, Unit]  # of the figures, by metric
    doubts: Sequence[str]  # why they are not comparable with the published ones
    unranked: str = ""  # why it cannot be ranked; empty where it can
    alike: Sequence[str] = ()  # how it answers every question alike, for which it is not ranked
    unread: Sequence[str] = ()  # what else is wrong with its answers, such as many that are Invalid


@dataclass(frozen=True)
class Entry:
    """A run."""

    model: str
    folder: str  # that its files lie in, below the leaderboard's; ``.`` for that itself
    date: str
    made: dict[str, str]  # how, as far as it is known, in words: the model's arguments, versions
    tasks: Sequence[TaskEntry]  # with a figure on the leaderboard
    others: Sequence[str] = ()  # names of tasks without one: of other benchmarks, or not scored
    digest: str = ""  # of the files that it was read from

    def to_json(self) -> dict[str, Any]:
        """Numbers of documents are 64-bit floats, little-endian, in base 64."""
        content = asdict(self)
        for task in content["tasks"]:
            for headline in task["headlines"]:
                headline["numbers"] = b64encode(headline["numbers"].astype("<f8").tobytes()).decode()
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Entry:
        """Raises KeyError, TypeError or ValueError where `content` is none."""

        def headline(said: Mapping[str, Any]) -> HeadlineFigure:
            numbers = np.frombuffer(b64decode(said["numbers"]), "<f8").astype(float)
            parts = {"metric": Metric(**said["metric"]), "figure": Figure(*said["figure"]), "numbers": numbers}
            return HeadlineFigure(**{**said, **parts})

        tasks = [TaskEntry(**{**said, "headlines": [*map(headline, said["headlines"])]}) for said in content["tasks"]]
        return cls(**{**content, "tasks": tasks})


def entry_of(run: Run, folder: str) -> Entry:
    """A run with all of its answers read."""
    tasks = [_task(task) for task in run.tasks.values() if task.benchmark and _headlines(task)]
    shown = {task.task for task in tasks}
    made = {name: _text(run.config[name]) for name in ("model", "model_args", "gen_kwargs") if run.config.get(name)}
    first = next(iter(run.tasks.values()), None)
    versions = first.provenance.get("versions") if first else None
    if isinstance(versions, Mapping):
        made["versions"] = ", ".join(f"{name} {version}" for name, version in versions.items())
    return Entry(run.model, folder, run.date, made, tasks, [name for name in run.tasks if name not in shown])


def _headlines(task: TaskRun) -> list[Metric]:
    """The metrics of a task that have a rank: its headlines with a direction, but for those that count what a detector
    flags without a correction. What is preferred comes before what stands in for it."""
    figures = task.figures.get(task.headline_filter, {})
    ranked = [
        metric
        for metric in task.metrics
        if metric.name in figures
        and task.is_headline(metric.name)
        and metric.higher_is_better is not None
        and not metric.is_raw
    ]
    return preferred_first(ranked)


def _task(task: TaskRun) -> TaskEntry:
    filter_name, conditions = task.headline_filter, _conditions(task)
    said, _ = one_sided(task, filter_name)
    alike, joined, unranked = [said] if said else [], None, ""
    try:
        answers = task.answers()
    except MissingSource:
        unranked = "its answers were not logged (--log_samples)"
    except CorruptSource as error:
        unranked = str(error)
    else:
        if are_equal(len(answers), len(np.unique(answers.responses))):
            alike.append(EQUAL)
        if answers:
            joined = JoinedTask.join(task.task, {0: (task.task, task, answers)})
            documents = zip(answers.contents.tolist(), answers.keys, range(len(answers)), strict=True)
            order = [at for _, _, at in sorted(documents)]
            passages = dict.fromkeys(answers.passages[at] for at in order) if answers.passages else {"": None}
            named = passages if all(passages) else ()
            conditions["documents"] = _digest([*map(answers.content, order), *named])
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
        alike=alike,
        unread=[*dict.fromkeys(summary for _, summary, _ in unreadable_doubts(task, filter_name))],
    )


def _headline(task: TaskRun, metric: Metric, filter_name: str, joined: JoinedTask | None) -> HeadlineFigure:
    figure = task.figure(metric.name, filter_name)
    if math.isnan(figure.value):
        raise ValueError(f"{task.task}: the results have no value of {metric.name}")
    if joined is not None:
        with suppress(NotMeasured):
            measured = measure(joined, metric.name, filter_name, metric.aggregation, corrected=False)
            if not np.isnan(numbers := measured.numbers(0)).all():
                return HeadlineFigure(metric, filter_name, figure, numbers, measured.is_mean, measured.names)
    return HeadlineFigure(metric, filter_name, figure)


def _conditions(task: TaskRun) -> dict[str, str]:
    settings = task.settings
    found = {"version": str(task.version), "prompt": settings.template[:12], "shots": str(settings.shots)}
    if settings.system_instruction:
        found["system instruction"] = _digest([settings.system_instruction])
    if task.detector:
        parts = (task.detector.get(part) for part in ("name", "version", "threshold", "options"))
        found["detector"] = " ".join(_text(part) for part in parts if part)
        calibration = task.provenance.get("calibration")
        found["calibration"] = _text(calibration.get("file", "")) if isinstance(calibration, Mapping) else "none"
    return found


def _text(part: Any) -> str:
    return part if isinstance(part, str) else json.dumps(part, ensure_ascii=False, sort_keys=True, default=str)


def _digest(parts: Iterable[str]) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part.encode("utf-8", "surrogatepass") + b"\n")
    return found.hexdigest()[:12]


# ----------------------------------------------------------------------------------------------- the runs of a folder

_FORMAT = 5  # rises where what is kept changes
_DAMAGED = (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)
"""What a file that is no results file, but looks like one, can raise."""


def read_entries(place: Path, cache: Path) -> tuple[list[Entry], dict[str, str], int]:
    """The runs below a folder, in the order of their folders; folders that no run could be read from, and why; and how
    many folders were read, rather than found in the cache as they were.

    Args:
        place: folder of runs.
        cache: where to keep what was read; a damaged file in it is written anew, and one of a run that is gone removed.

    Raises:
        MissingSource: there is no run in it, readable or not.
    """
    entries: list[Entry] = []
    unreadable: dict[str, str] = {}
    cache_files: list[Path] = []
    read = 0
    for files in tqdm(find_files(place), desc="Reading runs", unit=" runs", disable=None):
        folder = files.folder.relative_to(place).as_posix() if place.is_dir() else "."
        samples = (path for tasks in files.samples.values() for path in tasks.values())
        paths = sorted({*files.results.values(), *samples})
        cache_file = cache / f"{hashlib.sha256(folder.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}.json"
        try:
            of_folder = _load(cache_file, paths)
            if of_folder is None:
                read += 1
                states = [_state(path) for path in paths]
                digest = hashlib.sha256(json.dumps(states).encode()).hexdigest()
                of_folder = [replace(entry_of(run, folder), digest=digest) for run in read_files(files)]
                _save(cache_file, states, of_folder)
        except _DAMAGED as error:
            reason = str(error) or type(error).__name__
            unreadable[folder] = reason.replace(f"{place}/", "")
            log.warning("%s: cannot be read: %s", files.folder, reason)
        else:
            entries += of_folder
            cache_files.append(cache_file)
    for path in {*cache.glob("*.json")} - {*cache_files}:
        path.unlink(missing_ok=True)
    return entries, unreadable, read


def _load(cache_file: Path, paths: Sequence[Path]) -> list[Entry] | None:
    """What was read from these files; ``None`` where they have changed, or what is kept is damaged."""
    try:
        digest, content = cache_file.read_text("utf-8").split("\n", 1)
        if hashlib.sha256(content.encode()).hexdigest() != digest:
            raise ValueError("its content does not fit its checksum")
        kept = json.loads(content)
        states = kept["files"]
        if kept["made_by"] != [_FORMAT, version(PACKAGE)] or [name for name, *_ in states] != [p.name for p in paths]:
            return None
        if any(path.stat().st_size != size for path, (_, size, *_) in zip(paths, states, strict=True)):
            return None
        touched = any(path.stat().st_mtime_ns != time for path, (_, _, time, _) in zip(paths, states, strict=True))
        if touched and any(sha256_of(path) != sha256 for path, (*_, sha256) in zip(paths, states, strict=True)):
            return None
        entries = [Entry.from_json(entry) for entry in kept["entries"]]
    except FileNotFoundError:
        return None
    except _DAMAGED as error:
        log.warning("%s is damaged (%s); the run is read anew", cache_file, error)
        return None
    if touched:  # copied, or written again as it was
        _save(cache_file, [_state(path) for path in paths], entries)
    return entries


def _state(path: Path) -> list[Any]:
    """Name, size, time of the last change and content of a file. The time is taken before the content: what is written
    meanwhile is read at the next call."""
    stat = path.stat()
    return [path.name, stat.st_size, stat.st_mtime_ns, sha256_of(path)]


def _save(cache_file: Path, states: Sequence[list[Any]], entries: Sequence[Entry]) -> None:
    made_by = [_FORMAT, version(PACKAGE)]
    content = json.dumps({"made_by": made_by, "files": states, "entries": [entry.to_json() for entry in entries]})
    with whole_file(cache_file) as partial:
        partial.write_text(f"{hashlib.sha256(content.encode()).hexdigest()}\n{content}", "utf-8")
