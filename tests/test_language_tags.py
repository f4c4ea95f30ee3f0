"""The language of an answer: any BCP 47 tag, and a guess where none is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_eval_tasks.cli import main
from lm_eval_tasks.detection import language_tags
from lm_eval_tasks.detection.language_tags import SURE, Guess, are_near, code_of, guess
from lm_eval_tasks.making.steps import other_language

BOTH = "the answer and its reference"
TAGS = """de de; de-CH-1996 de; DE de; de_DE de; deu de; zh-Hant-TW zh; cmn-Hans zh; wuu zh; zh-yue yue; yue-Hant-HK yue;
sr-Latn sr; arb ar; arz ar; gsw de; jv jv; zsm ms; iw he; pes fa; en-US-x-mine en; hsb hsb; nb nb; i-klingon tlh"""


@pytest.mark.parametrize(("tag", "code"), [pair.split() for pair in TAGS.split(";")])
def test_a_tag_gives_the_code_that_our_tables_know(tag: str, code: str) -> None:
    assert code_of(tag) == code


@pytest.mark.parametrize(
    ("tags", "says"),
    [
        ("|xx|klingonisch|de-|../de|de\n|en-QQQQQ1-|1|💥".split("|"), "not a language; give a BCP 47 tag, such as de"),
        (["german"], "did you mean 'de'"),
        (["Cantonese"], "did you mean 'yue'"),
        (["und", "mul", "zxx", "x-mine"], "does not name one language"),
    ],
)
def test_what_is_no_language_is_refused(tags: list[str], says: str) -> None:
    for tag in tags:
        with pytest.raises(ValueError, match=says):
            code_of(tag)


@pytest.mark.parametrize(
    ("answer", "reference", "code", "of"),
    [
        ("Die Katze schläft auf dem Sofa.", "", "de", "the answer"),
        ("係呀，我哋去食飯啦。", "", "yue", "the answer"),
        ("Berlin", "Die Hauptstadt der Bundesrepublik Deutschland ist seit 1990 Berlin.", "de", BOTH),
        ("", "", None, BOTH),
        ("42", "6 x 7 = 42", None, BOTH),
    ],
)
def test_a_language_is_guessed_where_the_text_shows_it(answer: str, reference: str, code: str | None, of: str) -> None:
    found = guess(answer, reference)
    assert (found.code, found.basis) == (code, of)


@pytest.mark.parametrize(
    ("alone", "with_reference", "found"),
    [
        (SURE, 0.0, Guess("de", SURE, "the answer")),
        (SURE - 1e-9, SURE, Guess("de", SURE, BOTH)),
        (SURE - 1e-9, SURE - 1e-9, Guess(None, SURE - 1e-9, BOTH)),
    ],
)
def test_a_guess_is_used_from_a_probability_on(
    monkeypatch: pytest.MonkeyPatch, alone: float, with_reference: float, found: Guess
) -> None:
    monkeypatch.setattr(language_tags, "identified", lambda text: ("de", with_reference if "\n" in text else alone))
    assert guess("a", "b") == found


def test_languages_that_are_hard_to_tell_apart_are_near() -> None:
    """Serbian is written in two scripts, of which CLDR takes Cyrillic for the usual one; Wu is at the largest distance."""
    near = [("de", "de"), ("bs", "hr"), ("sr", "hr"), ("hr", "sr"), ("wuu", "zh"), ("arz", "ar")]
    assert [pair for pair in [*near, ("no", "da"), ("jv", "id"), ("de", "en")] if are_near(*pair)] == near


def test_a_text_that_is_surely_croatian_may_be_serbian_all_the_same() -> None:
    text = "Zagreb je glavni i najveći grad Hrvatske, gdje živi oko osamsto tisuća ljudi."
    assert language_tags.identified(text) == ("hr", pytest.approx(0.83, abs=0.01))
    assert other_language(text, "sr") is None
    assert other_language(text, "tr") == "hr"


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    (tmp_path / "reference.txt").write_text("東京タワーは1958年に完成した。", "utf-8")
    (tmp_path / "answer.txt").write_text("東京タワーは1889年に完成した。", "utf-8")
    return ["detect", "--reference", str(tmp_path / "reference.txt"), "--answer", str(tmp_path / "answer.txt")]


def test_detect_takes_tags_and_says_what_it_guesses(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments, "--language", "ja-JP"]) == 0
    named = capsys.readouterr()
    assert "guessed" not in named.err
    assert main(arguments) == 0
    guessed = capsys.readouterr()
    assert guessed.out == named.out
    assert "lm-eval-grounded: language guessed from the answer: ja (100% sure); --language TAG says it\n" in guessed.err
    assert main([*arguments, "--language", "Japanese"]) == 2
    assert "'Japanese' is not a language" in capsys.readouterr().err
    assert main([*arguments, "--language", "zh-Hant"]) == 0
