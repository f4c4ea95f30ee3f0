"""`lm-eval-grounded detect`: one answer with its spans marked, whatever it holds; errors of commands are one line."""

from __future__ import annotations

import io
import re
import shutil
import sys
from pathlib import Path

import pytest

from custom_metrics.abstention import is_abstention
from custom_metrics.reading.spans import Span
from custom_metrics.reading.tagged_text import parse
from lm_eval_tasks.cli import main
from lm_eval_tasks.commands.detect import as_ansi
from tests.conftest import ROOT

HOSTILE = 'Mars <script>alert("x")</script> & \x1b[2J\x9b1m {{ 7 * 7 }} "ende"'


def test_ansi_lets_no_control_through() -> None:
    shown = as_ansi(HOSTILE, [Span(0, 4, "entity")])
    assert shown.startswith("\x1b[4;31mMars\x1b[0m <script>")
    assert shown.count("\x1b") == 4  # ours: around the span and in the legend
    assert "\x9b" not in shown
    assert as_ansi("x", []) == "x"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("compare runs runs -o .", ". is a folder; name a file to write"),
        *(
            (arguments, "nothing can be written to a_file")
            for arguments in (
                *("report runs -o a_file/report.html", "report runs --png a_file", "report runs -o a_file/site"),
                *("compare runs runs -o a_file/x", "score runs -o a_file", "make mirror runs -o a_file/x"),
            )
        ),
    ],
)
def test_what_a_command_cannot_do_is_said_before_the_work(
    arguments: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a_file").touch()  # there are no runs: to read them comes later
    assert main(arguments.split()) == 2
    error = capsys.readouterr().err
    assert said in error
    assert ".part" not in error
    assert [path.name for path in tmp_path.iterdir()] == ["a_file"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Das steht nicht in den Texten.", "an abstention: it looks most like de and ro, and de reads it as"),
        ("Das steht in den Texten.", "no abstention: it looks most like de and ro, and neither reads it as one ("),
    ],
)
def test_which_of_two_readings_holds_is_said(text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["abstention", text]) == 0
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith(said)
    assert sum("(tables: " in line for line in others) == 2
    assert is_abstention(text) == first.startswith("an")
    assert main(["abstention", text, "--language", "de"]) == 0
    assert "looks" not in capsys.readouterr().out


def test_detect_shows_one_answer_of_a_file_a_pipe_or_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reference, stored = tmp_path / "reference.txt", tmp_path / "answer.txt"
    reference.write_text("Die Katze schläft auf dem roten Sofa im Wohnzimmer.", "utf-8")
    answer = "Die Katze schläft auf dem Mond bei 1969 Außerirdischen."
    stored.write_text(answer, "utf-8")
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    for given in (str(stored), "-", answer):
        options = ["--language", "de", "--detector_args", "threshold=0.42"]
        assert main(["detect", "--reference", str(reference), "--answer", given, *options]) == 0
        printed = capsys.readouterr()
        text, spans = parse(printed.out.rstrip("\n"))
        assert text == answer
        assert any(span.start <= text.index("1969") < span.end for span in spans)
        assert ("--answer: no such file; reading it as text" in printed.err) is (given == answer)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("score nowhere", "nowhere: no samples file"),
        ("detect --reference binary --answer -", "binary is not UTF-8 text"),
        ("detect --reference nowhere --answer -", "grounded: nowhere: there is no such file or folder$"),
        ("detect --answer x", "name --reference and --answer, or a log"),
        ("detect log.jsonl --answer x", "without --reference and --answer"),
        ("detect --reference x --answer y --fail-over 5%", "are for logs"),
        ("detect log.jsonl --fields reply=x", "--fields: 'reply=x': write ROLE=PATH"),
        ("detect log.jsonl --fields answer=a[", r"'a\[' is no JMESPath expression"),
        ("detect log.jsonl --fields answer=reply", "--fields answer=reply gives no value; the first record has answer"),
        ("detect - --follow", "`detect --follow` is gone: run it again when the log has grown"),
        ("detect log.jsonl -o out", "out/ becomes the run"),
        ("detect nowhere.jsonl -o out.jsonl", r"nowhere\.jsonl"),
        ("detect log.jsonl -o out.jsonl --language xx-yy-zz-q", "is not a language"),
        ("train --mirror nowhere -o x", "The mirror folder .*nowhere"),
    ],
)
def test_errors_on_the_command_line_are_one_line(
    arguments: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("binary").write_bytes(b"\xff\xfe\x00")
    Path("log.jsonl").write_text('{"answer": "x", "reference": "x", "language": "de"}\n', "utf-8")
    assert main(arguments.split()) == 2
    said = capsys.readouterr().err.strip()
    assert re.search(message, said)
    assert "\n" not in said


def test_the_documents_show_what_the_sample_log_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "lm_eval_tasks" / "sample" / "log.jsonl", "rag.jsonl")
    assert main(["detect", "rag.jsonl", "--by", "language", "-o", "out.jsonl"]) == 0
    table = capsys.readouterr().out.partition("\n\n95 % bounds")[0]
    assert table in (ROOT / "lm_eval_tasks" / "results" / "logs" / "README.md").read_text("utf-8")
    said = re.search(r"all +20 +(\S+ % \[[^,]+ %), n = 19\]", table)
    assert said is not None
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"# 1 of 20 answers declines; of the others {said[1]}] are flagged" in readme
