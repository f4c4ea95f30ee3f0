"""What a run leaves: a table that fits a screen, files that every JSON reader reads, and a place for the finer figures."""

from __future__ import annotations

import json
import math
import re
from itertools import product, takewhile
from pathlib import Path
from typing import Any, NoReturn

import pytest
from lm_eval.api.registry import get_model
from lm_eval.loggers import EvaluationTracker
from lm_eval.utils import make_table

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.commands.score import in_file_order
from lm_eval_tasks.nomiracl.dataset import load
from tests.conftest import evaluate, results_of
from tests.logged_runs import in_this_process, lines
from tests.miniature import MINIATURE

HEADLINES = {"nomiracl_de": "balanced_error", "clapnq_rag": "rougeL", "mfava_de": "detected_rate"}
TASKS = tuple(HEADLINES)
DATE = "2026-01-01T00-00-00.1"


def refuse(constant: str) -> NoReturn:
    raise AssertionError(f"{constant} is no JSON")


@pytest.fixture(scope="session")
def folder(two_models: Path) -> Path:
    """The files of the lexical baseline, which also has what the harness printed."""
    return two_models / "baseline-lexical"


@pytest.fixture(scope="session")
def results(folder: Path) -> dict[str, Any]:
    return results_of(folder)


def printed(folder: Path, heading: str) -> list[list[str]]:
    """The cells of a printed table, row by row, below its heading."""
    lines = (folder / "printed.txt").read_text("utf-8").splitlines()
    table = lines[next(at for at, line in enumerate(lines) if line.strip("| ").startswith(heading)) + 2 :]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in takewhile(lambda line: line[:1] == "|", table)]


def test_the_table_of_three_tasks_fits_a_screen_and_each_begins_with_its_headline(folder: Path) -> None:
    rows: dict[str, list[list[str]]] = {}
    task = ""
    for row in printed(folder, "Tasks"):
        task = row[0].removeprefix("- ") or task
        rows.setdefault(task, []).append(row)
    assert {name: rows[name][0][4] for name in TASKS} == HEADLINES
    assert sum(len(rows[name]) for name in TASKS) <= 38
    assert max(map(len, rows.values())) <= 12
    for _, _, _, _, metric, arrow, value, _, error in (row for of_task in rows.values() for row in of_task):
        assert math.isfinite(float(value))
        if metric == "rogan_gladen_rate":  # fewer words are flagged than of right answers: nothing is known
            assert (value, error) == ("0.0000", "N/A")
        else:
            assert math.isfinite(float(error))
        assert not metric.endswith(("_ci_low", "_ci_high", "_std", "L_retrieved", "_missed"))
        assert (arrow == "") is (metric in ("length", "response_words"))


def test_a_group_averages_what_is_there_with_its_standard_error(folder: Path, results: dict[str, Any]) -> None:
    tasks = [results["results"][task] for task in results["group_subtasks"]["nomiracl"]]
    group = results["groups"]["nomiracl"]
    assert len(tasks) == 18
    for key, parser in product(
        ("balanced_error", "hallucination_rate", "error_rate", "accuracy", "invalid_rate"), ("strict", "robust")
    ):
        assert group[f"{key},{parser}"] == pytest.approx(sum(task[f"{key},{parser}"] for task in tasks) / 18)
        errors = [task[f"{key}_stderr,{parser}"] for task in tasks]
        assert group[f"{key}_stderr,{parser}"] == pytest.approx(math.sqrt(sum(e * e for e in errors)) / 18)
    rows = printed(folder, "Groups")
    assert (len(rows), rows[0][4]) == (10, "balanced_error")
    again = make_table(in_file_order(results), "groups").splitlines()[2:]  # as `lm-eval-grounded score` prints it
    cut = (line.split("|") for line in again)
    assert [(row[2], row[4]) for row in rows] == [(cells[3].strip(), cells[5].strip()) for cells in cut]


def test_every_file_is_strict_json(folder: Path) -> None:
    texts = [path.read_text("utf-8") for path in folder.rglob("*.json")]
    texts += [line for path in folder.rglob("*.jsonl") for line in path.read_text("utf-8").splitlines()]
    for text in texts:
        json.loads(text, parse_constant=refuse)
    assert len(texts) > 100


@pytest.mark.parametrize("name", ["results", *(f"samples_{task}" for task in TASKS)])
def test_the_viewer_of_the_hub_reads_what_is_pushed_there(folder: Path, tmp_path: Path, name: str) -> None:
    """``--hf_hub_log_args`` pushes the files as they are. The hub loads them with ``datasets``, which wants one type a
    column."""
    from datasets import load_dataset

    (file,) = folder.glob(f"{name}_2*")
    rows = load_dataset("json", data_files=str(file), split="train", cache_dir=str(tmp_path))
    assert len(rows) == (1 if name == "results" else len(file.read_text("utf-8").splitlines()))


def test_the_finer_figures_stand_in_one_place(results: dict[str, Any]) -> None:
    of_tasks = {task: results["configs"][task]["metadata"]["figures"] for task in TASKS}
    for task in TASKS:
        values = results["results"][task]
        for key, value in values.items():
            metric, _, filter_name = key.partition(",")
            if not filter_name or metric.endswith("_stderr"):
                continue
            figure = of_tasks[task][filter_name][metric]
            assert figure["value"] == value
            assert figure["low"] is None or figure["low"] <= value <= figure["high"]
            error = values[f"{metric}_stderr,{filter_name}"]
            assert figure["standard_error"] == (None if error == "N/A" else error)
            assert figure["n"] > 0
            assert figure["denominator"]
    clapnq = of_tasks["clapnq_rag"]["answer"]
    assert clapnq["ndcg@1"]["n"] == clapnq["rougeL_retrieved"]["n"] + clapnq["rougeL_missed"]["n"] == 18
    assert {"recall_missed", "length_retrieved", "answerable_abstention_rate_missed"} <= clapnq.keys()
    assert "rogan_gladen_rate_std" in of_tasks["mfava_de"]["answer"]


def test_the_first_number_of_a_sample_is_its_own_score(folder: Path) -> None:
    for path in folder.rglob("samples_*.jsonl"):
        for sample in lines(path):
            numbers = ((name, sample[name]) for name in sample["metrics"] if isinstance(sample[name], (int, float)))
            name, value = next(numbers)
            if "nomiracl" in path.name:
                assert (name, value) == ("accuracy", float(sample["filtered_resps"][0] == sample["target"]))
            elif "clapnq" in path.name:
                assert name == ("rougeL" if sample["doc"]["answerable"] else "unanswerable_accuracy")
            else:
                assert (name, value * sample["response_words"]) == ("detected_rate", sample["hallucinated_words"])


def test_a_folder_is_tried_before_the_first_request_and_left_as_it_was(tmp_path: Path) -> None:
    def ran(output: Path) -> None:
        tracker = EvaluationTracker(output_path=str(output))
        options = {"metadata": {"mirror": MINIATURE}, "evaluation_tracker": tracker, "limit": 1}
        evaluate(["nomiracl_de", "clapnq_gold"], "grounded-baseline", "strategy=abstain", **options)

    ran(tmp_path / "new" / "out")
    assert not (tmp_path / "new").exists()
    (tmp_path / "a_file").touch()
    with pytest.raises(UsageError, match=r"^nothing can be written to .*a_file/baseline-abstain: Not a dir"):
        ran(tmp_path / "a_file")


@pytest.mark.parametrize(
    ("model", "model_args", "name"),
    [
        ("grounded-baseline", {"strategy": "abstain"}, "baseline-abstain"),
        ("grounded-baseline", "strategy=lexical,batch_size=4", "baseline-lexical"),
        ("grounded-baseline", None, "baseline-lexical"),
        ("grounded-baseline", {"threshold": 0.3}, r"baseline-lexical-[0-9a-f]{6}"),
        ("hallucination-detector", {"detector": "lexical"}, "detector-lexical"),
        ("hallucination-detector", {"detector": "org/some"}, r"detector-some-[0-9a-f]{6}"),
        ("hallucination-detector", {"held_out": True}, r"detector-lexical-[0-9a-f]{6}"),
    ],
)
def test_results_are_filed_under_what_the_model_was_set_to(model: str, model_args: Any, name: str) -> None:
    assert re.fullmatch(f"lm-eval-grounded/{name}", get_model(model).results_name(model_args))


@pytest.mark.parametrize(
    ("model_args", "name"),
    [
        ("path=gone/gpt-4.jsonl.gz", "gpt-4"),
        ({"path": "stored"}, "stored"),
        ({"path": "stored/own.jsonl"}, "org/own"),
        ({"path": "stored/upstream.jsonl"}, "one"),
        ({"path": "stored/several.jsonl", "model": "org/Orca 2"}, "org/Orca 2"),
        ({"path": "stored/several.jsonl"}, "several"),
        ({"path": "stored/own.jsonl", "name": "mine"}, "mine"),
        ({"path": "runs/first"}, "org/first"),
        ({"path": "runs/first/samples_t_2026-01-01T00-00-00.1.jsonl"}, "org/first"),
        ({"path": "runs"}, "runs"),  # of two models
        ({"path": "runs/org__third"}, "org/third"),  # as the harness names the folder of a model's run
        ({"path": "runs/*/samples_*.jsonl"}, "runs"),
        ({"path": "stored/broken.jsonl"}, "broken"),
    ],
)
def test_stored_answers_keep_the_name_of_their_model(
    model_args: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {
        "stored/plain.jsonl": '\n{"id": "1", "response": "x"}',
        "stored/own.jsonl": '\n{"id": "1", "response": "x", "model": "org/own"}',
        "stored/upstream.jsonl": '\n{"query_id": "1", "results": {"one": "x"}}',
        "stored/several.jsonl": '\n{"query_id": "1", "results": {"one": "x", "two": "y"}}',
        "stored/broken.jsonl": "[" * 100_000,
        **{f"runs/{of}/samples_t_{DATE}.jsonl": "" for of in ("first", "second", "without", "org__third")},
    }
    for of in ("first", "second"):
        results = {"results": {}, "configs": {}, "config": {"model": "hf"}, "model_name": f"org/{of}"}
        files[f"runs/{of}/results_{DATE}.json"] = json.dumps(results)
    for place, text in files.items():
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        Path(place).write_text(text, "utf-8")
    assert get_model("replay").results_name(model_args) == name


@pytest.mark.parametrize(("model", "warned"), [("replay", False), ("dummy", True)])
def test_no_model_without_weights_is_said_to_lack_a_chat_template(
    model: str, warned: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The harness says it of every model whose options hold "chat" or "inst", such as the path of a replay."""
    docs = load("de", mirror=MINIATURE)["evaluation"]
    stored = tmp_path / "chat.jsonl"
    stored.write_text("".join(f"{json.dumps({'query_id': doc['query_id'], 'response': 'Ja'})}\n" for doc in docs))
    evaluate(["nomiracl_de"], model, f"path={stored}", metadata={"mirror": MINIATURE}, limit=1)
    said = [" ".join(record.getMessage().split()) for record in caplog.records]
    assert any("chat template is not applied" in line for line in said) is warned


def test_a_replay_has_its_models_name_and_a_folder_of_its_own(tmp_path: Path) -> None:
    def ran(model: str, model_args: str) -> tuple[str, str]:
        general = in_this_process(["nomiracl_de"], model, model_args, tmp_path, limit=2)
        assert (tmp_path / general.model_name_sanitized).is_dir()
        return general.model_name, general.model_name_sanitized

    name, folder = ran("grounded-baseline", "strategy=abstain")
    assert (name, folder) == ("lm-eval-grounded/baseline-abstain", "baseline-abstain")
    again, own = ran("replay", f"path={tmp_path / folder}")
    assert again == name
    assert re.fullmatch("baseline-abstain-[0-9a-f]{6}", own)
    assert ran("replay", f"path={tmp_path / own}")[0] == name  # replayed again: neither name nor folder pile up
    assert all(re.fullmatch("baseline-abstain(-[0-9a-f]{6})?", found.name) for found in tmp_path.iterdir())
    assert ran("replay", f"path={tmp_path / own},name=org/other") == ("org/other", "org__other")
    (results,) = (tmp_path / own).glob("results_*.json")
    (answers,) = json.loads(results.read_text("utf-8"))["config"]["answers_from"]
    assert answers["name"].startswith("samples_nomiracl_de_")
