"""How a classifier is run: batches, memory, processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("hypothesis")

import torch

from detector_plugin import processes
from detector_plugin.detector import UnusableDetector
from detector_plugin.loading import load_detector
from detector_plugin.processes import ProcessPlace, here
from detector_plugin.span_store import StoredDetector
from detector_plugin.transformers import TransformersDetector

REFERENCES = ["the moon is cold. " * (n % 4 + 1) for n in range(40)]
ANSWERS = ["the sun is a red star." for _ in range(40)]
LANGUAGES = ["en"] * 40

# Memory


@pytest.mark.parametrize("error", [torch.cuda.OutOfMemoryError("no room"), RuntimeError("can't allocate memory: 9 TB")])
def test_a_batch_that_does_not_fit_is_halved_and_later_ones_are_smaller(
    lookup: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    detector = TransformersDetector(str(lookup), batch_size=32, batch_tokens=10_000)
    expected = detector.detect(REFERENCES, ANSWERS, LANGUAGES)
    engine: Any = detector.engine
    sizes: list[int] = []
    logits = engine._logits

    def small(ids: Any, types: Any = None) -> Any:
        sizes.append(len(ids))
        if len(ids) > most:
            raise error
        return logits(ids, types)

    monkeypatch.setattr(engine, "_logits", small)
    most = 8
    assert detector.detect(REFERENCES, ANSWERS, LANGUAGES) == expected
    assert sizes[:3] == [32, 16, 8]
    assert sizes.count(32) == 1  # batches are smaller from then on
    assert max(sizes[sizes.index(8) :]) <= 16
    assert "32 inputs of up to 30 tokens do not fit into the memory of cpu" in caplog.text
    assert "batches have 240 tokens at most from now on" in caplog.text
    most = 0
    with pytest.raises(UnusableDetector, match=r"30 tokens do not fit into the memory of cpu; set max_length"):
        detector.detect(REFERENCES, ANSWERS, LANGUAGES)
    error = RuntimeError("a fault")
    with pytest.raises(RuntimeError, match="a fault"):
        detector.detect(REFERENCES, ANSWERS, LANGUAGES)


def test_no_more_documents_are_read_ahead_than_are_sorted_together(lookup: Path) -> None:
    """Of a long list, only the first chunks have been encoded when the first answer is done."""
    detector = TransformersDetector(str(lookup), batch_size=2)
    encoded: list[int] = []
    encode_all = detector.encoder.encode_all
    detector.encoder.encode_all = lambda documents: encoded.append(len(documents)) or encode_all(documents)  # type: ignore
    spans = detector.detect_each(REFERENCES * 3, ANSWERS * 3, LANGUAGES * 3)
    next(spans)
    assert sum(encoded) <= 16 * 2 + 2 * 32  # a round of batches, and two chunks of the tokenizer
    assert sum(1 for _ in spans) == 119
    assert sum(encoded) == 120


# The store


def test_spans_are_kept_under_other_options_of_speed_alone(lookup: Path, tmp_path: Path) -> None:
    store = tmp_path / "spans.jsonl"
    for options, lines in [
        ({"batch_size": 1}, 3),
        ({"batch_size": 4, "device": "cpu"}, 3),
        ({"threshold": 0.9}, 6),
        ({"dtype": "bfloat16"}, 9),
    ]:
        stored = StoredDetector(load_detector(str(lookup), **options), store, options)
        stored.detect(["the moon"] * 3, ["the moon is a red star.", "", "the moon"], ["en"] * 3)
        assert len(store.read_text("utf-8").splitlines()) == lines


# Processes

LAUNCHED = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "a", "MASTER_PORT": "1"}


@pytest.mark.parametrize("without", [None, *LAUNCHED])
def test_which_process_of_a_launch_this_is(monkeypatch: pytest.MonkeyPatch, without: str | None) -> None:
    for name, value in LAUNCHED.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    assert (here(), processes.gpu()) == (ProcessPlace(3, 4, 1), "cuda:1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)  # fewer GPUs than processes
    assert processes.gpu() == "cuda:0"
    if without is not None:  # a cluster's variables are no launch
        monkeypatch.delenv(without)
        assert (here(), processes.gpu()) == (ProcessPlace(0, 1, 0), "cuda")
        assert processes.gather("mine") == processes.all_gather("mine") == ["mine"]
