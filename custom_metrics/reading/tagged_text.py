"""FAVA's tagged text: ``Die Katze ist <entity>Astronaut</entity>.``

A tag can hold a probability: ``<hallucination probability="0.73">Astronaut</hallucination>``.

:func:`parse` reads it tolerantly, because human annotators and language models write it by hand. It never raises, and
counts its repairs. :func:`render` writes it. ``parse(render(text, spans)) == (text, spans)`` for every text, if no two
spans of one category overlap or touch; those that do become one (:func:`merged`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise

from rapidfuzz import fuzz, process
from rapidfuzz.distance import Levenshtein

from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION, Span

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
_NEAR = 75.0  # of rapidfuzz's ratio: `entty`, `invneted`, `subfjective` are a category, `emphasis`, `content` are none
_ESCAPED = re.compile(r"&((?:amp;)*)lt;")
_NEEDS_ESCAPE = re.compile(r"<(?=[\s/A-Za-z]|$)")
_SENTENCE_END = re.compile(r"[.!?。！？।۔؟]+|\n")


def parse(annotated: str | None, repaired: Counter[str] | None = None) -> tuple[str, list[Span]]:
    """Text and spans of a tagged text.

    - A category may be misspelt or capitalised; markup (``<delete>``, ``<mark>``, HTML) goes, the words in it stay.
    - An opening tag while the same category is open closes it, unless the next tag closes it too: then it is doubled.
    - A closing tag closes the last one of its category, else the last one that is open, else it goes.
    - What is never closed ends with its sentence, or before the next tag if that comes first.
    - A ``<`` that opens no tag is text, except as the last word of the text, where it is a tag that was cut off.
    - A tag without ``probability``, or with one that is no number in [0, 1], has probability 1.

    ``None`` counts as empty. Spans are in order of start and end; they may nest and cross. Repairs are counted in
    `repaired`: ``misspelt category``, ``capitalised category``, ``opening tag that closes``, ``doubled opening tag``,
    ``closing tag of another category``, ``closing tag alone``, ``unclosed tag``, ``empty span``, ``cut tag``, ``markup
    removed`` and ``probability that is none``.
    """
    repaired = Counter() if repaired is None else repaired
    annotated = annotated if isinstance(annotated, str) else ""
    cut = _CUT_TAG.search(annotated)
    if cut and (not cut["name"] or any(name.startswith(cut["name"].lower()) for name in (*_NAMES, "delete", "mark"))):
        repaired["cut tag"] += 1
        annotated = annotated[: cut.start()]

    pieces: list[str] = []
    position = length = 0  # in the tagged text, and in the text without tags
    opened: list[Span] = []
    spans: list[Span] = []
    edges: list[int] = []  # places of tags: an unclosed span ends at the next one at the latest

    def add(span: Span, end: int) -> None:
        if span.start < end:
            spans.append(span._replace(end=end))
        else:
            repaired["empty span"] += 1

    tags = [(match, name) for match in _TAG.finditer(annotated) if (name := _name(match["name"]))]
    following = {match.start(): after for (match, _), after in pairwise(tag for tag in tags if tag[1] in _NAMES)}
    for match, name in tags:
        pieces.append(_unescaped(annotated[position : match.start()]))
        length += len(pieces[-1])
        position = match.end()
        if name not in _NAMES:
            repaired["markup removed"] += 1
            continue
        if match["name"] != name:
            repaired["capitalised category" if match["name"].lower() == name else "misspelt category"] += 1
        closes = bool(match["closing"] or match["empty"])
        same = [at for at, span in enumerate(opened) if span.category == name]
        if same and not closes:
            after = following.get(match.start())
            if after is not None and after[0]["closing"] and after[1] == name:
                repaired["doubled opening tag"] += 1
                continue
            repaired["opening tag that closes"] += 1
            closes = True
        edges.append(length)
        if not closes:
            opened.append(Span(length, length, name, _probability(match[0], repaired)))
        elif not opened:
            repaired["closing tag alone"] += 1
        else:
            if not same:
                repaired["closing tag of another category"] += 1
            add(opened.pop(same[-1] if same else -1), length)
    text = "".join([*pieces, _unescaped(annotated[position:])])
    for span in opened:
        repaired["unclosed tag"] += 1
        sentence = _SENTENCE_END.search(text, span.start)
        ends = [sentence.end() if sentence else len(text), *(edge for edge in edges if edge > span.start)]
        add(span, min(ends))
    return text, sorted(spans)


def render(text: str, spans: Iterable[Span]) -> str:
    """Tagged text of a text and its spans, in any order; :func:`parse` gives both back.

    A ``<`` that could open a tag is written ``&lt;``, and a probability under 1 becomes an attribute of the tag.
    """
    opening: dict[int, list[Span]] = defaultdict(list)
    closing: dict[int, list[Span]] = defaultdict(list)
    for span in merged(spans):
        opening[span.start].append(span)
        closing[span.end].append(span)
    pieces: list[str] = []
    position = 0
    for at in sorted({*opening, *closing}):
        pieces.append(_escaped(text, position, at))
        pieces += [f"</{span.category}>" for span in sorted(closing[at], key=lambda s: (-s.start, s.category))]
        for span in sorted(opening[at], key=lambda s: (-s.end, s.category)):
            # repr has every digit, so that what is parsed is what was rendered
            attribute = f' probability="{float(span.probability)!r}"' if span.probability < 1 else ""
            pieces.append(f"<{span.category}{attribute}>")
        position = at
    pieces.append(_escaped(text, position, len(text)))
    return "".join(pieces)


def merged(spans: Iterable[Span]) -> list[Span]:
    """Spans in order of start and end: empty ones removed, those of one category made disjoint.

    Spans of one category and probability that overlap or touch become one. Of two probabilities the higher holds.
    """
    by_category: dict[str, list[Span]] = defaultdict(list)
    for span in sorted(spans, key=lambda span: span.probability):
        by_category[span.category].append(span)
    disjoint: list[Span] = []
    for category, group in by_category.items():
        edges = sorted({edge for span in group for edge in (span.start, span.end)})
        place = {edge: number for number, edge in enumerate(edges)}
        probabilities: list[float | None] = [None] * len(edges)  # from each edge to the next
        for span in group:  # the most probable has the last word
            first, last = place[span.start], place[span.end]
            probabilities[first:last] = [span.probability] * (last - first)
        for probability, run in groupby(range(len(edges)), key=probabilities.__getitem__):
            if probability is not None:
                numbers = [*run]
                disjoint.append(Span(edges[numbers[0]], edges[numbers[-1] + 1], category, probability))
    return sorted(disjoint)


def tag_counts(annotated: str | None) -> Counter[str]:
    """Opening tags by category, as the paper counted its gold spans: exact spellings only, no misspelt or capitalised ones.

    Summed over the documents of a language these are the figures of the mFAVA paper's Table 2. Where annotators used an
    opening tag to close (German ``<entity>Kater<entity>``), both count; :func:`parse` reads one span there.
    """
    return Counter(_AS_WRITTEN.findall(annotated or ""))


@dataclass(frozen=True)
class Alignment:
    """Spans carried over to another version of their text, in characters of the latter.

    The kind is ``identical``, ``white space`` (the texts differ in nothing else), ``edited``, or :data:`LOST`: the text
    holds too little of the original for its spans to mean anything, and there are none.
    """

    spans: list[Span]
    kind: str
    similarity: float  # share of the characters (without white space) of both that they have in common, in order


LOST, LOST_BELOW = "lost", 0.5
_CHARACTERS_AT_MOST = 20_000  # above, texts are compared word by word: characters would take minutes


def align(text: str, spans: Sequence[Span], original: str) -> Alignment:
    """Carry spans of `text` over to `original`, of which `text` is a copy with possible changes.

    A character of the original is in a span if its counterpart is. So is a part that was left out between two of them.
    """
    if text == original:
        return Alignment(list(spans), "identical", 1.0)
    mine, theirs = ([at for at, char in enumerate(version) if not char.isspace()] for version in (text, original))
    alike = [text[at] for at in mine] == [original[at] for at in theirs]
    pairs = dict(zip(mine, theirs, strict=True)) if alike else _counterparts(text, mine, original, theirs)
    similarity = 1.0 if alike else 2 * len(pairs) / (len(mine) + len(theirs))
    if similarity < LOST_BELOW:
        return Alignment([], LOST, similarity)
    carried = []
    for span in spans:
        inside = mine[bisect_left(mine, span.start) : bisect_left(mine, span.end)]
        places = [pairs[at] for at in inside if at in pairs]
        if places:
            carried.append(span._replace(start=places[0], end=places[-1] + 1))
    return Alignment(merged(carried), "white space" if alike else "edited", similarity)


def _counterparts(text: str, mine: list[int], original: str, theirs: list[int]) -> dict[int, int]:
    """Map characters of the text to their counterparts in the original, both by index."""
    if len(mine) + len(theirs) <= _CHARACTERS_AT_MOST:
        a, b = "".join(text[at] for at in mine), "".join(original[at] for at in theirs)
        return {
            mine[block.a + step]: theirs[block.b + step]
            for block in Levenshtein.opcodes(a, b).as_matching_blocks()
            for step in range(block.size)
        }
    a_words, b_words = ([*re.finditer(r"\S{1,100}", version)] for version in (text, original))
    pairs: dict[int, int] = {}
    for block in Levenshtein.opcodes([word[0] for word in a_words], [word[0] for word in b_words]).as_matching_blocks():
        for step in range(block.size):
            a_word, b_word = a_words[block.a + step], b_words[block.b + step]
            pairs.update(zip(range(*a_word.span()), range(*b_word.span()), strict=True))
    return pairs


@lru_cache(maxsize=4096)
def _name(written: str) -> str:
    """The category or markup that a tag's name stands for; empty where there is none, and the tag is text."""
    lowered = written.lower().strip("_-")
    if lowered in _NAMES or lowered in _MARKUP:
        return lowered
    if lowered in _SYNONYMS:
        return _SYNONYMS[lowered]
    if len(lowered) < 5:
        return ""
    near = process.extractOne(lowered, _NAMES, scorer=fuzz.ratio, score_cutoff=_NEAR)
    return str(near[0]) if near else ""


def _probability(tag: str, repaired: Counter[str]) -> float:
    """The value of a tag's ``probability``; 1 without one, or where it is no number in [0, 1]."""
    match = _PROBABILITY.search(tag)
    if match is None:
        return 1.0
    with suppress(ValueError):
        if 0 <= (probability := float(match[1])) <= 1:
            return probability
    repaired["probability that is none"] += 1
    return 1.0


def _unescaped(piece: str) -> str:
    return _ESCAPED.sub(lambda match: f"&{match[1][4:]}lt;" if match[1] else "<", piece)


def _escaped(text: str, start: int, end: int) -> str:
    return _NEEDS_ESCAPE.sub("&lt;", _ESCAPED.sub(lambda match: f"&amp;{match[1]}lt;", text[start:end]))
