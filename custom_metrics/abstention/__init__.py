"""Abstention: whether an answer says that it cannot answer ("The passages do not say", "I don't know", "unanswerable")

The phrases live in one readable table a language; `patterns.py` finds them, this file decides what they mean.
``tables/README.md`` says which sentences abstain: a ``bare`` phrase, one that ``abstains`` by itself, and the ``material``
that is ``silent``; a turn or a concession makes it an answer again.

The answer as a whole abstains when its first sentence of substance does; when a later one does by itself ("I don't know",
also after facts that are beside the question); or when a later one finds the material silent and no sentence before it
answers directly. The text after a last "Answer:" decides alone. English phrases are looked for in every answer: models
often answer in English, whatever the language of the question.

An answer that only says what the material treats instead ("they focus on other towers") abstains, too. An answer that
reports a numbered passage, after a caveat or before what is missing, does not ("The exact day is not given, but passage 2
says 1889").

At most the first :data:`HEAD` and the last :data:`TAIL` characters of a text are read, so the time is bounded however long
it is: an abstention stands at the front or at the end of what a model writes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice

from custom_metrics.abstention.clause_reading import (
    abstains_in_clauses,
    denies_question,
    one_answers,
    tells_something_else,
)
from custom_metrics.abstention.folding import EDGE, NO_SPACES, SIGNS, is_boundary
from custom_metrics.abstention.labelled_parts import NOTHING, fields
from custom_metrics.abstention.patterns import Hits
from custom_metrics.abstention.phrases import LANGUAGES, Lexicon, lexicon_of, likely_languages, supported_language
from custom_metrics.abstention.sentence_reading import (
    BESIDE,
    CONCEDED,
    ITEM,
    LONGEST_BARE,
    SOMETHING_ELSE,
    TRIGGERS,
    TURNED,
    Sentence,
    is_bare,
    reviews_passages,
    sources_of,
)
from custom_metrics.abstention.sentence_reading import NOTHING as NOTHING_SAID
from custom_metrics.abstention.sentence_splitting import (
    MASK,
    mask_titles,
    split,
    stated_text,
    without_quotations,
)

__all__ = [
    "LANGUAGES",
    "abstains_in_other_language",
    "affirms_presence",
    "concluded_verdict",
    "denies_presence",
    "is_abstention",
    "labelled_verdict",
]

HEAD, TAIL = 2000, 1000
EARLY = 30  # characters at the front of a sentence in which a "however" still turns it
MOST_STATEMENTS = 2  # beside one about the material's silence; a text that states more is an essay, not an abstention

# A digit, a capital inside a sentence, a script without capitals or spaces: what could be a name or a number.
_NAMES = re.compile(r"\d|(?:(?<=[^\W.!?] )|(?<=, ))[^\W\d_a-z](?![\s'’])|" + NO_SPACES.pattern)
_NUMBER = re.compile(r"\d")
_CLAUSES = re.compile("[,，、،;；]")
_IN_BRACKETS = re.compile(r"\([^()]*\)?")
_COLON = re.compile(r".{20}[:：]\s?\S.{20}")
_SHORT_NO = 2  # letters
_LONGEST_CONCLUSION = 120
_LEADS = (":", "-", ",", "、", "،")
_SHORT_LEAD = 24  # characters: "In short, no"
_NEAR_WORDS, _NEAR_UNSPACED = 5, 8  # between what names a verdict and the verdict
_LONGEST_VERDICT = 60  # characters under a label; more is an explanation
_SHORT_VALUE = 20
_NEAR = 45  # characters between "I don't know" and the "but" that turns it


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
    if not isinstance(text, str) or not text:
        return False
    return _reads_as_abstention(excerpt(text), supported_language(language), partial)


def excerpt(text: str) -> str:
    """The first :data:`HEAD` and last :data:`TAIL` characters of a text."""
    return text if len(text) <= HEAD + TAIL else text[:HEAD] + "\n" + text[-TAIL:]


@lru_cache(maxsize=8192)  # models repeat themselves: most abstentions of a run are the same few sentences
def _reads_as_abstention(text: str, language: str | None, partial: bool) -> bool:
    if any(_abstains_in(text, lexicon, partial) for _, lexicon in lexicons(text, language)):
        return True
    # an object without an answer: {"answer": null}, {"answerable": false}
    values = [field.value.lower() for field in fields(text)] if text[:1] in "{[<`" else []
    return bool(values) and (values[0] == "false" or (values[0] == NOTHING and "true" not in values))


def abstains_in_other_language(text: str, language: str | None) -> bool:
    """Whether an answer abstains, or says a mere "no", in another language than it was asked for.

    Of all :data:`LANGUAGES`, the two count that the text most looks like; none where it looks most like its own. A "no" of
    two letters ("ne", "la") is as often a name or a symbol, and does not count; one of a single Han character does.

    It is for answers that neither affirm nor abstain in `language` and in English. ``False`` where the language is
    ``None``: :func:`is_abstention` has then read all of them.
    """
    own = supported_language(language)
    text = excerpt(text)
    if own is None or not text or (likely := likely_languages(text))[0] == own:
        return False
    lexicons = [lexicon_of(code) for code in likely if code not in (own, "en")]
    if any(_affirms_in(text, lexicon) for lexicon in lexicons):
        return False
    short = len(text.strip(EDGE)) <= _SHORT_NO and not NO_SPACES.search(text)
    return any(_abstains_in(text, lexicon) or (not short and _denies_in(text, lexicon)) for lexicon in lexicons)


def lexicons(text: str, language: str | None) -> list[tuple[str, Lexicon]]:
    """The languages in which a text is read, and their compiled phrases."""
    own = supported_language(language)
    if own is not None:
        return [(own, lexicon_of(own))]
    return [(code, lexicon_of(code)) for code in likely_languages(excerpt(text))]


def _abstains_in(text: str, lexicon: Lexicon, partial: bool = True) -> bool:
    if not decide(lexicon.fold(text), lexicon, partial=partial):
        return False
    # A title in capitals ("I Don't Know How She Does It is a film") is a name, not a statement.
    masked = mask_titles(text)
    return masked == text or decide(lexicon.fold(masked), lexicon, partial=partial)


def denies_presence(text: str, language: str | None = None, question: str | None = None) -> bool:
    """Whether an answer is a "no" to whether the answer is present: bare, with a few words that name nothing ("No, it does
    not"), or with the prompt's own words ("No, answer is present"). To a `question` that asks who or when, any "no" without
    a number is one ("No, all of them are about trams")."""
    return any(_denies_in(text[: HEAD + TAIL], lexicon, question) for _, lexicon in lexicons(text[:HEAD], language))


def _denies_in(text: str, lexicon: Lexicon, question: str | None = None) -> bool:
    folded = lexicon.fold(text).strip(EDGE)
    rest = _after_particle(lexicon.no, without_quotations(folded, lexicon) if '"' in folded else folded)
    if rest is None:
        return False
    hits = lexicon.search(rest)
    if not rest or "present" in hits or (len(rest.split()) <= 4 and not _NAMES.search(text.strip())):
        return True
    # "No - the contexts are about something else"; but "No, according to context 3 it is Madrid" answers
    sources = sources_of(rest, hits)
    if any(end not in sources for _, end in hits.get("material", ())):
        return True
    return question is not None and not _NUMBER.search(rest) and "asks" in lexicon.details(lexicon.fold(question))


def affirms_presence(text: str, language: str | None = None) -> bool:
    """Whether an answer begins with a "yes" and its first sentence does not take that back ("Yes, I don't know")."""
    return any(_affirms_in(text[: HEAD + TAIL], lexicon) for _, lexicon in lexicons(text[:HEAD], language))


def _affirms_in(text: str, lexicon: Lexicon) -> bool:
    head = lexicon.fold(text).strip(EDGE)
    if _after_particle(lexicon.yes, head) is None:
        return False
    first = next((sentence for sentence, _ in split(head)), head)
    if not decide(first, lexicon, beside=False):
        return True
    hits = lexicon.search(first)  # "Yes, the answer is in passage 3, although ..."
    said = min((start for start, _ in hits.get("present", ())), default=len(first))
    return "abstains" not in hits and all(said < start for kind in TRIGGERS for start, _ in hits.get(kind, ()))


def labelled_verdict(text: str, language: str | None = None) -> bool | None:
    """The verdict that stands bare under a label, in an object or in a list.

    It is ``True`` for a "yes" and ``False`` for a "no" or an abstention. The last verdict counts; of verdicts on each
    passage, any "yes". ``None`` where there is no label (:mod:`custom_metrics.abstention.labelled_parts`), or no verdict
    under one.
    """
    labelled = fields(text)
    if not labelled:
        return None
    tables = lexicons(text, language)
    verdicts: list[bool] = []
    by_passage: list[bool | None] = []
    nothing = False
    for field in labelled:
        labels = [lexicon.fold(_CLAUSES.split(field.label)[-1]) for _, lexicon in tables]
        hits = [lexicon.search(label) for (_, lexicon), label in zip(tables, labels, strict=True)]
        if any("but" in kinds for kinds in hits):
            return None  # "Correction: ..."
        if field.value == NOTHING:
            nothing = True
            continue
        verdict = next((v for _, lexicon in tables if (v := _verdict(field.value, lexicon)) is not None), None)
        if field.numbered:
            by_passage.append(verdict)
        elif verdict is not None:  # a "yes" under "unanswerable" or "no_answer" says no
            negative = any(
                not TRIGGERS.isdisjoint(kinds) or is_bare(label, kinds)
                for label, kinds in zip(labels, hits, strict=True)
            )
            # "It cannot be told: no passage names it" says it twice
            verdicts.append(verdict is not (negative and (verdict or _is_particle(field.value, tables))))
    if verdicts:
        return verdicts[0] if text[:1] in "{[<`" else verdicts[-1]
    if len(by_passage) == 1 and len(labelled[0].value) > _SHORT_VALUE:
        return None  # "Context 1: no. Context 2: ..." in one line
    # two verdicts to choose from ("1. Yes, ... 2. I don't know"), none on each passage ("[1]")
    listed = {field.value[:3].lower() for field in labelled if field.numbered and field.label.isdigit()}
    if by_passage and not (len(labelled) <= 3 and {"yes", "i d"} <= listed):
        return None if None in by_passage and True not in by_passage else True in by_passage
    return False if nothing else None


def _is_particle(value: str, tables: list[tuple[str, Lexicon]]) -> bool:
    return any(lexicon.fold(value).strip(EDGE) in lexicon.no for _, lexicon in tables)


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
    if _denies_in(value, lexicon) or (short and _abstains_in(value, lexicon)):
        return False
    hits = lexicon.search(folded)
    present = not {"present", "affirms"}.isdisjoint(hits) and TRIGGERS.isdisjoint(hits)
    return True if short and present and not folded.startswith(lexicon.no) else None


def concluded_verdict(text: str, language: str | None = None) -> bool | None:
    """The "yes" or "no" that a short sentence at the front or at the end of an answer concludes with: "So the verdict would
    be no", "With these passages: no". ``None`` where there is none."""
    for _, lexicon in lexicons(text, language):
        folded = lexicon.fold(excerpt(text))
        if len(folded) > _LONGEST_CONCLUSION and not any(map(folded.__contains__, (*lexicon.no, *lexicon.yes))):
            continue
        stated = stated_text(folded, lexicon).strip(EDGE)
        if stated in (*lexicon.no, *lexicon.yes) and stated != folded.strip(EDGE):
            return stated in lexicon.yes  # "On these texts, my verdict: no"
        sentences = [*split(stated)]
        for sentence, asks in (*sentences[-1:], *sentences[:1]):
            if not asks and (verdict := _concludes(sentence, lexicon)) is not None:
                return verdict
    return None


def _concludes(sentence: str, lexicon: Lexicon) -> bool | None:
    text = sentence.strip(EDGE)
    if len(text) > _LONGEST_CONCLUSION:
        return None
    verdicts = lexicon.details(text).get("verdict", [])
    stop = len(text)
    hits = lexicon.search(text)
    particles = (*lexicon.yes, *lexicon.no)
    behind = [*verdicts, *(place for place in hits.get("openers", ()) if text[slice(*place)] not in particles)]
    while starts := [start for start, end in behind if end == stop]:  # "いいえ**となります**", "no, **unfortunately**"
        stop = len(text[: min(starts)].rstrip(EDGE))
    ends = [
        (len(particle), verdict)
        for particles, verdict in ((lexicon.yes, True), (lexicon.no, False))
        for particle in particles
        if text.endswith(particle, 0, stop)
    ]
    if not ends and "but" not in hits:  # "Going by these texts, not given"
        ends = [(end - start, False) for start, end in hits.get("bare", ()) if end == stop and start]
        verdicts = []
    if not ends or "untrue" in hits:
        return None
    longest, verdict = max(ends)  # "ไม่ใช่" ends with "ใช่"
    start = stop - longest
    other = lexicon.no if verdict else lexicon.yes
    lead = text[: max(0, start)]
    for first, last in verdicts:  # Serbian "rekao bih **da** ne"
        lead = lead[:first] + " " * (min(last, len(lead)) - first) + lead[last:]
    choice = not {word.strip(EDGE) for word in lead.split()}.isdisjoint(other)  # "yes or no"
    if not start and stop < len(text):
        return verdict  # "Hayır derdim", "いいえです"
    if start <= 0 or choice or not is_boundary(text[start - 1], text[start]):
        return None
    return verdict if _leads_to(text[:start], hits, verdicts) else None


def _leads_to(text: str, hits: Hits, verdicts: list[tuple[int, int]]) -> bool:
    """Whether the text in front of a particle names a verdict, or the material and then a mark, a few words before it; and
    neither abstains nor reports what others said. `hits` and `verdicts` are those of the sentence."""
    if any(end <= len(text) for kind in TRIGGERS for _, end in hits.get(kind, ())) or sources_of(text, {}):
        return False
    if any(end == len(text.rstrip()) for _, end in hits.get("citing", ())) and "material" in hits:
        return True  # "Going by these ten texts no"
    if any(  # "he said no", but "I would have said no"
        not any(first <= start and end <= last for first, last in verdicts) for start, end in hits.get("reported", ())
    ):
        return False
    named = max((end for _, end in verdicts if end <= len(text)), default=-1)
    between = text[named:]
    near = len(between) <= _NEAR_UNSPACED if NO_SPACES.search(between) else len(between.split()) <= _NEAR_WORDS
    if named >= 0 and near:
        return True
    marked = text.rstrip(" \"'([").endswith(_LEADS) and any(map(str.isalpha, text))
    return marked and (len(text) <= _SHORT_LEAD or any(end < len(text) for _, end in hits.get("material", ())))


def _after_particle(particles: tuple[str, ...], text: str) -> str | None:
    """The text behind a particle and a mark at its start; ``None`` where it does not start so."""
    for particle in particles:
        if text.startswith(particle):
            rest = text[len(particle) :]
            parted = rest[:1] == " " and NO_SPACES.match(particle)  # a mark, where words are written together
            if not rest or parted or rest.lstrip()[:1] in EDGE:
                return rest.lstrip()
    return None


def retracts_verdict(text: str, start: int, affirmed: bool, lexicon: Lexicon) -> bool:
    """Whether a folded text takes back the verdict that begins at `start` (a "yes" if `affirmed`): "I don't know the day,
    but it was in 1953", "Yes ... wait, no"."""
    sentences = [*islice(split(text[start:]), 2)]
    if not affirmed:
        if start or not sentences:
            return False
        sentence = Sentence(_IN_BRACKETS.sub(" ", sentences[0][0]), False, lexicon)
        near = any(at <= _NEAR for at, _ in sentence.hits.get("but", ()))
        return near and sentence.classify(False) in (TURNED, CONCEDED)
    follows = Sentence(sentences[1][0], False, lexicon) if len(sentences) > 1 else None
    if follows is None or not follows.opens_with("but", EARLY):
        return False
    rest = follows.text[min(end for _, end in follows.hits["but"]) :].strip(EDGE)
    return _after_particle(lexicon.no, rest) is not None or follows.classify(False).abstains


WHOLE = "an abstention: the text as a whole is a bare phrase"


def decide(
    text: str, lexicon: Lexicon, reasons: list[str] | None = None, partial: bool = True, beside: bool = True
) -> bool:
    """Whether a folded text abstains. `partial` is as in :func:`is_abstention`; with `beside`, a text that says only what
    the material treats instead abstains, too. `reasons` is filled with how each sentence was read, and the verdict."""
    text = stated_text(text, lexicon)
    sentences = [Sentence(piece, asks, lexicon) for piece, asks in split(text)]
    if reasons is None:
        may_abstain = any(sentence.may_abstain for sentence in sentences)
        if not (may_abstain or (not partial and abstains_in_clauses(sentences, lexicon))):
            return _whole_is_bare(text, sentences, lexicon)
        reasons = []
    spoke_of_material = abstained = only_bare = alone = sourced = solid = treats = valued = False
    reviewed = not partial and reviews_passages(sentences)
    answers = 0  # sentences that answer directly, since the last abstention
    about = 0  # sentences about the material that do not abstain
    related = 0  # sentences that paraphrase the material
    statements = 0  # all sentences that answer directly
    asked = False
    for sentence in sentences:
        material = "material" in sentence.hits
        replies = asked and sentence.is_short()  # to the question of the sentence before: "The year? Nowhere."
        label = sentence.classify(spoke_of_material or replies)
        if (
            label is NOTHING_SAID
            and not (partial or statements)
            and (tells_something_else(sentence, lexicon) or (replies and denies_question(sentence, lexicon)))
        ):
            label = SOMETHING_ELSE
        asked = sentence.asks and not partial
        reason = label.why
        states = takes_back = False
        if (material or spoke_of_material) and sentence.has_value():
            states = sourced = True
            takes_back = abstained
            material = False
            reason += "; it answers"
        elif label is BESIDE:
            treats = True
        elif label.abstains:
            lacks_more = not partial and sentences[0].is_value() and sentence.names_what_is_missing()
            turns = answers == 1 and sentence.opens_with("but", 4) and not lacks_more
            # only what is missing of an answer: "The third is not given"
            remainder = "part" in sentence.hits and not material and answers + related + about > 0
            listed = (solid and "silent" in sentence.hits) or sentence.asks_for_a_detail()
            detail = (sourced or (valued and "part" in sentence.hits and not material)) and not sentence.bare
            detail = detail or lacks_more
            detail = detail or (partial and (remainder or (answers > 0 and listed and not sentence.bare)))
            if not (answers or related or detail) or turns or (sentence.abstains_alone and not detail):
                only_bare = sentence.bare and "abstains" not in sentence.hits and (only_bare or not abstained)
                alone = alone or sentence.abstains_alone
                abstained, answers, related = True, 0, 0
            else:
                reason += ", but behind an answer that does not count"
        elif reviewed and ITEM.match(sentence.text) and not sentence.sourced and "affirms" not in sentence.hits:
            reason += "; it only names what one of the passages is about"
        elif sentence.asks or not sentence.text.strip(EDGE + MASK):
            reason += "; it asks, or is empty"
        elif sentence.names_source():
            states = True
            material = False  # named as a source, not spoken of
            reason += "; it answers and names the material as its source"
        elif abstained and sentence.reports_passage(EARLY):
            takes_back = True
            reason += "; it answers"
        elif sentence.lists_findings():
            solid = True
            answers += 1
            reason += "; it answers"
        elif partial and sentence.paraphrases():
            related += 1
            reason += "; it answers"
        elif sentence.may_answer(lexicon):
            states = True
            # After an abstention only a turn ("However, ...") can still be an answer; after a mere "None." anything.
            takes_back = abstained and (
                only_bare or sentence.sourced or "affirms" in sentence.hits or sentence.opens_with("but", EARLY)
            )
            sourced = sourced or sentence.sourced
            solid = solid or bool(_COLON.search(sentence.text))
            reason += "; it answers"
        reasons.append(reason)
        if takes_back:
            reasons.append("no abstention: an answer follows it that takes it back")
            return False
        valued = valued or (not label.abstains and sentence.states_number(len(sentence.text)))
        answers += states
        statements += states
        about += material and not label.abstains
        spoke_of_material = spoke_of_material or material or (not partial and bool(ITEM.match(sentence.text)))
    if (abstained or treats) and one_answers(sentences, lexicon):
        abstains = False
        reasons.append("no abstention: one of the passages answers, and only others are dismissed")
    elif abstained:
        abstains = alone or statements <= MOST_STATEMENTS
        essay = f"no abstention: it finds the material silent, but states {statements} other things"
        reasons.append("an abstention" if abstains else essay)
    elif beside and treats and not sentences[0].offers() and not (statements or related):
        abstains = True
        reasons.append("an abstention")
    else:
        abstains = _whole_is_bare(text, sentences, lexicon)
        reasons.append(WHOLE if abstains else "no abstention: no sentence abstains")
    return abstains


def _whole_is_bare(text: str, sentences: list[Sentence], lexicon: Lexicon) -> bool:
    """Whether a text of several "sentences" is one bare phrase ("n. a.")."""
    return len(sentences) != 1 and len(text) <= LONGEST_BARE and is_bare(text, lexicon.search(text))
