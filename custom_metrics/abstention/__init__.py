"""Abstention: whether an answer says that it cannot answer ("The passages do not say", "I don't know", "unanswerable")

The phrases live in one readable table a language; `patterns.py` finds them, this file decides what they mean.
``tables/README.md`` says which sentences abstain: a ``bare`` phrase, one that ``abstains`` by itself, and the ``material``
that is ``silent``; a turn or a concession makes it an answer again. English phrases are looked for in every answer.

The answer as a whole abstains when its first sentence of substance does; when a later one does by itself ("I don't know",
also after facts beside the question); when a later one finds the material silent and no sentence before it answers
directly; or when it only says what the material treats instead. Text after a last "Answer:" decides.

At most the first :data:`HEAD` and the last :data:`TAIL` characters of a text are read, so the time is bounded however long
it is: an abstention stands at the front or at the end of what a model writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from custom_metrics.abstention.folding import EDGE, NO_SPACES, SIGNS, fold
from custom_metrics.abstention.phrases import LANGUAGES, Lexicon, lexicon_of, likely_languages, supported_language
from custom_metrics.abstention.sentence_reading import (
    BARE,
    BESIDE,
    LONGEST_BARE,
    MASK,
    NOTHING,
    SILENT,
    TRIGGERS,
    Sentence,
    is_bare,
    length,
    sources_of,
    split,
    stated_text,
    without_quotations,
)

__all__ = [
    "LANGUAGES",
    "Decision",
    "affirms_presence",
    "denies_presence",
    "is_abstention",
    "labelled_verdict",
    "only_asks",
    "read_abstention",
]

HEAD, TAIL = 2000, 1000
LONGEST_TITLE = 10  # of a film, with a question mark
EARLY = 30  # characters at the front of a sentence in which a "however" still turns it
LONG_ANSWER = 200  # characters; what stands behind one and is missing is a detail
MOST_STATEMENTS = 2  # beside one about the material's silence; a text that states more is an essay, not an abstention

# A digit, a capital inside a sentence, a script without capitals or spaces: what could be a name or a number.
_NAMES = re.compile(r"\d|(?:(?<=[^\W.!?] )|(?<=, ))[^\W\d_a-z](?![\s'’])|" + NO_SPACES.pattern)
_CLAUSES = re.compile("[,，、،;；]")
_LONGEST_VERDICT = 60  # characters under a label; more is an explanation


class Decision(NamedTuple):
    """Whether a text abstains, and why. It is `sure` where a phrase decided, not where there was none to decide."""

    abstains: bool
    reason: str
    sure: bool
    sentences: tuple[tuple[str, str], ...] = ()
    """Each sentence that was read, folded, and how."""


def is_abstention(text: str | None, language: str | None = None, partial: bool = True) -> bool:
    """Whether an answer says that it cannot answer.

    Reasoning blocks are not removed: pass what :func:`custom_metrics.reading.response.final_answer` returns.

    Args:
        text: a model's answer; ``None``, blank and non-text answers do not abstain (they say nothing).
        language: its ISO 639 code (``"de"``, also ``"de-AT"``); phrases of that language and of English count. ``None``
            or a code without a table: those of the two :data:`LANGUAGES` that the text most looks like.
        partial: whether a partial answer that says what is missing counts as an answer ("It gives two of three reasons: ...
            The third is not given"), as for a question that wants a long one. For a question with one answer it does not.
    """
    return read_abstention(text, language, partial).abstains


def read_abstention(text: str | None, language: str | None = None, partial: bool = True) -> Decision:
    """Whether an answer says that it cannot answer, and why. Arguments are those of :func:`is_abstention`."""
    if not isinstance(text, str) or not text.strip():
        return Decision(False, "there is nothing to read", True)
    return _read(excerpt(text), supported_language(language), partial)


def excerpt(text: str) -> str:
    """The first :data:`HEAD` and last :data:`TAIL` characters of a text."""
    return text if len(text) <= HEAD + TAIL else text[:HEAD] + "\n" + text[-TAIL:]


@lru_cache(maxsize=8192)  # models repeat themselves: most abstentions of a run are the same few sentences
def _read(text: str, language: str | None, partial: bool) -> Decision:
    decisions = [decide(lexicon.fold(text), lexicon, partial) for _, lexicon in lexicons(text, language)]
    decision = max(decisions, key=lambda decision: (decision.abstains, decision.sure))
    # an object without an answer: {"answer": null}, {"answerable": false}
    values = [field.value.lower() for field in fields(text)] if text[:1] in "{[<`" else []
    if not decision.abstains and values and (values[0] == "false" or (values[0] == _NULL and "true" not in values)):
        return Decision(True, "an object without an answer", True)
    return decision


def lexicons(text: str, language: str | None) -> list[tuple[str, Lexicon]]:
    """The languages in which a text is read, and their compiled phrases."""
    own = supported_language(language)
    if own is not None:
        return [(own, lexicon_of(own))]
    return [(code, lexicon_of(code)) for code in likely_languages(excerpt(text))]


def denies_presence(text: str, language: str | None = None) -> bool:
    """Whether an answer is a "no" to whether the answer is present: bare, with a few words that name nothing ("No, it does
    not"), with the prompt's own words ("No, answer is present"), or about the material ("No, all are about trams")."""
    return any(_denies_in(text[: HEAD + TAIL], lexicon) for _, lexicon in lexicons(text[:HEAD], language))


def _denies_in(text: str, lexicon: Lexicon) -> bool:
    rest = _after_particle(lexicon.no, without_quotations(lexicon.fold(text).strip(EDGE), lexicon))
    if rest is None:
        return False
    hits = lexicon.search(rest)
    if not rest or "present" in hits or (len(rest.split()) <= 4 and not _NAMES.search(text.strip())):
        return True
    # "No - the contexts are about something else"; but "No, according to context 3 it is Madrid" answers
    sources = sources_of(rest)
    return any(end not in sources for _, end in hits.get("material", ()))


def only_asks(text: str) -> bool:
    """Whether an answer does nothing but ask: the question again, or others; the last one may be cut."""
    sentences = [*split(fold(excerpt(text)).strip())]
    asking = [asks and length(sentence) > LONGEST_TITLE for sentence, asks in sentences]
    return any(asking) and (
        all(asking) or (all(asking[:-1]) and text.strip().lower().startswith(sentences[-1][0].strip()))
    )


def affirms_presence(text: str, language: str | None = None) -> bool:
    """Whether an answer begins with a "yes" and its first sentence does not take that back ("Yes, I don't know")."""
    return any(_affirms_in(text[: HEAD + TAIL], lexicon) for _, lexicon in lexicons(text[:HEAD], language))


def _affirms_in(text: str, lexicon: Lexicon) -> bool:
    head = lexicon.fold(text).strip(EDGE)
    if _after_particle(lexicon.yes, head) is None:
        return False
    first = next((sentence for sentence, _ in split(head)), head)
    return not decide(first, lexicon, beside=False).abstains


def labelled_verdict(text: str, language: str | None = None) -> bool | None:
    """The verdict that stands bare under a label, in an object or in a list.

    It is ``True`` for a "yes" and ``False`` for a "no" or an abstention. The last verdict counts; of verdicts on each
    passage, any "yes". ``None`` where there is no label (:func:`fields`), or no verdict under one.
    """
    labelled = fields(text)
    if not labelled:
        return None
    tables = lexicons(text, language)
    verdicts: list[bool] = []
    by_passage: list[bool | None] = []
    nothing = False
    for field in labelled:
        if field.value == _NULL:
            nothing = True
            continue
        verdict = next((v for _, lexicon in tables if (v := _verdict(field.value, lexicon)) is not None), None)
        if field.numbered:
            by_passage.append(verdict)
        elif verdict is not None:  # a "yes" under "unanswerable" or "no_answer" says no
            label = _CLAUSES.split(field.label)[-1]
            negative = any(_finds_missing(lexicon.fold(label), lexicon) for _, lexicon in tables)
            # "It cannot be told: no passage names it" says it twice
            said_no = any(lexicon.fold(field.value).strip(EDGE) in lexicon.no for _, lexicon in tables)
            verdicts.append(verdict is not (negative and (verdict or said_no)))
    if verdicts:
        return verdicts[0] if text[:1] in "{[<`" else verdicts[-1]
    if by_passage:
        return None if None in by_passage and True not in by_passage else True in by_passage
    return False if nothing else None


def _finds_missing(label: str, lexicon: Lexicon) -> bool:
    hits = lexicon.search(label)
    return not TRIGGERS.isdisjoint(hits) or is_bare(label, hits)


def _verdict(value: str, lexicon: Lexicon) -> bool | None:
    """Whether a short text is a "yes" or a "no"; ``None`` for anything else."""
    signs = {SIGNS[char] for char in value if char in SIGNS}
    if len(signs) == 1 and not any(map(str.isalnum, value)):
        return signs.pop()
    folded = lexicon.fold(value).strip(EDGE)
    if folded in ("y", "n"):
        return folded == "y"
    if _affirms_in(value, lexicon):
        return True
    short = len(value) <= _LONGEST_VERDICT
    if _denies_in(value, lexicon) or (short and decide(lexicon.fold(value), lexicon).abstains):
        return False
    hits = lexicon.search(folded)
    present = not {"present", "affirms"}.isdisjoint(hits) and TRIGGERS.isdisjoint(hits)
    return True if short and present and not folded.startswith(lexicon.no) else None


def _after_particle(particles: tuple[str, ...], text: str) -> str | None:
    """The text behind a particle and a mark at its start; ``None`` where it does not start so."""
    for particle in particles:
        if text.startswith(particle):
            rest = text[len(particle) :]
            parted = rest[:1] == " " and NO_SPACES.match(particle)  # a mark, where words are written together
            if not rest or parted or rest.lstrip()[:1] in EDGE:
                return rest.lstrip()
    return None


# Labelled fields: ``**Final answer:** No``, ``{"answerable": false}``, ``<answer>no</answer>``, ``\boxed{No}``, ``1. No``

MAX_EACH_END = 3000  # characters at the front, and as many at the end
_LONGEST_LABEL, _MOST_WORDS = 40, 4
_MARKUP = re.compile(r"[*_`#~|•$]+|^\s*>+")
_FORM = re.compile(r"[:：=→?？|]|->|\\boxed|^\W*\d{1,2}[\].):]|^#", re.MULTILINE)
_JSON = re.compile(
    r"[\"'](?P<label>[^\"'\n]{1,40})[\"']\s{0,9}:\s{0,9}"
    r"(?:\"(?P<value>[^\"\n]{0,400})\"|'(?P<single>[^'\n]{0,400})'|(?P<bare>[^\s,{}\[\]\"']{1,20})|(?P<empty>\[\s{0,9}\]))"
)
_ELEMENT = re.compile(r"<(?P<label>[\w-]{1,30})>(?P<value>[^<>]{0,400})</(?P=label)>")
_LATEX = re.compile(r"\\(?:text|textbf|mathrm|mathbf|textit|mbox) ?\{([^{}\\]{0,200})\}")
_BOXED = re.compile(r"\\(?:boxed|fbox) ?\{([^{}]{0,200})\}")
_NUMBERED = re.compile(
    r"\s*(?P<label>(?:[^\W\d]{1,20} ?)?[\[(]?(?P<number>\d{1,2})[\])]?"
    r"(?: ?(?:[-–—,&+]|to|and) ?[\[(]?\d{1,2}[\])]?){0,9})(?:[.):：]|(?<=\]))\s*(?P<value>.*)"
)
_LISTED = re.compile(r"\s*(?:[*\-•]\s|[(\[]?\w{1,2}[)\].])")  # choices, steps: no one value of the label above
_LABELLED = re.compile(
    r"\s*(?P<label>[^\s:：=→?？.。][^:：=→?？.。]{0,39}?)\s*(?P<mark>[:：=?？]|→|[-=]+>)+\s*(?P<value>.*)"
)
# The first and the last cell of a table's row.
_ROW = re.compile(r"\|(?P<label>[^|]{1,80})\|(?:[^|]{0,400}\|){0,8}(?P<value>[^|]{0,400})\|")
_NULL = "null"


class Field(NamedTuple):
    """A label and its value."""

    label: str
    value: str
    numbered: bool = False  # it is one of a list, about one of the passages


def fields(text: str) -> list[Field]:
    """The labels of an answer and their values, in their order; none where the text is prose. Any language is read."""
    text = text if len(text) <= 2 * MAX_EACH_END else text[:MAX_EACH_END] + "\n" + text[-MAX_EACH_END:]
    if text[:1] in "{[<`":  # fields of JSON, also of a broken one, or of XML elements
        matches = [match.groups() for pattern in (_JSON, _ELEMENT) for match in pattern.finditer(text)]
        pairs = [(label, next((v for v in values[:3] if v is not None), "None")) for label, *values in matches]
        if pairs:
            return [Field(label, _NULL if value in ("None", "NULL") else value) for label, value in pairs]
    return list(_fields_of_lines(text)) if _FORM.search(text) else []


def _fields_of_lines(text: str) -> Iterator[Field]:
    text = _LATEX.sub(r" \1 ", text)
    boxed = _BOXED.findall(text)
    if boxed:
        yield Field("", boxed[-1])
        return
    pending_label = None  # a heading or a label with nothing behind it: the next line is what stands under it
    for line in text.splitlines():
        plain = _MARKUP.sub(" ", line).strip()
        if cells := _ROW.fullmatch(line.strip()):
            yield Field(cells["label"].strip(), cells["value"].strip())
            continue
        if not plain:
            continue
        if pending_label is not None and not _LISTED.match(line):
            yield Field(pending_label, plain)
            pending_label = None
            continue
        pending_label = None
        if numbered := _NUMBERED.match(plain):
            yield Field(numbered["label"], numbered["value"], True)
            continue
        labelled = _LABELLED.match(plain)
        if labelled and _is_label(labelled["label"], 2 if labelled["mark"] in "?？" else _MOST_WORDS):
            if labelled["value"].strip():
                yield Field(labelled["label"], labelled["value"])
            else:
                pending_label = labelled["label"]
        elif line.lstrip().startswith("#") and _is_label(plain, _MOST_WORDS):
            pending_label = plain


def _is_label(text: str, max_words: int) -> bool:
    return len(text) <= _LONGEST_LABEL and len(text.split()) <= max_words


def decide(folded: str, lexicon: Lexicon, partial: bool = True, beside: bool = True) -> Decision:
    """Whether a folded text abstains by one lexicon; `beside`: also one that says only what the material treats."""
    text = stated_text(folded, lexicon)
    sentences = [Sentence(piece, asks, lexicon) for piece, asks in split(text)]
    taken_back = spoke_of_material = abstained = only_bare = alone = sourced = treats = read = False
    answers = statements = 0  # sentences that answer directly: since the last abstention, and in all
    about = told = 0  # sentences about the material without abstaining; characters of those that answer directly
    readings: list[tuple[str, str]] = []
    for sentence in sentences:
        material = "material" in sentence.hits
        label = sentence.classify(spoke_of_material)
        why = label.why
        read = read or label is not NOTHING
        takes_back = states = False
        if label is BESIDE:
            treats = True
        elif label.abstains:
            # only what is missing of an answer: "The third is not given"
            of_part = partial and "part" in sentence.hits and not material and answers + about > 0
            detail = of_part or (taken_back and sentence.bare) or (sourced and not sentence.bare)
            # behind a long answer; and "there are differences, but it does not say which"
            if partial and not (abstained or taken_back):
                detail = detail or (answers > 0 and told > LONG_ANSWER)
                detail = detail or (label is SILENT and about > 0 and sentence.answers_before_a_turn())
            detail = detail or (partial and answers > 0 and sentence.asks_for_a_detail())
            by_itself = sentence.bare or "abstains" in sentence.hits
            turns = answers == 1 and sentence.opens_with("but", 4)
            if not (answers or detail) or turns or (by_itself and not detail):
                only_bare = sentence.bare and "abstains" not in sentence.hits and (only_bare or not abstained)
                alone = alone or by_itself
                abstained, answers = True, 0
            else:
                why += ", but behind an answer that does not count"
        elif sentence.asks or not sentence.text.strip(EDGE + MASK):
            why += "; it asks, or is empty"
        elif sentence.names_source():
            states, material = True, False  # named as a source, not spoken of
            why += "; it answers and names the material as its source"
        elif abstained and sentence.reports_passage(EARLY):
            takes_back = True
        elif sentence.may_answer(lexicon):
            states = True
            # After an abstention only a turn ("However, ...") can still be an answer; after a mere "None." anything.
            affirms = "affirms" in sentence.hits or sentence.opens_with("but", EARLY)
            takes_back = abstained and (only_bare or sentence.sourced or affirms)
            sourced = sourced or sentence.sourced
            why += "; it answers"
        readings.append((sentence.text, why))
        if takes_back:
            abstained, taken_back = False, True
        answers += states
        statements += states
        told += states * length(sentence.text)
        about += material and not label.abstains
        spoke_of_material = spoke_of_material or material
    if abstained:
        abstains = alone or statements <= MOST_STATEMENTS
        essay = f"it finds the material silent, but states {statements} other things"
        reason = "a sentence abstains" if abstains else essay
    elif taken_back:
        abstains, reason = False, "an answer follows the abstention and takes it back"
    elif beside and treats and not sentences[0].offers() and not statements and about < MOST_STATEMENTS:
        abstains, reason = True, BESIDE.why
    else:
        abstains = len(sentences) != 1 and len(text) <= LONGEST_BARE and is_bare(text, lexicon.search(text))  # "n. a."
        reason = "the text as a whole is a bare phrase" if abstains else "no sentence abstains"
        readings += [(text, BARE.why)] if abstains else []
    return Decision(abstains, reason, abstains or read, tuple(readings))
