"""The gold passages of a question in the corpus."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from lm_eval_tasks.clapnq.corpus import Corpus
from lm_eval_tasks.data import sources
from lm_eval_tasks.data.tables import read_quoted_tsv

__all__ = ["gold_ids"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

QUESTIONS = "primeqa/clapnq"


def gold_ids(
    rows: Sequence[dict[str, Any]], split: str, corpus: Corpus, mirror: str | None, task: str
) -> dict[str, list[str]]:
    """Question id to the ids of its gold passages, from the public question file, else by the passage's exact text.

    Args:
        rows: documents with their gold passage.
        split: as the files name it: ``train`` or ``dev``.
        corpus: what is searched; gold passages that it lacks are left out, counted and said.
        mirror: folder with copies of the public files.
        task: for messages.
    """
    asked = [row for row in rows if row["answerable"]]
    try:
        path = sources.locate(QUESTIONS, f"retrieval/{split}/question_{split}_answerable.tsv", mirror)
    except sources.MissingSource as error:
        texts = {row["id"]: row["passages"][0]["text"].strip() for row in asked}
        by_text = corpus.ids_of_texts(list(texts.values()))
        gold = {id: [by_text[text]] for id, text in texts.items() if text in by_text}
        log.warning(
            "%s: the gold passages of %d of %d questions were found by their text, because %s",
            task,
            len(gold),
            len(asked),
            error,
        )
    else:
        known = set(corpus.ids)
        gold, unknown = {}, 0
        for row in read_quoted_tsv(path, ("id", "doc-id-list")):
            named = [id.strip() for id in row["doc-id-list"].replace("::", ",").split(",") if id.strip()]
            gold[row["id"]] = [id for id in named if id in known]
            unknown += len(named) - len(gold[row["id"]])
        if unknown:
            log.warning("%s: %d gold passages are not in the corpus", task, unknown)
        unasked = len(gold.keys() - {row["id"] for row in asked})
        if unasked:
            log.warning("%s: %d questions of %s are not among the answerable ones; is a file cut?", task, unasked, path)
    without = sum(not gold.get(row["id"]) for row in asked)
    if without:
        log.warning(
            "%s: %d answerable questions have no gold passage in the corpus; retrieval is not scored there",
            task,
            without,
        )
    return gold
