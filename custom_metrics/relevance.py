"""NoMIRACL: does the model say that the passages answer the question?

:func:`nomiracl_label` is the parser of the released code (``nomiracl`` 1.0.0), to the answer. :func:`robust_label` reads
what the released parser calls Invalid: reasoning blocks, chat debris, yes and no in the prompt's language, abstentions in
other words and languages, and answers that simply answer. What is no answer (:mod:`custom_metrics.no_answer`) stays
Invalid. :func:`process_results` turns a label into the per-document values of the rates that the aggregations average
(Thakur et al. 2024, section 4):

- hallucination rate = FP / (FP + TN) over the non-relevant subset,
- error rate = FN / (FN + TP) over the relevant subset.

Invalid answers are in neither denominator; they are ``None`` here, and counted by ``invalid_rate``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from custom_metrics.abstention import abstains_elsewhere, affirms_presence, denies_presence, is_abstention
from custom_metrics.no_answer import behind_prompt, no_answer
from custom_metrics.response import after_reasoning, final_answer
from custom_metrics.service_failures import is_service_failure

__all__ = ["ANSWER", "INVALID", "NO_ANSWER", "nomiracl_label", "process_results", "robust_label"]

ANSWER = "Yes, answer is present"
NO_ANSWER = "I don't know"
INVALID = "Invalid"

_BREAKS = str.maketrans("\n\t", "  ")
_BRACKETED_NUMBER = re.compile(r"\[\d+\]")
# The prompt's own words, repeated: `respond as either "Yes, answer is present" or "I don't know"`.
_ECHO = re.compile(
    r"[\"'“”]?yes,? (?:the )?answer is present[.,]?[\"'“”]?(?: \([^)]{0,80}\)| if [^.\"]{0,120})?,? or (?:with )?"
    r"[\"'“”]?i don['’]t know[.,]?[\"'“”]?",
    re.IGNORECASE,
)
# The model turns the task around ("Please answer the question ...", "Do you know the answer?"): there is no answer to read.
_ASKS_BACK = re.compile(
    r"(?:(?:sure|okay|ok|of course|certainly)[!,.]* )?"
    r"(?:please (?:answer|respond|provide|select|choose|specify|read|note|indicate|give|tell)|do you know|would you like)",
    re.IGNORECASE,
)
# A verdict on each context ("1. I don't know 2. Yes, ..."): the prompt asks whether any of them answers.
_PER_CONTEXT = re.compile(r"(?:contexts?:?\s*)*\[?1[\].:)]")
# "I can't reply 'Yes, answer is present'"
_REFUSES = re.compile(r"(?:cannot|can't|not|unable to) (?:say|reply|respond|answer|state|claim|confirm)[^.]{0,30}$")
_SUBSTANCE = re.compile(r"[^\W_]")


def nomiracl_label(response: str | None) -> str:
    """The label that the released NoMIRACL parser gives an answer.

    Returns:
        ``"Yes, answer is present"``, ``"I don't know"`` or ``"Invalid"``; the last also for ``None``.
    """
    text = response.translate(_BREAKS).lower() if isinstance(response, str) else ""
    answered, abstained = ANSWER.lower() in text, NO_ANSWER.lower() in text
    if answered or abstained:
        return INVALID if answered and abstained else ANSWER if answered else NO_ANSWER
    if "answer is present" in text:
        return ANSWER
    if "answer is not present" in text:
        return NO_ANSWER
    return ANSWER if len(text) < 10 and _BRACKETED_NUMBER.search(text) else INVALID


def robust_label(
    response: str | None, language: str | None = None, question: str | None = None, passages: Sequence[str] = ()
) -> str:
    """The label that a careful reader gives an answer; Invalid only where there is nothing to read.

    It reads what :func:`custom_metrics.response.final_answer` leaves, without the parts of the prompt that the text begins
    with and without repetitions of the instruction.

    - ``"I don't know"``: also an abstention in other words, in the prompt's language or in any other with a phrase table,
      and a "no" in one of them.
    - ``"Yes, answer is present"``: also an answer that simply answers ("Paris", "[3]"), as its model took the passages to
      answer the question.
    - ``"Invalid"``: an answer that only turns the task around ("Please answer the question"), and text that is no answer.
      :mod:`custom_metrics.no_answer` defines the kinds of the latter.

    An answer that holds both of the prompt's phrases counts as the first of them. One that judges each context is "Yes"
    where it says so of any.

    Args:
        response: the model's answer.
        language: ISO 639 code of the prompt's language, which is read first; ``None`` reads all languages.
        question: what was asked; without it, fewer kinds of no answer can be found.
        passages: what the prompt gave, as it stands there.
    """
    final = final_answer(response)
    text = behind_prompt(final, question, passages)
    if final and not text:  # the prompt repeated as a whole, and answered? What follows a question of its own was cut
        text = behind_prompt(after_reasoning(response or ""), question, passages)
    if not _SUBSTANCE.search(text) or is_service_failure(text, question):
        return INVALID
    text = _ECHO.sub(" ", text)
    lowered = text.translate(_BREAKS).replace("’", "'").lower().strip(" \"'*-_#")
    found = {label: at for label in (ANSWER, NO_ANSWER) if (at := lowered.find(label.lower())) >= 0}
    if found.get(NO_ANSWER) == 0:
        return NO_ANSWER
    if ANSWER in found and not _REFUSES.search(lowered, 0, found[ANSWER]):
        first = min(found, key=found.__getitem__)
        return ANSWER if _PER_CONTEXT.match(lowered) else first
    if affirms_presence(text, language):
        return ANSWER
    if ANSWER in found or is_abstention(text, language) or denies_presence(text, language):
        return NO_ANSWER  # the first of these: it refuses to say yes
    if not _SUBSTANCE.search(text) or _ASKS_BACK.match(lowered):
        return INVALID
    if abstains_elsewhere(text, language):
        return NO_ANSWER
    return INVALID if no_answer(text, question, passages) else ANSWER


def process_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, float | None]:
    """Per-document values of the NoMIRACL metrics.

    Args:
        doc: a document of ``lm_eval_tasks.nomiracl.dataset`` (``subset``, ``label``).
        results: one label, as the filter ``nomiracl_label`` gives it.

    Returns:
        Every metric for every document: 1.0, 0.0, or ``None`` where the document is not in the denominator. ``accuracy``,
        whether this answer is right, comes first.
    """
    label = results[0]
    read = label != INVALID
    return {
        "accuracy": float(label == doc["label"]),
        "hallucination_rate": float(label == ANSWER) if read and doc["subset"] == "non_relevant" else None,
        "error_rate": float(label == NO_ANSWER) if read and doc["subset"] == "relevant" else None,
        "invalid_rate": float(not read),
    }
