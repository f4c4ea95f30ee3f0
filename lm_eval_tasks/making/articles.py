"""Rows of the user's own files: articles, and what earlier steps made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from custom_metrics.reading.spans import CATEGORIES, Span, span_of
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import without_surrogates
from lm_eval_tasks.data.sources import MissingSource
from lm_eval_tasks.data.tables import read_json_lines

__all__ = ["TEXTS", "read_rows", "spans_in"]

TEXTS = ("title", "url", "question", "reference", "answer", "model")
"""Fields of a row that are text, empty where it has none."""


def read_rows(path: Path, language: str, seen: Counter[str]) -> Iterator[dict[str, Any]]:
    """The rows of a JSON lines file: ``id``, ``language``, ``spans`` and :data:`TEXTS`.

    ``reference`` may be called ``text``. ``id`` is the row's own, or else its line. A row without ``language`` is in
    `language`.

    Args:
        path: ``.jsonl`` or ``.jsonl.gz``.
        language: of rows that name none.
        seen: rows that are left out are counted here, by reason.

    Raises:
        MissingSource: there is no such file.
        CorruptSource: a line is no JSON object.
        UsageError: an id stands twice.
    """
    if not path.is_file():
        raise MissingSource(
            f"{path.resolve()}: no such file (--metadata articles=FILE, JSON lines with title, text, url)"
        )
    ids: dict[str, int] = {}
    for number, row in read_json_lines(path, seen):
        row = {"reference": row.get("text"), **{name: value for name, value in row.items() if value is not None}}
        if any(not isinstance(row.get(name) or "", str) for name in (*TEXTS, "language")):
            seen["rows left out, with a field that is no text"] += 1
            continue
        texts = {name: without_surrogates(row.get(name) or "").strip() for name in TEXTS}
        answer = without_surrogates(row.get("answer") or "")
        spans = spans_in(answer, row.get("spans") or [])
        if spans is None:
            seen["rows left out, with spans that do not fit their answer"] += 1
            continue
        id = str(row.get("id") or number)
        if id in ids:
            raise UsageError(f"{path}: lines {ids[id]} and {number} have the same id {id!r}; an id names one row")
        ids[id] = number
        yield {**texts, "answer": answer, "id": id, "language": row.get("language") or language, "spans": spans}


def spans_in(answer: str, spans: Any) -> list[Span] | None:
    """Spans of a row (``[start, end, category]``); ``None`` where one is none, or lies outside of the answer."""
    try:
        ordered = sorted(span_of(span) for span in spans)
    except (TypeError, ValueError):
        return None
    fitting = all(span.start < span.end <= len(answer) and span.category in CATEGORIES for span in ordered)
    return ordered if fitting else None
