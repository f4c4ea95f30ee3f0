"""Replies of a model, read: the rows that are made of each, and what is left out for which reason."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rapidfuzz import fuzz

from custom_metrics.abstention import is_abstention
from custom_metrics.abstention.folding import EDGE, NO_SPACES, fold
from custom_metrics.reading.no_answer import no_answer
from custom_metrics.reading.noise import scripts
from custom_metrics.reading.spans import Span
from custom_metrics.reading.tagged_text import merged, parse
from lm_eval_tasks.detection.language_tags import SURE, are_near, identifiable, identified

EMPTY, REFUSAL = "an empty reply", "a refusal"
NO_TEXT, OTHER_LANGUAGE = "no text (a loop, markup, code, noise)", "another language"
_MOST_SCRIPTS = 4  # of a text in one language, names included: Japanese alone has two, and Latin letters besides


class Reading(NamedTuple):
    """A reply, read."""

    rows: list[dict[str, Any]]  # what was made, each the fields that the reply adds to its document
    reasons: Counter[str]  # how many parts of the reply were left out, by reason


def _kept(**fields: Any) -> Reading:
    return Reading([fields], Counter())


def _left_out(reason: str) -> Reading:
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


# --------------------------------------------------------------------------------------------------------------- questions

ASKED = 2  # questions, by the prompt (mFAVA paper, Table 6)
ALIKE = 90.0  # two questions of an article are one from this rapidfuzz ratio of their folded words on
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
    """The questions about ``reference`` in a reply, as rows with ``question``.

    A line that ends with a colon is none ("Here are two questions:"). Where there are more lines than were asked for, those
    with a question mark are the questions. Many questions have none ("Açıklayınız.").
    """
    lines = [line for written in reply.splitlines() if (line := _LEAD.sub("", written).strip(' \t*_"“”„«»'))]
    if not lines:
        return _left_out(EMPTY)
    questions = [line for line in lines if not line.endswith((":", "："))]
    if len(questions) > ASKED:
        questions = [line for line in questions if _is_marked(line)] or questions
    reasons = Counter({"a line that is no question": len(lines) - len(questions)})
    reasons["more than were asked for"] += len(questions[LINES:])
    kept: list[str] = []
    for question in questions[:LINES]:
        reason = _fault(question, kept, doc["language"], doc["reference"])
        if reason:
            reasons[reason] += 1
        else:
            kept.append(question)
    return Reading([{"question": question} for question in kept], +reasons)


def _is_marked(line: str) -> bool:
    return bool(_MARK.search(line[-_LAST:]))


def _fault(question: str, earlier: list[str], language: str, reference: str) -> str | None:
    if len(question) < SHORTEST:
        return "too short"
    if len(question) > LONGEST:
        return "too long"
    if no_answer(question) is not None:
        return NO_TEXT
    if is_abstention(question, language) or is_abstention(question, "en"):
        return REFUSAL
    if other_language(question, language, reference):
        return OTHER_LANGUAGE
    if not _is_marked(question) and fold(question).strip(EDGE) in fold(reference):
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
    share = _SHARE_OF_PAIRS if _PAIRED.search(question) else _SHARE
    return bool(asked) and len(asked & held) >= share * len(asked)


def _units(text: str) -> set[str]:
    text = fold(text)
    pairs = {run[at : at + 2] for run in _PAIRED.findall(text) for at in range(len(run) - 1)}
    words = [word.strip(EDGE) for word in _PAIRED.sub(" ", text).split()]
    return pairs | {word[:5] for word in words if len(word) >= 4 or word.isdigit()}


# ----------------------------------------------------------------------------------------------------------------- answers

_LABEL = re.compile(r"^\s*\**(?:answer|passage)\**\s*:\**\s*", re.IGNORECASE)


def read_answer(reply: str, doc: Mapping[str, Any]) -> Reading:
    """The answer of a reply to ``question``, as a row with ``answer`` and no ``spans``.

    A model that says that the ``reference`` does not answer the question makes the question one to leave out.
    """
    answer = _LABEL.sub("", reply).strip()
    if not answer:
        return _left_out(EMPTY)
    if no_answer(answer, doc["question"], [doc["reference"]]) is not None:
        return _left_out(NO_TEXT)
    if is_abstention(answer, doc["language"]):  # in English, too
        return _left_out("the reference does not answer the question")
    if other_language(answer, doc["language"], doc["reference"]):
        return _left_out(OTHER_LANGUAGE)
    return _kept(answer=answer, spans=[])


# ---------------------------------------------------------------------------------------------------------- inserted errors

# Repairs of tags after which nobody knows where a span ends. Misspelt and capitalised categories are read, so is markup.
_BROKEN = {
    "opening tag that closes",
    "doubled opening tag",
    "closing tag of another category",
    "closing tag alone",
    "unclosed tag",
    "cut tag",
    "empty span",
}
_CUE = re.compile(r"^\s*\**(?:edited|passage)\**\s*:\**\s*", re.IGNORECASE)
_DELETED = re.compile(r"<delete>[^<]*</delete>", re.IGNORECASE)  # FAVA's mark of what an error takes the place of


def read_silver(reply: str, doc: Mapping[str, Any]) -> Reading:
    """The text with its errors, as a row with ``answer`` and ``spans`` (``[start, end, category]``).

    Every error is tagged, and nothing has changed outside of the tags. `doc` has ``answer``, the text before; ``spans``,
    its errors already; ``categories``, the kinds that were asked for.
    """
    repaired: Counter[str] = Counter()
    text, spans = parse(_DELETED.sub("", _CUE.sub("", reply)).strip(), repaired)
    if not text.strip():
        return _left_out(EMPTY)
    if _BROKEN & repaired.keys():
        return _left_out("tags that cannot be read")
    gone = Counter((span["category"], doc["answer"][span["start"] : span["end"]]) for span in doc["spans"])
    inserted = []
    for span in spans:
        known = (span.category, text[span.start : span.end])
        if gone[known]:
            gone[known] -= 1
        else:
            inserted.append(span)
    if +gone:
        return _left_out("errors that were there already are gone")
    if not inserted:
        return _left_out("no error inserted")
    if {span.category for span in inserted} - set(doc["categories"]):
        return _left_out("a kind of error that was not asked for")
    reason = _changed(text, inserted, doc["answer"])
    return _left_out(reason) if reason else _kept(answer=text, spans=_listed(spans))


def _changed(text: str, inserted: Iterable[Span], original: str) -> str | None:
    """What is wrong with a text that should be `original` but for its inserted spans; ``None`` where nothing is.

    The parts between the spans must stand in the original, in order and with nothing left over but at the spans. Letters,
    digits and symbols count, case and punctuation do not.
    """
    places: list[tuple[int, int]] = []  # those that overlap or touch as one
    for span in sorted(inserted):
        if places and span.start <= places[-1][1]:
            places[-1] = (places[-1][0], max(places[-1][1], span.end))
        else:
            places.append((span.start, span.end))
    whole = _solid(original)
    edges = [0, *(edge for place in places for edge in place), len(text)]
    first, *parts = (_solid(text[start:end]) for start, end in zip(edges[::2], edges[1::2], strict=True))
    at = len(first)
    if not whole.startswith(first):
        return "changed outside of the tags"
    for number, ((start, end), part) in enumerate(zip(places, parts, strict=True), 1):
        place = len(whole) - len(part) if number == len(parts) else whole.find(part, at)
        if place < at or not whole.startswith(part, place):
            return "changed outside of the tags"
        if _solid(text[start:end]) == whole[at:place]:
            return "a tag around words that were not changed"
        at = place + len(part)
    return None


def _solid(text: str) -> str:
    """A text without case, white space, punctuation and control characters."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(character for character in folded if unicodedata.category(character)[0] not in "PZC")


def _listed(spans: Sequence[Span]) -> list[list[Any]]:
    return [[span.start, span.end, span.category] for span in merged(spans)]


# ------------------------------------------------------------------------------------------------------------- translations


def read_translation(reply: str, doc: Mapping[str, Any]) -> Reading:
    """The translation of ``text``, which has tags, as a row with ``text`` and ``spans``.

    The order of the tags may change, as that of words does; their kinds and numbers may not. Of another ``part`` than
    ``answer``, tags are text.
    """
    before, had = parse(doc["text"])
    repaired: Counter[str] = Counter()
    text, spans = parse(reply.strip(), repaired) if doc["part"] == "answer" else (reply.strip(), [])
    if not text.strip():
        return _left_out(EMPTY)
    kinds, expected = (Counter(category for _, _, category in _listed(each)) for each in (spans, had))
    if _BROKEN & repaired.keys() or kinds != expected:
        return _left_out("other tags than before")
    if text.casefold() == before.casefold():
        return _left_out("not translated")
    if no_answer(text) is not None:
        return _left_out(NO_TEXT)
    if is_abstention(text, doc["language"]) and not is_abstention(before, doc["source_language"]):
        return _left_out(REFUSAL)
    if other_language(text, doc["language"]):
        return _left_out(OTHER_LANGUAGE)
    return _kept(text=text, spans=_listed(spans))
