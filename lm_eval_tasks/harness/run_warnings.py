"""Warnings about a run, one log line each, in the words of :mod:`custom_metrics.broken_run`."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from custom_metrics import broken_run
from custom_metrics.broken_run import PROMPTED, Labels, Prompting, as_answered, signs_of
from custom_metrics.filters import label_of
from custom_metrics.relevance import nomiracl_label
from lm_eval_tasks.harness import filtered

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

# Filter to what it reads.
_VERDICT = {"judge_rating": "rating", "judge_preference": "preference", "judge_support": "verdict"}


def warn_unreadable(
    task: str, filters: Sequence[Mapping[str, Any]], requests: Sequence[Any], prompting: Prompting = PROMPTED
) -> None:
    """Log one line where many replies, in the filtered requests of this rank, do not have the form that the task wants."""
    for listed in filters:
        replies = [(request.doc, filtered(request, listed["name"])) for request in requests]
        steps = {step["function"] for step in listed["filter"]}
        line = None
        if verdicts := [verdict for name, verdict in _VERDICT.items() if name in steps]:
            line = broken_run.unread_warning(verdicts[0], [reply for _, reply in replies], prompting)
        elif replies and {"answer", "spans", "target"} <= replies[0][0].keys():
            line = broken_run.copy_warning(replies, prompting)
        if line:
            log.warning("%s: %s", task, line)


def warn_few_questions(task: str, chosen: Sequence[Mapping[str, Any]], docs: Sequence[Mapping[str, Any]]) -> None:
    """Log one line where ``--limit`` or ``--samples`` left few documents (`chosen`) of all `docs`."""
    if line := broken_run.few_warning(chosen, docs):
        log.warning("%s: %s", task, line)


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
    if line := broken_run.warning(task, signs_of(answers), prompting):
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
