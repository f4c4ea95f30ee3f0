"""Trainings as processes: two of them as one, and a disk that is full."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from safetensors.numpy import load_file

from tests.labelled_facts import facts, write_lines
from tests.tiny_models import write_base

pytestmark = [pytest.mark.xdist_group("training processes"), pytest.mark.slow("each process imports torch and trains")]

# One thread: tiny matrices, and sums in the same order whoever computes them.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
STEPS = ("--num_train_epochs", "25", "--logging_steps", "1", "--save_strategy", "steps", "--save_steps", "5")


def command(base: Path, data: Path, output: Path, *options: str) -> list[str]:
    """What follows ``python -m`` or ``torchrun -m``."""
    words = ["lm_eval_tasks.cli", "train", "--base", str(base), "--data", str(data)]
    fixed = ["-o", str(output), "--max_length", "128", "--form", "auto", "--learning_rate", "1e-3", "--use_cpu", "true"]
    return [*words, *fixed, *options]


def run(words: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *words], env=ENVIRONMENT, capture_output=True, text=True, timeout=600, **options
    )


def losses(folder: Path) -> dict[int, float]:
    """Step to loss, of a finished training."""
    curve = json.loads((folder / "training.json").read_text("utf-8"))["curve"]
    return {entry["step"]: entry["loss"] for entry in curve if "loss" in entry}


def test_two_processes_learn_what_one_learns(tmp_path: Path) -> None:
    """gloo on CPU; without dropout, whose random numbers are each process's own."""
    base, data = write_base(tmp_path / "llama", "llama"), write_lines(tmp_path / "facts.jsonl", facts(40))
    config = json.loads((base / "config.json").read_text("utf-8"))
    (base / "config.json").write_text(json.dumps({**config, "classifier_dropout": 0.0}), "utf-8")
    options = ("--num_train_epochs", "3", "--logging_steps", "1", "--form", "paper", "--held_out", "0.3", "--calibrate")
    one = run(command(base, data, tmp_path / "one", *options, "--per_device_train_batch_size", "4"))
    assert one.returncode == 0, one.stderr
    # What `accelerate launch` starts on GPUs, too; on CPU it starts one process without MPI.
    launch = ["torch.distributed.run", "--standalone", "--nproc_per_node", "2", "-m"]
    two = run([*launch, *command(base, data, tmp_path / "two", *options, "--per_device_train_batch_size", "2")])
    assert two.returncode == 0, two.stderr
    assert two.stdout.count("threshold ") == 1  # the main process alone measures, and says so
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), abs=1e-4)
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert max(float(abs(first[name] - second[name]).max()) for name in first) < 1e-3
    ours, theirs = (json.loads((tmp_path / name / "calibration.json").read_text("utf-8")) for name in ("one", "two"))
    assert ours["languages"] == theirs["languages"]


def test_a_full_disk_while_a_checkpoint_is_written(tmp_path: Path) -> None:
    """No file may grow beyond 300 kB: the model's 360 kB do not fit, as on a disk that is full."""
    base, data = write_base(tmp_path / "bert", "bert"), write_lines(tmp_path / "facts.jsonl", facts())

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    words = command(base, data, tmp_path / "d", "--held_out", "0", *STEPS)
    full = run(words, preexec_fn=limit)
    assert full.returncode == 2
    assert "the training ended at step 5: " in full.stderr
    assert f"room in {tmp_path / 'd' / 'checkpoints'}?" in full.stderr
    assert "Traceback" not in full.stderr
    started = command(base, data, tmp_path / "last", "--held_out", "0", *STEPS)
    last = run([*started, "--save_strategy", "no"], preexec_fn=limit)
    assert f"the detector cannot be written to {tmp_path / 'last'}: " in last.stderr
    assert "Traceback" not in last.stderr
    assert "holds files already" in run(words).stderr
    shutil.rmtree(tmp_path / "d")
    again = run(words)
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "d" / "model.safetensors").stat().st_size > 300_000
