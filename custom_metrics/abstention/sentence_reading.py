"""Read one sentence of an answer: does it abstain, and why?

A sentence abstains when it *is* a ``bare`` phrase ("unknown."), when it holds a phrase that ``abstains`` by itself, or when
it speaks of the ``material`` and finds it ``silent``. A turn ("..., but it was Paris") or a concession ("Paris, although
the text does not say so") makes it an answer.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from custom_metrics.abstention.folding import EDGE, NO_SPACES, is_word
from custom_metrics.abstention.patterns import Hits
from custom_metrics.abstention.phrases import Lexicon

__all__ = [
    "TRIGGERS",
    "Sentence",
    "SentenceLabel",
    "analyse",
    "asks_for_a_detail",
    "cites",
    "classify",
    "gives",
    "has_value",
    "is_bare",
    "numbered",
    "relates",
    "says_something",
    "sources_of",
    "tells",
]

LONGEST_BARE = 120  # characters of a bare phrase and what opens it
LONG = 55  # characters of a statement behind the material; those of scripts without spaces count three times
DETAIL = 25  # behind "I can't tell"
_MORE = 8  # characters that an answer has behind its source
CITATION, CITED = 60, 12  # "According to the given passages" is no longer than that; nor is "[3] and [4]" behind it
TRIGGERS = frozenset(("abstains", "silent", "lacks", "beside"))
"""Kinds of phrases without any of which no sentence abstains, but for a bare one."""

_COMMA = re.compile("[,،、]")
# Behind a word ("passage 3", "文章[2]", "muktadha wa 3") or before it ("4. szöveg", "৪ নম্বর প্রসঙ্গ", "第三段").
_NUMBERED = re.compile(r"(?<=[\w\u0900-\u0e7f])( ?\[?\d| (?:[^\W\d]{1,3}\.?) \d{1,2}(?!\d)|ที่ ?\d)")
_NUMBER_BEFORE = re.compile(
    r"(?<!\d)\d{1,2}(?:[.ºª°]|-?[^\W\d]{1,3}\b| ?(?:নম্বর|নং|नंबर|नम्बर|نمبر))\s(?=[^\W\d])|第[\d一二三四五六七八九十]{1,2}"
)
_DIGIT = re.compile(r"\d")
_WORD = re.compile(r"[^\s\d.,;:!?()\"']{1,30}")
_IN_BRACKETS = re.compile(r"[(\[（【][^()\[\]（）【】]{0,30}\d[^()\[\]（）【】]{0,20}[)\]）】]")
_LIST = r"[(（][^()（）]{2,80}(?:,|،|、| [^\W\d_]{1,4} )[^()（）]{2,80}[)）]"
_NAMED = re.compile(_LIST)
_TOLD = re.compile(r": ?\S|" + _LIST)
# What ends a sentence behind a colon, short as a value is: "When it opened: 1902".
_VALUE = re.compile(r"[:：] ?[^:：]{1,40}\Z")
_NUMBER = re.compile(r"(?<![\d\[(])\d{2,}")
ITEM = re.compile(r"\W*\d{1,2}\W*[\])]")
"""How an item of a list begins: "1) unrelated", "- [4]-[10] places in Greenland"."""
_CITED = re.compile(r"\[\d{1,2}\]")


class SentenceLabel(NamedTuple):
    """What a sentence is classified as: why, and whether it abstains."""

    why: str
    abstains: bool


BARE = SentenceLabel("it is a bare phrase of abstention", True)
ALONE = SentenceLabel("it abstains by itself", True)
SILENT = SentenceLabel("it finds the material silent", True)
BESIDE = SentenceLabel("it says only what the material treats instead", True)
NOTHING = SentenceLabel("it holds no phrase that abstains here", False)
TURNED = SentenceLabel("it turns round: an answer stands behind the abstention", False)
CONCEDED = SentenceLabel("the abstention is a concession: an answer stands beside it", False)


@dataclass(slots=True)
class Sentence:
    """A sentence and the phrases in it."""

    text: str  # folded
    hits: Hits
    bare: bool  # it is a bare phrase
    asks: bool  # it ends with a question mark
    may_abstain: bool  # it holds anything that abstentions are made of
    sourced: bool = False  # it answers, and names a passage as its source in brackets or at its end

    @property
    def abstains_alone(self) -> bool:
        return self.bare or "abstains" in self.hits

    def opens_with(self, kind: str, within: int) -> bool:
        """Whether a phrase of that kind stands in the first few characters."""
        if kind not in self.hits:
            return False
        lead = _skip_edge(self.text)
        return any(start - lead <= within for start, _ in self.hits[kind])


def analyse(text: str, asks: bool, lexicon: Lexicon) -> Sentence:
    """Find the phrases of a sentence, as :func:`custom_metrics.abstention.sentence_splitting.split` gives it."""
    hits = lexicon.search(text)
    bare = "bare" in hits and is_bare(text, hits)
    if not bare and "bare" in hits and "reported" not in hits:
        bare = _ends_bare(text, lexicon)
    sourced = bool(_DIGIT.search(text)) and (
        _drop_sources(text, hits) if "material" in hits else _drop_brackets(text, hits)
    )
    return Sentence(text, hits, bare, asks, bare or not TRIGGERS.isdisjoint(hits), sourced)


def _drop_brackets(text: str, hits: Hits) -> bool:
    """Whether a passage is named as the source by its bracketed number alone ("Since [1] has him born in 1900, ...").

    Where the sentence abstains, the passage is its material.
    """
    cited = [match.span() for match in _CITED.finditer(text)]
    if not TRIGGERS.isdisjoint(hits):
        spoken_of = [(start, end) for start, end in cited if text[end:].strip(EDGE + "0123456789")]
        if spoken_of:  # "It has no natural predators [2]" names its source
            hits["material"] = spoken_of
        return False
    # neither "References: [1], [4]" nor "[1] Tales and legends"
    return bool(cited) and cited[0][0] > _skip_edge(text) and len(_CITED.sub("", text)) > 2 * _MORE


def _ends_bare(text: str, lexicon: Lexicon) -> bool:
    """Whether a bare phrase stands behind a colon ("Its year of publication: nothing."), or is an item of a list."""
    item = ITEM.match(text)
    at = item.end() if item else text.rfind(":") + 1
    if not at or (not item and (text[at - 2].isdigit() or text[at - 2] == "]")):
        return False  # "Context 3: nothing" says so of one passage
    rest = text[at:]
    return len(rest) <= LONGEST_BARE and is_bare(rest, lexicon.search(rest))


def has_value(sentence: Sentence) -> bool:
    """Whether a short value stands at the end, behind a colon: "Passage 4 says when it opened: 1902".

    Behind the number of a passage alone, only a number or a quotation is one: "Passage 3: a street in Aarhus" reviews it.
    """
    match = _VALUE.search(sentence.text)
    if match is None or sentence.bare or not match[0].strip(EDGE + "0"):
        return False
    if any(start >= match.start() for places in sentence.hits.values() for start, _ in places):
        return False
    if _DIGIT.search(match[0]) or ("\0" in match[0] and "material" in sentence.hits):
        return True
    if match.start() in numbered(sentence.text) or _DIGIT.search(sentence.text[match.start() - 2 : match.start()]):
        return False
    one = "part" in sentence.hits or any(end in numbered(sentence.text) for _, end in sentence.hits.get("material", ()))
    return one and {"silent", "abstains", "lacks"}.isdisjoint(sentence.hits)


def _drop_sources(text: str, hits: Hits) -> bool:
    """Take passages that are named as a source, in brackets or at the end, off the material that a sentence speaks of.

    Returns:
        Whether there are any, and no other material ("It was built in 1889 (context 4)", "..., according to context 4").
    """
    brackets = [match.span() for match in _IN_BRACKETS.finditer(text)]
    lead = _skip_edge(text)
    # "according to context 2" at the end, behind a statement
    tail = len(text) - CITATION
    cited = [
        start
        for start, end in hits.get("citing", ())
        if start > lead + _MORE
        and end >= tail
        and numbered(text[end:])
        and text[:start].rstrip().endswith(tuple(",،、，"))
    ]
    told = [  # "..., context 5 reports"
        start
        for start, end in hits["material"]
        if len(text) - end <= CITED + 4 and start > lead + _MORE and _COMMA.search(text, max(0, start - 8), start)
    ]
    told = [start for start in told if numbered(text[start:])]
    kept = [
        (start, end)
        for start, end in hits["material"]
        if start not in told
        and not any(first < start and end <= last for first, last in brackets)
        and not any(0 <= start - first <= CITED + 20 for first in cited)
    ]
    if len(kept) == len(hits["material"]):
        return False
    if kept:
        hits["material"] = kept
        return False
    del hits["material"]
    return TRIGGERS.isdisjoint(hits)


def says_something(sentence: Sentence, lexicon: Lexicon) -> bool:
    """Whether a sentence that does not abstain could be an answer.

    A mere "no" could not, nor an opener alone, nor a sentence about the material or to the user.
    """
    if sentence.text.strip(EDGE) in lexicon.no:
        return False
    if "present" in sentence.hits or "affirms" in sentence.hits:
        return True
    return not ("material" in sentence.hits or "offer" in sentence.hits or _only_openers(sentence.text, sentence.hits))


def cites(sentence: Sentence) -> bool:
    """Whether a sentence names the material as its source ("According to passage 3, ...") and says more than that."""
    start, end = sentence.hits["material"][0]
    lead = _skip_edge(sentence.text)
    comma = _COMMA.search(sentence.text, end, end + CITED)  # "passage [3]," may stand before it
    return (
        start < CITATION
        and comma is not None
        and any(begin == lead for begin, _ in sentence.hits.get("citing", ()))
        and len(sentence.text) - comma.end() > _MORE
        and "offer" not in sentence.hits
    )


def tells(sentence: Sentence, within: int) -> bool:
    """Whether a sentence that speaks of a numbered passage gives what it says: "However, passage 2 says it was 1889",
    "Only context 10 does: 1889".

    Args:
        sentence: one that holds material.
        within: characters at its front in which a turn counts.
    """
    hits = sentence.hits
    sources = sources_of(sentence.text, hits)
    ends = [end for _, end in hits["material"]]
    if not TRIGGERS.isdisjoint(hits) or not sources.issuperset(ends[:1]):
        return False
    rest = sentence.text[ends[0] :]
    turns = sentence.opens_with("but", within) and len(rest) > 2 * _MORE
    quotes = "\0" in rest and "offer" not in hits
    affirms = "present" in hits or "affirms" in hits
    return turns or quotes or affirms or bool(_TOLD.search(sentence.text, ends[0]))


def gives(sentence: Sentence) -> bool:
    """Whether a sentence about the material lists what it says: "The text gives two reasons: taxes and harvests"."""
    hits = sentence.hits
    told = TRIGGERS.isdisjoint(hits) and _TOLD.search(sentence.text, hits["material"][0][1] + _MORE)
    return bool(told) and hits["material"][0][1] not in sources_of(sentence.text, hits)


def relates(sentence: Sentence) -> bool:
    """Whether a sentence about the material tells at some length what that says: "The text explains that the wall ..."."""
    hits = sentence.hits
    end = hits["material"][0][1]
    return TRIGGERS.isdisjoint(hits) and "offer" not in hits and _length(sentence.text[end:]) >= LONG


def _length(text: str) -> int:
    return len(text) + 2 * sum(map(len, NO_SPACES.findall(text)))


def asks_for_a_detail(sentence: Sentence) -> bool:
    """Whether a sentence that abstains by itself names at some length what it is that it cannot tell: "I can't tell from
    the text how the dark reactions proceed"."""
    ends = [end for kind in TRIGGERS for _, end in sentence.hits.get(kind, ())]
    if sentence.bare or not ends:
        return False
    return _length(sentence.text[max(ends) :]) >= DETAIL


def is_bare(text: str, hits: Hits) -> bool:
    """Whether a sentence is a bare phrase, with at most three openers in front."""
    if "bare" not in hits:
        return False
    ends = len(text.rstrip(EDGE))
    whole = {start for start, end in hits["bare"] if end == ends}
    if not whole:
        return False
    starts = {_skip_edge(text)}
    openers = hits.get("openers", ()) if ends <= LONGEST_BARE else ()
    for _ in range(3):
        if whole & starts:
            return True
        starts = {
            _skip_edge(text, end)
            for start, end in openers
            if start in starts and (text[end : end + 1] in EDGE or NO_SPACES.match(text[end - 1]))
        }
    return bool(whole & starts)


def _skip_edge(text: str, start: int = 0) -> int:
    """The place of the first character, from a place on, that is no mark."""
    return len(text) - len(text[start:].lstrip(EDGE))


def _only_openers(text: str, hits: Hits) -> bool:
    """Whether a sentence, or what stands in front in one, is one opener."""
    return "openers" in hits and (_skip_edge(text), len(text.rstrip(EDGE))) in hits["openers"]


def classify(sentence: Sentence, spoke_of_material: bool) -> SentenceLabel:
    """Whether a sentence abstains, and why.

    Args:
        sentence: of :func:`analyse`.
        spoke_of_material: whether a sentence before it did.
    """
    if sentence.bare:
        return BARE
    text, hits = sentence.text, sentence.hits
    spans = hits.get("abstains", [])
    if spans and "reported" in hits:
        spans = [span for span in spans if not _is_reported(span[0], sentence)]
    by_itself, beside = bool(spans), False
    if "material" in hits or spoke_of_material:
        spans = spans + hits.get("silent", [])
        if "lacks" in hits and not ("material" in hits and cites(sentence)):
            spans += hits["lacks"]
        if not spans and "beside" in hits and "present" not in hits and not ("material" in hits and cites(sentence)):
            beside = not sentence.asks
            # "Please answer only from the contexts"
            spoken_of = hits["material"][0][0] if "material" in hits else len(text)
            asked = any(start < spoken_of and end <= hits["beside"][0][0] for start, end in hits.get("offer", ()))
            spans = hits["beside"] if beside and not asked else []
    if not spans:
        return NOTHING
    if "but" in hits:
        spans = _within_clauses(spans, text, hits)
        if not spans:
            return NOTHING
    starts, ends = zip(*spans, strict=True)
    first, last = min(starts), max(ends)
    for start, end in hits.get("but", ()):
        # "없지만": the turn may be the end of the word that abstains
        suffix = end >= last and start > 0 and is_word(text[start - 1]) and not NO_SPACES.match(text[start])
        if (start >= last or suffix) and _is_answer(text[end:], end, hits):
            return TURNED
    if "material" in hits:
        if _told_by_a_source(text, last, hits):
            return TURNED
        if not by_itself and _NAMED.search(text, hits["material"][0][1], first):
            return CONCEDED  # "It names the cast (Reed, Marsh and Okafor) but gives none for the sequel"
    for start, end in hits.get("although", ())[:1]:
        lead = text[:start]
        if start >= first or _COMMA.search(text, end, first):
            break  # the concession is over before the abstention begins
        if len(lead.strip(EDGE)) > 1 and not _only_openers(lead, hits) and not _speaks_of(0, start, hits):
            return CONCEDED  # "Paris, although the text does not say so."
        comma = _COMMA.search(text, last)
        rest = text[comma.end() :] if comma else ""
        if comma and (
            _is_answer(rest, comma.end(), hits) or (": " in rest and TRIGGERS.isdisjoint(_behind(comma.end(), hits)))
        ):
            return CONCEDED
    return ALONE if by_itself else BESIDE if beside else SILENT


def _within_clauses(spans: list[tuple[int, int]], text: str, hits: Hits) -> list[tuple[int, int]]:
    """Leave out what reaches over a turn to a source: "I'm **not** sure, but based on context 5 the **answer** is ..."."""
    named = sources_of(text, hits)
    sources = (*hits.get("citing", ()), *(place for place in hits.get("material", ()) if place[1] in named))
    turns = [start for start, _ in sources if any(0 < start - end <= 2 for _, end in hits["but"])]
    return [span for span in spans if not any(span[0] < start < span[1] for start in turns)]


def _told_by_a_source(text: str, last: int, hits: Hits) -> bool:
    """Whether a numbered passage is told behind the abstention: "Unlike those, which don't help, context 7 has it: ..."."""
    sources = sources_of(text, hits)
    return any(start >= last and end in sources and _TOLD.search(text, end) for start, end in hits["material"])


def _is_reported(start: int, sentence: Sentence) -> bool:
    """Whether a verb of saying stands before a phrase in its clause ("he said I don't know")."""
    return any(
        end <= start and not _COMMA.search(sentence.text, end + 2, start)  # the comma of "he said, ..." ends no clause
        for _, end in sentence.hits["reported"]
    )


def _is_answer(rest: str, offset: int, hits: Hits) -> bool:
    """Whether what follows a turn answers: some words, and nothing of the material, of not knowing or to the user.

    A numbered passage ("but context 5 says that ...") is a source, not the material as such.
    """
    ends = {offset + end for end in sources_of(rest, {})} | _ordinal(hits)
    sources = ends | _cited(rest, offset, hits)
    if not any(end > offset for kind in TRIGGERS for _, end in hits.get(kind, ())):
        told = [
            end - offset for start, end in hits.get("material", ()) if start >= offset and end <= offset + len(rest)
        ]
        affirmed = any(offset <= start < offset + len(rest) for start, _ in hits.get("affirms", ()))
        # "but it gives the year asked for, 1887", "though the passage records two theories: ..."
        if affirmed or _NUMBER.search(rest) or (told and _TOLD.search(rest, told[0])):
            return True
    named = any(
        offset <= start and end in ends and offset + len(rest) - end > 2 * _MORE
        for start, end in hits.get("material", ())
    )
    return len(rest.strip(EDGE)) > 1 and not _speaks_of(offset, offset + len(rest), hits, sources, named)


def _cited(rest: str, offset: int, hits: Hits) -> set[int]:
    """Where material ends that is named as a source at the start ("but according to the text it was Paris")."""
    lead = offset + _skip_edge(rest)
    citing = [end for start, end in hits.get("citing", ()) if start == lead]
    return {
        end
        for start, end in hits.get("material", ())
        if citing and lead <= start <= max(citing) + CITED and offset + len(rest) - end > _MORE
    }


def numbered(text: str) -> set[int]:
    """The places where a word ends that a number follows ("passage 3"), or that follows an ordinal ("4. szöveg")."""
    ends = {match.start(1) for match in _NUMBERED.finditer(text)}
    for match in _NUMBER_BEFORE.finditer(text):
        spaced = not NO_SPACES.match(match[0])
        word = _WORD.match(text, match.end())
        ends.update([word.end()] if spaced and word else range(match.end() + 1, match.end() + 5))
    return ends


def _ordinal(hits: Hits) -> set[int]:
    """Where material ends that an ordinal stands beside ("the last passage")."""
    return {
        end
        for start, end in hits.get("material", ())
        if any(
            0 <= start - stop <= 1 or 0 <= begin - end <= 1 or (start <= begin and stop <= end)
            for begin, stop in hits.get("part", ())
        )
    }


def sources_of(text: str, hits: Hits) -> set[int]:
    """Where words end that are one of the passages: numbered, or with an ordinal beside them."""
    return numbered(text) | _ordinal(hits) | {match.end() for match in _CITED.finditer(text)}


def _behind(start: int, hits: Hits) -> set[str]:
    """The kinds of phrases that stand behind a place."""
    return {kind for kind, places in hits.items() if places[-1][0] >= start}


def _speaks_of(start: int, end: int, hits: Hits, sources: Collection[int] = (), named: bool = False) -> bool:
    """Whether between two places the material (passages with a number apart), not knowing or the user comes up; where a
    passage is `named`, "it mentions" is no longer beside the question."""
    return any(
        start <= first < end and not (kind == "material" and last in sources)
        for kind in ("material", *(() if named else ("offer",)), *TRIGGERS)
        for first, last in hits.get(kind, ())
    )
