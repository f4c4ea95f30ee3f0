"""The columns of a comparison: the metrics of tasks that runs have in common, and of groups of these tasks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from custom_metrics.scores.aggregations import NotMeasured
from custom_metrics.statistics.figures import Figure, within_scale
from custom_metrics.statistics.strata import mean_of_strata
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.definition import catalogue, schema
from lm_eval_tasks.definition.schema import BALANCED, DEFINED_MEAN, DEFINED_SCORE, DEFINED_SHARE, Metric
from lm_eval_tasks.results.board import Cell, Column, mean_figure, tested
from lm_eval_tasks.results.doubts import doubts_about_answers, in_short, signs_of
from lm_eval_tasks.results.joining import JoinedTask, Refusal
from lm_eval_tasks.results.measuring import Measured, measure, pooled
from lm_eval_tasks.runs import Run, TaskRun
from lm_eval_tasks.runs.other_tasks import is_weighted

Groups = Mapping[str, Sequence[str]]  # name to tasks


class MeasuredTask(NamedTuple):
    """A joined task with the values of its metrics."""

    run: TaskRun  # one of its runs, for what all of them share
    filter: str  # that reads the answers
    metrics: Sequence[Metric]  # that were asked for
    measured: Mapping[str, Measured]  # by metric
    unmeasured: Mapping[str, str]  # metric to why it is not compared
    notes: Sequence[str]
    refusals: Sequence[Refusal]  # if there are some, nothing is measured
    doubts: Mapping[int, Sequence[tuple[str, str, str]]] = {}  # run to the findings about its answers


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
    if run.table is None and not run.results_file:
        notes.append("without a results file nothing says which of its numbers are means, or are better")
    if run.table is None and not requested and len(chosen) < len(run.metrics):
        notes.append(f"{len(chosen)} of {len(run.metrics)} metrics are compared (--all)")
    others = [name for name in task.filters if name != read_by]
    if others and filter_name is None:
        notes.append(f"the filter {read_by} counts; there is also {', '.join(others)} (--filter)")
    doubts = {
        number: [*doubts_about_answers(of_run.task, read_by, signs_of(of_run.task, of_run.answers))]
        for number, of_run in task.runs.items()
    }
    measured: dict[str, Measured] = {}
    unmeasured: dict[str, str] = {}
    for metric in chosen:
        try:
            measured[metric.name] = measure(task, metric, read_by)
            notes += [f"{metric.name} is not compared for all runs: {why}" for why in measured[metric.name].left_out]
        except NotMeasured as error:
            figures = {of_run.model: of_run.task.figure(metric.name, read_by).value for of_run in task.runs.values()}
            known = ", ".join(f"{value:.5g} for {model}" for model, value in figures.items() if not math.isnan(value))
            reported = f" (the results files say {known})" if known and run.table is None else ""
            notes.append(f"{metric.name} is not compared: {error}{reported}")
            unmeasured[metric.name] = str(error)
    return MeasuredTask(run, read_by, chosen, measured, unmeasured, notes, (), doubts)


def _chosen_metrics(task: JoinedTask, requested: Sequence[str] | None, every: bool) -> Sequence[Metric]:
    """The metrics that at least two runs have; a run without a detector or a calibration lacks some."""
    runs = task.runs.values()
    listed = [entry for run in runs for entry in run.task.metrics]
    times = Counter(entry.name for entry in listed)
    common = {entry.name: entry for entry in listed if times[entry.name] > 1 and entry.name != "bypass"}
    common |= {entry.name: entry for entry in listed if entry.name in common and not entry.is_share}  # of any run
    if not listed:  # a task of a user's own, without its results file
        readings = (of_filter for run in runs for of_filter in run.answers.readings.values())
        metrics = [task.any_run.metric(name) for name in dict.fromkeys(n for each in readings for n in each.columns)]
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
    return schema.headline_filter(names, task.any_run.metrics)


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
            of_all = f"{rows} of the {len(answers)} documents of {model}"
            notes.append(f"{of_all} have a row of the filter {filter_name}: {file} was cut")
    return refusals


def columns_of(
    runs: Sequence[Run], groups: Groups, compared: Mapping[str, MeasuredTask], notes: list[str]
) -> list[Column]:
    """The columns of groups whose tasks are all compared, and of the tasks, with their differences. They are sorted by
    benchmark, in the order of the runs; within one, headlines first, and groups before tasks. Groups that are weighted, or
    cannot be compared, are added to `notes`."""
    columns: list[Column] = []
    for name, members in (*groups.items(), *((name, [name]) for name in compared)):
        if name in catalogue.without_mean(members) or not all(member in compared for member in members):
            continue
        tasks = [compared[member] for member in members]
        for metric, filter_name in product(tasks[0].metrics, dict.fromkeys(task.filter for task in tasks)):
            measuring = [task for task in tasks if task.filter == filter_name and metric.name in task.measured]
            if measuring and (column := _column(runs, name, members, metric, filter_name, measuring, notes)):
                columns.append(column)
    columns = [column for column in tested(columns) if column.tested]
    for place, column in enumerate(columns):  # without runs that share no task with another
        in_pairs = {*np.unique(column.tested.pairs).tolist()}
        columns[place] = replace(column, cells={run: cell for run, cell in column.cells.items() if run in in_pairs})
    benchmarks = list(dict.fromkeys(column.benchmark for column in columns if not column.group))
    order = list(dict.fromkeys(column.metric.name for column in columns))

    def place_of(of: Column) -> tuple[Any, ...]:
        return benchmarks.index(of.benchmark), not of.headline, order.index(of.metric.name), not of.group

    return sorted(columns, key=place_of)


def _column(
    runs: Sequence[Run],
    name: str,
    members: Sequence[str],
    metric: Metric,
    filter_name: str,
    tasks: Sequence[MeasuredTask],
    notes: list[str],
) -> Column | None:
    """The column of a metric of a task or group (`name`); `tasks` are those of its members that have it."""
    task_run, measured = tasks[0].run, [task.measured[metric.name] for task in tasks]
    group, weighted = name not in members, False
    if group and task_run.table is None:
        kind, note = _kind_of_group(runs, name, f"{metric.name},{filter_name}", measured, len(members))
        notes += [f"{name}: {note}"] * bool(note)
        if kind is None:
            return None
        weighted = kind
    cells = {}
    for number, run in enumerate(runs):
        of_run = [(task, each) for task, each in zip(tasks, measured, strict=True) if number in each.rows]
        if of_run:
            values = [each for _, each in of_run]
            parts = pooled(values, [number]) if weighted else values
            value = mean_of_strata([Figure(each.value(number)) for each in parts]).value
            figures = [run.tasks[task].figure(metric.name, filter_name) for task in members if task in run.tasks]
            figure = _figure(figures, values, number, metric)
            doubts = in_short([task.doubts.get(number, ()) for task, _ in of_run])
            alike = all(any(kind == "alike" for kind, *_ in task.doubts.get(number, ())) for task, _ in of_run)
            cells[number] = Cell.of(figure, metric, alike)._replace(value=value, doubts=doubts)
    family, language = ("", "") if group else (task_run.family, task_run.language)
    where = task_run.benchmark, family, language, task_run.is_headline(metric.name)
    return Column(name, metric, filter_name, cells, measured, group, weighted, *where)


def _figure(figures: Sequence[Figure], tasks: Sequence[Measured], run: int, metric: Metric) -> Figure:
    """The figure of a run over all tasks that it has, from its results files. Bounds of shares and means that are missing
    there are computed from the documents' values."""
    is_mean = metric.aggregation in (DEFINED_MEAN, DEFINED_SCORE, DEFINED_SHARE, BALANCED)
    if is_mean and metric.unit != "number" and all(math.isnan(figure.low) for figure in figures):
        figures = [within_scale(task.figure(run), metric.unit) for task in tasks if not task.form[1]]
    return mean_figure(figures, metric, [(task, run) for task in tasks])


def _kind_of_group(
    runs: Sequence[Run], group: str, key: str, tasks: Sequence[Measured], members: int
) -> tuple[bool | None, str]:
    """What the number of a group that is not ours is in the results files: the mean over its tasks (False), or over their
    documents (True); ``None`` where it is neither, or fewer than two runs have it. And a note on it."""
    values = [run.group_results.get(group, {}).get(key) for run in runs]
    reported = {number: value for number, value in enumerate(values) if isinstance(value, float)}
    kinds = {
        is_weighted(value, [t.value(run) for t in tasks], [int(t.counted(run).sum()) for t in tasks])
        for run, value in reported.items()
    }
    if None in kinds or len(tasks) < members:
        metric = key.partition(",")[0]
        return None, f"its {metric} is not compared: no mean of what can be read of its tasks"
    if len(reported) < 2:
        return None, ""
    weighted = True in kinds
    return weighted, "each of its tasks counts by its number of documents, as in the results file" if weighted else ""
