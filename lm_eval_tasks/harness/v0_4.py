"""What the harness's 0.4 has of its own: a task has filters and aggregations, and the evaluator scores and aggregates.

:func:`extend` changes a function of its ``lm_eval.evaluator_utils``, for our aggregations and tasks only. 0.5 has a hook.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import wraps
from types import ModuleType
from typing import Any

from lm_eval.api.task import ConfigurableTask

from custom_metrics.scores.aggregations import Aggregation
from custom_metrics.statistics.figures import Figure
from lm_eval_tasks import harness

harness.require(ConfigurableTask, [*harness.HOOKS.split(), "aggregation"])


class HostTask(ConfigurableTask):  # type: ignore[misc]
    """The harness's task, with what :class:`lm_eval_tasks.harness.task.GroundedTask` asks of every version of it."""

    _filters: Any

    def __init__(self, config: dict[str, Any]) -> None:
        self.figures_of_filters: Mapping[str, Mapping[str, tuple[Sequence[Any], Figure]]] = {}  # of the last run
        self._scored: tuple[Any, Any] = (None, None)  # the last document, and its target
        super().__init__(config=config)

    @property
    def filter_names(self) -> list[str]:
        """The names of the task's filters, in order."""
        return [pipeline.name for pipeline in self._filters]

    def recorded(self, filter_number: int = 0) -> dict[str, tuple[Sequence[Any], Figure]]:
        """Metric to the values of all documents, and their figure, for one of the filters in the last run."""
        return dict(self.figures_of_filters.get(self.filter_names[filter_number], {}))

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


def extend(evaluator_utils: ModuleType) -> None:
    """Extend ``lm_eval.evaluator_utils``. ``_compute_task_aggregations`` leaves the metrics with an ``Aggregation`` of
    ours to that: value, standard error and bounds come from one computation. It passes the metrics of our tasks through
    ``GroundedTask.reported``."""
    compute = evaluator_utils._compute_task_aggregations

    @wraps(compute)
    def _compute_task_aggregations(
        task: Any, raw_metrics: Mapping[Any, Any], bootstrap_iters: int | None = 100000
    ) -> Any:
        kinds = task.aggregation()
        ours = {key: kind for key in raw_metrics if isinstance(kind := kinds.get(key[0]), Aggregation)}
        theirs = {key: values for key, values in raw_metrics.items() if key not in ours}
        metrics, number = compute(task, theirs, bootstrap_iters)
        figures: dict[str, dict[str, tuple[Sequence[Any], Figure]]] = defaultdict(dict)
        for (name, filter_name), kind in ours.items():
            values = raw_metrics[name, filter_name]
            figures[filter_name][name] = values, (figure := kind.figure_of(values))
            has_error = isinstance(bootstrap_iters, int) and bootstrap_iters > 0 and len(values) > 1
            metrics[f"{name},{filter_name}"] = float(figure.value)
            metrics[f"{name}_stderr,{filter_name}"] = float(figure.standard_error) if has_error else "N/A"
            number = max(number, len(values))
        if isinstance(task, HostTask):
            task.figures_of_filters = figures
            metrics = task.reported(metrics)
        return metrics, number

    evaluator_utils._compute_task_aggregations = _compute_task_aggregations  # type: ignore[attr-defined]
