"""The values of a metric on the documents of several runs, as its kind of figure reads them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custom_metrics.scores.aggregations import Aggregation, Mean, NotMeasured, Source, defined_mean, defined_share
from custom_metrics.scores.balanced_error import BalancedError
from custom_metrics.statistics.figures import Figure, Rows
from lm_eval_tasks.definition.catalogue import kind_of
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.results import LOGGED
from lm_eval_tasks.results.joining import JoinedRun, JoinedTask, calibrations_of
from lm_eval_tasks.runs import FilteredAnswers
from lm_eval_tasks.runs.other_tasks import WHY_NO_MEAN, names_a_share, too_large
from lm_eval_tasks.runs.run import LARGEST


@dataclass(frozen=True)
class Measured:
    """A metric on all documents of a joined task."""

    kind: Aggregation
    rows: Mapping[int, Rows]  # by the number of the run, of the same documents in the same order
    unit: str  # what is resampled: documents, or what they depend on each other by
    left_out: Sequence[str] = ()  # why some runs have no rows
    task: str = ""  # its name, by which the tasks of a mean are sorted: their draws do not depend on a file's order

    def counted(self, run: int) -> NDArray[np.bool_]:
        """(documents,): whether a document counts for a run."""
        if run not in self.rows:
            return np.zeros(len(next(iter(self.rows.values())).values), dtype=bool)
        return self.kind.counted(self.rows[run])

    def common(self, one: int, other: int) -> int:
        """The number of documents that count for both of two runs, or of twice the same."""
        return int(self._common[self._places[one], self._places[other]])

    @cached_property
    def _common(self) -> NDArray[np.float32]:
        counted = np.array([self.counted(run) for run in self.rows], dtype=np.float32)
        return np.asarray(counted @ counted.T)

    @cached_property
    def _places(self) -> dict[int, int]:
        return {run: place for place, run in enumerate(self.rows)}

    def value(self, run: int) -> float:
        """The figure of a run over all documents that count for it; ``nan`` where none does."""
        return self.kind.value(self.rows[run]) if self.counted(run).any() else math.nan

    def figure(self, run: int) -> Figure:
        """The same with bounds and standard error."""
        return self.kind.figure(self.rows[run])

    @cached_property
    def form(self) -> tuple[str, bool]:
        """What must be equal in the tasks of a mean: the kind, and whether documents are clustered."""
        return self.kind.name, any(any(rows.clusters) for rows in self.rows.values())

    def with_cost(self, cost: float) -> Measured:
        """A balanced error with another cost of a made-up answer; any other metric as it is."""
        return replace(self, kind=self.kind.with_cost(cost)) if isinstance(self.kind, BalancedError) else self


def pooled(tasks: Sequence[Measured], runs: Sequence[int]) -> list[Measured]:
    """The documents of several tasks as those of one, for runs that have them all: each task counts by its number of
    documents. Nothing of no task."""
    if not tasks:
        return []
    rows = {}
    for run in runs:
        parts = [task.rows[run] for task in tasks]
        names = [f"{place} {name}" if name else "" for place, part in enumerate(parts) for name in part.clusters]
        rows[run] = Rows(np.concatenate([part.values for part in parts]), names)
    return [replace(tasks[0], rows=rows)]


def measure(task: JoinedTask, metric: Metric, filter_name: str) -> Measured:
    """A metric on a joined task, as one filter read the answers; or a NotMeasured that says why there is none."""
    readings, any_run = task.readings(filter_name), task.any_run
    for run in task.runs.values():
        if reason := run.task.figures.get(filter_name, {}).get(metric.name, {}).get(WHY_NO_MEAN):
            raise NotMeasured(reason)
    if not readings:
        raise NotMeasured("no answer was read")
    if any_run.table is None and any_run.results_file:  # a mean, as :mod:`lm_eval_tasks.runs.other_tasks` has checked
        return _measured(task, defined_share if metric.is_share else defined_mean, metric.name, filter_name)
    if metric.of_detector and (models := _models_without_detector(task, readings, metric.name)):
        raise NotMeasured(
            f"nothing says which detector, version and threshold tagged the answers of {', '.join(models)}; "
            f"tag those of all alike (`lm-eval-grounded score RUN -o DIR`)"
        )
    kind = kind_of(metric, any_run.table)
    if kind is not None:
        try:
            return _measured(task, kind, metric.name, filter_name)
        except NotMeasured:
            if metric.aggregation or kind.not_compared:
                raise
            # else no results file says how the number is made
    measured = _measured(task, defined_mean, metric.name, filter_name)
    for number in measured.rows if metric.aggregation else ():
        reported = task.runs[number].task.figure(metric.name, filter_name).value
        if not math.isclose(measured.value(number), reported, rel_tol=1e-9, abs_tol=1e-9):
            raise NotMeasured(
                f"it is a {metric.aggregation}, of which nothing here knows how models are compared; install the package "
                f"that brings it"
            )
    values = np.concatenate([rows.values for rows in measured.rows.values()])
    named = not metric.aggregation and names_a_share(metric.name, values[~np.isnan(values)].tolist())
    return replace(measured, kind=defined_share) if named else measured


def _models_without_detector(task: JoinedTask, by_run: Mapping[int, FilteredAnswers], metric: str) -> list[str]:
    """The models of runs whose detector neither their results file nor the key of a calibration in their values names."""
    models = []
    for number, readings in by_run.items():
        column = readings.columns.get(metric)
        if column is None or task.runs[number].task.detector:
            continue
        unknown = column.has_value
        for documents in calibrations_of(readings).values():
            unknown[documents] = False
        if unknown.any():
            models.append(task.runs[number].model)
    return models


def _measured(task: JoinedTask, kind: Aggregation, metric: str, filter_name: str) -> Measured:
    if isinstance(kind, BalancedError):
        kind = kind.with_cost(task.any_run.cost)
    names, unit = _clusters(task, kind)
    rows: dict[int, Rows] = {}
    for number, readings in task.readings(filter_name).items():
        run = task.runs[number]
        labels = [names[place] for place in run.places.tolist()] if names else () if kind.clustered_by else None
        source = Source(task.name, run.task.provenance, run.task.config.get("metadata") or {})
        logged = _values(kind, run, readings, metric, filter_name)
        own = Rows(logged, labels or ()) if isinstance(logged, np.ndarray) else kind.rows(logged, labels, source)
        values = np.full((len(task.documents), *own.values.shape[1:]), math.nan)
        values[run.places] = own.values
        carried = dict(zip(run.places.tolist(), own.clusters, strict=False))
        placed = [carried.get(place, "") for place in range(len(values))] if any(own.clusters) else ()
        rows[number] = own._replace(values=values, clusters=names or placed)
    apart = kind.check({task.runs[number].model: of_run for number, of_run in rows.items()})
    rows = {number: of_run for number, of_run in rows.items() if task.runs[number].model not in apart}
    return Measured(kind, rows, unit, tuple(dict.fromkeys(apart.values())), task.name)


def _clusters(task: JoinedTask, kind: Aggregation) -> tuple[Sequence[str], str]:
    """The name of each document's cluster, and what clusters are; no names where documents are independent, or where the
    kind's values have them. Of other tasks, equal names in two tasks say nothing. The articles of a log are what its
    records name: conversation, else question, else reference (:func:`lm_eval_tasks.results.logs.answers.document_of`)."""
    by = "article" if kind.clustered_by and task.name == LOGGED else kind.clustered_by
    by_run: list[tuple[NDArray[np.int64], Sequence[str]]] = []
    if by == "passage":
        by_run = [(run.places, of_run) for run in task.runs.values() if (of_run := run.answers.passages)]
    elif by == "article" and any(run.answers.articles is not None for run in task.runs.values()):
        by_run = [(run.places, run.answers.articles or run.answers.keys) for run in task.runs.values()]
    names = _together(by_run, len(task.documents))
    if not by_run or (by == "passage" and not all(names)):
        return (), kind.unit
    if task.any_run.table is None:
        names = [f"{task.name} {name}" for name in names]
    is_unit = by == "article" or len({*names}) < len(names)
    if task.name == LOGGED:
        return names, "conversations" if len({*names}) < len(names) else "questions"
    unit = "clusters" if task.any_run.table is None and task.any_run.results_file else f"{by}s"
    return names, unit if is_unit else kind.unit


def _together(by_run: Iterable[tuple[NDArray[np.int64], Sequence[str]]], number: int) -> list[str]:
    """The cluster of each document, by the names that runs have for it: what hangs together in one of them does, whichever
    run comes first."""
    names, roots = [""] * number, dict[str, str]()

    def root(name: str) -> str:
        while (above := roots.get(name, name)) != name:
            name = above
        return name

    for places, of_run in by_run:
        for place, name in zip(places.tolist(), of_run, strict=True):
            first, second = sorted((root(name), root(names[place] or name)))
            if first:
                roots[second] = first
            names[place] = first or second
    return [root(name) for name in names]


def _values(
    kind: Aggregation, run: JoinedRun, readings: FilteredAnswers, metric: str, filter_name: str
) -> Sequence[Any] | NDArray[np.float64]:
    """The values of a run's documents. Where logged ones are plain numbers, a kind's counts are in those of other metrics,
    or are counted again."""
    column = readings.columns.get(metric)
    if column is None:
        return [None] * len(run.answers)
    if isinstance(kind, Mean) and kind.of_numbers:
        others = [*column.non_numeric.values()]
        if any(isinstance(value, (int, float)) and abs(value) > LARGEST for value in others):
            raise NotMeasured("a document's value is too large to compute with")
        kind.rows(others)
        if reason := too_large(column):
            raise NotMeasured(reason)
        return column.numbers
    if not kind.companions:
        return column.values()
    has_value = column.has_value
    values: list[Any] = [None] * len(run.answers)
    for name in (metric, *kind.companions):
        other = readings.columns.get(name)
        for document, value in other.non_numeric.items() if other is not None else ():
            if has_value[document] and values[document] is None:
                values[document] = value
    missing = [document for document in np.flatnonzero(has_value).tolist() if values[document] is None]
    answers = run.answers.select(missing) if missing else iter(())
    for document, answer in zip(missing, answers, strict=True):
        values[document] = kind.reread(answer.doc, answer.readings[filter_name].answer)
    return values
