"""What the leaderboard keeps of a run: its figures, what they were measured on, and the numbers whose means they are."""

from __future__ import annotations

import hashlib
import json
import math
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from custom_metrics.broken_run import are_equal
from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.paired_difference import Floats
from custom_metrics.statistics.units import Unit
from lm_eval_tasks.data.sources import CorruptSource, MissingSource
from lm_eval_tasks.definition.schema import Metric, preferred_first
from lm_eval_tasks.results.compare.joining import JoinedTask
from lm_eval_tasks.results.compare.measuring import NotMeasured, measure
from lm_eval_tasks.results.report.broken import EQUAL, one_sided
from lm_eval_tasks.results.report.doubts import unread
from lm_eval_tasks.runs import Run, TaskRun

__all__ = ["Entry", "HeadlineFigure", "TaskEntry", "entry_of"]


@dataclass(frozen=True)
class HeadlineFigure:
    """A figure on the leaderboard.

    Attributes:
        metric, filter: of the task.
        figure: of the results file.
        numbers: whose mean it is, as a comparison has them
            (:meth:`lm_eval_tasks.results.compare.measuring.Measured.numbers`); empty where it cannot be compared. Of rates
            that a calibration corrects, those of the flagged share: corrected by the same calibration, of one language,
            they differ significantly where the flagged shares do.
        by_document: whether there is a number for each document.
        passages: of annotated answers, the passage of each number.
    """

    metric: Metric
    filter: str
    figure: Figure
    numbers: Floats = field(default_factory=partial(np.empty, 0), compare=False)
    by_document: bool = True
    passages: Sequence[str] = ()


@dataclass(frozen=True)
class TaskEntry:
    """A task of a run.

    Attributes:
        conditions: what must be the same for two runs to be ranked together: name to what it is. ``documents`` is absent
            where the answers were not logged.
        headlines: its figures on the leaderboard.
        figures: all of them, filter to name to figure; `units` are theirs, by name.
        doubts: why they are not comparable with the published ones.
        unranked: why it cannot be ranked; empty where it can.
        alike: how it answers every question alike (:func:`~lm_eval_tasks.results.report.broken.one_sided`), and
            is not ranked for that; empty where it does not.
        unread: what else is wrong with its answers, such as many that are Invalid.
    """

    task: str
    language: str
    family: str
    conditions: dict[str, str]
    headlines: Sequence[HeadlineFigure]
    figures: Mapping[str, Any]
    units: Mapping[str, Unit]
    doubts: Sequence[str]
    unranked: str = ""
    alike: Sequence[str] = ()
    unread: Sequence[str] = ()


@dataclass(frozen=True)
class Entry:
    """A run.

    Attributes:
        folder: that its files lie in, below the leaderboard's; ``.`` for that itself.
        made: what is known of how it was made, in words: the model's arguments, versions.
        tasks: with a figure on the leaderboard.
        others: names of tasks without one: of other benchmarks, or not scored.
        digest: of the files that it was read from.
    """

    model: str
    folder: str
    date: str
    made: dict[str, str]
    tasks: Sequence[TaskEntry]
    others: Sequence[str] = ()
    digest: str = ""

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
    alike = [said] if said else []
    joined, unranked = None, ""
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
            joined = JoinedTask.of(task.task, {0: (task.task, task, answers)})
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
        unread=[*dict.fromkeys(summary for _, summary, _ in unread(task, filter_name))],
    )


def _headline(task: TaskRun, metric: Metric, filter_name: str, joined: JoinedTask | None) -> HeadlineFigure:
    figure = task.figure(metric.name, filter_name)
    if math.isnan(figure.value):
        raise ValueError(f"{task.task}: the results have no value of {metric.name}")
    without = HeadlineFigure(metric, filter_name, figure)
    if joined is None:
        return without
    try:
        measured = measure(joined, metric.name, filter_name, metric.aggregation, corrected=False)
    except NotMeasured:
        return without
    numbers = measured.numbers(0)
    if np.isnan(numbers).all():
        return without
    return HeadlineFigure(metric, filter_name, figure, numbers, measured.is_mean, measured.names)


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
