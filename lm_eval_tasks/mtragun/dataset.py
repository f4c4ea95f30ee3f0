"""Documents of MTRAG-UN: a conversation, the passages for its last turn, and what kind of turn that is."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_tasks.data import provenance, sources
from lm_eval_tasks.data.tables import read_json_lines, text_of
from lm_eval_tasks.definition import metadata
from lm_eval_tasks.definition.loading import Options, Places, TaskLoader, in_turn
from lm_eval_tasks.mtragun import DOMAINS

if TYPE_CHECKING:
    from datasets import Dataset

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

REPOSITORY = "IBM/mt-rag-benchmark"
FILE = "mtragun-human/generation_tasks/reference.jsonl"
KINDS = ("answerable", "unanswerable", "underspecified", "partial")
ROLES = {"user": "user", "agent": "assistant"}
MOST_PASSAGES = 10
"""The paper sends "up to the first 10 relevant passages" (section 3.3); seven turns have more."""


def load(domain: str, mirror: str | None = None, **ignored: Any) -> dict[str, Dataset]:
    """Load the conversations of a domain.

    Args:
        domain: a key of :data:`DOMAINS`.

    Returns:
        ``{"evaluation": documents}``; the kinds of turns alternate, so that ``--limit`` sees all. Columns: ``id``,
        ``conversation_id``, ``passage`` (the conversation, by which bounds are clustered, where one has several turns in
        the task; else empty), ``domain``, ``kind`` (one of :data:`KINDS`), ``answerable`` (whether the kind is that),
        ``conversation`` (``role``, ``content`` of each turn, the question last), ``question``, ``passages`` (``id``,
        ``title``, ``text``), ``groundings`` (title, one space, text, of each), ``answers`` (the reference response),
        ``target`` (the same).
    """
    task = f"mtragun_{domain}"
    metadata.choice("domain", domain, DOMAINS, task)
    metadata.refuse_misspelt(ignored, load_task.user_options, task)
    counts: Counter[str] = Counter()
    with sources.recording() as read:
        path = sources.locate(REPOSITORY, FILE, mirror)
    rows = list(_conversations(path, domain, counts))
    if not rows:
        raise sources.CorruptSource(f"{path} has no conversation of the domain {DOMAINS[domain]}")
    several = len({row["conversation_id"] for row in rows}) < len(rows)
    rows = [{**row, "passage": row["conversation_id"] if several else ""} for row in rows]
    by_kind = [[row for row in rows if row["kind"] == kind] for kind in KINDS]
    kept = {kind: len(of_kind) for kind, of_kind in zip(KINDS, by_kind, strict=True)}
    log.info("%s: %s of %s", task, ", ".join(f"{number} {kind}" for kind, number in kept.items()), path)
    record = provenance.Record.from_files(read, kept=kept, left_out=counts, options={"domain": domain})
    return {"evaluation": provenance.documents_of(in_turn(by_kind), record)}


def _files(options: Options) -> Places:
    return [(REPOSITORY, FILE)]


load_task = TaskLoader(load, _files, of_task=("domain",), logged_elsewhere=("groundings", "target"))
"""The documents of a task, as the harness's ``custom_dataset``; see :func:`load`."""


def _conversations(path: Path, domain: str, counts: Counter[str]) -> Iterator[dict[str, Any]]:
    """The documents of a domain. What is left out is counted.

    Raises:
        CorruptSource: a line is no task of MTRAG-UN.
    """
    for number, row in read_json_lines(path, counts):
        try:
            if text_of(row, "Collection") == DOMAINS[domain]:
                yield {"domain": domain, **_document(row)}
                counts["passages left out, after the first ten"] += max(0, len(row["contexts"]) - MOST_PASSAGES)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise sources.CorruptSource(f"{path}, line {number}: no task of MTRAG-UN: {error!r}") from error


def _document(row: Mapping[str, Any]) -> dict[str, Any]:
    (label,) = row["answerability"]
    kind = str(label).lower()
    if kind not in KINDS:
        raise ValueError(f"unknown answerability {label!r}")
    turns = [{"role": ROLES[turn["speaker"]], "content": text_of(turn, "text").strip()} for turn in row["input"]]
    if turns[-1]["role"] != "user":
        raise ValueError("the last turn is not the user's")
    passages = []
    for context in row["contexts"][:MOST_PASSAGES]:
        # The text of a passage with a title begins with it, and is here without.
        title, text = str(context.get("title") or "").strip(), text_of(context, "text").strip()
        content = text.removeprefix(title).strip()
        passages.append({"id": text_of(context, "document_id"), "title": title, "text": content})
    target = text_of(row["targets"][0], "text").strip()
    return {
        "id": text_of(row, "task_id"),
        "conversation_id": text_of(row, "conversation_id"),
        "kind": kind,
        "answerable": kind == "answerable",
        "conversation": turns,
        "question": turns[-1]["content"],
        "passages": passages,
        "groundings": [f"{passage['title']} {passage['text']}".strip() for passage in passages],
        "answers": [target],
        "target": target,
    }
