"""The tasks' metrics of strings as modules of Hugging Face ``evaluate``, which loads ``evaluate_metric.py``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import evaluate


def evaluate_module(name: str, **options: Any) -> evaluate.Metric:
    """A metric of the tasks, such as ``k_precision``, as an ``evaluate.Metric``: its ``inputs_description`` says what
    ``compute`` takes. Options are those of ``evaluate.Metric``. A UsageError for another name lists them all.

    >>> evaluate_module("k_precision").compute(predictions=["a cat"], references=[["the cat sat"]])["k_precision"]
    0.5
    """
    from lm_eval_grounded.answers import of_kind
    from lm_eval_grounded.evaluate_metric.evaluate_metric import GroundedMetric

    return GroundedMetric(of_kind(str, name, "name"), **options)


def evaluate_folder() -> str:
    """The folder for ``evaluate.load(evaluate_folder(), NAME)``, which needs no network.

    >>> import evaluate
    >>> evaluate.load(evaluate_folder(), "abstention_rate").compute(predictions=["Paris"])["abstention_rate"]
    0.0
    """
    return str(Path(__file__).parent)
