"""``lm-eval-grounded mark`` as a user types it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections import Counter
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.changed_runs import change_results
from tests.conftest import command, results_of, run
from tests.logged_runs import copied
from tests.marked_runs import clapnq_row, logged_run, mfava_row

OF_RUN = ("run", "-o", "out", "--format", "label-studio")
CONTENT = re.compile(r'<script type="application/json"[^>]*>(.*?)</script>', re.S)


def mark(*arguments: object, cwd: Path, check: bool = True) -> CompletedProcess[str]:
    return run([command("lm-eval-grounded"), "mark", *map(str, arguments)], cwd, check)


def lines_of_page(page: Path) -> list[dict[str, Any]]:
    (content,) = CONTENT.findall(page.read_text("utf-8"))
    return [item["line"] for item in json.loads(content)["items"]]


def test_answers_of_a_run_for_label_studio(closed_book: Path, tmp_path: Path) -> None:
    done = mark(closed_book, "--tasks", "mfava_de", "-o", "out", "--format", "label-studio", "--seed", 7, cwd=tmp_path)
    tasks = json.loads((tmp_path / "out" / "tasks.json").read_text("utf-8"))
    ElementTree.parse(tmp_path / "out" / "interface.xml")
    ids = [task["data"]["id"] for task in tasks]
    order = tasks[0]["data"]["draw"]["order"]
    assert ids == order
    assert len(order) == len({*order}) == len(tasks[0]["data"]["draw"]["thresholds"]) == 9
    printed = done.stdout.splitlines()
    assert printed[0] == "mfava_de: 9 answers to mark (9 of 9 documents of sample/closed-book, seed 7)"
    assert printed[1].startswith("  --answers 9: 9 answers to mark, 95 % bounds about 0.00 wide")
    assert "no answer was timed yet" in printed[2]
    assert printed[-1] == f"  lm-eval-grounded score {shlex.quote(str(closed_book))} --marks EXPORT.json"


def test_answers_that_no_detector_has_read_are_the_same_draw(
    closed_book: Path, predicted: Path, tmp_path: Path
) -> None:
    for name, folder in (("tagged", closed_book), ("plain", predicted)):
        mark(folder, "--tasks", "mfava_de,mfava_zh", "-o", name, cwd=tmp_path)
    for name in ("marking_mfava_de.html", "marking_mfava_zh.html"):
        assert (tmp_path / "tagged" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()


def test_the_page(closed_book: Path, tmp_path: Path) -> None:
    done = mark(closed_book, "--tasks", "mfava_de,mfava_zh", "-o", "out", "--suggest", "--categories", cwd=tmp_path)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "marking_mfava_de.html",
        "marking_mfava_zh.html",
    ]
    assert done.stdout.splitlines()[-1] == (
        f"  lm-eval-grounded score {shlex.quote(str(closed_book))} --marks marks_mfava_de_*.jsonl marks_mfava_zh_*.jsonl"
    )


def test_ratings_of_clapnq_go_on_to_a_judge(two_models: Path, tmp_path: Path) -> None:
    runs = [two_models / "baseline-answer", two_models / "baseline-lexical"]
    done = mark(*runs, "--tasks", "clapnq_rag", "--answers", 10, "-o", "out", "--kind", "ratings", cwd=tmp_path)
    lines = lines_of_page(tmp_path / "out" / "marking.html")
    assert {line["model"] for line in lines} == {f"lm-eval-grounded/{run.name}" for run in runs}
    assert {*Counter(line["id"] for line in lines).values()} == {2}
    assert "clapnq_rag: 20 answers to rate (10 of 18 documents of" in done.stdout
    assert "bounds" not in done.stdout
    judge = "  lm_eval --tasks clapnq_judge --model ... --metadata {} --log_samples --output_path JUDGED/{}"
    options = [shlex.quote(json.dumps({"samples": str(run)})) for run in runs]
    assert done.stdout.splitlines()[-3:] == [
        *(judge.format(option, place) for place, option in enumerate(options, 1)),
        "  lm-eval-grounded score JUDGED --marks ratings_clapnq_rag_*.jsonl",
    ]


def test_preferences_of_clapnq_go_on_to_a_judge(tmp_path: Path) -> None:
    for name in "ab":
        logged_run(tmp_path / name, [clapnq_row(number, f"{name} {number}") for number in range(20)], "clapnq_gold")
    options = ("--tasks", "clapnq_gold", "--answers", 10, "-o", "out", "--kind", "preferences")
    done = mark("a", "b", *options, cwd=tmp_path)
    (line, *_) = lines_of_page(tmp_path / "out" / "marking.html")
    assert len(line["models"]) == len(line["answers"]) == 2
    assert line["reference"].startswith("Title")
    assert "clapnq_gold: 10 pairs to compare (" in done.stdout
    assert [line.strip() for line in done.stdout.splitlines()[-2:]] == [
        'lm_eval --tasks clapnq_judge_pairs --model ... --metadata \'{"samples": ["a", "b"]}\' --log_samples '
        "--output_path JUDGED/1",
        "lm-eval-grounded score JUDGED --marks preferences_clapnq_gold_*.jsonl",
    ]


def test_how_long_it_takes(tmp_path: Path) -> None:
    logged_run(tmp_path / "run", [mfava_row(n, "a b c") for n in range(1_000)])
    marks = [{"kind": "spans", "seconds": seconds} for seconds in (30, 90.0, None, True, 0)]
    marks.append({"kind": "ratings", "seconds": 7})
    (tmp_path / "marks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in marks))
    annotation = {"result": [], "lead_time": 120, "completed_by": 1}
    export = [{"id": 1, "data": {"kind": "spans", "answer": "x"}, "annotations": [annotation]}]
    (tmp_path / "export.json").write_text(json.dumps(export))
    done = mark(*OF_RUN, "--tasks", "mfava_de", "--marks", "marks.jsonl", "export.json", cwd=tmp_path)
    lines = [line.split() for line in done.stdout.splitlines() if line.endswith(" minutes")]
    assert [(line[1], int(line[2]), int(line[-2])) for line in lines] == [
        (f"{number}:", number, round(number * 80 / 60)) for number in (25, 50, 100, 200)
    ]
    assert "timed" not in done.stdout
    (tmp_path / "marks.jsonl").write_text('{"kind": "spans"\n')
    done = mark(*OF_RUN, "--tasks", "mfava_de", "--marks", "marks.jsonl", cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "marks.jsonl, line 1: no JSON" in done.stderr


PAGE = ("--format", "page")
CLAPNQ = [clapnq_row(number, f"answer {number}") for number in range(6)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tasks", "mfava_zh"], "run: the run of run has no mfava_zh; it has clapnq_gold, mfava_de, nomiracl_de"),
        (["--tasks", "nomiracl_de"], "nomiracl_de: people mark answers of mfava_<language>"),
        (["--tasks", "mfava_de", "--answers", "4"], "draw 5 or more"),
        (["--tasks", "mfava_de", "--seed", "-1"], "seed -1: give 0 or more"),
        (
            ["--tasks", "mfava_de", "--kind", "ratings", *PAGE],
            "--kind ratings is of clapnq_gold* and clapnq_rag*, not of mfava_de",
        ),
        (
            ["--tasks", "clapnq_gold", "--kind", "preferences", *PAGE],
            "--kind preferences compares two runs; here are 1",
        ),
        (
            ["--tasks", "clapnq_gold", "--kind", "ratings"],
            "--format label-studio go with --kind spans, not with ratings",
        ),
        (["--tasks", "mfava_de", "--suggest"], "--suggest goes with --format page"),
        (["--tasks", "mfava_de", "--serve"], "--serve goes with --format page"),
        (["--tasks", "clapnq_gold", "--suggest", *PAGE], "clapnq_gold: no detector has read all answers"),
        (["--tasks", "mfava_de", "--instructions", "latin.md"], "latin.md: no UTF-8 text"),
        (["--tasks", "mfava_de", "--instructions", "nowhere.md"], "nowhere.md"),
        (["--tasks", ","], "name a task"),
    ],
)
def test_refused_in_one_line(tmp_path: Path, options: list[str], message: str) -> None:
    logged_run(tmp_path / "run", CLAPNQ, "clapnq_gold")
    logged_run(tmp_path / "run", [mfava_row(n, "a b c") for n in range(6)], "mfava_de")
    logged_run(tmp_path / "run", [mfava_row(n, "a b c") for n in range(6)], "nomiracl_de")
    (tmp_path / "latin.md").write_bytes("für".encode("latin-1"))
    done = mark(*OF_RUN, *options, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists() or not [*(tmp_path / "out").iterdir()]


def test_nothing_is_written_where_the_last_of_several_tasks_fails(tmp_path: Path) -> None:
    logged_run(tmp_path / "run", [mfava_row(n, "a b c") for n in range(6)])
    done = mark(*OF_RUN, "--tasks", "mfava_de,mfava_tr", cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert not (tmp_path / "out").exists()
    shutil.copytree(tmp_path / "run", tmp_path / "twin")
    done = mark("twin", *OF_RUN, "--tasks", "mfava_de", cwd=tmp_path, check=False)
    assert "twin and run gave the same answers; name a run once" in done.stderr


def test_from_a_run_to_its_rate_by_label_studio(predicted: Path, tmp_path: Path) -> None:
    """Two people mark the tasks of a group, whose answers no detector had read: one marks the first word of each answer,
    one cannot tell."""
    folder = copied(predicted, tmp_path / "run")
    change_results(
        folder, lambda results: results.setdefault("group_subtasks", {}).update(both=["mfava_de", "mfava_zh"])
    )
    mark(*OF_RUN, "--tasks", "both", "--answers", 10, cwd=tmp_path)
    tasks = json.loads((tmp_path / "out" / "tasks_mfava_de.json").read_text("utf-8"))
    for number, task in enumerate(tasks):
        word = task["data"]["answer"].split()[0]
        value = {"start": 0, "end": len(word), "text": word, "labels": ["hallucination"]}
        marked = {"from_name": "spans", "to_name": "answer", "type": "labels", "value": value}
        cannot_tell = {"choices": ["cannot tell"]}
        unknown = {"from_name": "verdict", "to_name": "answer", "type": "choices", "value": cannot_tell}
        task["id"] = number
        task["annotations"] = [{"completed_by": who, "result": [said]} for who, said in ((1, marked), (2, unknown))]
    (tmp_path / "export.json").write_text(json.dumps(tasks), "utf-8")
    scored = [command("lm-eval-grounded"), "score", str(predicted), "--marks", "export.json", "-o", "scored"]
    done = run(scored, tmp_path)
    (rate,) = (line.split("|") for line in done.stdout.splitlines() if "marked_rate" in line)
    assert 0 < float(rate[7]) < 0.2
    assert "are made up, by people's marks of" in done.stderr
    assert "9 draws" in done.stderr
    assert results_of(tmp_path / "scored")["results"]["mfava_de"]["marked_rate,answer"] > 0
