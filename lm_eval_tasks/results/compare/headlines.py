"""The headline metrics of the benchmarks: what a comparison shows first."""

from __future__ import annotations

__all__ = ["headlines_of"]

_HEADLINES = {
    "nomiracl": ("hallucination_rate", "error_rate"),
    "clapnq": (
        "rougeL",
        "recall",
        "rougeLp",
        "unanswerable_accuracy",
        "answerable_abstention_rate",
        "length",
        "hallucinated_share",
    ),
    "mfava": ("detected_rate", "estimated_rate", "rogan_gladen_rate", "f1"),
    "mushroom": ("iou", "rho"),
}


def headlines_of(benchmark: str) -> tuple[str, ...] | None:
    """Of a benchmark of ours; ``None`` for any other, whose metrics are all headlines."""
    return _HEADLINES.get(benchmark)
