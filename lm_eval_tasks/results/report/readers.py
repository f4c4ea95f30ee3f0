"""Documents as a report shows them: texts, passages and answers. A document is read by its columns; a class for each kind
of task says what an answer is worth."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from custom_metrics.reading.spans import HALLUCINATION, Span, covered, span_of
from custom_metrics.reading.tagged_text import align, parse
from custom_metrics.reading.words import words
from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER
from custom_metrics.usage.printable import without_surrogates
from custom_metrics.usage.secrets import BLANK, blank_text
from lm_eval_tasks.detection.marked import LABELS, METRIC, wrong_label_rate
from lm_eval_tasks.results.formats import as_text
from lm_eval_tasks.runs import Answer, FilteredAnswer, TaskRun
from lm_eval_tasks.runs.run import number_of

QUESTION_LENGTH, PASSAGE_LENGTH, ANSWER_LENGTH, PAGE_LENGTH = 2_000, 4_000, 8_000, 12_000
"""The number of characters of a text that a page shows at most. The rest is counted."""

KINDS = {
    "differ": "annotators differ",
    "marked": "marked by annotators",
    "wrong": "wrong",
    "invalid": "Invalid",
    "abstained": "abstained",
    "disagree": "models disagree",
    "hallucinated": "most hallucinated",
}
"""Kinds of answers to filter by, with their titles."""

_ADDRESS = re.compile(r"https?://\w\S*", re.IGNORECASE)


class Piece(NamedTuple):
    """A piece of a text. `category` is the error that a detector or an annotator marked, empty without one; `marked` is
    whether people marked it in an answer of this run."""

    text: str
    category: str = ""
    marked: bool = False


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
    differs: float | None = None  # how far people differ: a share of its words, or of their labels; None: not marked
    model: str = ""  # its label in the report
    text: Text = Text()
    notes: tuple[str, ...] = ()  # sentences on how it was made and read; empty ones are not shown
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


def text_of(value: Any, limit: int, spans: Iterable[Span] = (), marked: Sequence[Span] = ()) -> Text:
    """A value as a text of at most `limit` characters, with spans, and those that people `marked`, as pieces. Of
    overlapping spans the first counts, then the longer. Spans that reach beyond the text or the limit are cut. Secrets are
    blanked."""
    text, moved = blank_text("" if value is None else str(value))
    if BLANK in text:
        spans, marked = ([s._replace(start=moved(s.start), end=moved(s.end)) for s in both] for both in (spans, marked))
    visible, flagged, position = text[:limit], [], 0
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        start, end = max(position, span.start), min(span.end, len(visible))
        if start < end:
            flagged.append(Span(start, end, span.category or HALLUCINATION))
            position = end
    edges = {edge for span in (*flagged, *marked) for edge in span[:2] if 0 < edge < len(visible)}
    pieces = [
        Piece(visible[start:end], _at(start, flagged), bool(_at(start, marked)))
        for start, end in pairwise((0, *sorted(edges), len(visible)))
    ]
    return Text(tuple(pieces), len(text) - len(visible))


def _at(place: int, spans: Iterable[Span]) -> str:
    """The category of the first span that holds a character; empty without one."""
    return next((span.category or HALLUCINATION for span in spans if span.start <= place < span.end), "")


def address_of(value: Any) -> str:
    """An address that is safe to link to: http or https with a host. Anything else (``javascript:``) becomes ``""``."""
    return value if isinstance(value, str) and len(value) <= 2000 and _ADDRESS.fullmatch(value) else ""


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


_MARKER = re.compile(r"^\[(\d{1,3})\] ", re.MULTILINE)
_BEHIND = re.compile(r"\n\n(?:OUTPUT:|Remember to read the contexts carefully\.)")
_REFERENCE = re.compile(r"\[Reference\]\n(?P<text>.*)\n\n\[Answer\]\n", re.DOTALL)  # of detection_prompt.jinja
_LOST = "Invalid: another text came back"
_UNREAD = FilteredAnswer(None, {})
_ABSTENTIONS = ("unanswerable_accuracy", "answerable_abstention_rate")  # 1 for an answer that abstains


class TaskReader:
    """Documents of any task, and models' answers to them. `filter` is the one whose reading counts; ``None`` for the first
    in the samples."""

    FACTS: tuple[str, ...] | None = None
    """Metrics whose values are shown below an answer, in this order; ``None`` for all of the task."""

    RIGHT = ""
    """What a right answer is, in a few words."""

    def __init__(self, task: TaskRun) -> None:
        self.task = task
        self.filter = task.headline_filter if task.filters else None
        self.language = task.language or "en"

    def judge(self, answer: Answer) -> ShownAnswer:
        """The verdict on an answer, without its text. Whether the answer is one of the most hallucinated depends on all
        answers, and is not included."""
        return ShownAnswer(str(self._reading(answer).answer))

    def judge_beside_people(self, answer: Answer) -> ShownAnswer:
        """The verdict on an answer, with what people said of it."""
        judged, says, differs = self.judge(answer), [], []
        if labels := self._by_people(answer, wrong_label_rate.name):
            shares = [labels["answers"], labels["declines"], 1 - labels["answers"] - labels["declines"]]
            says.append(LABELS[shares.index(max(shares))])
            differs.append(1 - dict(enumerate(shares)).get(labels["label"], 0))
        if marks := self._by_people(answer, METRIC):
            text, spans = self._tagged(answer)
            layers = [covered(words(text, self.language), spans_in(each)) for each in (spans, marks.get("spans"))]
            differing = [(flagged is None) != (marked is None) for flagged, marked in zip(*layers, strict=True)]
            says.append(f"{as_text(marks['marked'], 'share')} marked")
            differs.append(sum(differing) / max(1, len(differing)))
        if not says:
            return judged
        kinds = judged.kinds | _nonempty("marked", "differ" if max(differs) > 0 else "")
        verdict = f"{judged.verdict}; annotators: {', '.join(says)}"
        tone = "unsure" if labels and differs[0] >= 0.5 else judged.tone
        return judged._replace(verdict=verdict, tone=tone, kinds=kinds, differs=max(differs))

    def _by_people(self, answer: Answer, metric: str) -> Mapping[str, Any]:
        """What people said of an answer, as a rate by their marks has it; empty where it was not drawn, or nobody could
        judge it."""
        value = self._reading(answer).values.get(metric)
        if isinstance(value, Mapping) and value.get("times") and not {"marked", "answers"}.isdisjoint(value):
            return value
        return {}

    def lay_out(self, answers: Mapping[str, Answer]) -> Document:
        """A document with the answers of all models (label to answer)."""
        metrics = [metric.name for metric in self.task.metrics] if self.FACTS is None else self.FACTS
        shown_answers = []
        for model, answer in answers.items():
            values = ((metric, self._value(answer, metric)) for metric in metrics)
            facts = tuple((metric, f"{round(x, 2):.7g}") for metric, x in values if x is not None)
            shown = self._with_text(answer, self.judge_beside_people(answer))
            shown_answers.append(shown._replace(model=model, facts=facts))
        first = next(iter(answers.values()))
        doc, (passages, page) = first.doc, self._context(first)
        return Document(
            text_of(self._question(first), QUESTION_LENGTH),
            self._right(doc, passages),
            passages,
            self._references(first),
            page=text_of(page, PAGE_LENGTH) if page else None,
            page_title=str(doc.get("title") or ""),
            address=address_of(doc.get("url")),
            prompt=text_of(first.prompt, PAGE_LENGTH) if first.prompt and not passages and not page else None,
            language=self.language,
            key=first.key,
            answers=tuple(shown_answers),
        )

    def _question(self, answer: Answer) -> str:
        texts = (answer.doc.get(column) for column in ("question", "query", "prompt", "title"))
        return next((text for text in texts if text and isinstance(text, str)), answer.key)

    def _right(self, doc: Mapping[str, Any], passages: Sequence[Passage]) -> str:
        return self.RIGHT

    def _context(self, answer: Answer) -> tuple[tuple[Passage, ...], str]:
        """The passages of a document, and the text that answers are held against; the prompt has what it lacks."""
        doc, gold = answer.doc, members(answer.doc.get("gold_ids"), str)
        in_prompt = _REFERENCE.search(answer.prompt)
        page = doc.get("reference") or (in_prompt["text"] if in_prompt else "")
        if "passages" not in doc:
            return passages_of(answer.prompt, len(members(doc.get("docids"), str))) if "docids" in doc else (), page
        passages = []
        for number, passage in enumerate(members(doc["passages"], dict), 1):
            mark = "gold passage, retrieved" if passage.get("id") in gold else ""
            text = text_of(passage.get("text"), PASSAGE_LENGTH)
            passages.append(Passage(number, str(passage.get("title", "")), text, mark))
        return tuple(passages), page

    def _references(self, answer: Answer) -> tuple[Text, ...]:
        """Answers that people wrote, or an answer with the spans that people marked."""
        doc = answer.doc
        if "spans" in doc:
            return (text_of(doc.get("answer") or "", ANSWER_LENGTH, spans_in(doc["spans"])),)
        return tuple(text_of(text, ANSWER_LENGTH) for text in members(doc.get("answers"), str) if text)

    def _with_text(self, answer: Answer, judged: ShownAnswer) -> ShownAnswer:
        """The verdict of :meth:`judge`, with the text of the answer and its spans."""
        text, spans = self._tagged(answer)
        marked = spans_in(self._by_people(answer, METRIC).get("spans"))
        shown = answer.response if spans is None and not marked else text
        return judged._replace(text=text_of(shown, ANSWER_LENGTH, spans_in(spans), marked))

    def _tagged(self, answer: Answer) -> tuple[str, list[Any] | None]:
        return tagged_answer(self._reading(answer).answer, answer.response)

    def _reading(self, answer: Answer) -> FilteredAnswer:
        if self.filter is not None:
            return answer.readings.get(self.filter, _UNREAD)
        return next(iter(answer.readings.values()), _UNREAD)

    def _value(self, answer: Answer, metric: str) -> float | None:
        """A metric's value of an answer; ``None`` where the answer is not in its denominator."""
        value = number_of(self._reading(answer).values.get(metric))
        return None if math.isnan(value) else value


class OtherReader(TaskReader):
    """Documents of a task that is in no table of ours: by its first metric that is 1 or 0, right or wrong."""

    def __init__(self, task: TaskRun) -> None:
        super().__init__(task)
        self.filter, self.language = None, task.language

    def judge(self, answer: Answer) -> ShownAnswer:
        for metric in self.task.metrics:
            value = self._value(answer, metric.name)
            if value in (0.0, 1.0) and metric.higher_is_better is not None:
                is_right = (value == 1.0) == metric.higher_is_better
                verdict, tone = ("right", "good") if is_right else ("wrong", "bad")
                return ShownAnswer(verdict, f"{verdict} ({metric.name})", tone, _nonempty("" if is_right else "wrong"))
        return super().judge(answer) if self.task.config.get("output_type") == "generate_until" else ShownAnswer("")

    def _question(self, answer: Answer) -> str:
        return str(answer.doc.get("question") or answer.prompt.strip().rpartition("\n\n")[2] or self._target(answer))

    def _context(self, answer: Answer) -> tuple[tuple[Passage, ...], str]:
        return (), ""

    def _references(self, answer: Answer) -> tuple[Text, ...]:
        target = self._target(answer)
        return (text_of(target, ANSWER_LENGTH),) if target else ()

    @staticmethod
    def _target(answer: Answer) -> str:
        target, options = answer.target.strip(), answer.options
        is_number = len(options) > 1 and target.isdecimal() and int(target) < len(options)
        return options[int(target)][0].strip() if is_number else target

    def _with_text(self, answer: Answer, judged: ShownAnswer) -> ShownAnswer:
        config, options, response = self.task.config, answer.options, answer.response
        likely = "; ".join(f"{text.strip()} ({number:.2f})" for text, number in options)
        read, repeats = None if options else self._reading(answer).answer, config.get("repeats")
        notes = (
            f"Log-likelihoods of its options: {likely}." if len(options) > 1 else "",
            f"Read by {self.task.headline_filter}: {read}" if isinstance(read, str) and read != response else "",
            f"The first of {repeats} answers." if isinstance(repeats, int) and repeats > 1 else "",
        )
        is_number = str(config.get("output_type")).startswith("loglikelihood")  # of one text
        text = f"log-likelihood {likely or response}" if is_number else response.strip()
        return judged._replace(text=text_of(text, ANSWER_LENGTH), notes=notes)


class NomiraclReader(TaskReader):
    """Documents of NoMIRACL: ten passages, and whether they answer the question."""

    FACTS = ()

    def judge(self, answer: Answer) -> ShownAnswer:
        """``wrong`` is a hallucination or an error."""
        label, strict = str(self._reading(answer).answer or INVALID), answer.readings.get("strict")
        if label == INVALID:
            kind, verdict, tone = "invalid", "Invalid", "unsure"
        elif label == answer.doc.get("label"):
            kind, verdict, tone = "", f"right: {'answered' if label == ANSWER else 'abstained'}", "good"
        else:
            kind, verdict, tone = "wrong", "hallucination" if label == ANSWER else "error: abstained", "bad"
        if strict is not None and str(strict.answer) != label:
            verdict += f" (strict reading: {strict.answer})"
        return ShownAnswer(label, verdict, tone, _nonempty(kind, "abstained" if label == NO_ANSWER else ""))

    def _right(self, doc: Mapping[str, Any], passages: Sequence[Passage]) -> str:
        return f"{'A' if doc.get('subset') == 'relevant' else 'No'} passage answers the question"

    def _question(self, answer: Answer) -> str:
        """The question without the quotes that its file, which was made as CSV, has: ``"Who wrote ""Emma""?"``."""
        text = super()._question(answer)
        return text[1:-1].replace('""', '"') if re.fullmatch(r'".*"".*"', text, re.DOTALL) else text


class ClapnqReader(TaskReader):
    """Documents of CLAPnq: a question, the passages of the prompt, and answers that people wrote."""

    FACTS = ("rougeL", "recall", "rougeLp", "k_precision", "length", "hallucinated_share")

    def judge(self, answer: Answer) -> ShownAnswer:
        """The verdict is ``wrong`` for abstaining from an answerable question, and for answering an unanswerable one."""
        abstained = 1.0 in (self._value(answer, name) for name in _ABSTENTIONS)
        answerable, share = bool(answer.doc.get("answerable")), self._value(answer, "hallucinated_share")
        label, is_wrong = "abstained" if abstained else "answered", abstained == answerable
        plain = ("right: abstained", "good") if abstained else ("answered", "plain")
        verdict, tone = (f"wrong: {label}", "bad") if is_wrong else plain
        kinds = _nonempty("abstained" if abstained else "", "wrong" if is_wrong else "")
        return ShownAnswer(label, verdict, tone, kinds, share)

    def _right(self, doc: Mapping[str, Any], passages: Sequence[Passage]) -> str:
        right = "Can be answered" if doc.get("answerable") else "Cannot be answered from the passage"
        missed = doc.get("gold_ids") and not any(passage.mark for passage in passages)
        return f"{right}; the gold passage was not among those retrieved" if missed else right


class MfavaReader(TaskReader):
    """Documents of mFAVA and of logs: a question asked without its Wikipedia page, or with a text, and answers checked
    against that."""

    FACTS = ("response_words", "hallucinated_words", "repetition_rate", "expected_share")

    def judge(self, answer: Answer) -> ShownAnswer:
        """The label is whether the answer abstains, and how many quarters of its words are flagged."""
        shares = (self._value(answer, name) for name in ("detected_rate", "hallucinated_share"))
        share = next((share for share in shares if share is not None), None)
        if self._value(answer, "abstention_rate") == 1.0:
            return ShownAnswer("abstained", "abstained", kinds=_nonempty("abstained"), share=share)
        if share is None:
            return ShownAnswer("not read", "no detector has read it", "unsure")
        flagged, tone = ("nothing", "good") if share == 0 else (f"{as_text(share, 'share')} of the words", "bad")
        return ShownAnswer(str(math.ceil(4 * share)), f"{flagged} flagged", tone, share=share)

    def _right(self, doc: Mapping[str, Any], passages: Sequence[Passage]) -> str:
        return "Asked without the page" if self.task.benchmark == "mfava" else "Asked with this text"


class DetectionReader(TaskReader):
    """Documents of detection tasks: an annotated answer, and the same answer as a detector tagged it."""

    FACTS = ("iou", "rho", "f1")
    RIGHT = "The reference is the answer with the spans that its annotators marked"

    def judge(self, answer: Answer) -> ShownAnswer:
        """The label is whether the detector's agreement with the annotators is at least one half: else the answer is
        ``wrong``. It is ``invalid`` if another text came back."""
        if self._value(answer, "lost_rate") == 1.0:
            return ShownAnswer("lost", _LOST, "unsure", _nonempty("invalid"))
        values = (self._value(answer, name) for name in ("iou", "f1"))
        agreement = next((value for value in values if value is not None), None)
        if agreement is None:
            return ShownAnswer("", "agreement unknown")
        tone, kinds = ("good", _nonempty()) if agreement >= 0.5 else ("bad", _nonempty("wrong"))
        return ShownAnswer(str(agreement >= 0.5), f"agreement {agreement:.2f}", tone, kinds)

    def _with_text(self, answer: Answer, judged: ShownAnswer) -> ShownAnswer:
        original, read = str(answer.doc.get("answer") or ""), self._reading(answer).answer
        alignment = align(*parse(read if isinstance(read, str) else answer.response), original)
        if alignment.kind == "lost":
            return super()._with_text(answer, judged._replace(verdict=_LOST, tone="unsure"))
        return judged._replace(text=text_of(original, ANSWER_LENGTH, alignment.spans))


def _nonempty(*names: str) -> frozenset[str]:
    return frozenset(filter(None, names))


def reader_of(task: TaskRun) -> TaskReader:
    """The reader of a task's documents."""
    metrics = {metric.name for metric in task.metrics}
    readers = {
        OtherReader: task.table is None,
        NomiraclReader: task.benchmark == "nomiracl",
        ClapnqReader: task.benchmark == "clapnq" and "unanswerable_accuracy" in metrics,
        DetectionReader: {"f1", "lost_rate"} <= metrics,
        MfavaReader: task.benchmark in ("mfava", "logs"),
    }
    return next((reader for reader, fits in readers.items() if fits), TaskReader)(task)


@lru_cache(maxsize=512)
def passages_of(prompt: str, number: int) -> tuple[Passage, ...]:
    """The passages of a prompt, ``[1] title: text`` and so on; a passage may itself contain such a marker. `number` is how
    many the document has; 0 if that is not known."""
    markers: list[re.Match[str]] = []
    for marker in _MARKER.finditer(prompt):
        if int(marker[1]) == len(markers) + 1 <= (number or math.inf):
            markers.append(marker)
    passages, ends = [], [*(marker.start() for marker in markers[1:]), len(prompt)]
    for place, (marker, end) in enumerate(zip(markers, ends, strict=False), 1):
        text = prompt[marker.end() : end]
        if place == len(markers):
            text = _BEHIND.split(text, maxsplit=1)[0]
        title, colon, body = text.partition(": ")
        if not colon or "\n" in title or len(title) > 200:
            title, body = "", text
        passages.append(Passage(place, title, text_of(body.strip(), PASSAGE_LENGTH)))
    return tuple(passages)
