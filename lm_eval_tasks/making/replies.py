"""What became of a model's reply: the rows that were made of it, and what was left out for which reason; and the check that
all steps share, whether a text is in the language that was asked for."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from custom_metrics.reading.noise import scripts
from lm_eval_tasks.detection.language_tags import SURE, are_near, identifiable, identified

__all__ = ["NO_TEXT", "OTHER_LANGUAGE", "Reading", "kept", "left_out", "other_language"]

NO_TEXT, OTHER_LANGUAGE = "no text (a loop, markup, code, noise)", "another language"
"""Reasons that several steps have."""
_MOST_SCRIPTS = 4
"""Scripts of a text in one language, names included: Japanese alone has two, and Latin letters besides."""


class Reading(NamedTuple):
    """A reply, read.

    Attributes:
        rows: what was made, each the fields that the reply adds to its document.
        reasons: how many parts of the reply were left out, by reason.
    """

    rows: list[dict[str, Any]]
    reasons: Counter[str]


def kept(**fields: Any) -> Reading:
    """A reply of which all is kept, as one row."""
    return Reading([fields], Counter())


def left_out(reason: str) -> Reading:
    """A reply of which nothing is kept."""
    return Reading([], Counter([reason]))


def other_language(text: str, language: str, beside: str = "") -> str | None:
    """The language, or else the script, of a text that is surely not in `language`; ``None`` for all others.

    Args:
        text: a question is enough; shorter texts are seldom sure.
        language: ISO 639 code. One that py3langid does not know (Sindhi) is judged by its script alone.
        beside: a text in that language, for its scripts.
    """
    of_text, expected = scripts(text), scripts(beside)
    if len(of_text) > _MOST_SCRIPTS:
        return "a mixture"
    code, probability = identified(text)
    sure = probability >= SURE and code != language and language in identifiable()
    if sure and not are_near(code, language):
        return code
    strange = [(number, script) for script, number in of_text.items() if script not in expected]
    if expected and 2 * sum(number for number, _ in strange) > sum(of_text.values()):
        return max(strange)[1].lower()
    return None
