"""Harness filter ``hallucination_spans``: the answers of a task, tagged by a detector in one go."""

from __future__ import annotations

import json
import logging
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from custom_metrics.reading.spans import Span
from custom_metrics.usage.printable import without_surrogates
from custom_metrics.usage.secrets import BLANK, blank
from detector_plugin.detector import DEFAULT_DETECTOR, Detector, UnusableDetector, describe
from detector_plugin.loading import load_detector

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

FAILED = "failed"  # the version of a detector that could not be loaded or that failed


_GIVEN: dict[str, str] = {}  # options as text without their secrets, to what was given


def text_of_options(options: Mapping[str, Any]) -> str:
    """A detector's options as JSON without secrets, for files; :func:`shared_detector` takes it in their place."""
    given, text = (json.dumps(shown, sort_keys=True) for shown in (options, blank(options)))
    if text != given:
        _GIVEN[text] = given
    return text


def given_options(text: str) -> str:
    """The options as they were given, with their secrets, as JSON."""
    return _GIVEN.get(text, text)


def shared_detector(name: str, options: str = "{}") -> Detector:
    """Load a detector by name and options (JSON), once. UnusableDetector where a secret among the options is not known."""
    given = given_options(options)
    if BLANK in given:
        raise UnusableDetector(
            f"detector {name}: {BLANK} among its options stands for a key or a password that was not written down; name "
            f"the detector again with yours"
        )
    return _loaded(name, given)


@lru_cache(maxsize=2)  # a run over thirty languages loads its detector once
def _loaded(name: str, options: str) -> Detector:
    detector = load_detector(name, **json.loads(options))
    log.info("detector %s, version %s, licence %s", detector.name, detector.version, detector.licence)
    return detector


_WRAP: ContextVar[Callable[[Detector], Detector] | None] = ContextVar("_WRAP", default=None)


@contextmanager
def wrapped(wrap: Callable[[Detector], Detector]) -> Iterator[None]:
    """Make the filter wrap its detector with `wrap`, and raise the detector's errors, within this context.

    Scoring of logged answers uses it: there a detector that fails loses no answers.
    """
    token = _WRAP.set(wrap)
    try:
        yield
    finally:
        _WRAP.reset(token)


class HallucinationSpans:
    """``hallucination_spans``: each response becomes the JSON text of ``{"answer", "spans", "detector"}``.

    It is JSON because the harness writes other values into samples files as Python prints them. Where the detector fails,
    the answers stay: ``spans`` is ``null``, the log has the error, and ``score`` can tag the logged answers.

    Args:
        detector, detector_args: for documents that name none (option ``detector`` of a task), and its options.
        reference: column of a text, or of a list of texts or of passages with ``title`` and ``text``.
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

    def apply(self, resps: Iterable[Sequence[Any]], docs: Iterable[dict[str, Any]]) -> list[list[str]]:
        """Tag all responses; ValueError where a document has no reference."""
        # For each detector: answers, their documents, and the lists that get the tagged answers.
        groups: dict[tuple[str, str], list[tuple[str, Mapping[str, Any], list[str]]]] = defaultdict(list)
        tagged: list[list[str]] = []
        for responses, doc in zip(resps, docs, strict=True):
            tagged.append([])
            key = doc.get("detector") or self.detector, doc.get("detector_args") or self.detector_args
            for response in responses:
                text = without_surrogates(response) if isinstance(response, str) else ""
                groups[key].append((text, doc, tagged[-1]))
        for (name, options), group in groups.items():
            described, tags = self._detect(name, options, [row[0] for row in group], [row[1] for row in group])
            for (answer, _, of_document), spans in zip(group, tags, strict=True):
                content = {"answer": answer, "spans": spans, "detector": described}
                of_document.append(json.dumps(content, ensure_ascii=False))
        return tagged

    def _detect(
        self, name: str, options: str, answers: Sequence[str], documents: Sequence[Mapping[str, Any]]
    ) -> tuple[dict[str, str], Sequence[list[Span] | None]]:
        lacking = next((sorted(doc) for doc in documents if self.reference not in doc), None)
        if lacking is not None:
            raise ValueError(
                f"filter hallucination_spans: the document has no {self.reference!r}, only {lacking}; name the column that "
                f"holds the reference with the filter's argument `reference`"
            )
        references = [as_text(doc[self.reference]) for doc in documents]
        wrap = _WRAP.get()
        try:
            detector = shared_detector(name, options)
            if wrap is not None:
                detector = wrap(detector)
            return describe(detector), detector.detect(
                references,
                answers,
                [doc.get("language") for doc in documents],
                [str(doc.get(self.question) or "") for doc in documents],
            )
        except Exception as error:
            if wrap is not None:
                raise
            log.error(
                "detector %s failed (%s: %s): %d answers stay untagged and count in no rate. If they are logged "
                "(--log_samples), `lm-eval-grounded score` tags them without generating them again.\n%s",
                *(name, type(error).__name__, blank(str(error)), len(answers), blank(traceback.format_exc())),
            )
            return {"name": name, "version": FAILED, "licence": ""}, [None] * len(answers)


def as_text(reference: Any) -> str:
    """A reference as one text: passages one after another, a title before its text."""
    if reference is None:
        return ""
    if isinstance(reference, str):
        return reference
    if isinstance(reference, Mapping):
        return "\n".join(str(reference[key]) for key in ("title", "text") if reference.get(key))
    return "\n\n".join(as_text(part) for part in reference)
