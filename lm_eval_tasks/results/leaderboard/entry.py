"""What the leaderboard keeps of a run: its figures, what they were measured on, and a number for each document."""

from __future__ import annotations

import hashlib
import json
import math
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from lm_eval_tasks.results.leaderboard.numbers import numbers_of, passages_of
from lm_eval_tasks.results.report.doubts import EQUAL, one_sided, unread
from lm_eval_tasks.runs import Answers, Run, TaskRun

__all__ = ["Entry", "Measured", "TaskEntry", "entry_of"]


@dataclass(frozen=True)
class Measured:
    """A figure on the leaderboard.

    Attributes:
        metric, filter: of the task.
        kind: ``share`` or ``mean``, what `numbers` are tested as; empty where there is no test for the metric.
        higher_is_better: ``None`` where neither is: such figures have no rank.
        value, low, high, standard_error: of the results file; ``None`` where not known.
        n: documents in the denominator.
        is_share: whether the value is a share of its documents.
        unit: of its values.
        traded_against: the metric that gets worse when this one is gamed; empty where there is none.
        numbers: one for each document or article, in an order that all runs over the same documents share; ``nan`` for
            one that is not in the denominator. Empty where `kind` is.
    """

    metric: str
    filter: str
    kind: str
    higher_is_better: bool | None
    value: float
    low: float | None
    high: float | None
    standard_error: float | None
    n: int
    is_share: bool
    unit: Unit = "share"
    traded_against: str = ""
    numbers: Floats = field(default_factory=partial(np.empty, 0), compare=False)

    @property
    def figure(self) -> Figure:
        low, high, error = (math.nan if x is None else x for x in (self.low, self.high, self.standard_error))
        return Figure(self.value, low, high, error, self.n)


@dataclass(frozen=True)
class TaskEntry:
    """A task of a run.

    Attributes:
        task, benchmark, language: see :class:`lm_eval_tasks.runs.TaskRun`.
        family: its name without the language.
        conditions: what must be the same for two runs to be ranked together: name to what it is. ``documents`` is absent
            where the answers were not logged.
        measured: its headline figures.
        figures: all of them, filter to name to figure; `units` are theirs, by name.
        doubts: why they are not comparable with the published ones.
        unranked: why it cannot be ranked; empty where it can.
        alike: how it answers every question alike (:func:`~lm_eval_tasks.results.report.doubts.one_sided`), and
            is not ranked for that; empty where it does not.
        unread: what else is wrong with its answers, such as many that are Invalid.
        passages: of annotated answers, the passage of each of the `numbers` of its figures.
    """

    task: str
    benchmark: str
    language: str
    family: str
    conditions: dict[str, str]
    measured: tuple[Measured, ...]
    figures: dict[str, Any]
    units: dict[str, Unit]
    doubts: tuple[str, ...]
    unranked: str = ""
    alike: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    passages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entry:
    """A run.

    Attributes:
        model: as the run names it.
        folder: that its files lie in, below the leaderboard's; ``.`` for that itself.
        date: of its newest file.
        made: what is known of how it was made, in words: the model's arguments, versions.
        tasks: with a figure on the leaderboard.
        others: names of tasks without one: of other benchmarks, or not scored.
        digest: of the files that it was read from.
    """

    model: str
    folder: str
    date: str
    made: dict[str, str]
    tasks: tuple[TaskEntry, ...]
    others: tuple[str, ...] = ()
    digest: str = ""

    def to_json(self) -> dict[str, Any]:
        """Numbers of documents are 64-bit floats, little-endian, in base 64."""
        found = asdict(self)
        for one in (one for task in found["tasks"] for one in task["measured"]):
            one["numbers"] = b64encode(one["numbers"].astype("<f8").tobytes()).decode()
        return found

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Entry:
        """Raises KeyError, TypeError or ValueError where `said` is none."""
        tasks = [
            TaskEntry(
                **{
                    **task,
                    **{name: tuple(task[name]) for name in ("doubts", "alike", "unread", "passages")},
                    "measured": tuple(
                        Measured(**{**one, "numbers": np.frombuffer(b64decode(one["numbers"]), "<f8").astype(float)})
                        for one in task["measured"]
                    ),
                }
            )
            for task in said["tasks"]
        ]
        return cls(**{**said, "tasks": tuple(tasks), "others": tuple(said["others"])})


def entry_of(run: Run, folder: str) -> Entry:
    """A run with all of its answers read."""
    tasks = [_task(task) for task in run.tasks.values() if task.benchmark and _headlines(task)]
    shown = {task.task for task in tasks}
    return Entry(
        run.model, folder, run.date, _made(run), tuple(tasks), tuple(name for name in run.tasks if name not in shown)
    )


def _task(task: TaskRun) -> TaskEntry:
    conditions, headlines, filter_name = _conditions(task), _headlines(task), task.headline_filter
    answers: Answers | None = None
    order: list[int] = []
    unranked = ""
    passages: tuple[str, ...] = ()
    try:
        answers = task.answers()
    except MissingSource:
        unranked = "its answers were not logged (--log_samples)"
    except CorruptSource as error:
        unranked = str(error)
    if answers:
        asked = [*zip(answers.contents.tolist(), answers.keys, strict=True)]
        order = sorted(range(len(asked)), key=asked.__getitem__)
        passages = passages_of(answers, order)
        conditions["documents"] = _digest([*map(answers.content, order), *passages])
    return TaskEntry(
        task=task.task,
        benchmark=task.benchmark,
        language=task.language,
        family=task.family,
        conditions=conditions,
        measured=tuple(_measured(task, metric, filter_name, answers, order) for metric in headlines),
        figures={name: dict(figures) for name, figures in task.figures.items()},
        units={metric: task.metric(metric).unit for figures in task.figures.values() for metric in figures},
        doubts=tuple(task.not_comparable),
        unranked=unranked,
        alike=tuple(_alike(task, filter_name, answers)),
        unread=tuple(dict.fromkeys(summary for _, summary, _ in unread(task, filter_name))),
        passages=passages,
    )


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


def _alike(task: TaskRun, filter: str, answers: Answers | None) -> Iterator[str]:
    said, _ = one_sided(task, filter)
    if said:
        yield said
    if answers is not None and are_equal(len(answers), len(np.unique(answers.responses))):
        yield EQUAL


def _measured(task: TaskRun, metric: Metric, name: str, answers: Answers | None, order: Sequence[int]) -> Measured:
    figure = task.figures[name][metric.name]
    kind, numbers = numbers_of(metric.name, metric.aggregation, name, answers, order)
    return Measured(
        metric=metric.name,
        filter=name,
        kind=kind,
        higher_is_better=metric.higher_is_better,
        value=float(figure["value"]),
        **{part: _known(figure.get(part)) for part in ("low", "high", "standard_error")},
        n=int(figure.get("n") or 0),
        is_share=metric.is_share,
        unit=metric.unit,
        traded_against=metric.traded_against,
        numbers=numbers,
    )


def _known(part: Any) -> float | None:
    return float(part) if isinstance(part, (int, float)) and math.isfinite(part) else None


def _conditions(task: TaskRun) -> dict[str, str]:
    settings = task.settings
    found = {"version": str(task.version), "prompt": settings.template[:12], "shots": str(settings.shots)}
    if settings.system_instruction:
        found["system instruction"] = _digest([settings.system_instruction])
    if task.detector:
        parts = {part: task.detector.get(part) for part in ("name", "version", "threshold", "options")}
        found["detector"] = " ".join(_text(part) for part in parts.values() if part)
        calibration = task.provenance.get("calibration")
        found["calibration"] = _text(calibration.get("file", "")) if isinstance(calibration, Mapping) else "none"
    return found


def _made(run: Run) -> dict[str, str]:
    found = {name: _text(run.config[name]) for name in ("model", "model_args", "gen_kwargs") if run.config.get(name)}
    first = next(iter(run.tasks.values()), None)
    versions = first.provenance.get("versions") if first else None
    if isinstance(versions, Mapping):
        found["versions"] = ", ".join(f"{name} {version}" for name, version in versions.items())
    return found


def _text(part: Any) -> str:
    return part if isinstance(part, str) else json.dumps(part, ensure_ascii=False, sort_keys=True, default=str)


def _digest(parts: Iterable[str]) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part.encode("utf-8", "surrogatepass") + b"\n")
    return found.hexdigest()[:12]
