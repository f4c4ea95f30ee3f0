"""Tasks of the harness that are in no table of ours, read from their results file and the values of their documents.

The harness gives each document a value and aggregates them. What is a mean of them has bounds, and can be compared
document by document. What is not (the BLEU of a corpus, a perplexity) has neither. A metric counts as a mean only where the
mean of the logged values is the number of the results file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np

from custom_metrics.statistics.figures import UNDEFINED, Figure, FloatWithCounts, mean_figure, share_figure
from custom_metrics.statistics.intervals import Z95, wilson
from custom_metrics.statistics.strata import mean_of
from lm_eval_tasks.definition.schema import DEFINED_SHARE, Metric
from lm_eval_tasks.runs.answers import Answers, FilteredAnswers
from lm_eval_tasks.runs.results_file import mapping
from lm_eval_tasks.runs.run import Run, TaskRun

WHY_NO_MEAN = "why_no_mean"
"""Key of a figure that is not the mean of its documents' values: the reason."""

# The harness's aggregations that are no means, though some are of numbers; of one that is not listed the values decide.
_OF_ALL = frozenset(
    "median perplexity weighted_perplexity bits_per_byte f1 matthews_corrcoef brier_score bypass".split()
)


def metrics_of(name: str, config: Mapping[str, Any], results: Mapping[str, Any]) -> tuple[Metric, ...]:
    """The metrics of a task by its results file, as upstream names them: with the direction of its ``higher_is_better``."""
    metric_list = config.get("metric_list")
    entries = [mapping(entry) for entry in metric_list] if isinstance(metric_list, list) else []
    listed = {str(entry["metric"]): entry for entry in entries if "metric" in entry}
    values = mapping(mapping(results.get("results")).get(name))
    with_value = [key.partition(",")[0] for key in values if "," in key and "_stderr," not in key]
    names = dict.fromkeys(
        (*(metric for metric in listed if metric in with_value), *with_value)
    )  # not sources of functions
    directions = mapping(mapping(results.get("higher_is_better")).get(name))
    metrics = []
    for metric in names or listed:
        entry = listed.get(metric, {})
        direction = directions.get(metric, entry.get("higher_is_better"))
        known = direction if isinstance(direction, bool) else None
        sentence = f"Over all documents together, its {metric} is {{value}}"
        of_number = Metric(metric, str(entry.get("aggregation") or ""), known, "documents", unit="number", label=metric)
        metrics.append(replace(of_number, sentence=sentence, counted="documents"))
    return tuple(metrics)


def described(task: TaskRun, answers: Answers) -> TaskRun:
    """A task that is in no table of ours, with figures by the values of its documents; any other task as it is."""
    if not task.is_other or not task.results:
        return task
    metrics = {metric.name: metric for metric in task.metrics}
    shares: dict[str, set[bool]] = {}
    figures: dict[str, dict[str, Mapping[str, Any]]] = {}
    for filter_name in task.filters:
        for metric in task.metrics:
            reported = task.figure(metric.name, filter_name)
            if math.isnan(reported.value):
                continue
            figure, reason, is_share = _figure(task, metric, answers, answers.readings.get(filter_name), reported)
            entry = figure.as_json(f"documents ({reason})" if reason else "documents")
            entry |= {WHY_NO_MEAN: reason} if reason else {}
            figures.setdefault(filter_name, {})[metric.name] = entry
            if not reason:
                shares.setdefault(metric.name, set()).add(is_share)
            if 0 <= reported.value <= 1:
                metrics[metric.name] = replace(metrics[metric.name], unit="score")
    for name, are_shares in shares.items():
        sentence = f"Its mean {name} is {{value}}"
        aggregation = DEFINED_SHARE if all(are_shares) else "mean"
        metrics[name] = replace(metrics[name], sentence=sentence, aggregation=aggregation, prominence=1)
    return replace(task, figures=figures, metrics=tuple(metrics.values()))


def described_run(run: Run, read_answers: Any = TaskRun.answers) -> Run:
    """A run with :func:`described` tasks. Answers that were not logged, or are damaged, leave their task as it is."""
    tasks = {
        name: described(task, read_answers(task)) if task.is_other and task.samples else task
        for name, task in run.tasks.items()
    }
    return replace(run, tasks=tasks)


def limits_of(task: TaskRun) -> list[str]:
    """That the task was not asked whole, in words; empty where it was, or that is not known. Ours record it themselves."""
    asked, whole = task.size.get("effective"), task.size.get("original")
    is_cut = task.is_other and isinstance(asked, int) and isinstance(whole, int) and asked < whole
    return [f"only {asked} of {whole} documents were asked (--limit)"] if is_cut else []


def _figure(
    task: TaskRun, metric: Metric, answers: Answers, readings: FilteredAnswers | None, reported: Figure
) -> tuple[Figure, str, bool]:
    """The figure of a metric; the reason why it is no mean, and so has the reported value alone; and whether it is a
    share of documents."""
    column = readings.columns.get(metric.name) if readings is not None else None
    total = task.size.get("effective")
    reported = reported._replace(n=total if isinstance(total, int) else len(answers))
    if column is None:
        return reported, "the samples have no values of it", False
    if not all(isinstance(value, float) for _, value in column.non_numeric_values()):  # nan is left out
        return reported, "it is computed over all documents together, of which none has a number of its own", False
    if metric.aggregation in _OF_ALL:
        return (
            reported,
            f"it is the {metric.aggregation} of all documents together, not the mean of their values",
            False,
        )
    numbers = column.numbers[~np.isnan(column.numbers)].tolist()
    if isinstance(total, int) and len(answers) < total:
        return reported, f"the samples hold {len(answers)} of its {total} documents", False
    if not numbers or not math.isclose(fmean(numbers), reported.value, rel_tol=1e-9, abs_tol=1e-9):
        mean = f"{fmean(numbers):.6g}" if numbers else "undefined"
        reason = (
            f"the mean of its documents' values ({mean}) is not its number in the results file ({reported.value:.6g})"
        )
        return reported, reason, False
    values: Sequence[float] = numbers
    if answers.passages:
        named = zip(column.numbers.tolist(), answers.passages, strict=True)
        values = [FloatWithCounts(number, cluster=passage) for number, passage in named if number == number]
    is_share = {*numbers} <= {0.0, 1.0}
    return (share_figure if is_share else mean_figure)(values), "", is_share


def mean_of_group(figures: Sequence[Figure], share: bool, reported: Any) -> Figure:
    """A group's number, with bounds where it is the mean of its tasks' figures. Undefined where it is no number."""
    if not isinstance(reported, float):
        return UNDEFINED
    weighted = is_weighted(reported, [figure.value for figure in figures], [figure.n for figure in figures])
    if weighted is None:
        return Figure(reported)
    if not weighted:
        return mean_of(figures, share)
    number = sum(figure.n for figure in figures)
    error = math.hypot(*(figure.n * figure.standard_error for figure in figures)) / number
    bounds = wilson(reported * number, number) if share else (reported - Z95 * error, reported + Z95 * error)
    return Figure(reported, *bounds, error, number)


def is_weighted(reported: float, values: Sequence[float], sizes: Sequence[int]) -> bool | None:
    """Whether a group's number is the mean of its tasks by their numbers of documents, or one in which each counts the
    same (also where they are equal). ``None`` where it is neither, or not known."""
    if math.isclose(fmean(values), reported, rel_tol=1e-9, abs_tol=1e-9):
        return False
    total = sum(sizes)
    weighted = sum(value * size for value, size in zip(values, sizes, strict=True)) / total if total else math.nan
    return True if math.isclose(weighted, reported, rel_tol=1e-9, abs_tol=1e-9) else None
