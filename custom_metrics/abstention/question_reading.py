"""What an answer does with its question: leaves it open, turns it back to the user, or never comes to it."""

from __future__ import annotations

import re
from functools import cache

from custom_metrics.abstention import lexicons
from custom_metrics.abstention.folding import EDGE, NO_SPACES, is_word
from custom_metrics.abstention.phrases import Lexicon, lexicon_of, phrase_table, supported_language
from custom_metrics.abstention.sentence_reading import ITEM, TRIGGERS, sources_of
from custom_metrics.abstention.sentence_splitting import MASK, split, without_quotations

_LONGEST = 400  # characters; a longer text without any number or name explains something
_SHORT = 40  # characters of a sentence in front of a request: "Sure, I'd be happy to help!"
_NAME = 3  # words from which a text is no mere name ("Nada Surf")
_STEM = 5  # characters by which a name is known in another case: "Budapešti", "Budapeští"
_NUMBER = re.compile(
    r"[\d½¼¾]|[〇零一二三四五六七八九十百千万萬億亿]{2,}|[一二三四五六七八九十百千万](?=[年月日歳岁世個个人名座本])"
)
_VALUE = re.compile(r"(?<![\d\[(])\d{2,}")
_SENTENCE = re.compile(r"(?:^|[.!?:;…\n])[\s\"'“”«»„(¿¡*-]*")
_CAPITAL = re.compile(r"(?<![^\W_])(?!I\b)[^\W\d_a-z]\w*")
_PART = re.compile("[,،、;:] ?")
_WORD = re.compile(r"\w+")


def asks_back(text: str, language: str | None) -> bool:
    """Whether an answer only asks the user for the material or the question ("Sure! Could you paste the contexts again?"),
    and abstains in no sentence before that."""
    if _VALUE.search(text) or len(text) > _LONGEST:
        return False
    for _, lexicon in lexicons(text, language):
        for sentence, _ in split(lexicon.fold(text)):
            if "requests" in lexicon.details(sentence):
                return True
            hits = lexicon.search(sentence)
            beside = len(sentence) <= _SHORT or "material" in hits or "offer" in hits
            if not beside or "bare" in hits or not TRIGGERS.isdisjoint(hits):
                break
    return False


def breaks_off(text: str, language: str | None) -> bool:
    """Whether an answer begins to go through the passages one by one, and breaks off at one of them."""
    if not is_word(text.strip()[-1:] or ".") and text.strip()[-1:] not in ",:;-–—([":
        return False
    for _, lexicon in lexicons(text, language):
        (first, asks), *others = [*split(lexicon.fold(text.strip()).replace(":\n", ".\n"))] or [("", True)]
        if others and not asks and "reviews" in lexicon.details(first):
            last = others[-1][0]
            hits = lexicon.search(last)
            if not _VALUE.search(last) and (ITEM.match(last) or sources_of(last, hits) or "material" in hits):
                return True
    return False


def leaves_open(text: str, language: str | None, question: str | None) -> bool:
    """Whether an answer to a question for a number, a date or a name denies that it is told and gives none of these, nor a
    passage or a quotation: "There is a lot about the pier, and not a thing is said about its first year"."""
    own = supported_language(language)
    text = "\n".join(line for line in text.splitlines() if not ITEM.match(line))
    short = len(text.split()) < _NAME and not NO_SPACES.search(text)
    if own is None or not question or short or len(text) > _LONGEST or _NUMBER.search(text):
        return False
    lexicon = lexicon_of(own)
    asked = lexicon.details(lexicon.fold(question))
    named = "asks_name" in asked and not _names(text, question, own)
    return (named or "asks_number" in asked) and _denies(text, lexicon)


def _names(text: str, question: str, language: str) -> bool:
    """Whether a text in a script with capitals holds a name that the question does not: a capital inside a sentence, or a
    first word that no phrase of the language holds."""
    fold = lexicon_of(language).fold
    asked = {word[:_STEM] for word in _WORD.findall(fold(question))}
    starts = {match.end() for match in _SENTENCE.finditer(text)}
    return any(
        (match.start() not in starts or word not in _words(language)) and word[:_STEM] not in asked
        for match in _CAPITAL.finditer(text)
        for word in [fold(match[0])]
    )


@cache
def _words(language: str) -> frozenset[str]:
    """Every word of a language's phrase table."""
    return frozenset(_WORD.findall(lexicon_of(language).fold(str(phrase_table(language)))))


def _denies(text: str, lexicon: Lexicon) -> bool:
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
    told = not {"material", "tells", "but"}.isdisjoint(hits) or bool(_PART.search(folded))
    kinds = (
        "abstains",
        "silent",
        *(("lacks", "denies", "only") if told else ()),
        *(("beside",) if "material" in hits else ()),
    )
    ends = any(end == len(folded) for _, end in hits.get("bare", ()))  # "..., but the date is missing"
    return ends or any(end > turn for kind in kinds for _, end in hits.get(kind, ()))
