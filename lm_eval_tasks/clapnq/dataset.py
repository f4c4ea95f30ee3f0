"""CLAPnq documents: a question, the passages to answer it from, and gold answers (none for unanswerable questions).

Annotations and passages are read from the raw files of the public repositories.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from custom_metrics.scores.grounding import CUTOFFS
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.clapnq import retrieval
from lm_eval_tasks.clapnq.corpus import Corpus, Passage, gold_ids
from lm_eval_tasks.clapnq.retrieval import OPTIONS, RETRIEVERS, Question, open_retriever
from lm_eval_tasks.data import provenance, sources
from lm_eval_tasks.data.samples import documents_of_samples
from lm_eval_tasks.data.tables import read_rows
from lm_eval_tasks.definition import OF_DETECTION, Documents, Options, Places, TaskLoader, in_turn, positive

if TYPE_CHECKING:
    from datasets import Dataset

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

ANNOTATIONS = "PrimeQA/clapnq"
PASSAGES, PASSAGES_FILE = "PrimeQA/clapnq_passages", "passages.tsv"
PAPER_PASSAGES = 178_891
UNANSWERABLE = "unanswerable"
"""The target of unanswerable questions: the word that the prompt asks for where the passages have no answer."""
FILE_SPLIT = {"train": "train", "validation": "dev", "dev": "dev"}  # the harness's name, and the paper's


def load(
    retriever: str | None = None,
    split: str = "validation",
    top_k: int = 3,
    mirror: str | None = None,
    name: str = "clapnq",
    detector: str | None = None,
    detector_args: Mapping[str, Any] | str | None = None,
    calibration: str | None = None,
    calibration_annotations: str | None = None,
    samples: str | None = None,
    **extra: Any,
) -> Documents:
    """Load the questions of a split.

    Args:
        retriever: ``None`` for the gold passage, or one of ``retrieval.names()``.
        split: ``"validation"`` (also ``"dev"``: the public dev set) or ``"train"``.
        top_k: with a retriever: number of passages in the prompt.
        name: of the task, for messages.
        detector, detector_args, calibration, calibration_annotations: of the detector that tags the answers, default none;
            see :func:`lm_eval_tasks.detection.calibrated.settings_of`. No calibration is used unless one is named.
        samples: a samples file (or a folder of them) of an earlier run: its documents, not those of the public files.
        extra: the options of ``retrieval.OPTIONS``; the model's arguments, which the harness passes as well, are ignored.

    Returns:
        ``{"evaluation": documents}`` and the same under the split's name; answerable and unanswerable questions
        alternate, so that ``--limit`` sees both. Columns: ``id``, ``question``, ``answerable``, ``answers`` (gold, the
        empty ones dropped), ``target`` (the first of them, or ``"unanswerable"``), ``passages`` (``id``, ``title``,
        ``text`` in the order given to the model), ``groundings`` (title, one space, text, of each); with a retriever
        also ``gold_ids``, ``retrieved_ids`` (the ten best), ``gold_ranks`` (ranks, from 1, of the gold passages among those
        given; empty where retrieval missed them) and ``retriever`` (its description, JSON); with a detector also
        ``detector``, ``detector_args``, ``calibration``, ``calibration_annotations`` and ``language``.
    """
    task = name
    options = {key: extra[key] for key in sorted(OPTIONS) if key in extra}
    for option, value in {"split": split, "mirror": mirror, "samples": samples, **options}.items():
        if isinstance(value, (list, dict)):
            raise UsageError(f"{task}: {option} takes one value, got {value!r}")
    known = {} if retriever is None else {"retriever": (retriever, retrieval.names())}
    load_task.check(task, extra, split=(split, FILE_SPLIT), **known)
    positive("top_k", top_k, task)
    settings: Mapping[str, str] = {}
    of_detector = (detector_args, calibration, calibration_annotations)
    if detector is not None:
        from lm_eval_tasks.clapnq import hallucination  # nothing of the detectors is imported without need

        settings = hallucination.columns(task, detector, *of_detector, extra)
    elif unused := [key for key, value in zip(OF_DETECTION[1:], of_detector, strict=True) if value is not None]:
        log.warning("%s: no detector is named, so these change nothing here: %s", task, ", ".join(unused))
    if samples is not None:
        return {"evaluation": logged_questions(samples, task, retriever is not None, settings)}
    folder = sources.mirror_folder(mirror)
    given = f"top {top_k} of {retriever}" if retriever else "the gold passage"
    documents = _documents(retriever, tuple(options.items()), split, top_k, folder, task)
    place = folder or "the Hugging Face hub and GitHub"
    log.info("%s: %d questions, split %s, %s, files from %s", task, len(documents), split, given, place)
    for column, value in settings.items():
        documents = documents.add_column(column, [value] * len(documents))
    return {"evaluation": documents, split: documents}


class _Loader(TaskLoader):
    """A loader that refuses other retrievers than its task's: the name is all that the harness's request cache knows."""

    def options(self, given: Options) -> dict[str, Any]:
        options = super().options(given)
        own, requested = given.get("task_retriever"), given.get("retriever")
        if "retriever" in given and requested != own:
            hint = (
                f" {requested} has none: `lm-eval-grounded retrieve --retriever {requested} -o FILE` writes its run, and "
                f'clapnq_rag_run reads it with --metadata \'{{"run": "FILE"}}\'.'
                if requested not in RETRIEVERS and requested in retrieval.names()
                else ""
            )
            raise UsageError(
                f"{options.get('name', 'clapnq')}: the retriever {requested!r} (--metadata) does not fit: this task's "
                f"passages come from {own or 'the gold annotation'}. Every retriever has a task of its own: "
                f"clapnq_rag (bm25), {', '.join(f'clapnq_rag_{name}' for name in RETRIEVERS if name != 'bm25')}.{hint}"
            )
        return options


def _files(options: Options) -> Places:
    split = FILE_SPLIT[options.get("split", "validation")]
    kinds = ("answerable", "unanswerable")
    places = [(ANNOTATIONS, f"clapnq_{split}_{kind}.jsonl") for kind in kinds]
    if options.get("retriever"):
        places.append((PASSAGES, PASSAGES_FILE))
    if options.get("num_fewshot"):
        places += [(ANNOTATIONS, f"clapnq_train_{kind}.jsonl") for kind in kinds]
    return list(dict.fromkeys(places))


load_task = _Loader(
    load,
    _files,
    of_task=("name", "retriever"),
    more=OPTIONS,
    logged_elsewhere=("groundings", "target"),  # made of the passages and the answers
)


def questions_by_kind(split: str, mirror: str | Path | None) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The answerable and the unanswerable questions of a split with their gold passages, in file order."""
    read_kind = partial(_read_annotations, FILE_SPLIT[split], mirror)
    return read_kind("answerable"), read_kind("unanswerable")


@lru_cache(maxsize=8)
def _documents(
    retriever: str | None, options: tuple[tuple[str, Any], ...], split: str, top_k: int, mirror: Path | None, task: str
) -> Dataset:
    fields: dict[str, Any] = {"split": "train" if split == "train" else "validation", "options": {"split": split}}
    explanations = {}
    with sources.recording() as located_files:
        rows = in_turn(questions_by_kind(split, mirror))
        if retriever is not None:
            fields["options"] |= {"retriever": retriever, "top_k": top_k, **dict(options)}
            description, passages = _retrieve(rows, retriever, dict(options), split, top_k, mirror, task)
            fields |= {"retrieval": description, "corpus": {"passages": passages, "published": PAPER_PASSAGES}}
            if retriever == "run":
                run = Path(str(dict(options)["run"])).expanduser()
                fields["local_files"] = [provenance.local_file("run", run)]
            if passages != PAPER_PASSAGES:
                explanations[PASSAGES_FILE] = f"the corpus holds {passages:,} of {PAPER_PASSAGES:,} passages"
    answerable = sum(row["answerable"] for row in rows)
    record = provenance.Record.from_files(
        located_files,
        explanations=explanations,
        not_comparable=[] if FILE_SPLIT[split] == "dev" else [f"split {split}, where the paper has dev"],
        kept={"answerable": answerable, "unanswerable": len(rows) - answerable},
        **fields,
    )
    return provenance.documents_of(rows, record)


def _read_annotations(split: str, mirror: str | Path | None, kind: str) -> list[dict[str, Any]]:
    path = sources.locate(ANNOTATIONS, f"clapnq_{split}_{kind}.jsonl", mirror)
    rows = list(read_rows(path, partial(_annotated, answerable=kind == "answerable"), "not a CLAPnq annotation"))
    if not rows:
        raise sources.CorruptSource(f"{path} holds no question; delete it and fetch it again")
    return rows


def _annotated(record: Mapping[str, Any], answerable: bool) -> dict[str, Any]:
    answers = [answer for output in record["output"] if (answer := output["answer"].strip())]
    passages = [Passage("", passage["title"], passage["text"]) for passage in record["passages"]]
    if not passages or not all(isinstance(field, str) for passage in passages for field in passage):
        raise ValueError("no passage with title and text")
    return {
        "id": str(record["id"]),
        "question": record["input"],
        "answerable": answerable,
        "answers": answers,
        "target": _target_of(answerable, answers),
        **_passage_columns(passages),
    }


def _target_of(answerable: bool, answers: Sequence[str]) -> str:
    """The first gold answer; ``"unanswerable"`` for an unanswerable question, and for one without an answer."""
    return answers[0] if answerable and answers else UNANSWERABLE


def _passage_columns(passages: Sequence[Passage]) -> dict[str, Any]:
    return {
        "passages": [passage._asdict() for passage in passages],
        "groundings": [passage.grounding for passage in passages],
    }


def _retrieve(
    rows: list[dict[str, Any]],
    name: str,
    options: dict[str, Any],
    split: str,
    top_k: int,
    mirror: Path | None,
    task: str,
) -> tuple[dict[str, Any], int]:
    """Replace the gold passages by retrieved ones, and add columns; returns the retriever's description, corpus' size."""
    corpus = open_corpus(mirror)
    if top_k > len(corpus):
        raise UsageError(f"{task}: top_k={top_k} is larger than the corpus ({len(corpus)} passages)")
    gold = gold_ids(rows, FILE_SPLIT[split], corpus, mirror, task)
    k = min(max(top_k, *CUTOFFS), len(corpus))
    retriever = open_retriever(name, corpus, options)
    rankings = retriever.search([Question(row["id"], row["question"]) for row in rows], k)
    short = {"questions_with_fewer_passages": sum(len(ranking) < top_k for ranking in rankings)}
    description = {**retriever.describe(), "passages_given": top_k, **short}
    description_text = json.dumps(description, ensure_ascii=False)
    for row, ranking in zip(rows, rankings, strict=True):
        ids = [passage for passage, _ in ranking]
        wanted = gold.get(row["id"], []) if row["answerable"] else []
        row |= _passage_columns([corpus.passage(id) for id in ids[:top_k]])
        row |= {
            "gold_ids": wanted,
            "retrieved_ids": ids[: max(CUTOFFS)],
            "gold_ranks": [rank for rank, id in enumerate(ids[:top_k], 1) if id in wanted],
            "retriever": description_text,
        }
    return description, len(corpus)


def open_corpus(mirror: str | Path | None) -> Corpus:
    return Corpus.open(sources.locate(PASSAGES, PASSAGES_FILE, mirror))


# ------------------------------------------------------------------------------------------------ questions of samples

_COLUMNS = ("id", "question", "answerable", "answers")
_COLUMNS_OF_RETRIEVAL = ("gold_ids", "retrieved_ids", "gold_ranks", "retriever")


def logged_questions(samples: str, task: str, retrieval: bool, settings: Mapping[str, str]) -> Dataset:
    """The questions of a task's samples (a file, or the folder of one model), with the passages of their prompts.
    Columns are those of :func:`load`, if `retrieval` with those of a retriever, and `settings`. A MissingSource or
    CorruptSource where there are no samples of this task, or they are damaged."""
    of_retrieval = _COLUMNS_OF_RETRIEVAL if retrieval else ()
    logged, record = documents_of_samples(Path(samples), task, (*_COLUMNS, "passages", *of_retrieval))
    try:
        rows = [_logged(doc, of_retrieval, settings) for doc in logged]
        retrieved = json.loads(logged[0]["retriever"]) if retrieval else {}
        documents = provenance.documents_of(rows, replace(record, retrieval=retrieved))
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise sources.CorruptSource(f"{samples}: a document of {task} is damaged: {error!r:.200}") from error
    log.info("%s: %d questions from %s", task, len(documents), samples)
    return documents


def _logged(doc: Mapping[str, Any], of_retrieval: Sequence[str], settings: Mapping[str, str]) -> dict[str, Any]:
    passages = [Passage(**passage).grounding for passage in doc["passages"]]
    row = {column: doc[column] for column in _COLUMNS} | {"target": _target_of(doc["answerable"], doc["answers"])}
    row |= {"passages": doc["passages"], "groundings": passages}
    # In the order of `load`: the harness's digest of a document depends on it.
    return row | {column: doc[column] for column in of_retrieval} | dict(settings)
