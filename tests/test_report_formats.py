"""A report in Markdown."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from lm_eval_tasks.cli import main
from lm_eval_tasks.results.formats import code_block
from lm_eval_tasks.results.formats import escaped_markdown as escaped
from lm_eval_tasks.results.report import Report
from tests.golden import golden
from tests.made_runs import figure, run, share, task
from tests.miniature import MINIATURE


def test_other_formats(two_models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(two_models), "--format", "markdown"]) == 0
    text = (
        capsys.readouterr()
        .out.replace(MINIATURE, "MINIATURE")
        .replace(f"lm-eval:{version('lm_eval')}", "lm-eval:0.4.13")
    )
    assert text == golden("two_models.md", text)


ONE = run(
    "org/a_b",
    [
        task("nomiracl_de", {"robust": {"error_rate": share(1, 4)}}, "de"),
        task("clapnq_gold", {"rougeL": figure(0.4, 0.35, 0.45)}),
    ],
)
OTHER = run("org/c", [task("nomiracl_de", {"robust": {"error_rate": share(2, 40)}}, "de")])


def test_a_summary_of_two_models() -> None:
    """What the golden page of two models has not: a task that one lacks, names with markup, and why none is compared."""
    found = Report({run.model: run for run in (ONE, OTHER)}, why_none="a | b").to_markdown()

    assert "| benchmark | number, 95 % bounds | org/a\\_b | org/c |\n|---|---|---:|---:|\n" in found
    assert "| error rate ↓ | *not measurable (5 to 70 %)* <sup>2</sup> | 5.0 % \\[1.4 to 16.5 %, n = 40\\] |\n" in found
    assert "| clapnq\\_gold | RougeL ↑ | 0.400 \\[0.350 to 0.450\\] | – |\n" in found
    assert "\n2. fewer than ten questions (4).\n" in found
    assert found.endswith("### Differences\n\na \\| b\n")


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("plain-name 1.5 (x)", "plain-name 1.5 (x)"),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("*x* _y_ ~z~ `c` \\", "\\*x\\* \\_y\\_ \\~z\\~ \\`c\\` \\\\"),
        ("[t](http://evil) ![i](x)", "\\[t\\](http&#58;//evil) !\\[i\\](x)"),
        ("https://x www.y.org FTP://z", "https&#58;//x www&#46;y.org FTP&#58;//z"),
        ("@team #12 $x$", "&#64;team \\#12 \\$x\\$"),
        ("&amp; &", "&amp;amp; &amp;"),
        ("a\r\n| b\u2028c\x00", "a \\| b c "),
        ("- item", "\\- item"),
    ],
)
def test_what_runs_say_stays_text(text: str, markdown: str) -> None:
    assert escaped(text) == markdown


def test_code_cannot_leave_its_block() -> None:
    assert code_block("a") == "```\na\n```"
    assert code_block("a ``` b") == "````\na ``` b\n````"
    assert code_block("````") == "`````\n````\n`````"
