"""Samples files: read up to where they were cut, each answer once; the detector's finds are stored by content."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from custom_metrics.reading.spans import Span
from detector_plugin.span_store import StoredDetector
from lm_eval_tasks.data.samples import read_samples, samples_files
from tests.logged_runs import sample, write_samples


def test_a_file_that_was_cut_is_read_up_to_there_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = "\n".join(json.dumps(sample(number)) for number in range(4))
    path = write_samples(tmp_path, whole[:-40])
    with caplog.at_level(logging.WARNING):
        assert [row["doc_id"] for row in read_samples(path)] == [0, 1, 2]
    assert "is cut in line 4: the 3 samples before it are used, the rest is lost" in caplog.text


def test_answers_that_differ_and_half_characters_are_survived(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [sample(0), sample(0, resps=[["another"]]), sample(1, resps=[["half \ud800 a pair"]])]
    path = write_samples(tmp_path, "\n".join(map(json.dumps, rows)))
    with caplog.at_level(logging.WARNING):
        first, second = read_samples(path)
    assert first["resps"] == [["Ein Text."]]
    assert second["resps"] == [["half \ufffd a pair"]]
    assert "1 further answers to the same documents; the first of each counts" in caplog.text


def test_the_newest_samples_of_a_task_count(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_samples(tmp_path, "", date="2026-01-01T00-00-00.0")
    newest = write_samples(tmp_path, "", date="2026-02-01T00-00-00.0")
    (tmp_path / "other.jsonl").write_text("", "utf-8")
    with caplog.at_level(logging.INFO):
        assert samples_files(tmp_path) == {tmp_path: {"mfava_de": newest}}
    assert "of each task in a folder the newest samples count; passed over: " in caplog.text


class Counting:
    name, version, licence = "counting", "1", ""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def detect(
        self,
        references: Sequence[str],
        answers: Sequence[str],
        languages: Sequence[str | None],
        questions: Sequence[str] | None = None,
    ) -> list[list[Span]]:
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
