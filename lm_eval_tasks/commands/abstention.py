"""Show why an answer is read as an abstention, or why not.

Prints how each sentence of the answer is read, and the phrases of the table that stand in it: what a native speaker needs
to correct a table. The tables are in custom_metrics/abstention/tables.

Examples:
  lm-eval-grounded abstention "I cannot tell from the passages." --language en
  lm-eval-grounded abstention - --language de < answer.txt
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from lm_eval_tasks.commands import say

if TYPE_CHECKING:
    from custom_metrics.abstention import Decision
    from custom_metrics.abstention.patterns import PatternMatch
    from custom_metrics.abstention.phrases import Lexicon


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", metavar="TEXT", help="the answer; `-` reads standard input")
    parser.add_argument("--language", help="ISO 639 code (default: the two languages that the answer most looks like)")


def run(arguments: argparse.Namespace) -> int:
    from lm_eval_tasks.detection.language_tags import with_phrases

    language = with_phrases(arguments.language or None)
    answer = sys.stdin.read() if arguments.text == "-" else arguments.text
    if not answer.strip():
        raise ValueError("the answer is empty; an empty answer does not abstain")
    decisions = decisions_on(answer, language)
    if language is None:
        abstaining = [code for code, _, decision in decisions if decision.abstains]
        languages = " and ".join(code for code, *_ in decisions)
        why = f"{abstaining[0]} reads it as one, and one is enough" if abstaining else "neither reads it as one"
        verdict = "an abstention" if abstaining else "no abstention"
        say(f"{verdict}: it looks most like {languages}, and {why} (--language reads it as another)")
    for code, lexicon, decision in decisions:
        tables = dict.fromkeys((code, "en"))
        verdict = "an abstention" if decision.abstains else "no abstention"
        sure = "sure" if decision.sure else "not sure: no phrase decides"
        say(f"{verdict}, {sure}: {decision.reason} (tables: {', '.join(tables)})")
        for sentence, reading in decision.sentences:
            say(f"  {sentence.strip()!r}: {reading}")
            for kind, pattern, text, words in matches(sentence, lexicon):
                origins = "; ".join(f"{phrase}: {item}" for phrase, item in words)
                say(f"    {kind:10} {pattern!r} reads {text!r}" + (f" ({origins})" if origins else ""))
    return 0


def decisions_on(answer: str, language: str | None) -> list[tuple[str, Lexicon, Decision]]:
    """The languages in which an answer is read, and what their tables decide; it abstains where one decides so."""
    from custom_metrics.abstention import decide, excerpt, lexicons

    read = lexicons(answer, language)
    return [(code, lexicon, decide(lexicon.fold(excerpt(answer)), lexicon)) for code, lexicon in read]


class Match(NamedTuple):
    """A phrase of a table that occurs in a sentence."""

    kind: str  # the key of the table
    pattern: str  # the phrase, as the table writes it
    text: str  # the words of the sentence that it matches
    words: tuple[tuple[str, str], ...]  # part and item of each word that came from a part


def matches(sentence: str, lexicon: Lexicon) -> Iterator[Match]:
    """The phrases in a folded sentence."""
    from custom_metrics.abstention.patterns import sources

    trace: list[PatternMatch] = []
    hits = lexicon.search(sentence, trace)
    for pattern, places in dict.fromkeys(trace):
        start, end = places[0][0], places[-1][1]
        if any(end == hit[1] for hit in hits.get(pattern.kind, ())):  # others are spared by an exception
            words = tuple(dict.fromkeys(sources((pattern, places))))
            yield Match(pattern.kind, pattern.written, sentence[start:end], words)
