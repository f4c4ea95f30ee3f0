"""The steps of making data: their names and tasks, and the parsers of a model's replies, which return the rows of generated
data in each, and the number of parts left out, by reason."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rapidfuzz import fuzz

from custom_metrics.abstention import is_abstention
from custom_metrics.abstention.folding import EDGE, NO_SPACES, fold
from custom_metrics.reading.no_answer import no_answer
from custom_metrics.reading.response import final_answer
from custom_metrics.reading.spans import Span
from custom_metrics.reading.tagged_text import merged, parse
from lm_eval_tasks.detection.language_tags import SURE, are_near, identifiable, identified
from lm_eval_tasks.mfava.dataset import LANGUAGES as MFAVA

LANGUAGES = {"en": "English", **{code: language.name for code, language in MFAVA.items()}}
"""Code to English name of the languages of generated data: mFAVA's, and English, from which the paper translates."""
PARTS = ("question", "reference", "answer")  # the texts of a row, each translated separately; only the answer has tags
QUERIES, ANSWERS, SILVER, TRANSLATE = "queries", "answers", "silver", "translate"

EMPTY, REFUSAL = "an empty reply", "a refusal"
NO_TEXT, OTHER_LANGUAGE = "no text (a loop, markup, code, noise)", "another language"
_MOST_SCRIPTS = 4  # of a text in one language, names included: Japanese alone has two, and Latin letters besides


class ParsedReply(NamedTuple):
    rows: list[dict[str, Any]]  # generated data: of each row, the fields that it adds to those of the document
    reasons: Counter[str]  # number of parts of the reply that were left out, by reason


def _accepted(**fields: Any) -> ParsedReply:
    return ParsedReply([fields], Counter())


def _rejected(reason: str) -> ParsedReply:
    return ParsedReply([], Counter([reason]))


def other_language(text: str, language: str, beside: str = "") -> str | None:
    """The language, or else the script, of a text that is almost certainly not in `language`; ``None`` for all others,
    and for most that are shorter than a question. A language that py3langid does not know (Sindhi) is judged by its
    script alone. `beside` is a text in that language, for its scripts."""
    counts, expected = scripts(text), scripts(beside)
    if len(counts) > _MOST_SCRIPTS:
        return "a mixture"
    code, probability = identified(text)
    sure = probability >= SURE and code != language and language in identifiable()
    if sure and not are_near(code, language):
        return code
    strange = [(number, script) for script, number in counts.items() if script not in expected]
    if expected and 2 * sum(number for number, _ in strange) > sum(counts.values()):
        return max(strange)[1].lower()
    return None


def scripts(text: str) -> Counter[str]:
    """The number of a text's letters in each script, by the names of Unicode ("CYRILLIC", "CJK"; kana are "KATAKANA")."""
    counts: Counter[str] = Counter()
    for char, number in Counter(filter(str.isalpha, text)).items():
        name = unicodedata.name(char, "?").removeprefix("FULLWIDTH ").removeprefix("HALFWIDTH ")
        script = re.split("[ -]", name, maxsplit=1)[0]
        counts[{"HIRAGANA": "KATAKANA", "IDEOGRAPHIC": "CJK"}.get(script, script)] += number
    return counts


# --------------------------------------------------------------------------------------------------------------- questions

QUESTIONS_WANTED = 2  # by the prompt (mFAVA paper, Table 6)
ALIKE = 90.0  # rapidfuzz ratio of their folded words from which two questions of an article are duplicates
SHORTEST, LONGEST = 6, 500  # characters
LINES = 20  # of a reply that are parsed: a model that repeats itself may write thousands
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


def read_queries(reply: str, doc: Mapping[str, Any]) -> ParsedReply:
    """The questions about ``reference`` in a reply, as rows with ``question``. A line that ends with a colon is no
    question ("Here are two questions:"). Where there are more lines than were asked for, those with a question mark are
    the questions. (Many questions have no question mark: "Açıklayınız.")"""
    lines = [line for raw in reply.splitlines() if (line := _LEAD.sub("", raw).strip(' \t*_"“”„«»'))]
    if not lines:
        return _rejected(EMPTY)
    questions = [line for line in lines if not line.endswith((":", "："))]
    if len(questions) > QUESTIONS_WANTED:
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
    return ParsedReply([{"question": question} for question in kept], +reasons)


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
    return "more than were asked for" if len(earlier) >= QUESTIONS_WANTED else None


def answerable(question: str, reference: str) -> bool:
    """Whether a text holds a quarter of a question's words, so that it may answer it.

    Words of four letters or more count, by their first five letters, and numbers. In scripts without spaces, and in Korean,
    pairs of neighbouring characters count, and a tenth of them is enough. This refuses questions about another subject. A
    model decides whether the text really has the answer (task ``mfava_make_answers``).
    """
    units, reference_units = _units(question), _units(reference)
    share = _SHARE_OF_PAIRS if _PAIRED.search(question) else _SHARE
    return bool(units) and len(units & reference_units) >= share * len(units)


def _units(text: str) -> set[str]:
    text = fold(text)
    pairs = {run[at : at + 2] for run in _PAIRED.findall(text) for at in range(len(run) - 1)}
    words = [word.strip(EDGE) for word in _PAIRED.sub(" ", text).split()]
    return pairs | {word[:5] for word in words if len(word) >= 4 or word.isdigit()}


# ----------------------------------------------------------------------------------------------------------------- answers

_LABEL = re.compile(r"^\s*\**(?:answer|passage)\**\s*:\**\s*", re.IGNORECASE)


def read_answer(reply: str, doc: Mapping[str, Any]) -> ParsedReply:
    """The answer of a reply to ``question``, as a row with ``answer`` and no ``spans``. The question is left out where
    the model says that the ``reference`` does not answer it."""
    answer = _LABEL.sub("", reply).strip()
    if not answer:
        return _rejected(EMPTY)
    if no_answer(answer, doc["question"], [doc["reference"]]) is not None:
        return _rejected(NO_TEXT)
    if is_abstention(answer, doc["language"]):  # in English, too
        return _rejected("the reference does not answer the question")
    if other_language(answer, doc["language"], doc["reference"]):
        return _rejected(OTHER_LANGUAGE)
    return _accepted(answer=answer, spans=[])


# ---------------------------------------------------------------------------------------------------------- inserted errors

# Repairs of tags that leave the ends of a span uncertain. Misspelt and capitalised categories and markup are no obstacle.
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
_DELETED = re.compile(r"<delete>[^<]*</delete>", re.IGNORECASE)  # FAVA's mark of the text that an error replaces


def read_silver(reply: str, doc: Mapping[str, Any]) -> ParsedReply:
    """The text with its errors, as a row with ``answer`` and ``spans`` (``[start, end, category]``). Every error must be
    tagged, and the text outside of the tags unchanged. `doc` has ``answer``, the text before; ``spans``, the errors that
    it had; ``categories``, the requested kinds of errors."""
    repaired: Counter[str] = Counter()
    text, spans = parse(_DELETED.sub("", _CUE.sub("", reply)).strip(), repaired)
    if not text.strip():
        return _rejected(EMPTY)
    if _BROKEN & repaired.keys():
        return _rejected("tags that cannot be read")
    earlier = Counter((span["category"], doc["answer"][span["start"] : span["end"]]) for span in doc["spans"])
    inserted = []
    for span in spans:
        error = (span.category, text[span.start : span.end])
        if earlier[error]:
            earlier[error] -= 1
        else:
            inserted.append(span)
    if +earlier:
        return _rejected("errors that were there already are gone")
    if not inserted:
        return _rejected("no error inserted")
    if {span.category for span in inserted} - set(doc["categories"]):
        return _rejected("a kind of error that was not asked for")
    reason = _changed(text, inserted, doc["answer"])
    return _rejected(reason) if reason else _accepted(answer=text, spans=_listed(spans))


def _changed(text: str, inserted: Iterable[Span], original: str) -> str | None:
    """The fault of a text that should equal `original` outside of its inserted spans; ``None`` where it does. The parts
    between the spans must occur in the original, in order, and cover it except at the spans. Letters, digits and symbols
    are compared, case and punctuation are not."""
    places: list[tuple[int, int]] = []  # spans that overlap or touch are merged
    for span in sorted(inserted):
        if places and span.start <= places[-1][1]:
            places[-1] = (places[-1][0], max(places[-1][1], span.end))
        else:
            places.append((span.start, span.end))
    solid = _solid(original)
    edges = [0, *(edge for place in places for edge in place), len(text)]
    first, *outside = (_solid(text[start:end]) for start, end in zip(edges[::2], edges[1::2], strict=True))
    position = len(first)
    if not solid.startswith(first):
        return "changed outside of the tags"
    for number, ((start, end), piece) in enumerate(zip(places, outside, strict=True), 1):
        place = len(solid) - len(piece) if number == len(outside) else solid.find(piece, position)
        if place < position or not solid.startswith(piece, place):
            return "changed outside of the tags"
        if _solid(text[start:end]) == solid[position:place]:
            return "a tag around words that were not changed"
        position = place + len(piece)
    return None


def _solid(text: str) -> str:
    """A text without case, white space, punctuation and control characters."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(character for character in folded if unicodedata.category(character)[0] not in "PZC")


def _listed(spans: Sequence[Span]) -> list[list[Any]]:
    return [[span.start, span.end, span.category] for span in merged(spans)]


# ------------------------------------------------------------------------------------------------------------- translations


def read_translation(reply: str, doc: Mapping[str, Any]) -> ParsedReply:
    """The translation of ``text``, which has tags, as a row with ``text`` and ``spans``. The order of the tags may
    change, as that of words does; their kinds and numbers may not. Only the ``part`` ``answer`` has tags; elsewhere they
    are text."""
    original, original_spans = parse(doc["text"])
    repaired: Counter[str] = Counter()
    text, spans = parse(reply.strip(), repaired) if doc["part"] == "answer" else (reply.strip(), [])
    if not text.strip():
        return _rejected(EMPTY)
    kinds, expected = (Counter(category for _, _, category in _listed(group)) for group in (spans, original_spans))
    if _BROKEN & repaired.keys() or kinds != expected:
        return _rejected("other tags than before")
    if text.casefold() == original.casefold():
        return _rejected("not translated")
    if no_answer(text) is not None:
        return _rejected(NO_TEXT)
    if is_abstention(text, doc["language"]) and not is_abstention(original, doc["source_language"]):
        return _rejected(REFUSAL)
    if other_language(text, doc["language"]):
        return _rejected(OTHER_LANGUAGE)
    return _accepted(text=text, spans=_listed(spans))


# ------------------------------------------------------------------------------------------------------ the steps' tasks

STEPS: dict[str, Callable[[str, Mapping[str, Any]], ParsedReply]] = {
    QUERIES: read_queries,
    ANSWERS: read_answer,
    SILVER: read_silver,
    TRANSLATE: read_translation,
}
"""Step to the parser of its replies, in the paper's order."""


def task_name(step: str) -> str:
    return f"mfava_{step}" if step == TRANSLATE else f"mfava_make_{step}"


def step_of(task: str) -> str | None:
    return next((step for step in STEPS if task_name(step) == task), None)


def parse_reply(response: str | None, doc: Mapping[str, Any]) -> ParsedReply:
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
