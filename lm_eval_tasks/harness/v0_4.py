"""What the harness's 0.4 has of its own: a task has filters and aggregations, and the evaluator scores and aggregates.

:func:`extend` changes two functions of its ``lm_eval.evaluator_utils``, for our tasks only. 0.5 has hooks for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import wraps
from types import ModuleType
from typing import Any

from lm_eval.api.task import ConfigurableTask

from custom_metrics.scores.aggregations import Aggregation
from custom_metrics.statistics.figures import Figure
from lm_eval_tasks.harness import host

host.require(ConfigurableTask, [*host.HOOKS.split(), "aggregation"])


class RecordingAggregation(Aggregation):
    """A kind that records its calls: value, standard error and bounds come from one computation.

    Attributes:
        kind: the kind itself.
        calls: the values of all documents and their figure, once for each of the task's filters, in order.
    """

    def __init__(self, kind: Aggregation) -> None:
        super().__init__(kind.name)
        self.kind = kind
        self.calls: list[tuple[Sequence[Any], Figure]] = []

    def __call__(self, values: Sequence[Any]) -> float:
        self.calls.append((values, self.kind.figure_of(values)))
        return float(self.calls[-1][1].value)

    def figure_of(self, values: Sequence[Any]) -> Figure:
        recorded = (figure for previous, figure in self.calls if previous is values)
        return next(recorded, None) or self.kind.figure_of(values)


class HostTask(ConfigurableTask):  # type: ignore[misc]
    """The harness's task, with what :class:`lm_eval_tasks.harness.task.GroundedTask` asks of every version of it."""

    _filters: Any

    def __init__(self, config: dict[str, Any]) -> None:
        self._aggregations: dict[str, RecordingAggregation] = {}
        self._scored: tuple[Any, Any] = (None, None)  # the last document, and its target
        super().__init__(config=config)

    @property
    def filter_names(self) -> list[str]:
        """The names of the task's filters, in order."""
        return [pipeline.name for pipeline in self._filters]

    def recorded(self, filter_number: int = 0) -> dict[str, tuple[Sequence[Any], Figure]]:
        """Metric to the values of all documents, and their figure, for one of the filters in the last run."""
        return {
            name: aggregation.calls[filter_number]
            for name, aggregation in self._aggregations.items()
            if len(aggregation.calls) > filter_number
        }

    def add_metrics(self, aggregations: Mapping[str, Any]) -> None:
        """Add metrics (higher is better) before those of the YAML; ``process_results`` has their values."""
        self._metric_fn_list |= dict.fromkeys(aggregations)
        self._metric_fn_kwargs |= {name: {} for name in aggregations}
        listed = dict(self._aggregation_list)
        self._aggregation_list.clear()
        self._aggregation_list |= {**aggregations, **listed}
        self._higher_is_better |= dict.fromkeys(aggregations, True)

    def set_filters(self, filter_list: list[dict[str, Any]]) -> None:
        """Set filters that are a part of those that the task has."""
        for pipeline, before, after in zip(self._filters, self.config.filter_list, filter_list, strict=True):
            pairs = zip(pipeline.filters, before["filter"], strict=True)
            pipeline.filters = [make for make, step in pairs if step in after["filter"]]
        self.config.filter_list = filter_list

    def apply_filters(self) -> Any:
        """Apply the filters, for a run with figures of its own."""
        self._aggregations.clear()
        return super().apply_filters()

    def process_results(self, doc: dict[str, Any], results: Any) -> Any:
        """The values of a document. Then columns whose text a sample has elsewhere are removed from it."""
        values = super().process_results(doc, results)
        self._scored = doc, self.doc_to_target(doc)
        for column in getattr(self.config.custom_dataset, "logged_elsewhere", ()):
            doc.pop(column, None)
        return values

    def doc_to_target(self, doc: Any, *args: Any, **kwargs: Any) -> Any:
        """The target of a document, also of the one that was scored last and has lost that column."""
        scored, target = self._scored
        return target if doc is scored else super().doc_to_target(doc, *args, **kwargs)

    def aggregation(self) -> dict[str, Any]:
        """The metrics' aggregations; ours record their calls, for the figures beside the harness's table."""
        aggregations = dict(super().aggregation())
        for name, function in aggregations.items():
            if isinstance(function, Aggregation):
                if name not in self._aggregations:
                    self._aggregations[name] = RecordingAggregation(function)
                aggregations[name] = self._aggregations[name]
        return aggregations


def extend(evaluator_utils: ModuleType) -> None:
    """Extend ``lm_eval.evaluator_utils``.

    - ``stderr_for_metric`` returns the ``standard_error`` of our ``Aggregation``.
    - ``_compute_task_aggregations`` passes the metrics of our tasks through ``GroundedTask.reported``.
    """
    ask, compute = evaluator_utils.stderr_for_metric, evaluator_utils._compute_task_aggregations

    @wraps(ask)
    def stderr_for_metric(metric: Any, bootstrap_iters: int) -> Any:
        if isinstance(metric, Aggregation):
            return metric.standard_error if bootstrap_iters > 0 else None
        return ask(metric=metric, bootstrap_iters=bootstrap_iters)

    @wraps(compute)
    def _compute_task_aggregations(task: Any, *args: Any, **kwargs: Any) -> Any:
        metrics, number = compute(task, *args, **kwargs)
        return (task.reported(metrics) if isinstance(task, HostTask) else metrics), number

    evaluator_utils.stderr_for_metric = stderr_for_metric  # type: ignore[attr-defined]
    evaluator_utils._compute_task_aggregations = _compute_task_aggregations  # type: ignore[attr-defined]
