"""What a detector found is stored by content."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.reading.spans import Span
from detector_plugin.span_store import StoredDetector


class Counting:
    name, version, licence = "counting", "1", ""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def detect(self, references: Sequence[str], answers: Sequence[str], *_: Any, **__: Any) -> list[list[Span]]:
        self.asked += answers
        return [[Span(0, len(answer))] if answer else [] for answer in answers]


def test_the_store_asks_for_each_content_once(tmp_path: Path) -> None:
    detector = Counting()
    stored = StoredDetector(detector, tmp_path / "s.jsonl")
    answers = ["a", "bb", "a", "", "\ud800"]
    expected = [[Span(0, len(answer))] if answer else [] for answer in answers]
    assert stored.detect(["r"] * 5, answers, ["de"] * 5) == expected
    assert sorted(detector.asked) == sorted({*answers})
    again = StoredDetector(detector, tmp_path / "s.jsonl")
    assert again.detect(["r"] * 5, answers, ["de"] * 5) == expected
    assert len(detector.asked) == 4
    again.detect(["other"], ["a"], ["de"])  # another reference is another question
    again.detect(["r"], ["a"], ["fi"])
    assert len(detector.asked) == 6
    newer = Counting()
    newer.version = "2"
    StoredDetector(newer, tmp_path / "s.jsonl").detect(["r"], ["a"], ["de"])
    assert newer.asked == ["a"]
    for options in ({"threshold": 0.5}, {"threshold": 0.6}, {"threshold": 0.5}):
        StoredDetector(detector, tmp_path / "s.jsonl", options).detect(["r"], ["a"], ["de"])
    assert len(detector.asked) == 8  # each options once
    with pytest.raises(ValueError, match="1 answers, but 2 references"):
        stored.detect(["r", "s"], ["a"], ["de"])
