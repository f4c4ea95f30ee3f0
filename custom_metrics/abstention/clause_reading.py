"""One passage of several: whether all but one are dismissed and that one answers, in either order ("Passages 1 to 6 are
about bridges. Passage 7 gives the year", "[2] 1932; the rest is unrelated", "All but passage 7 are off-topic").

A clause is about *one* passage (numbered, or with an ordinal), about *some* ("passages 1 to 6", "the others") or about
*all* of them; one that names none goes on about what the clause before was about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from custom_metrics.abstention.folding import EDGE, NO_SPACES, is_word
from custom_metrics.abstention.patterns import Hits
from custom_metrics.abstention.phrases import Lexicon
from custom_metrics.abstention.sentence_reading import CITED_PASSAGE, TRIGGERS, Sentence, ordinal, sources_of

ALL, SOME = "all", "some"  # what a clause is about; one passage is its number
_BREAK = re.compile(r"[,;،؛、](?! ?\d)| - ")
_RANGE = re.compile(r"(?<!\d)\d{1,2}(?!\d)\W{0,3}(?:[^\W\d]{1,6}\W{1,3}|[^\W\d]{1,3})?\d{1,2}(?!\d)")
_NUMBER = re.compile(r"\d+")
_NEAR = 14  # characters between "only" or "except" and its passage
_SHORT = 16  # characters beside the passage's name: "It's in passage 7", "[2] 1932"
_LISTED = 6  # characters between two passages that are listed


def one_answers(sentences: Sequence[Sentence], lexicon: Lexicon) -> bool:
    """Whether one passage is said to answer, and only others are dismissed."""
    if not any(_NUMBER.search(sentence.text) or ordinal(sentence.hits) for sentence in sentences):
        return False  # no passage is named
    answering: set[str] = set()
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
            elif "some" in hits or (_RANGE.search(text) and ("material" in hits or "[" in text)):
                about = SOME
                singled_out = singled_out or bool(triggers) or "tells" not in hits
            elif "material" in hits and triggers:
                if not excepts:  # "no passage, except passage 8, gives the year"
                    return False
            elif triggers or _ends_within(sentence.hits, start, end) or _denied(hits):
                if about == ALL and not (excepts and "abstains" not in hits):
                    return False
                answering.discard(about)
    return singled_out and bool(answering)


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
    return sorted({*named, *(match.span() for match in CITED_PASSAGE.finditer(text))})


def _one_passage(text: str, hits: Hits) -> tuple[int, int] | None:
    passages = _passages(text, hits)
    return None if not passages or _RANGE.search(text) else passages[0]


def _number(text: str, place: tuple[int, int]) -> str:
    number = _NUMBER.search(text, place[0]) or _NUMBER.search(text)
    return number[0] if number else text[slice(*place)]


def _is_value(text: str, place: tuple[int, int]) -> bool:
    """Whether a clause is a passage and a few words that are its value ("[2] Paris", "1932 (passage 7)", "It's in passage
    7"), not what it treats ("Passage 7 is on rivers")."""
    before, behind = text[: place[0]].strip(EDGE), _NUMBER.sub("", text[place[1] :], 1).strip(EDGE)
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
