"""A faithful answer to a question, read from a reply."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from custom_metrics.abstention import is_abstention
from custom_metrics.reading.no_answer import no_answer
from lm_eval_tasks.making.language_check import other_language
from lm_eval_tasks.making.replies import Reading, kept, left_out

__all__ = ["read"]

_LABEL = re.compile(r"^\s*\**(?:answer|passage)\**\s*:\**\s*", re.IGNORECASE)


def read(reply: str, doc: Mapping[str, Any]) -> Reading:
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
        return left_out("no text (a loop, markup, code, noise)")
    if is_abstention(answer, doc["language"]):  # in English, too
        return left_out("the reference does not answer the question")
    if other_language(answer, doc["language"], doc["reference"]):
        return left_out("another language")
    return kept(answer=answer, spans=[])
