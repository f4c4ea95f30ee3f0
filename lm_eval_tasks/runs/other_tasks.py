"""Tasks of the harness that are in no table of ours, read from their results file and the values of their documents.

The harness gives each document a value and aggregates them. What is a mean of them has bounds, and can be compared
document by document. What is not (the BLEU of a corpus, a perplexity) has neither. A metric counts as a mean only where the
mean of the logged values is the number of the results file.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean
from typing import Any

import numpy as np

from custom_metrics.scores.aggregations import Aggregation, Share, defined_mean, defined_share
from custom_metrics.statistics.figures import UNDEFINED, Figure, Rows, Unit
from custom_metrics.statistics.intervals import Z95, wilson
from lm_eval_tasks.definition.schema import DEFINED_MEAN, DEFINED_SHARE, Metric
from lm_eval_tasks.runs.answers import Answers, Column
from lm_eval_tasks.runs.run import LARGEST, Run, TaskRun

WHY_NO_MEAN = "why_no_mean"
"""Key of a figure that is not the mean of its documents' values: the reason."""

_LONGEST = 20  # characters of a reported number that is quoted

# The harness's aggregations that are no means, though some are of numbers; of one that is not listed the values decide.
_OF_ALL = "median perplexity weighted_perplexity bits_per_byte f1 matthews_corrcoef brier_score bypass".split()

_SHARE = re.compile(r"(?:^|_)(?:acc|accuracy|em|exact_match|mc1|pass@\d+)(?:_|$)")
"""Names of the harness's metrics that are shares of documents, such as ``prompt_level_strict_acc``. A count can be 0 or 1
in all documents, too: the name decides, unless a value is neither 0 nor 1."""


def names_a_share(name: str, values: Sequence[Any]) -> bool:
    """Whether a metric of the harness is a share of documents, by its name, and no value is another than 1 or 0."""
    return _SHARE.search(name) is not None and {*values} <= {0.0, 1.0}


def metric_of_other(name: str, headline: bool) -> Metric:
    """A metric as upstream names it, of which nothing else is known. A headline has a sentence."""
    sentence = f"Over all documents, its {name} is {{value}}" if headline else ""
    return Metric(name, unit="number", label=name, sentence=sentence, counted="documents", headline=headline)


def described(task: TaskRun, answers: Answers, bounds: bool = True) -> TaskRun:
    """A task that is in no table of ours, with figures by the values of its documents; any other task as it is. Bounds of
    means take seconds for 10,000 documents."""
    if task.table is not None or not task.results:
        return task
    metrics = {metric.name: metric for metric in task.metrics}
    figures: dict[str, dict[str, Mapping[str, Any]]] = {}
    for filter_name, name in product(task.filters, metrics):
        reported, metric = task.figure(name, filter_name), metrics[name]
        key = f"{name},{filter_name}"
        if math.isnan(reported.value) and key not in task.results:
            continue
        readings = answers.readings.get(filter_name)
        column = readings.columns.get(name) if readings is not None else None
        reason = _why_no_mean(task, metric, len(answers), column, reported.value)
        if math.isnan(reported.value):
            text = json.dumps(task.results[key])
            reason = f"its number in the results file is {text if len(text) <= _LONGEST else f'{text[:_LONGEST]}…'}"
        if reason or column is None:
            figure = reported._replace(n=task.size.get("effective", len(answers)))
            entry = {**figure.as_json(f"documents ({reason})"), WHY_NO_MEAN: reason}
        else:
            values = column.numbers[~np.isnan(column.numbers)].tolist()
            is_share = names_a_share(name, values)
            is_share &= metric.aggregation != DEFINED_MEAN  # by another filter
            kind = defined_share if is_share else defined_mean
            entry = (kind.figure(Rows(column.numbers, answers.passages or ())) if bounds else reported).as_json(
                "documents"
            )
            metric = replace(metric, aggregation=DEFINED_SHARE if is_share else DEFINED_MEAN, prominence=1)
            unit: Unit = "score" if is_share else "number"
            metrics[name] = replace(metric, unit=unit, sentence=metric.sentence and f"Its mean {name} is {{value}}")
        figures.setdefault(filter_name, {})[name] = entry
    return replace(task, figures=figures, metrics=tuple(metrics.values()))


def described_run(run: Run, read_answers: Callable[[TaskRun], Answers] = TaskRun.answers) -> Run:
    """A run with its tasks :func:`described`, except those whose answers were not logged. A damaged samples file is a
    CorruptSource."""
    logged = {name: task for name, task in run.tasks.items() if task.table is None and task.samples}
    return replace(run, tasks={**run.tasks, **{name: described(t, read_answers(t)) for name, t in logged.items()}})


def _why_no_mean(task: TaskRun, metric: Metric, answers: int, column: Column | None, reported: float) -> str:
    """The reason why a metric is not the mean of its documents' values; empty where it is."""
    if column is None:
        return "the samples have no values of it"
    if not all(isinstance(value, float) for value in column.non_numeric.values()):  # nan is left out
        return "it is computed over all documents together, of which none has a number of its own"
    if metric.aggregation in _OF_ALL:
        return f"it is the {metric.aggregation} of all documents together, not the mean of their values"
    if answers < (total := task.size.get("effective", 0)):
        return f"the samples hold {answers} of its {total} documents"
    if reason := too_large(column):
        return reason
    numbers = column.numbers[~np.isnan(column.numbers)].tolist()
    mean = fmean(numbers) if numbers else math.nan
    if math.isclose(mean, reported, rel_tol=1e-9, abs_tol=1e-9):
        return ""
    return f"the mean of its documents' values ({mean:.6g}) is not its number in the results file ({reported:.6g})"


def too_large(column: Column) -> str:
    """The reason why the values of a metric are not computed with; empty where they are small enough."""
    sizes = np.nan_to_num(np.abs(column.numbers), posinf=math.inf)
    largest = float(column.numbers[sizes.argmax()]) if sizes.any() else 0.0
    return f"a document's value is {largest:.6g}, too large to compute with" if abs(largest) > LARGEST else ""


def mean_of_group(figures: Sequence[Figure], kind: Aggregation, reported: float) -> tuple[Figure, bool | None]:
    """A group's number, with bounds where it is the mean of its tasks' figures; and :func:`is_weighted`."""
    weighted = is_weighted(reported, [figure.value for figure in figures], [figure.n for figure in figures])
    if weighted is None:
        return Figure(reported) if abs(reported) <= LARGEST else UNDEFINED, weighted
    if not weighted:
        return kind.mean_over(figures), weighted
    number = sum(figure.n for figure in figures)
    error = math.hypot(*(figure.n * figure.standard_error for figure in figures)) / number
    bounds = (
        wilson(reported * number, number)
        if isinstance(kind, Share)
        else (reported - Z95 * error, reported + Z95 * error)
    )
    return Figure(reported, *bounds, error, number), weighted


def is_weighted(reported: float, values: Sequence[float], sizes: Sequence[int]) -> bool | None:
    """Whether a group's number is the mean of its tasks by their numbers of documents, or one in which each counts the
    same (also where they are equal). ``None`` where it is neither, or not known."""
    if math.isclose(fmean(values), reported, rel_tol=1e-9, abs_tol=1e-9):
        return False
    weighted = float(np.average(values, weights=sizes)) if sum(sizes) else math.nan
    return True if math.isclose(weighted, reported, rel_tol=1e-9, abs_tol=1e-9) else None
