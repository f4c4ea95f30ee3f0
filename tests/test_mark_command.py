"""``lm-eval-grounded mark`` as a user types it."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from subprocess import CompletedProcess
from xml.etree import ElementTree

import pytest

from tests.changed_runs import change_results
from tests.conftest import command, results_of, run
from tests.logged_runs import copied
from tests.marked_runs import clapnq_row, logged_run, mfava_row

OF_RUN = ("run", "-o", "out", "--format", "label-studio")


def mark(*arguments: object, cwd: Path, check: bool = True) -> CompletedProcess[str]:
    return run([command("lm-eval-grounded"), "mark", *map(str, arguments)], cwd, check)


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
    assert printed[-1] == f"  lm-eval-grounded score {shlex.quote(str(closed_book))} --marks EXPORT.json"


def test_answers_that_no_detector_read_are_the_same_draw(closed_book: Path, predicted: Path, tmp_path: Path) -> None:
    for name, folder in (("tagged", closed_book), ("plain", predicted)):
        mark(folder, "--tasks", "mfava_de,mfava_zh", "-o", name, cwd=tmp_path)
    for name in ("marking_mfava_de.html", "marking_mfava_zh.html"):
        assert (tmp_path / "tagged" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()


def test_the_page(closed_book: Path, tmp_path: Path) -> None:
    done = mark(closed_book, "--tasks", "mfava_de,mfava_zh", "-o", "out", "--suggest", "--categories", cwd=tmp_path)
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["marking_mfava_de.html", "marking_mfava_zh.html"]
    assert done.stdout.splitlines()[-1] == (
        f"  lm-eval-grounded score {shlex.quote(str(closed_book))} --marks marks_mfava_de_*.jsonl marks_mfava_zh_*.jsonl"
    )


PAGE = ("--format", "page")
CLAPNQ = [clapnq_row(number, f"answer {number}") for number in range(6)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tasks", "mfava_zh"], "run: the run of run has no mfava_zh; it has clapnq_gold, mfava_de, nomiracl_de"),
        (["--tasks", "nomiracl_de"], "nomiracl_de: people mark answers of mfava_<language>"),
        (["--tasks", "mfava_de", "--answers", "4"], "draw 5 or more"),
        (["--tasks", "mfava_de", "--seed", "-1"], "seed -1: give 0 or more"),
        (["--tasks", "clapnq_gold", "--kind", "labels"], "--format label-studio go with --kind spans, not with labels"),
        (["--tasks", "mfava_de", "--suggest"], "--suggest goes with --format page"),
        (["--serve"], "`mark --serve` is gone: the page is a file; send it to the person who marks"),
        (["--tasks", "clapnq_gold", "--suggest", *PAGE], "clapnq_gold: no detector has read all answers"),
        (["--tasks", "mfava_de", "--instructions", "latin.md"], "latin.md: no UTF-8 text"),
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
    change_results(folder, lambda r: r.setdefault("group_subtasks", {}).update(both=["mfava_de", "mfava_zh"]))
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
    assert "mfava_de: marked_rate counts, the other rates are the detector's: " in done.stderr
    assert "are made up, by annotators' marks of" in done.stderr
    assert "9 draws" in done.stderr
    assert results_of(tmp_path / "scored")["results"]["mfava_de"]["marked_rate,answer"] > 0
