"""`lm_eval --hf_hub_log_args`: what the harness pushes of our tasks, to a stand-in for the hub."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml

from tests.conftest import command, results_of, run
from tests.environment.hub_stand_in import TOKEN, Hub, hub

# One run of the harness, which asks the environment for its hub when it starts.
pytestmark = [pytest.mark.slow("starts a harness of its own"), pytest.mark.xdist_group("hub")]

TASKS = ("nomiracl_de", "clapnq_rag", "mfava_de")
MODEL = "baseline-lexical"
RESULTS, ANSWERS = "somebody/results-private", "somebody/answers-private"


@pytest.fixture(scope="module")
def pushed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Hub, Path, str]:
    """A hub after one run of the README's command, the folder of the run, and what it printed."""
    folder = tmp_path_factory.mktemp("hub")
    online = {"HF_HUB_OFFLINE": "0", "HF_DATASETS_OFFLINE": "0", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_TOKEN": TOKEN}
    with hub() as stand_in:
        done = run(
            [
                *(command("lm_eval"), "--model", "grounded-baseline", "--model_args", "strategy=lexical"),
                *("--tasks", ",".join(TASKS), "--metadata", "mirror=sample"),
                *("--log_samples", "--output_path", "out", "--hf_hub_log_args", "hub_results_org=somebody"),
                *("details_repo_name=answers", "results_repo_name=results", "public_repo=False"),
                *("push_results_to_hub=True", "push_samples_to_hub=True"),
            ],
            folder,
            **online,
            HF_ENDPOINT=stand_in.address,
            HF_HOME=str(folder / "home"),
        )
    return stand_in, folder / "out", done.stdout + done.stderr


def card(stand_in: Hub) -> tuple[dict[str, Any], str]:
    """The dataset card's metadata, and its text."""
    _, metadata, text = stand_in.files[ANSWERS]["README.md"].decode().split("---\n", 2)
    return yaml.safe_load(metadata), text


def test_every_request_is_one_that_the_hub_knows_with_the_users_token(pushed: tuple[Hub, Path, str]) -> None:
    stand_in, _, said = pushed
    assert stand_in.unknown == []
    assert set(stand_in.anonymous) <= {"POST /api/validate-yaml"}  # of the card, and public on the hub, too
    assert stand_in.private == {RESULTS: True, ANSWERS: True}
    assert "Could not" not in said  # as the harness says of what it could not push, and goes on
    assert [message.split(" for ")[0] for message in stand_in.messages[:-1]] == [
        "Adding aggregated results",
        *["Adding samples results"] * len(TASKS),
    ]


def test_the_files_of_the_run_are_pushed_as_they_are(pushed: tuple[Hub, Path, str]) -> None:
    stand_in, out, _ = pushed
    files = stand_in.files[ANSWERS]
    written = [path for path in out.rglob("*") if path.is_file()]
    assert len(written) == 1 + len(TASKS)
    for path in written:
        assert files[f"{MODEL}/{path.name}"] == path.read_bytes()
    (results,) = out.rglob("results_*.json")
    assert stand_in.files[RESULTS] == {f"lm-eval-grounded/{MODEL}/{results.name}": results.read_bytes()}


def test_the_card_lists_every_task_and_shows_the_table(pushed: tuple[Hub, Path, str]) -> None:
    stand_in, out, _ = pushed
    metadata, text = card(stand_in)
    assert "Evaluation run of lm-eval-grounded/baseline-lexical" in metadata["pretty_name"]
    assert "created from 1 run(s)" in text
    configs = {entry["config_name"]: entry["data_files"] for entry in metadata["configs"]}
    # The harness means to list the results, too, but takes their date with its `.json`, which no samples file has.
    assert configs.keys() >= {f"{MODEL}__{task}" for task in TASKS}
    names = {path.name for path in out.rglob("*") if path.is_file()}
    for files in configs.values():
        assert {split["split"] for split in files} >= {"latest"}
        assert {path.removeprefix("**/") for split in files for path in split["path"]} <= names
    shown = re.search(r"```python\n(\{.*\})\n```", text, re.DOTALL)
    assert shown is not None
    results = results_of(out)["results"]
    table = json.loads(shown[1], parse_constant=refuse)
    for task in TASKS:
        assert {key: value for key, value in table["all"][task].items() if key in results[task]} == results[task]


@pytest.mark.parametrize("task", [*TASKS, "results"])
def test_the_hubs_viewer_reads_every_file(pushed: tuple[Hub, Path, str], tmp_path: Path, task: str) -> None:
    """It loads files with ``datasets``, which wants one type a column."""
    from datasets import load_dataset

    (file,) = pushed[1].rglob(f"{'results' if task == 'results' else f'samples_{task}'}_2*")
    rows = load_dataset("json", data_files=str(file), split="train", cache_dir=str(tmp_path))
    assert len(rows) == (1 if task == "results" else len(file.read_text("utf-8").splitlines()))


def refuse(constant: str) -> NoReturn:
    raise AssertionError(f"{constant} is no JSON")
