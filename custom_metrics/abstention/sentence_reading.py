"""Sentences of an answer: how it is split into them, the phrases in one, whether it abstains and why.

Text that is not the answer's own statement is removed first: quotations, and the steps before a last "Answer:".
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterator
from typing import NamedTuple

from custom_metrics.abstention.folding import EDGE, NO_SPACES, is_boundary, is_word
from custom_metrics.abstention.patterns import Hits
from custom_metrics.abstention.phrases import Lexicon

MASK = "\x00"  # stands for what was quoted
_CLOSING = r".!?。؟۔।॥\n;؛｡…"
_MARKS = re.compile(f"[{_CLOSING}]+")
_PIECE = re.compile(f"[^{_CLOSING}]*([{_CLOSING}]*)")
_BEHIND = frozenset(" \"')]")  # what may stand behind a sentence
_NUMERALS = frozenset("ivx")
_DOUBLE_QUOTED = re.compile(r'"[^"\n]{0,200}"')
_SINGLE_QUOTED = re.compile(r"(?<![^\W_])'[^\n]{1,120}?'(?![^\W_\uac00-\ud7a3])")  # Korean: "'...'고"


def stated_text(text: str, lexicon: Lexicon) -> str:
    """The part of a folded text that the speaker states: the text after the last "Answer:", or all of it where there is
    none. Quotations are replaced by :data:`MASK`, unless they are the speaker's own verdict."""
    marker = deque(lexicon.answer_marker.finditer(text), maxlen=1) if ":" in text else None
    if marker and (not (at := marker[0].start()) or is_boundary(text[at - 1], text[at])):
        behind = text[marker[0].end() :]
        text = behind if behind.strip(EDGE) else text
    return without_quotations(text.strip(), lexicon)


def without_quotations(text: str, lexicon: Lexicon) -> str:
    """A folded text with :data:`MASK` in place of quotations."""
    if '"' in text:
        text = _DOUBLE_QUOTED.sub(lambda match: _quoted(match, lexicon), text)
    if text.count("'") > 1:
        text = _SINGLE_QUOTED.sub(lambda match: _quoted(match, lexicon), text)
    return text


def split(text: str) -> Iterator[tuple[str, bool]]:
    """Each sentence of a text without its closing marks, and whether it asks; those of one character are left out."""
    start, end, size = 0, 0, len(text)
    while end < size and (piece := _PIECE.match(text, end)):
        stop, end = piece.span(1)
        if end == size or _ends_sentence(text, stop, end):
            if stop - start > 1:
                yield text[start:stop], "?" in piece[1] or "؟" in piece[1]
            start = end


def _ends_sentence(text: str, start: int, end: int) -> bool:
    """Whether the marks at [start, end) end a sentence, with text behind: not in "3.5", nor behind "J.", "15." or "V."."""
    marks, after = text[start:end], text[end]
    if marks != ".":
        return bool(marks.strip(".!?")) or after in _BEHIND or "\u3040" <= after <= "\u9fff"
    if after not in _BEHIND:
        return False
    word = text[max(0, start - 4) : start].split(" ")[-1]
    short = len(word) < 2 or (len(word) < 3 and word.isdigit()) or (len(word) < 4 and _NUMERALS.issuperset(word))
    return not (word and short)


def _quoted(match: re.Match[str], lexicon: Lexicon) -> str:
    """Keep a quotation that is the speaker's own verdict (``the answer is "unknown".``), mask any other."""
    before = match.string[max(0, match.start() - 60) : match.start()].rstrip(" :,-\"'")
    after = match.string[match.end() : match.end() + 3].strip(" .!\"')")
    before = _MARKS.split(before)[-1].strip()
    ends = not after or match.string[match.end() : match.end() + 1] in "\n.。"
    quoted = match[0][1:-1]
    if ends and (not before or any(end == len(before) for _, end in lexicon.search(before).get("openers", ()))):
        return f" {quoted} "
    behind = ends and match.string[: match.start()].rstrip().endswith(":")
    if behind and any(lexicon.answer_marker.fullmatch(f"{word}:") for word in before.split()):
        hits = lexicon.search(quoted)
        if (0, len(quoted)) in (*hits.get("bare", ()), *hits.get("abstains", ())):
            return f"\n{quoted} "  # `The answer to this question is: "unanswerable"`
    return MASK + "." if match[0][-2] in ".!?" and match.string[match.end() : match.end() + 1] == " " else MASK


LONGEST_BARE = 120  # characters of a bare phrase and what opens it
DETAIL = 25  # characters behind "I can't tell"
_EARLY, _MORE = 3, 8  # characters in front of a turn to the user; that an answer has behind its source
CITATION, CITED = 60, 12  # "According to the given passages" is no longer than that; nor is "[3] and [4]" behind it
TRIGGERS = frozenset(("abstains", "silent", "lacks", "beside"))  # without any, only a bare phrase abstains
_COMMA = re.compile("[,،、]")
# Behind a word ("passage 3", "文章[2]", "muktadha wa 3") or before it ("4. szöveg", "৪ নম্বর প্রসঙ্গ", "第三段").
_NUMBERED = re.compile(r"(?<=[\w\u0900-\u0e7f])(?<!\d)(?=( ?\[?\d| (?:[^\W\d]{1,3}\.?) \d{1,2}(?!\d)|ที่ ?\d))")
_NUMBER_BEFORE = re.compile(
    r"(?:\[\d{1,2}\]\w{0,2}|(?<!\d)\d{1,2}(?:[.ºª°]|-?[^\W\d]{1,3}\b| ?(?:নম্বর|নং|नंबर|नम्बर|نمبر)))\s(?=[^\W\d])"
    r"|第[\d一二三四五六七八九十]{1,2}|(?<!\d)\d{1,2}(?:番目?|つ目)の?"
)
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d]")
_WORD = re.compile(r"[^\s\d.,;:!?()\"']{1,30}")
_IN_BRACKETS = re.compile(r"[(\[（【][^()\[\]（）【】]{0,30}\d[^()\[\]（）【】]{0,20}[)\]）】]")
_LISTING = re.compile(r": ?\S")
_NUMBER = re.compile(r"(?<![\d\[(])\d{2,}")
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
TURNED = SentenceLabel("it turns round: an answer stands behind the abstention", False)
CONCEDED = SentenceLabel("the abstention is a concession: an answer stands beside it", False)


class Sentence:
    """A folded sentence and the phrases in it (`hits`): whether it asks, is a bare phrase (`bare`), and answers with a
    passage named as its source in brackets or at its end (`sourced`)."""

    __slots__ = ("_lead", "asks", "bare", "hits", "sourced", "text")

    def __init__(self, text: str, asks: bool, lexicon: Lexicon) -> None:
        self.text, self.asks, self.hits = text, asks, lexicon.search(text)
        self._lead = _skip_edge(text)
        self.bare = is_bare(text, self.hits)
        self.sourced = bool(_DIGIT.search(text) and _LETTER.search(_IN_BRACKETS.sub("", text))) and self._drop_sources()

    def _drop_sources(self) -> bool:
        """Remove passages named as a source, in brackets or at the end, from the material. Return whether there were some,
        nothing else is material, and the sentence does not abstain: "Built in 1889 (context 4)"."""
        text, hits = self.text, self.hits
        brackets = [match.span() for match in _IN_BRACKETS.finditer(text) if match.start() > self._lead + _MORE]
        cited = [  # "..., according to context 2"
            start
            for start, _ in (*hits.get("citing", ()), *hits.get("material", ()))
            if text[max(0, start - 2) : start] == ", " and len(text) - start <= CITATION and numbered(text[start:])
        ]
        material = [
            (start, end)
            for start, end in hits.pop("material", ())
            if not any(first < start and end <= last for first, last in brackets)
            and not any(0 <= start - first <= CITED + 20 for first in cited)
        ]
        if material:
            hits["material"] = material
        return not material and bool(brackets or cited) and TRIGGERS.isdisjoint(hits)

    def opens_with(self, kind: str, within: int) -> bool:
        """Whether a phrase of that kind stands in the first few characters."""
        return any(start - self._lead <= within for start, _ in self.hits.get(kind, ()))

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
        """Whether it gives what a numbered passage says: "However, passage 2 says 1889" (a turn in its front)."""
        hits = self.hits
        if "material" not in hits or not TRIGGERS.isdisjoint(hits):
            return False
        end = hits["material"][0][1]
        if end not in sources_of(self.text):
            return False
        rest = self.text[end:]
        turns = self.opens_with("but", within) and len(rest) > 2 * _MORE
        quotes = "\0" in rest and "offer" not in hits
        return turns or quotes or "present" in hits or "affirms" in hits or bool(_LISTING.search(self.text, end))

    def asks_for_a_detail(self) -> bool:
        """Whether it names at some length what it cannot tell: "I can't tell from the text how the moon was formed"."""
        ends = [end for kind in TRIGGERS for _, end in self.hits.get(kind, ())]
        return bool(ends) and not self.bare and length(self.text[max(ends) :]) >= DETAIL

    def answers_before_a_turn(self) -> bool:
        """Whether some words that speak of nothing missing stand before a turn: "They differ, but it does not say how"."""
        turn = min((start for start, _ in self.hits.get("but", ())), default=0)
        return length(self.text[self._lead : turn]) >= DETAIL and not _speaks_of(0, turn, self.hits)

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
        first, last = min(start for start, _ in spans), max(end for _, end in spans)
        for start, end in hits.get("but", ()):
            # "없지만": the turn may be the end of the word that abstains
            suffix = end >= last and start > 0 and is_word(text[start - 1]) and not NO_SPACES.match(text[start])
            if (start >= last or suffix) and self._answers_from(end):
                return TURNED
        for start, end in hits.get("although", ())[:1]:
            lead = text[:start]
            if start >= first or _COMMA.search(text, end, first):
                break  # the concession is over before the abstention begins
            if len(lead.strip(EDGE)) > 1 and not only_openers(lead, hits) and not _speaks_of(0, start, hits):
                return CONCEDED  # "Paris, although the text does not say so."
            comma = _COMMA.search(text, last)
            if comma and self._answers_from(comma.end()):
                return CONCEDED
        return ALONE if by_itself else BESIDE if beside else SILENT

    def offers(self) -> bool:
        """Whether the sentence turns to the user at its start ("Please answer only from the contexts")."""
        beside = self.hits.get("beside", ())
        return any(
            start - self._lead <= _EARLY and not any(first <= start < last for first, last in beside)
            for start, _ in self.hits.get("offer", ())
        )

    def _answers_from(self, start: int) -> bool:
        """Whether what follows a turn answers: some words, and nothing of the material, of not knowing or to the user. A
        numbered passage ("but context 5 says that ...") is a source, not the material; so is one cited at the start."""
        text, hits = self.text, self.hits
        rest = text[start:]
        behind = [place for place in hits.get("material", ()) if place[0] >= start]
        if not any(end > start for kind in TRIGGERS for _, end in hits.get(kind, ())):
            affirmed = any(at >= start for at, _ in hits.get("affirms", ()))
            # "but it gives the year asked for, 1887", "though the passage records two theories: ..."
            if affirmed or _NUMBER.search(rest) or (behind and _LISTING.search(text, behind[0][1])):
                return True
        sources = {start + end for end in sources_of(rest)}
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


def sources_of(text: str) -> set[int]:
    """The ends of words that name one of the passages by its number."""
    return numbered(text) | {match.end() for match in CITED_PASSAGE.finditer(text)}


def _speaks_of(start: int, end: int, hits: Hits, sources: Collection[int] = (), named: bool = False) -> bool:
    """Whether the text from `start` to `end` speaks of the material (but for `sources`), of not knowing, or to the user;
    where a passage is `named`, "it mentions" is no longer beside the question."""
    return any(
        start <= first < end and not (kind == "material" and last in sources)
        for kind in ("material", *(() if named else ("offer",)), *TRIGGERS)
        for first, last in hits.get(kind, ())
    )
