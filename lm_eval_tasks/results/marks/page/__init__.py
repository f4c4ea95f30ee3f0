"""The page that a person marks answers on: one HTML file that needs no server and no network; and its content, the drawn
answers as lines of a marks file.

Jinja writes the frame and the instructions. Answers, questions and references are in the page as JSON, and its script only
ever makes text of them. They stay as they are, to the character, because marks are offsets in them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION, span_of
from detector_plugin.detector import RAG
from detector_plugin.labelled import REAL
from lm_eval_tasks.detection.marked_labels import LABELS
from lm_eval_tasks.results.marks.draw import Draw, TaskAnswers, reference_of
from lm_eval_tasks.results.report.page import cleaned, direction, environment_of
from lm_eval_tasks.results.report.readers import tagged_answer
from lm_eval_tasks.runs import Answer

__all__ = ["INSTRUCTIONS", "marking_page", "page_content"]

# Characters that could end or hide a script element, cannot be in a file, or would change how its source is displayed.
_ESCAPED = re.compile(
    "[<>&\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufeff\ufffe\uffff]"
)
_BOLD = re.compile(r"\*\*(\S|\S.*?\S)\*\*", re.DOTALL)
_SIGN = re.compile(r"^(#+|[-*] )\s*")  # of a heading or an item

INSTRUCTIONS = {
    "spans": """
        Read the question and the answer. Look up in the reference what the answer says, and mark what is **made up**:
        what the reference does not say, or says otherwise.

        - **Mark as little as is wrong**: the name, the number, the phrase. If a whole sentence is made up, mark all of it.
        - **What the reference does not speak of counts as made up**, even if you know that it is true.
        - Other words for what the reference says are not made up, nor is what follows from it at once.
        - Do not mark bad style, repetitions or greetings, nor where the answer says that it does not know.
        - If nothing is made up, choose "Nothing made up". If you cannot decide, choose "Cannot tell".
        - Do not skip answers: their order was drawn. You may stop after any of them.
    """,
    "ratings": """
        Read the question, the reference and the answer. Then rate the answer from 1 (no) to 4 (yes), by each of the
        questions below it and each by itself.

        - Only the reference counts, not what you know.
        - Choose the highest value whose sentence is true. If you cannot decide, choose "Cannot tell".
        - Do not skip answers: their order was drawn. You may stop after any of them.
    """,
    "labels": """
        Read the question, the passages and the answer. Then say what the answer does, whether it is right or wrong.

        - **Answers**: it claims that the passages answer the question, or simply answers it.
        - **Declines**: it says that the passages do not answer it, or that it does not know.
        - **Neither**: it does not say, or is no answer: a question back, the prompt once more, debris.
        - If it says both, what it settles on counts. If it judges each passage, one that answers is enough.
        - Do not skip answers: their order was drawn. You may stop after any of them.
    """,
    "preferences": """
        Read the question and the reference, then both answers. Which one would you rather have been given?

        - The better answer says what the reference says, answers the question completely, and is no longer than it need be.
        - Something made up weighs more than bad style.
        - The order of the two was drawn: it means nothing. A tie is possible, but say so sparingly.
        - Do not skip questions: their order was drawn, too. You may stop after any of them.
    """,
}
"""The instructions for annotators, by kind, in Markdown."""

# The questions of CLAPnq's human evaluation (Rosenthal et al. 2025, section 5), with a sentence for each value.
_ASPECTS = [
    {
        "name": "faithfulness",
        "question": "Is the answer faithful to the reference?",
        "values": [
            "No: most of it is not in the reference, or contradicts it.",
            "Rather not: something important is not borne out.",
            "Rather yes: only details are not borne out.",
            "Yes: the reference bears out all that it says.",
        ],
    },
    {
        "name": "appropriateness",
        "question": "Is the answer appropriate: useful, concise and complete?",
        "values": [
            "No: it does not answer the question.",
            "Rather not: important parts are missing, or hard to find in it.",
            "Rather yes: a detail is missing, or it is too long.",
            "Yes: it says what was asked, all of it, and no more.",
        ],
    },
]


_NAMES = {  # kind to the things to do, and the beginning of the saved file's name
    "spans": ("answers to mark", "marks"),
    "ratings": ("answers to rate", "ratings"),
    "preferences": ("pairs to compare", "preferences"),
    "labels": ("answers to label", "labels"),
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
        suggest: whether the detector's spans are in the page, and shown first.
        instructions: Markdown's headings, lists, paragraphs and bold; empty for ours.

    Returns:
        ``items``, each a ``line``, which the annotator completes, and ``suggested`` spans; and what the page needs for all.
    """
    items = list(_items(runs, drawn, kind, suggest, categories))
    for item in items[:1]:  # on every line the order would make files grow by the square of the draws
        item["line"]["draw"] = {**item["line"]["draw"], **drawn.listed}
    task, language = runs[0].task, runs[0].language
    number_of, file = _NAMES[kind]
    return {
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
    names = drawn.order
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
            if kind in ("ratings", "labels") or run.words[place]:  # an answer without words has nothing to mark
                yield {
                    "line": {**line, "answer": run.texts[place], "model": run.model, "run": run.digest},
                    "suggested": _suggested(answer, categories) if suggest else [],
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
        "reference": reference_of(answer),
        "article": str(doc["article"]) if "article" in doc else None,
        "annotations": RAG if run.task.startswith("clapnq_") else REAL,
        **drawn.fields(name),
    }


def _suggested(answer: Answer, categories: bool) -> list[list[Any]]:
    """The spans that a detector marked in an answer, with a category that the page offers."""
    outputs = (tagged_answer(reading.answer, answer.response)[1] for reading in answer.readings.values())
    spans = map(span_of, next(filter(None, outputs), []))
    offered = CATEGORIES if categories else (HALLUCINATION,)
    return [[span.start, span.end, span.category if span.category in offered else offered[0]] for span in spans]


def marking_page(content: Mapping[str, Any]) -> str:
    """The HTML of a page to mark answers on, with a content of :func:`page_content`. It loads nothing."""
    from markupsafe import Markup, escape

    kind, aspects = content["kind"], _ASPECTS if content["kind"] == "ratings" else []
    written = json.dumps({**content, "aspects": aspects}, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    environment = environment_of(__name__, "marking", cleaned)
    environment.filters["bold"] = lambda text: Markup(_BOLD.sub(r"<strong>\1</strong>", str(escape(cleaned(text)))))  # noqa: S704
    html: str = environment.get_template("marking.html.jinja").render(
        content=Markup(_ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", written)),  # noqa: S704 - escaped for a script
        kind=kind,
        title=content["title"],
        categories=content["categories"],
        aspects=aspects,
        labels=LABELS,
        instructions=[*_blocks(content["instructions"].strip() or INSTRUCTIONS[kind])],
    )
    return html


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Headings, items and paragraphs of plain text or Markdown: the name of an element, and the texts of those that follow
    each other."""
    blocks: list[tuple[str, str]] = []
    continues = False
    for line in map(str.strip, text.splitlines()):
        element = "h3" if line.startswith("#") else "li" if line.startswith(("- ", "* ")) else "p"
        if continues and element == "p" and line:
            blocks[-1] = (blocks[-1][0], f"{blocks[-1][1]} {line}")
        elif line:
            blocks.append((element, _SIGN.sub("", line)))
        continues = bool(line) and element != "h3"
    for element, group in groupby(blocks, lambda block: block[0]):
        yield element, [content for _, content in group]
