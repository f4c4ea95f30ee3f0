"""Questions of an earlier run, from its samples: what was asked, and which passages were given."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_tasks.clapnq.corpus import Passage
from lm_eval_tasks.clapnq.targets import target_of
from lm_eval_tasks.data import provenance
from lm_eval_tasks.data.samples import documents_of_samples, record_of_samples
from lm_eval_tasks.data.sources import CorruptSource

if TYPE_CHECKING:
    from datasets import Dataset

__all__ = ["logged_questions"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_COLUMNS = ("id", "question", "answerable", "answers", "passages")
_COLUMNS_OF_RETRIEVAL = ("gold_ids", "retrieved_ids", "gold_ranks", "retriever")


def logged_questions(samples: str, task: str, retrieval: bool, settings: Mapping[str, str]) -> Dataset:
    """The questions of a task's samples, with the passages that were given.

    Args:
        samples: a samples file, or the folder of one model's.
        task: whose.
        retrieval: whether its passages were retrieved; the columns that say so are then needed.
        settings: further columns, the same for every question.

    Returns:
        Documents with the columns of :func:`lm_eval_tasks.clapnq.dataset.load`, in the order of the samples.

    Raises:
        MissingSource, CorruptSource: there are none of this task, or damaged ones.
    """
    columns = (*_COLUMNS, *(_COLUMNS_OF_RETRIEVAL if retrieval else ()))
    found = documents_of_samples(Path(samples), task, columns)
    for doc in found:
        fault = _fault(doc)
        if fault:
            raise CorruptSource(f"{samples}: document {doc['id']!r} is no CLAPnq document: {fault}")
    log.info("%s: %d questions from %s", task, len(found), samples)
    rows = [_row(doc, columns) | dict(settings) for doc in found]
    retrieved = json.loads(found[0]["retriever"]) if retrieval else {}
    record = record_of_samples(Path(samples), task, retrieval=retrieved)
    return provenance.documents_of(rows, record)


def _row(doc: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    """A document with what its sample need not hold, in the order of :func:`lm_eval_tasks.clapnq.dataset.load`: the
    harness's digest of a document depends on it."""
    row: dict[str, Any] = {}
    for column in columns:
        row[column] = doc[column]
        if column == "answers":
            row["target"] = target_of(doc["answerable"], doc["answers"])
        elif column == "passages":
            passages = [Passage(**{key: passage[key] for key in Passage._fields}) for passage in doc["passages"]]
            row["groundings"] = [passage.grounding for passage in passages]
    return row


def _fault(doc: Mapping[str, Any]) -> str:
    """What of a logged document is not as :func:`lm_eval_tasks.clapnq.dataset.load` makes it; empty where nothing is."""
    if not isinstance(doc["answerable"], bool):
        return "answerable is neither true nor false"
    for column in ("id", "question", "retriever"):
        if not isinstance(doc.get(column, ""), str):
            return f"{column} is no text"
    for column in ("answers", "gold_ids", "retrieved_ids"):
        values = doc.get(column, [])
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            return f"{column} is no list of texts"
    try:
        json.loads(doc.get("retriever", "{}"))
    except (ValueError, RecursionError):
        return "retriever is no JSON"
    passages = doc["passages"]
    if not isinstance(passages, list) or not all(
        isinstance(passage, dict) and all(isinstance(passage.get(key), str) for key in Passage._fields)
        for passage in passages
    ):
        return "passages is no list of id, title and text"
    ranks = doc.get("gold_ranks", [])
    if not isinstance(ranks, list) or not all(type(rank) is int and 1 <= rank <= len(passages) for rank in ranks):
        return f"gold_ranks is no list of places among its {len(passages)} passages"
    return ""
