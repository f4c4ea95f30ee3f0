"""Warnings about the outcome of a run: replies that do not have the form that the task wants, and too few questions.

The figures are computed all the same. Each names those that are meaningless, the reason, and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from custom_metrics.broken_run import PROMPTED, Prompting
from custom_metrics.reading.tagged_text import align, parse
from custom_metrics.scores.judging import UNREAD
from custom_metrics.statistics.intervals import wilson
from custom_metrics.statistics.units import FEW

NOTEWORTHY = 0.2
"""Share of unusable replies of a task above which there is a warning."""

_ENOUGH_TOKENS = "max_gen_toks enough for its whole reply (reasoning included)"


def _how_to_run(prompting: Prompting) -> str:
    """Options with which a model can follow the prompt, as far as the run did not have them."""
    return f"with {_ENOUGH_TOKENS}" if prompting.chat_template else f"with --apply_chat_template, and {_ENOUGH_TOKENS}"


def unread_warning(verdict: str, replies: Sequence[str], prompting: Prompting = PROMPTED) -> str | None:
    """The warning for a judge with many replies without a `verdict` (such as ``"rating"``), or ``None``.
    `replies` come from the judge's filters."""
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
    """The warning for a detection task with many replies, each after its document, that are not the given answer with tags,
    or ``None``."""
    kinds = [align(*parse(reply), doc["answer"]).kind for doc, reply in replies]
    number = kinds.count("lost")
    if number <= NOTEWORTHY * len(kinds):
        return None
    back = (
        f", or a language model that gives the answer back: {_how_to_run(prompting)}"
        if prompting.model_prompted
        else ""
    )
    return (
        f"{number} of {len(kinds)} replies are not the given answer with tags, and count as if nothing were flagged, so "
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
    """The kinds of questions, with separate rates, that occur among documents."""
    answerable = {True: "answerable questions", False: "unanswerable questions"}
    return {
        answerable[doc["answerable"]] if isinstance(doc.get("answerable"), bool) else f"{doc['subset']} questions"
        for doc in docs
        if isinstance(doc.get("answerable"), bool) or isinstance(doc.get("subset"), str)
    }
