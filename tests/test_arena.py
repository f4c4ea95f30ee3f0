"""`arena`: detectors on all sets that people marked, on one page; what fits, what goes on, what stands where."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from detector_plugin.span_store import StoredDetector
from lm_eval_tasks.cli import main
from lm_eval_tasks.commands import arena
from tests.conftest import command, run
from tests.miniature import MINIATURE


class Harness:
    """The harness in a fork of this process, and which detectors it was asked to run over how many tasks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls: list[tuple[str, int, bool]] = []

    def __call__(
        self, typed: str, tasks: Sequence[str], options: Sequence[str], stderr: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        self.calls.append((typed, len(tasks), stderr is not None))
        model = ["--model", "hallucination-detector", "--model_args", f"detector={typed}", "--tasks", ",".join(tasks)]
        return run([command("lm_eval"), *model, *options], self.folder, check=False)


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Harness:
    harness = Harness(tmp_path)
    monkeypatch.setattr(arena, "_lm_eval", harness)
    monkeypatch.setattr(arena, "REFERENCES", ())
    return harness


@pytest.mark.slow("runs the harness five times")
def test_detectors_are_tried_run_once_and_ranked_beside_published_figures(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--mirror", MINIATURE, "--tasks", "ragtruth_qa", "-o", str(tmp_path / "a")]
    assert main(["arena", "flag-unseen", *words]) == 0
    assert harness.calls == [("flag-unseen", 1, True), ("flag-unseen", 1, False)]
    harness.calls.clear()
    assert main(["arena", "flag-unseen", "flag-all", *words]) == 0  # the first one is kept
    assert harness.calls == [("flag-unseen", 1, True), ("flag-all", 1, True), ("flag-all", 1, False)]
    told = capsys.readouterr().out
    assert (
        "1 of 2: flag-unseen, as it was run before\n2 of 2: flag-all fits; reading the answers of ragtruth_qa\n" in told
    )
    assert "| * lettucedect-large-modernbert-en-v1 (all of ragtruth)" in told
    assert "  ragtruth_qa answer_auc: 1.000, rank 1 of 2" in told.partition("flag-unseen stands\n")[2]
    page = (tmp_path / "a" / "index.html").read_text("utf-8")
    for text in ("865 spans in 408 of its answers", "licence: <bdi>Apache-2.0</bdi>", "documents a second"):
        assert text in page


def test_what_does_not_fit_ends_before_any_run(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for detector, message in (
        ("flag-al", "there is no such detector"),
        ("lexical,treshold=1", "treshold"),
        (str(tmp_path), "lm-eval-grounded: "),  # no model; without torch the message is about that
    ):
        assert main(["arena", detector, "--mirror", MINIATURE, "--tasks", "faithbench", "-o", str(tmp_path / "a")]) == 2
        told = capsys.readouterr().err
        assert message in told
        assert "Traceback" not in told
    assert not [call for call in harness.calls if not call[2]]


def test_the_sets_that_are_not_there_are_named(hub: str, capsys: pytest.CaptureFixture[str]) -> None:
    there = arena.tasks_there("memerag,ragtruth,faithbench", hub)
    assert there == {"memerag": ["memerag_de", "memerag_es"], "ragtruth": ["ragtruth_qa", "ragtruth_data2txt"]}
    told = capsys.readouterr().out
    assert "memerag: without memerag_en memerag_fr memerag_hi, whose files are not here" in told
    assert "faithbench: without faithbench, whose files are not here" in told


def test_every_set_is_in_the_miniature() -> None:
    there = arena.tasks_there(None, MINIATURE)
    assert {title: len(tasks) for title, tasks in there.items()} == {
        **{"Mu-SHROOM": 14, "MEMERAG": 5, "mFAVA gold": 5, "RAGTruth": 3, "FaithBench": 1}
    }


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("lexical", arena.HELD_OUT), ("lexical,held_out=False", "lexical,held_out=False"), ("flag-all", "flag-all")],
)
def test_lexical_reads_no_answer_that_it_was_trained_on(typed: str, expected: str) -> None:
    assert arena.checked(typed) == expected


def test_sizes_are_of_weights(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"0" * 2_340_000)
    (tmp_path / "pytorch_model.bin").write_bytes(b"0" * 9_000_000)
    assert arena.size_of(str(tmp_path)) == "2.34 MB"
    assert arena.size_of("lexical") == "22.1 kB"
    assert arena.size_of("flag-all") == arena.size_of("nobody/nothing") == ""


def test_the_standing_is_of_means_and_single_tasks() -> None:
    def row(folder: str, column: str, value: float | None, rank: int | None) -> dict[str, Any]:
        of_column = {"benchmark": "mushroom", "group": None, "column": column, "metric": "iou"}
        return {**of_column, "folder": folder, "value": value, "low": 0.4, "high": 0.6, "rank": rank}

    rows = [row("a", "mean", 0.5, 2), row("b", "mean", 0.7, 1), row("a", "de", 0.5, 1), row("c", "mean", None, None)]
    assert [*arena.standing(rows, "a")] == ["  mushroom iou: 0.500 [0.400, 0.600], rank 2 of 2"]
    assert [*arena.standing(rows, "c")] == []


def test_speed_counts_no_answer_that_was_stored(tmp_path: Path) -> None:
    from detector_plugin.baselines import FlagAll

    for expected in (2, 0):
        stored = StoredDetector(FlagAll(), tmp_path / "spans.jsonl")
        stored.detect(["r", "r"], ["a", "b"], ["en", "en"])
        assert stored.detected == expected
    assert len(json.loads((tmp_path / "spans.jsonl").read_text("utf-8").splitlines()[0])) == 2
