"""Harness filters: each maps every response of a task, with its document, to a label, a rating or a cleaned text.

To the harness a filter is a class with the method ``apply``. Here is no more of it, so that nothing of it is imported. What
one filter alone needs is imported where it is used: a run has one or two of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from custom_metrics.abstention import is_abstention
from custom_metrics.reading.response import after_reasoning, final_answer
from custom_metrics.relevance import nomiracl_label, robust_label


class _ResponseFilter(ABC):
    @abstractmethod
    def extract(self, response: Any, doc: Mapping[str, Any]) -> str:
        """The filtered response."""

    def apply(self, resps: Iterable[Sequence[Any]], docs: Iterable[dict[str, Any]]) -> list[list[str]]:
        return [[self.extract(each, doc) for each in responses] for responses, doc in zip(resps, docs, strict=True)]


class NomiraclLabel(_ResponseFilter):
    """``nomiracl_label``: a NoMIRACL label. The parser ``strict`` is the released one, ``robust`` reads more."""

    def __init__(self, parser: str = "strict") -> None:
        if parser not in ("strict", "robust"):
            raise ValueError(f"filter nomiracl_label: parser must be 'strict' or 'robust', got {parser!r}")
        self.parser = parser

    def extract(self, response: Any, doc: Mapping[str, Any]) -> str:
        return nomiracl_label(response) if self.parser == "strict" else label_of(response, doc)


def label_of(response: Any, doc: Mapping[str, Any]) -> str:
    """The robust label of a response to a NoMIRACL document."""
    question, passages = doc.get("query"), doc.get("passages")
    passages = [passage for passage in passages if isinstance(passage, str)] if isinstance(passages, list) else ()
    return robust_label(response, doc.get("language"), question if isinstance(question, str) else None, passages)


class Abstention(_ResponseFilter):
    """``abstention``: a response that abstains becomes one fixed word, the `label`; any other stays as it is. It is read in
    the `language`, by default in the document's ``language``, else in all languages.
    """

    def __init__(self, label: str = "unanswerable", language: str | None = None) -> None:
        self.label = label
        self.language = language

    def extract(self, response: Any, doc: Mapping[str, Any]) -> str:
        text = response if isinstance(response, str) else ""
        return self.label if is_abstention(final_answer(text), self.language or doc.get("language")) else text


class FinalAnswer(_ResponseFilter):
    """``final_answer``: see :func:`custom_metrics.reading.response.final_answer`."""

    def extract(self, response: Any, doc: Mapping[str, Any]) -> str:
        return final_answer(response)


class CopiedAnswer(_ResponseFilter):
    """``copied_answer``: the response, the text behind its reasoning, or its final answer: the nearest to ``answer``.

    It is for tasks that want the answer back with tags. The answer itself may hold what `final_answer` takes for debris: a
    model that ran on past its end wrote ``<|im_end|>`` and further turns, and annotators marked these, too.
    """

    def extract(self, response: Any, doc: Mapping[str, Any]) -> str:
        from custom_metrics.reading.tagged_text import align, parse

        final = final_answer(response)
        if final == response or not isinstance(response, str):
            return final
        versions = dict.fromkeys((response, after_reasoning(response), final))
        return max(versions, key=lambda text: align(*parse(text), doc["answer"]).similarity)


class JudgeRating(_ResponseFilter):
    """``judge_rating``: a judge's reply becomes ``"1"`` to ``"4"``, or ``"unread"``."""

    def extract(self, response: Any, doc: Mapping[str, Any]) -> str:
        from custom_metrics.scores.judging import UNREAD, read_rating

        return str(read_rating(response) or UNREAD)


class JudgePreference(_ResponseFilter):
    """``judge_preference``: a judge's reply about two answers becomes ``"A"``, ``"B"``, ``"tie"`` or ``"unread"``."""

    def extract(self, response: Any, doc: Mapping[str, Any]) -> str:
        from custom_metrics.scores.judging import UNREAD, read_preference

        return read_preference(response) or UNREAD


class JudgeSupport(_ResponseFilter):
    """``judge_support``: a judge's reply about a sentence becomes ``"Supported"``, ``"Not Supported"`` or ``"unread"``."""

    def extract(self, response: Any, doc: Mapping[str, Any]) -> str:
        from custom_metrics.reading.spans import NOT_SUPPORTED, SUPPORTED
        from custom_metrics.scores.judging import UNREAD, read_support

        return {True: SUPPORTED, False: NOT_SUPPORTED, None: UNREAD}[read_support(response)]
