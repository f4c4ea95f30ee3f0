"""Metric functions under names that task YAMLs can use (``metric: abstention``).

Importing this module registers them with the harness. The harness imports it, or `lm_eval_tasks.harness.autoload` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lm_eval.api.metrics  # noqa: F401 (it registers the aggregation "mean")
from lm_eval.api.registry import register_metric

from custom_metrics.abstention import is_abstention
from custom_metrics.reading.response import final_answer
from lm_eval_tasks.harness import has_scorers


@register_metric(  # type: ignore[untyped-decorator]
    metric="abstention", higher_is_better=False, aggregation="mean", output_type="generate_until"
)
def abstention(references: Sequence[str], predictions: Sequence[str | None], language: str | None = None) -> Any:
    """Share of predictions that abstain, in the language of the YAML's ``metric_list`` entry; default all languages. The
    references are ignored."""
    # A scorer wants a value of each prediction, the evaluator of 0.4 one of them all.
    values = [float(is_abstention(final_answer(each), language)) for each in predictions]
    return {"abstention": values} if has_scorers() else sum(values) / len(values)
