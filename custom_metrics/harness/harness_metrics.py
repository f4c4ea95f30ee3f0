"""Metric functions under names that task YAMLs can use (``metric: abstention``).

Importing this module registers them with the harness. The harness imports it, or `lm_eval_tasks.harness.autoload` does.
"""

from __future__ import annotations

from collections.abc import Sequence

import lm_eval.api.metrics  # noqa: F401 (it registers the aggregation "mean")
from lm_eval.api.registry import register_metric

from custom_metrics.abstention import is_abstention
from custom_metrics.reading.response import final_answer


@register_metric(metric="abstention", higher_is_better=False, aggregation="mean")  # type: ignore[untyped-decorator]
def abstention(references: Sequence[str], predictions: Sequence[str | None], language: str | None = None) -> float:
    """Share of predictions that abstain, in the language of the YAML's ``metric_list`` entry; default all languages. The
    references are ignored."""
    return sum(is_abstention(final_answer(p), language) for p in predictions) / len(predictions)
