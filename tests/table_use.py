"""Which parts of a phrase table its language's examples use.

``python -m tests.table_use de`` prints what no example needs, and the examples that are read wrongly: run it after every
change of a table.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from custom_metrics.abstention import excerpt, is_abstention
from custom_metrics.abstention.phrases import PATTERN_KEYS, WORD_KEYS, Lexicon, lexicon_of, phrase_table
from custom_metrics.abstention.sentence_reading import split, stated_text
from lm_eval_tasks.commands.abstention import Match, matches

DATA = Path(__file__).parent / "data" / "abstention"
EXAMPLES = ("examples", "tuning")
TRIGGERS = frozenset(("silent", "lacks", "abstains", "bare"))


class Example(NamedTuple):
    """One answer, and whether it abstains."""

    text: str
    abstains: bool


def examples(language: str, kinds: tuple[str, ...] = EXAMPLES) -> Iterator[Example]:
    for kind in kinds:
        path = DATA / kind / f"{language}.jsonl"
        if path.exists():
            for line in path.read_text("utf-8").splitlines():
                row = json.loads(line)
                yield Example(row["text"], row["abstains"])


def _matches(text: str, lexicon: Lexicon) -> Iterator[Match]:
    """The phrases in each sentence of a text and, where it has several, in it as a whole ("n. a." is one bare phrase)."""
    own = stated_text(lexicon.fold(text), lexicon)
    sentences = [sentence for sentence, _ in split(own)]
    for sentence in [*sentences, own] if len(sentences) > 1 else sentences:
        yield from matches(sentence, lexicon)


def written(language: str) -> set[tuple[str, str]]:
    """(key or part, phrase) of everything that a table holds."""
    table = phrase_table(language)
    kinds = {(key, phrase) for key in (*PATTERN_KEYS, *WORD_KEYS) for phrase in table.get(key, [])}
    return kinds | {(part, phrase) for part, listed in table.get("parts", {}).items() for phrase in listed}


def used(language: str) -> set[tuple[str, str]]:
    """(key or part, phrase) of what some example uses that is read rightly.

    A phrase that makes an abstention counts only in an example that is one.
    """
    table, lexicon = phrase_table(language), lexicon_of(language)
    found: set[tuple[str, str]] = set()
    for text, abstains in examples(language):
        if is_abstention(text, language) is not abstains:
            continue
        for match in _matches(excerpt(text), lexicon):
            if abstains or match.kind not in TRIGGERS:
                found.add((match.kind, match.pattern))
                found |= set(match.words)
        folded = lexicon.fold(text)
        for key in WORD_KEYS:
            for phrase in table.get(key, []):
                mark = ":" if key == "answer_marker" else ""
                if lexicon.fold(phrase) + mark in folded.replace(" :", ":"):
                    found.add((key, phrase))
    return found


def unused(language: str) -> list[tuple[str, str]]:
    """What no example needs."""
    return sorted(written(language) - used(language))


def misread(language: str) -> list[Example]:
    return [example for example in examples(language) if is_abstention(example.text, language) is not example.abstains]


if __name__ == "__main__":
    for code in sys.argv[1:]:
        for example in misread(code):
            print(f"{code}: {'missed' if example.abstains else 'not an abstention'}: {example.text}")
        for key, phrase in unused(code):
            print(f"{code}: no example uses {key}: {phrase}")
