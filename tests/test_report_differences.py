"""Differences between the models of a report, their verdicts, and published figures beside them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from lxml import html

from lm_eval_tasks.cli import main
from lm_eval_tasks.results.report import Report
from lm_eval_tasks.runs import labels, read_runs
from tests.changed_runs import few_tasks
from tests.golden import golden
from tests.logged_runs import generate
from tests.report_runs import changed

ABSTAIN, ANSWER, LEXICAL = (f"lm-eval-grounded/baseline-{name}" for name in ("abstain", "answer", "lexical"))


def test_the_rows_of_every_metric(two_models: Path, tmp_path: Path) -> None:
    """Groups before their languages. What is not measurable has no point: its bounds span more than half of its scale."""
    assert main(["report", str(two_models), "-o", str(tmp_path / "r.html"), "--documents", "0"]) == 0
    section = html.parse(tmp_path / "r.html").getroot().get_element_by_id("differences")
    lines = []
    for table in section.xpath(".//table"):
        lines.append(f"## {table.findtext('caption')}")
        for row in table.xpath("./tbody/tr"):
            marks = row.xpath(".//line[not(@class)] | .//circle")
            drawn = [" ".join(mark.get(name) for name in ("x1", "x2", "cx") if mark.get(name)) for mark in marks]
            lines.append(" | ".join([*(" ".join(cell.text_content().split()) for cell in row), *drawn]))
    text = "\n".join([*lines, ""])
    assert text == golden("differences.txt", text)


def test_models_that_were_asked_something_else_are_not_compared(two_models: Path, tmp_path: Path) -> None:
    shutil.copytree(two_models, tmp_path / "runs")

    def other_questions(path: Path, number: int, row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "doc": {**row["doc"], "id": f"other {number}", "query_id": f"other {number}"}}

    changed(tmp_path / "runs" / "baseline-lexical", other_questions)
    assert main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "r.html"), "--documents", "1"]) == 0
    section = html.parse(tmp_path / "r.html").getroot().get_element_by_id("differences")
    assert "The models are not compared: " in section.text_content()
    assert section.xpath(".//table") == []


def test_published_figures_stand_beside_and_plots_are_written(
    two_models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="plots need matplotlib")
    run, page, svg = two_models / "baseline-lexical", tmp_path / "r.html", tmp_path / "svg"
    assert main(["report", str(run), "-o", str(page), "--paper", "--svg", str(svg), "--documents", "0"]) == 0
    published = html.parse(page).getroot().get_element_by_id("published")
    (german,) = published.xpath("*[starts-with(summary/h3, 'nomiracl_de: Answers although no passage')]")
    text = " ".join(german.text_content().split())
    assert "read by strict" in text
    assert "baseline-lexical 0.0 % [0.0 to 49.0 %]. No difference is computed: 4 of 217 non-relevant questions" in text
    assert [len(row) for row in german.xpath(".//tbody/tr")] == [2] * 11
    *written, last = map(Path, capsys.readouterr().out.splitlines())
    assert (sorted(written), last) == (sorted(svg.iterdir()), page)
    assert len(written) > 3
    assert main(["report", str(run), "-o", str(tmp_path / "site"), "--svg", str(tmp_path / "beside")]) == 0
    assert {path.name for path in (tmp_path / "beside").iterdir()} == {path.name for path in written}


def test_a_run_that_answers_every_question_alike_is_better_than_none(two_models: Path, tmp_path: Path) -> None:
    """One that declines everything makes up less than any other."""
    tasks = ["nomiracl_de", "clapnq_gold"]
    abstaining = generate(tmp_path / "abstaining", tasks=",".join(tasks), model_args="strategy=abstain")
    answering = few_tasks(two_models, tmp_path / "runs", tasks)
    runs = read_runs([answering / "baseline-answer", abstaining])
    comparison = Report.of(runs).comparison
    assert comparison is not None
    (row,) = comparison.select("unanswerable_accuracy")
    assert labels(runs)[row.better or 0] == ABSTAIN  # the table has what was computed
    runs = read_runs([answering, abstaining])
    (overview,) = (each for each in Report.of(runs).overviews if each.family == "clapnq_gold")
    assert [(row.model, row.rank) for row in overview.rows] == [(LEXICAL, 1), (ANSWER, 1), (ABSTAIN, None)]
    assert overview.equals == [ANSWER]  # it is not told from the best
