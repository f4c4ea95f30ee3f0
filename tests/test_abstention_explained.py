"""Why an answer was read as an abstention: what a person sees who corrects a table, on small tables."""

from __future__ import annotations

import pytest

from custom_metrics import abstention
from custom_metrics.abstention import HEAD, TAIL
from custom_metrics.abstention.phrases import Lexicon, build_lexicon
from lm_eval_tasks.commands.abstention import Match, decisions_on, matches

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


@pytest.fixture
def english() -> Lexicon:
    return build_lexicon([TABLE])


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("it was paris", []),
        ("the text is long", [Match("material", "text", "text", ())]),
        (  # two places, of a part each: the whole word, where the table gives its beginning
            "it does not really saying so",
            [Match("silent", "{not} ... {say}", "not really saying", (("not", "not"), ("say", "say*")))],
        ),
        (  # three; the last one is of a part within a part
            "we are never quite able here to tells",
            [
                Match(
                    "abstains",
                    "{not} ... able ... {to_say}",
                    "never quite able here to tells",
                    (("not", "never"), ("say", "tell*"), ("to_say", "to {say}")),
                ),
                Match(
                    "silent", "{not} ... {say}", "never quite able here to tells", (("not", "never"), ("say", "tell*"))
                ),
            ],
        ),
        (  # several, by their ends
            "sorry, the text is silent",
            [
                Match("openers", "sorry", "sorry", ()),
                Match("material", "text", "text", ()),
                Match("silent", "silent", "silent", ()),
            ],
        ),
        ("a text message", [Match("except", "text message", "text message", ())]),  # which spares the text
        (
            "the text of a text message",  # but not another one
            [Match("material", "text", "text", ()), Match("except", "text message", "text message", ())],
        ),
        (
            "i don't know how to thank",
            [Match("except", "i don't know how to thank", "i don't know how to thank", ())],
        ),
    ],
)
def test_a_sentence_holds_phrases_of_a_table(sentence: str, found: list[Match], english: Lexicon) -> None:
    assert list(matches(sentence, english)) == found


@pytest.fixture
def languages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tables, and two languages that every text looks like."""
    spoken = {"en": build_lexicon([TABLE]), "de": build_lexicon([GERMAN])}
    monkeypatch.setattr(abstention, "lexicon_of", spoken.__getitem__)
    monkeypatch.setattr(abstention, "likely_languages", lambda text: ("de", "en"))


@pytest.mark.usefixtures("languages")
@pytest.mark.parametrize(("language", "codes"), [("de-AT", ["de"]), (None, ["de", "en"]), ("tlh", ["de", "en"])])
def test_it_is_explained_in_the_languages_that_it_is_read_in(language: str | None, codes: list[str]) -> None:
    assert [(code, decision.abstains) for code, _, decision in decisions_on("Weiß nicht.", language)] == [
        (code, code == "de") for code in codes
    ]


@pytest.mark.usefixtures("languages")
def test_what_is_not_read_of_a_long_text_is_not_explained() -> None:
    ((_, _, decision),) = decisions_on("a" * HEAD + ". I don't know. " + "b" * TAIL, "en")
    assert [sentence for sentence, _ in decision.sentences] == ["a" * HEAD, "b" * TAIL]
    assert not decision.abstains
