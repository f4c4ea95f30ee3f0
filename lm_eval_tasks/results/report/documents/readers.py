"""Layouts of a task's documents and answers in a report, one class for each kind of task."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from custom_metrics.abstention.explained import explain
from custom_metrics.abstention.phrases import supported_language
from custom_metrics.reading.no_answer import no_answer
from custom_metrics.reading.response import final_answer
from custom_metrics.reading.tagged_text import align, parse
from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER
from lm_eval_tasks.results.formats import as_text
from lm_eval_tasks.results.report.documents.document import (
    ANSWER_LENGTH,
    PAGE_LENGTH,
    PASSAGE_LENGTH,
    QUESTION_LENGTH,
    Document,
    Passage,
    ShownAnswer,
    address_of,
    answer_and_spans,
    listed,
    spans_in,
    text_of,
)
from lm_eval_tasks.runs import Answer, FilteredAnswer, TaskRun

_MARKER = re.compile(r"^\[(\d{1,3})\] ", re.MULTILINE)
_BEHIND = re.compile(r"\n\n(?:OUTPUT:|Remember to read the contexts carefully\.)")
_REFERENCE = re.compile(r"\[Reference\]\n(?P<text>.*)\n\n\[Answer\]\n", re.DOTALL)  # of detection_prompt.jinja
_LOST = "Invalid: another text came back"


class TaskReader:
    """Documents of any task: prompt, answer, and numbers. `filter` is the one whose reading counts; ``None`` for the first
    in the samples."""

    FACTS: tuple[str, ...] | None = None
    """Metrics whose values are shown below an answer, in this order; ``None`` for all of the task."""

    def __init__(self, task: TaskRun) -> None:
        self.task = task
        self.filter: str | None = None

    @property
    def language(self) -> str:
        return self.task.language

    def judge(self, answer: Answer) -> ShownAnswer:
        """The verdict on an answer, without its text. Whether the answer is one of the most hallucinated depends on all
        answers, and is not included."""
        reading = self._reading(answer)
        return ShownAnswer(str(reading.answer) if reading is not None else "")

    def lay_out(self, answers: Mapping[str, Answer]) -> Document:
        """A document with the answers of all models (label to answer)."""
        metrics = [metric.name for metric in self.task.metrics] if self.FACTS is None else self.FACTS
        shown_answers = []
        for model, answer in answers.items():
            values = ((metric, self._value(answer, metric)) for metric in metrics)
            facts = tuple((metric, f"{round(x, 2):.7g}") for metric, x in values if x is not None)
            shown_answers.append(self._with_text(answer, self.judge(answer))._replace(model=model, facts=facts))
        first = next(iter(answers.values()))
        return self._document(first)._replace(
            task=self.task.task,
            benchmark=self.task.benchmark,
            language=self.language,
            key=first.key,
            answers=tuple(shown_answers),
        )

    def _document(self, answer: Answer) -> Document:
        doc = answer.doc
        question = next((doc[name] for name in ("question", "query") if isinstance(doc.get(name), str)), "")
        return Document(
            text_of(question or answer.key, QUESTION_LENGTH),
            prompt=text_of(answer.prompt, PAGE_LENGTH) if answer.prompt else None,
        )

    def _with_text(self, answer: Answer, judged: ShownAnswer) -> ShownAnswer:
        """The verdict of :meth:`judge`, with the text of the answer and the reasons for the label."""
        return judged._replace(text=text_of(answer.response, ANSWER_LENGTH))

    def _with_spans(self, answer: Answer, judged: ShownAnswer) -> ShownAnswer:
        """The same for an answer with tags, which may abstain."""
        reading = self._reading(answer)
        text, spans = answer_and_spans(reading.answer if reading is not None else None, answer.response)
        why = why_abstention(text, self.language) if "abstained" in judged.kinds else ""
        return judged._replace(text=text_of(text, ANSWER_LENGTH, spans), why=(why,))

    def _reading(self, answer: Answer) -> FilteredAnswer | None:
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


class OtherReader(TaskReader):
    """Documents of a task that is in no table of ours: by its first metric that is 1 or 0, right or wrong."""

    def judge(self, answer: Answer) -> ShownAnswer:
        for metric in self.task.metrics:
            value = self._value(answer, metric.name)
            if value in (0.0, 1.0) and metric.higher_is_better is not None:
                is_right = (value == 1.0) == metric.higher_is_better
                verdict, tone = ("right", "good") if is_right else ("wrong", "bad")
                return ShownAnswer(verdict, f"{verdict} ({metric.name})", tone, _nonempty("" if is_right else "wrong"))
        return super().judge(answer) if self.task.config.get("output_type") == "generate_until" else ShownAnswer("")

    def _document(self, answer: Answer) -> Document:
        target, options = answer.target.strip(), answer.options
        if len(options) > 1 and target.isdecimal() and int(target) < len(options):
            target = options[int(target)][0].strip()
        asked = answer.prompt.strip().rpartition("\n\n")[2] or target
        shown = super()._document(answer)
        question = shown.question if "question" in answer.doc else text_of(asked, QUESTION_LENGTH)
        return shown._replace(question=question, references=(text_of(target, ANSWER_LENGTH),) if target else ())

    def _with_text(self, answer: Answer, judged: ShownAnswer) -> ShownAnswer:
        reading, repeats, options = self._reading(answer), self.task.config.get("repeats"), answer.options
        likely = "; ".join(f"{text.strip()} ({number:.2f})" for text, number in options)
        read = reading.answer if reading is not None and not options else None
        why = (
            f"Log-likelihoods of its options: {likely}." if len(options) > 1 else "",
            f"Read by {self.task.headline_filter}: {read}" if isinstance(read, str) and read != answer.response else "",
            f"The first of {repeats} answers." if isinstance(repeats, int) and repeats > 1 else "",
        )
        is_number = str(self.task.config.get("output_type")).startswith("loglikelihood")  # of one text
        text = f"log-likelihood {likely or answer.response}" if is_number else answer.response.strip()
        return judged._replace(text=text_of(text, ANSWER_LENGTH), why=why)


class NomiraclReader(TaskReader):
    """Documents of NoMIRACL: ten passages, and whether they answer the question. The filter of the headlines counts."""

    FACTS = ()

    def __init__(self, task: TaskRun) -> None:
        super().__init__(task)
        self.filter = task.headline_filter

    def judge(self, answer: Answer) -> ShownAnswer:
        """``wrong`` is a hallucination or an error."""
        reading, strict = self._reading(answer), answer.readings.get("strict")
        label = str(reading.answer) if reading is not None else INVALID
        did, mistake = ("answered", "hallucination") if label == ANSWER else ("abstained", "error: abstained")
        if label == INVALID:
            kind, verdict, tone = "invalid", "Invalid", "unsure"
        elif label == answer.doc.get("label"):
            kind, verdict, tone = "", f"right: {did}", "good"
        else:
            kind, verdict, tone = "wrong", mistake, "bad"
        if strict is not None and str(strict.answer) != label:
            verdict += f" (strict reading: {strict.answer})"
        return ShownAnswer(label, verdict, tone, _nonempty(kind, "abstained" if label == NO_ANSWER else ""))

    def _document(self, answer: Answer) -> Document:
        doc = answer.doc
        relevant = doc.get("subset") == "relevant"
        return Document(
            text_of(str(doc.get("query", "")), QUESTION_LENGTH),
            "A passage answers the question" if relevant else "No passage answers the question",
            tuple(passages_of(answer.prompt, len(listed(doc.get("docids"), str)))),
            prompt=None if _MARKER.search(answer.prompt) else text_of(answer.prompt, PASSAGE_LENGTH),
        )

    def _with_text(self, answer: Answer, judged: ShownAnswer) -> ShownAnswer:
        labels = {name: str(reading.answer) for name, reading in answer.readings.items()}
        why = [why_strict(answer.response, labels["strict"])] if "strict" in labels else []
        if why and len({*labels.values()}) > 1:
            question = str(answer.doc.get("query", ""))
            why.append(why_robust(answer.response, judged.label, self.task.language, question))
        return super()._with_text(answer, judged)._replace(why=tuple(why))


class ClapnqReader(TaskReader):
    """Documents of CLAPnq: a question, the passages of the prompt, and answers that people wrote."""

    FACTS = ("rougeL", "recall", "rougeLp", "k_precision", "length", "hallucinated_share")
    language = "en"
    _with_text = TaskReader._with_spans

    def judge(self, answer: Answer) -> ShownAnswer:
        """The verdict is ``wrong`` for abstaining from an answerable question, and for answering an unanswerable one."""
        abstained = 1.0 in (
            self._value(answer, name) for name in ("unanswerable_accuracy", "answerable_abstention_rate")
        )
        answerable, share = bool(answer.doc.get("answerable")), self._value(answer, "hallucinated_share")
        if abstained:
            verdict, tone = ("wrong: abstained", "bad") if answerable else ("right: abstained", "good")
        else:
            verdict, tone = ("answered", "plain") if answerable else ("wrong: answered", "bad")
        kinds = _nonempty("abstained" if abstained else "", "wrong" if abstained == answerable else "")
        return ShownAnswer("abstained" if abstained else "answered", verdict, tone, kinds, share)

    def _document(self, answer: Answer) -> Document:
        doc, gold = answer.doc, listed(answer.doc.get("gold_ids"), str)
        passages = tuple(
            Passage(
                number,
                str(passage.get("title", "")),
                text_of(passage.get("text"), PASSAGE_LENGTH),
                "gold passage, retrieved" if gold and passage.get("id") in gold else "",
            )
            for number, passage in enumerate(listed(doc.get("passages"), dict), 1)
        )
        right = "Can be answered" if doc.get("answerable") else "Cannot be answered from the passage"
        if gold and not any(passage.mark for passage in passages):
            right += "; the gold passage was not among those retrieved"
        references = tuple(text_of(text, ANSWER_LENGTH) for text in listed(doc.get("answers"), str) if text)
        return Document(text_of(doc.get("question"), QUESTION_LENGTH), right, passages, references)


class MfavaReader(TaskReader):
    """Documents of mFAVA and of logs: a question asked without its Wikipedia page, or with a text, and answers checked
    against that."""

    FACTS = ("response_words", "hallucinated_words", "repetition_rate", "expected_share")
    _with_text = TaskReader._with_spans

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

    def _document(self, answer: Answer) -> Document:
        doc = answer.doc
        return Document(
            text_of(doc.get("query"), QUESTION_LENGTH),
            "Asked without the page" if self.task.benchmark == "mfava" else "Asked with this text",
            page=text_of(doc.get("reference"), PAGE_LENGTH),
            page_title=str(doc.get("title") or ""),
            address=address_of(doc.get("url")),
        )


class DetectionReader(TaskReader):
    """Documents of detection tasks: an annotated answer, and the same answer as a detector tagged it."""

    FACTS = ("iou", "rho", "f1")

    def judge(self, answer: Answer) -> ShownAnswer:
        """The label is whether the detector's agreement with the annotators is at least one half: else the answer is
        ``wrong``. It is ``invalid`` if another text came back."""
        if self._value(answer, "lost_rate") == 1.0:
            return ShownAnswer("lost", _LOST, "unsure", _nonempty("invalid"))
        overlap = self._value(answer, "iou")
        agreement = overlap if overlap is not None else self._value(answer, "f1")
        if agreement is None:
            return ShownAnswer("", "agreement unknown")
        is_good = agreement >= 0.5
        kinds = _nonempty("" if is_good else "wrong")
        return ShownAnswer(str(is_good), f"agreement {agreement:.2f}", "good" if is_good else "bad", kinds)

    def _document(self, answer: Answer) -> Document:
        doc = answer.doc
        in_prompt = _REFERENCE.search(answer.prompt)
        page = doc.get("reference") or (in_prompt["text"] if in_prompt else "")
        return Document(
            text_of(doc.get("query") or doc.get("prompt") or doc.get("title"), QUESTION_LENGTH),
            "The reference is the answer with the spans that its annotators marked",
            references=(text_of(doc.get("answer") or "", ANSWER_LENGTH, spans_in(doc.get("spans"))),),
            page=text_of(page, PAGE_LENGTH) if page else None,
            page_title=str(doc.get("title") or ""),
            address=address_of(doc.get("url")),
        )

    def _with_text(self, answer: Answer, judged: ShownAnswer) -> ShownAnswer:
        original, reading = str(answer.doc.get("answer") or ""), self._reading(answer)
        written = reading.answer if reading is not None and isinstance(reading.answer, str) else answer.response
        alignment = align(*parse(written), original)
        if alignment.kind == "lost":
            return super()._with_text(answer, judged._replace(verdict=_LOST, tone="unsure"))
        return judged._replace(text=text_of(original, ANSWER_LENGTH, alignment.spans))


def _nonempty(*names: str) -> frozenset[str]:
    """Those names that are not empty."""
    return frozenset(filter(None, names))


def reader_of(task: TaskRun) -> TaskReader:
    """The reader of a task's documents."""
    if task.table is None:
        return OtherReader(task)
    metrics = {metric.name for metric in task.metrics}
    if task.benchmark == "nomiracl":
        return NomiraclReader(task)
    if task.benchmark == "clapnq" and "unanswerable_accuracy" in metrics:
        return ClapnqReader(task)
    if {"f1", "lost_rate"} <= metrics:
        return DetectionReader(task)
    if task.benchmark in ("mfava", "logs"):
        return MfavaReader(task)
    return TaskReader(task)


def passages_of(prompt: str, number: int) -> list[Passage]:
    """The passages of a prompt, ``[1] title: text`` and so on; a passage may itself contain such a marker. `number` is how
    many the document has; 0 if that is not known."""
    markers: list[tuple[int, int]] = []  # where each begins and ends
    for marker in _MARKER.finditer(prompt):
        if int(marker[1]) == len(markers) + 1 and (not number or len(markers) < number):
            markers.append(marker.span())
    passages = []
    for index, (_, start) in enumerate(markers):
        end = markers[index + 1][0] if index + 1 < len(markers) else len(prompt)
        text = prompt[start:end]
        if index + 1 == len(markers) and (behind := _BEHIND.search(text)):
            text = text[: behind.start()]
        title, colon, body = text.partition(": ")
        if not colon or "\n" in title or len(title) > 200:
            title, body = "", text
        passages.append(Passage(index + 1, title, text_of(body.strip(), PASSAGE_LENGTH)))
    return passages


_NO_ANSWERS = {
    "empty": "it has no letter and no digit",
    "failure": "it is the message of a service that failed",
    "prompt": "it repeats the prompt",
    "loop": "it repeats itself",
    "markup": "it is markup without text",
    "code": "it is a program",
    "debris": "it is tokens of a chat template",
    "noise": "its characters make no words",
    "script": "it is in a script that neither question nor passages use",
}
_NUMBER = re.compile(r"\[\d+\]")
_LONGEST = 2000  # characters of an answer that is explained; phrases decide at its beginning


def why_strict(response: str, label: str) -> str:
    """The reason for the label of the released code's parser."""
    text = response.replace("\n", " ").replace("\t", " ").lower()
    phrases = [phrase for phrase in (ANSWER, NO_ANSWER) if phrase.lower() in text]
    if len(phrases) == 2:
        return "Strict reading: it holds both phrases of the prompt."
    if phrases:
        return f"Strict reading: it holds “{phrases[0]}”."
    for phrase in ("answer is present", "answer is not present"):
        if phrase in text:
            return f"Strict reading: it holds “{phrase}”."
    if label == INVALID:
        return "Strict reading: it holds neither phrase of the prompt."
    return "Strict reading: it is the number of a passage." if _NUMBER.search(text) else ""


def why_robust(response: str, label: str, language: str, question: str) -> str:
    """The reason for a robust label that differs from the strict one."""
    if label == NO_ANSWER:
        reasons = why_abstention(response, language)
        return f"Robust reading: it does not answer. {reasons}".strip()
    if label == INVALID:
        kind = no_answer(final_answer(response[:_LONGEST]), question)
        reason = _NO_ANSWERS.get(kind or "", "there is nothing to read")
        return f"Robust reading: Invalid, for {reason}."
    return "Robust reading: it answers, in other words than the prompt's."


def why_abstention(text: str, language: str) -> str:
    """The phrases that make an answer an abstention, in a sentence; empty where there are none."""
    table = language if language and supported_language(language) else None
    for explanation in explain(text[:_LONGEST], table):
        words = dict.fromkeys(match.text for sentence in explanation.sentences for match in sentence.matches)
        if explanation.abstains and words:
            return f"Phrases that decided: {', '.join(f'“{phrase}”' for phrase in [*words][:4])}."
    return ""
