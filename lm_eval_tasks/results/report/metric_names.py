"""What metrics are called in prose."""

from __future__ import annotations

__all__ = ["metric_name"]

_NAMES = {
    "rogan_gladen_rate": "Rogan-Gladen rate",
    "rougeL": "RougeL",
    "rougeLp": "RougeLp",
    "f_plus_a": "F+A",
    "f1": "F1",
    "iou": "IoU",
    "gold_retrieved": "gold passage retrieved",
    "length": "length in characters",
}


def metric_name(metric: str) -> str:
    """A metric's name with spaces, and capitals where it has some."""
    return _NAMES.get(metric, metric.replace("_", " "))
