"""What is wrong with the outcome of a run is said in one line of the log."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks.outcome import not_copies, unread

Harness = Callable[..., dict[str, Any]]
SAMPLE = {"mirror": "sample"}


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.endswith(".outcome")]


@pytest.mark.parametrize("task", ["mfava_detection_de_gold", "mfava_detection_de_gold_category", "mushroom_zh"])
def test_a_model_that_answers_a_detection_task_is_told_apart(
    task: str, harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """What a generating model says there: anything but the text with tags."""
    got = harness([task], "grounded-baseline", "strategy=abstain", metadata=SAMPLE)
    total = got["results"][task]["sample_len"]
    (line,) = lines(caplog)
    assert line == (
        f"{task}: {total} of {total} replies are not the given answer with tags, and count as if nothing were flagged, so "
        "the figures say nothing of a detector; this task wants a detector (--model hallucination-detector), or a language "
        "model that gives the answer back: with --apply_chat_template, and max_gen_toks enough for its whole reply "
        "(reasoning included)"
    )


@pytest.mark.parametrize("task", ["mfava_detection_de_gold", "mushroom_zh"])
def test_a_detector_in_a_detection_task_needs_no_line(
    task: str, harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    harness([task], "hallucination-detector", "detector=lexical", metadata=SAMPLE)
    assert lines(caplog) == []


@pytest.mark.parametrize("task", ["nomiracl_de", "clapnq_gold", "mfava_de"])
def test_a_detector_in_a_generating_task_is_refused(task: str, harness: Harness) -> None:
    with pytest.raises(
        ValueError, match=rf"^hallucination-detector: {task} asks for answers, and a detector writes none"
    ):
        harness([task], "hallucination-detector", "detector=lexical", metadata=SAMPLE)


def test_replies_of_which_most_are_copies_need_no_line() -> None:
    doc = {"answer": "The tower was built in 1889 in Paris."}
    copy = "The tower was built in <entity>1889</entity> in Paris."
    assert not_copies([(doc, copy)] * 8 + [(doc, "I cannot do that.")] * 2) is None
    line = not_copies([(doc, copy)] * 7 + [(doc, "")] * 3)
    assert line is not None
    assert line.startswith("3 of 10 replies are not the given answer with tags")
    assert not_copies([]) is None


@pytest.mark.parametrize(
    ("replies", "begin"),
    [
        (["1", "4", "3", "2", "unread"], None),
        (
            ["1", "unread", "unread"],
            "2 of 3 replies of the judge hold no rating, and the figures are over the other 1;",
        ),
        (["unread"] * 2, "2 of 2 replies of the judge hold no rating, which leaves none to compute from;"),
        ([], None),
    ],
)
def test_a_judge_that_cannot_be_read(replies: list[str], begin: str | None) -> None:
    line = unread("rating", replies)
    assert line is None if begin is None else line is not None and line.startswith(begin)


def test_a_judge_that_does_not_judge_is_said_in_both_tasks(
    harness: Harness, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for strategy in ("lexical", "full_passage"):
        got = harness(["clapnq_gold"], "grounded-baseline", f"strategy={strategy}", metadata=SAMPLE)
        file = tmp_path / strategy / "samples_clapnq_gold_2026-01-01T00-00-00.000001.jsonl"
        file.parent.mkdir()
        file.write_text("".join(json.dumps(row) + "\n" for row in got["samples"]["clapnq_gold"]), "utf-8")
    assert lines(caplog) == []
    for task, samples, verdict in (
        ("clapnq_judge", tmp_path / "lexical", "rating"),
        ("clapnq_judge_pairs", tmp_path, "preference"),
    ):
        caplog.clear()
        harness([task], "dummy", metadata={"samples": str(samples)})
        (line,) = lines(caplog)
        assert line.startswith(f"{task}: ")
        assert f"replies of the judge hold no {verdict}, which leaves none to compute from; a judge has to" in line


@pytest.mark.parametrize(
    ("task", "options", "line"),
    [
        (
            "nomiracl_de",
            {"limit": 1},
            "nomiracl_de: 1 of 8 questions in this run: a rate of 0 over so few may be 0.79 (95 % bound); non_relevant "
            "questions are not among them, and the rates over those not defined",
        ),
        (
            "clapnq_gold",
            {"samples": {"clapnq_gold": [1, 3]}},
            "clapnq_gold: 2 of {total} questions in this run: a rate of 0 over so few may be 0.66 (95 % bound); "
            "answerable questions are not among them, and the rates over those not defined",
        ),
        (
            "mfava_de",
            {"limit": 2},
            "mfava_de: 2 of {total} questions in this run: a rate of 0 over so few may be 0.66 (95 % bound)",
        ),
        ("nomiracl_de", {}, None),
    ],
)
def test_a_handful_of_questions_is_said(
    task: str, options: dict[str, Any], line: str | None, harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    got = harness([task], "grounded-baseline", "strategy=abstain", metadata=SAMPLE, **options)
    total = got["n-samples"][task]["original"]
    assert lines(caplog) == ([line.format(total=total)] if line else [])
    assert all(record.levelno == logging.WARNING for record in caplog.records if record.name.endswith(".outcome"))
