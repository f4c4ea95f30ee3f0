"""The tasks' metrics of strings as modules of Hugging Face ``evaluate``.

This folder is what ``evaluate.load`` takes; its script ``evaluate_metric.py`` is the one class behind all of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import evaluate


def evaluate_module(name: str, **options: Any) -> evaluate.Metric:
    """A metric of the tasks as an ``evaluate.Metric``: ``.description`` says what its references are, and
    ``.compute(predictions=..., references=...)`` gives what the task would print.

    Args:
        name: such as ``k_precision``; an error lists them.
        options: of ``evaluate.Metric``, such as ``keep_in_memory``.

    Raises:
        UsageError: there is no such metric.
    """
    from lm_eval_grounded.evaluate_metric.evaluate_metric import GroundedMetric

    return GroundedMetric(name, **options)


def evaluate_folder() -> str:
    """The folder for ``evaluate.load(evaluate_folder(), NAME)``, which needs no network."""
    return str(Path(__file__).parent)
