"""What annotators get: the drawn answers as the lines of a marks file, without what people say of them."""

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

Item = dict[str, Any]


def page_content(
    runs: Sequence[TaskAnswers],
    drawn: Draw,
    kind: str = "spans",
    categories: bool = False,
    suggest: bool = False,
    instructions: str = "",
) -> dict[str, Any]:
    """The content of a page to mark on, or of a project of Label Studio. The first line has the order of the draw.

    Args:
        runs: of one task, from which answers were drawn.
        drawn: the draw.
        kind: one of :data:`lm_eval_tasks.results.marks.draw.KINDS`; preferences are of two runs.
        categories: whether parts are marked with mFAVA's categories.
        suggest: whether the detector's spans are shown first.
        instructions: Markdown; empty for ours.
    """
    items = [item for of_question in _items(runs, drawn, kind, suggest, categories) for item in of_question]
    for item in items[:1]:  # on every line it would make files grow by the square of the draws
        item["line"]["draw"]["order"] = [*drawn.order]
    task, language = runs[0].task, runs[0].language
    todo, file = {
        "spans": ("answers to mark", "marks"),
        "ratings": ("answers to rate", "ratings"),
        "preferences": ("pairs to compare", "preferences"),
    }[kind]
    return {
        "format": 1,
        "kind": kind,
        "title": f"{task}: {len(items)} {todo}",
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
) -> Iterator[list[Item]]:
    """The items of each drawn document, in the order of the draw. That of the runs is drawn anew for each, so that nobody
    learns which model comes first."""
    names = drawn.distinct()
    places = [{name: place for place, name in enumerate(run.ids)} for run in runs]
    readers = [run.logged.select(map(of_run.__getitem__, names)) for run, of_run in zip(runs, places, strict=True)]
    for number, (name, *of_runs) in enumerate(zip(names, *readers, strict=True)):
        shuffled = np.random.default_rng([drawn.seed, number]).permutation(len(runs)).tolist()
        shown = [(runs[place], of_runs[place], places[place][name]) for place in shuffled]
        base = _base(shown[0][1], name, runs[0], drawn, kind)
        texts = [run.texts[place] for run, _, place in shown]
        if kind == "preferences":
            models, digests = ([getattr(run, field) for run, _, _ in shown] for field in ("model", "digest"))
            yield [{"line": {**base, "answers": texts, "models": models, "runs": digests}, "suggested": []}]
            continue
        yield [
            {
                "line": {**base, "answer": text, "model": run.model, "run": run.digest},
                "suggested": _spans(answer, categories) if suggest else [],
            }
            for (run, answer, place), text in zip(shown, texts, strict=True)
            if kind == "ratings" or run.words[place]  # without a word there is nothing to mark
        ]


def _base(answer: Answer, name: str, run: TaskAnswers, drawn: Draw, kind: str) -> dict[str, Any]:
    """The fields of a line that all runs share."""
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
