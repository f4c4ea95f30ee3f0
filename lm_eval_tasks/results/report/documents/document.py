"""A document as a reader of the report sees it: question, passages and every model's answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from custom_metrics.reading.spans import HALLUCINATION, Span, span_of

QUESTION_LENGTH = 2_000
ANSWER_LENGTH = 8_000
PASSAGE_LENGTH = 4_000
PAGE_LENGTH = 12_000
"""How much of a text a page shows, in characters. What is left out is counted."""

KINDS = {
    "wrong": "wrong",
    "invalid": "Invalid",
    "abstained": "abstained",
    "disagree": "models disagree",
    "hallucinated": "most hallucinated",
}
"""What a reader can filter by, and how it is called."""

_WHITE = re.compile(r"\s")

Kind = TypeVar("Kind")


class Piece(NamedTuple):
    """Part of a text. `category` says what a detector or an annotator found wrong with it; empty where nothing."""

    text: str
    category: str = ""


class Text(NamedTuple):
    """A text in pieces, cut where it is too long for a page; `left_out` characters are behind the cut."""

    pieces: tuple[Piece, ...] = ()
    left_out: int = 0


class Passage(NamedTuple):
    """What the question was asked with: its number in the prompt, from 1, a title and a `mark`, such as "gold passage";
    both are empty where there is none."""

    number: int
    title: str
    text: Text
    mark: str = ""


class ShownAnswer(NamedTuple):
    """What one model said, and what was made of it."""

    label: str  # what models can agree or disagree on
    verdict: str = ""  # the same in a few words
    tone: str = "plain"  # or ``good``, ``bad``, ``unsure``
    kinds: frozenset[str] = frozenset()  # what is wrong with it, keys of :data:`KINDS`
    share: float | None = None  # of its words that are flagged; None where no detector read it
    model: str = ""  # its label in the report
    text: Text = Text()
    why: tuple[str, ...] = ()  # how the label came about, a sentence each; empty ones count for nothing
    facts: tuple[tuple[str, str], ...] = ()  # metric to value, as text


class Document(NamedTuple):
    """One document of a task with every model's answer."""

    question: Text
    right: str = ""  # what a right answer is, in a few words; empty where the reference says it
    passages: tuple[Passage, ...] = ()  # that the prompt gave
    references: tuple[Text, ...] = ()
    page: Text | None = None  # the text that answers were held against, where the model did not see it
    page_title: str = ""
    address: str = ""  # of the page: http or https, else empty
    prompt: Text | None = None  # as it was sent, where no passages could be told from it
    task: str = ""
    benchmark: str = ""
    language: str = ""
    key: str = ""
    answers: tuple[ShownAnswer, ...] = ()  # of the models, in the order of the runs
    kinds: frozenset[str] = frozenset()  # of all answers


def text_of(value: Any, limit: int, spans: Iterable[Span] = ()) -> Text:
    """A value of a file as text of at most `limit` characters, with spans as pieces. Where spans overlap, the one that
    begins first holds, then the longer. Spans that reach beyond the text or the limit are cut."""
    text = value if isinstance(value, str) else "" if value is None else str(value)
    shown = text[:limit]
    pieces, at = [], 0
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        start, end = max(at, span.start), min(span.end, len(shown))
        if start >= end:
            continue
        if start > at:
            pieces.append(Piece(shown[at:start]))
        pieces.append(Piece(shown[start:end], span.category or HALLUCINATION))
        at = end
    if at < len(shown) or not shown:
        pieces.append(Piece(shown[at:]))
    return Text(tuple(pieces), len(text) - len(shown))


def address_of(value: Any) -> str:
    """An address that a page may link to: http or https with a host. Anything else (``javascript:``) becomes ``""``."""
    if not isinstance(value, str) or len(value) > 2000 or _WHITE.search(value):
        return ""
    try:
        parts = urlsplit(value)
    except ValueError:
        return ""
    return value if parts.scheme in ("http", "https") and parts.hostname else ""


def listed(value: Any, kind: type[Kind]) -> list[Kind]:
    """The members of a list that are of a kind; the list may hold anything, and the value be none."""
    return [each for each in value if isinstance(each, kind)] if isinstance(value, (list, tuple)) else []


def tagged(read: Any, response: str) -> tuple[str, list[Span]]:
    """Answer and spans of what the filter ``hallucination_spans`` wrote; the response without spans for everything else."""
    if isinstance(read, str) and read.startswith("{"):
        try:
            written = json.loads(read)
            text = written["answer"]
            if isinstance(text, str):
                return text, spans_in(written.get("spans"))
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
    return (read if isinstance(read, str) else response), []


def spans_in(value: Any) -> list[Span]:
    """The spans of a list of objects or of lists; what is no span is passed over."""
    spans = []
    for each in value if isinstance(value, list) else ():
        if isinstance(each, dict):
            each = (each.get("start"), each.get("end"), each.get("category", HALLUCINATION))
        with suppress(ValueError):
            spans.append(span_of(each))
    return spans
