"""A translated text, read from a reply: in the language that was asked for, with the tags that it had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from custom_metrics.abstention import is_abstention
from custom_metrics.reading.no_answer import no_answer
from custom_metrics.reading.tagged_text import ParseReport, merged, parse
from lm_eval_tasks.making.language_check import other_language
from lm_eval_tasks.making.replies import Reading, kept, left_out
from lm_eval_tasks.making.silver import BROKEN

__all__ = ["PARTS", "read"]

PARTS = ("question", "reference", "answer")
"""The texts of a row, each translated by itself; the answer is the one with tags."""


def read(reply: str, doc: Mapping[str, Any]) -> Reading:
    """The translation of a reply, as a row with ``text`` and ``spans``.

    The order of the tags may change, as that of words does; their kinds and numbers may not.

    Args:
        reply: of a model.
        doc: ``text``, with tags; ``part``, one of :data:`PARTS`; ``language``, and ``source_language`` of the text.
    """
    before, had = parse(doc["text"])
    report = ParseReport()
    text, spans = parse(reply.strip(), report) if doc["part"] == "answer" else (reply.strip(), [])
    if not text.strip():
        return left_out("an empty reply")
    if BROKEN & report.repaired.keys() or _kinds(spans) != _kinds(had):
        return left_out("other tags than before")
    if text.casefold() == before.casefold():
        return left_out("not translated")
    if no_answer(text) is not None:
        return left_out("no text (a loop, markup, code, noise)")
    if is_abstention(text, doc["language"]) and not is_abstention(before, doc["source_language"]):
        return left_out("a refusal")
    if other_language(text, doc["language"]):
        return left_out("another language")
    return kept(text=text, spans=[[span.start, span.end, span.category] for span in merged(spans)])


def _kinds(spans: Any) -> Counter[str]:
    return Counter(span.category for span in merged(spans))
