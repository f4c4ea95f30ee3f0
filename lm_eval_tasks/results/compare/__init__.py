"""Runs compared pair by pair, over the documents that they have in common.

:func:`compare_runs` takes runs (:func:`lm_eval_tasks.runs.read_runs`) and gives a
:class:`~lm_eval_tasks.results.compare.comparison.Comparison`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from custom_metrics.statistics.strata import mean_of
from custom_metrics.statistics.units import is_measurable
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.results.compare.comparison import Comparison, Difference, Incomparable, Joined, Refusal
from lm_eval_tasks.results.compare.joining import JoinedTask, join, unknown_detectors, unread
from lm_eval_tasks.results.compare.measured import Measured
from lm_eval_tasks.results.compare.measuring import TAGGED, measure
from lm_eval_tasks.results.compare.rows import corrected, group_rows, in_order, task_rows
from lm_eval_tasks.runs import Answers, Run, TaskRun, headline_filter, labels

__all__ = ["Comparison", "Difference", "Incomparable", "Joined", "Refusal", "compare_runs"]

_REMEDIES = {
    "documents": "Run both models on the same data: the same mirror or revision, the same retriever.",
    "prompts": "Run both models with the same prompt, shots and system instruction.",
    "detectors": "Tag the answers of both alike: `lm-eval-grounded score RUN --detector NAME -o DIR`.",
    "calibrations": "Correct both alike: `lm-eval-grounded score RUN --calibration NAME -o DIR`.",
    "answers": "",
}


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
        found = f"only one run was found ({runs[0].folder})" if runs else "no run was found"
        raise UsageError(f"{found}; a comparison needs two or more")
    models = labels(runs)
    groups = _common_groups(runs)
    names = _chosen_tasks(runs, models, groups, tasks)
    refused: list[Refusal] = []
    notes: list[tuple[str, str]] = []
    joined: list[Joined] = []
    measured: dict[tuple[str, str, str], Measured] = {}  # task, metric, filter
    uncompared: dict[str, str] = {}  # metric to why not
    known: dict[str, tuple[TaskRun, tuple[Metric, ...]]] = {}
    for name in progress(names):
        of_task = [run.tasks.get(name) for run in runs]
        if not refuse:
            of_task, unlogged = _logged(name, of_task, models)
            refused += unlogged
            if sum(run is not None for run in of_task) < 2:
                continue
        task, refusals, said = join(name, of_task, models, read)
        notes += [(name, note) for note in said]
        refused += refusals
        if task is None:
            continue
        read_by = _filter_of(task, filter_name)
        cut, said = unread(task, read_by, models)
        notes += [(name, note) for note in said]
        refused += cut
        if cut:
            continue
        chosen = _chosen_metrics(task, metrics, every_metric)
        joined.append(task.summary())
        known[name] = task.any_run, chosen
        if not chosen and not metrics:
            notes.append((name, "no metric is in two runs (answers of --predict_only are scored by `score`)"))
        others = [other for other in task.filters if other != read_by]
        if others and filter_name is None:
            notes.append((name, f"the filter {read_by} counts; there is also {', '.join(others)} (--filter)"))
        for metric in chosen:
            values: Measured | str
            if metric.name in TAGGED and (of_unknown := unknown_detectors(task, metric.name, read_by, models)):
                values = (
                    f"nothing says which detector, version and threshold tagged the answers of {', '.join(of_unknown)}; "
                    f"tag those of all alike (`lm-eval-grounded score RUN -o DIR`)"
                )
            else:
                values = measure(task, metric.name, read_by, metric.aggregation)
            if isinstance(values, str):
                notes.append((name, f"{metric.name} is not compared: {values}"))
                uncompared.setdefault(metric.name, values)
            else:
                measured[name, metric.name, read_by] = values
    if refused and refuse:
        raise Incomparable(_refusals(refused))
    if metrics and not refused:
        missing = [metric for metric in metrics if all(metric != name for _, name, _ in measured)]
        if missing and (why := [f"{metric}: {uncompared[metric]}" for metric in missing if metric in uncompared]):
            raise Incomparable(f"the runs cannot be compared. {'; '.join(why)}")
        if missing:
            has = sorted({metric.name for run, _ in known.values() for metric in run.metrics})
            raise UsageError(f"no common task has the metric {', '.join(missing)}; there are {', '.join(has)}")
    rows = [
        *group_rows(groups, tasks, names, known, measured, len(runs)),
        *task_rows(known, measured, len(runs)),
    ]
    return Comparison(
        tuple(models),
        tuple(in_order(corrected([_measurable(row, runs, groups) for row in rows]))),
        tuple(joined),
        tuple(_gathered(notes) + ([] if tasks else _absent(runs, models))),
        tuple(refused),
    )


def _measurable(row: Difference, runs: Sequence[Run], groups: Mapping[str, Sequence[str]]) -> Difference:
    """A row that says which of its values may be shown: those of runs whose own figures may."""
    members = groups[row.task] if row.group else (row.task,)

    def may_be_shown(run: Run) -> bool:
        tasks = [run.tasks[name] for name in members if name in run.tasks]
        figures = [task.figure(row.metric, row.filter) for task in tasks]
        return is_measurable(mean_of(figures, row.measured.is_share), row.measured.unit)

    first, second = (may_be_shown(runs[number]) for number in (row.first, row.second))
    return replace(row, first_measurable=first, second_measurable=second)


# ---------------------------------------------------------------------------------------------------- what is compared


def _common_groups(runs: Sequence[Run]) -> dict[str, tuple[str, ...]]:
    """Groups that two runs or more have whole, with the same tasks; and of our other groups the part that two runs have."""
    found: dict[str, tuple[str, ...]] = {}
    for one, other in combinations(runs, 2):
        for name, members in one.groups.items():
            if name in other.groups and {*other.groups[name]} == {*members}:
                found.setdefault(name, members)
    times = Counter(name for run in runs for name in run.tasks)
    for group, of_group in catalogue.groups().items():
        both = tuple(name for name in of_group if times[name] > 1)
        if group not in found and len(both) > 1:
            found[group] = both
    return found


def _chosen_tasks(
    runs: Sequence[Run], models: Sequence[str], groups: Mapping[str, Sequence[str]], asked: Sequence[str] | None
) -> list[str]:
    times: dict[str, int] = {}
    for run in runs:
        for name in run.tasks:
            times[name] = times.get(name, 0) + 1
    common = [name for name, number in times.items() if number > 1]
    if not common:
        has = "; ".join(f"{model} has {_few(list(run.tasks))}" for model, run in zip(models, runs, strict=True))
        raise UsageError(f"no task is in two runs: {has}")
    if not asked:
        return common
    chosen: list[str] = []
    for name in asked:
        if name in groups:
            chosen += groups[name]
        elif name in common:
            chosen.append(name)
        else:
            raise UsageError(f"no two runs have the task {name}; they have {_few([*groups, *common], 40)}")
    return list(dict.fromkeys(chosen))


def _logged(
    name: str, runs: Sequence[TaskRun | None], models: Sequence[str]
) -> tuple[list[TaskRun | None], list[Refusal]]:
    """The runs of a task whose answers were logged, and what there is to say of the others."""
    kept = [run if run is not None and run.samples is not None else None for run in runs]
    refused = [
        Refusal(name, "answers", f"the answers of {model} were not logged (--log_samples)")
        for model, run in zip(models, runs, strict=True)
        if run is not None and run.samples is None
    ]
    return kept, refused


def _few(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _chosen_metrics(task: JoinedTask, asked: Sequence[str] | None, every: bool) -> tuple[Metric, ...]:
    """The metrics that two runs have; one may be without a detector, or a calibration."""
    listed = [metric for run in task.runs if run is not None for metric in run.metrics]
    times = Counter(metric.name for metric in listed)
    known = {metric.name: metric for metric in listed if times[metric.name] > 1 and metric.name != "bypass"}
    if not listed:  # a task of a user's own, without its results file
        names = dict.fromkeys(
            name
            for answers in task.answers
            if answers is not None
            for readings in answers.readings.values()
            for name in readings.columns
        )
        described = (task.any_run.metric(name) for name in names)
        known = {each.name: replace(each, aggregation="", higher_is_better=None, denominator="") for each in described}
    if asked:
        return tuple(known[name] for name in asked if name in known)
    first = [metric for name, metric in known.items() if task.any_run.is_headline(name)]
    if every or not first:
        return tuple(dict.fromkeys((*first, *known.values())))
    return tuple(first)


def _filter_of(task: JoinedTask, asked: str | None) -> str:
    """The filter asked for, or that of the headlines; also where no row of it is left."""
    listed = [name for run in task.runs if run is not None for name in run.filters]
    names = tuple(dict.fromkeys((*listed, *task.filters)))
    if asked is not None and asked in names:
        return asked
    if asked is not None and len(names) > 1:
        raise UsageError(f"{task.name}: no filter {asked}; there are {', '.join(names)}")
    return headline_filter(names, task.any_run.metrics)


# --------------------------------------------------------------------------------------------------------------- words


def _refusals(refused: Sequence[Refusal]) -> str:
    """All reasons, those of many tasks once."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for refusal in refused:
        shown = refusal.reason if refusal.kind != "documents" and refusal.kind != "prompts" else ""
        by_reason.setdefault((refusal.kind, shown), []).append(refusal.task)
    lines = []
    for (kind, _), names in by_reason.items():
        first = next(refusal for refusal in refused if refusal.kind == kind and refusal.task == names[0])
        others = f" (and {len(names) - 1} more tasks: {_few(names[1:])})" if len(names) > 1 else ""
        lines.append(f"{first.task}: {first.reason}{others}. {_REMEDIES[kind]}".rstrip())
    return "the runs cannot be compared. " + " ".join(lines)


def _gathered(notes: Sequence[tuple[str, str]]) -> list[str]:
    """Notes with the tasks that they hold of, each note once."""
    tasks: dict[str, list[str]] = {}
    for task, note in notes:
        tasks.setdefault(note, []).append(task)
    return [f"{_few(names, 3)}: {note}" for note, names in tasks.items()]


def _absent(runs: Sequence[Run], models: Sequence[str]) -> list[str]:
    """Tasks that only one run has."""
    found = []
    for model, run in zip(models, runs, strict=True):
        alone = [name for name in run.tasks if sum(name in other.tasks for other in runs) == 1]
        if alone:
            found.append(f"only {model} has {_few(alone)}")
    return found
