"""NoMIRACL's labels: whether the model says that the passages answer the question.

:func:`nomiracl_label` is the parser of the released code (``nomiracl`` 1.0.0), to the answer. :func:`robust_label` reads
what the released parser calls Invalid: reasoning blocks, chat debris, yes and no in the prompt's language, abstentions in
other words and languages, and answers that simply answer. What is no answer (:mod:`custom_metrics.reading.no_answer`) stays
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

from custom_metrics.abstention import (
    abstains_in_other_language,
    affirms_presence,
    concluded_verdict,
    denies_presence,
    is_abstention,
    labelled_verdict,
    lexicons,
    retracts_verdict,
)
from custom_metrics.abstention.folding import EDGE, legible
from custom_metrics.abstention.question_reading import breaks_off, leaves_open, only_names_material, only_prepares
from custom_metrics.abstention.sentence_splitting import MASK, denies_quotation, split, without_quotations
from custom_metrics.reading.no_answer import is_service_failure, is_unfilled, is_unrelated, no_answer, without_prompt
from custom_metrics.reading.reasoning import after_reasoning
from custom_metrics.reading.response import final_answer
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
# A verdict on each context ("1. I don't know 2. Yes, ..."): the prompt asks whether any of them answers.
_PER_CONTEXT = re.compile(r"(?:contexts?:?\s*)*\[?1[\].:)]")
# "I can't reply 'Yes, answer is present'"
_REFUSES = re.compile(r"(?:cannot|can't|not|unable to) (?:say|reply|respond|answer|state|claim|confirm)[^.]{0,30}$")
_SUBSTANCE = re.compile(r"[^\W_]")
_PLAIN = {
    phrase.lower() + mark: phrase for phrase in (ANSWER, NO_ANSWER) for mark in ("", ".")
}  # most answers of a run
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


def robust_label(
    response: str | None, language: str | None = None, question: str | None = None, passages: Sequence[str] = ()
) -> str:
    """The label that a careful reader gives an answer; Invalid only where there is nothing to read.

    It reads the result of :func:`custom_metrics.reading.response.final_answer`, without the parts of the prompt that the
    text begins with and without repetitions of the instruction.

    - ``"I don't know"``: also an abstention in other words, in the prompt's language or in any other with a phrase table,
      and a "no" in one of them, also under a label ("Answer: No", ``{"answerable": false}``).
    - ``"Yes, answer is present"``: also an answer that simply answers ("Paris", "[3]"), as its model took the passages to
      answer the question.
    - ``"Invalid"``: an answer that only turns the task around ("Please answer the question"), or has nothing to do with
      question and passages, and text that is no answer, of the kinds of :mod:`custom_metrics.reading.no_answer`.

    An answer with both of the prompt's phrases counts as the first of them, or as the last where it turns round before that
    ("But wait, ..."). An answer that judges each context is "Yes" if any of its verdicts is. A phrase that is quoted as the
    rule ('To say "Yes, answer is present", a context must ...') is no verdict.

    Args:
        response: the model's answer.
        language: ISO 639 code of the prompt's language, which is read first; ``None`` reads all languages.
        question, passages: as they stand in the prompt; without them, fewer kinds of no answer can be found.
    """
    final = final_answer(response)
    text = without_prompt(final, question, passages)
    if final and not text:  # the prompt repeated as a whole, and answered? What follows a question of its own was cut
        text = without_prompt(after_reasoning(response or ""), question, passages)
    if not _SUBSTANCE.search(text) or is_service_failure(text, question):
        return INVALID
    again = text != final and (question or "").startswith(text.strip())  # the question, and its beginning
    text = legible(text)
    if _SAYS_PRESENT in text.lower():
        text = _ECHO.sub(" ", text)
    if text.strip(EDGE) in _LETTERS:
        return _LETTERS[text.strip(EDGE)]
    if again or is_unfilled(text, question) or (text[:1] == "`" and no_answer(text, question, passages) == "code"):
        return INVALID
    lowered = _one_line(text).replace("’", "'").strip(" \"'*-_#")
    opens_with_phrase = lowered.startswith((ANSWER.lower(), NO_ANSWER.lower()))
    verdict = None if opens_with_phrase or _ASKS_BACK.match(lowered) else labelled_verdict(text, language)
    if verdict is not None:
        return ANSWER if verdict else NO_ANSWER
    label = _label_of_phrases(text, lowered, language)
    if label is None and only_prepares(text, language):
        rest = after_reasoning(response or "").partition(final)[2]  # behind a question of its own: "ANSWER: Yes"
        follows = without_prompt(rest.lstrip(), question, passages) if rest else ""
        return robust_label(follows, language, question, passages) if follows.strip() else INVALID
    if label is None and ANSWER.lower() not in lowered and affirms_presence(text, language):
        label = ANSWER
    if label is not None:
        return label
    if denies_presence(text, language, question):
        return NO_ANSWER
    if breaks_off(text, language):
        return INVALID
    if is_abstention(text, language, partial=False):
        return NO_ANSWER
    if ANSWER.lower() in lowered:  # quoted, in an answer that says nothing against it
        return ANSWER
    if not _SUBSTANCE.search(text) or _ASKS_BACK.match(lowered):
        return INVALID
    if concluded_verdict(text, language) is False or abstains_in_other_language(text, language):
        return NO_ANSWER
    if no_answer(text, question, passages) or is_unrelated(text, question, passages):
        return INVALID
    if leaves_open(text, language, question):
        return NO_ANSWER
    return INVALID if only_names_material(text, language, question) else ANSWER


def _label_of_phrases(text: str, lowered: str, language: str | None) -> str | None:
    """The label of an answer in the prompt's own phrases; ``None`` where it holds none, or only speaks of them."""
    if ANSWER.lower() not in lowered and NO_ANSWER.lower() not in lowered:
        return None
    if lowered in _PLAIN:
        return _PLAIN[lowered]
    _, lexicon = lexicons(text, language)[0]
    own = _CUT_QUOTE.sub(MASK, without_quotations(lexicon.fold(text), lexicon).strip(EDGE))
    mentions = list(_PHRASES.finditer(own))
    if not mentions:
        if _REFUSES.search(lowered, 0, max(0, lowered.find(ANSWER.lower()))):
            return NO_ANSWER
        if NO_ANSWER.lower() not in lowered and denies_quotation(own, lexicon):
            return NO_ANSWER
        if _ASKS_BACK.match(lowered):
            return INVALID
        has_both = ANSWER.lower() in lowered and NO_ANSWER.lower() in lowered
        unquoted = "\n".join(sentence for sentence, _ in split(own) if MASK not in sentence)
        return INVALID if has_both and not is_abstention(unquoted, language, partial=False) else None  # the instruction
    labels = [ANSWER if match[0][0] == "y" else NO_ANSWER for match in mentions]
    between = _PHRASES.sub("", own)
    if (
        ANSWER in labels
        and NO_ANSWER in labels
        and not _SUBSTANCE.search(between)
        and (len(labels) > 3 or "/" in between)
    ):
        return INVALID  # the two take turns, or as in the instruction
    if _REFUSES.search(own, 0, mentions[0].start()) and labels[0] == ANSWER:
        return NO_ANSWER
    for at in range(len(mentions) - 1, 0, -1):
        between = own[mentions[at - 1].end() : mentions[at].start()]
        if labels[at] != labels[0]:
            hits = lexicon.search(between)
            lead = len(between.rstrip(EDGE))
            concludes = any(stop == lead for _, stop in hits.get("openers", ())) and _SENTENCE_END.search(
                between[:lead]
            )
            if "but" in hits or concludes:
                return labels[at]
    if retracts_verdict(own, mentions[-1].start(), labels[-1] == ANSWER, lexicon):
        return NO_ANSWER if labels[-1] == ANSWER else ANSWER
    if ANSWER in labels and _PER_CONTEXT.match(own):
        return ANSWER
    return labels[0] if labels[0] == ANSWER or mentions[0].start() == 0 else NO_ANSWER if ANSWER in labels else None


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
