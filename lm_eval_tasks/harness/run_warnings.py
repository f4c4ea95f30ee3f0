"""Warnings about a run's outcome, one line of the log each: a model that does not fit the task, too few questions.

The figures are computed all the same. Each line says which of them mean nothing, why, and what to do.
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

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

FEW = 10
"""Number of questions below which a share says next to nothing: 0 of 9 may be 0.3."""

NOTEWORTHY = 0.2
"""Share of unusable replies of a task above which there is a warning."""

_VERDICT = {"judge_rating": "rating", "judge_preference": "preference"}  # filter: what it reads
_ROOM = "max_gen_toks enough for its whole reply (reasoning included)"


def warn_unreadable(
    task: str, filters: Sequence[Mapping[str, Any]], requests: Sequence[Any], prompting: Prompting = PROMPTED
) -> None:
    """Log one line where replies, in the filtered requests of this rank, are not what the task asked for."""
    for listed in filters:
        replies = [(request.doc, request.filtered_resps[listed["name"]]) for request in requests]
        steps = {step["function"] for step in listed["filter"]}
        line = None
        if verdicts := [verdict for name, verdict in _VERDICT.items() if name in steps]:
            line = unread(verdicts[0], [reply for _, reply in replies], prompting)
        elif replies and {"answer", "spans", "target"} <= replies[0][0].keys():
            line = not_copies(replies, prompting)
        if line:
            log.warning("%s: %s", task, line)


def _run_it(prompting: Prompting) -> str:
    """How a model is run so that it can follow the prompt, as far as the run did not do it."""
    return f"with {_ROOM}" if prompting.chat_template else f"with --apply_chat_template, and {_ROOM}"


def unread(verdict: str, replies: Sequence[str], prompting: Prompting = PROMPTED) -> str | None:
    """The warning for a judge whose replies mostly hold no verdict, ``"rating"`` or ``"preference"``; ``None`` where they
    hold one. `replies` are as the judge filters have read them."""
    number = sum(reply == UNREAD for reply in replies)
    if number <= NOTEWORTHY * len(replies):
        return None
    rest = (
        "which leaves none to compute from"
        if number == len(replies)
        else f"and the figures are over the other {len(replies) - number}"
    )
    hint = f"; a judge has to follow instructions: run one {_run_it(prompting)}" if prompting.model_prompted else ""
    return f"{number} of {len(replies)} replies of the judge hold no {verdict}, {rest}{hint}"


def not_copies(replies: Iterable[tuple[Mapping[str, Any], str]], prompting: Prompting = PROMPTED) -> str | None:
    """The warning for a detection task whose replies, beside their documents, are mostly not the given answer with tags;
    ``None`` where they are."""
    kinds = [align(*parse(reply), doc["answer"]).kind for doc, reply in replies]
    number = kinds.count("lost")
    if number <= NOTEWORTHY * len(kinds):
        return None
    back = f", or a language model that gives the answer back: {_run_it(prompting)}" if prompting.model_prompted else ""
    return (
        f"{number} of {len(kinds)} replies are not the given answer with tags, and count as if nothing were flagged, so "
        f"the figures say nothing of a detector; this task wants a detector (--model hallucination-detector){back}"
    )


def warn_few_questions(task: str, chosen: Sequence[Mapping[str, Any]], docs: Sequence[Mapping[str, Any]]) -> None:
    """Log one line where ``--limit`` or ``--samples`` chose next to nothing: the documents `chosen`, of all `docs`."""
    if not 0 < len(chosen) < min(FEW, len(docs)):
        return
    high = wilson(0, len(chosen))[1]
    absent = sorted(_kinds(docs) - _kinds(chosen))
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
    """Log one line where answers look like those of a broken run (:mod:`custom_metrics.broken_run`). Only answers that a
    filter reads as labels, and those in a model's own words (`generated`), are looked at."""
    labelling = {
        step.get("parser", "strict"): listed["name"]
        for listed in filters
        for step in listed["filter"]
        if step["function"] == "nomiracl_label"
    }
    if not labelling and not generated:
        return
    answers = [
        answered(request.doc, answer)._replace(labels=_labels(request, number, labelling) if labelling else None)
        for request in requests
        for number, answer in enumerate(request.resps)
    ]
    if said := warning(task, signs_of(answers), prompting):
        log.warning("%s", said)


_READERS = {"strict": lambda response, doc: nomiracl_label(response), "robust": label_of}


def _labels(request: Any, number: int, labelling: Mapping[str, str]) -> Labels:
    """The labels of a request's answer of this number; read anew only where no filter has left one."""
    found = {}
    for parser, read in _READERS.items():
        kept = request.filtered_resps[labelling[parser]] if parser in labelling else ()
        kept = [kept] if isinstance(kept, str) else kept  # `take_first` keeps one
        found[parser] = kept[number] if number < len(kept) else read(request.resps[number], request.doc)
    return Labels(**found)


def answered(doc: Mapping[str, Any], response: Any) -> Answered:
    """An answer with what of a document of ours tells whether it is one."""
    question = doc.get("query", doc.get("question"))
    given = doc.get("passages") or ()
    if any(isinstance(passage, Mapping) for passage in given):  # title and text, as CLAPnq's
        given = doc.get("groundings") or ()
    passages = tuple(passage for passage in given if isinstance(passage, str))
    return Answered(response, question if isinstance(question, str) else None, passages, doc.get("language"))


def _kinds(docs: Iterable[Mapping[str, Any]]) -> set[str]:
    """Kinds of questions that have rates of their own."""
    answerable = {True: "answerable questions", False: "unanswerable questions"}
    return {
        answerable[doc["answerable"]] if isinstance(doc.get("answerable"), bool) else f"{doc['subset']} questions"
        for doc in docs
        if isinstance(doc.get("answerable"), bool) or isinstance(doc.get("subset"), str)
    }
