"""The bundled sample: an excerpt of the public data that decides between two models, and `make demo`, which shows it."""

from __future__ import annotations

import csv
import hashlib
import logging
import re
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from lm_eval_tasks.cli import main
from lm_eval_tasks.data.sources import mirror_folder
from lm_eval_tasks.nomiracl import dataset
from lm_eval_tasks.results.report.folder import readable_runs, write_folder
from lm_eval_tasks.results.report.headlines import headlines
from lm_eval_tasks.runs import read_runs
from tests.conftest import ROOT
from tests.golden import golden
from tests.logged_runs import in_this_process

SAMPLE = ROOT / "lm_eval_tasks" / "sample"
ANSWERS = f"path={SAMPLE / 'answers.jsonl'}"
NOMIRACL = ["nomiracl_de", "nomiracl_sw"]
RUNS = {
    "GPT-4": (NOMIRACL, "replay", f"{ANSWERS},model=gpt-4-azure,name=GPT-4"),
    "Mistral-7B": (NOMIRACL, "replay", f"{ANSWERS},model=Mistral-7B-Instruct-v0.2,name=Mistral-7B"),
    "lexical": (["clapnq_gold"], "grounded-baseline", "strategy=lexical"),
    "SmolLM2": (["clapnq_gold"], "replay", f"{ANSWERS},model=SmolLM2-135M-Instruct,name=SmolLM2-135M"),
}
OURS = ("lm_eval_tasks", "detector_plugin", "custom_metrics")


def pinned(what: str) -> dict[str, str]:
    with (SAMPLE / "digests.tsv").open(encoding="utf-8", newline="") as table:
        return {row["path"]: row["sha256"] for row in csv.DictReader(table, delimiter="\t") if row["what"] == what}


def test_every_file_is_pinned_and_all_are_small_in_a_wheel() -> None:
    files = {path.relative_to(SAMPLE).as_posix(): path.read_bytes() for path in SAMPLE.rglob("*") if path.is_file()}
    unpinned = {"README.md", "LICENCES.md", "digests.tsv"}
    assert {name: hashlib.sha256(content).hexdigest() for name, content in files.items() if name not in unpinned} == (
        pinned("sample")
    )
    assert sum(len(zlib.compress(content)) for content in files.values()) < 1_500_000
    assert mirror_folder("sample") == SAMPLE


@pytest.mark.one_python("what the public data hold")
def test_what_it_was_made_of_is_the_mirror(hub: str) -> None:
    shared = Path(hub).parent
    read = pinned("read")
    assert {path: hashlib.sha256((shared / path).read_bytes()).hexdigest() for path in read} == read


class Demo(NamedTuple):
    folders: list[str]  # of the runs
    log: list[tuple[int, str]]  # level and text of the lines of ours


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    folder = tmp_path_factory.mktemp("demo")
    made = Demo([], [])

    class Recorder(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name.removeprefix("lm_eval.").startswith(OURS):
                made.log.append((record.levelno, record.getMessage()))

    logger, recorder = logging.getLogger("lm_eval"), Recorder(logging.INFO)
    level = logger.level
    logger.addHandler(recorder)
    logger.setLevel(logging.INFO)
    dataset._documents.cache_clear()  # of other tests in this process
    for name, (tasks, model, arguments) in RUNS.items():
        read = {"detector": "lexical"} if name == "lexical" else {}  # as `score` reads SmolLM2's answers
        in_this_process(tasks, model, arguments, folder / name, metadata={"mirror": "sample", **read})
    logger.removeHandler(recorder)
    logger.setLevel(level)
    marked = ["score", str(folder / "SmolLM2"), "--marks", str(SAMPLE / "marks.jsonl"), "-o", str(folder / "marked")]
    assert main(marked) == 0
    made.folders.extend(str(folder / name) for name in ("GPT-4", "Mistral-7B", "marked", "lexical"))
    return made


def test_each_benchmark_has_one_sentence(demo: Demo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the terminal, and at the top of the page, in the same words."""
    capsys.readouterr()
    assert main(["compare", *demo.folders, "--short"]) == 0
    text = capsys.readouterr().out
    assert text == golden("demo.txt", text)
    verdicts = text.split("\n\n")[1].splitlines()
    assert len(verdicts) == 3
    assert main(["report", *demo.folders, "-o", str(tmp_path / "report.html")]) == 0
    page = (tmp_path / "report.html").read_text("utf-8").replace("\u00a0", " ").replace("&lt;", "<")
    shown = re.findall(r'<p class="finding(?: more)?">(?:<strong>[\w-]+:</strong> )?(.*?)</p>', page)
    assert shown == verdicts
    assert page.index(verdicts[0]) < page.index('id="summary"')


def test_the_rate_by_marks_and_what_it_was_worth(demo: Demo) -> None:
    (run,) = read_runs([Path(demo.folders[2])])
    figure = run.tasks["clapnq_gold"].figure("marked_rate", "answer")
    assert (figure.n, [round(each, 3) for each in figure[:3]]) == (40, [0.593, 0.576, 0.609])
    texts = [column.cells[0].explanation for column in headlines([run]) if column.metric.name == "marked_rate"]
    assert "40 draws, which with the detector's reading are as good as 95 without it" in texts[0]


def test_a_folder_shows_the_marks_of_a_run(demo: Demo, tmp_path: Path) -> None:
    runs, _ = readable_runs([Path(folder) for folder in demo.folders[-2:]])
    write_folder(runs, tmp_path / "site")
    pages = [page.read_text("utf-8") for page in (tmp_path / "site" / "runs").glob("*.html")]
    (report,) = (page for page in pages if 'class="people"' in page)
    assert report.count('class="people"') > 40  # all answers that are marked, beside the eight of the sample
    assert "annotators differ" in report


def test_no_row_of_mushroom_is_in_the_package() -> None:
    """Its licence cannot be shown: neither an id of its answers, nor a folder of those who published it."""
    files = [path for path in SAMPLE.rglob("*") if path.is_file()]
    assert [path for path in files if {"Helsinki-NLP", "nlp-ucsc"} & {*path.parts}] == []
    unpacked = [path.read_bytes() for path in files if path.suffix not in (".gz", ".md")]
    assert len(unpacked) > 10
    assert not any(re.search(rb"(?i:(tst|val)-[a-z]{2}-\d)|SHROOM", content) for content in unpacked)


def test_a_task_has_one_line_in_the_log(demo: Demo) -> None:
    """Warnings that every run would have, of the sample or of the detector, are in READMEs."""
    named = Counter(text.partition(":")[0] for level, text in demo.log if level == logging.INFO)
    said = {name: number for name, number in named.items() if not name.startswith("detector lexical")}
    assert said == {"nomiracl_de": 1, "nomiracl_sw": 1, "clapnq_gold": 2}  # of two runs; NoMIRACL's documents are kept
    warnings = [text for level, text in demo.log if level > logging.INFO]
    assert warnings == ["clapnq_gold: this run looks broken: 9 of 60 answers are in a loop."]  # a very small model's


def test_the_readme_shows_what_the_command_prints(demo: Demo, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["compare", *demo.folders[:2], "--tasks", "nomiracl_de"]) == 0
    printed = capsys.readouterr().out
    readme = (ROOT / "lm_eval_tasks/results/README.md").read_text("utf-8")
    shown = re.search(r"```text\n(A = GPT-4\n.*?)```", readme, re.DOTALL)
    assert shown is not None
    assert printed.startswith(shown[1])


@pytest.mark.slow("six processes of the harness")
def test_make_demo_prints_one_short_table(tmp_path: Path) -> None:
    environment = Path(sys.prefix)
    made = [f"DEMO={environment}", "-o", f"{environment}/.done", f"RESULTS={tmp_path}"]
    done = subprocess.run(["make", "-s", "demo", *made], cwd=ROOT, capture_output=True, text=True, check=True)
    expected = golden("demo.txt", "")
    assert expected in done.stdout
    assert len(done.stdout.splitlines()) == len(expected.splitlines()) + 4
    assert "An AI model made the marks of SmolLM2-135M's answers" in done.stdout
    assert (tmp_path / "report.html").stat().st_size > 100_000
