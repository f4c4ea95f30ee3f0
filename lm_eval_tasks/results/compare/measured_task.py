"""A task of several runs, measured: which of its filters reads the answers, and which of its metrics have values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.results.compare.comparison import Refusal
from lm_eval_tasks.results.compare.joining import JoinedTask
from lm_eval_tasks.results.compare.measuring import Measured, NotMeasured, measure
from lm_eval_tasks.results.doubts import doubts_about_answers, equal_answers
from lm_eval_tasks.runs import TaskRun, headline_filter


class MeasuredTask(NamedTuple):
    """A joined task with the values of its metrics."""

    run: TaskRun  # one of its runs, for what all of them share
    filter: str  # that reads the answers
    metrics: Sequence[Metric]  # that were asked for
    measured: Mapping[str, Measured]  # by metric
    unmeasured: Mapping[str, str]  # metric to why it is not compared
    notes: Sequence[str]
    refusals: Sequence[Refusal]  # if there are some, nothing is measured
    alike: Mapping[int, Sequence[str]] = {}  # run to why it competes with no other: it answers all questions alike
    unread: Mapping[int, Sequence[str]] = {}  # run to other doubts about its answers


def measure_task(
    task: JoinedTask, requested: Sequence[str] | None, every_metric: bool, filter_name: str | None
) -> MeasuredTask:
    """The values of a task's metrics on all of its documents: those requested, or its headlines; by the filter named, or
    that of the headlines. A UsageError where it has no such filter."""
    run, read_by = task.any_run, _chosen_filter(task, filter_name)
    notes: list[str] = []
    if refusals := _refuse_unread(task, read_by, notes):
        return MeasuredTask(run, read_by, (), {}, {}, notes, refusals)
    chosen = _chosen_metrics(task, requested, every_metric)
    if not chosen and not requested:
        notes.append("no metric is in two runs (answers of --predict_only are scored by `score`)")
    if run.is_other and not run.results_file:
        notes.append("without a results file nothing says which of its numbers are means, or are better")
    if run.is_other and not requested and len(chosen) < len(run.metrics):
        notes.append(f"{len(chosen)} of {len(run.metrics)} metrics are compared (--all)")
    others = [name for name in task.filters if name != read_by]
    if others and filter_name is None:
        notes.append(f"the filter {read_by} counts; there is also {', '.join(others)} (--filter)")
    alike: dict[int, list[str]] = {}
    unread: dict[int, list[str]] = {}
    for number, of_run in task.runs.items():
        for kind, summary, _ in doubts_about_answers(of_run.task, read_by, equal_answers(of_run.answers)):
            (alike if kind == "alike" else unread).setdefault(number, []).append(summary)
    measured: dict[str, Measured] = {}
    unmeasured: dict[str, str] = {}
    for metric in chosen:
        try:
            measured[metric.name] = measure(task, metric, read_by)
        except NotMeasured as error:
            figures = {of_run.model: of_run.task.figure(metric.name, read_by).value for of_run in task.runs.values()}
            known = ", ".join(f"{value:.5g} for {model}" for model, value in figures.items() if not math.isnan(value))
            reported = f" (the results files say {known})" if known and run.is_other else ""
            notes.append(f"{metric.name} is not compared: {error}{reported}")
            unmeasured[metric.name] = str(error)
    return MeasuredTask(run, read_by, chosen, measured, unmeasured, notes, (), alike, unread)


def _chosen_metrics(task: JoinedTask, requested: Sequence[str] | None, every: bool) -> Sequence[Metric]:
    """The metrics that at least two runs have; a run without a detector or a calibration lacks some."""
    runs = task.runs.values()
    listed = [entry for run in runs for entry in run.task.metrics]
    times = Counter(entry.name for entry in listed)
    common = {entry.name: entry for entry in listed if times[entry.name] > 1 and entry.name != "bypass"}
    common |= {entry.name: entry for entry in listed if entry.name in common and not entry.is_share}  # of any run
    if not listed:  # a task of a user's own, without its results file
        names = dict.fromkeys(
            name for run in runs for readings in run.answers.readings.values() for name in readings.columns
        )
        metrics = (task.any_run.metric(name) for name in names)
        common = {m.name: replace(m, aggregation="", higher_is_better=None, denominator="") for m in metrics}
    if requested:
        return [common[name] for name in requested if name in common]
    first = [entry for name, entry in common.items() if task.any_run.is_headline(name)]
    return list(dict.fromkeys((*first, *common.values()))) if every or not first else first


def _chosen_filter(task: JoinedTask, requested: str | None) -> str:
    """The requested filter, or that of the headlines, even where no answers have its rows."""
    listed = [name for run in task.runs.values() for name in run.task.filters]
    names = tuple(dict.fromkeys((*listed, *task.filters)))
    if requested is not None and requested in names:
        return requested
    if requested is not None and len(names) > 1:
        raise UsageError(f"{task.name}: no filter {requested}; there are {', '.join(names)}")
    return headline_filter(names, task.any_run.metrics)


def _refuse_unread(task: JoinedTask, filter_name: str, notes: list[str]) -> list[Refusal]:
    """Refusals of runs whose samples lack a filter of the task altogether: their file was cut. Runs that lack only some
    rows of it get a note."""
    refusals = []
    for model, run, answers, _ in task.runs.values():
        readings = answers.readings.get(filter_name)
        rows = int(readings.present.sum()) if readings is not None else 0
        file = run.samples.name if run.samples is not None else "its samples file"
        if answers and rows == 0:
            reason = (
                f"the samples of {model} have no row of the filter {filter_name}, only of {', '.join(answers.readings)}: "
                f"{file} was cut, or is of another version of the task; run it again, or say "
                f"--filter {next(iter(answers.readings), 'none')}"
            )
            refusals.append(Refusal(task.name, "answers", reason))
        elif rows < len(answers):
            notes.append(
                f"{rows} of the {len(answers)} documents of {model} have a row of the filter {filter_name}: {file} was cut"
            )
    return refusals
