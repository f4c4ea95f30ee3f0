"""A document as the report shows it: question, passages and every model's answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from custom_metrics.reading.spans import HALLUCINATION, Span, span_of
from custom_metrics.usage.printable import without_surrogates

QUESTION_LENGTH, PASSAGE_LENGTH, ANSWER_LENGTH, PAGE_LENGTH = 2_000, 4_000, 8_000, 12_000
"""The number of characters of a text that a page shows at most. The rest is counted."""

KINDS = {
    "wrong": "wrong",
    "invalid": "Invalid",
    "abstained": "abstained",
    "disagree": "models disagree",
    "hallucinated": "most hallucinated",
}
"""Kinds of answers to filter by, with their titles."""

_WHITE = re.compile(r"\s")


class Piece(NamedTuple):
    """A piece of a text. `category` is the error that a detector or an annotator marked; empty where there is none."""

    text: str
    category: str = ""


class Text(NamedTuple):
    """A text in pieces, cut if it is too long for a page; `left_out` is the number of characters cut off."""

    pieces: tuple[Piece, ...] = ()
    left_out: int = 0


class Passage(NamedTuple):
    """A passage of the prompt: its number there, from 1, a title or "", and a `mark` such as "gold passage" or ""."""

    number: int
    title: str
    text: Text
    mark: str = ""


class ShownAnswer(NamedTuple):
    """A model's answer with its verdict, as a page shows it."""

    label: str  # models disagree where their labels differ
    verdict: str = ""  # the same in a few words
    tone: str = "plain"  # or ``good``, ``bad``, ``unsure``
    kinds: frozenset[str] = frozenset()  # keys of :data:`KINDS`
    share: float | None = None  # of its words that are flagged; None where no detector read it
    model: str = ""  # its label in the report
    text: Text = Text()
    why: tuple[str, ...] = ()  # sentences on the reasons for the label; empty ones are not shown
    facts: tuple[tuple[str, str], ...] = ()  # metric to value, as text


class Document(NamedTuple):
    """One document of a task with every model's answer."""

    question: Text
    right: str = ""  # what a right answer is, in a few words; empty if the reference shows it
    passages: tuple[Passage, ...] = ()  # that the prompt gave
    references: tuple[Text, ...] = ()
    page: Text | None = None  # the text that answers were checked against, if the model did not see it
    page_title: str = ""
    address: str = ""  # of the page: http or https, else empty
    prompt: Text | None = None  # as it was sent, if no passages could be read from it
    language: str = ""
    key: str = ""
    answers: tuple[ShownAnswer, ...] = ()  # of the models, in the order of the runs
    kinds: frozenset[str] = frozenset()  # of all answers


def text_of(value: Any, limit: int, spans: Iterable[Span] = ()) -> Text:
    """A value as a text of at most `limit` characters, with spans as pieces. Of overlapping spans the first counts, then
    the longer. Spans that reach beyond the text or the limit are cut."""
    text = "" if value is None else str(value)
    visible = text[:limit]
    pieces, position = [], 0
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        start, end = max(position, span.start), min(span.end, len(visible))
        if start < end:
            between = [Piece(visible[position:start])] if start > position else []
            pieces += [*between, Piece(visible[start:end], span.category or HALLUCINATION)]
            position = end
    if position < len(visible) or not visible:
        pieces.append(Piece(visible[position:]))
    return Text(tuple(pieces), len(text) - len(visible))


def address_of(value: Any) -> str:
    """An address that is safe to link to: http or https with a host. Anything else (``javascript:``) becomes ``""``."""
    if isinstance(value, str) and len(value) <= 2000 and not _WHITE.search(value):
        with suppress(ValueError):
            address = urlsplit(value)
            return value if address.scheme in ("http", "https") and address.hostname else ""
    return ""


def members(value: Any, kind: type) -> list[Any]:
    """The members of a list that have a type; none of a value that is not a list."""
    return [member for member in value if isinstance(member, kind)] if isinstance(value, (list, tuple)) else []


def tagged_answer(output: Any, response: str) -> tuple[str, list[Any] | None]:
    """Answer and spans in what the filter ``hallucination_spans`` wrote. Any other output of a filter is an answer that no
    detector has read, with ``None`` for the spans; without output, the response is."""
    if isinstance(output, str) and output.startswith("{"):
        with suppress(ValueError, RecursionError):
            tagged = json.loads(output)
            if isinstance(tagged, dict) and tagged.keys() >= {"answer", "spans", "detector"}:
                spans = tagged["spans"]
                return without_surrogates(str(tagged["answer"])), spans if isinstance(spans, list) else None
    return (output if isinstance(output, str) else response), None


def spans_in(value: Any) -> list[Span]:
    """The spans in a list of objects or of lists; other members are skipped."""
    spans = []
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict):
            item = (item.get("start"), item.get("end"), item.get("category", HALLUCINATION))
        with suppress(ValueError):
            spans.append(span_of(item))
    return spans
