"""Harness filter ``hallucination_spans``: the answers of a task, tagged by a detector in one go."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, NamedTuple

from lm_eval.api.filter import Filter

from custom_metrics.reading.spans import Span
from custom_metrics.usage.printable import without_surrogates
from detector_plugin.detector import DEFAULT_DETECTOR, Detector, describe
from detector_plugin.loading import load_detector

__all__ = ["HallucinationSpans", "shared_detector", "wrapped"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

Responses = Iterable[Sequence[Any]]

FAILED = "failed"
"""Version of a detector that could not be loaded or broke down."""


@lru_cache(maxsize=2)  # a run over thirty languages loads its detector once
def shared_detector(name: str, options: str = "{}") -> Detector:
    """The detector of a name and options (JSON), loaded once.

    Raises:
        UnusableDetector: see :func:`detector_plugin.load_detector`.
    """
    detector = load_detector(name, **json.loads(options))
    log.info("detector %s, version %s, licence %s", detector.name, detector.version, detector.licence)
    return detector


_WRAP: ContextVar[Callable[[Detector], Detector] | None] = ContextVar("_WRAP", default=None)


@contextmanager
def wrapped(wrap: Callable[[Detector], Detector]) -> Iterator[None]:
    """Within this context the filter wraps its detector with `wrap`, and raises the detector's errors.

    It is for scoring logged answers: there a detector that fails loses no answers.
    """
    token = _WRAP.set(wrap)
    try:
        yield
    finally:
        _WRAP.reset(token)


class _Answer(NamedTuple):
    """A response: the place of its document, its number among that document's, its text, and the document."""

    place: int
    number: int
    text: str
    doc: Mapping[str, Any]


class HallucinationSpans(Filter):  # type: ignore[misc]
    """``hallucination_spans``: each response becomes the JSON text of ``{"answer", "spans", "detector"}``.

    It is JSON because the harness writes other values into samples files as Python prints them. Where the detector fails,
    the answers stay: ``spans`` is ``null``, the log has the error, and ``lm-eval-grounded score`` can tag the logged
    answers.

    A document can name its detector (``--metadata detector=``). Otherwise the filter's own runs.

    Args:
        detector: for documents that name none.
        detector_args: its options.
        reference: column that holds what an answer is held against: a text, or a list of texts or of passages with
            ``title`` and ``text``.
        question: column of the question, if the documents have one.
    """

    def __init__(
        self,
        detector: str = DEFAULT_DETECTOR,
        detector_args: Mapping[str, Any] | None = None,
        reference: str = "reference",
        question: str = "query",
    ) -> None:
        self.detector = detector
        self.detector_args = json.dumps(dict(detector_args or {}), sort_keys=True)
        self.reference = reference
        self.question = question

    def apply(self, resps: Responses, docs: Iterable[dict[str, Any]]) -> list[list[str]]:
        """Tag all responses.

        Raises:
            ValueError: a document has no reference.
        """
        responses = list(resps)
        asked: dict[tuple[str, str], list[_Answer]] = {}
        for place, (several, doc) in enumerate(zip(responses, docs, strict=True)):
            key = doc.get("detector") or self.detector, doc.get("detector_args") or self.detector_args
            for number, response in enumerate(several):
                text = without_surrogates(response) if isinstance(response, str) else ""
                asked.setdefault(key, []).append(_Answer(place, number, text, doc))
        tagged = [[""] * len(several) for several in responses]
        for (name, options), answers in asked.items():
            described, found = self._detect(name, options, answers)
            for answer, spans in zip(answers, found, strict=True):
                content = {"answer": answer.text, "spans": spans, "detector": described}
                tagged[answer.place][answer.number] = json.dumps(content, ensure_ascii=False)
        return tagged

    def _detect(
        self, name: str, options: str, answers: Sequence[_Answer]
    ) -> tuple[dict[str, str], Sequence[list[Span] | None]]:
        references = [self._reference(answer.doc) for answer in answers]
        wrap = _WRAP.get()
        try:
            detector = shared_detector(name, options)
            if wrap is not None:
                detector = wrap(detector)
            return describe(detector), detector.detect(
                references,
                [answer.text for answer in answers],
                [answer.doc.get("language") for answer in answers],
                [str(answer.doc.get(self.question) or "") for answer in answers],
            )
        except Exception as error:
            if wrap is not None:
                raise
            log.exception(
                "detector %s failed (%s: %s): %d answers stay untagged and count in no rate. If they are logged "
                "(--log_samples), `lm-eval-grounded score` tags them without generating them again.",
                *(name, type(error).__name__, error, len(answers)),
            )
            return {"name": name, "version": FAILED, "licence": ""}, [None] * len(answers)

    def _reference(self, doc: Mapping[str, Any]) -> str:
        if self.reference not in doc:
            raise ValueError(
                f"filter hallucination_spans: the document has no {self.reference!r}, only {sorted(doc)}; name the column "
                f"that holds the reference with the filter's argument `reference`"
            )
        return as_text(doc[self.reference])


def as_text(reference: Any) -> str:
    """A reference as one text: passages one after another, a title before its text."""
    if reference is None:
        return ""
    if isinstance(reference, str):
        return reference
    if isinstance(reference, Mapping):
        return "\n".join(str(reference[key]) for key in ("title", "text") if reference.get(key))
    return "\n\n".join(as_text(part) for part in reference)
