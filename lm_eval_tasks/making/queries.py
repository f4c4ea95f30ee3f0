"""Questions about an article, read from a reply: one a line, checked for language, doubles and whether the article can
answer them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from rapidfuzz import fuzz

from custom_metrics.abstention import is_abstention
from custom_metrics.abstention.folding import EDGE, NO_SPACES, fold
from custom_metrics.reading.no_answer import no_answer
from lm_eval_tasks.making.replies import NO_TEXT, OTHER_LANGUAGE, Reading, other_language

__all__ = ["ALIKE", "ASKED", "answerable", "read_queries"]

ASKED = 2
"""Questions that the prompt asks for (mFAVA paper, Table 6)."""
ALIKE = 90.0
"""Two questions of an article are one from this rapidfuzz ratio of their folded words on."""

SHORTEST, LONGEST = 6, 500  # characters
LINES = 20  # of a reply that are looked at: a model that repeats itself may write thousands
_LAST = 20  # characters of a line, in which a question mark ends it
# A number, a letter, a mark of a list, Markdown, or a label before a question.
_LEAD = re.compile(
    r"^(?:[\s>*_#\-–—•·]+|\(?\d{1,2}\s*[.)、．:]\s*|\(?[a-bA-B][.)]\s+|(?:query|question)\s*\d{0,2}\s*[:.)]\s*)+",
    re.IGNORECASE,
)
_MARK = re.compile("[?？؟;՞]\\W*$")
_PAIRED = re.compile(f"{NO_SPACES.pattern}|[\uac00-\ud7a3]+")  # also Korean, whose words of two syllables take endings

# Shares of a question's words that its article holds, measured on the public questions (README.md).
_SHARE, _SHARE_OF_PAIRS = 0.25, 0.1


def read_queries(reply: str, doc: Mapping[str, Any]) -> Reading:
    """The questions of a reply, as rows with ``question``.

    A line that ends with a colon is none ("Here are two questions:"). Where there are more lines than were asked for, those
    with a question mark are the questions. Many questions have none ("Açıklayınız.").

    Args:
        reply: of a model.
        doc: ``language`` and ``reference``.
    """
    reasons: Counter[str] = Counter()
    lines = [line for written in reply.splitlines() if (line := _LEAD.sub("", written).strip(' \t*_"“”„«»'))]
    questions = [line for line in lines if not line.endswith((":", "："))]
    if len(questions) > ASKED:
        questions = [line for line in questions if _MARK.search(line[-_LAST:])] or questions
    reasons["a line that is no question"] += len(lines) - len(questions)
    reasons["more than were asked for"] += len(questions[LINES:])
    kept: list[str] = []
    for question in questions[:LINES]:
        reason = _wrong(question, kept, doc)
        if reason:
            reasons[reason] += 1
        else:
            kept.append(question)
    if not lines:
        reasons["an empty reply"] += 1
    return Reading([{"question": question} for question in kept], +reasons)


def _wrong(question: str, earlier: list[str], doc: Mapping[str, Any]) -> str | None:
    language, reference = doc["language"], doc["reference"]
    if len(question) < SHORTEST:
        return "too short"
    if len(question) > LONGEST:
        return "too long"
    if no_answer(question) is not None:
        return NO_TEXT
    if is_abstention(question, language) or is_abstention(question, "en"):
        return "a refusal"
    if other_language(question, language, reference):
        return OTHER_LANGUAGE
    if not _MARK.search(question[-_LAST:]) and fold(question).strip(EDGE) in fold(reference):
        return "copied from the article"
    if any(fuzz.ratio(fold(question), fold(other)) >= ALIKE for other in earlier):
        return "a double"
    if not answerable(question, reference):
        return "not about the article"
    return "more than were asked for" if len(earlier) >= ASKED else None


def answerable(question: str, reference: str) -> bool:
    """Whether a text can answer a question as far as words go: it holds a quarter of them.

    A word is one of four letters or more, or a number, and its first five letters count; in scripts without spaces, and in
    Korean, two neighbouring characters do, of which the text holds a tenth. That refuses questions about something else.
    Whether the answer is in the text is for a model to say (the task ``mfava_make_answers_<language>``).
    """
    asked, held = _units(question), _units(reference)
    if not asked:
        return False
    share = _SHARE_OF_PAIRS if _PAIRED.search(question) else _SHARE
    return len(asked & held) >= share * len(asked)


def _units(text: str) -> set[str]:
    text = fold(text)
    runs = _PAIRED.findall(text)
    pairs = {run[at : at + 2] for run in runs for at in range(len(run) - 1)}
    words = [word.strip(EDGE) for word in _PAIRED.sub(" ", text).split()]
    return pairs | {word[:5] for word in words if len(word) >= 4 or word.isdigit()}
