"""The one import for people who write Python: stable names of the three packages, each with an example in README.md.

Importing it loads nothing heavy: each function imports what it needs. Errors that the caller can put right are of one line
(:class:`UsageError`, a ValueError)."""

from importlib.metadata import version

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_grounded.answers import abstains, detect, k_precision, relevance_label, rouge, span_iou
from lm_eval_grounded.evaluate_metric import evaluate_folder, evaluate_module
from lm_eval_grounded.logs import FlaggedLog, LogReader, detect_log, merge_logs
from lm_eval_grounded.runs import Comparison, Runs, compare, difference, read

__version__ = version("lm-eval-grounded")
__all__ = [
    "Comparison",
    "FlaggedLog",
    "LogReader",
    "Runs",
    "UsageError",
    "__version__",
    "abstains",
    "compare",
    "detect",
    "detect_log",
    "difference",
    "evaluate_folder",
    "evaluate_module",
    "k_precision",
    "merge_logs",
    "read",
    "relevance_label",
    "rouge",
    "span_iou",
]
