"""Why an answer got its label: the rules and phrases that decided, in sentences."""

from __future__ import annotations

import re

from custom_metrics.abstention.explained import explain
from custom_metrics.abstention.phrases import known
from custom_metrics.reading.no_answer import no_answer
from custom_metrics.reading.response import final_answer
from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER

__all__ = ["why_abstention", "why_robust", "why_strict"]

_KINDS = {
    "empty": "it has no letter and no digit",
    "failure": "it is the message of a service that failed",
    "prompt": "it repeats the prompt",
    "loop": "it repeats itself",
    "markup": "it is markup without text",
    "code": "it is a program",
    "debris": "it is tokens of a chat template",
    "noise": "its characters make no words",
    "script": "it is in a script that neither question nor passages use",
}
_NUMBER = re.compile(r"\[\d+\]")
_LONGEST = 2000  # characters of an answer that is explained; phrases decide at its beginning


def why_strict(response: str, label: str) -> str:
    """How the parser of the released code came to its label."""
    text = response.replace("\n", " ").replace("\t", " ").lower()
    phrases = [phrase for phrase in (ANSWER, NO_ANSWER) if phrase.lower() in text]
    if len(phrases) == 2:
        return "Strict reading: it holds both phrases of the prompt."
    if phrases:
        return f"Strict reading: it holds “{phrases[0]}”."
    for phrase in ("answer is present", "answer is not present"):
        if phrase in text:
            return f"Strict reading: it holds “{phrase}”."
    if label == INVALID:
        return "Strict reading: it holds neither phrase of the prompt."
    return "Strict reading: it is the number of a passage." if _NUMBER.search(text) else ""


def why_robust(response: str, label: str, language: str, question: str) -> str:
    """How a careful reader comes to a label that differs from the strict one."""
    if label == NO_ANSWER:
        reasons = why_abstention(response, language)
        return f"Robust reading: it does not answer. {reasons}".strip()
    if label == INVALID:
        kind = no_answer(final_answer(response[:_LONGEST]), question)
        said = _KINDS.get(kind or "", "there is nothing to read")
        return f"Robust reading: Invalid, for {said}."
    return "Robust reading: it answers, in other words than the prompt's."


def why_abstention(text: str, language: str) -> str:
    """The phrases that make an answer an abstention; empty where none is found."""
    table = language if language and known(language) else None
    found = []
    for explanation in explain(text[:_LONGEST], table):
        if not explanation.abstains:
            continue
        words = dict.fromkeys(match.text for sentence in explanation.sentences for match in sentence.matches)
        found.append(", ".join(f"“{each}”" for each in list(words)[:4]))
    phrases = next((each for each in found if each), "")
    return f"Phrases that decided: {phrases}." if phrases else ""
