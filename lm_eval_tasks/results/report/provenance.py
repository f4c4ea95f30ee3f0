"""Where every number of a report comes from: its file, what it was measured on, and the command that made it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.units import NOT_MEASURABLE, Unit, is_measurable, without_point
from lm_eval_tasks.results.report.numbers import bounds, shown
from lm_eval_tasks.results.reproduce import commands_behind
from lm_eval_tasks.runs import Run, TaskRun

__all__ = ["Made", "Number", "Origin", "PublicFile", "made", "numbers", "origins"]


@dataclass(frozen=True)
class Made:
    """A results file and the commands behind it.

    Attributes:
        model: label of the run.
        folder: name of the folder that the file lies in.
        file: name of it.
        commands: to be typed one after another; empty where none can be told.
        notes: what the commands cannot say, or why there are none.
        tasks: how many of the report's tasks are from it.
    """

    model: str
    folder: str
    file: str
    commands: tuple[str, ...]
    notes: tuple[str, ...]
    tasks: int


@dataclass(frozen=True)
class PublicFile:
    """A file that documents were made of."""

    repository: str
    revision: str
    path: str
    sha256: str


@dataclass(frozen=True)
class Origin:
    """What the numbers of a task depend on.

    Attributes:
        task: its name.
        models: labels of the runs of which all this holds.
        facts: name to value, in words.
        files: public files that the documents were made of.
        not_comparable: why the numbers are not comparable with the published ones.
    """

    task: str
    models: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    files: tuple[PublicFile, ...]
    not_comparable: tuple[str, ...]


@dataclass(frozen=True)
class Number:
    """A number of a results file."""

    task: str
    model: str
    filter: str
    metric: str
    value: str
    bounds: str
    n: int
    denominator: str
    sort: float


def made(runs: Mapping[str, Run]) -> list[Made]:
    """The results files of some runs (label to run) with the commands behind them, each once."""
    found = []
    for model, run in runs.items():
        files: dict[Path, int] = {}
        for task in run.tasks.values():
            if task.results_file is not None:
                files[task.results_file] = files.get(task.results_file, 0) + 1
        for path, tasks in files.items():
            try:
                commands, notes = commands_behind(path)
            except (OSError, ValueError) as error:
                commands, notes = [], [str(error).replace(str(path), path.name)]
            found.append(Made(model, path.parent.name, path.name, tuple(commands), tuple(notes), tasks))
        if not files:
            why = "There is no results file beside the samples: the command is not known."
            found.append(Made(model, run.folder.name, "", (), (why,), len(run.tasks)))
    return found


def numbers(runs: Mapping[str, Run], benchmark: str) -> Iterator[Number]:
    """All figures of a benchmark's tasks, task by task, so that models stand beside each other."""
    names = dict.fromkeys(task.task for run in runs.values() for task in run.of_benchmark(benchmark))
    for name in names:
        for model, run in runs.items():
            if name in run.tasks:
                yield from _numbers(model, run.tasks[name])


def _numbers(model: str, task: TaskRun) -> Iterator[Number]:
    denominators = {metric.name: metric.denominator for metric in task.metrics}
    for filter_name in task.filters:
        written = task.figures.get(filter_name, {})
        for metric in dict.fromkeys([*denominators, *written]):
            figure = task.figure(metric, filter_name)
            entry = written.get(metric)
            said = entry.get("denominator") if isinstance(entry, Mapping) else None
            denominator = str(said or denominators.get(metric, ""))
            yield _number(model, task.task, filter_name, metric, figure, task.metric(metric).unit, denominator)


def _number(
    model: str, task: str, filter_name: str, metric: str, figure: Figure, unit: Unit, denominator: str
) -> Number:
    value = without_point(figure, unit).value
    return Number(
        task,
        model,
        filter_name,
        metric,
        shown(value, unit) if is_measurable(figure, unit) else NOT_MEASURABLE,
        bounds(figure, unit),
        figure.n,
        denominator,
        value if value == value else -1.0,  # undefined and unknown sort before everything
    )


def origins(runs: Mapping[str, Run], benchmark: str) -> Iterator[Origin]:
    """What the tasks of a benchmark depend on. Models of which the same holds share a record."""
    names = dict.fromkeys(task.task for run in runs.values() for task in run.of_benchmark(benchmark))
    for name in names:
        found: dict[Origin, list[str]] = {}
        for model, run in runs.items():
            if name in run.tasks:
                found.setdefault(_origin(run.tasks[name]), []).append(model)
        yield from (replace(origin, models=tuple(models)) for origin, models in found.items())


def _origin(task: TaskRun) -> Origin:
    record = task.provenance
    return Origin(
        task.task,
        (),
        tuple((name, value) for name, value in _facts(task, record) if value),
        tuple(
            PublicFile(*(str(entry.get(key) or "") for key in ("repository", "revision", "path", "sha256")))
            for entry in record.get("files") or ()
            if isinstance(entry, Mapping)
        ),
        tuple(task.not_comparable),
    )


def _facts(task: TaskRun, record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    settings, detector = task.settings, task.detector
    calibration = record.get("calibration")
    yield "task version", "" if task.version is None else str(task.version)
    yield "answers", "" if task.samples else "not logged"
    yield "split", str(record.get("split") or "")
    yield "documents", _pairs(record.get("kept"))
    yield "left out", _pairs(record.get("left_out"))
    yield "read from", str(record.get("read_from") or "")
    yield "options", _pairs(record.get("options"))
    yield "retrieval", _pairs(record.get("retrieval"))
    yield "prompt (SHA-256)", settings.template
    yield "examples in the prompt", str(settings.shots or "")
    yield "chat template (SHA-256)", settings.chat_template
    yield "system instruction", settings.system_instruction
    yield "generation", _pairs(settings.generation)
    yield "limit", "" if settings.limit is None else f"{settings.limit:g}"
    yield "detector", " ".join(str(detector[key]) for key in ("name", "version") if detector.get(key))
    if isinstance(calibration, Mapping):
        yield "calibration", _pairs({key: value for key, value in calibration.items() if key != "models"})
    yield "versions", _pairs(record.get("versions"))


def _pairs(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_short(each)}" for key, each in value.items() if each not in (None, ""))
    return "" if value is None else str(value)


def _short(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(str, value)) + "]"
    return str(value)
