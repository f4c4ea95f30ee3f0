"""The annotators' labels of an answer, from the shared task's files, checked and repaired.

*Hard labels* are spans that more than half of the annotators marked; *soft labels* are spans with the share of annotators
that did. Repairs are counted. A value that is not a label is an error.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from itertools import groupby, pairwise
from typing import Any

from custom_metrics.reading.spans import Span
from custom_metrics.reading.tagged_text import merged

__all__ = ["hard_spans", "soft_labels"]

BEYOND = "labels that reach beyond the answer, cut there"
REVERSED = "labels that end where they start or before, left out"
OVERLAPPING = "answers with labels that overlap, made disjoint"


def hard_spans(labels: Any, length: int, seen: Counter[str]) -> list[Span]:
    """Hard labels (``[[start, end], ...]``) of an answer of that length as disjoint spans, in order.

    Raises:
        ValueError: it is no such list.
    """
    spans = []
    for label in _listed(labels, "hard_labels"):
        if not isinstance(label, list) or len(label) != 2:
            raise ValueError(f"hard_labels hold {str(label)[:80]}, not [start, end]")
        if place := _place(label[0], label[1], length, seen):
            spans.append(Span(*place))
    if _overlap((span.start, span.end) for span in spans):
        seen[OVERLAPPING] += 1
    return merged(spans)


def soft_labels(labels: Any, length: int, seen: Counter[str]) -> list[dict[str, Any]]:
    """Soft labels (``{"start", "end", "prob"}``) of an answer of that length as disjoint ones, in order.

    Where some overlap, the last one in the file holds, as in the shared task's scorer.

    Raises:
        ValueError: it is no such list, or a probability is not in [0, 1].
    """
    found: list[tuple[int, int, float]] = []
    for label in _listed(labels, "soft_labels"):
        if not isinstance(label, dict) or not {"start", "end", "prob"} <= label.keys():
            raise ValueError(f"soft_labels hold {str(label)[:80]}, no start, end and prob")
        probability = label["prob"]
        if isinstance(probability, bool) or not isinstance(probability, (int, float)) or not 0 <= probability <= 1:
            raise ValueError(f"a soft label's prob is {probability!r}, no number from 0 to 1")
        if place := _place(label["start"], label["end"], length, seen):
            found.append((*place, float(probability)))
    if _overlap((start, end) for start, end, _ in found):
        seen[OVERLAPPING] += 1
        found = _painted(found, length)
    return [{"start": start, "end": end, "prob": probability} for start, end, probability in sorted(found)]


def _listed(labels: Any, name: str) -> list[Any]:
    if not isinstance(labels, list):
        raise ValueError(f"{name} is {type(labels).__name__}, not a list")
    return labels


def _place(start: Any, end: Any, length: int, seen: Counter[str]) -> tuple[int, int] | None:
    """Start and end in the answer; ``None`` where nothing of the label is."""
    for at in (start, end):
        if isinstance(at, bool) or not isinstance(at, (int, float)) or not math.isfinite(at) or at != int(at):
            raise ValueError(f"a label starts or ends at {at!r}, which is no place")
    if start >= end:
        seen[REVERSED] += 1
        return None
    if start < 0 or end > length:
        seen[BEYOND] += 1
    place = max(0, int(start)), min(length, int(end))
    return place if place[0] < place[1] else None


def _overlap(places: Iterable[tuple[int, int]]) -> bool:
    return any(start < end for (_, end), (start, _) in pairwise(sorted(places)))


def _painted(labels: list[tuple[int, int, float]], length: int) -> list[tuple[int, int, float]]:
    """Labels without overlap: on each character the last one holds."""
    characters: list[float | None] = [None] * length
    for start, end, probability in labels:
        characters[start:end] = [probability] * (end - start)
    runs = ((value, [at for at, _ in run]) for value, run in groupby(enumerate(characters), key=lambda pair: pair[1]))
    return [(places[0], places[-1] + 1, value) for value, places in runs if value is not None]
