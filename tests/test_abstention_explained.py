"""Why an answer was read as an abstention: what a person sees who corrects a table, on small tables."""

from __future__ import annotations

from typing import Any

import pytest

from custom_metrics import abstention
from custom_metrics.abstention.explained import Match, explain, matches
from custom_metrics.abstention.phrases import build_lexicon

TABLE = {
    "language": "en",
    "name": "English",
    "parts": {"not": ["not", "never"], "say": ["say*", "tell*"], "to_say": ["to {say}"]},
    "material": ["passage", "text"],
    "silent": ["{not} ... {say}", "silent"],
    "abstains": ["i don't know", "{not} ... able ... {to_say}"],
    "bare": ["none", "not here. not there"],
    "openers": ["sorry"],
    "but": ["but"],
    "offer": ["how to"],
    "except": ["text message", "i don't know how to thank"],
    "answer_marker": ["answer"],
}
GERMAN = {"language": "de", "name": "Deutsch", "abstains": ["weiß nicht"]}


REST, NEVER_TELLS = "never quite able here to tells", (("not", "never"), ("say", "tell*"))


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("it was paris", []),
        # two places, of a part each: the whole word, where the table gives its beginning
        (
            "it does not really saying so",
            [("silent", "{not} ... {say}", "not really saying", (("not", "not"), ("say", "say*")))],
        ),
        # three; the last one is of a part within a part
        (
            "we are never quite able here to tells",
            [
                ("abstains", "{not} ... able ... {to_say}", REST, (*NEVER_TELLS, ("to_say", "to {say}"))),
                ("silent", "{not} ... {say}", REST, NEVER_TELLS),
            ],
        ),
        # several, by their ends
        (
            "sorry, the text is silent",
            [
                (kind, text, text, ())
                for kind, text in (("openers", "sorry"), ("material", "text"), ("silent", "silent"))
            ],
        ),
        # an exception spares the text, but not another one
        (
            "the text of a text message",
            [("material", "text", "text", ()), ("except", "text message", "text message", ())],
        ),
    ],
)
def test_a_sentence_holds_phrases_of_a_table(sentence: str, found: list[tuple[Any, ...]]) -> None:
    assert list(matches(sentence, build_lexicon([TABLE]))) == [Match(*each) for each in found]


@pytest.mark.parametrize(("language", "codes"), [("de-AT", ["de"]), (None, ["de", "en"]), ("tlh", ["de", "en"])])
def test_it_is_explained_in_the_languages_that_it_is_read_in(
    monkeypatch: pytest.MonkeyPatch, language: str | None, codes: list[str]
) -> None:
    """On small tables, with two languages that every text looks like."""
    spoken = {"en": build_lexicon([TABLE]), "de": build_lexicon([GERMAN])}
    monkeypatch.setattr(abstention, "lexicon_of", spoken.__getitem__)
    monkeypatch.setattr(abstention, "likely_languages", lambda text: ("de", "en"))
    assert [(read.language, read.abstains) for read in explain("Weiß nicht.", language)] == [
        (code, code == "de") for code in codes
    ]
