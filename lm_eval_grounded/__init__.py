"""The one import for people who write Python: names of the three packages that stay, with a README for each of them.

``import lm_eval_grounded as g`` loads nothing heavy; each function imports what it needs when it is called. Errors that the
caller can put right are ValueErrors of one line (:class:`UsageError` and its kinds).
"""

from typing import Any

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_grounded.answers import abstains, detect, k_precision, relevance_label, rouge, span_iou
from lm_eval_grounded.evaluate_metric import evaluate_folder, evaluate_module
from lm_eval_grounded.runs import Comparison, Runs, compare, read

__version__: str
__all__ = [
    "Comparison",
    "Runs",
    "UsageError",
    "__version__",
    "abstains",
    "compare",
    "detect",
    "evaluate_folder",
    "evaluate_module",
    "k_precision",
    "read",
    "relevance_label",
    "rouge",
    "span_iou",
]


def __getattr__(name: str) -> Any:
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version  # which takes longer than all the rest

    return version("lm-eval-grounded")
