"""Several processes find what one finds: `score --workers`, and what a launcher starts (gloo, on CPU)."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.detector import UnusableDetector
from lm_eval_tasks.results.score import Work, score, tag_part
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
def test_workers_and_launched_processes_score_as_one(predicted: Path, tmp_path: Path, llama_classifier: Path) -> None:
    for name in ("one", "workers", "launched"):
        copied(predicted, tmp_path / name)
    detector = str(llama_classifier)
    score(tmp_path / "one", detector, output=tmp_path / "of one")
    score(tmp_path / "workers", detector, output=tmp_path / "of workers", workers=2)
    command = ["lm_eval_tasks.cli", "score", str(tmp_path / "launched"), "--detector", detector]
    launched([*command, "-o", str(tmp_path / "of launched")], tmp_path)
    for several in ("of workers", "of launched"):
        same(tmp_path / "of one", tmp_path / several)
        assert not list((tmp_path / several).glob(".*"))


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
            *(
                "--tasks",
                "mfava_detection_de_gold",
                "--log_samples",
                "--metadata",
                f"mirror={MINIATURE}",
                "--device",
                "cpu",
            ),
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


@pytest.mark.slow("a process is killed while others work")
def test_what_several_processes_tagged_is_known_to_one(predicted: Path, tmp_path: Path) -> None:
    """A process that is killed costs its last answers alone; the next command may have other processes."""
    folder = copied(predicted, tmp_path / "run")
    command = [sys.executable, "-m", "lm_eval_tasks.cli", "score", str(folder), "--workers", "3"]
    started = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    while not list(folder.glob(".spans_lexical*.jsonl")) and started.poll() is None:
        time.sleep(0.02)
    started.send_signal(signal.SIGKILL)
    started.wait()
    deadline = time.monotonic() + 20  # the workers notice, and end
    before = -1
    while (now := sum(path.stat().st_size for path in folder.glob(".spans_*"))) != before:
        assert time.monotonic() < deadline
        before = now
        time.sleep(1)
    assert before > 0
    tasks = ("mfava_de", "mfava_zh")
    files = {task: next(folder.glob(f"samples_{task}_*")) for task in tasks}
    work = Work(files, {"detector": "lexical", "samples": str(folder)}, folder)
    known = len(work.stored_detector(_Nothing()).spans_by_key)
    tag_part(work, 1, 2)
    assert len(work.stored_detector(_Nothing()).spans_by_key) >= max(known, 8)
    score(folder, output=tmp_path / "out")
    score(copied(predicted, tmp_path / "again"), output=tmp_path / "whole")
    same(tmp_path / "out", tmp_path / "whole")


class _Nothing:
    """A detector that is asked for nothing."""

    name, version, licence = "lexical", "", ""


def test_a_part_is_every_second_answer_and_what_others_tagged_is_known(predicted: Path, tmp_path: Path) -> None:
    folder = copied(predicted, tmp_path / "run")
    files = {"mfava_de": next(folder.glob("samples_mfava_de_*"))}
    work = Work(files, {"detector": "lexical", "samples": str(files["mfava_de"])}, folder)
    for number, kept in ((0, 5), (1, 4), (1, 4)):
        tag_part(work, number, 2)
        assert len(lines(work.span_file(number))) == kept
    assert [path.name for path in work.span_files()] == [".spans_lexical.jsonl", ".spans_lexical.part1.jsonl"]
    assert len(work.stored_detector(_Nothing()).spans_by_key) == 9
    (folder / ".spans_lexical-two.jsonl").write_text("", "utf-8")  # of another detector
    assert len(work.span_files()) == 2


@pytest.mark.slow("processes are started")
def test_a_worker_that_fails(predicted: Path, tmp_path: Path, llama_classifier: Path) -> None:
    folder = copied(predicted, tmp_path / "run")
    with pytest.raises(UnusableDetector, match="treshold"):
        score(folder, "lexical", {"treshold": 1}, workers=2)
    with pytest.raises(UsageError, match="0 workers"):
        score(folder, workers=0)
