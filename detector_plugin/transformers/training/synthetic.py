"""Documents made of others: answers held against another page, and answers without what is hallucinated in them.

A third of nearly every annotated answer is hallucinated. From them alone a model learns to flag a third of anything.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from custom_metrics.reading.spans import Span
from detector_plugin.labelled import LabelledAnswer, without_spans
from detector_plugin.texts import article_groups

__all__ = ["CLEANED", "UNRELATED", "synthetic"]

UNRELATED, CLEANED = "unrelated", "cleaned"
"""Kinds of annotation of the documents that are made here."""


def synthetic(documents: Sequence[LabelledAnswer], number: int, seed: int = 0) -> list[LabelledAnswer]:
    """Make documents, half of them `UNRELATED` (hallucinated as a whole), half `CLEANED` (not at all).

    Args:
        documents: to make them of; those that the model learns from, and no others.
        number: of documents; fewer where the data has no more.
        seed: of the choice.
    """
    pages: dict[str, dict[tuple[int, str], None]] = {}  # language to (article, reference), each once
    number_of: dict[int, int] = {}
    for article, group in enumerate(article_groups(documents)):
        for document in group:
            number_of[id(document)] = article
            if document.reference.strip():
                pages.setdefault(document.language, {})[article, document.reference] = None
    ordered = sorted(documents, key=lambda document: _digest(document, seed))
    unrelated: list[LabelledAnswer] = []
    cleaned: list[LabelledAnswer] = []
    for document in ordered:
        others = [text for article, text in pages.get(document.language, {}) if article != number_of[id(document)]]
        if len(unrelated) < (number + 1) // 2 and others:
            page = others[int(_digest(document, seed + 1)[:8], 16) % len(others)]
            whole = (Span(0, len(document.answer)),)
            unrelated.append(
                replace(document, reference=page, article="", spans=whole, soft=None, annotations=UNRELATED)
            )
        elif len(cleaned) < number // 2 and document.spans:
            answer = without_spans(document.answer, document.spans)
            if answer.strip():
                cleaned.append(replace(document, answer=answer, spans=(), soft=None, annotations=CLEANED))
        if len(unrelated) + len(cleaned) >= number:
            break
    return unrelated + cleaned


def _digest(document: LabelledAnswer, seed: int) -> str:
    text = "\0".join((str(seed), document.language, document.annotations, document.answer, document.reference))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
