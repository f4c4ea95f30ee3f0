"""The figures of a run beside the harness's table: every metric with its bounds, in ``configs.<task>.metadata.figures``.

The harness's table has room for a number and a standard error. The harness calls an aggregation once a metric and filter;
:class:`Remembering` keeps the values it was given and the figure it made.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from custom_metrics.scores.aggregations import Aggregation
from custom_metrics.statistics.figures import Figure
from lm_eval_tasks.harness.harness_results import NotDefined, ordered

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

Finer = Callable[[Mapping[str, Sequence[Any]]], Iterable[tuple[str, Figure, str]]]
"""From metric to all documents' values, of one filter, to further figures: name, figure, and the documents that count in
words."""


class Remembering(Aggregation):
    """An aggregation that keeps what it was given and made of it: one computation for value, standard error and bounds.

    Attributes:
        seen: all documents' values and their figure, for each of the task's filters in turn.
    """

    def __init__(self, aggregation: Aggregation) -> None:
        super().__init__(aggregation.name, aggregation.figure, aggregation.rows)
        self.seen: list[tuple[Sequence[Any], Figure]] = []

    def __call__(self, values: Sequence[Any]) -> Any:
        found = self.figure(values)
        self.seen.append((values, found))
        return NotDefined() if math.isnan(found.value) else float(found.value)

    def standard_error(self, values: Sequence[Any]) -> float:
        known = next((found for seen, found in self.seen if seen is values), None)
        return super().standard_error(values) if known is None else float(known.standard_error)


def figures_of(
    aggregations: Mapping[str, Remembering], filters: Sequence[str], denominator_of: Callable[[str], str], finer: Finer
) -> dict[str, dict[str, Any]]:
    """Filter to name to figure, without undefined figures, of the metrics' aggregations after a run."""
    found: dict[str, dict[str, Any]] = {}
    for place, name in enumerate(filters):
        seen = {metric: one.seen[place] for metric, one in aggregations.items() if len(one.seen) > place}
        figures = [(metric, figure, denominator_of(metric)) for metric, (_, figure) in seen.items()]
        if seen:
            figures += finer({metric: values for metric, (values, _) in seen.items()})
        found[name] = {
            metric: figure.as_json(denominator)
            for metric, figure, denominator in figures
            if not math.isnan(figure.value)
        }
    return {name: figures for name, figures in found.items() if figures}


def reported(task: str, metrics: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The harness's metrics of a task (``metric,filter`` and ``metric_stderr,filter`` to numbers) as they are reported: in
    the order of their names, without undefined ones."""
    undefined = [key for key, value in metrics.items() if _is_undefined(value) and key.partition(",")[0] in names]
    if undefined:
        log.warning(
            "%s: left out of the results, because no document is in their denominator or nothing corrects them: %s",
            *(task, ", ".join(undefined)),
        )
    gone = {*undefined, *(key.replace(",", "_stderr,", 1) for key in undefined)}
    return ordered({k: "N/A" if _is_undefined(v) else v for k, v in metrics.items() if k not in gone}, names)


def _is_undefined(value: Any) -> bool:
    return isinstance(value, NotDefined) or (isinstance(value, float) and math.isnan(value))
