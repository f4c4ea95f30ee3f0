"""The steps: their names, their tasks, and the parsers of their replies."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from custom_metrics.reading.response import final_answer
from lm_eval_tasks.making.replies import ParsedReply, read_answer, read_queries, read_silver, read_translation
from lm_eval_tasks.mfava.dataset import LANGUAGES as MFAVA

LANGUAGES = {"en": "English", **{code: language.name for code, language in MFAVA.items()}}
"""Code to English name of the languages of generated data: mFAVA's, and English, from which the paper translates."""
PARTS = ("question", "reference", "answer")
"""The texts of a row, each translated separately; only the answer has tags."""

QUERIES, ANSWERS, SILVER, TRANSLATE = "queries", "answers", "silver", "translate"
STEPS: dict[str, Callable[[str, Mapping[str, Any]], ParsedReply]] = {
    QUERIES: read_queries,
    ANSWERS: read_answer,
    SILVER: read_silver,
    TRANSLATE: read_translation,
}
"""Step to the parser of its replies, in the paper's order."""
_TASK = re.compile(r"mfava_(?:make_(queries|answers|silver)|(translate))_[a-z]{2,3}")


def task_name(step: str, language: str) -> str:
    return f"mfava_{step}_{language}" if step == TRANSLATE else f"mfava_make_{step}_{language}"


def step_of(task: str) -> str | None:
    """The step of a task; ``None`` for all other tasks."""
    match = _TASK.fullmatch(task)
    return match[1] or match[2] if match else None


def parse_reply(response: str | None, doc: Mapping[str, Any]) -> ParsedReply:
    """Parse a model's response to a document of a step's task."""
    return STEPS[doc["step"]](final_answer(response), doc)


def process_results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float | None]:
    """Metric values of a reply: whether any of it is kept, and its number of questions or of errors."""
    rows = parse_reply(results[0], doc).rows
    values: dict[str, float | None] = {"kept_rate": float(bool(rows))}
    if doc["step"] == QUERIES:
        values["questions"] = float(len(rows))
    elif doc["step"] == SILVER:
        values["errors"] = float(len(rows[0]["spans"])) if rows else None
    return values
