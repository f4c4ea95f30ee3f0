"""CLAPnq documents: a question, the passages it is to be answered from, and gold answers (none where it cannot be).

Annotations and passages are read from the raw files of the public repositories.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from custom_metrics.grounding import CUTOFFS
from lm_eval_tasks import autoload, metadata, sources
from lm_eval_tasks.clapnq.corpus import Corpus, Passage
from lm_eval_tasks.clapnq.retrieval import RETRIEVERS, open_retriever
from lm_eval_tasks.tables import read_json_lines, read_quoted_tsv

if TYPE_CHECKING:
    from datasets import Dataset

__all__ = ["UNANSWERABLE", "load", "load_gold", "load_rag_bm25"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

autoload.register()  # the harness imports this module before it looks up a task's filters and aggregations

ANNOTATIONS = "PrimeQA/clapnq"
PASSAGES = "PrimeQA/clapnq_passages"
QUESTIONS = "primeqa/clapnq"
FILE_SPLIT = {"train": "train", "validation": "dev", "dev": "dev"}  # the harness's name, and the paper's
UNANSWERABLE = "unanswerable"
"""What the prompt asks for where the passages do not answer; the target of unanswerable questions."""


def load(
    retriever: str | None = None,
    split: str = "validation",
    top_k: int = 3,
    mirror: str | None = None,
    task: str = "clapnq",
    **ignored: Any,
) -> dict[str, Dataset]:
    """Load the questions of a split.

    Args:
        retriever: ``None`` for the gold passage, or a name in ``retrieval.RETRIEVERS``.
        split: ``"validation"`` (also ``"dev"``: the public dev set) or ``"train"``.
        top_k: with a retriever: how many passages the model is given.
        mirror: folder with copies of the public files, see :mod:`lm_eval_tasks.sources`.
        task: for messages.
        ignored: the model's arguments, which the harness passes as well.

    Returns:
        ``{"evaluation": documents}`` and the same under the split's name; answerable and unanswerable questions
        alternate, so that ``--limit`` sees both. Columns: ``id``, ``question``, ``answerable``, ``answers`` (gold, the
        empty ones dropped), ``target`` (the first of them, or ``"unanswerable"``), ``passages`` (``id``, ``title``,
        ``text`` in the order given to the model), ``groundings`` (title, one space, text, of each); with a retriever
        also ``gold_ids`` and ``retrieved_ids`` (the ten best).

    Raises:
        ValueError: an unknown split or retriever; `top_k` is no whole number or larger than the corpus.
        MissingSource, CorruptSource: a file is not to be had, or damaged.
    """
    metadata.choice("split", split, FILE_SPLIT, task)
    if retriever is not None:
        metadata.choice("retriever", retriever, RETRIEVERS, task)
    metadata.positive("top_k", top_k, task)
    metadata.warn_of_misspelt(ignored, ("split", "top_k", "mirror"), task)
    folder = sources.mirror_folder(mirror)
    given = f"top {top_k} of {retriever}" if retriever else "the gold passage"
    log.info("%s: split %s, %s, files from %s", task, split, given, folder or "the Hugging Face hub and GitHub")
    documents = _documents(retriever, split, top_k, str(folder) if folder else None, task)
    return {"evaluation": documents, split: documents}


def _of_task(name: str, retriever: str | None) -> Callable[..., dict[str, Dataset]]:
    """The loader of one task: its retriever is part of its name (the harness's request cache knows nothing else)."""

    def load_task(**kwargs: Any) -> dict[str, Dataset]:
        asked = kwargs.pop("retriever", retriever)
        if asked != retriever:
            raise ValueError(
                f"{name}: --metadata retriever={asked!r} does not fit: this task's passages come from "
                f"{retriever or 'the gold annotation'}. Every retriever has a task of its own: clapnq_rag (bm25); "
                f"known are {', '.join(sorted(RETRIEVERS))}."
            )
        return load(**{**kwargs, "task": name, "retriever": retriever})

    load_task.__name__ = f"load_{name}"
    load_task.__doc__ = f"The documents of ``{name}``, as the harness's ``custom_dataset``; see :func:`load`."
    return load_task


load_gold = _of_task("clapnq_gold", None)
load_rag_bm25 = _of_task("clapnq_rag", "bm25")


@lru_cache(maxsize=8)
def _documents(retriever: str | None, split: str, top_k: int, mirror: str | None, task: str) -> Dataset:
    from datasets import Dataset

    find = partial(_annotations, FILE_SPLIT[split], mirror)
    answerable, unanswerable = find("answerable"), find("unanswerable")
    rows = [row for pair in zip_longest(answerable, unanswerable) for row in pair if row is not None]
    if not rows:
        raise ValueError(f"{task}: no question in split {split!r}")
    log.info("%s: %d answerable and %d unanswerable questions of %s", task, len(answerable), len(unanswerable), split)
    if retriever is not None:
        _retrieve(rows, retriever, split, top_k, mirror, task)
    return Dataset.from_list(rows)


def _annotations(split: str, mirror: str | None, kind: str) -> list[dict[str, Any]]:
    path = sources.locate(ANNOTATIONS, f"clapnq_{split}_{kind}.jsonl", mirror)
    rows = []
    for number, record in read_json_lines(path):
        try:
            answers = [output["answer"].strip() for output in record["output"]]
            passages = [Passage("", passage["title"], passage["text"]) for passage in record["passages"]]
            row = _row(str(record["id"]), record["input"], kind == "answerable", answers) | _given(passages)
            if not passages or not all(isinstance(field, str) for passage in passages for field in passage):
                raise ValueError("no passage with title and text")
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise sources.CorruptSource(f"{path}, line {number}: not a CLAPnq annotation ({error!r})") from error
        rows.append(row)
    without = sum(kind == "answerable" and not row["answers"] for row in rows)
    if without:
        log.warning(
            "clapnq: %d answerable questions of %s have no answer to hold against; ROUGE skips them", without, path
        )
    return rows


def _row(id: str, question: str, answerable: bool, answers: Sequence[str]) -> dict[str, Any]:
    kept = [answer for answer in answers if answer]
    target = kept[0] if answerable and kept else UNANSWERABLE
    return {"id": id, "question": question, "answerable": answerable, "answers": kept, "target": target}


def _given(passages: Sequence[Passage]) -> dict[str, Any]:
    return {
        "passages": [passage._asdict() for passage in passages],
        "groundings": [passage.grounding for passage in passages],
    }


def _retrieve(rows: list[dict[str, Any]], name: str, split: str, top_k: int, mirror: str | None, task: str) -> None:
    """Replace the gold passages by retrieved ones; the gold ids stay beside them."""
    corpus = Corpus.open(sources.locate(PASSAGES, "passages.tsv", mirror))
    if top_k > len(corpus):
        raise ValueError(f"{task}: top_k={top_k} is larger than the corpus ({len(corpus)} passages)")
    gold = _gold_ids(rows, split, corpus, mirror, task)
    k = min(max(top_k, *CUTOFFS), len(corpus))
    ranked = open_retriever(name, corpus).search([row["question"] for row in rows], k)
    for row, found in zip(rows, ranked, strict=True):
        ids = [passage for passage, _ in found]
        row |= _given([corpus.passage(id) for id in ids[:top_k]])
        row |= {"gold_ids": gold.get(row["id"], []), "retrieved_ids": ids[: max(CUTOFFS)]}


def _gold_ids(
    rows: Sequence[dict[str, Any]], split: str, corpus: Corpus, mirror: str | None, task: str
) -> dict[str, list[str]]:
    """Question id to the ids of its gold passages, from the public question file, else by the passage's exact text."""
    asked = [row for row in rows if row["answerable"]]
    try:
        name = FILE_SPLIT[split]
        path = sources.locate(QUESTIONS, f"retrieval/{name}/question_{name}_answerable.tsv", mirror)
    except sources.MissingSource as error:
        by_text = corpus.ids_of_texts([row["passages"][0]["text"] for row in asked])
        gold = {row["id"]: [by_text[text]] for row in asked if (text := row["passages"][0]["text"].strip()) in by_text}
        log.warning("%s: the gold passages were found by their text, because %s", task, error)
    else:
        known = set(corpus.ids)
        gold, unknown = {}, 0
        for row in read_quoted_tsv(path, ("id", "doc-id-list")):
            named = [id.strip() for id in row["doc-id-list"].replace("::", ",").split(",") if id.strip()]
            gold[row["id"]] = [id for id in named if id in known]
            unknown += len(named) - len(gold[row["id"]])
        if unknown:
            log.warning("%s: %d gold passages are not in the corpus", task, unknown)
    without = sum(not gold.get(row["id"]) for row in asked)
    if without:
        log.warning(
            "%s: %d answerable questions have no gold passage in the corpus; retrieval is not scored there",
            task,
            without,
        )
    return gold
