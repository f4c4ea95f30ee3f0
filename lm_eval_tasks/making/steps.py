"""The steps: their names and tasks, and how a model's reply of each is read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from custom_metrics.abstention import is_abstention
from custom_metrics.reading.no_answer import no_answer
from custom_metrics.reading.response import final_answer
from custom_metrics.reading.tagged_text import merged
from lm_eval_tasks.making.queries import read_queries
from lm_eval_tasks.making.replies import NO_TEXT, OTHER_LANGUAGE, Reading, kept, left_out, other_language
from lm_eval_tasks.making.silver import BROKEN, read_silver
from lm_eval_tasks.mfava.annotations import ParseReport, parse
from lm_eval_tasks.mfava.languages import LANGUAGES as MFAVA

__all__ = [
    "ANSWERS",
    "LANGUAGES",
    "PARTS",
    "QUERIES",
    "SILVER",
    "STEPS",
    "TRANSLATE",
    "process_results",
    "read",
    "read_answer",
    "read_translation",
    "step_of",
    "task_name",
]

LANGUAGES = {"en": "English", **{code: language.name for code, language in MFAVA.items()}}
"""Code to English name of the languages that data is made in: mFAVA's, and English, from which the paper translates."""
PARTS = ("question", "reference", "answer")
"""The texts of a row, each translated by itself; the answer is the one with tags."""

QUERIES, ANSWERS, SILVER, TRANSLATE = "queries", "answers", "silver", "translate"
_TASK = re.compile(r"mfava_(?:make_(queries|answers|silver)|(translate))_[a-z]{2,3}")
_LABEL = re.compile(r"^\s*\**(?:answer|passage)\**\s*:\**\s*", re.IGNORECASE)


def task_name(step: str, language: str) -> str:
    """The name of a step's task."""
    return f"mfava_{step}_{language}" if step == TRANSLATE else f"mfava_make_{step}_{language}"


def step_of(task: str) -> str | None:
    """The step that a task is; ``None`` for all other tasks."""
    match = _TASK.fullmatch(task)
    return match[1] or match[2] if match else None


def read_answer(reply: str, doc: Mapping[str, Any]) -> Reading:
    """The answer of a reply, as a row with ``answer`` and no ``spans``.

    A model that says that the reference does not answer the question makes the question one to leave out.

    Args:
        reply: of a model.
        doc: ``language``, ``question`` and ``reference``.
    """
    answer = _LABEL.sub("", reply).strip()
    if not answer:
        return left_out("an empty reply")
    if no_answer(answer, doc["question"], [doc["reference"]]) is not None:
        return left_out(NO_TEXT)
    if is_abstention(answer, doc["language"]):  # in English, too
        return left_out("the reference does not answer the question")
    if other_language(answer, doc["language"], doc["reference"]):
        return left_out(OTHER_LANGUAGE)
    return kept(answer=answer, spans=[])


def read_translation(reply: str, doc: Mapping[str, Any]) -> Reading:
    """The translation of a reply, as a row with ``text`` and ``spans``.

    The order of the tags may change, as that of words does; their kinds and numbers may not.

    Args:
        reply: of a model.
        doc: ``text``, with tags; ``part``, one of :data:`PARTS`; ``language``, and ``source_language`` of the text.
    """
    before, had = parse(doc["text"])
    report = ParseReport()
    text, spans = parse(reply.strip(), report) if doc["part"] == "answer" else (reply.strip(), [])
    if not text.strip():
        return left_out("an empty reply")
    if BROKEN & report.repaired.keys() or _kinds(spans) != _kinds(had):
        return left_out("other tags than before")
    if text.casefold() == before.casefold():
        return left_out("not translated")
    if no_answer(text) is not None:
        return left_out(NO_TEXT)
    if is_abstention(text, doc["language"]) and not is_abstention(before, doc["source_language"]):
        return left_out("a refusal")
    if other_language(text, doc["language"]):
        return left_out(OTHER_LANGUAGE)
    return kept(text=text, spans=[[span.start, span.end, span.category] for span in merged(spans)])


def _kinds(spans: Any) -> Counter[str]:
    return Counter(span.category for span in merged(spans))


STEPS: dict[str, Callable[[str, Mapping[str, Any]], Reading]] = {
    QUERIES: read_queries,
    ANSWERS: read_answer,
    SILVER: read_silver,
    TRANSLATE: read_translation,
}
"""Step to what reads its replies, in the order in which the paper takes them."""


def read(response: str | None, doc: Mapping[str, Any]) -> Reading:
    """What is made of a model's response to a document of a step's task."""
    return STEPS[doc["step"]](final_answer(response), doc)


def process_results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float | None]:
    """Values of one reply: whether anything of it is kept, and how much (questions of an article, errors of a text)."""
    (reply,) = results
    rows = read(reply, doc).rows
    values: dict[str, float | None] = {"kept_rate": float(bool(rows))}
    if doc["step"] == QUERIES:
        values["questions"] = float(len(rows))
    elif doc["step"] == SILVER:
        values["errors"] = float(len(rows[0]["spans"])) if rows else None
    return values
