"""Warnings about a run, one log line each: a model that does not fit the task, too few questions.

The figures are computed all the same. Each line names those that are meaningless, the reason, and the remedy.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from custom_metrics.broken_run import PROMPTED, Answered, Labels, Prompting, signs_of, warning
from custom_metrics.harness.filters import label_of
from custom_metrics.reading.tagged_text import align, parse
from custom_metrics.relevance import nomiracl_label
from custom_metrics.scores.judging import UNREAD
from custom_metrics.statistics.intervals import wilson
from lm_eval_tasks.harness import filtered

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

FEW = 10
"""Number of questions below which a share is almost meaningless: the 95 % bound of 0 of 9 is 0.3."""

NOTEWORTHY = 0.2
"""Share of unusable replies of a task above which there is a warning."""

_VERDICT = {
    "judge_rating": "rating",
    "judge_preference": "preference",
    "judge_support": "verdict",
}  # filter to what is read
_ENOUGH_TOKENS = "max_gen_toks enough for its whole reply (reasoning included)"


def warn_unreadable(
    task: str, filters: Sequence[Mapping[str, Any]], requests: Sequence[Any], prompting: Prompting = PROMPTED
) -> None:
    """Log one line where many replies, in the filtered requests of this rank, do not have the form that the task wants."""
    for listed in filters:
        replies = [(request.doc, filtered(request, listed["name"])) for request in requests]
        steps = {step["function"] for step in listed["filter"]}
        line = None
        if verdicts := [verdict for name, verdict in _VERDICT.items() if name in steps]:
            line = unread_warning(verdicts[0], [reply for _, reply in replies], prompting)
        elif replies and {"answer", "spans", "target"} <= replies[0][0].keys():
            line = copy_warning(replies, prompting)
        if line:
            log.warning("%s: %s", task, line)


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


def warn_few_questions(task: str, chosen: Sequence[Mapping[str, Any]], docs: Sequence[Mapping[str, Any]]) -> None:
    """Log one line where ``--limit`` or ``--samples`` left few documents (`chosen`) of all `docs`."""
    if not 0 < len(chosen) < min(FEW, len(docs)):
        return
    high = wilson(0, len(chosen))[1]
    absent = sorted(_question_kinds(docs) - _question_kinds(chosen))
    without = f"; {' and '.join(absent)} are not among them, and the rates over those not defined" if absent else ""
    log.warning(
        "%s: %d of %d questions in this run: a rate of 0 over so few may be %.2f (95 %% bound)%s",
        *(task, len(chosen), len(docs), high, without),
    )


def warn_broken(
    task: str,
    filters: Sequence[Mapping[str, Any]],
    requests: Sequence[Any],
    generated: bool,
    prompting: Prompting = PROMPTED,
) -> None:
    """Log one line where answers look like those of a broken run (:mod:`custom_metrics.broken_run`). Only tasks with labels
    and tasks with free text (`generated`) are checked."""
    labelling = {
        step.get("parser", "strict"): listed["name"]
        for listed in filters
        for step in listed["filter"]
        if step["function"] == "nomiracl_label"
    }
    if not labelling and not generated:
        return
    answers = [
        as_answered(request.doc, answer)._replace(labels=_labels(request, number, labelling) if labelling else None)
        for request in requests
        for number, answer in enumerate(request.resps)
    ]
    if line := warning(task, signs_of(answers), prompting):
        log.warning("%s", line)


_READERS = {"strict": lambda response, doc: nomiracl_label(response), "robust": label_of}


def _labels(request: Any, number: int, labelling: Mapping[str, str]) -> Labels:
    """The labels of a request's answer with this number, by parser; parsed again only where no filter has done it."""
    by_parser = {}
    for parser, reader in _READERS.items():
        labels = request.filtered_resps[labelling[parser]] if parser in labelling else ()
        labels = [labels] if isinstance(labels, str) else labels  # `take_first` keeps one
        by_parser[parser] = labels[number] if number < len(labels) else reader(request.resps[number], request.doc)
    return Labels(**by_parser)


def as_answered(doc: Mapping[str, Any], response: Any) -> Answered:
    """An answer with the fields of its document by which :mod:`custom_metrics.broken_run` judges it."""
    question = doc.get("query", doc.get("question"))
    given = doc.get("passages") or ()
    if any(isinstance(passage, Mapping) for passage in given):  # title and text, as CLAPnq's
        given = doc.get("groundings") or ()
    passages = tuple(passage for passage in given if isinstance(passage, str))
    return Answered(response, question if isinstance(question, str) else None, passages, doc.get("language"))


def _question_kinds(docs: Iterable[Mapping[str, Any]]) -> set[str]:
    """The kinds of questions, with separate rates, that occur among documents."""
    answerable = {True: "answerable questions", False: "unanswerable questions"}
    return {
        answerable[doc["answerable"]] if isinstance(doc.get("answerable"), bool) else f"{doc['subset']} questions"
        for doc in docs
        if isinstance(doc.get("answerable"), bool) or isinstance(doc.get("subset"), str)
    }
