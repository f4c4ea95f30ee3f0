"""The reader of clarifying questions: what asks the user back, in each language with a table, and what only sounds so.

``data/clarification.tsv`` has the answers; a phrase of the reader's table needs one that it is found in.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from custom_metrics.abstention.clarification import KEYS, asks_clarification
from custom_metrics.abstention.folding import fold
from custom_metrics.abstention.patterns import Matcher, PhraseReader
from custom_metrics.abstention.phrases import GAP, GAP_WITHOUT_SPACES, phrase_table
from custom_metrics.usage import shipped_yaml

with (Path(__file__).parent / "data" / "clarification.tsv").open(encoding="utf-8", newline="") as lines:
    _, *ANSWERS = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
TABLES = shipped_yaml("custom_metrics.abstention", "clarification.yaml")


@pytest.mark.parametrize(("language", "asks", "answer"), ANSWERS)
def test_whether_an_answer_asks_back(language: str, asks: str, answer: str) -> None:
    assert asks_clarification(answer, language) is (asks == "yes")


@pytest.mark.parametrize("answer", [None, "", " \n", 3])
def test_what_is_no_text_asks_nothing(answer: object) -> None:
    assert not asks_clarification(answer, "en")  # type: ignore[arg-type]


@pytest.mark.parametrize("language", [None, "yo", "xx", "de-AT"])
def test_english_counts_in_every_language(language: str | None) -> None:
    assert asks_clarification("Which one are you referring to?", language)


@pytest.mark.parametrize("language", TABLES)
def test_every_phrase_has_an_example(language: str) -> None:
    table, spaces = TABLES[language], phrase_table(language).get("spaces", True)
    reader = PhraseReader(table.get("parts", {}), fold, spaces, GAP if spaces else GAP_WITHOUT_SPACES)
    examples = [fold(answer) for code, _, answer in ANSWERS if code == language]
    written = [(key, phrase) for key in KEYS for phrase in table[key]]
    matchers = [(phrase, Matcher(reader.patterns(key, phrase))) for key, phrase in written]
    assert [phrase for phrase, matcher in matchers if not any(map(matcher.search, examples))] == []
