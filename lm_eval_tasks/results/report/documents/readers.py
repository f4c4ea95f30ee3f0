"""What a reader of the report sees of a task's documents, one class a kind of task."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from custom_metrics.reading.tagged_text import align, parse
from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER
from lm_eval_tasks.results.report.documents.document import (
    ANSWER_LENGTH,
    PAGE_LENGTH,
    PASSAGE_LENGTH,
    QUESTION_LENGTH,
    Document,
    Passage,
    ShownAnswer,
    Text,
    address_of,
    mappings_of,
    pieces_of,
    spans_in,
    strings_of,
    tagged,
    text_of,
)
from lm_eval_tasks.results.report.documents.explanations import why_abstention, why_robust, why_strict
from lm_eval_tasks.results.report.numbers import shown
from lm_eval_tasks.runs import Answer, Reading, TaskRun

__all__ = ["TaskReader", "passages_of", "reader_of"]

_MARKER = re.compile(r"^\[(\d{1,3})\] ", re.MULTILINE)
_BEHIND = re.compile(r"\n\n(?:OUTPUT:|Remember to read the contexts carefully\.)")
_REFERENCE = re.compile(r"\[Reference\]\n(?P<text>.*)\n\n\[Answer\]\n", re.DOTALL)  # of detection_prompt.jinja


class Verdict(NamedTuple):
    """What is said of an answer; see :class:`~lm_eval_tasks.results.report.documents.document.ShownAnswer`."""

    text: Text
    verdict: str
    tone: str
    why: tuple[str, ...] = ()


class TaskReader:
    """Documents of any task: what was sent, what came back, and the numbers.

    Args:
        task: of a run.

    Attributes:
        filter: whose reading of an answer counts; ``None`` for the first that there is.
    """

    FACTS: tuple[str, ...] | None = None
    """Metrics whose values stand below an answer, in this order; ``None`` for all of the task."""

    def __init__(self, task: TaskRun) -> None:
        self.task = task
        self.filter: str | None = None

    def label(self, answer: Answer) -> str:
        """What models can agree or disagree on."""
        reading = self._reading(answer)
        return str(reading.answer) if reading is not None else ""

    def kinds(self, answer: Answer) -> frozenset[str]:
        """What is wrong with an answer, keys of :data:`~lm_eval_tasks.results.report.documents.document.KINDS`.

        What is most hallucinated is known among all answers only."""
        return frozenset()

    def share(self, answer: Answer) -> float | None:
        """The share of an answer's words that a detector flags; ``None`` where none read it."""
        return None

    def lay_out(self, answers: Mapping[str, Answer]) -> Document:
        """A document. `answers` are models to answers."""
        first = next(iter(answers.values()))
        return Document(
            task=self.task.task,
            benchmark=self.task.benchmark,
            key=first.key,
            answers=tuple(
                ShownAnswer(
                    model,
                    *self._verdict(answer),
                    kinds=self.kinds(answer),
                    facts=tuple(self._facts(answer)),
                    share=self.share(answer),
                )
                for model, answer in answers.items()
            ),
            **{"language": self.task.language, **self._asked(first)},
        )

    def _asked(self, answer: Answer) -> dict[str, Any]:
        """The fields of a document that say what was asked."""
        doc = answer.doc
        question = next((doc[name] for name in ("question", "query") if isinstance(doc.get(name), str)), "")
        return {
            "question": text_of(question or answer.key, QUESTION_LENGTH),
            "right": "",
            "prompt": text_of(answer.prompt, PAGE_LENGTH) if answer.prompt else None,
        }

    def _verdict(self, answer: Answer) -> Verdict:
        return Verdict(text_of(answer.response, ANSWER_LENGTH), "", "plain")

    def _reading(self, answer: Answer) -> Reading | None:
        if self.filter is not None:
            return answer.readings.get(self.filter)
        return next(iter(answer.readings.values()), None)

    def _value(self, answer: Answer, metric: str) -> float | None:
        """A metric's value of an answer; ``None`` where the answer is not in its denominator."""
        reading = self._reading(answer)
        value = reading.values.get(metric) if reading is not None else None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        return float(value) if math.isfinite(value) else None

    def _facts(self, answer: Answer) -> Iterator[tuple[str, str]]:
        """Metric to value, as text."""
        for metric in [each.name for each in self.task.metrics] if self.FACTS is None else self.FACTS:
            if (value := self._value(answer, metric)) is not None:
                yield metric, f"{value:.2f}".rstrip("0").rstrip(".")


class NomiraclReader(TaskReader):
    """Ten passages, and whether they answer the question."""

    FACTS = ()

    def __init__(self, task: TaskRun) -> None:
        super().__init__(task)
        self.filter = task.headline_filter

    def label(self, answer: Answer) -> str:
        """The label, by the reading of the headlines."""
        return super().label(answer) if self._reading(answer) is not None else INVALID

    def kinds(self, answer: Answer) -> frozenset[str]:
        """``wrong`` (hallucination or error), ``invalid``, ``abstained``."""
        label = self.label(answer)
        kind = "invalid" if label == INVALID else "wrong" if label != answer.doc.get("label") else ""
        return frozenset(filter(None, (kind, "abstained" if label == NO_ANSWER else "")))

    def _asked(self, answer: Answer) -> dict[str, Any]:
        doc = answer.doc
        relevant = doc.get("subset") == "relevant"
        return {
            "question": text_of(str(doc.get("query", "")), QUESTION_LENGTH),
            "right": "A passage answers the question" if relevant else "No passage answers the question",
            "passages": tuple(passages_of(answer.prompt, len(strings_of(doc.get("docids"))))),
            "prompt": None if _MARKER.search(answer.prompt) else text_of(answer.prompt, PASSAGE_LENGTH),
        }

    def _verdict(self, answer: Answer) -> Verdict:
        labels = {name: str(reading.answer) for name, reading in answer.readings.items()}
        label, strict = self.label(answer), labels.get("strict")
        why = []
        if strict is not None:
            why.append(why_strict(answer.response, strict))
            if len({*labels.values()}) > 1:
                why.append(why_robust(answer.response, label, self.task.language, str(answer.doc.get("query", ""))))
        if label == INVALID:
            verdict, tone = "Invalid", "unsure"
        elif label == answer.doc.get("label"):
            verdict, tone = ("right: answered", "good") if label == ANSWER else ("right: abstained", "good")
        else:
            verdict, tone = ("hallucination", "bad") if label == ANSWER else ("error: abstained", "bad")
        if strict not in (None, label):
            verdict += f" (strict reading: {strict})"
        return Verdict(text_of(answer.response, ANSWER_LENGTH), verdict, tone, tuple(filter(None, why)))


class ClapnqReader(TaskReader):
    """A question, the passages that were given, and answers that people wrote."""

    FACTS = ("rougeL", "recall", "rougeLp", "k_precision", "length", "hallucinated_share")

    def label(self, answer: Answer) -> str:
        """Whether it answers."""
        return "abstained" if self._abstained(answer) else "answered"

    def kinds(self, answer: Answer) -> frozenset[str]:
        """``abstained``; ``wrong`` where it abstains though it should not, or the other way round."""
        abstained = self._abstained(answer)
        wrong = abstained == bool(answer.doc.get("answerable"))
        return frozenset(filter(None, ("abstained" if abstained else "", "wrong" if wrong else "")))

    def share(self, answer: Answer) -> float | None:
        """The share of an answer's words that a detector flags; ``None`` where none was named."""
        return self._value(answer, "hallucinated_share")

    def _abstained(self, answer: Answer) -> bool:
        return 1.0 in (self._value(answer, name) for name in ("unanswerable_accuracy", "answerable_abstention_rate"))

    def _asked(self, answer: Answer) -> dict[str, Any]:
        doc, gold = answer.doc, strings_of(answer.doc.get("gold_ids"))
        passages = tuple(
            Passage(
                number,
                str(passage.get("title", "")),
                text_of(passage.get("text"), PASSAGE_LENGTH),
                "gold passage, retrieved" if gold and passage.get("id") in gold else "",
            )
            for number, passage in enumerate(mappings_of(doc.get("passages")), 1)
        )
        right = "Can be answered" if doc.get("answerable") else "Cannot be answered from the passage"
        if gold and not any(passage.mark for passage in passages):
            right += "; the gold passage was not among those retrieved"
        return {
            "language": "en",
            "question": text_of(doc.get("question"), QUESTION_LENGTH),
            "right": right,
            "passages": passages,
            "references": tuple(text_of(each, ANSWER_LENGTH) for each in strings_of(doc.get("answers")) if each),
        }

    def _verdict(self, answer: Answer) -> Verdict:
        abstained, answerable = self._abstained(answer), bool(answer.doc.get("answerable"))
        reading = self._reading(answer)
        text, spans = tagged(reading.answer if reading is not None else None, answer.response)
        if abstained:
            verdict, tone = ("wrong: abstained", "bad") if answerable else ("right: abstained", "good")
        else:
            verdict, tone = ("answered", "plain") if answerable else ("wrong: answered", "bad")
        why = why_abstention(text, "en") if abstained else ""
        return Verdict(pieces_of(text, spans, ANSWER_LENGTH), verdict, tone, (why,) if why else ())


class MfavaReader(TaskReader):
    """A question asked without its Wikipedia page, and the answer held against that page."""

    FACTS = ("response_words", "hallucinated_words", "repetition_rate")
    _QUARTER = 0.25

    def label(self, answer: Answer) -> str:
        """Whether it abstains, and how many quarters of its words are flagged."""
        share = self.share(answer)
        if self.kinds(answer):
            return "abstained"
        return "not read" if share is None else str(math.ceil(share / self._QUARTER))

    def kinds(self, answer: Answer) -> frozenset[str]:
        """``abstained``."""
        return frozenset({"abstained"} if self._value(answer, "abstention_rate") == 1.0 else ())

    def share(self, answer: Answer) -> float | None:
        """The share of an answer's words that the detector flags; ``None`` where it has no words, or was not read."""
        return self._value(answer, "detected_rate")

    def _asked(self, answer: Answer) -> dict[str, Any]:
        doc = answer.doc
        return {
            "question": text_of(doc.get("query"), QUESTION_LENGTH),
            "right": "Asked without the page",
            "page": text_of(doc.get("reference"), PAGE_LENGTH),
            "page_title": str(doc.get("title") or ""),
            "address": address_of(doc.get("url")),
        }

    def _verdict(self, answer: Answer) -> Verdict:
        reading, share = self._reading(answer), self.share(answer)
        text, spans = tagged(reading.answer if reading is not None else None, answer.response)
        pieces = pieces_of(text, spans, ANSWER_LENGTH)
        if self.kinds(answer):
            why = why_abstention(text, self.task.language)
            return Verdict(pieces, "abstained", "plain", (why,) if why else ())
        if share is None:
            return Verdict(pieces, "no detector has read it", "unsure")
        if share == 0:
            return Verdict(pieces, "nothing flagged", "good")
        return Verdict(pieces, f"{shown(share, 'share')} of the words flagged", "bad")


class DetectionReader(TaskReader):
    """An answer that somebody marked, and the same answer as a detector tagged it."""

    FACTS = ("iou", "rho", "f1")
    _HALF = 0.5

    def label(self, answer: Answer) -> str:
        """How well detectors agree with the people, in halves."""
        agreement = self._agreement(answer)
        return "lost" if self._is_lost(answer) else "" if agreement is None else str(agreement >= self._HALF)

    def kinds(self, answer: Answer) -> frozenset[str]:
        """``invalid`` where another text came back, ``wrong`` where less than half of it agrees."""
        if self._is_lost(answer):
            return frozenset({"invalid"})
        agreement = self._agreement(answer)
        return frozenset({"wrong"} if agreement is not None and agreement < self._HALF else ())

    def _is_lost(self, answer: Answer) -> bool:
        return self._value(answer, "lost_rate") == 1.0

    def _agreement(self, answer: Answer) -> float | None:
        overlap = self._value(answer, "iou")
        return overlap if overlap is not None else self._value(answer, "f1")

    def _asked(self, answer: Answer) -> dict[str, Any]:
        doc = answer.doc
        in_prompt = _REFERENCE.search(answer.prompt)
        page = doc.get("reference") or (in_prompt["text"] if in_prompt else "")
        marked = pieces_of(str(doc.get("answer") or ""), spans_in(doc.get("spans")), ANSWER_LENGTH)
        return {
            "question": text_of(doc.get("query") or doc.get("prompt") or doc.get("title"), QUESTION_LENGTH),
            "right": "The reference is the answer with the spans that its annotators marked",
            "references": (marked,),
            "page": text_of(page, PAGE_LENGTH) if page else None,
            "page_title": str(doc.get("title") or ""),
            "address": address_of(doc.get("url")),
        }

    def _verdict(self, answer: Answer) -> Verdict:
        original, reading = str(answer.doc.get("answer") or ""), self._reading(answer)
        written = reading.answer if reading is not None and isinstance(reading.answer, str) else answer.response
        alignment = align(*parse(written), original)
        if alignment.kind == "lost":
            return Verdict(text_of(answer.response, ANSWER_LENGTH), "Invalid: another text came back", "unsure")
        text, agreement = pieces_of(original, alignment.spans, ANSWER_LENGTH), self._agreement(answer)
        if agreement is None:
            return Verdict(text, "agreement unknown", "plain")
        return Verdict(text, f"agreement {agreement:.2f}", "good" if agreement >= self._HALF else "bad")


def reader_of(task: TaskRun) -> TaskReader:
    """The reader of a task's documents."""
    metrics = {metric.name for metric in task.metrics}
    if task.benchmark == "nomiracl":
        return NomiraclReader(task)
    if task.benchmark == "clapnq" and "unanswerable_accuracy" in metrics:
        return ClapnqReader(task)
    if {"f1", "lost_rate"} <= metrics:
        return DetectionReader(task)
    if task.benchmark == "mfava":
        return MfavaReader(task)
    return TaskReader(task)


def passages_of(prompt: str, number: int) -> list[Passage]:
    """The passages of a prompt, ``[1] title: text`` and so on; a passage may itself hold such a marker.

    Args:
        prompt: as it was sent.
        number: of passages that the document names; 0 where it does not say.
    """
    markers: list[tuple[int, int]] = []  # where each begins and ends
    for marker in _MARKER.finditer(prompt):
        if int(marker[1]) == len(markers) + 1 and (not number or len(markers) < number):
            markers.append(marker.span())
    passages = []
    for at, (_, start) in enumerate(markers):
        end = markers[at + 1][0] if at + 1 < len(markers) else len(prompt)
        text = prompt[start:end]
        if at + 1 == len(markers) and (behind := _BEHIND.search(text)):
            text = text[: behind.start()]
        title, colon, rest = text.partition(": ")
        if not colon or "\n" in title or len(title) > 200:
            title, rest = "", text
        passages.append(Passage(at + 1, title, text_of(rest.strip(), PASSAGE_LENGTH)))
    return passages
