"""`compare --paper`: published figures beside runs, in every format, with a difference only where both measure the same."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks.cli import main
from lm_eval_tasks.results.compare.beside_paper import asked_beside_paper, paper_sections
from lm_eval_tasks.runs import labels, read_runs
from tests.conftest import command, run

SAMPLE = "the files are the bundled miniature, which this project wrote (mirror=sample)"


def printed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert main(["compare", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_one_run_of_the_sample_is_not_comparable(two_models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, two_models / "baseline-lexical", "--paper", "--tasks", "nomiracl_de,clapnq_gold")
    assert text.startswith("A = lm-eval-grounded/baseline-lexical\n")
    assert f"not comparable: {SAMPLE}" in text
    assert "gpt-4-azure 0.361 (78/216) none (1)" in " ".join(text.split())
    assert "error_rate A (this run) not measurable [0.046, 0.699]" in " ".join(text.split())  # one question of four
    assert "Full Passage" in text
    lines = [
        line for line in text.splitlines() if "(this run)" not in line and line[:4] in ("hall", "erro", "roug", "reca")
    ]
    assert len(lines) == 2 * 11 + 3 * 13
    assert all("none (1" in line for line in lines)


def test_two_runs_are_compared_with_each_other_and_with_the_paper(
    two_models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = printed(capsys, two_models, "--tasks", "mfava_de")
    text = printed(capsys, two_models, "--paper", "--tasks", "mfava_de")
    assert text.startswith(alone.rstrip("\n"))
    beside = text[len(alone) :]
    assert "mfava_de: Islam, Lauscher and Glavaš (2025)" in beside
    assert "A - published    B - published" in beside
    assert "Gemma-2-9B 0.080 ± 0.061 none (1, 2, 3) none (1, 2, 3)" in " ".join(beside.split())
    assert "average of the eleven models" in beside
    assert "not comparable: detector lexical, theirs is mfava-llama-3-8b-multi-bidirect" in beside
    assert "sub-word tokens" in beside


def test_what_is_asked_for_is_shown(two_models: Path) -> None:
    runs = read_runs([two_models])
    found = asked_beside_paper(runs, ["nomiracl"], ["error_rate"])
    assert len(found) == 16  # of 18 languages one is in no released answer, and one has no relevant question there
    assert {one.metric for one in found} == {"error_rate"}
    assert {one.metric for one in asked_beside_paper(runs, ["nomiracl_de"])} == {"hallucination_rate", "error_rate"}
    every = asked_beside_paper(runs, ["nomiracl_de"], every=True)
    assert {one.metric for one in every} == {"hallucination_rate", "error_rate", "accuracy", "invalid_rate"}
    of_retrieval = {one.source.name for one in asked_beside_paper(runs, ["clapnq_rag"])}
    assert of_retrieval == {"clapnq_table4", "clapnq_table6"}


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (
            ["--paper", "--tasks", "nomiracl_th"],
            "no published figure beside these tasks and metrics; there are some of clapnq",
        ),
        (["--paper", "--metrics", "k_precision"], "no published figure beside these tasks and metrics"),
        ([], "a comparison needs two or more"),
    ],
)
def test_where_there_is_nothing_beside_a_run_it_says_so(
    two_models: Path, asked: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(two_models / "baseline-lexical"), *asked]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("form", ["json", "csv"])
def test_files_for_programs(two_models: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, two_models, "--paper", "--tasks", "nomiracl_de", "--format", form)
    rows: list[dict[str, Any]]
    if form == "json":
        content = json.loads(text)
        assert content["differences"]
        rows = content["published"]
    else:
        rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 2 * 11 * 2
    row = next(row for row in rows if row["published_model"] == "gpt-4-azure" and row["metric"] == "hallucination_rate")
    assert float(row["published_value"]) == pytest.approx(78 / 216)
    assert (int(row["published_count"]), int(row["published_n"])) == (78, 216)
    assert row["why_none"] == SAMPLE
    assert row["difference"] in (None, "")
    assert {row["run"] for row in rows} == {"lm-eval-grounded/baseline-answer", "lm-eval-grounded/baseline-lexical"}


@pytest.mark.parametrize("form", ["markdown", "latex"])
def test_tables_for_papers(two_models: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, two_models, "--paper", "--tasks", "clapnq_gold", "--format", form)
    if form == "latex":
        assert text.count(r"\toprule") == text.count(r"\midrule") == text.count(r"\bottomrule") == 2
        assert r"FLAN-T5-XXL, 2 shots" in text
        assert r"A - published" in text
    else:
        assert text.count("|:--") >= 2
        assert r"GPT 3.5 \(clapnq\_gold\_gpt\)" in text


def test_hostile_names_stay_names(two_models: Path) -> None:
    (_, lexical) = read_runs([two_models])
    hostile = dataclasses.replace(lexical, model="<b>\x1b[31m\u202e=cmd|" + "x" * 300)
    (section,) = paper_sections(asked_beside_paper([hostile], ["nomiracl_de"]), labels([hostile]))
    shown = "\n".join(cell for row in section.rows for cell in row) + "\n".join(section.before + section.after)
    assert "\x1b" not in shown
    assert "\u202e" not in shown


@pytest.mark.slow("scores the released answers of two models to 443 questions")
def test_a_replayed_model_differs_by_nothing_from_its_published_row(
    shared: Path, hub: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = shared / "reference" / "nomiracl_outputs" / "de.jsonl.gz"
    for model in ("gpt-4-azure", "flan-t5-xxl"):
        arguments = ["--model", "replay", "--model_args", f"path={answers},model={model}", "--log_samples"]
        into = ["--output_path", ".", "--metadata", f"mirror={hub}"]
        run([command("lm_eval"), "--tasks", "nomiracl_de", *arguments, *into], tmp_path)
    rows = json.loads(printed(capsys, tmp_path, "--paper", "--format", "json"))["published"]
    found = {(row["run"], row["published_model"], row["metric"]): row for row in rows}
    for model in ("gpt-4-azure", "flan-t5-xxl"):
        same = found[model, model, "error_rate"]
        assert same["difference"] == 0
        assert same["value"] == same["published_value"]
        assert same["n"] == same["published_n"]
        # The mirror lacks 24 of the questions without an answer, and says so.
        lacking = found[model, model, "hallucination_rate"]
        assert lacking["difference"] is None
        assert lacking["why_none"] == "193 of 217 non-relevant questions"
    other = found["flan-t5-xxl", "gpt-4-azure", "error_rate"]
    assert other["difference_high"] < 0
    assert "Newcombe" in other["method"]
    assert "not paired" in other["method"]
