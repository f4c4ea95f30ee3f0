"""FAVA's tagged text: ``Die Katze ist <entity>Astronaut</entity>.``

A tag can hold a probability: ``<hallucination probability="0.73">Astronaut</hallucination>``.

:func:`parse` reads it tolerantly, because human annotators and language models write it by hand. It never raises, and
counts its repairs in a :class:`ParseReport`. :func:`render` writes it: a ``<`` of the text that could open a tag becomes
``&lt;``. ``parse(render(text, spans)) == (text, spans)`` for every text, if no two spans of one category overlap or touch.
Those that do become one (see :func:`merged`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import heappop, heappush
from itertools import pairwise

from rapidfuzz import fuzz, process
from rapidfuzz.distance import Levenshtein

from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION, Span

__all__ = ["Alignment", "ParseReport", "align", "parse", "render", "tag_counts"]

# A tag holds no other bracket, and its name no digit: `a < b and c > d` and `<3` are text.
_ATTRIBUTE = r"""\s{1,4}[\w:-]{1,40}\s?=\s?(?:"[^"<>]{0,300}"|'[^'<>]{0,300}'|[^\s<>"']{1,300})"""
_TAG = re.compile(
    rf"<\s?(?P<closing>/?)\s?(?P<name>[A-Za-z][A-Za-z_-]{{0,30}})(?:{_ATTRIBUTE}){{0,8}}\s?(?P<empty>/?)>"
)
_CUT_TAG = re.compile(r"</?(?P<name>[A-Za-z]{0,30})$")
_PROBABILITY = re.compile(r"""\sprobability\s?=\s?["']?([^\s<>"'/]*)""")
_AS_WRITTEN = re.compile(rf"<({'|'.join(CATEGORIES)})>")
# FAVA's editing marks (the words between them stay), and HTML from annotators' browsers.
_MARKUP = frozenset(
    "delete deleted mark a b big br blockquote center code dd del div dl dt em font h1 h2 h3 h4 h5 h6 hr i img ins li ol p "
    "pre q s small span strike strong sub sup table tbody td th thead tr u ul".split()
)
_NAMES = (*CATEGORIES, HALLUCINATION)
_SYNONYMS = {
    "contradiction": "contradictory",
    "unverified": "unverifiable",
    "invention": "invented",
    "hallucinated": HALLUCINATION,
}
_NEAR = (
    75.0  # of rapidfuzz's ratio: `entty`, `invneted`, `subfjective` are a category, `emphasis` and `content` are none
)
_ESCAPED = re.compile(r"&((?:amp;)*)lt;")
_NEEDS_ESCAPE = re.compile(r"<(?=[\s/A-Za-z]|$)")
_SENTENCE_END = re.compile(r"[.!?。！？।۔؟]+|\n")


@dataclass
class ParseReport:
    """Counts of repairs, summed over the texts that were parsed with it.

    Attributes:
        texts: how many were parsed.
        spans: how many were read.
        repaired: what was wrong, and how often: ``misspelt category``, ``capitalised category``, ``opening tag that
            closes``, ``doubled opening tag``, ``closing tag of another category``, ``closing tag alone``, ``unclosed tag``,
            ``empty span``, ``cut tag``, ``markup removed``, ``probability that is none``.
    """

    texts: int = 0
    spans: int = 0
    repaired: Counter[str] = field(default_factory=Counter)


def parse(annotated: str | None, report: ParseReport | None = None) -> tuple[str, list[Span]]:
    """Text and spans of a tagged text.

    - A category may be misspelt or capitalised; markup (``<delete>``, ``<mark>``, HTML) goes, the words in it stay.
    - An opening tag while the same category is open closes it, unless the next tag closes it too: then it is doubled.
    - A closing tag closes the last one of its category, else the last one that is open, else it goes.
    - What is never closed ends with its sentence, or before the next tag if that comes first.
    - A ``<`` that opens no tag is text, except as the last word of the text, where it is a tag that was cut off.
    - A tag without ``probability``, or with one that is no number in [0, 1], has probability 1.

    Args:
        annotated: the tagged text; ``None`` counts as empty.
        report: where the repairs are counted.

    Returns:
        The text without tags, and the spans in it in order of start and end; spans may nest and cross.
    """
    report = ParseReport() if report is None else report
    report.texts += 1
    annotated = annotated if isinstance(annotated, str) else ""
    cut = _CUT_TAG.search(annotated)
    if cut and (not cut["name"] or any(name.startswith(cut["name"].lower()) for name in (*_NAMES, "delete", "mark"))):
        report.repaired["cut tag"] += 1
        annotated = annotated[: cut.start()]

    tags = [(match, name) for match in _TAG.finditer(annotated) if (name := _name(match["name"]))]
    reader = _Reader(report)
    position = 0
    categories = [(match, name) for match, name in tags if name in _NAMES]
    following = {match.start(): after for (match, _), after in pairwise(categories)}
    for match, name in tags:
        reader.text(annotated[position : match.start()])
        position = match.end()
        if name not in _NAMES:
            report.repaired["markup removed"] += 1
            continue
        _count_spelling(match["name"], name, report)
        if match["closing"] or match["empty"]:
            reader.close(name)
        elif name in reader.open_names():
            after = following.get(match.start())
            if after is not None and after[0]["closing"] and after[1] == name:
                report.repaired["doubled opening tag"] += 1
            else:
                report.repaired["opening tag that closes"] += 1
                reader.close(name)
        else:
            reader.open(name, _probability(match[0], report))
    reader.text(annotated[position:])
    return reader.finish()


class _Reader:
    """Text and spans as far as they are read, and what is open."""

    def __init__(self, report: ParseReport) -> None:
        self.report = report
        self.pieces: list[str] = []
        self.length = 0
        self.opened: list[tuple[int, str, float]] = []
        self.spans: list[Span] = []
        self.boundaries: list[int] = []  # where a tag stood: what is unclosed ends there at the latest

    def text(self, piece: str) -> None:
        piece = _ESCAPED.sub(_unescaped, piece)
        self.pieces.append(piece)
        self.length += len(piece)

    def open_names(self) -> list[str]:
        return [name for _, name, _ in self.opened]

    def open(self, name: str, probability: float) -> None:
        self.boundaries.append(self.length)
        self.opened.append((self.length, name, probability))

    def close(self, name: str) -> None:
        self.boundaries.append(self.length)
        same = [index for index, (_, opened, _) in enumerate(self.opened) if opened == name]
        if not self.opened:
            self.report.repaired["closing tag alone"] += 1
            return
        if not same:
            self.report.repaired["closing tag of another category"] += 1
        start, opened, probability = self.opened.pop(same[-1] if same else -1)
        self._add(Span(start, self.length, opened, probability))

    def finish(self) -> tuple[str, list[Span]]:
        text = "".join(self.pieces)
        for start, name, probability in self.opened:
            self.report.repaired["unclosed tag"] += 1
            tags = [at for at in self.boundaries if at > start]
            sentence = _SENTENCE_END.search(text, start)
            ends = [*tags, *([sentence.end()] if sentence else []), len(text)]
            self._add(Span(start, min(ends), name, probability))
        self.spans.sort()
        self.report.spans += len(self.spans)
        return text, self.spans

    def _add(self, span: Span) -> None:
        if span.start < span.end:
            self.spans.append(span)
        else:
            self.report.repaired["empty span"] += 1


def render(text: str, spans: Iterable[Span]) -> str:
    """Tagged text of a text and its spans; :func:`parse` gives both back.

    Args:
        text: any text; a ``<`` that could open a tag is written ``&lt;``.
        spans: in any order; see :func:`merged` for those that are empty, overlap or touch. A probability under 1 becomes
            an attribute of the tag.
    """
    opening: dict[int, list[Span]] = {}
    closing: dict[int, list[Span]] = {}
    for span in merged(spans):
        opening.setdefault(span.start, []).append(span)
        closing.setdefault(span.end, []).append(span)
    pieces: list[str] = []
    position = 0
    for at in sorted({*opening, *closing}):
        pieces.append(_escaped(text, position, at))
        pieces += [f"</{span.category}>" for span in sorted(closing.get(at, ()), key=lambda s: (-s.start, s.category))]
        pieces += [_opening_tag(span) for span in sorted(opening.get(at, ()), key=lambda s: (-s.end, s.category))]
        position = at
    pieces.append(_escaped(text, position, len(text)))
    return "".join(pieces)


def merged(spans: Iterable[Span]) -> list[Span]:
    """Spans in order of start and end: empty ones removed, those of one category made disjoint.

    Spans of one category and probability that overlap or touch become one. Where overlapping spans differ in probability,
    the higher one holds for the part they share.
    """
    by_category: dict[str, list[Span]] = {}
    for span in sorted(spans):
        by_category.setdefault(span.category, []).append(span)
    return sorted(span for group in by_category.values() for span in _disjoint(group))


def _disjoint(spans: Sequence[Span]) -> list[Span]:
    """Spans of one category, in order of start, made disjoint: see :func:`merged`. An empty one covers nothing."""
    found: list[Span] = []
    covering: list[tuple[float, int]] = []  # (-probability, end), the most probable first
    following = 0
    for left, right in pairwise(sorted({edge for span in spans for edge in (span.start, span.end)})):
        while following < len(spans) and spans[following].start <= left:
            heappush(covering, (-spans[following].probability, spans[following].end))
            following += 1
        while covering and covering[0][1] <= left:
            heappop(covering)
        if not covering:
            continue
        probability = -covering[0][0]
        if found and found[-1].end == left and found[-1].probability == probability:
            found[-1] = found[-1]._replace(end=right)
        else:
            found.append(Span(left, right, spans[0].category, probability))
    return found


def tag_counts(annotated: str | None) -> Counter[str]:
    """Opening tags by category, as the paper counted its gold spans: exact spellings only, no misspelt or capitalised ones.

    Summed over the documents of a language these are the figures of the mFAVA paper's Table 2. Where annotators used an
    opening tag to close (German ``<entity>Kater<entity>``), both count; :func:`parse` reads one span there.
    """
    return Counter(_AS_WRITTEN.findall(annotated or ""))


# ---------------------------------------------------------------------------------------------------------- alignment


@dataclass(frozen=True)
class Alignment:
    """Spans carried over to another version of their text.

    Attributes:
        spans: in characters of the original.
        kind: ``identical``, ``white space`` (the texts differ in nothing else), ``edited``, or ``lost``: so little of the
            original is in the text that the spans mean nothing, and there are none.
        similarity: share of the characters (without white space) of both that they have in common, in order; 1.0 for two
            empty texts.
    """

    spans: list[Span]
    kind: str
    similarity: float


LOST_BELOW = 0.5
_CHARACTERS_AT_MOST = 20_000  # above, texts are compared word by word: characters would take minutes


def align(text: str, spans: Sequence[Span], original: str) -> Alignment:
    """Carry spans of `text` over to `original`, of which `text` is a copy with possible changes.

    A character of the original is in a span if its counterpart is. A part that the copy left out is in a span if both its
    neighbours are in the same one.
    """
    if text == original:
        return Alignment(list(spans), "identical", 1.0)
    mine, theirs = _solid(text), _solid(original)
    if [text[at] for at in mine] == [original[at] for at in theirs]:
        pairs = dict(zip(mine, theirs, strict=True))
        return Alignment(_carried(spans, mine, pairs), "white space", 1.0)
    pairs = _counterparts(text, mine, original, theirs)
    similarity = 2 * len(pairs) / (len(mine) + len(theirs))
    if similarity < LOST_BELOW:
        return Alignment([], "lost", similarity)
    return Alignment(_carried(spans, mine, pairs), "edited", similarity)


def _solid(text: str) -> list[int]:
    return [at for at, character in enumerate(text) if not character.isspace()]


def _counterparts(text: str, mine: list[int], original: str, theirs: list[int]) -> dict[int, int]:
    """Character of the text to its counterpart in the original."""
    if len(mine) + len(theirs) <= _CHARACTERS_AT_MOST:
        a, b = "".join(text[at] for at in mine), "".join(original[at] for at in theirs)
        return {
            mine[block.a + step]: theirs[block.b + step]
            for block in Levenshtein.opcodes(a, b).as_matching_blocks()
            for step in range(block.size)
        }
    words = [[match.span() for match in re.finditer(r"\S{1,100}", whole)] for whole in (text, original)]
    a_words, b_words = ([whole[s:e] for s, e in found] for whole, found in zip((text, original), words, strict=True))
    pairs = {}
    for block in Levenshtein.opcodes(a_words, b_words).as_matching_blocks():
        for step in range(block.size):
            (start, end), (other, _) = words[0][block.a + step], words[1][block.b + step]
            pairs.update({start + offset: other + offset for offset in range(end - start)})
    return pairs


def _carried(spans: Sequence[Span], mine: list[int], pairs: dict[int, int]) -> list[Span]:
    from bisect import bisect_left

    carried = []
    for span in spans:
        inside = mine[bisect_left(mine, span.start) : bisect_left(mine, span.end)]
        kept = [pairs[at] for at in inside if at in pairs]
        if kept:
            carried.append(span._replace(start=kept[0], end=kept[-1] + 1))
    return merged(carried)


# ------------------------------------------------------------------------------------------------------------- details


@lru_cache(maxsize=4096)
def _name(written: str) -> str:
    """The category or markup that a tag's name means; empty where it means none, and the tag is text."""
    lowered = written.lower().strip("_-")
    if lowered in _NAMES or lowered in _MARKUP:
        return lowered
    if lowered in _SYNONYMS:
        return _SYNONYMS[lowered]
    if len(lowered) < 5:
        return ""
    near = process.extractOne(lowered, _NAMES, scorer=fuzz.ratio, score_cutoff=_NEAR)
    return str(near[0]) if near else ""


def _opening_tag(span: Span) -> str:
    # repr has every digit, so that what is parsed is what was rendered
    attribute = f' probability="{float(span.probability)!r}"' if span.probability < 1 else ""
    return f"<{span.category}{attribute}>"


def _probability(tag: str, report: ParseReport) -> float:
    """What a tag's ``probability`` says; 1 without one, or where it is no number in [0, 1]."""
    match = _PROBABILITY.search(tag)
    if match is None:
        return 1.0
    try:
        probability = float(match[1])
    except ValueError:
        probability = math.nan
    if 0 <= probability <= 1:
        return probability
    report.repaired["probability that is none"] += 1
    return 1.0


def _count_spelling(written: str, name: str, report: ParseReport) -> None:
    if written == name:
        return
    report.repaired["capitalised category" if written.lower() == name else "misspelt category"] += 1


def _unescaped(match: re.Match[str]) -> str:
    return f"&{match[1][4:]}lt;" if match[1] else "<"


def _escaped(text: str, start: int, end: int) -> str:
    return _NEEDS_ESCAPE.sub("&lt;", _ESCAPED.sub(lambda match: f"&amp;{match[1]}lt;", text[start:end]))
