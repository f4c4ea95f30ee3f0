"""Does a run look broken? A model that was prompted wrongly, or cut short, still gets numbers. This module counts the
signs.

:func:`signs_of` counts them over the answers of a task. :func:`warning` says what they usually mean, where

- more than a fifth of the answers are Invalid (NoMIRACL), or no answer in any of the ways of
  :mod:`custom_metrics.no_answer` (CLAPnq, mFAVA);
- more than a tenth are empty or loop;
- more than a third have another label under ``strict`` than under ``robust`` (NoMIRACL). Of the eleven models of the
  released answers, five are above that in some language;
- there are ten answers or more, and all are equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

from custom_metrics.no_answer import no_answer
from custom_metrics.relevance import INVALID
from custom_metrics.repetition import is_repetitive
from custom_metrics.response import after_reasoning, final_answer

__all__ = ["Answered", "Labels", "Sign", "Signs", "count", "kind_of", "signs_of", "warning"]

MOST_INVALID, MOST_EMPTY_OR_LOOPING, MOST_APART = 1 / 5, 1 / 10, 1 / 3
FEWEST_EQUAL = 10

# kind to what is said of the answers, and what it usually comes from
_SAID = {
    "unfinished": "in a reasoning block that never ended",
    "empty": "empty",
    "loop": "in a loop",
    "prompt": "repeating the prompt or going on with it",
    "debris": "debris of a chat template",
    "markup": "markup alone",
    "code": "code alone",
    "noise": "noise",
    "script": "in a script that is not the question's",
    "other": "asking back",
}
_TEMPLATE = "a missing --apply_chat_template, or a model that is not tuned to follow instructions"
_ROOM = "too few max_gen_toks, or a stop string that comes at once (--gen_kwargs)"
_REASONING = "a reasoning block that never ended: give it room (--gen_kwargs max_gen_toks=4096)"
_CAUSES = {"unfinished": _REASONING, "empty": _ROOM}


class Labels(NamedTuple):
    """The two labels of an answer to a NoMIRACL question (:mod:`custom_metrics.relevance`)."""

    strict: str
    robust: str


class Answered(NamedTuple):
    """One answer with what it was asked.

    Attributes:
        response: as the model said it.
        question: of the document, ``None`` where it has none.
        passages: of the document, as they stand in the prompt.
        language: ISO 639 code.
        labels: what it was read as; ``None`` where answers are not read as labels.
    """

    response: Any
    question: str | None = None
    passages: tuple[str, ...] = ()
    language: str | None = None
    labels: Labels | None = None


class Signs(NamedTuple):
    """Counts over the answers of a task.

    Attributes:
        total: answers.
        kinds: how many are no answer, by kind: those of :mod:`custom_metrics.no_answer`, ``unfinished`` (a reasoning block
            that never ended) and ``other`` (Invalid for another reason).
        invalid: how many are Invalid under ``robust``, or no answer where there are no labels.
        different: how many different answers there are.
        labelled: whether the answers have labels.
        apart: how many have another label under ``strict`` than under ``robust``.
    """

    total: int
    kinds: Counter[str]
    invalid: int
    different: int
    labelled: bool = False
    apart: int = 0


class Sign(NamedTuple):
    """What of one answer is counted.

    Attributes:
        kind: in which way it is no answer; ``None`` where it is one.
        text: the answer, or a digest of it.
        labels: what it was read as; ``None`` where answers are not read as labels.
    """

    kind: str | None
    text: Hashable
    labels: Labels | None = None


def signs_of(answers: Iterable[Answered]) -> Signs:
    """Count the signs of a broken run in the answers of a task. Either all answers have labels, or none has."""
    return count(
        Sign(kind_of(answer), answer.response if isinstance(answer.response, str) else "", answer.labels)
        for answer in answers
    )


def count(answers: Iterable[Sign]) -> Signs:
    """As :func:`signs_of`, of answers that have been looked at one by one."""
    kinds: Counter[str] = Counter()
    texts: set[Hashable] = set()
    labelled = False
    total = invalid = apart = 0
    for kind, text, labels in answers:
        total += 1
        texts.add(text)
        if labels is not None:
            labelled = True
            apart += labels.strict != labels.robust
            invalid += labels.robust == INVALID
            if labels.robust == INVALID:
                kind = kind or "other"
            elif kind != "loop":  # its verdict can be read
                kind = None
        else:
            invalid += kind is not None
        if kind:
            kinds[kind] += 1
    return Signs(total, kinds, invalid, len(texts), labelled, apart)


def kind_of(answer: Answered) -> str | None:
    """In which way an answer is none: a kind of :attr:`Signs.kinds`; ``None`` where it is one."""
    final = final_answer(answer.response)
    if not final.strip():
        response = answer.response if isinstance(answer.response, str) else ""
        return "unfinished" if response.strip() and not after_reasoning(response).strip() else "empty"
    kind = no_answer(final, answer.question, answer.passages)
    if kind is None and answer.labels is None and is_repetitive(final, answer.language):
        return "loop"  # behind a beginning that is an answer
    return kind


def warning(task: str, signs: Signs) -> str | None:
    """One sentence or two about a run that looks broken, ``None`` where it does not."""
    total, kinds = signs.total, signs.kinds
    facts, causes = [], []
    void = kinds["empty"] + kinds["unfinished"]
    if total and signs.invalid > MOST_INVALID * total:
        called = "Invalid" if signs.labelled else "no answers"
        facts.append(f"{signs.invalid} of {total} answers are {called} ({_list(kinds)})")
        causes += [_CAUSES.get(kind, _TEMPLATE) for kind, _ in kinds.most_common()]
    elif total and void + kinds["loop"] > MOST_EMPTY_OR_LOOPING * total:
        some = Counter({kind: kinds[kind] for kind in ("unfinished", "empty", "loop") if kinds[kind]})
        facts.append(f"{void + kinds['loop']} of {total} answers are empty or loop ({_list(some)})")
        causes += [_CAUSES.get(kind, _TEMPLATE) for kind, _ in some.most_common()]
    broken = "this run looks broken: " if facts else ""
    if total and signs.apart > MOST_APART * total:
        facts.append(
            f"strict and robust differ on {signs.apart} of {total} answers: they are not in the prompt's own words"
        )
        causes.append(_TEMPLATE)
    if total >= FEWEST_EQUAL and signs.different == 1:
        facts.append(f"all {total} answers are equal")
    if not facts:
        return None
    reasons = f". Usual reasons: {'; '.join(dict.fromkeys(causes))}" if causes else ""
    return f"{task}: {broken}{'; '.join(facts)}{reasons}."


def _list(kinds: Counter[str]) -> str:
    return ", ".join(f"{count} {_SAID[kind]}" for kind, count in kinds.most_common())
