"""Labelled answers: what detectors are trained on and measured with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from custom_metrics.reading.spans import Span

__all__ = ["REAL", "TRANSLATED", "UNREADABLE", "LabelledAnswer", "is_unreadable", "without_spans"]

REAL = "real"  # annotations of what a model wrote on its own
TRANSLATED = "?"
"""The `group` of a document whose text other languages have too, where nobody says which of theirs it is."""
UNREADABLE = "⁇"
"""What a translation model wrote for a token that it did not know."""


@dataclass(frozen=True)
class LabelledAnswer:
    """An answer, the text it is held against, and what is hallucinated in it.

    Attributes:
        reference: as the detector gets it.
        answer: the text that `spans` are characters of.
        language: ISO 639 code.
        annotations: who said so of what: ``real`` (people, of what a model wrote on its own), ``gold`` (people, of inserted
            errors) or ``silver`` (GPT-4, of inserted errors).
        spans: hallucinated parts of the answer.
        question: what the answer answers; empty where that is not known.
        family: model family of the model that wrote the answer; empty where it makes no difference.
        model: that wrote the answer.
        soft: shares of annotators, as the probability of spans; default all of them where `spans` are.
        article: name or address of the page that the reference is from; empty where the reference itself is all there is.
        group: key that documents about one text share in every language: translations of it, or pages on one subject. Empty
            where nobody says.
    """

    reference: str
    answer: str
    language: str
    annotations: str
    spans: Sequence[Span]
    question: str = ""
    family: str = ""
    model: str = ""
    soft: Sequence[Span] | None = None
    article: str = ""
    group: str = ""


def is_unreadable(reference: str) -> bool:
    """Whether more than a fifth of a reference's words are the mark of an unknown token, as nearly all Latin ones are."""
    return reference.count(UNREADABLE) > len(reference.split()) / 5


def without_spans(answer: str, spans: Sequence[Span]) -> str:
    """An answer without the characters of some spans."""
    kept: list[str] = []
    at = 0
    for start, end in sorted((span.start, span.end) for span in spans):
        kept.append(answer[at : max(at, start)])
        at = max(at, end)
    return "".join([*kept, answer[at:]])
