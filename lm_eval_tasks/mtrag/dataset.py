"""Documents of MTRAG's ratings: RAG answers in conversations, with the ratings of two or three people each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from custom_metrics.abstention import is_abstention
from custom_metrics.usage.printable import quote
from lm_eval_tasks.data import sources
from lm_eval_tasks.data.tables import text_of
from lm_eval_tasks.definition import Documents, Options, Places, TaskLoader, documents
from lm_eval_tasks.detection.labelled_answers import TestSet
from lm_eval_tasks.mtrag import QUALITIES

REPOSITORY = "IBM/mt-rag-benchmark"
FILE = "mtrag-human/evaluations/reference_subset_with_human_evaluations.json"
REFERENCE, LANGUAGE = "reference", "en"
ANSWERS = {"models": "of two models", "all": "and the reference responses"}
NO_PASSAGES, REFERENCES = "answers left out, to turns without passages", "answers left out, reference responses"
SCORES = dict.fromkeys(("rl_f", "rb_llm", "rb_agg"), "composite")
SCORES |= dict.fromkeys(("Bert-KPrec", "Bert-Rec", "RougeL"), "system")
"""The scores of published judges among an answer's annotations, and under which key each stands."""


class RatedAnswer(NamedTuple):
    task: str
    model: str
    turns: list[tuple[str, str]]  # speaker and text; the last one is the question
    passages: list[str]
    answer: str
    ratings: dict[str, list[int]]  # by quality
    scores: dict[str, float]  # of published judges


def load(answers: str = "models", mirror: str | None = None, **ignored: Any) -> Documents:
    """Load the rated answers, for a detector: of two models (``"models"``), or with the reference responses (``"all"``).

    Returns:
        ``{"evaluation": documents}``. Columns: ``id`` (task/model), ``model`` (that answered), ``language`` (``en``),
        ``passage`` (the task, by which bounds are clustered), ``query`` (the last turn), ``reference`` (the passages, with
        blank lines between them), ``answer``, ``abstains`` (its faithfulness does not count), ``ratings`` (a list of each
        quality).
    """
    return _load("mtrag_ratings", answers, mirror, ignored, _answer)


def load_judge(answers: str = "models", mirror: str | None = None, **ignored: Any) -> Documents:
    """Load the rated answers, for a judge who rates two aspects of each; that of faithfulness only where it counts.

    Returns:
        ``{"evaluation": documents}``. Columns are those of :func:`load` without ``query`` and ``reference``, and ``aspect``
        and as quoted lines ``quoted``: ``question`` (all turns), ``passages`` (a list), ``answer``.
    """
    return _load("mtrag_ratings_judge", answers, mirror, ignored, _aspects)


def _files(options: Options) -> Places:
    return [(REPOSITORY, FILE)]


load_task = TaskLoader(load, _files, logged_elsewhere=("reference",))
load_judge_task = TaskLoader(load_judge, _files, logged_elsewhere=("quoted",))


def _load(
    task: str,
    answers: str,
    mirror: str | None,
    ignored: Mapping[str, Any],
    documents_of: Callable[[RatedAnswer, dict[str, Any]], Iterator[dict[str, Any]]],
) -> Documents:
    load_task.check(task, ignored, answers=(answers, ANSWERS))
    with sources.recording() as read:
        path = sources.locate(REPOSITORY, FILE, mirror)
    left_out: Counter[str] = Counter()
    rows = []
    for row in rated_answers(path):
        if answers == "models" and row.model == REFERENCE:
            left_out[REFERENCES] += 1
        elif not row.passages:
            left_out[NO_PASSAGES] += 1
        else:
            rows.append(row)
    faithful = [median(row.ratings[QUALITIES[0]]) for row in rows if not is_abstention(row.answer, LANGUAGE)]
    kept = {"answers": len(rows), "answers that abstain, not in faithfulness": len(rows) - len(faithful)}
    kept |= {f"faithfulness below {below}": sum(each < below for each in faithful) for below in (4, 3)}
    return documents(
        task,
        [document for row in rows for document in documents_of(row, _columns(row))],
        read,
        ", ".join(f"{name}: {number}" for name, number in kept.items()),
        left_out,
        not_comparable=["with the reference responses (answers=all)"] if answers == "all" else [],
        kept=kept,
        options={"answers": answers},
    )


def _columns(row: RatedAnswer) -> dict[str, Any]:
    return {
        "model": row.model,
        "language": LANGUAGE,
        "passage": row.task,
        "answer": row.answer,
        "abstains": is_abstention(row.answer, LANGUAGE),
        "ratings": row.ratings,
    }


def _answer(row: RatedAnswer, columns: dict[str, Any]) -> Iterator[dict[str, Any]]:
    told = {"query": row.turns[-1][1], "reference": "\n\n".join(row.passages)}
    yield {"id": f"{row.task}/{row.model}", **columns, **told}


def _aspects(row: RatedAnswer, columns: dict[str, Any]) -> Iterator[dict[str, Any]]:
    asked = "\n".join(f"{speaker}: {text}" for speaker, text in row.turns)
    quoted = {"question": quote(asked), "passages": [*map(quote, row.passages)], "answer": quote(row.answer)}
    for aspect in QUALITIES[:2]:
        if aspect != QUALITIES[0] or not columns["abstains"]:
            yield {"id": f"{row.task}/{row.model}/{aspect}", **columns, "aspect": aspect, "quoted": quoted}


def rated_answers(path: Path) -> Iterator[RatedAnswer]:
    """The answers of the public file, in its order. A CorruptSource where it is not JSON, or an answer lacks its turn,
    its passages or a rating."""
    try:
        content = json.loads(path.read_text("utf-8"))
        passages = {text_of(row, "document_id"): text_of(row, "text").strip() for row in content["documents"]}
        tasks = {text_of(row, "task_id"): row for row in content["tasks"]}
        for row in content["evaluations"]:
            yield _rated_answer(row, tasks[text_of(row, "task_id")], passages)
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise sources.CorruptSource(f"{path}: no rated answers of MTRAG: {error!r:.200}") from error


def _rated_answer(row: Mapping[str, Any], task: Mapping[str, Any], passages: Mapping[str, str]) -> RatedAnswer:
    turns = [(text_of(turn, "speaker"), text_of(turn, "text").strip()) for turn in task["input"]]
    told = [passages[text_of(context, "document_id")] for context in task["contexts"]]
    annotations = row["annotations"]
    ratings = {quality: [int(each["value"]) for each in annotations[quality].values()] for quality in QUALITIES}
    if not turns or not all(len(each) > 1 and {*each} <= {1, 2, 3, 4} for each in ratings.values()):
        raise ValueError(f"{row['task_id']}: {ratings}")
    scores = {name: float(annotations[name][how]["value"]) for name, how in SCORES.items()}
    answer, names = text_of(row, "model_response"), (text_of(row, "task_id"), text_of(row, "model_id"))
    return RatedAnswer(*names, turns, told, answer, ratings, scores)


# ------------------------------------------------------------------------------------------ the ratings in training data


def _texts(folder: Path | None) -> Iterator[tuple[str, str, str]]:
    path = sources.local_copy(sources.source_file(REPOSITORY, FILE), folder)
    with suppress(sources.CorruptSource, OSError):  # a damaged file
        for row in rated_answers(path) if path else ():
            told = "" if is_abstention(row.answer, LANGUAGE) else row.answer  # others decline in the same words
            yield row.turns[-1][1], (row.passages or [""])[0].partition("\n")[0], told


TEST_SET = TestSet(
    "lm_eval_tasks.mtrag",
    _texts,
    "of MTRAG's rated answers, or to its turns from their passages",
    "They measure detectors and judges; leave them out",
    calibrates=False,
)
