"""Several processes that a launcher starts (gloo, on CPU) find what one finds."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from lm_eval_tasks.results.score import score
from tests.conftest import ROOT, results_of, run
from tests.logged_runs import copied, lines
from tests.miniature import MINIATURE


def launched(arguments: list[str], cwd: Path) -> None:
    """A command in two processes, as `accelerate launch` starts them on two GPUs; here they meet on a CPU."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = ["--multi_gpu", "--num_processes=2", "--num_machines=1", f"--main_process_port={port}"]
    settings = ["--mixed_precision=no", "--dynamo_backend=no"]
    launcher = [sys.executable, "-m", "accelerate.commands.launch", *processes, *settings]
    run([*launcher, "-m", *arguments], cwd, fresh=True, PYTHONPATH=str(ROOT))


def spans_of(folder: Path) -> dict[str, list[Any]]:
    """Task to what was flagged in each answer."""
    found = {}
    for path in sorted(folder.rglob("samples_*.jsonl")):
        task = path.name.split("_2")[0]
        rows = sorted(lines(path), key=lambda row: row["doc_id"])
        found[task] = [json.loads(row["filtered_resps"][0])["spans"] for row in rows]
    return found


def same(mine: Path, theirs: Path) -> None:
    one, two = results_of(mine), results_of(theirs)
    assert one["results"] == two["results"]
    assert one["n-samples"] == two["n-samples"]
    for task, config in one["configs"].items():
        assert config["metadata"]["figures"] == two["configs"][task]["metadata"]["figures"]
    assert spans_of(mine) == spans_of(theirs)
    assert any(spans_of(mine)["samples_mfava_de"])


@pytest.mark.slow("processes are started, each with a model")
def test_launched_processes_score_as_one(predicted: Path, tmp_path: Path, llama_classifier: Path) -> None:
    for name in ("one", "launched"):
        copied(predicted, tmp_path / name)
    detector = str(llama_classifier)
    score(tmp_path / "one", detector, output=tmp_path / "of one")
    command = ["lm_eval_tasks.cli", "score", str(tmp_path / "launched"), "--detector", detector]
    launched([*command, "-o", str(tmp_path / "of launched")], tmp_path)
    same(tmp_path / "of one", tmp_path / "of launched")
    assert not list((tmp_path / "of launched").glob(".*"))


@pytest.mark.slow("processes are started, each with a harness")
def test_two_launched_processes_run_the_harness_as_one(tmp_path: Path, llama_classifier: Path) -> None:
    """The detector tags in each process what that process answered; and the detector itself, as a model."""
    commands = {
        "filter": [
            *("lm_eval", "--model", "grounded-baseline", "--tasks", "mfava_de,mfava_zh", "--log_samples"),
            *("--metadata", f"mirror={MINIATURE}", f"detector={llama_classifier}"),
        ],
        "model": [
            *("lm_eval", "--model", "hallucination-detector", "--model_args", f"detector={llama_classifier}"),
            *("--tasks", "mfava_detection_de_gold", "--log_samples", "--metadata", f"mirror={MINIATURE}"),
            *("--device", "cpu"),
        ],
    }
    for name, command in commands.items():
        one, two = tmp_path / f"{name} one", tmp_path / f"{name} two"
        run([sys.executable, "-m", *command, "--output_path", str(one)], tmp_path)
        launched([*command, "--output_path", str(two)], tmp_path)
        if name == "filter":
            same(one, two)
        else:
            assert results_of(one)["results"] == results_of(two)["results"]
        assert len(list(two.rglob("results_*.json"))) == 1
