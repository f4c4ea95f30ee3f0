"""Why an answer was read as an abstention: what a person sees who corrects a table, on small tables."""

from __future__ import annotations

import pytest

from custom_metrics import abstention
from custom_metrics.abstention import HEAD, TAIL
from custom_metrics.abstention.phrases import Lexicon, Match, build_lexicon, matches
from lm_eval_tasks.cli import main

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
def test_it_is_explained_in_the_languages_that_it_is_read_in(capsys: pytest.CaptureFixture[str]) -> None:
    for language, codes in ((["--language", "de-AT"], ["de"]), ([], ["de", "en"])):
        assert main(["abstention", "Weiß nicht.", *language]) == 0
        lines = [line for line in capsys.readouterr().out.splitlines() if "(tables: " in line]
        assert [line.partition("(tables: ")[2][:2] for line in lines] == codes
        assert [line.startswith("an abstention") for line in lines] == [code == "de" for code in codes]


@pytest.mark.usefixtures("languages")
def test_what_is_not_read_of_a_long_text_is_not_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["abstention", "a" * HEAD + ". I don't know. " + "b" * TAIL, "--language", "en"]) == 0
    verdict, *sentences = capsys.readouterr().out.splitlines()
    assert verdict.startswith("no abstention")
    assert [sentence.partition("': ")[0] for sentence in sentences] == [f"  '{'a' * HEAD}", f"  '{'b' * TAIL}"]
