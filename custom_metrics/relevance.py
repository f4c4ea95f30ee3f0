"""NoMIRACL's labels: whether the model says that the passages answer the question.

:func:`nomiracl_label` is the parser of the released code (``nomiracl`` 1.0.0), to the answer. :func:`read_label` reads
what the released parser calls Invalid, and says why: reasoning blocks, chat debris, yes and no in the prompt's language,
abstentions in other words, and answers that simply answer. What is no answer (:mod:`custom_metrics.reading.no_answer`)
stays Invalid. :func:`process_results` turns a label into the per-document values of the rates that the aggregations average
(Thakur et al. 2024, section 4):

- hallucination rate = FP / (FP + TN) over the non-relevant subset,
- error rate = FN / (FN + TP) over the relevant subset.

Invalid answers are in neither denominator; they are ``None`` here, and counted by ``invalid_rate``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from custom_metrics.abstention import (
    affirms_presence,
    denies_presence,
    is_abstention,
    labelled_verdict,
    lexicons,
    only_asks,
    read_abstention,
)
from custom_metrics.abstention.folding import EDGE, legible
from custom_metrics.abstention.sentence_reading import MASK, split, without_quotations
from custom_metrics.reading.no_answer import is_service_failure, no_answer, without_prompt
from custom_metrics.reading.response import after_reasoning, final_answer
from custom_metrics.statistics.figures import outcome

ANSWER = "Yes, answer is present"
NO_ANSWER = "I don't know"
INVALID = "Invalid"

_SAYS_PRESENT = "answer is present"
_BRACKETED_NUMBER = re.compile(r"\[\d+\]")
# The prompt's own words, repeated: `respond as either "Yes, answer is present" or "I don't know"`.
_ECHO = re.compile(
    r"[\"'“”]?yes,? (?:the )?answer is present[.,]?[\"'“”]?(?: \([^)]{0,80}\)| if [^.\"]{0,120})?,? or (?:with )?"
    r"[\"'“”]?i don['’]t know[.,]?[\"'“”]?",
    re.IGNORECASE,
)
# The model turns the task around ("Please answer the question ...", "Do you know the answer?"): there is no answer to read.
_ASKS_BACK = re.compile(
    r"(?:(?:(?:sure|okay|ok|of course|certainly|i'm sorry)[!,.]*|i can help with that[!.]) (?:but )?){0,2}"
    r"(?:please (?:answer|respond|provide|select|choose|specify|read|note|indicate|give|tell)|do you know|would you like"
    r"|(?:respond|answer|reply) (?:as|with) (?:either|one of)"
    r"|(?:could|can) you (?:please )?(?:share|provide|give|paste|send|tell|specify)|what(?: is|'s) your question"
    r"|(?:which|what) question (?:would|do) you)",
    re.IGNORECASE,
)
_SUBSTANCE = re.compile(r"[^\W_]")
_LETTERS = {"Y": ANSWER, "y": ANSWER, "N": NO_ANSWER, "n": NO_ANSWER, "I": INVALID}  # an answer that was broken off
_PHRASES = re.compile(r"yes, answer is present|i don't know")
_CUT_QUOTE = re.compile(r"\"(?<=\w \")[^\"\n]{0,60}\Z")
_SENTENCE_END = re.compile(r"[.!?。！？।\n]")


def _one_line(text: str) -> str:
    return text.replace("\n", " ").replace("\t", " ").lower()


def nomiracl_label(response: str | None) -> str:
    """The label that the released NoMIRACL parser gives an answer; ``"Invalid"`` for ``None``."""
    text = _one_line(response) if isinstance(response, str) else ""
    answered, abstained = ANSWER.lower() in text, NO_ANSWER.lower() in text
    if answered or abstained:
        return INVALID if answered and abstained else ANSWER if answered else NO_ANSWER
    if _SAYS_PRESENT in text:
        return ANSWER
    if "answer is not present" in text:
        return NO_ANSWER
    return ANSWER if len(text) < 10 and _BRACKETED_NUMBER.search(text) else INVALID


class Reading(NamedTuple):
    """A label of an answer, and why. It is `sure` where a phrase or a rule decided; else it counts as an answer."""

    label: str
    reason: str
    sure: bool = True


def robust_label(
    response: str | None, language: str | None = None, question: str | None = None, passages: Sequence[str] = ()
) -> str:
    """The label that :func:`read_label` gives an answer."""
    return read_label(response, language, question, passages).label


def read_label(
    response: str | None, language: str | None = None, question: str | None = None, passages: Sequence[str] = ()
) -> Reading:
    """The label that a careful reader gives an answer, and why; Invalid only where there is nothing to read.

    It reads the result of :func:`custom_metrics.reading.response.final_answer`, without repetitions of the prompt.

    - ``"I don't know"``: also an abstention in other words, and a "no", in the prompt's language or in English, also under
      a label ("Answer: No", ``{"answerable": false}``).
    - ``"Yes, answer is present"``: also an answer that simply answers ("Paris", "[3]"), as from the passages.
    - ``"Invalid"``: an answer that only turns the task around, and what is none (:mod:`custom_metrics.reading.no_answer`).

    Of the prompt's phrases the first counts, or the last where the answer turns round before that ("But wait, ..."). One
    that is quoted as the rule ('To say "Yes, answer is present", a context must ...') is no verdict.

    Args:
        response: the model's answer.
        language: ISO 639 code of the prompt's language; ``None`` reads the two languages that the answer most looks like.
        question, passages: as they stand in the prompt; without them, fewer kinds of no answer can be found.
    """
    final = final_answer(response)
    text = without_prompt(final, question, passages)
    if final and not text:  # the prompt repeated as a whole, and answered? What follows a question of its own was cut
        text = without_prompt(after_reasoning(response or ""), question, passages)
    if not _SUBSTANCE.search(text):
        return Reading(INVALID, "there is nothing to read")
    if is_service_failure(text, question):
        return Reading(INVALID, "no answer: failure")
    if text != final and (question or "").startswith(text.strip()):
        return Reading(INVALID, "no answer: prompt")  # the question, and its beginning
    text = legible(text)
    if _SAYS_PRESENT in text.lower():
        text = _ECHO.sub(" ", text)
    if text.strip(EDGE) in _LETTERS:
        return Reading(_LETTERS[text.strip(EDGE)], "a phrase of the prompt that was cut")
    if text[:1] == "`" and no_answer(text, question, passages) == "code":
        return Reading(INVALID, "no answer: code")
    lowered = _one_line(text).replace("’", "'").strip(" \"'*-_#")
    opens_with_phrase = lowered.startswith((ANSWER.lower(), NO_ANSWER.lower()))
    verdict = None if opens_with_phrase or _ASKS_BACK.match(lowered) else labelled_verdict(text, language)
    if verdict is not None:
        return Reading(ANSWER if verdict else NO_ANSWER, "a verdict under a label")
    if label := _label_of_phrases(text, lowered, language):
        return Reading(label, "a phrase of the prompt")
    if ANSWER.lower() not in lowered and affirms_presence(text, language):
        return Reading(ANSWER, 'it begins with a "yes"')
    if denies_presence(text, language):
        return Reading(NO_ANSWER, 'it begins with a "no"')
    decision = read_abstention(text, language, partial=False)
    if decision.abstains:
        return Reading(NO_ANSWER, f"an abstention: {decision.reason}")
    if ANSWER.lower() in lowered:
        return Reading(ANSWER, "a phrase of the prompt that is quoted, and nothing against it")
    if not _SUBSTANCE.search(text) or _ASKS_BACK.match(lowered):
        return Reading(INVALID, "it turns the task around")
    if only_asks(text):
        rest = after_reasoning(response or "").partition(final)[2]  # behind a question of its own: "ANSWER: Yes"
        follows = without_prompt(rest.lstrip(), question, passages) if rest else ""
        asks = Reading(INVALID, "it only asks")
        return read_label(follows, language, question, passages) if follows.strip() else asks
    if kind := no_answer(text, question, passages):
        return Reading(INVALID, f"no answer: {kind}")
    return Reading(ANSWER, f"it is taken for an answer: {decision.reason}", decision.sure)


def _label_of_phrases(text: str, lowered: str, language: str | None) -> str | None:
    """The label of an answer in the prompt's own phrases; ``None`` where it holds none, or only speaks of them."""
    if ANSWER.lower() not in lowered and NO_ANSWER.lower() not in lowered:
        return None
    _, lexicon = lexicons(text, language)[0]
    own = _CUT_QUOTE.sub(MASK, without_quotations(lexicon.fold(text), lexicon).strip(EDGE))
    mentions = list(_PHRASES.finditer(own))
    if not mentions:
        if _ASKS_BACK.match(lowered):
            return INVALID
        has_both = ANSWER.lower() in lowered and NO_ANSWER.lower() in lowered
        unquoted = "\n".join(sentence for sentence, _ in split(own) if MASK not in sentence)
        return INVALID if has_both and not is_abstention(unquoted, language, partial=False) else None  # the instruction
    labels = [ANSWER if match[0][0] == "y" else NO_ANSWER for match in mentions]
    between = _PHRASES.sub("", own)
    if len({*labels}) > 1 and not _SUBSTANCE.search(between) and (len(labels) > 3 or "/" in between):
        return INVALID  # the two take turns, or as in the instruction
    for at in range(len(mentions) - 1, 0, -1):
        between = own[mentions[at - 1].end() : mentions[at].start()]
        if labels[at] != labels[0]:
            hits, lead = lexicon.search(between), len(between.rstrip(EDGE))
            opened = any(stop == lead for _, stop in hits.get("openers", ()))
            if "but" in hits or (opened and _SENTENCE_END.search(between[:lead])):
                return labels[at]
    return labels[0] if labels[0] == ANSWER or ANSWER in labels or not mentions[0].start() else None


def process_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Every metric of a document of ``lm_eval_tasks.nomiracl.dataset`` with one label, as the filter ``nomiracl_label``
    gives it: 1.0, 0.0, or ``None`` where the document is not in the denominator; and
    :func:`custom_metrics.statistics.figures.outcome`. ``accuracy``, whether this answer is right, comes first.
    """
    label = results[0]
    valid = label != INVALID
    return {
        "accuracy": float(label == doc["label"]),
        "balanced_error": outcome(doc["subset"] == "relevant", label == doc["label"]),
        "hallucination_rate": float(label == ANSWER) if valid and doc["subset"] == "non_relevant" else None,
        "error_rate": float(label == NO_ANSWER) if valid and doc["subset"] == "relevant" else None,
        "invalid_rate": float(not valid),
    }
