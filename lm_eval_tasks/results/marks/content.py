"""The content of a page for annotators: the drawn answers as lines of a marks file, which the annotators complete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION, span_of
from detector_plugin.detector import RAG
from detector_plugin.labelled import REAL
from lm_eval_tasks.results.marks.draw import Draw, TaskAnswers, reference_of
from lm_eval_tasks.results.report.documents.document import tagged_answer
from lm_eval_tasks.results.report.page import direction
from lm_eval_tasks.runs import Answer

_NAMES = {  # what there is to do, and how the saved file's name begins
    "spans": ("answers to mark", "marks"),
    "ratings": ("answers to rate", "ratings"),
    "preferences": ("pairs to compare", "preferences"),
}


def page_content(
    runs: Sequence[TaskAnswers],
    drawn: Draw,
    kind: str = "spans",
    categories: bool = False,
    suggest: bool = False,
    instructions: str = "",
) -> dict[str, Any]:
    """The content of a page to mark on, or of a project of Label Studio.

    Args:
        runs: of one task, from which answers were drawn.
        kind: one of :data:`lm_eval_tasks.results.marks.draw.KINDS`; preferences are of two runs.
        categories: whether parts are marked with mFAVA's categories.
        suggest: whether the detector's spans are shown first.
        instructions: Markdown; empty for ours.
    """
    items = list(_items(runs, drawn, kind, suggest, categories))
    for item in items[:1]:  # on every line the order would make files grow by the square of the draws
        item["line"]["draw"]["order"] = [*drawn.order]
    task, language = runs[0].task, runs[0].language
    number_of, file = _NAMES[kind]
    return {
        "format": 1,
        "kind": kind,
        "title": f"{task}: {len(items)} {number_of}",
        "file": f"{file}_{task}",
        "language": language,
        "direction": direction(language),
        "categories": [*CATEGORIES] if categories else [],
        "suggest": suggest,
        "instructions": instructions,
        "items": items,
    }


def _items(
    runs: Sequence[TaskAnswers], drawn: Draw, kind: str, suggest: bool, categories: bool
) -> Iterator[dict[str, Any]]:
    """The items of each drawn document, in the order of the draw. The order of the runs is shuffled for each document, so
    that annotators do not learn which model comes first."""
    names = drawn.distinct()
    places = [{name: place for place, name in enumerate(run.ids)} for run in runs]
    logged = [run.logged.select(map(of_run.__getitem__, names)) for run, of_run in zip(runs, places, strict=True)]
    for number, (name, *answers) in enumerate(zip(names, *logged, strict=True)):
        shuffled = np.random.default_rng([drawn.seed, number]).permutation(len(runs)).tolist()
        shown = [(runs[at], answers[at], places[at][name]) for at in shuffled]
        line = _line(shown[0][1], name, runs[0], drawn, kind)
        if kind == "preferences":
            texts = [run.texts[place] for run, _, place in shown]
            models, digests = ([getattr(run, field) for run, _, _ in shown] for field in ("model", "digest"))
            yield {"line": {**line, "answers": texts, "models": models, "runs": digests}, "suggested": []}
            continue
        for run, answer, place in shown:
            if kind == "ratings" or run.words[place]:  # an answer without words has nothing to mark
                yield {
                    "line": {**line, "answer": run.texts[place], "model": run.model, "run": run.digest},
                    "suggested": _spans(answer, categories) if suggest else [],
                }


def _line(answer: Answer, name: str, run: TaskAnswers, drawn: Draw, kind: str) -> dict[str, Any]:
    """The fields of a document's line that are the same for all runs."""
    doc = answer.doc
    return {
        "id": name,
        "task": run.task,
        "kind": kind,
        "language": str(doc.get("language") or run.language),
        "question": str(doc.get("query") or doc.get("question") or ""),
        "reference": reference_of(doc),
        "article": str(doc["article"]) if "article" in doc else None,
        "annotations": RAG if run.task.startswith("clapnq_") else REAL,
        **drawn.fields(name),
    }


def _spans(answer: Answer, categories: bool) -> list[list[Any]]:
    """The spans that a detector marked in an answer."""
    outputs = (tagged_answer(reading.answer, answer.response)[1] for reading in answer.readings.values())
    spans = map(span_of, next(filter(None, outputs), []))
    return [[span.start, span.end, span.category if categories else HALLUCINATION] for span in spans]
