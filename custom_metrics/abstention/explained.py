"""Explanations of abstentions: the phrases and sentences that decide, for native speakers who correct a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from custom_metrics.abstention import decide, excerpt, lexicons
from custom_metrics.abstention.patterns import PatternMatch, sources
from custom_metrics.abstention.phrases import Lexicon


class Match(NamedTuple):
    """A phrase of a table that occurs in a sentence."""

    kind: str  # the key of the table
    pattern: str  # the phrase, as the table writes it
    text: str  # the words of the sentence that it matches
    words: tuple[tuple[str, str], ...]  # part and item of each word that came from a part


class SentenceRead(NamedTuple):
    """One sentence, and its label."""

    text: str  # folded: lower case, without quotations
    reading: str
    matches: tuple[Match, ...]


class Explanation(NamedTuple):
    """The decision of the tables of one language (:class:`custom_metrics.abstention.Decision`), sentence by sentence."""

    language: str
    abstains: bool
    reason: str
    sure: bool
    sentences: tuple[SentenceRead, ...]


def explain(text: str, language: str | None = None) -> list[Explanation]:
    """Explain the decision of each language's tables. An answer abstains where one of them decides so. Arguments are those
    of :func:`custom_metrics.abstention.is_abstention`."""
    explanations = []
    for code, lexicon in lexicons(text, language):
        abstains, reason, sure, read = decide(lexicon.fold(excerpt(text)), lexicon)
        sentences = (SentenceRead(sentence, why, tuple(matches(sentence, lexicon))) for sentence, why in read)
        explanations.append(Explanation(code, abstains, reason, sure, tuple(sentences)))
    return explanations


def matches(sentence: str, lexicon: Lexicon) -> Iterator[Match]:
    """The phrases in a folded sentence."""
    trace: list[PatternMatch] = []
    hits = lexicon.search(sentence, trace)
    for pattern, places in dict.fromkeys(trace):
        start, end = places[0][0], places[-1][1]
        if any(end == hit[1] for hit in hits.get(pattern.kind, ())):  # others are spared by an exception
            words = tuple(dict.fromkeys(sources((pattern, places))))
            yield Match(pattern.kind, pattern.written, sentence[start:end], words)
