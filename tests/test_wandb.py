"""`lm_eval --wandb_args`: what the harness logs of our tasks, read from the files of a run that was logged offline."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conftest import command, results_of, run
from tests.miniature import MINIATURE

pytestmark = [
    pytest.mark.slow("starts two harnesses and W&B"),
    pytest.mark.xdist_group("wandb"),
    pytest.mark.skipif(find_spec("wandb") is None, reason="needs lm-eval[wandb] (extra dev)"),
]

ANSWERING = ("nomiracl_de", "clapnq_rag", "mfava_de")
DETECTING = ("mfava_detection_de_gold", "mfava_detection_de_gold_category", "mushroom_de", "memerag_de")


class Logged(NamedTuple):
    """A run: W&B's tables by name, the harness's results, and what was printed."""

    tasks: tuple[str, ...]
    tables: dict[str, dict[str, Any]]
    results: dict[str, Any]
    said: str


def logged(folder: Path, tasks: tuple[str, ...], *arguments: str) -> Logged:
    done = run(
        [
            *(command("lm_eval"), *arguments, "--tasks", ",".join(tasks), "--log_samples", "--output_path", "out"),
            *("--wandb_args", "project=grounded", "name=trial"),
        ],
        folder,
        WANDB_MODE="offline",
        WANDB_DIR=str(folder),
        WANDB_CACHE_DIR=str(folder / "cache"),
        WANDB_DATA_DIR=str(folder / "data"),
    )
    (file,) = folder.glob("wandb/offline-run-*/*.wandb")
    place = file.parent / "files" / "media" / "table"
    paths = place.rglob("*.table.json")
    tables = {
        path.relative_to(place).as_posix().rsplit("_", 2)[0]: json.loads(path.read_text("utf-8")) for path in paths
    }
    return Logged(tasks, tables, results_of(folder / "out"), done.stdout + done.stderr)


@pytest.fixture(scope="module", params=["answering", "detecting"])
def trial(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Logged:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "detecting":
        return logged(folder, DETECTING, "--model", "hallucination-detector", "--metadata", f"mirror={MINIATURE}")
    metadata = ["--metadata", f"mirror={MINIATURE}", "detector=lexical", "calibration=lexical"]
    return logged(folder, ANSWERING, "--model", "grounded-baseline", "--model_args", "strategy=lexical", *metadata)


def test_all_is_logged(trial: Logged) -> None:
    """The harness says a failure in passing, and goes on."""
    assert "Logging to W&B failed" not in trial.said
    assert trial.tables.keys() == {"evaluation/eval_results", *(f"{task}_eval_results" for task in trial.tasks)}


def test_the_table_of_results_has_every_metric_with_its_standard_error(trial: Logged) -> None:
    table = trial.tables["evaluation/eval_results"]
    assert table["columns"] == ["Tasks", "Version", "Filter", "num_fewshot", "Metric", "Value", "Stderr"]
    rows = {(task, f"{metric},{name}"): (value, error) for task, _, name, _, metric, value, error in table["data"]}
    for task in trial.tasks:
        figures = trial.results["results"][task]
        for key in (key for key in figures if "," in key and "_stderr," not in key):
            error = figures[key.replace(",", "_stderr,")]
            assert rows[task, key] == (str(figures[key]), error if error == "N/A" else f"{error:.4f}")


def test_the_table_of_a_task_has_a_row_an_answer_and_a_column_a_metric(trial: Logged) -> None:
    for task in trial.tasks:
        table = trial.tables[f"{task}_eval_results"]
        config = trial.results["configs"][task]
        assert table["columns"][-len(config["metric_list"]) :] == [entry["metric"] for entry in config["metric_list"]]
        assert len(table["data"]) == trial.results["n-samples"][task]["effective"] * len(config["filter_list"])
