"""One passage of several: whether all but one are dismissed and that one answers, in either order ("Passages 1 to 6 are
about bridges. Passage 7 gives the year", "[2] 1932; the rest is unrelated", "All but passage 7 are off-topic").

A clause is about *one* passage (numbered, or with an ordinal), about *some* ("passages 1 to 6", "the others") or about
*all* of them; one that names none goes on about what the clause before was about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from custom_metrics.abstention.folding import EDGE, NO_SPACES, is_boundary, is_word
from custom_metrics.abstention.patterns import Hits
from custom_metrics.abstention.phrases import Lexicon
from custom_metrics.abstention.sentence_reading import (
    CITED_PASSAGE,
    TRIGGERS,
    Sentence,
    ordinal,
    reviews_passages,
    sources_of,
)
from custom_metrics.abstention.sentence_splitting import MASK

_SILENT = ("abstains", "silent", "lacks")
Places = Sequence[tuple[int, int]]
ALL, SOME = "all", "some"  # what a clause is about; one passage is its number
_BREAK = re.compile(r"[,;،؛、](?! ?\d)| - ")
_RANGE = re.compile(r"(?<!\d)(\d{1,2})(?!\d)\W{0,3}(?:[^\W\d]{1,7}\W{1,3}|[^\W\d]{1,3})?(\d{1,2})(?!\d|[ ,.]\d{3})")
_NUMBER = re.compile(r"\d+")
_VALUE = re.compile(r"(?<![\d\[(])\d{2,}")
_NEAR = 20  # characters between "only" or "except" and its passage
_SHORT = 16  # characters beside the passage's name: "It's in passage 7", "[2] 1932"
_NEXT_TO = 4  # between "not" and "given"
_ONLY = 40  # between "only" and "told"
_FEW, _MANY = 12, 240  # of a sentence that says what is told
_LISTED = 6  # characters between two passages that are listed


def one_answers(sentences: Sequence[Sentence], lexicon: Lexicon) -> bool:
    """Whether one passage is said to answer, and only others are dismissed."""
    if not any(
        ((_NUMBER.search(sentence.text) or ordinal(sentence.hits)) and sources_of(sentence.text, sentence.hits))
        or "ordinals" in lexicon.details(sentence.text)
        for sentence in sentences
    ):
        return False  # no passage is named
    answering: set[str] = set()
    reviewed = reviews_passages(sentences)
    singled_out = False
    about = ALL
    for sentence in sentences:
        clauses = [
            (
                start,
                end,
                text := sentence.text[start:end],
                hits := lexicon.search(text) | lexicon.details(text),
                _one_passage(text, hits),
            )
            for start, end in _clauses(sentence.text, sentence.hits | lexicon.details(sentence.text))
        ]
        excepts = any(one is not None and _beside(one, hits, "besides") for *_, hits, one in clauses)
        for start, end, text, hits, one in clauses:
            excepted = one is not None and _beside(one, hits, "besides")
            only = one is not None and _beside(one, hits, "only")
            sole = hits.get("only", ()) if only else ()
            triggers = [
                (start, end)
                for kind in TRIGGERS
                for start, end in hits.get(kind, ())
                if kind != "beside" or not any(start <= first < end for first, _ in sole)
            ]
            if one and excepted:
                answering.add(_number(text, one))
                singled_out, about = True, SOME
            elif one and "some" not in hits:
                about = _number(text, one)
                if triggers:
                    answering.discard(about)
                elif only or "tells" in hits or "affirms" in hits or "present" in hits or _is_value(text, one):
                    answering.add(about)
                    singled_out = singled_out or only
            elif (
                "some" in hits
                or ("material" in hits and ("ordinals" in hits or _is_range(text)))
                or ("[" in text and _is_range(text))
            ):
                about = SOME
                singled_out = singled_out or bool(triggers) or "tells" not in hits
            elif "material" in hits and triggers:
                if not excepts:  # "no passage, except passage 8, gives the year"
                    return False
            elif triggers or _ends_within(sentence.hits, start, end) or _denied(hits):
                if (about == ALL and not (excepts and "abstains" not in hits)) or (reviewed and not start):
                    return False
                answering.discard(about)
            elif about not in (ALL, SOME) and "tells" in hits and _VALUE.search(text):
                answering.add(about)  # "Context 4 is about the ferry, which it dates to 1907"
    return singled_out and bool(answering)


def tells_something_else(sentence: Sentence, lexicon: Lexicon) -> bool:
    """Whether a sentence says that only something else is told ("Only its length is given"), or that one thing is and
    another is not: "The length is given, the date is not", "We learn where she died, but not where she was born". What is
    told must not be a number."""
    text, hits = sentence.text, sentence.hits
    if sentence.asks or not _FEW <= len(text) <= _MANY or _VALUE.search(text):
        return False
    details = lexicon.details(text)
    turns = {end for _, end in hits.get("but", ())}
    breaks = turns | {match.end() for match in _BREAK.finditer(text)}
    tells = _telling(hits, details, breaks)
    if not (tells or ("but" in hits and "material" in hits)):
        return False
    if "only" in details and MASK not in text and _tells_only(text, hits, details["only"], tells, breaks):
        return True
    told = min((end for _, end in tells), default=len(text))
    named = min((end for _, end in hits.get("material", ())), default=len(text))
    cuts = [cut for cut in breaks if told <= cut < len(text)] + [cut for cut in turns if named <= cut < len(text)]
    if not cuts:
        return False
    cut = min(cuts)
    if any(start >= cut for kind in _SILENT for start, _ in hits.get(kind, ())):
        return True
    verbs = [start for start, _ in details.get("tells", ())]
    for start, end in details.get("denies", ()):  # "but not the date", "its date is not given"
        turned = any(0 <= start - turn <= 1 for turn in (cut, *turns))
        if start >= cut and (turned or any(0 <= verb - end <= _NEXT_TO for verb in verbs)):
            return True
    return ends_in_denial(text, lexicon, cut)


def _telling(hits: Hits, details: Hits, breaks: Iterable[int]) -> list[tuple[int, int]]:
    """The verbs of telling in a sentence, but for those that are denied ("contains no sugar"), cite ("according to") or
    report that somebody does not know ("He only said I don't know")."""
    denies = details.get("denies", ())
    unknown = [place for kind in ("bare", "abstains") for place in hits.get(kind, ())]
    reports = [said for said in hits.get("reported", ()) if any(not _parted(said, place, breaks) for place in unknown)]
    others = [*hits.get("citing", ()), *unknown, *reports]
    return [
        (start, end)
        for start, end in details.get("tells", ())
        if not any(0 <= first - end <= _NEXT_TO or 0 <= start - last <= _NEXT_TO for first, last in denies)
        and not any(first <= start and end <= last for first, last in others)
    ]


def _tells_only(text: str, hits: Hits, only: Places, tells: Places, breaks: Iterable[int]) -> bool:
    """Whether "only" stands near a verb of telling, of no passage in particular and not behind "please"."""
    if _passages(text, hits):
        return False
    asked = min((start for kind in ("offer", "material") for start, _ in hits.get(kind, ())), default=len(text))
    turns = hits.get("but", ())  # Korean "다만" is both
    return any(
        start <= asked
        and not any(first <= start < last for first, last in turns)
        and any(
            max(verb - end, start - stop) <= _ONLY and not _parted((start, end), (verb, stop), breaks)
            for verb, stop in tells
        )
        for start, end in only
    )


def _parted(one: tuple[int, int], other: tuple[int, int], breaks: Iterable[int]) -> bool:
    """Whether a clause ends between two places."""
    return any(min(one[1], other[1]) < cut <= max(one[0], other[0]) for cut in breaks)


def abstains_in_clauses(sentences: Sequence[Sentence], lexicon: Lexicon) -> bool:
    """Whether any of the sentences may abstain by :func:`tells_something_else`, as the first one does, or by
    :func:`denies_question`."""
    first = next((sentence for sentence in sentences if not sentence.asks and len(sentence.text) >= _FEW), None)
    return (first is not None and tells_something_else(first, lexicon)) or any(
        before.asks and reply.is_short() and denies_question(reply, lexicon) for before, reply in pairwise(sentences)
    )


def denies_question(sentence: Sentence, lexicon: Lexicon) -> bool:
    """Whether a sentence behind a question denies it ("Is it in there? Sadly it isn't"); a bare "no" and a choice ("yes or
    no") do not."""
    words = {word.strip(EDGE) for word in sentence.text.split()}
    return len(words) > 1 and words.isdisjoint(lexicon.yes) and ends_in_denial(sentence.text, lexicon)


def denies_telling(details: Hits) -> bool:
    """Whether a "not" stands beside a verb of telling."""
    tells = details.get("tells", ())
    return any(
        0 <= verb - end <= _NEAR or 0 <= start - last <= _NEXT_TO
        for start, end in details.get("denies", ())
        for verb, last in tells
    )


def ends_in_denial(text: str, lexicon: Lexicon, start: int = 0) -> bool:
    """Whether a folded sentence ends with a "not" or a "no" that begins at `start` or later ("the date is not")."""
    stop = len(text.rstrip(EDGE))
    if any(end == stop and first >= start for first, end in lexicon.details(text).get("denies", ())):
        return True
    last = next((len(word) for word in lexicon.no if text.endswith(word, start, stop)), 0)
    return bool(last) and (stop == last or is_boundary(text[stop - last - 1], text[stop - last]))


def _clauses(text: str, hits: Hits) -> Iterator[tuple[int, int]]:
    """The (start, end) of each clause: between commas, turns, and passages that are no list."""
    kept = hits.get("besides", ())  # "none but passage 7"
    cuts = {match.end() for match in _BREAK.finditer(text)}
    for start, end in (*hits.get("but", ()), *hits.get("although", ())):
        if not any(first <= start < last for first, last in kept):
            cuts.add(end if start and is_word(text[start - 1]) and not NO_SPACES.match(text[start]) else start)
    last_end = 0
    passages = _passages(text, hits)
    for start, _ in hits.get("some", ()):
        clause = max((cut for cut in cuts if cut <= start), default=0)
        if any(clause <= first and last < start for first, last in passages):
            cuts.add(start)
    for start, end in passages:
        if last_end and start - last_end > _LISTED:
            cuts.add(start)
        number = _NUMBER.match(text, end + 1) or _NUMBER.match(text, end)
        last_end = max(end, number.end() if number else 0)
    at = 0
    for cut in sorted({*cuts, len(text)}):
        if text[at:cut].strip(EDGE):
            yield at, cut
        at = cut


def _passages(text: str, hits: Hits) -> list[tuple[int, int]]:
    """The places that name a passage by its number or an ordinal."""
    sources = sources_of(text, hits)
    others = [end for _, end in hits.get("some", ())]  # "the other passages" has an ordinal, too
    named = [
        (start, end)
        for start, end in hits.get("material", ())
        if end in sources and not any(start - 1 <= other <= end for other in others)
    ]
    tells = hits.get("tells", ())
    alone = [  # "only the seventh says so"
        place
        for place in hits.get("ordinals", ())
        if not any(place[0] - 1 <= end and start <= place[1] + 1 for start, end in named)
        and not any(place[0] - 1 <= end and start <= place[1] + 1 for start, end in hits.get("some", ()))
        and (
            _beside(place, hits, "besides")
            or not text[place[1] :].strip(EDGE)
            or any(0 <= start - place[1] <= _NEXT_TO or 0 <= place[0] - end <= _NEXT_TO for start, end in tells)
        )
    ]
    return sorted({*named, *alone, *(match.span() for match in CITED_PASSAGE.finditer(text))})


def _one_passage(text: str, hits: Hits) -> tuple[int, int] | None:
    passages = _passages(text, hits)
    return None if not passages or _is_range(text) else passages[0]


def _is_range(text: str) -> bool:
    """Whether a text names several passages in a row: "passages 1 to 6", not "passage 5 gives 4 years"."""
    return any(int(first) < int(last) for first, last in _RANGE.findall(text))


def _number(text: str, place: tuple[int, int]) -> str:
    number = _NUMBER.search(text, place[0]) or _NUMBER.search(text)
    return number[0] if number else text[slice(*place)]


def _is_value(text: str, place: tuple[int, int]) -> bool:
    """Whether a clause is a passage and a few words that are its value ("[2] Paris", "1932 (passage 7)", "It's in passage
    7"), not what it treats ("Passage 7 is on rivers")."""
    before, behind = text[: place[0]].strip(EDGE), _NUMBER.sub("", text[place[1] :], 1).strip(EDGE)
    if _VALUE.search(before) or _VALUE.search(behind):
        return True
    short = len(before + behind) + 2 * sum(map(len, NO_SPACES.findall(before + behind))) <= _SHORT
    return short and (not behind or text[place[0]] == "[" or bool(_NUMBER.search(behind)))


def _beside(place: tuple[int, int], hits: Hits, kind: str) -> bool:
    return any(-_NEAR <= place[0] - end <= _NEAR or 0 <= start - place[1] <= _NEAR for start, end in hits.get(kind, ()))


def _denied(hits: Hits) -> bool:
    """Whether a clause turns round to a "not": "but not the year"."""
    return any(0 <= start - end <= _NEAR for start, _ in hits.get("denies", ()) for _, end in hits.get("but", ()))


def _ends_within(hits: Hits, start: int, end: int) -> bool:
    """Whether a phrase that abstains reaches into a clause from the one before ("... the tower, but not the year")."""
    return any(start < last <= end for kind in TRIGGERS for _, last in hits.get(kind, ()))
