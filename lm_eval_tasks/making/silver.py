"""A text with inserted errors, read from a reply: every error tagged, and nothing changed outside of the tags."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from custom_metrics.reading.spans import Span
from custom_metrics.reading.tagged_text import ParseReport, merged, parse
from lm_eval_tasks.making.replies import Reading, kept, left_out

__all__ = ["BROKEN", "read_silver"]

BROKEN = frozenset(
    (
        "opening tag that closes",
        "doubled opening tag",
        "closing tag of another category",
        "closing tag alone",
        "unclosed tag",
        "cut tag",
        "empty span",
    )
)
"""Repairs of :class:`custom_metrics.reading.tagged_text.ParseReport` after which nobody knows where a span ends.
Misspelt and capitalised categories are read, and so is markup."""

_CUE = re.compile(r"^\s*\**(?:edited|passage)\**\s*:\**\s*", re.IGNORECASE)
_DELETED = re.compile(
    r"<delete>[^<]*</delete>", re.IGNORECASE
)  # FAVA's mark of the words that an error takes the place of


def read_silver(reply: str, doc: Mapping[str, Any]) -> Reading:
    """The text with its errors, as a row with ``answer`` and ``spans`` (``[start, end, category]``).

    Args:
        reply: of a model.
        doc: ``answer``, the text before; ``spans``, its errors already; ``categories``, the kinds that were asked for.
    """
    report = ParseReport()
    text, spans = parse(_DELETED.sub("", _CUE.sub("", reply)).strip(), report)
    if not text.strip():
        return left_out("an empty reply")
    if BROKEN & report.repaired.keys():
        return left_out("tags that cannot be read")
    before = [Span(span["start"], span["end"], span["category"]) for span in doc["spans"]]
    gone = Counter((span.category, doc["answer"][span.start : span.end]) for span in before)
    inserted = []
    for span in spans:
        known = (span.category, text[span.start : span.end])
        if gone[known]:
            gone[known] -= 1
        else:
            inserted.append(span)
    if +gone:
        return left_out("errors that were there already are gone")
    if not inserted:
        return left_out("no error inserted")
    if {span.category for span in inserted} - set(doc["categories"]):
        return left_out("a kind of error that was not asked for")
    reason = _changed(text, inserted, doc["answer"])
    if reason:
        return left_out(reason)
    return kept(answer=text, spans=[[span.start, span.end, span.category] for span in merged(spans)])


def _changed(text: str, inserted: Sequence[Span], original: str) -> str | None:
    """What is wrong with a text that should be `original` but for its inserted spans; ``None`` where nothing is.

    The parts between the spans must stand in the original, in order and with nothing left over but at the spans. Letters,
    digits and symbols count, case and punctuation do not.
    """
    whole, places = _solid(original), _together(inserted)
    edges = [0, *(edge for place in places for edge in place), len(text)]
    first, *parts = (_solid(text[start:end]) for start, end in zip(edges[::2], edges[1::2], strict=True))
    at = len(first)
    if not whole.startswith(first):
        return "changed outside of the tags"
    for number, ((start, end), part) in enumerate(zip(places, parts, strict=True), 1):
        place = len(whole) - len(part) if number == len(parts) else whole.find(part, at)
        if place < at or not whole.startswith(part, place):
            return "changed outside of the tags"
        if _solid(text[start:end]) == whole[at:place]:
            return "a tag around words that were not changed"
        at = place + len(part)
    return None


def _together(spans: Sequence[Span]) -> list[tuple[int, int]]:
    """The places of spans, those that overlap or touch as one."""
    places: list[tuple[int, int]] = []
    for span in sorted(spans):
        if places and span.start <= places[-1][1]:
            places[-1] = (places[-1][0], max(places[-1][1], span.end))
        else:
            places.append((span.start, span.end))
    return places


def _solid(text: str) -> str:
    """A text without case, white space, punctuation and control characters."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(character for character in folded if unicodedata.category(character)[0] not in "PZC")
