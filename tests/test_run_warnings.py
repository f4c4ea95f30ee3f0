"""What a run's outcome says against it is in one line of the log."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from lm_eval.models.dummy import DummyLM

import lm_eval_grounded as g
from custom_metrics.broken_run import Prompting, copy_warning, faults, unread_warning
from lm_eval_tasks.nomiracl.dataset import load
from lm_eval_tasks.results.doubts import read_answers, signs_of
from lm_eval_tasks.runs import read_runs
from tests.conftest import Harness, results_of
from tests.logged_runs import files_of, generate, in_this_process
from tests.logged_runs import lines as rows_of
from tests.miniature import MINIATURE, SAMPLE


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """But for those of rates that are not defined."""
    records = [record for record in caplog.records if record.name.endswith(".harness.task")]
    assert all(record.levelno == logging.WARNING for record in records)
    return [line for record in records if "left out of the results" not in (line := record.getMessage())]


@pytest.mark.parametrize("task", ["mfava_detection_de_gold", "mfava_detection_de_gold_category", "mushroom_zh"])
def test_a_model_that_answers_detection_is_told(task: str, harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    """What a generating model says there: anything but the text with tags."""
    got = harness([task], "grounded-baseline", "strategy=abstain", metadata=SAMPLE)
    total = got["results"][task]["sample_len"]
    (line,) = lines(caplog)
    assert line == (  # no word of a prompt: a baseline reads none
        f"{task}: {total} of {total} replies are not the given answer with tags, and count as wrong, so "
        "the figures say nothing of a detector; this task wants a detector (--model hallucination-detector)"
    )


@pytest.mark.parametrize(
    ("prompting", "hint"),
    [
        (Prompting(), "with --apply_chat_template, and max_gen_toks enough for its whole reply (reasoning included)"),
        (Prompting(chat_template=True), "with max_gen_toks enough for its whole reply (reasoning included)"),
        (Prompting(model_prompted=False), ""),
    ],
)
def test_a_hint_is_what_the_run_did_not_do(prompting: Prompting, hint: str) -> None:
    copies = copy_warning([({"answer": "Rome."}, "?")], prompting)
    ratings = unread_warning("rating", ["unread"], prompting)
    back = f", or a language model that gives the answer back: {hint}" if hint else ""
    follow = f"; a judge has to follow instructions: run one {hint}" if hint else ""
    assert str(copies).endswith(f"(--model hallucination-detector){back}")
    assert str(ratings).endswith(f"which leaves none to compute from{follow}")


UNTUNED = "a model that is not tuned to follow instructions."
APART = "strict and robust differ on 8 of 8 answers: they are not in the prompt's own words"
HINTS = [  # model, whether a chat template is applied, the end of the line
    ("dummy", False, f"{APART}. Usual reasons: a missing --apply_chat_template, or {UNTUNED}"),
    ("dummy", True, f"{APART}. Usual reasons: {UNTUNED}"),
    ("replay", False, f"{APART}."),
    ("replay", True, f"{APART}."),
]


@pytest.mark.parametrize(("model", "chat", "line"), HINTS)
def test_the_log_gives_no_hint_that_the_run_rules_out(
    model: str,
    chat: bool,
    line: str,
    harness: Harness,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(DummyLM, "apply_chat_template", lambda self, turns, **_: str(turns))
    answers = tmp_path / "answers.jsonl"
    docs = load("de", mirror=MINIATURE)["evaluation"]
    answers.write_text("".join(json.dumps({"query_id": doc["query_id"], "response": "lol"}) + "\n" for doc in docs))
    arguments = f"path={answers}" if model == "replay" else ""
    harness(["nomiracl_de"], model, arguments, metadata=SAMPLE, apply_chat_template=chat)
    assert lines(caplog) == [f"nomiracl_de: {line}"]


def test_the_report_gives_no_hint_that_the_run_rules_out(tmp_path: Path) -> None:
    """It knows what the results file says."""
    prompted = generate(tmp_path / "dummy", tasks="nomiracl_de", model="dummy", model_args="")
    replayed = generate(tmp_path / "replay", tasks="nomiracl_de", model="replay", model_args=f"path={prompted}")

    def said(folder: Path) -> str:
        (task,) = read_runs([folder])[0].tasks.values()
        return faults(signs_of(task, read_answers(task)), task.settings.prompting)

    assert (said(prompted), said(replayed)) == tuple(HINTS[at][2].removesuffix(".") for at in (0, 2))
    (path,) = prompted.glob("results_*.json")
    results = json.loads(path.read_text("utf-8"))
    for recorded in ({"chat_template_sha": "ab"}, {"chat_template_sha": None}):
        results |= recorded
        path.write_text(json.dumps(results), "utf-8")
        assert said(prompted) == HINTS[1 if recorded["chat_template_sha"] else 0][2].removesuffix(".")
    # of a service that holds the template itself, the harness records none, but what was asked for
    results["configs"]["nomiracl_de"]["metadata"]["provenance"]["run"]["apply_chat_template"] = True
    path.write_text(json.dumps(results), "utf-8")
    assert said(prompted) == HINTS[1][2].removesuffix(".")


def test_replies_of_which_most_are_copies_need_no_line() -> None:
    doc = {"answer": "The tower was built in 1889 in Paris."}
    copy = "The tower was built in <entity>1889</entity> in Paris."
    assert copy_warning([(doc, copy)] * 8 + [(doc, "I cannot do that.")] * 2) is None
    line = copy_warning([(doc, copy)] * 7 + [(doc, "")] * 3)
    assert line is not None
    assert line.startswith("3 of 10 replies are not the given answer with tags")
    assert copy_warning([]) is None


@pytest.mark.parametrize(
    ("replies", "begin"),
    [
        (["1", "4", "3", "2", "unread"], None),
        (["1", "unread", "unread"], "2 of 3 replies of the judge hold no rating, and the figures are over the other 1"),
        (["unread"] * 2, "2 of 2 replies of the judge hold no rating, which leaves none to compute from;"),
        ([], None),
    ],
)
def test_a_judge_that_cannot_be_read(replies: list[str], begin: str | None) -> None:
    line = unread_warning("rating", replies)
    assert line is None if begin is None else line is not None and line.startswith(begin)


@pytest.mark.parametrize(
    ("task", "samples", "verdict"),
    [("clapnq_judge", "lexical/samples_clapnq_gold_*", "rating"), ("clapnq_judge_pairs", "*", "preference")],
)
def test_a_judge_that_does_not_judge_is_said_in_both_tasks(
    task: str, samples: str, verdict: str, runs: Path, harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    harness([task], "dummy", metadata={"samples": sorted(map(str, runs.glob(samples)))})
    (line,) = lines(caplog)
    assert line.startswith(f"{task}: ")
    assert f"replies of the judge hold no {verdict}, which leaves none to compute from; a judge has to" in line


FEW = "2 of {total} questions in this run: a rate of 0 over so few may be 0.66 (95 % bound)"


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
            f"clapnq_gold: {FEW}; answerable questions are not among them, and the rates over those not defined",
        ),
        ("mfava_de", {"limit": 2}, f"mfava_de: {FEW}"),
        ("nomiracl_de", {}, None),
    ],
)
def test_a_handful_of_questions_is_said(
    task: str, options: dict[str, Any], line: str | None, harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    got = harness([task], "grounded-baseline", "strategy=abstain", metadata=SAMPLE, **options)
    total = got["n-samples"][task]["original"]
    assert lines(caplog) == ([line.format(total=total)] if line else [])


THOUGHT = "The user asks about a tower. Passage 2 names one, so the answer should be: yes, answer is present"
SAID = "Yes, answer is present"
OPENED, CLOSED = "<think>\n", "<think>\n\n</think>\n\n"
READ_BY = {"nomiracl_de": "robust", "clapnq_gold": "answer"}  # task to filter


@pytest.mark.slow("three runs of two tasks, and a comparison")
def test_a_thought_that_the_prompt_opens_and_nothing_closes_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In a chat template whose generation prompt opens a thought, and in one that closes it, too."""
    runs = {}
    for opening, reply in ((OPENED, THOUGHT), (OPENED, f"{THOUGHT}\n</think>{SAID}"), (CLOSED, SAID)):
        monkeypatch.setattr(DummyLM, "apply_chat_template", lambda self, turns, **_: turns[-1]["content"] + opening)  # noqa: B023
        monkeypatch.setattr(DummyLM, "generate_until", lambda self, requests, **_: [reply] * len(requests))  # noqa: B023
        unfinished, folder = reply == THOUGHT, tmp_path / str(len(runs))
        in_this_process([*READ_BY], "dummy", "", folder, apply_chat_template=True)
        runs[opening, reply], results = files_of(folder), results_of(folder)
        for task, filter_name in READ_BY.items():
            number = results["n-samples"][task]["effective"]
            (logged,) = {row["resps"][0][0] for path in folder.rglob(f"samples_{task}_*") for row in rows_of(path)}
            assert logged == (OPENED if unfinished else "") + reply
            figure = results["results"][task][f"balanced_error,{filter_name}"]
            assert figure == (1.0 if unfinished else 0.5)  # else each question is said to have an answer
            noted = results["configs"][task]["metadata"].get("answers_without_statement")
            assert noted == ({"unfinished": number} if unfinished else None)
            warned = [line for line in lines(caplog) if line.startswith(f"{task}: this run looks broken")]
            assert len(warned) == unfinished
            assert not warned or f"({number} in an unfinished thought)" in warned[0]
            assert not warned or ("turn thinking off" in warned[0] and "not tuned" not in warned[0])
        caplog.clear()
    thinking, finished, _ = runs.values()
    verdicts = "\n".join(g.compare(thinking, finished).verdicts)
    assert "its run looks broken: 8 of 8 answers are Invalid, 8 in an unfinished thought" in verdicts
    assert "its run looks broken: 32 of 32 answers are no answers, 32 in an unfinished thought" in verdicts
