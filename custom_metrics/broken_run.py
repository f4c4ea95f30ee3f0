"""Signs of a broken run: a model that was prompted wrongly, or cut short, still gets numbers.

:func:`signs_of` counts the signs over the answers of a task. :func:`warning` names their usual causes where

- more than a fifth of the answers are Invalid (NoMIRACL), or no answer in any of the ways of
  :mod:`custom_metrics.reading.no_answer` (CLAPnq, mFAVA);
- more than a tenth are empty or loop;
- more than a third have another label under ``strict`` than under ``robust`` (NoMIRACL). Of the eleven models of the
  released answers, five are above that in some language;
- there are ten answers or more, and all are equal;
- more than a fifth are refusals by policy, or words that have nothing to do with question and passages.

Further warnings are about replies that do not have the form that the task wants, and about too few questions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from custom_metrics.reading.no_answer import is_refusal, is_word_salad, no_answer
from custom_metrics.reading.response import after_reasoning, final_answer
from custom_metrics.relevance import INVALID
from custom_metrics.statistics.figures import FEW
from custom_metrics.statistics.intervals import wilson

MOST_INVALID, MOST_EMPTY_OR_LOOPING, MOST_APART = 1 / 5, 1 / 10, 1 / 3
FEWEST_EQUAL = 10

# kind to a description of the answers; below, to the usual cause
_DESCRIPTIONS = {
    "unfinished": "in an unfinished thought",
    "empty": "empty",
    "failure": "the message of a service that failed",
    "loop": "in a loop",
    "prompt": "repeating the prompt or going on with it",
    "debris": "debris of a chat template",
    "markup": "markup alone",
    "code": "code alone",
    "salad": "of words that neither question nor passages hold",
    "refusal": "refusals by policy",
    "other": "asking back",
}
# What can be read as an answer, and is none that the passages led to. A run of these says so; its rates stay.
_NOTED = {
    "refusal": "are refusals by policy, not statements about the passages",
    "salad": "are of words that neither question nor passages hold",
}
_UNTUNED = "a model that is not tuned to follow instructions"
_TEMPLATE = f"a missing --apply_chat_template, or {_UNTUNED}"
_ROOM = "too few max_gen_toks, or a stop string that comes at once (--gen_kwargs)"
_REASONING = (
    "a thought that never ended: give it room (--gen_kwargs max_gen_toks=4096, and --model_args think_end_token=... of the "
    "model), or turn thinking off (enable_thinking=False)"
)
_SERVICE = "a service that was down or refused the requests: run it again"
_CAUSES = {"unfinished": _REASONING, "empty": _ROOM, "failure": _SERVICE}


class Prompting(NamedTuple):
    """How answers were made, as far as the run records it: decides which reasons are worth a hint."""

    model_prompted: bool = True  # whether this run prompted a model: no option mends stored answers
    chat_template: bool = False  # whether one was applied


PROMPTED = Prompting()  # a model was prompted here, without a chat template


class Labels(NamedTuple):
    """The two labels of an answer to a NoMIRACL question (:mod:`custom_metrics.relevance`)."""

    strict: str
    robust: str


class Answered(NamedTuple):
    """One answer with its question and passages, and its labels in a task that has them."""

    response: Any  # as the model wrote it
    question: str | None = None
    passages: tuple[str, ...] = ()  # as they stand in the prompt
    language: str | None = None  # ISO 639 code
    labels: Labels | None = None


def as_answered(doc: Mapping[str, Any], response: Any) -> Answered:
    """An answer with the fields of its document by which it is judged."""
    question = doc.get("query", doc.get("question"))
    given = doc.get("passages") or ()
    if any(isinstance(passage, Mapping) for passage in given):  # title and text, as CLAPnq's
        given = doc.get("groundings") or ()
    passages = tuple(passage for passage in given if isinstance(passage, str))
    return Answered(response, question if isinstance(question, str) else None, passages, doc.get("language"))


Sign = tuple[str | None, Labels | None]
"""In which way an answer is none (``None``: it is one), and its labels."""


class Signs(NamedTuple):
    """Counts over the answers of a task.

    `kinds` has those of :mod:`custom_metrics.reading.no_answer`, ``unfinished`` (a thought that never ended) and ``other``
    (Invalid for another reason). Apart from these are answers that can be read but are refusals by policy (`refusal`), or
    words that have nothing to do with question and passages (`salad`).
    """

    total: int
    kinds: Counter[str]
    invalid: int  # Invalid under `robust`, or no answer where there are no labels
    different: int  # how many different answers there are
    labelled: bool = False
    apart: int = 0  # how many, thoughts apart, have another label under `strict` than under `robust`
    refusal: int = 0
    salad: int = 0

    @property
    def are_equal(self) -> bool:
        """Whether all answers are equal, and too many for chance."""
        return self.total >= FEWEST_EQUAL and self.different == 1

    @property
    def is_invalid(self) -> bool:
        """Whether too many answers cannot be read."""
        return self.invalid > MOST_INVALID * self.total

    @property
    def unusable(self) -> Counter[str]:
        """Answers that are empty or loop, by kind; none where they are few."""
        counts = Counter({kind: self.kinds[kind] for kind in ("unfinished", "empty", "loop") if self.kinds[kind]})
        return counts if counts.total() > MOST_EMPTY_OR_LOOPING * self.total else Counter()


def signs_of(answers: Iterable[Answered]) -> Signs:
    """Count the signs of a broken run in the answers of a task. Either all answers have labels, or none has."""
    listed = [*answers]
    texts = {answer.response if isinstance(answer.response, str) else "" for answer in listed}
    return count(Counter((kind_of(answer), answer.labels) for answer in listed), len(texts))


def count(answers: Mapping[Sign, int], different: int) -> Signs:
    """Count the signs of answers: how many have each :class:`Sign`, and how many `different` ones there are."""
    kinds: Counter[str] = Counter()
    noted: Counter[str] = Counter()
    labelled = False
    invalid = apart = 0
    for (kind, labels), number in answers.items():
        is_invalid = kind is not None and kind not in _NOTED
        if labels is not None:
            labelled = True
            apart += number * (kind != "unfinished" and labels.strict != labels.robust)
            is_invalid = labels.robust == INVALID
            if is_invalid:
                kind = kind or "other"
            elif kind != "loop" and kind not in _NOTED:  # its verdict can be read
                kind = None
        invalid += number * is_invalid
        if kind in _NOTED and not is_invalid:
            noted[kind] += number
        elif kind:
            kinds[kind] += number
    return Signs(sum(answers.values()), kinds, invalid, different, labelled, apart, **noted)


def kind_of(answer: Answered) -> str | None:
    """The kind of a text that is no answer, a key of :attr:`Signs.kinds` or a field of :class:`Signs`; else ``None``."""
    final = final_answer(answer.response)
    if not final.strip():
        response = answer.response if isinstance(answer.response, str) else ""
        return "unfinished" if response.strip() and not after_reasoning(response).strip() else "empty"
    kind = no_answer(final, answer.question, answer.passages)
    if kind is None and answer.labels is None and is_repetitive(final, answer.language):
        return "loop"  # behind a beginning that is an answer
    if kind is None and is_refusal(final):
        return "refusal"
    if kind is None and is_word_salad(final, answer.question, answer.passages):
        return "salad"
    return kind


def warning(task: str, signs: Signs, prompting: Prompting = PROMPTED) -> str | None:
    """A warning about a run that looks broken, or whose answers are all equal, with likely reasons; else ``None``."""
    description = faults(signs, prompting, [f"all {signs.total} answers are equal"] if signs.are_equal else [])
    broken = "this run looks broken: " if signs.is_invalid or signs.unusable else ""
    return f"{task}: {broken}{description}." if description else None


def faults(signs: Signs, prompting: Prompting = PROMPTED, extra: Sequence[str] = ()) -> str:
    """What is wrong with a run, the `extra` facts, and the usual reasons that it does not rule out; or empty."""
    facts, of_all = [], f"of {signs.total} answers"
    kinds = signs.kinds if signs.is_invalid else signs.unusable
    listed = ", ".join(f"{number} {_DESCRIPTIONS[kind]}" for kind, number in kinds.most_common())
    if signs.is_invalid:
        facts.append(f"{signs.invalid} {of_all} are {'Invalid' if signs.labelled else 'no answers'} ({listed})")
    elif kinds:
        alike = f"{kinds.total()} {of_all} are {_DESCRIPTIONS[next(iter(kinds))]}"
        facts.append(alike if len(kinds) == 1 else f"{kinds.total()} {of_all} are empty or loop ({listed})")
    noted = ((getattr(signs, kind), description) for kind, description in _NOTED.items())
    facts += [f"{number} {of_all} {what}" for number, what in noted if number > MOST_INVALID * signs.total]
    causes = [_CAUSES.get(kind, _TEMPLATE) for kind, _ in kinds.most_common()]
    if signs.apart > MOST_APART * signs.total:
        facts.append(f"strict and robust differ on {signs.apart} {of_all}: they are not in the prompt's own words")
        causes.append(_TEMPLATE)
    if prompting.chat_template:
        causes = [_UNTUNED if cause == _TEMPLATE else cause for cause in causes]
    reasons = f". Usual reasons: {'; '.join(dict.fromkeys(causes))}" if causes and prompting.model_prompted else ""
    return "; ".join([*facts, *extra]) + reasons


# ---------------------------------------------------------------------------------------------- answers that run in circles

_LONGEST_PERIOD = 64  # words
_COPIES = 4
_LOOP_WORDS = 12
_SENTENCE = re.compile(r"[^.!?。！？।۔؟\n]+")
_SENTENCE_COPIES = 3
_SENTENCE_LETTERS = 20  # letters and digits: "Yes." may be said thrice


def is_repetitive(text: str, language: str | None = None) -> bool:
    """Whether an answer runs in circles, as one of ten in the mFAVA paper (appendix A.7): a run of up to 64 words is
    repeated four times or more (twelve words in all at the least), or one sentence (of twenty letters at the least) occurs
    three times. Case does not matter; the language decides what a word is (:mod:`custom_metrics.reading.words`)."""
    from custom_metrics.reading.words import words  # comparisons of labels read no words

    text = text.casefold()
    sentences = Counter("".join(filter(str.isalnum, sentence)) for sentence in _SENTENCE.findall(text))
    if any(count >= _SENTENCE_COPIES and len(s) >= _SENTENCE_LETTERS for s, count in sentences.items()):
        return True
    tokens = [text[start:end] for start, end in words(text, language)]
    if len(tokens) < _LOOP_WORDS:
        return False
    numbers = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    sequence = np.array([numbers[token] for token in tokens])
    for period in range(1, min(_LONGEST_PERIOD, len(sequence) // _COPIES) + 1):
        breaks = np.flatnonzero(sequence[period:] != sequence[:-period])
        longest = np.max(np.diff(breaks, prepend=-1, append=len(sequence) - period)) - 1
        if longest >= max((_COPIES - 1) * period, _LOOP_WORDS - period):
            return True
    return False


# ------------------------------------------------------------ replies in another form, and too few questions
# The figures are computed all the same. Each warning names those that are meaningless, the reason, and the remedy.

NOTEWORTHY = 0.2  # share of unusable replies of a task above which there is a warning
_ENOUGH_TOKENS = "max_gen_toks enough for its whole reply (reasoning included)"


def _how_to_run(prompting: Prompting) -> str:
    """Options with which a model can follow the prompt, as far as the run did not have them."""
    return f"with {_ENOUGH_TOKENS}" if prompting.chat_template else f"with --apply_chat_template, and {_ENOUGH_TOKENS}"


def unread_warning(verdict: str, replies: Sequence[str], prompting: Prompting = PROMPTED) -> str | None:
    """The warning for a judge with many filtered replies without a `verdict` (such as ``"rating"``), or ``None``."""
    from custom_metrics.scores.judging import UNREAD

    number = sum(reply == UNREAD for reply in replies)
    if number <= NOTEWORTHY * len(replies):
        return None
    rest = (
        "which leaves none to compute from"
        if number == len(replies)
        else f"and the figures are over the other {len(replies) - number}"
    )
    hint = f"; a judge has to follow instructions: run one {_how_to_run(prompting)}" if prompting.model_prompted else ""
    return f"{number} of {len(replies)} replies of the judge hold no {verdict}, {rest}{hint}"


def copy_warning(replies: Iterable[tuple[Mapping[str, Any], str]], prompting: Prompting = PROMPTED) -> str | None:
    """The warning for many replies, each after its document, that are not the given answer with tags, or ``None``."""
    from custom_metrics.reading.tagged_text import LOST, align, parse

    kinds = [align(*parse(reply), doc["answer"]).kind for doc, reply in replies]
    number = kinds.count(LOST)
    if number <= NOTEWORTHY * len(kinds):
        return None
    model = f", or a language model that gives the answer back: {_how_to_run(prompting)}"
    back = model if prompting.model_prompted else ""
    return (
        f"{number} of {len(kinds)} replies are not the given answer with tags, and count as wrong, so "
        f"the figures say nothing of a detector; this task wants a detector (--model hallucination-detector){back}"
    )


def few_warning(chosen: Sequence[Mapping[str, Any]], docs: Sequence[Mapping[str, Any]]) -> str | None:
    """The warning for a run over few documents (`chosen`) of all `docs`, or ``None``."""
    if not 0 < len(chosen) < min(FEW, len(docs)):
        return None
    high = wilson(0, len(chosen))[1]
    absent = sorted(_question_kinds(docs) - _question_kinds(chosen))
    without = f"; {' and '.join(absent)} are not among them, and the rates over those not defined" if absent else ""
    return (
        f"{len(chosen)} of {len(docs)} questions in this run: a rate of 0 over so few may be {high:.2f} (95 % bound)"
        f"{without}"
    )


def _question_kinds(docs: Iterable[Mapping[str, Any]]) -> set[str]:
    answerable = {True: "answerable questions", False: "unanswerable questions"}
    return {
        answerable[doc["answerable"]] if isinstance(doc.get("answerable"), bool) else f"{doc['subset']} questions"
        for doc in docs
        if isinstance(doc.get("answerable"), bool) or isinstance(doc.get("subset"), str)
    }
