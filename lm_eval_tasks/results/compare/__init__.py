"""Runs compared pair by pair, over the documents that they have in common.

:func:`compare_runs` takes runs (:func:`lm_eval_tasks.runs.read_runs`) and gives a
:class:`~lm_eval_tasks.results.compare.comparison.Comparison`. It joins the answers of each task by their documents
(:mod:`~lm_eval_tasks.results.compare.joining`), and measures each metric on the common ones
(:mod:`~lm_eval_tasks.results.compare.measuring`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product

import numpy as np

from custom_metrics.statistics.figures import Figure, mean_figure, share_figure
from custom_metrics.statistics.multiple_comparisons import holm
from custom_metrics.statistics.strata import mean_of, mean_of_strata
from custom_metrics.statistics.units import is_measurable
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.definition.schema import DEFINED_MEAN, DEFINED_SHARE, Metric
from lm_eval_tasks.results.compare.comparison import Comparison, Difference, DocumentCounts, Incomparable, Refusal
from lm_eval_tasks.results.compare.joining import JoinedTask, check_joined
from lm_eval_tasks.results.compare.measuring import Measured, NotMeasured, compare_measured, measure, pooled
from lm_eval_tasks.runs import Answers, Run, TaskRun, headline_filter, labels
from lm_eval_tasks.runs.other_tasks import described, is_weighted

__all__ = ["Comparison", "Difference", "DocumentCounts", "Incomparable", "Refusal", "compare_runs"]

_REMEDIES = {
    "documents": "Run both models on the same data: the same mirror or revision, the same retriever.",
    "prompts": "Run both models with the same prompt, shots and system instruction.",
    "detectors": "Tag the answers of both alike: `lm-eval-grounded score RUN --detector NAME -o DIR`.",
    "calibrations": "Correct both alike: `lm-eval-grounded score RUN --calibration NAME -o DIR`.",
    "answers": "",
}


@dataclass
class _Task:
    """A task that is compared: one of its runs, the filter that reads the answers, and its metrics; some have values."""

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
    read_answers: Callable[[TaskRun], Answers] = TaskRun.answers,
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
        read_answers: gives the answers of a task; for callers that have read them already.

    Raises:
        Incomparable: documents, prompts, detectors or calibrations differ.
        UsageError: there is nothing to compare: fewer than two runs, no common task, an unknown task, metric or filter.
        MissingSource: a run's answers were not logged.
        CorruptSource: a samples file is damaged.
    """
    if len(runs) < 2:
        found_runs = f"only one run was found ({runs[0].folder})" if runs else "no run was found"
        raise UsageError(f"{found_runs}; a comparison needs two or more")
    models = labels(runs)
    groups = _common_groups(runs)
    refused: list[Refusal] = []
    notes: dict[str, list[str]] = {}  # text to the tasks that it concerns
    joined: list[DocumentCounts] = []
    compared: dict[str, _Task] = {}
    uncompared: dict[str, str] = {}  # metric to why not
    for name in progress(_chosen_tasks(runs, models, groups, tasks)):
        task_runs = {number: run.tasks[name] for number, run in enumerate(runs) if name in run.tasks}
        if not refuse:
            refused += [
                Refusal(name, "answers", f"the answers of {models[number]} were not logged (--log_samples)")
                for number, run in task_runs.items()
                if run.samples is None
            ]
            task_runs = {number: run for number, run in task_runs.items() if run.samples is not None}
            if len(task_runs) < 2:
                continue
        task_notes: list[str] = []
        of_runs = {number: read_answers(run) for number, run in task_runs.items()}
        answers = {
            n: (models[n], described(task_runs[n], of_run, bounds=False), of_run) for n, of_run in of_runs.items()
        }
        task = JoinedTask.join(name, answers)
        differing = check_joined(task, task_notes)
        read_by = "" if differing else _chosen_filter(task, filter_name)
        differing = differing or _refuse_unread(task, read_by, task_notes)
        refused += differing
        if not differing:
            chosen = _chosen_metrics(task, metrics, every_metric)
            joined.append(task.count_documents(len(runs)))
            compared[name] = _Task(task.any_run, read_by, chosen)
            if not chosen and not metrics:
                task_notes.append("no metric is in two runs (answers of --predict_only are scored by `score`)")
            other_filters = [other for other in task.filters if other != read_by]
            if task.any_run.is_other and not task.any_run.results_file:
                task_notes.append("without a results file nothing says which of its numbers are means, or are better")
            if task.any_run.is_other and not metrics and len(chosen) < len(task.any_run.metrics):
                task_notes.append(f"{len(chosen)} of {len(task.any_run.metrics)} metrics are compared (--all)")
            if other_filters and filter_name is None:
                task_notes.append(f"the filter {read_by} counts; there is also {', '.join(other_filters)} (--filter)")
            for metric in chosen:
                try:
                    compared[name].measured[metric.name] = measure(task, metric.name, read_by, metric.aggregation)
                except NotMeasured as error:
                    values = {run.model: run.task.figure(metric.name, read_by).value for run in task.runs.values()}
                    known = ", ".join(f"{value:.5g} for {m}" for m, value in values.items() if value == value)
                    reported = f" (the results files say {known})" if known and task.any_run.is_other else ""
                    task_notes.append(f"{metric.name} is not compared: {error}{reported}")
                    uncompared.setdefault(metric.name, str(error))
        for note in task_notes:
            notes.setdefault(note, []).append(name)
    if refused and refuse:
        raise Incomparable(_refusal_message(refused))
    if metrics and not refused:
        missing = [name for name in metrics if not any(name in task.measured for task in compared.values())]
        if why := [f"{metric}: {uncompared[metric]}" for metric in missing if metric in uncompared]:
            raise Incomparable(f"the runs cannot be compared. {'; '.join(why)}")
        if missing:
            listed = sorted({metric.name for task in compared.values() for metric in task.run.metrics})
            raise UsageError(f"no common task has the metric {', '.join(missing)}; there are {', '.join(listed)}")
    chosen_groups = {name: members for name, members in groups.items() if not tasks or name in tasks}
    messages = [f"{_abbreviated(names, 3)}: {note}" for note, names in notes.items()]
    rows = [*_difference_rows(runs, chosen_groups, compared, messages)]
    for model, run in zip(models, runs, strict=True):
        unshared = [name for name in run.tasks if sum(name in other.tasks for other in runs) == 1]
        if unshared and not tasks:
            messages.append(f"only {model} has {_abbreviated(unshared)}")
    return Comparison(
        tuple(models), tuple(_sorted(_corrected(rows))), tuple(joined), tuple(dict.fromkeys(messages)), tuple(refused)
    )


def _common_groups(runs: Sequence[Run]) -> dict[str, Sequence[str]]:
    """The groups that two runs have completely, with the same tasks; of our other groups, the tasks that two runs have."""
    common: dict[str, Sequence[str]] = {}
    for first, second in combinations(runs, 2):
        for name, members in first.groups.items():
            if name in second.groups and {*second.groups[name]} == {*members}:
                common.setdefault(name, members)
    times = Counter(name for run in runs for name in run.tasks)
    for group, tasks in catalogue.groups().items():
        both = [name for name in tasks if times[name] > 1]
        if len(both) > 1:
            common.setdefault(group, both)
    return common


def _chosen_tasks(
    runs: Sequence[Run], models: Sequence[str], groups: Mapping[str, Sequence[str]], requested: Sequence[str] | None
) -> list[str]:
    common = [name for name, number in Counter(name for run in runs for name in run.tasks).items() if number > 1]
    if not common:
        has = "; ".join(f"{model} has {_abbreviated(list(run.tasks))}" for model, run in zip(models, runs, strict=True))
        raise UsageError(f"no task is in two runs: {has}")
    chosen: list[str] = []
    for name in requested or common:
        if requested and name in groups:
            chosen += groups[name]
        elif name in common:
            chosen.append(name)
        else:
            raise UsageError(f"no two runs have the task {name}; they have {_abbreviated([*groups, *common], 40)}")
    return list(dict.fromkeys(chosen))


def _abbreviated(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


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


def _refusal_message(refused: Sequence[Refusal]) -> str:
    """One message for all refusals; a reason that several tasks share is given once."""
    by_reason: dict[tuple[str, str], list[Refusal]] = {}
    for refusal in refused:
        reason = "" if refusal.kind in ("documents", "prompts") else refusal.reason
        by_reason.setdefault((refusal.kind, reason), []).append(refusal)
    lines = []
    for first, *rest in by_reason.values():
        more = f" (and {len(rest)} more tasks: {_abbreviated([refusal.task for refusal in rest])})" if rest else ""
        lines.append(f"{first.task}: {first.reason}{more}. {_REMEDIES[first.kind]}".rstrip())
    return "the runs cannot be compared. " + " ".join(lines)


def _difference_rows(
    runs: Sequence[Run], groups: Mapping[str, Sequence[str]], compared: Mapping[str, _Task], notes: list[str]
) -> Iterator[Difference]:
    """The differences of all pairs of runs: first on groups whose tasks are all compared, then on the tasks. Groups that
    are weighted, or cannot be compared, are added to `notes`."""
    for name, members in (*groups.items(), *((name, [name]) for name in compared)):
        if not all(member in compared for member in members):
            continue
        tasks = [compared[member] for member in members]
        task_run, group = tasks[0].run, name not in members
        for metric, filter_name in product(tasks[0].metrics, dict.fromkeys(task.filter for task in tasks)):
            of_filter = [task.measured for task in tasks if task.filter == filter_name]
            all_measured = [by_metric[metric.name] for by_metric in of_filter if metric.name in by_metric]
            weighted = False
            if group and task_run.is_other and all_measured:
                values = [run.group_results.get(name, {}).get(f"{metric.name},{filter_name}") for run in runs]
                reported = {number: value for number, value in enumerate(values) if isinstance(value, float)}
                kinds: set[bool | None] = {None} if len(all_measured) < len(members) else set()
                for n, value in reported.items():
                    sizes = [int(task.counted(n).sum()) for task in all_measured]
                    kinds.add(is_weighted(value, [task.run_value(n) for task in all_measured], sizes))
                if None in kinds:
                    notes.append(f"{name}: its {metric.name} is not compared: no mean of what can be read of its tasks")
                if None in kinds or len(reported) < 2:  # or the harness has no number of the group
                    continue
                if weighted := True in kinds:
                    notes.append(f"{name}: each of its tasks counts by its number of documents, as in the results file")
            own = []
            for number, run in enumerate(runs):
                figures = [run.tasks[task].figure(metric.name, filter_name) for task in members if task in run.tasks]
                of_run = [task for task in all_measured if number in task.values]
                of_run = pooled(of_run, [number]) if weighted else of_run
                own.append(_own_value(number, of_run, figures, metric))
            for first, second in combinations(range(len(runs)), 2):
                both = [task for task in all_measured if {first, second} <= task.values.keys()]
                if group:  # a single task keeps its row, which then says that no document counts
                    both = [task for task in both if task.counted(first).any() and task.counted(second).any()]
                if len({(measured.is_mean, measured.errors is None) for measured in both}) != 1:
                    continue
                compared_tasks, both = len(both), pooled(both, (first, second)) if weighted else both
                result = compare_measured(both, first, second)
                yield Difference(
                    task=name,
                    benchmark=task_run.benchmark,
                    language="" if group else task_run.language,
                    group=group,
                    tasks=compared_tasks,
                    metric=metric.name,
                    filter=filter_name,
                    higher_is_better=metric.higher_is_better,
                    headline=task_run.is_headline(metric.name),
                    first=first,
                    second=second,
                    first_value=result.first,
                    second_value=result.second,
                    difference=result.difference,
                    low=result.low,
                    high=result.high,
                    p=result.p,
                    p_exact=result.p_exact,
                    p_adjusted=result.p,
                    family=1,
                    n=result.n,
                    unit=both[0].unit,
                    only_first=sum(int((task.counted(first) & ~task.counted(second)).sum()) for task in both),
                    only_second=sum(int((task.counted(second) & ~task.counted(first)).sum()) for task in both),
                    first_own=own[first][0],
                    second_own=own[second][0],
                    method=result.method,
                    denominator=metric.denominator,
                    measured=metric,
                    first_measurable=own[first][1],
                    second_measurable=own[second][1],
                )


def _own_value(run: int, tasks: Sequence[Measured], figures: Sequence[Figure], metric: Metric) -> tuple[float, bool]:
    """The value of a run (by its number) over all tasks that it has, and whether it may be shown, by the bounds of its
    results files' figures. For shares and means without any, bounds are computed from the documents' values."""
    value = mean_of_strata([Figure(task.run_value(run)) for task in tasks]).value
    figure_of = {DEFINED_MEAN: mean_figure, DEFINED_SHARE: share_figure}.get(metric.aggregation)
    if figure_of and metric.unit != "number" and all(math.isnan(figure.low) for figure in figures):
        figures = [figure_of(task.values[run].tolist()) for task in tasks if task.is_mean and run in task.values]
    return value, is_measurable(mean_of(figures, metric.is_share), metric.unit)


def _corrected(rows: Sequence[Difference]) -> list[Difference]:
    """Rows with p corrected by Holm over a metric's comparisons: all languages and pairs of models; groups apart."""
    families: dict[tuple[object, ...], list[int]] = {}
    for index, row in enumerate(rows):
        families.setdefault((row.benchmark or row.task, row.metric, row.filter, row.group), []).append(index)
    corrected = list(rows)
    for indices in families.values():
        adjusted = holm([rows[index].p for index in indices])
        tested = max(1, np.isfinite(adjusted).sum())
        for index, p in zip(indices, adjusted.tolist(), strict=True):
            corrected[index] = replace(rows[index], p_adjusted=p, family=int(tested))
    return corrected


def _sorted(rows: Sequence[Difference]) -> list[Difference]:
    """Rows sorted by benchmark, in the order of the runs; within one, headlines first, and groups before tasks."""
    benchmarks = list(dict.fromkeys(row.benchmark for row in rows if not row.group))
    metrics = list(dict.fromkeys(row.metric for row in rows))
    return sorted(
        rows,
        key=lambda row: (benchmarks.index(row.benchmark), not row.headline, metrics.index(row.metric), not row.group),
    )
