"""What an answer does with its question: leaves it open, turns it back to the user, or never comes to it."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import cache

from custom_metrics.abstention import lexicons
from custom_metrics.abstention.clause_reading import denies_telling, ends_in_denial
from custom_metrics.abstention.folding import EDGE, NO_SPACES, fold, is_word
from custom_metrics.abstention.patterns import Hits
from custom_metrics.abstention.phrases import Lexicon, lexicon_of, phrase_table, supported_language
from custom_metrics.abstention.sentence_reading import (
    ITEM,
    TRIGGERS,
    Sentence,
    length,
    numbered,
    only_openers,
    sources_of,
)
from custom_metrics.abstention.sentence_splitting import MASK, split, without_quotations

_LONGEST = 400  # characters; a longer text without any number or name explains something
_SHORT = 40  # characters of a sentence in front of a request: "Sure, I'd be happy to help!"
_TITLE = 24  # characters; a shorter question may be one ("Quo vadis?")
_LITTLE = 2  # letters
_COURTEOUS = 120  # characters of a text that only greets
_THANKS = 20  # characters of greetings that are no "of course"
_NAME = 3  # words from which a text is no mere name ("Nada Surf")
_BESIDE_INPUT = 18  # beside "I see no contexts": "in your message"
_TURNED = 8  # between "but" and the "not" of what it is instead
_FEW, _MOST = 3, 0.55  # letters, and their share, by which a word of the question is known in another form
_STEM = 5  # characters by which a name is known in another case: "Budapešti", "Budapeští"
_BRIEF = 54  # characters
_NUMBER = re.compile(
    r"[\d½¼¾]|[〇零一二三四五六七八九十百千万萬億亿]{2,}|[一二三四五六七八九十百千万](?=[年月日歳岁世個个人名座本])"
)
_VALUE = re.compile(r"(?<![\d\[(])(?!10(?!\d))\d{2,}")  # "the 10 passages"
_STATES = re.compile(r"[:：] ?\S")  # "I can help: Paris"
_PREPARING = frozenset(("requests", "prepares", "restates", "unasked"))
_ASKING = frozenset(("asks", "asks_number", "asks_name", "asks_date"))
_QUOTES = frozenset("'\"")
_SAYING = frozenset(("tells", "affirms", "present", "some", "besides", "only", "part", "but", "although", "citing"))
_ABOUT = frozenset(("material", "tells", "offer", "beside", "reviews"))
_UNIT = (
    r"[\s\-]?(?:[ck]?m(?![\w.])|km|[%€$]|met(?:er|r)|mèt|mét|мет|км|м(?![\w.])|kilom|килом|米|公里|公尺|キロ|メートル|미터|킬로|متر|ميٽر|میٹر"
    r"|كيلو|کیلو|ڪلو|मीटर|किलो|মিটার|কিলো|మీటర|కిలో|เมตร|กิโล|מטר|ק\"מ|mil(?:l|j|i)|милл|mita|tonn)"
)
_YEAR = re.compile(  # a year or a day, not "1560 metres"
    rf"(?<![\d.,])[12१२১২۱۲١٢๑๒]\d{{3}}(?!\d|[.,]\d|{_UNIT})|\d{{1,2}}[./-]\d{{1,2}}[./-]\d{{2}}|[〇零一二三四五六七八九]{{4}}"
    r"|[\d〇零一二三四五六七八九十百]{1,4} ?[年년]|\d(?:st|nd|rd|th)? century"
)
_AMOUNT = re.compile(rf"(?<![\d\[])\d[\d.,]*\d(?:{_UNIT})?|(?<![\d\[])\d{_UNIT}")
_UNFINISHED = ",:;-–—([，、：；،"
_EMPTY_ITEM = re.compile(r"\n\W*[^\W\d]*\W*\d{1,2}[.):]?\Z")
_SENTENCE = re.compile(r"(?:^|[.!?:;…\n])[\s\"'“”«»„(¿¡*-]*")
_CAPITAL = re.compile(r"(?<![^\W_])(?!I\b)[^\W\d_a-z]\w*")
_PART = re.compile("[,،、;:] ?")
_WORD = re.compile(r"\w+")


def only_prepares(text: str, language: str | None) -> bool:
    """Whether an answer comes to nothing of its question: it greets, promises to read, restates the task, asks the question
    again, or asks the user for the question or the material ("Sure! Could you paste the contexts again?")."""
    if len(text) > _LONGEST:
        return False
    return any(_only_prepares(lexicon.fold(text), lexicon) for _, lexicon in lexicons(text, language))


def _only_prepares(text: str, lexicon: Lexicon) -> bool:
    found = lexicon.details(text) if "?" not in text and "؟" not in text else None
    if found is not None and _PREPARING.isdisjoint(found) and ("greets" not in found or len(text) > _COURTEOUS):
        return False
    prepares, answers, greeted = False, False, 0
    for at, (sentence, asks) in enumerate(split(text)):
        details = lexicon.details(sentence)
        if not at and "unasked" in details:
            return True  # a summary, a story, a refusal of what is harmful: whatever follows
        for start, end in reversed(details.get("greets", ())):  # "no problem" is no "no"
            greeted += length(sentence[start:end].strip("\0"))
            sentence = sentence[:start] + "\0" * (end - start) + sentence[end:]
        sentence = sentence.replace("\0", "")
        if at and text.startswith(sentence.strip()):
            continue  # the question over and over, cut
        hits = lexicon.search(sentence)
        request = min((start for start, _ in details.get("requests", ())), default=len(sentence))
        missing = any(
            start + len(sentence[end:request]) <= _BESIDE_INPUT for start, end in details.get("missing", ())
        )  # "I see no contexts"
        abstains = [start for kind in (*TRIGGERS, "bare") for start, _ in hits.get(kind, ())]
        if "requests" in details:  # "It is not told; please send more" has abstained before
            return missing or not any(start < request for start in abstains)
        if missing:
            continue
        if "restates" in details and "but" not in hits:
            prepares = True
        elif (_VALUE.search(sentence) and not asks) or (abstains and not (asks and "prepares" in details)):
            return False
        elif (
            "prepares" in details
            and "but" not in hits
            and not _STATES.search(sentence)
            and not _ends(sentence, lexicon)
        ):
            prepares = not numbered(sentence)
            answers = answers or not prepares
        elif (
            asks
            and (len(sentence) > _TITLE or not _ASKING.isdisjoint(details))
            and not _affirms(sentence, hits, lexicon)
        ):
            prepares = True
        elif asks or _is_beside(sentence, hits, lexicon):
            answers = answers or sum(map(str.isalnum, sentence)) > _LITTLE  # unless a request follows
        else:
            return False
    return (prepares or greeted > _THANKS) and not answers


def _ends(sentence: str, lexicon: Lexicon) -> bool:
    """Whether a sentence ends with a "yes" or a "no"."""
    return sentence.rstrip(EDGE).split(" ")[-1].strip(EDGE) in (*lexicon.yes, *lexicon.no)


def _is_beside(sentence: str, hits: Hits, lexicon: Lexicon) -> bool:
    """Whether a request may follow a sentence: it is short or about the material, and says neither "yes" nor "no"."""
    beside = len(sentence) <= _SHORT or "material" in hits or "offer" in hits
    return beside and not _affirms(sentence, hits, lexicon)


def _affirms(sentence: str, hits: Hits, lexicon: Lexicon) -> bool:
    """Whether a sentence says that the answer is there, or begins with a "yes" or a "no"."""
    word = _WORD.search(sentence)
    return "present" in hits or "affirms" in hits or (word is not None and word[0] in (*lexicon.yes, *lexicon.no))


def breaks_off(text: str, language: str | None) -> bool:
    """Whether an answer begins to go through the passages one by one, and breaks off at one of them."""
    text = text.rstrip(" \n*_")
    if not is_word(text[-1:] or ".") and text[-1:] not in _UNFINISHED and not _EMPTY_ITEM.search(text):
        return False
    for _, lexicon in lexicons(text, language):
        (first, asks), *others = [*split(lexicon.fold(text.strip()).replace(":\n", ".\n"))] or [("", True)]
        leads = {} if asks else lexicon.details(first)
        cut = text[-1:] in _UNFINISHED and bool(text)
        if not cut and {"reviews", "prepares"}.isdisjoint(leads):
            continue
        last = others[-1][0] if others else first
        hits, begins = lexicon.search(last), lexicon.search(first)
        named = ITEM.match(last) or sources_of(last, hits) or "ordinals" in lexicon.details(last)
        reviews = "reviews" in leads and "material" in hits
        if not others:
            named, reviews = False, (reviews and not _STATES.search(text)) or (cut and only_openers(first, hits))
        elif cut and "reviews" in lexicon.details(last):
            reviews = True  # "Good question! Let's look at it together:"
        elif cut and not asks and not _STATES.search(first) and sources_of(first, begins):
            reviews = reviews or bool(named and {"present", "affirms", "tells"}.isdisjoint(begins))
        if not _VALUE.search(last) and (reviews or (named and not {"reviews", "prepares"}.isdisjoint(leads))):
            return True
    return False


def only_names_material(text: str, language: str | None, question: str | None) -> bool:
    """Whether a short text speaks of the material without a word of telling, a number, a passage, or a name that the
    question does not have: "Now I will translate the passages", "Read the contexts carefully". It is no answer."""
    own = supported_language(language)
    words = len(text.split()) + sum(map(len, NO_SPACES.findall(text))) // _FEW
    if own is None or words < _FEW or length(text) > _BRIEF or _NUMBER.search(text) or _STATES.search(text):
        return False
    if not question or question.lower() == question:
        return False  # a script without capitals: a name cannot be told
    lexicon = lexicon_of(own)
    folded = lexicon.fold(text)
    hits = lexicon.search(folded) | lexicon.details(folded)
    if "material" not in hits or not _SAYING.isdisjoint(hits) or not _QUOTES.isdisjoint(folded):
        return False
    said = {word.strip(EDGE) for word in folded.split()}
    if any(yes in folded if NO_SPACES.search(yes) else yes in said for yes in lexicon.yes):
        return False
    plain = _CAPITAL.sub(lambda match: match[0].lower() if lexicon.fold(match[0]) in _words(own) else match[0], text)
    return not _names(plain, question, own, inside=True)


def leaves_open(text: str, language: str | None, question: str | None) -> bool:
    """Whether an answer to a question for a number, a date or a name denies that it is told and gives none of these, nor a
    passage or a quotation: "There is a lot about the pier, and not a thing is said about its first year", "Only its length,
    506 metres, is given" to a "when"."""
    own = supported_language(language)
    text = "\n".join(line for line in text.splitlines() if not ITEM.match(line))
    short = len(text.split()) < _NAME and not NO_SPACES.search(text)
    if own is None or not question or short or len(text) > _LONGEST:
        return False
    lexicon = lexicon_of(own)
    asked = lexicon.details(lexicon.fold(question))
    if "asks" not in asked and "asks_number" not in asked:
        return False
    number = _YEAR if "asks_date" in asked else _VALUE if "asks_number" in asked else None
    if _denies_asked(text, question, lexicon, bool(number and number.search(text))):
        return True
    if "asks_number" in asked and (_YEAR if "asks_date" in asked else _NUMBER).search(text):
        return False
    told = _AMOUNT.sub("", text)
    named = "asks_name" in asked and not _names(told, question, own)
    if (named or "asks_number" in asked) and not _NUMBER.search(told) and _denies(told, lexicon):
        return True
    folded = lexicon.fold(told)
    sentences = [Sentence(sentence, asks, lexicon) for sentence, asks in split(without_quotations(folded, lexicon))]
    if any(_sets_against(sentence, lexicon) for sentence in sentences):
        return True
    details = lexicon.details(folded)
    # "Only the year, 1715, is told, not who it was"
    if told != text and {"only", "denies"} <= details.keys() and not _names(told, question, own, inside=True):
        return True
    refers = min((start for kind in ("elsewhere", "requests") for start, _ in details.get(kind, ())), default=0)
    return bool(refers) and _denies(folded[:refers], lexicon, told=True)


def _denies_asked(text: str, question: str, lexicon: Lexicon, valued: bool) -> bool:
    """Whether a clause denies that what the question asks for is told, and what stands in front of it speaks of the
    material: "We learn who owned it. The builder's name is simply not written". Where the text has a number of the asked
    kind (`valued`), only "not when it opened" does."""
    about = denied = asked = False
    for piece, asks in split(without_quotations(lexicon.fold(text), lexicon)):
        hits = lexicon.search(piece) | lexicon.details(piece)
        if denied and (not {"but", "present", "affirms", "some"}.isdisjoint(hits) or _NUMBER.search(piece)):
            return False
        turns = [start for start, _ in hits.get("but", ())]
        denials = [start for kind in ("denies", "bare", *TRIGGERS) for start, _ in hits.get(kind, ())]
        starts = [0, *turns, *(match.end() for match in _PART.finditer(piece) if len(piece) - match.end() > _TURNED)]
        for start in sorted({*starts}):
            clause = Sentence(piece[start:].strip(), asks, lexicon)
            if any(at >= start for at in denials) and not any(start < cut <= max(denials) for cut in starts):
                told = about or "material" in hits or any(at >= start for at, _ in hits.get("asks", ()))
                told = told or any(at < start for kind in _ABOUT for at, _ in hits.get(kind, ()))
                if told and _denies_what(clause, question, lexicon, valued):
                    denied = True
        if denied and any(cut > max(denials, default=0) for cut in turns):
            return False  # "I don't know exactly, but it seems that ..."
        words = {word.strip(EDGE) for word in piece.split()}  # "Is it there? It isn't", but no "yes or no"
        reply = asked and length(piece) <= _SHORT and words.isdisjoint(lexicon.yes)
        denied = denied or (reply and ends_in_denial(piece, lexicon))
        asked, about = asks, about or bool(ITEM.match(piece)) or not _ABOUT.isdisjoint(hits)
    return denied


def _denies_what(clause: Sentence, question: str, lexicon: Lexicon, valued: bool) -> bool:
    """Whether a clause denies to tell something that shares a word with the question, of no passage in particular."""
    text, details = clause.text, lexicon.details(clause.text)
    hits = clause.hits | details
    if clause.asks or _NUMBER.search(text) or MASK in text or sources_of(text, clause.hits):
        return False
    if not {"present", "affirms", "some", "besides", "reported"}.isdisjoint(hits):
        return False
    # not "the exact day", nor "who" to a "when"
    others = [text[start:end] for kind in ("part", "asks") for start, end in hits.get(kind, ())]
    ends = any(end == len(text.rstrip(EDGE)) for _, end in hits.get("bare", ()))
    asked = " ".join((question, *lexicon.answers))
    turns = [
        at for at, _ in details.get("asks", ()) for _, end in details.get("denies", ()) if 0 <= at - end <= _TURNED
    ]
    return (
        (bool(turns) or (not valued and (ends or clause.classify(True).abstains or denies_telling(details))))
        and all(other in lexicon.fold(question) or _shares(other, question, lexicon) for other in others)
        and _shares(text, asked, lexicon)
    )


def _shares(text: str, question: str, lexicon: Lexicon) -> bool:
    """Whether a folded text holds a word of the question, in any form; capitals inside the question are its subject."""
    starts = {match.end() for match in _SENTENCE.finditer(question)}
    names = {match[0] for match in _CAPITAL.finditer(question) if match[0][0].isupper() and match.start() not in starts}
    kept = [word for word in _WORD.findall(question) if word not in names]
    asked = _WORD.findall(fold(lexicon.fold(" ".join(kept)), marks=True))
    return any(_same_stem(word, other) for word in _WORD.findall(fold(text, marks=True)) for other in asked)


def _same_stem(word: str, other: str) -> bool:
    size = SequenceMatcher(None, word, other, autojunk=False).find_longest_match().size
    longest = max(len(word), len(other))
    return longest > _FEW <= size and size >= _MOST * longest


def _sets_against(sentence: Sentence, lexicon: Lexicon) -> bool:
    """Whether a sentence names what is told, turns round and denies that it is what was asked for: "The name comes up, but
    that is a hockey player, not the inventor"."""
    text, hits = sentence.text, sentence.hits
    details = lexicon.details(text)
    for start, end in hits.get("but", ()):
        denied = [place for place in details.get("denies", ()) if length(text[end : place[0]]) >= _TURNED]
        told = any(stop <= start for kind in ("material", "offer") for _, stop in hits.get(kind, ()))
        told = told or any(stop <= start for _, stop in details.get("tells", ()))
        if told and denied and len(rest := text[denied[-1][1] :]) <= _SHORT and not _PART.search(rest):
            return True
    return False


def _names(text: str, question: str, language: str, inside: bool = False) -> bool:
    """Whether a text in a script with capitals holds a name that the question does not: a capital inside a sentence, or,
    unless only those `inside` count, a first word that no phrase of the language holds."""
    fold = lexicon_of(language).fold
    asked = {word[:_STEM] for word in _WORD.findall(fold(question))}
    starts = {match.end() for match in _SENTENCE.finditer(text)}
    return any(
        (match.start() not in starts or not (inside or word in _words(language))) and word[:_STEM] not in asked
        for match in _CAPITAL.finditer(text)
        if match[0][0].isupper()
        for word in [fold(match[0])]
    )


@cache
def _words(language: str) -> frozenset[str]:
    """Every word of a language's phrase table."""
    return frozenset(_WORD.findall(lexicon_of(language).fold(str(phrase_table(language)))))


def _denies(text: str, lexicon: Lexicon, told: bool = False) -> bool:
    """Whether a text holds a negation or a phrase of abstention, not in front of a turn ("I am not sure, but in spring"),
    and neither names a passage nor says that the answer is there."""
    stated = without_quotations(lexicon.fold(text), lexicon)
    folded = ". ".join(sentence for sentence, asks in split(stated) if not asks).strip(EDGE)
    hits = lexicon.search(folded) | lexicon.details(folded)
    affirmed = not {"present", "affirms", "some", "besides", "reported"}.isdisjoint(hits)
    if MASK in folded or affirmed or sources_of(folded, hits) or folded.endswith(lexicon.yes):
        return False
    turn = max((end for _, end in hits.get("but", ())), default=0)
    # "It has no moons" answers; what tells, and what is set against something else, does not
    told = told or not {"material", "tells", "but"}.isdisjoint(hits) or bool(_PART.search(folded))
    kinds = (
        "abstains",
        "silent",
        *(("lacks", "denies", "only") if told else ()),
        *(("beside",) if "material" in hits else ()),
    )
    ends = any(end == len(folded) for _, end in hits.get("bare", ()))  # "..., but the date is missing"
    return ends or any(end > turn for kind in kinds for _, end in hits.get(kind, ()))
