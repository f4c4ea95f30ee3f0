"""``lm-eval-grounded detect LOG``: logs of one's own become a run that people can mark."""

from __future__ import annotations

import io
import json
import re
import shutil
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.hallucination import flagged_words
from custom_metrics.reading.spans import Span
from custom_metrics.statistics.intervals import wilson
from lm_eval_tasks.cli import main
from lm_eval_tasks.results.logs import run as logged_run
from lm_eval_tasks.results.marks.draw import TaskAnswers, draw
from lm_eval_tasks.results.marks.page import page_content
from lm_eval_tasks.runs import read_runs
from tests.conftest import ROOT, figures_of, results_of
from tests.logged_runs import detect_log, lines
from tests.miniature import MINIATURE_FOLDER

LOG = MINIATURE_FOLDER / "log.jsonl"
TASK = "logged_answers"


def write_log(path: Path, *rows: Any) -> Path:
    path.write_bytes(b"".join(row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n" for row in rows))
    return path


def test_the_worked_example_of_the_readme(
    closed_book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same answers as the sample's run of mFAVA: the same spans; and the rate by annotators' marks is the report's."""
    text = (ROOT / "lm_eval_tasks" / "results" / "logs" / "README.md").read_text("utf-8")
    commands = [line.split() for line in text.split("```")[1].splitlines() if line.startswith("lm-eval-grounded")]
    detect, mark, score, report = ([*line, "#"][1 : [*line, "#"].index("#")] for line in commands)
    monkeypatch.chdir(tmp_path)
    shutil.copy(LOG, "rag.jsonl")
    assert main(detect) == 0
    assert "16.3 % [7.1 to 32.1 %" in capsys.readouterr().out
    of_mfava = {row["doc"]["id"]: row for path in closed_book.glob("samples_*") for row in lines(path)}
    written = lines(Path("out.jsonl"))
    for row in written:
        assert row["spans"] == json.loads(of_mfava[row["id"]]["filtered_resps"][0])["spans"]
        assert row["flagged_share"] == of_mfava[row["id"]]["detected_rate"]
    sums = [flagged_words(r["answer"], of["spans"], r["language"]) for r, of in zip(lines(LOG), written, strict=True)]
    figures = figures_of(results_of(Path("out")), TASK)
    share = sum(flagged for flagged, _ in sums) / sum(all_ for _, all_ in sums)
    assert figures["hallucinated_share"]["value"] == pytest.approx(share)
    flagged = figures["flagged_answers"]
    assert flagged["value"] * 18 == sum(row["unsupported_probability"] >= 0.5 for row in written) == 5
    assert (flagged["low"], flagged["high"]) == pytest.approx(wilson(5, 18))
    assert figures["abstention_rate"]["high"] == pytest.approx(wilson(0, 18)[1])  # none of 18 is not surely none
    assert main([*detect[:-1], "rag.jsonl"]) == 2  # not the log itself
    assert lines(Path("rag.jsonl")) == lines(LOG)
    assert main(mark) == 0
    (run,) = read_runs([Path("out")])
    answers = TaskAnswers.of(run.model, run.tasks[TASK])
    content = page_content([answers], draw([answers], 20, 1234))
    assert {item["line"]["language"] for item in content["items"]} == {"de", "zh"}
    marks = [{**item["line"], "annotator": "A", "spans": [[0, 5, "hallucination"]]} for item in content["items"]]
    write_log(Path("marks_logged_answers_NAME.jsonl"), *marks)
    assert main(score) == 0
    assert re.search(r"marked_rate *\|↓ *\|0\.[1-9]", capsys.readouterr().out)
    assert main(report) == 0
    page = " ".join(Path("report.html").read_text("utf-8").split())
    assert "of the words that it writes are made up, by annotators" in page
    assert main(["score", "out"]) == 2
    assert "name people's marks of them with --marks" in capsys.readouterr().err
    assert main(["compare", "out", "marked", "--format", "json"]) == 0  # counts words as the languages do
    differences = json.loads(capsys.readouterr().out)["differences"]
    (compared,) = [each for each in differences if each["metric"] == "hallucinated_share"]
    assert compared["first_value"] == compared["second_value"] == pytest.approx(share)


GOOD = {"answer": "Der Turm ist 330 Meter hoch.", "passages": ["Der Turm hat 330 Meter."], "language": "de"}


def test_lines_that_cannot_be_used_are_counted_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bad = {
        "not JSON": [b"{'answer'}\n", b"{'x'}\n", b"[" * 100_000 + b"\n", b'{"answer": "cut'],
        "not a JSON object": [[GOOD]],
        "no answer": [{**GOOD, "answer": " "}, {"passages": ["x"]}, {**GOOD, "answer": "<think>Der Turm ist"}],
        "the message of a service that failed": [
            {**GOOD, "answer": answer}
            for answer in ("Empty Response", "Error code: 429 - rate limit", "Error: 500 Internal Server Error")
        ],
        "answer is not text": [{**GOOD, "answer": 3}],
        "answer is a list of several values": [{**GOOD, "answer": ["x", "y"]}],
        "text is not text": [{**GOOD, "passages": [{"text": 3}]}, {**GOOD, "passages": 7}],
        "language is not a BCP 47 tag": [{**GOOD, "language": "german"}],
        "longer than 4 MB": [{**GOOD, "passages": ["x" * (10 << 20)]}],
    }
    good = [
        GOOD,
        {**GOOD, "passages": [{"title": "T", "text": "x"}, "\ud800"], "id": 7},
        {**GOOD, "reference": "x", "id": "\ud800"},
        {**GOOD, "id": "think", "answer": f"<think>Es war 1887, sagt Erik Dahl.</think>\n\n{GOOD['answer']}"},
    ]
    rows = [row for several in bad.values() for row in several if row != b'{"answer": "cut']
    log = write_log(tmp_path / "log.jsonl", *rows[:6], *good, b"\n", *rows[6:], b'{"answer": "cut')
    results = json.loads(detect_log(log, tmp_path / "out.jsonl").read_text("utf-8"))
    record = results["configs"][TASK]["metadata"]["provenance"]
    assert record["left_out"] == {reason: len(several) for reason, several in bad.items()}
    assert record["kept"]["answers"] == len(good) == len(lines(tmp_path / "out.jsonl"))
    assert [row["id"] for row in lines(tmp_path / "out.jsonl")] == [None, 7, "\ufffd", "think"]
    spans = [row["spans"] for row in lines(tmp_path / "out.jsonl")]
    assert spans[-1] == spans[0]  # of the answer alone
    (said,) = (record.message for record in caplog.records if "left out" in record.message)
    assert "not JSON: 4 (log.jsonl:1, log.jsonl:2, log.jsonl:3 and 1 more); not a JSON object: 1 (log.jsonl:4)" in said
    assert "longer than 4 MB: 1 (log.jsonl:21)" in said
    write_log(log, *rows[:4])
    with pytest.raises(
        ValueError, match=r"no line can be used: not JSON: 3 \(log.jsonl:1, .*\); not a JSON object: 1 \(log.jsonl:4\)"
    ):
        detect_log(log, tmp_path / "none.jsonl")
    write_log(log, {**GOOD, "language": "german"})  # which is seen after the fields were chosen
    with pytest.raises(ValueError, match=r"no line can be used: language is not a BCP 47 tag: 1 \(log.jsonl:1\)"):
        detect_log(log, tmp_path / "none.jsonl")
    assert not [*tmp_path.glob("none*")]


def test_an_answer_without_passages_is_unsupported_unless_it_declines(tmp_path: Path) -> None:
    without = [{"answer": "Es sind 42 Meter."}, {**GOOD, "passages": []}, {**GOOD, "passages": [{"title": ""}]}]
    log = write_log(tmp_path / "log.jsonl", GOOD, *without, {"answer": "Ich weiß es nicht.", "language": "de"})
    figures = figures_of(results_of(detect_log(log, tmp_path / "out.jsonl").parent), TASK)
    assert (figures["flagged_answers"]["value"], figures["flagged_answers"]["n"]) == (0.75, 4)
    assert figures["abstention_rate"]["value"] == 0.2
    assert [row["flagged_share"] for row in lines(tmp_path / "out.jsonl")][1:] == [1.0, 1.0, 1.0, None]
    skipped = detect_log(log, tmp_path / "skipped.jsonl", skips=True)
    record = results_of(skipped.parent)["configs"][TASK]["metadata"]["provenance"]
    assert record["left_out"] == {"no passages and no reference": 4}


class Nines:
    """A detector of digits that fails after so many answers."""

    name, version, licence = "lexical", "1", ""

    def __init__(self, fails_after: int = 10**9) -> None:
        self.asked, self.fails_after = 0, fails_after

    def detect(self, references: Sequence[str], answers: Sequence[str], *_: Any) -> list[list[Span]]:
        self.asked += len(answers)
        if self.asked > self.fails_after:
            raise OSError("killed")
        return [[Span(match.start(), match.end()) for match in re.finditer("9+", answer)] for answer in answers]


@pytest.mark.slow("reads a log of many megabytes")
def test_a_killed_run_goes_on_and_memory_is_not_of_the_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{**GOOD, "answer": f"Es sind {n} Meter.", "reference": f"{n} " * 16_000} for n in range(1_000)]
    log = write_log(tmp_path / "log.jsonl", *rows)
    monkeypatch.setattr(logged_run, "_BLOCK", 32)
    assert log.stat().st_size > 60_000_000

    def detect(detector: Nines, name: str, **options: Any) -> list[Any]:
        monkeypatch.setattr(logged_run, "shared_detector", lambda *_: detector)
        detect_log(log, tmp_path / f"{name}.jsonl", **options)
        assert not [*(tmp_path / name).glob(".*")]
        return lines(tmp_path / f"{name}.jsonl")

    with pytest.raises(OSError, match="killed"):
        detect(Nines(500), "killed")
    again = Nines()
    tracemalloc.start()
    resumed = detect(again, "killed")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30_000_000  # blocks of texts, and what stays
    assert 500 <= again.asked < 600  # what the first had not tagged
    assert resumed == detect(Nines(), "whole")
    with pytest.raises(OSError, match="killed"):
        detect(Nines(500), "other")
    other = Nines()
    other.version = "2"
    detect(other, "other")  # another detector, and nothing of the first one's is used
    assert other.asked == 1_000


def test_several_logs_and_a_pipe_are_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_log(Path("a.jsonl"), {**GOOD, "id": "a1"}, b"{\n", {**GOOD, "id": "a2"})
    Path("b.csv").write_text("answer,passages,id\nx,y,b1\n", "utf-8")
    piped = io.BytesIO(json.dumps([{**GOOD, "id": "c1"}]).encode())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(piped, "utf-8"))
    assert main(["detect", "a.jsonl", "-", "b.csv", "--language", "de"]) == 0
    printed = capsys.readouterr()
    assert "a.jsonl: fields of lm-eval-grounded: --fields 'answer=answer,passages=passages," in printed.err
    assert "stdin:1: answer: 'Der Turm ist 330 Meter hoch.'" in printed.err
    written = lines(Path("a_detected.jsonl"))
    assert [(row["line"], row["place"], row["id"]) for row in written] == [
        *((1, "a.jsonl:1", "a1"), (3, "a.jsonl:3", "a2")),
        *((4, "standard input:1", "c1"), (5, "b.csv:2", "b1")),
    ]
    record = results_of(Path("a_detected"))["configs"][TASK]["metadata"]["provenance"]
    assert [file["name"] for file in record["local_files"]] == ["a.jsonl", "stdin", "b.csv"]
    assert record["fields"]["b.csv"] == "lm-eval-grounded: answer=answer,passages=passages,id=id"
