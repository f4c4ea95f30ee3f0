"""The bundled sample: an excerpt of the public data that decides between two models, and `make demo`, which shows it."""

from __future__ import annotations

import csv
import hashlib
import json
import logging
import re
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from custom_metrics.hallucination import flagged_words
from custom_metrics.reading.spans import HALLUCINATION, Span
from lm_eval_tasks.cli import main
from lm_eval_tasks.data.sources import mirror_folder
from lm_eval_tasks.results.report.folder import readable_runs, write_folder
from lm_eval_tasks.results.report.headlines import headlines
from lm_eval_tasks.runs import read_runs
from tests.conftest import ROOT
from tests.golden import golden
from tests.logged_runs import in_this_process

SAMPLE = ROOT / "lm_eval_tasks" / "sample"
ANSWERS = f"path={SAMPLE / 'answers.jsonl'}"
RUNS = {
    "GPT-4": (["nomiracl_de", "nomiracl_sw"], "replay", f"{ANSWERS},model=gpt-4-azure,name=GPT-4"),
    "Mistral-7B": (
        ["nomiracl_de", "nomiracl_sw"],
        "replay",
        f"{ANSWERS},model=Mistral-7B-Instruct-v0.2,name=Mistral-7B",
    ),
    "lexical": (["clapnq_gold"], "grounded-baseline", "strategy=lexical"),
    "quotes": (["mfava_de"], "grounded-baseline", "strategy=lexical"),  # of the reference, which no page compares
    "SmolLM2": (["clapnq_gold"], "replay", f"{ANSWERS},model=SmolLM2-135M-Instruct,name=SmolLM2-135M"),
    "Mu-SHROOM": (["mfava_de"], "replay", f"{ANSWERS},model=Mu-SHROOM-models"),
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
    quotes: str  # the run of a baseline that copies its reference


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    folder = tmp_path_factory.mktemp("demo")
    made = Demo([], [], str(folder / "quotes"))

    class Recorder(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name.removeprefix("lm_eval.").startswith(OURS):
                made.log.append((record.levelno, record.getMessage()))

    logger, recorder = logging.getLogger("lm_eval"), Recorder(logging.INFO)
    level = logger.level
    logger.addHandler(recorder)
    logger.setLevel(logging.INFO)
    for name, (tasks, model, arguments) in RUNS.items():
        in_this_process(tasks, model, arguments, folder / name, metadata={"mirror": "sample"})
    logger.removeHandler(recorder)
    logger.setLevel(level)
    marked = ["score", str(folder / "Mu-SHROOM"), "--marks", str(SAMPLE / "marks.jsonl"), "-o", str(folder / "marked")]
    assert main(marked) == 0
    made.folders.extend(str(folder / name) for name in ("GPT-4", "Mistral-7B", "SmolLM2", "lexical", "marked"))
    return made


def test_each_benchmark_is_decided_in_one_sentence(
    demo: Demo, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    assert shown == verdicts  # none on mFAVA, which only one run has
    assert page.index(verdicts[0]) < page.index('id="summary"')


def test_one_card_shows_the_rate_by_marks_and_what_it_was_worth(demo: Demo) -> None:
    """And the bounds hold what people marked in all sixty answers."""
    (run,) = read_runs([Path(demo.folders[-1])])
    figure = run.tasks["mfava_de"].figure("marked_rate", "answer")
    rows = [json.loads(row) for path in SAMPLE.rglob("mushroom.de-*.jsonl") for row in path.open(encoding="utf-8")]
    counts = [
        flagged_words(
            row["model_output_text"], [Span(*at, HALLUCINATION) for at in json.loads(str(row["hard_labels"]))], "de"
        )
        for row in rows
    ]
    rate = sum(marked for marked, _ in counts) / sum(number for _, number in counts)
    assert (len(rows), figure.n) == (60, 40)
    assert figure.low < rate < figure.high
    assert figure.high - figure.low < 0.06
    texts = [column.cells[0].explanation for column in headlines([run]) if column.metric.name == "marked_rate"]
    assert "40 draws, which with the detector's reading are as good as 41 without it" in texts[0]


def test_a_folder_shows_the_marks_of_a_run(demo: Demo, tmp_path: Path) -> None:
    runs, _ = readable_runs([Path(folder) for folder in demo.folders[-3:]])
    write_folder(runs, tmp_path / "site")
    pages = [page.read_text("utf-8") for page in (tmp_path / "site" / "runs").glob("*.html")]
    (report,) = (page for page in pages if 'class="people"' in page)
    assert report.count('class="people"') > 40  # all answers that people marked, beside the eight of the sample
    assert "people differ" in report


def test_what_only_marks_could_measure_is_no_number(demo: Demo) -> None:
    """The words of quotes are flagged too seldom to correct: the log says so, and the results have no corrected rate."""
    (run,) = read_runs([Path(demo.quotes)])
    names = {key.partition(",")[0] for key in run.tasks["mfava_de"].results}
    assert "detected_rate" in names
    for rate in ("estimated_rate", "rogan_gladen_rate"):
        assert not names & {rate, f"{rate}_stderr"}
        recorded = run.tasks["mfava_de"].figures["answer"][rate]
        assert (recorded["value"], recorded["not_measurable"]) == (None, 0)
    reason = "mfava_de: how many of the words are hallucinated is not measurable, 95 % bounds 0.0 to 100.0; "
    assert any(text.startswith(reason) for level, text in demo.log if level == logging.WARNING)


def test_a_task_has_one_line_in_the_log(demo: Demo) -> None:
    """Warnings that every run would have, of the sample or of the detector, are in READMEs."""
    said = Counter(text.partition(":")[0] for level, text in demo.log if level == logging.INFO)
    assert {name: number for name, number in said.items() if not name.startswith("detector lexical")} == {
        **{"nomiracl_de": 2, "nomiracl_sw": 2, "clapnq_gold": 2},  # of two runs each
        "mfava_de": 1,  # of two, one of which has a warning in its place
    }
    warnings = [text for level, text in demo.log if level > logging.INFO]
    assert {text.partition(":")[0] for text in warnings} == {"clapnq_gold", "mfava_de"}
    looping = "clapnq_gold: this run looks broken: 9 of 60 answers are in a loop."
    assert [text for text in warnings if text.startswith("clapnq_gold")] == [looping]  # a very small model's


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
    assert len(done.stdout.splitlines()) == len(expected.splitlines()) + 3
    assert (tmp_path / "report.html").stat().st_size > 100_000
