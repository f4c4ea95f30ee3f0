"""Answers with the spans that a detector found, as the filter ``hallucination_spans`` logs them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from custom_metrics.reading.spans import HALLUCINATION, Span

__all__ = ["spans_in", "tagged"]


def tagged(read: Any, response: str) -> tuple[str, list[Span]]:
    """Answer and spans of what the filter ``hallucination_spans`` wrote; the response without spans for everything else."""
    if isinstance(read, str) and read.startswith("{"):
        try:
            found = json.loads(read)
            text = found["answer"]
            if isinstance(text, str):
                return text, spans_in(found.get("spans"))
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
    return (read if isinstance(read, str) else response), []


def spans_in(listed: Any) -> list[Span]:
    """The spans of a list of objects or of lists; what is no span is passed over."""
    found = []
    for each in listed if isinstance(listed, list) else ():
        values = (
            [each.get("start"), each.get("end"), each.get("category", HALLUCINATION)]
            if isinstance(each, Mapping)
            else list(each[:3])
            if isinstance(each, (list, tuple))
            else []
        )
        if len(values) == 3 and all(isinstance(place, int) and place >= 0 for place in values[:2]):
            found.append(Span(values[0], values[1], str(values[2])))
    return found
