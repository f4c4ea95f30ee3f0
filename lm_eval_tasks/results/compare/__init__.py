"""Runs compared pair by pair, over the documents that they have in common.

:func:`compare_runs` takes runs (:func:`lm_eval_tasks.runs.read_runs`) and gives a
:class:`~lm_eval_tasks.results.compare.comparison.Comparison`. Of each task the answers are joined by the content of the
documents (:mod:`~lm_eval_tasks.results.compare.joining`), and its metrics measured
(:mod:`~lm_eval_tasks.results.compare.measuring`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from statistics import fmean

import numpy as np

from custom_metrics.statistics.multiple_comparisons import holm
from custom_metrics.statistics.strata import mean_of
from custom_metrics.statistics.units import is_measurable
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.results.compare.comparison import Comparison, Difference, Incomparable, Joined, Refusal
from lm_eval_tasks.results.compare.joining import JoinedTask, check_joined
from lm_eval_tasks.results.compare.measuring import Measured, NotMeasured, compare_measured, measure
from lm_eval_tasks.runs import Answers, Run, TaskRun, headline_filter, labels

__all__ = ["Comparison", "Difference", "Incomparable", "Joined", "Refusal", "compare_runs"]

_REMEDIES = {
    "documents": "Run both models on the same data: the same mirror or revision, the same retriever.",
    "prompts": "Run both models with the same prompt, shots and system instruction.",
    "detectors": "Tag the answers of both alike: `lm-eval-grounded score RUN --detector NAME -o DIR`.",
    "calibrations": "Correct both alike: `lm-eval-grounded score RUN --calibration NAME -o DIR`.",
    "answers": "",
}


@dataclass
class _Task:
    """A task whose metrics are compared: one of its runs, the filter that reads the answers, and its metrics, some of which
    have values."""

    run: TaskRun
    filter: str
    metrics: Sequence[Metric]
    measured: dict[str, Measured] = field(default_factory=dict)


def compare_runs(
    runs: Sequence[Run],
    tasks: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    every_metric: bool = False,
    filter_name: str | None = None,
    refuse: bool = True,
    progress: Callable[[Sequence[str]], Iterator[str]] = iter,
    read: Callable[[TaskRun], Answers] = TaskRun.answers,
) -> Comparison:
    """Compare runs, all pairs of them.

    Args:
        runs: two or more.
        tasks: names of tasks and groups; default all that two runs have.
        metrics: names; default the headlines of each benchmark.
        every_metric: all metrics instead.
        filter_name: the filter whose readings count, such as ``strict``; default
            :func:`lm_eval_tasks.runs.headline_filter`.
        refuse: raise an error if a task cannot be compared. Else leave it out, and say so in ``refused``; so too where
            answers were not logged.
        progress: goes through the names of the tasks; :class:`tqdm.tqdm` shows a bar.
        read: the answers of a task, where they have been read already.

    Raises:
        Incomparable: documents, prompts, detectors or calibrations differ.
        UsageError: there is nothing to compare: fewer than two runs, no common task, an unknown task, metric or filter.
        MissingSource: a run's answers were not logged.
        CorruptSource: a samples file is damaged.
    """
    if len(runs) < 2:
        there = f"only one run was found ({runs[0].folder})" if runs else "no run was found"
        raise UsageError(f"{there}; a comparison needs two or more")
    models = labels(runs)
    groups = _common_groups(runs)
    refused: list[Refusal] = []
    notes: dict[str, list[str]] = {}  # with the tasks that they hold of
    joined: list[Joined] = []
    compared: dict[str, _Task] = {}
    uncompared: dict[str, str] = {}  # metric to why not
    for name in progress(_chosen_tasks(runs, models, groups, tasks)):
        of_task = {number: run.tasks[name] for number, run in enumerate(runs) if name in run.tasks}
        if not refuse:
            refused += [
                Refusal(name, "answers", f"the answers of {models[number]} were not logged (--log_samples)")
                for number, run in of_task.items()
                if run.samples is None
            ]
            of_task = {number: run for number, run in of_task.items() if run.samples is not None}
            if len(of_task) < 2:
                continue
        of_this: list[str] = []
        task = JoinedTask.of(name, {number: (models[number], run, read(run)) for number, run in of_task.items()})
        differing = check_joined(task, of_this)
        read_by = "" if differing else _filter_of(task, filter_name)
        differing = differing or _unread(task, read_by, of_this)
        refused += differing
        if not differing:
            chosen = _chosen_metrics(task, metrics, every_metric)
            joined.append(task.summary(len(runs)))
            compared[name] = _Task(task.any_run, read_by, chosen)
            if not chosen and not metrics:
                of_this.append("no metric is in two runs (answers of --predict_only are scored by `score`)")
            others = [other for other in task.filters if other != read_by]
            if others and filter_name is None:
                of_this.append(f"the filter {read_by} counts; there is also {', '.join(others)} (--filter)")
            for metric in chosen:
                try:
                    compared[name].measured[metric.name] = measure(task, metric.name, read_by, metric.aggregation)
                except NotMeasured as error:
                    of_this.append(f"{metric.name} is not compared: {error}")
                    uncompared.setdefault(metric.name, str(error))
        for note in of_this:
            notes.setdefault(note, []).append(name)
    if refused and refuse:
        raise Incomparable(_refusals(refused))
    if metrics and not refused:
        missing = [name for name in metrics if not any(name in task.measured for task in compared.values())]
        if why := [f"{metric}: {uncompared[metric]}" for metric in missing if metric in uncompared]:
            raise Incomparable(f"the runs cannot be compared. {'; '.join(why)}")
        if missing:
            has = sorted({metric.name for task in compared.values() for metric in task.run.metrics})
            raise UsageError(f"no common task has the metric {', '.join(missing)}; there are {', '.join(has)}")
    asked = {name: members for name, members in groups.items() if not tasks or name in tasks}
    rows = [*_rows(runs, asked, compared)]
    said = [f"{_few(names, 3)}: {note}" for note, names in notes.items()]
    for model, run in zip(models, runs, strict=True):
        alone = [name for name in run.tasks if sum(name in other.tasks for other in runs) == 1]
        if alone and not tasks:
            said.append(f"only {model} has {_few(alone)}")
    return Comparison(tuple(models), tuple(_in_order(_corrected(rows))), tuple(joined), tuple(said), tuple(refused))


# ---------------------------------------------------------------------------------------------------- what is compared


def _common_groups(runs: Sequence[Run]) -> dict[str, Sequence[str]]:
    """Groups that two runs or more have whole, with the same tasks; and of our other groups the part that two runs have."""
    common: dict[str, Sequence[str]] = {}
    for one, other in combinations(runs, 2):
        for name, members in one.groups.items():
            if name in other.groups and {*other.groups[name]} == {*members}:
                common.setdefault(name, members)
    times = Counter(name for run in runs for name in run.tasks)
    for group, of_group in catalogue.groups().items():
        both = [name for name in of_group if times[name] > 1]
        if len(both) > 1:
            common.setdefault(group, both)
    return common


def _chosen_tasks(
    runs: Sequence[Run], models: Sequence[str], groups: Mapping[str, Sequence[str]], asked: Sequence[str] | None
) -> list[str]:
    common = [name for name, number in Counter(name for run in runs for name in run.tasks).items() if number > 1]
    if not common:
        has = "; ".join(f"{model} has {_few(list(run.tasks))}" for model, run in zip(models, runs, strict=True))
        raise UsageError(f"no task is in two runs: {has}")
    chosen: list[str] = []
    for name in asked or common:
        if asked and name in groups:
            chosen += groups[name]
        elif name in common:
            chosen.append(name)
        else:
            raise UsageError(f"no two runs have the task {name}; they have {_few([*groups, *common], 40)}")
    return list(dict.fromkeys(chosen))


def _few(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _chosen_metrics(task: JoinedTask, asked: Sequence[str] | None, every: bool) -> Sequence[Metric]:
    """The metrics that two runs have; one may be without a detector, or a calibration."""
    parts = task.parts.values()
    listed = [metric for part in parts for metric in part.run.metrics]
    times = Counter(metric.name for metric in listed)
    known = {metric.name: metric for metric in listed if times[metric.name] > 1 and metric.name != "bypass"}
    if not listed:  # a task of a user's own, without its results file
        names = dict.fromkeys(
            name for part in parts for readings in part.answers.readings.values() for name in readings.columns
        )
        described = (task.any_run.metric(name) for name in names)
        known = {each.name: replace(each, aggregation="", higher_is_better=None, denominator="") for each in described}
    if asked:
        return [known[name] for name in asked if name in known]
    first = [metric for name, metric in known.items() if task.any_run.is_headline(name)]
    return list(dict.fromkeys((*first, *known.values()))) if every or not first else first


def _filter_of(task: JoinedTask, asked: str | None) -> str:
    """The filter asked for, or that of the headlines; also where no row of it is left."""
    listed = [name for part in task.parts.values() for name in part.run.filters]
    names = tuple(dict.fromkeys((*listed, *task.filters)))
    if asked is not None and asked in names:
        return asked
    if asked is not None and len(names) > 1:
        raise UsageError(f"{task.name}: no filter {asked}; there are {', '.join(names)}")
    return headline_filter(names, task.any_run.metrics)


def _unread(task: JoinedTask, filter_name: str, notes: list[str]) -> list[Refusal]:
    """Runs whose samples have no row of a filter, though the task has it: their file was cut. Of those that lack some rows,
    a note says so."""
    refusals = []
    for model, run, answers, _ in task.parts.values():
        readings = answers.readings.get(filter_name)
        read = int(readings.present.sum()) if readings is not None else 0
        file = run.samples.name if run.samples is not None else "its samples file"
        if answers and read == 0:
            reason = (
                f"the samples of {model} have no row of the filter {filter_name}, only of {', '.join(answers.readings)}: "
                f"{file} was cut, or is of another version of the task; run it again, or say "
                f"--filter {next(iter(answers.readings), 'none')}"
            )
            refusals.append(Refusal(task.name, "answers", reason))
        elif read < len(answers):
            notes.append(
                f"{read} of the {len(answers)} documents of {model} have a row of the filter {filter_name}: {file} was cut"
            )
    return refusals


def _refusals(refused: Sequence[Refusal]) -> str:
    """All reasons, those of many tasks once."""
    by_reason: dict[tuple[str, str], list[Refusal]] = {}
    for refusal in refused:
        reason = "" if refusal.kind in ("documents", "prompts") else refusal.reason
        by_reason.setdefault((refusal.kind, reason), []).append(refusal)
    lines = []
    for first, *others in by_reason.values():
        more = f" (and {len(others)} more tasks: {_few([other.task for other in others])})" if others else ""
        lines.append(f"{first.task}: {first.reason}{more}. {_REMEDIES[first.kind]}".rstrip())
    return "the runs cannot be compared. " + " ".join(lines)


# ------------------------------------------------------------------------------------------------------ what was found


def _rows(
    runs: Sequence[Run], groups: Mapping[str, Sequence[str]], compared: Mapping[str, _Task]
) -> Iterator[Difference]:
    """The rows of groups whose tasks are all compared, then those of the tasks."""
    for name, members in (*groups.items(), *((name, [name]) for name in compared)):
        if not all(member in compared for member in members):
            continue
        tasks = {member: compared[member] for member in members}
        run, group = tasks[members[0]].run, name not in tasks
        filters = dict.fromkeys(task.filter for task in tasks.values())
        pairs = combinations(range(len(runs)), 2)
        for metric, filter_name, pair in product(tasks[members[0]].metrics, filters, pairs):
            read = [task.measured for task in tasks.values() if task.filter == filter_name]
            parts = [measured[metric.name] for measured in read if metric.name in measured]
            both = [part for part in parts if all(number in part.values for number in pair)]
            if group:  # of a task the row says that nothing counts
                both = [part for part in both if all(part.counted(number).any() for number in pair)]
            if len({(part.is_mean, part.errors is None) for part in both}) != 1:
                continue
            found = compare_measured(both, *pair)
            counted = [[part.counted(number) for number in pair] for part in both]
            own, measurable = [], []
            for number in pair:  # over all tasks that the run has
                values = [value for part in parts if not math.isnan(value := part.own(number))]
                own.append(fmean(values) if values else math.nan)
                of_run = runs[number].tasks
                figures = [of_run[each].figure(metric.name, filter_name) for each in tasks if each in of_run]
                measurable.append(is_measurable(mean_of(figures, metric.is_share), metric.unit))
            yield Difference(
                task=name,
                benchmark=run.benchmark,
                language="" if group else run.language,
                group=group,
                tasks=len(both),
                metric=metric.name,
                filter=filter_name,
                higher_is_better=metric.higher_is_better,
                headline=run.is_headline(metric.name),
                first=pair[0],
                second=pair[1],
                first_value=found.first,
                second_value=found.second,
                difference=found.difference,
                low=found.low,
                high=found.high,
                p=found.p,
                p_exact=found.p_exact,
                p_adjusted=found.p,
                family=1,
                n=found.n,
                unit=both[0].unit,
                only_first=sum(int((one & ~other).sum()) for one, other in counted),
                only_second=sum(int((other & ~one).sum()) for one, other in counted),
                first_own=own[0],
                second_own=own[1],
                method=found.method,
                denominator=metric.denominator,
                measured=metric,
                first_measurable=measurable[0],
                second_measurable=measurable[1],
            )


def _corrected(rows: Sequence[Difference]) -> list[Difference]:
    """Holm's correction over a metric's comparisons: all languages and pairs of models; groups by themselves."""
    families: dict[tuple[object, ...], list[int]] = {}
    for place, row in enumerate(rows):
        families.setdefault((row.benchmark or row.task, row.metric, row.filter, row.group), []).append(place)
    found = list(rows)
    for places in families.values():
        adjusted = holm([rows[place].p for place in places])
        tested = max(1, np.isfinite(adjusted).sum())
        for place, p in zip(places, adjusted.tolist(), strict=True):
            found[place] = replace(rows[place], p_adjusted=p, family=int(tested))
    return found


def _in_order(rows: Sequence[Difference]) -> list[Difference]:
    """Benchmark by benchmark as they were run; in each headlines first, groups before tasks."""
    benchmarks = list(dict.fromkeys(row.benchmark for row in rows if not row.group))
    metrics = list(dict.fromkeys(row.metric for row in rows))
    return sorted(
        rows,
        key=lambda row: (benchmarks.index(row.benchmark), not row.headline, metrics.index(row.metric), not row.group),
    )
