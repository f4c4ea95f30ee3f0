"""Foreign text on terminals, in comments and in commands: nothing of it acts."""

from __future__ import annotations

import json
import subprocess
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from custom_metrics.usage.printable import on_one_line, printable, shell_word, without_surrogates
from lm_eval_tasks.cli import main


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("می\u200cروم 👩\u200d🔬 हिन्दी عربي 中文\u3000字 1\u202f000 a\u00a0b", None),
        ("\x1b[2J\x07", r"\u001b[2J\u0007"),
        ("\x9b31m\x7f", r"\u009b31m\u007f"),
        ("a\u202eb\u2066c\u200f", r"a\u202eb\u2066c\u200f"),
        ("\ud800 \U000e0041", r"\ud800 \udb40\udc41"),
        ("a\rb\u2028c\x85d", r"a\rb\u2028c\u0085d"),
        ("\\n stays", None),
    ],
)
def test_what_acts_is_an_escape(text: str, shown: str | None) -> None:
    assert printable(text) == on_one_line(text) == (text if shown is None else shown)


def test_lines_stay_but_where_one_is_wanted() -> None:
    assert printable("a\n\tb") == "a\n\tb"
    assert on_one_line("a\n\tb") == r"a\n\tb"


@given(st.text())
def test_no_text_gets_through(text: str) -> None:
    shown = on_one_line(text)
    allowed = {"Cf", "Zs"}
    assert all(c.isprintable() or (unicodedata.category(c) in allowed and c not in "\u202e\u2066") for c in shown)
    assert len(on_one_line(f"{text}.").splitlines()) == 1


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5))
def test_json_holds_the_same_values(value: Any) -> None:
    assert json.loads(printable(json.dumps(value, ensure_ascii=False, indent=1))) == value


@pytest.mark.parametrize(
    "text",
    ["", "plain", "it's $HOME `x` $(x) \\ !", "a\nb\n", " ü\t'\n", "\n", "%s%", "\x1b[31mred"],
)
def test_a_word_of_a_shell_is_the_text(text: str) -> None:
    word = shell_word(text)
    assert printable(word) == word
    said = subprocess.run(["sh", "-c", f"printf '%s.' {word}"], capture_output=True, check=True).stdout
    assert said.decode("utf-8") == f"{printable(text)}."


def test_what_a_command_says_is_printable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = tmp_path / "\x1b[2Jno\nready: all is well.json"
    hostile.mkdir()
    assert main(["reproduce", str(hostile)]) == 2
    error = capsys.readouterr().err
    assert r"\u001b[2Jno" in error
    assert error.count("\n") == 1
    assert main(["abstention", "I don't \x1b[31mknow.", "--language", "en"]) == 0
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        *(("Bär 猫 \U0001f600", "Bär 猫 \U0001f600"), ("\ud83d\ude00", "\U0001f600"), ("ä\ud83d", "ä\ufffd")),
        *(("a\ud800b\udfffc", "a\ufffdb\ufffdc"), ("\ude00\ud83d", "\ufffd\ufffd")),
    ],
)
def test_halves_are_joined_or_replaced(text: str, clean: str) -> None:
    assert without_surrogates(text) == clean


@given(st.text(st.characters(exclude_categories=())))
def test_every_text_can_be_written_then(text: str) -> None:
    clean = without_surrogates(text)
    assert clean.encode("utf-8").decode("utf-8") == clean
    assert without_surrogates(clean) == clean
