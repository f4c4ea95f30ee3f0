"""The rows of a comparison: the difference of each pair of runs, on every metric of every group and task."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.intervals import Z95
from custom_metrics.statistics.multiple_comparisons import adjusted
from custom_metrics.statistics.strata import mean_of, mean_of_strata
from custom_metrics.statistics.units import is_measurable
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.definition.schema import DEFINED_MEAN, DEFINED_SHARE, Metric
from lm_eval_tasks.results.compare.comparison import Difference
from lm_eval_tasks.results.compare.measured_task import MeasuredTask
from lm_eval_tasks.results.compare.measuring import Measured, differences, pooled
from lm_eval_tasks.runs import Run
from lm_eval_tasks.runs.other_tasks import is_weighted


def difference_rows(
    runs: Sequence[Run], groups: Mapping[str, Sequence[str]], compared: Mapping[str, MeasuredTask], notes: list[str]
) -> list[Difference]:
    """The differences of all pairs of runs: on groups whose tasks are all compared, and on the tasks. They are sorted by
    benchmark, in the order of the runs; within one, headlines first, and groups before tasks. Groups that are weighted, or
    cannot be compared, are added to `notes`."""
    rows: list[Difference] = []
    for name, members in (*groups.items(), *((name, [name]) for name in compared)):
        if name in catalogue.without_mean() or not all(member in compared for member in members):
            continue
        tasks = [compared[member] for member in members]
        for metric, filter_name in product(tasks[0].metrics, dict.fromkeys(task.filter for task in tasks)):
            measuring = [task for task in tasks if task.filter == filter_name and metric.name in task.measured]
            rows += _rows_of_metric(runs, name, members, metric, filter_name, measuring, notes)
    benchmarks = list(dict.fromkeys(row.benchmark for row in rows if not row.group))
    order = list(dict.fromkeys(row.metric for row in rows))
    return sorted(
        _corrected(rows),
        key=lambda row: (benchmarks.index(row.benchmark), not row.headline, order.index(row.metric), not row.group),
    )


def _rows_of_metric(
    runs: Sequence[Run],
    name: str,
    members: Sequence[str],
    metric: Metric,
    filter_name: str,
    tasks: Sequence[MeasuredTask],
    notes: list[str],
) -> Iterator[Difference]:
    """The differences on a metric of a task or group (`name`); `tasks` are those of its members that have it."""
    if not tasks:
        return
    task_run, measured = tasks[0].run, [task.measured[metric.name] for task in tasks]
    group, weighted = name not in members, False
    if group and task_run.is_other:
        kind, note = _kind_of_group(runs, name, f"{metric.name},{filter_name}", measured, len(members))
        notes += [f"{name}: {note}"] * bool(note)
        if kind is None:
            return
        weighted = kind
    own = []
    for number, run in enumerate(runs):
        figures = [run.tasks[task].figure(metric.name, filter_name) for task in members if task in run.tasks]
        of_run = [each for each in measured if number in each.rows]
        value, shown = _own_value(number, pooled(of_run, [number]) if weighted else of_run, figures, metric)
        alike = [task.alike.get(number, ()) for task in tasks if number in task.measured[metric.name].rows]
        own.append((value, shown, bool(alike) and all(alike)))
    shared = {}
    for pair in combinations(range(len(runs)), 2):
        both = [task for task in measured if {*pair} <= task.rows.keys()]
        if group:  # a single task keeps its row, which then says that no document counts
            both = [task for task in both if all(task.counted(run).any() for run in pair)]
        if len({task.form for task in both}) == 1:
            shared[pair] = both
    if weighted:
        results = [differences(pooled(both, pair), [pair])[0] for pair, both in shared.items()]
    else:
        results = differences(measured, [*shared]) if shared else []
    for (pair, both), result in zip(shared.items(), results, strict=True):
        first, second = pair
        if math.isnan(result.standard_error):
            result = result._replace(standard_error=(result.high - result.low) / (2 * Z95))
        values, unit = result._asdict(), both[0].unit
        documents = sum(int((task.counted(first) & task.counted(second)).sum()) for task in both)
        yield Difference(
            task=name,
            benchmark=task_run.benchmark,
            language="" if group else task_run.language,
            group=group,
            tasks=len(both),
            metric=metric.name,
            filter=filter_name,
            higher_is_better=metric.higher_is_better,
            headline=task_run.is_headline(metric.name),
            first=first,
            second=second,
            first_value=values.pop("first"),
            second_value=values.pop("second"),
            p_adjusted=result.p,
            family=1,
            unit="passages" if result.n < documents and unit == "documents" else unit,  # that tasks share
            only_first=sum(int((task.counted(first) & ~task.counted(second)).sum()) for task in both),
            only_second=sum(int((task.counted(second) & ~task.counted(first)).sum()) for task in both),
            first_own=own[first][0],
            second_own=own[second][0],
            denominator=metric.denominator,
            measured=metric,
            first_competes=own[first][1] and not own[first][2],
            second_competes=own[second][1] and not own[second][2],
            first_measurable=own[first][1],
            second_measurable=own[second][1],
            documents=documents,
            **values,
        )


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


def _own_value(run: int, tasks: Sequence[Measured], figures: Sequence[Figure], metric: Metric) -> tuple[float, bool]:
    """The value of a run (by its number) over all tasks that it has, and whether it may be shown, by the bounds of its
    results files' figures. For shares and means without any, bounds are computed from the documents' values."""
    value = mean_of_strata([Figure(task.value(run)) for task in tasks]).value
    is_mean = metric.aggregation in (DEFINED_MEAN, DEFINED_SHARE)
    if is_mean and metric.unit != "number" and all(math.isnan(figure.low) for figure in figures):
        figures = [task.figure(run) for task in tasks if not task.form[1] and run in task.rows]
    return value, is_measurable(mean_of(figures, metric.is_share), metric.unit)


def _corrected(rows: Sequence[Difference]) -> list[Difference]:
    """Rows with p corrected over their family (:func:`adjusted`): the columns are the languages of a metric, or groups."""
    metrics: dict[tuple[object, ...], dict[str, list[int]]] = {}
    for index, row in enumerate(rows):
        key = (row.benchmark or row.task, row.metric, row.filter, row.group)
        metrics.setdefault(key, {}).setdefault(row.task, []).append(index)
    corrected = list(rows)
    for columns in metrics.values():
        found = adjusted([{(rows[i].first, rows[i].second): rows[i].p for i in column} for column in columns.values()])
        for column, by_pair in zip(columns.values(), found, strict=True):
            for index in column:
                p, family = by_pair[rows[index].first, rows[index].second]
                corrected[index] = replace(rows[index], p_adjusted=p, family=family)
    return corrected
