"""One sentence of an answer: the phrases in it, whether it abstains and why (see :mod:`custom_metrics.abstention`)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from custom_metrics.abstention.folding import EDGE, NO_SPACES, is_word
from custom_metrics.abstention.patterns import Hits
from custom_metrics.abstention.phrases import Lexicon

LONGEST_BARE = 120  # characters of a bare phrase and what opens it
LONG = 55  # characters of a statement behind the material; those of scripts without spaces count three times
_ANSWER = 14  # characters of a number that stands for the answer: "It was 1932, but ..."
_EARLY = 3
_GOES_ON = 5  # more than the "nothing here" in "it's wrong that there is nothing here"
_ARTICLE = 6  # between "but" and the passage: "but the text 3 says"
_LONGEST_VALUE, _LONGEST_REPLY = 24, 40
DETAIL = 25  # behind "I can't tell"
_MORE = 8  # characters that an answer has behind its source
CITATION, CITED = 60, 12  # "According to the given passages" is no longer than that; nor is "[3] and [4]" behind it
TRIGGERS = frozenset(("abstains", "silent", "lacks", "beside"))
"""Kinds of phrases without any of which no sentence abstains, but for a bare one."""

_COMMA = re.compile("[,،、]")
_CUT = re.compile(_COMMA.pattern + "|[;؛] | - ")
_BREAK = re.compile("[:;؛]")
# Behind a word ("passage 3", "文章[2]", "muktadha wa 3") or before it ("4. szöveg", "৪ নম্বর প্রসঙ্গ", "第三段").
_NUMBERED = re.compile(r"(?<=[\w\u0900-\u0e7f])(?<!\d)(?=( ?\[?\d| (?:[^\W\d]{1,3}\.?) \d{1,2}(?!\d)|ที่ ?\d))")
_NUMBER_BEFORE = re.compile(
    r"(?:\[\d{1,2}\]\w{0,2}|(?<!\d)\d{1,2}(?:[.ºª°]|-?[^\W\d]{1,3}\b| ?(?:নম্বর|নং|नंबर|नम्बर|نمبر)))\s(?=[^\W\d])"
    r"|第[\d一二三四五六七八九十]{1,2}|(?<!\d)\d{1,2}(?:番目?|つ目)の?"
)
_REVIEWED = 3  # items
_DIGIT = re.compile(r"\d")
_WORD = re.compile(r"[^\s\d.,;:!?()\"']{1,30}")
_IN_BRACKETS = re.compile(r"[(\[（【][^()\[\]（）【】]{0,30}\d[^()\[\]（）【】]{0,20}[)\]）】]")
_LIST = r"[(（][^()（）]{2,80}(?:,|،|、| [^\W\d_]{1,4} )[^()（）]{2,80}[)）]"
_NAMED = re.compile(_LIST)
_LISTING = re.compile(r": ?\S|" + _LIST)
# What ends a sentence behind a colon, short as a value is: "When it opened: 1902".
_VALUE = re.compile(r"[:：] ?[^:：]{1,40}\Z")
_NUMBER = re.compile(r"(?<![\d\[(])\d{2,}")
ITEM = re.compile(r"\W*\d{1,2}\W*[\])]|\s*[-•]\s*\d{1,2}\W")
"""How an item of a list begins: "1) unrelated", "- [4]-[10] places in Greenland", "- 1-3: rivers"."""
CITED_PASSAGE = re.compile(r"\[\d{1,2}\]")


class SentenceLabel(NamedTuple):
    """What a sentence is classified as: why, and whether it abstains."""

    why: str
    abstains: bool


BARE = SentenceLabel("it is a bare phrase of abstention", True)
ALONE = SentenceLabel("it abstains by itself", True)
SILENT = SentenceLabel("it finds the material silent", True)
BESIDE = SentenceLabel("it says only what the material treats instead", True)
NOTHING = SentenceLabel("it holds no phrase that abstains here", False)
SOMETHING_ELSE = SentenceLabel("it says that one thing is told, and another is not", True)
TURNED = SentenceLabel("it turns round: an answer stands behind the abstention", False)
CONCEDED = SentenceLabel("the abstention is a concession: an answer stands beside it", False)


class Sentence:
    """A folded sentence and the phrases in it (`hits`): whether it asks, is a bare phrase (`bare`), holds any phrase of
    abstention (`may_abstain`), and answers with a passage named as its source in brackets or at its end (`sourced`)."""

    __slots__ = ("_lead", "asks", "bare", "hits", "may_abstain", "sourced", "text")

    def __init__(self, text: str, asks: bool, lexicon: Lexicon) -> None:
        self.text, self.asks = text, asks
        self.hits = hits = lexicon.search(text)
        self._lead = _skip_edge(text)
        self.bare = "bare" in hits and (is_bare(text, hits) or ("reported" not in hits and self._ends_bare(lexicon)))
        self.may_abstain = self.bare or not TRIGGERS.isdisjoint(hits)
        self.sourced = bool(_DIGIT.search(text)) and (
            self._drop_sources() if "material" in hits else self._drop_brackets()
        )

    def _ends_bare(self, lexicon: Lexicon) -> bool:
        """Whether a bare phrase stands behind a colon ("Its year: nothing."), or is an item of a list."""
        text = self.text
        item = ITEM.match(text)
        at = item.end() if item else text.rfind(":") + 1
        if not at or (not item and (text[at - 2].isdigit() or text[at - 2] == "]")):
            return False  # "Context 3: nothing" says so of one passage
        rest = text[at:]
        return len(rest) <= LONGEST_BARE and is_bare(rest, lexicon.search(rest))

    def _drop_brackets(self) -> bool:
        """Whether the sentence names a passage as its source by the bracketed number alone ("Since [1] has him born in
        1900"). In a sentence that abstains, the number is material instead."""
        text, hits = self.text, self.hits
        cited = [match.span() for match in CITED_PASSAGE.finditer(text)]
        if not TRIGGERS.isdisjoint(hits):
            spoken_of = [(start, end) for start, end in cited if text[end:].strip(EDGE + "0123456789")]
            if spoken_of:  # "It has no natural predators [2]" names its source
                hits["material"] = spoken_of
            return False
        # neither "References: [1], [4]" nor "[1] Tales and legends"
        return bool(cited) and cited[0][0] > self._lead and len(CITED_PASSAGE.sub("", text)) > 2 * _MORE

    def _drop_sources(self) -> bool:
        """Remove passages named as a source, in brackets or at the end, from the material. Return whether that leaves none,
        and the sentence does not abstain ("Built in 1889 (context 4)", "..., according to context 4")."""
        text, hits = self.text, self.hits
        brackets = [match.span() for match in _IN_BRACKETS.finditer(text)]
        # "according to context 2" at the end, behind a statement
        cited = [
            start
            for start, end in hits.get("citing", ())
            if start > self._lead + _MORE
            and end >= len(text) - CITATION
            and numbered(text[end:])
            and text[:start].rstrip().endswith(tuple(",،、，"))
        ]
        reporting = {  # "..., context 5 reports"
            start
            for start, end in hits["material"]
            if len(text) - end <= CITED + 4
            and start > self._lead + _MORE
            and _COMMA.search(text, max(0, start - 8), start)
            and numbered(text[start:])
        }
        material = [
            (start, end)
            for start, end in hits["material"]
            if start not in reporting
            and not any(first < start and end <= last for first, last in brackets)
            and not any(0 <= start - first <= CITED + 20 for first in cited)
        ]
        del hits["material"]
        if material:
            hits["material"] = material
        return not material and TRIGGERS.isdisjoint(hits)

    @property
    def abstains_alone(self) -> bool:
        return self.bare or "abstains" in self.hits

    def opens_with(self, kind: str, within: int) -> bool:
        """Whether a phrase of that kind stands in the first few characters."""
        return any(start - self._lead <= within for start, _ in self.hits.get(kind, ()))

    def has_value(self) -> bool:
        """Whether a short value stands at the end, behind a colon: "Passage 4 says when it opened: 1902".

        Behind a passage's number alone, only a number or a quotation is one: "Passage 3: a street in Aarhus" reviews it.
        """
        text, hits = self.text, self.hits
        match = _VALUE.search(text)
        if match is None or self.bare or not match[0].strip(EDGE + "0"):
            return False
        if any(start >= match.start() for places in hits.values() for start, _ in places):
            return False
        if _DIGIT.search(match[0]) or ("\0" in match[0] and "material" in hits):
            return True
        ends = numbered(text)
        if match.start() in ends or _DIGIT.search(text[match.start() - 2 : match.start()]):
            return False
        names_part = "part" in hits or any(end in ends for _, end in hits.get("material", ()))
        return names_part and {"silent", "abstains", "lacks"}.isdisjoint(hits)

    def may_answer(self, lexicon: Lexicon) -> bool:
        """Whether a sentence that does not abstain could be an answer.

        A mere "no" could not, nor an opener alone, nor a sentence about the material or to the user.
        """
        if self.text.strip(EDGE) in lexicon.no:
            return False
        if "present" in self.hits or "affirms" in self.hits:
            return True
        return not ("material" in self.hits or "offer" in self.hits or only_openers(self.text, self.hits))

    def names_source(self) -> bool:
        """Whether the sentence names the material as its source ("According to passage 3, ...") and says more."""
        if "material" not in self.hits or "citing" not in self.hits or "offer" in self.hits:
            return False
        start, end = self.hits["material"][0]
        comma = _COMMA.search(self.text, end, end + CITED)  # "passage [3]," may stand before it
        opens = any(begin == self._lead for begin, _ in self.hits["citing"])
        return start < CITATION and opens and comma is not None and len(self.text) - comma.end() > _MORE

    def reports_passage(self, within: int) -> bool:
        """Whether the sentence gives what a numbered passage says: "However, passage 2 says 1889" (with the turn in its
        first `within` characters), "Only context 10 does: 1889"."""
        hits = self.hits
        if "material" not in hits or not TRIGGERS.isdisjoint(hits):
            return False
        end = hits["material"][0][1]
        if end not in sources_of(self.text, hits):
            return False
        rest = self.text[end:]
        turns = self.opens_with("but", within) and len(rest) > 2 * _MORE
        quotes = "\0" in rest and "offer" not in hits
        return turns or quotes or "present" in hits or "affirms" in hits or bool(_LISTING.search(self.text, end))

    def lists_findings(self) -> bool:
        """Whether the sentence lists what the material says: "The text gives two reasons: taxes and harvests"."""
        hits = self.hits
        if "material" not in hits or not TRIGGERS.isdisjoint(hits):
            return False
        end = hits["material"][0][1]
        return bool(_LISTING.search(self.text, end + _MORE)) and end not in sources_of(self.text, hits)

    def paraphrases(self) -> bool:
        """Whether the sentence says at some length what is in the material: "The text explains that the wall ..."."""
        hits = self.hits
        if "material" not in hits or "offer" in hits or not TRIGGERS.isdisjoint(hits):
            return False
        return length(self.text[hits["material"][0][1] :]) >= LONG

    def asks_for_a_detail(self) -> bool:
        """Whether the sentence abstains by itself and names at some length what it cannot tell: "I can't tell from the text
        how the dark reactions proceed"."""
        ends = [end for kind in TRIGGERS for _, end in self.hits.get(kind, ())]
        return bool(ends) and not self.bare and length(self.text[max(ends) :]) >= DETAIL

    def classify(self, spoke_of_material: bool) -> SentenceLabel:
        """Whether the sentence abstains, and why. After one that spoke of the material it needs no material itself."""
        if self.bare:
            return BARE
        text, hits = self.text, self.hits
        # "he said I don't know"; the comma of "he said, ..." ends no clause
        spans = [
            (start, end)
            for start, end in hits.get("abstains", ())
            if not any(
                stop <= start and not _COMMA.search(text, stop + 2, start) for _, stop in hits.get("reported", ())
            )
        ]
        if "untrue" in hits and self._denies_silence():
            return NOTHING
        by_itself, beside = bool(spans), False
        if "material" in hits or spoke_of_material:
            spans += hits.get("silent", ())
            if "lacks" in hits and not self.names_source():
                spans += hits["lacks"]
            if not spans and "beside" in hits and not (self.asks or "present" in hits or self.names_source()):
                beside = True
                # "Please answer only from the contexts"
                spoken_of = hits["material"][0][0] if "material" in hits else len(text)
                offers = any(start < spoken_of and end <= hits["beside"][0][0] for start, end in hits.get("offer", ()))
                spans = [] if offers else hits["beside"]
        if not spans:
            return NOTHING
        sources, material = sources_of(text, hits), hits.get("material", ())
        if "but" in hits:
            # what reaches over a turn to a source: "I'm **not** sure, but based on context 5 the **answer** is ..."
            named = (*hits.get("citing", ()), *(place for place in material if place[1] in sources))
            turns = [start for start, _ in named if any(0 < start - end <= _ARTICLE for _, end in hits["but"])]
            spans = [span for span in spans if not any(span[0] < start < span[1] for start in turns)]
            if not spans:
                return NOTHING
        first, last = min(start for start, _ in spans), max(end for _, end in spans)
        # a gap may reach over the answer: "In 1987, although the month is not given"
        if any(first < start < last and self.states_number(start) for start, _ in hits.get("although", ())):
            return CONCEDED
        for start, end in hits.get("but", ()):
            # "없지만": the turn may be the end of the word that abstains
            suffix = end >= last and start > 0 and is_word(text[start - 1]) and not NO_SPACES.match(text[start])
            if (start >= last or suffix) and self._answers_from(end):
                return TURNED
        # "Unlike those, which don't help, context 7 has it: ..."
        if any(start >= last and end in sources and _LISTING.search(text, end) for start, end in material):
            return TURNED
        if material and not by_itself and _NAMED.search(text, material[0][1], first):
            return CONCEDED  # "It names the cast (Reed, Marsh and Okafor) but gives none for the sequel"
        if self._gives_more_than_is_missing(spans):
            return CONCEDED
        for start, end in hits.get("although", ())[:1]:
            lead = text[:start]
            if start >= first or _COMMA.search(text, end, first):
                break  # the concession is over before the abstention begins
            if len(lead.strip(EDGE)) > 1 and not only_openers(lead, hits) and not _speaks_of(0, start, hits):
                return CONCEDED  # "Paris, although the text does not say so."
            comma = _COMMA.search(text, last)
            if comma and (
                self._answers_from(comma.end())
                or (
                    ": " in text[comma.end() :]
                    and not any(hits[kind][-1][0] >= comma.end() for kind in TRIGGERS & hits.keys())
                )
            ):
                return CONCEDED
        return ALONE if by_itself else BESIDE if beside else SILENT

    def _denies_silence(self) -> bool:
        """Whether the sentence denies a clause that abstains, in front of it or in one phrase with it: "It is not true that
        the texts are silent", "Dass nichts dazu dasteht, stimmt nicht"."""
        text = self.text
        return any(
            not _BREAK.search(text, stop, start)
            if start >= stop
            else first <= start and length(text[first:stop]) - length(text[start:end]) > _GOES_ON
            for first, stop in self.hits["untrue"]
            for kind in TRIGGERS
            for start, end in self.hits.get(kind, ())
        )

    def states_number(self, end: int) -> bool:
        """Whether the sentence states a number in its first `end` characters, that of no passage, and speaks of the
        material there only to name its source."""
        lead, hits = self.text[:end], self.hits
        if not _NUMBER.search(lead):
            return False
        material = [place for place in hits.get("material", ()) if place[0] < end]
        sources = sources_of(lead, hits) if material else ()
        cited = [stop for _, stop in hits.get("citing", ())]
        return all(
            last in sources or any(0 <= first - stop <= 1 or first < stop for stop in cited) for first, last in material
        )

    def offers(self) -> bool:
        """Whether the sentence turns to the user at its start ("Please answer only from the contexts")."""
        beside = self.hits.get("beside", ())
        return any(
            start - self._lead <= _EARLY and not any(first <= start < last for first, last in beside)
            for start, _ in self.hits.get("offer", ())
        )

    def is_value(self) -> bool:
        """Whether the sentence is a number and next to nothing else ("In 1932")."""
        text = self.text.strip(EDGE)
        return bool(_NUMBER.search(text)) and length(text) <= _LONGEST_VALUE and not self.may_abstain

    def is_short(self) -> bool:
        """Whether the sentence is short and states no number, as a reply to a question is ("Sadly, none does")."""
        return length(self.text) <= _LONGEST_REPLY and not _DIGIT.search(self.text)

    def names_what_is_missing(self) -> bool:
        """Whether the sentence names something in front of the phrase that finds it missing ("Its height without the mast
        is not given"), and is not about the material."""
        first = min((start for kind in TRIGGERS for start, _ in self.hits.get(kind, ())), default=0)
        return not self.bare and "material" not in self.hits and length(self.text[:first].strip(EDGE)) > _MORE

    def _gives_more_than_is_missing(self, spans: Iterable[tuple[int, int]]) -> bool:
        """Whether a number is given in front of a clause on what is missing beside it: "In 1932, but the exact day is not
        given", "1932 (passage 7); no other passage confirms it"."""
        if not _NUMBER.search(self.text):
            return False
        hits, late = self.hits, max(start for start, _ in spans)
        breaks = [match.start() for match in _CUT.finditer(self.text, 0, late)]
        cut = max(
            [*breaks, *(start for kind in ("but", "although") for start, _ in hits.get(kind, ()) if start <= late)],
            default=0,
        )
        missing = any(start >= cut for start, _ in hits.get("part", ()))
        missing = missing or length(self.text[:cut].strip(EDGE)) <= _ANSWER
        return missing and not any(end <= cut for _, end in spans) and self.states_number(cut)

    def _answers_from(self, start: int) -> bool:
        """Whether what follows a turn answers: some words, and nothing of the material, of not knowing or to the user. A
        numbered passage ("but context 5 says that ...") is a source, not the material as such; so is one that is cited at
        the start ("but according to the text it was Paris")."""
        text, hits = self.text, self.hits
        rest = text[start:]
        behind = [place for place in hits.get("material", ()) if place[0] >= start]
        if not any(end > start for kind in TRIGGERS for _, end in hits.get(kind, ())):
            affirmed = any(at >= start for at, _ in hits.get("affirms", ()))
            # "but it gives the year asked for, 1887", "though the passage records two theories: ..."
            if affirmed or _NUMBER.search(rest) or (behind and _LISTING.search(text, behind[0][1])):
                return True
        sources = {start + end for end in sources_of(rest, {})} | ordinal(hits)
        named = any(end in sources and len(text) - end > 2 * _MORE for _, end in behind)
        lead = start + _skip_edge(rest)
        if citing := [end for at, end in hits.get("citing", ()) if at == lead]:
            sources |= {end for at, end in behind if lead <= at <= max(citing) + CITED and len(text) - end > _MORE}
        return len(rest.strip(EDGE)) > 1 and not _speaks_of(start, len(text), hits, sources, named)


def is_bare(text: str, hits: Hits) -> bool:
    """Whether a sentence is a bare phrase, with at most three openers in front."""
    ends = len(text.rstrip(EDGE))
    bare_starts = {start for start, end in hits.get("bare", ()) if end == ends}
    starts = {_skip_edge(text)}
    openers = hits.get("openers", ()) if ends <= LONGEST_BARE else ()
    for _ in range(3):
        if not bare_starts or bare_starts & starts:
            break
        starts = {
            _skip_edge(text, end)
            for start, end in openers
            if start in starts and (text[end : end + 1] in EDGE or NO_SPACES.match(text[end - 1]))
        }
    return bool(bare_starts & starts)


def _skip_edge(text: str, start: int = 0) -> int:
    """The index of the first character from `start` on that is no mark."""
    return len(text) - len(text[start:].lstrip(EDGE))


def only_openers(text: str, hits: Hits) -> bool:
    """Whether a sentence, or what stands in front in one, is one opener."""
    return "openers" in hits and (_skip_edge(text), len(text.rstrip(EDGE))) in hits["openers"]


def length(text: str) -> int:
    """The characters of a text; those of scripts without spaces count three times."""
    return len(text) + 2 * sum(map(len, NO_SPACES.findall(text)))


def numbered(text: str) -> set[int]:
    """The places where a word ends that a number follows ("passage 3"), or that follows an ordinal ("4. szöveg")."""
    ends = {match.start(1) for match in _NUMBERED.finditer(text)}
    for match in _NUMBER_BEFORE.finditer(text):
        spaced = not NO_SPACES.search(match[0])
        word = _WORD.match(text, match.end())
        ends.update([word.end()] if spaced and word else range(match.end() + 1, match.end() + 5))
    return ends


def ordinal(hits: Hits) -> set[int]:
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
    """The ends of words that name one of the passages: numbered, or with an ordinal beside them."""
    return numbered(text) | ordinal(hits) | {match.end() for match in CITED_PASSAGE.finditer(text)}


def _speaks_of(start: int, end: int, hits: Hits, sources: Collection[int] = (), named: bool = False) -> bool:
    """Whether the text from `start` to `end` speaks of the material (but for `sources`), of not knowing, or to the user;
    where a passage is `named`, "it mentions" is no longer beside the question."""
    return any(
        start <= first < end and not (kind == "material" and last in sources)
        for kind in ("material", *(() if named else ("offer",)), *TRIGGERS)
        for first, last in hits.get(kind, ())
    )


def reviews_passages(sentences: Sequence[Sentence]) -> bool:
    """Whether three sentences or more begin as items ("7) a ship"): they go through the passages."""
    return sum(bool(ITEM.match(sentence.text)) for sentence in sentences) >= _REVIEWED
