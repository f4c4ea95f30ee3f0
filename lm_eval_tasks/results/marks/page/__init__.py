"""The page that a person marks answers on: one HTML file that needs no server and no network; and its content, the drawn
answers as lines of a marks file.

Jinja writes the frame and the instructions. Answers, questions and references are in the page as JSON, and its script only
ever makes text of them. They stay as they are, to the character, because marks are offsets in them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import groupby
from typing import Any

import numpy as np

from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION, span_of
from custom_metrics.usage.secrets import masked
from detector_plugin.detector import RAG
from detector_plugin.labelled import REAL
from lm_eval_tasks.detection.marked import LABELS
from lm_eval_tasks.results.marks.draw import Draw, TaskAnswers, language_of, reference_of
from lm_eval_tasks.results.report.page import cleaned, direction, environment_of
from lm_eval_tasks.results.report.readers import tagged_answer
from lm_eval_tasks.runs import Answer

__all__ = ["marking_page", "page_content"]

# Characters that could end or hide a script element, cannot be in a file, or would change how its source is displayed.
_ESCAPED = re.compile(
    "[<>&\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufeff\ufffe\uffff]"
)
# Of Markdown, in a line: **bold**, ==marked words== and `keys`. The names are those of HTML's elements.
_INLINE = re.compile(r"\*\*(?P<strong>\S|\S.*?\S)\*\*|==(?P<mark>\S|\S.*?\S)==|`(?P<kbd>[^`]+)`", re.DOTALL)
_SIGN = re.compile(r"^(#+|[-*] )\s*")  # of a heading or an item


def page_content(
    runs: Sequence[TaskAnswers],
    drawn: Draw,
    categories: bool = False,
    suggest: bool = False,
    instructions: str = "",
) -> dict[str, Any]:
    """The content of a page to mark on, or of a project of Label Studio.

    Args:
        runs: of one task, from which answers were drawn.
        categories: whether parts are marked with mFAVA's categories.
        suggest: whether the detector's spans are in the page, and shown first.
        instructions: Markdown's headings, lists, paragraphs and bold; empty for ours.

    Returns:
        ``items``, each a ``line``, which the annotator completes, and ``suggested`` spans; and what the page needs for all.
    """
    items = list(_items(runs, drawn, suggest, categories))
    for item in items[:1]:  # on every line the order would make files grow by the square of the draws
        item["line"]["draw"] = {**item["line"]["draw"], **drawn.listed}
    task, kind, language = runs[0].task, runs[0].kind, runs[0].language
    todo = "label" if kind == "labels" else "mark"
    return {
        "kind": kind,
        "title": f"{task}: {len(items)} answers to {todo}",
        "file": f"{todo}s_{task}",
        "language": language,
        "direction": direction(language),
        "categories": [*CATEGORIES] if categories else [],
        "suggest": suggest,
        "instructions": instructions,
        "items": items,
    }


def _items(runs: Sequence[TaskAnswers], drawn: Draw, suggest: bool, categories: bool) -> Iterator[dict[str, Any]]:
    """The items of each drawn document, in the order of the draw. The order of the runs is shuffled for each document, so
    that annotators do not learn which model comes first."""
    names = drawn.order
    places = [{name: place for place, name in enumerate(run.ids)} for run in runs]
    logged = [run.logged.select(map(of_run.__getitem__, names)) for run, of_run in zip(runs, places, strict=True)]
    for number, (name, *answers) in enumerate(zip(names, *logged, strict=True)):
        shuffled = np.random.default_rng([drawn.seed, number]).permutation(len(runs)).tolist()
        shown = [(runs[at], answers[at], places[at][name]) for at in shuffled]
        line = _line(shown[0][1], name, runs[0], drawn)
        for run, answer, place in shown:
            if run.words[place]:  # an answer without words has nothing to mark
                yield {
                    "line": {**line, "answer": masked(run.texts[place]), "model": run.model, "run": run.digest},
                    "suggested": _suggested(answer, categories) if suggest else [],
                }


def _line(answer: Answer, name: str, run: TaskAnswers, drawn: Draw) -> dict[str, Any]:
    """The fields of a document's line that are the same for all runs."""
    doc = answer.doc
    return {
        "id": name,
        "task": run.task,
        "kind": run.kind,
        "language": language_of(answer, run.language),
        "question": masked(str(doc.get("query") or doc.get("question") or "")),
        "reference": masked(reference_of(answer)),
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


@cache
def _texts() -> dict[str, dict[str, str]]:
    """The table of instructions: a language's texts by name."""
    import yaml

    text = resources.files(__name__).joinpath("instructions.yaml").read_text("utf-8")
    texts: dict[str, dict[str, str]] = yaml.safe_load(text)
    return texts


def marking_page(content: Mapping[str, Any]) -> str:
    """The HTML of a page to mark answers on, with a content of :func:`page_content`. It loads nothing."""
    from markupsafe import Markup, escape

    kind = content["kind"]
    written = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    environment = environment_of(__name__, "marking")
    environment.filters["inline"] = lambda text: Markup(_INLINE.sub(_element, str(escape(cleaned(text)))))  # noqa: S704
    language = content["language"] if kind in _texts().get(content["language"], ()) else "en"
    texts, own = _texts()[language], content["instructions"].strip()
    html: str = environment.get_template("marking.html.jinja").render(
        content=Markup(_ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", written)),  # noqa: S704 - escaped for a script
        kind=kind,
        title=content["title"],
        categories=content["categories"],
        labels=LABELS,
        language=language,
        direction=direction(language),
        instructions_title=texts["title"],
        note=texts.get("note", ""),  # of a translation that no native speaker has reviewed
        is_own=bool(own),
        instructions=[*_blocks(own or texts[kind])],
        by_hand=[*_blocks(texts["hand" if kind == "spans" else "labelling"])],
    )
    return html


def _element(match: re.Match[str]) -> str:
    return f"<{match.lastgroup}>{match[match.lastgroup or 0]}</{match.lastgroup}>"


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
