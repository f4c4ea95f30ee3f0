"""Two steps and their tools: score what was logged, go on after a kill, calibrate, show one answer."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.spans import Span
from custom_metrics.tagged_text import parse, render
from detector_plugin.calibration import CalibrationError, load
from detector_plugin.display import as_ansi, as_html, printable
from detector_plugin.span_store import StoredDetector
from lm_eval_tasks.cli import main
from lm_eval_tasks.commands.work.calibrating import calibration_from_runs
from lm_eval_tasks.commands.work.scoring import score
from lm_eval_tasks.samples import read_samples, samples_files
from lm_eval_tasks.sources import CorruptSource, MissingSource
from tests.conftest import command, results_of, run

TASKS = "mfava_de,mfava_zh"


def generate(folder: Path, *options: str, tasks: str = TASKS, model: str = "grounded-baseline") -> Path:
    """One `lm_eval` run over the sample; the folder its files are in."""
    model_args = "strategy=lexical" if model == "grounded-baseline" else "detector=lexical"
    run(
        [
            *(command("lm_eval"), "--tasks", tasks, "--model", model, "--model_args", model_args),
            *("--metadata", "mirror=sample", "--log_samples", "--output_path", str(folder), *options),
        ],
        folder.parent,
    )
    (results,) = folder.rglob("results_*.json")
    return results.parent


@pytest.fixture(scope="module")
def one_step(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory.mktemp("one") / "out")


@pytest.fixture(scope="module")
def predicted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory.mktemp("two") / "out", "--predict_only")


def copied(folder: Path, to: Path) -> Path:
    to.mkdir()
    for path in folder.iterdir():
        (to / path.name).write_bytes(path.read_bytes())
    return to


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.slow
@pytest.mark.xdist_group("scoring")
def test_two_steps_give_the_numbers_of_one(one_step: Path, predicted: Path, tmp_path: Path) -> None:
    before = results_of(predicted)
    assert before["results"]["mfava_de"]["bypass,answer"] == 999
    assert "hallucination" not in before["configs"]["mfava_de"]["metadata"]  # no detector ran
    folder = copied(predicted, tmp_path / "scored")
    (written,) = score(folder, output=tmp_path / "out")
    assert [path.name.split("_2")[0] for path in sorted((tmp_path / "out").iterdir())] == [
        *("results", "samples_mfava_de", "samples_mfava_zh")
    ]
    scored, whole = json.loads(written.read_text("utf-8")), results_of(one_step)
    assert scored["results"].keys() == whole["results"].keys()
    for task in whole["results"]:
        assert scored["results"][task] == whole["results"][task]
    assert scored["config"]["model"] == "grounded-baseline"
    assert scored["config"]["model_args"] == whole["config"]["model_args"]
    assert scored["model_source"] == whole["model_source"]
    assert scored["config"]["scored_from"]["mfava_de"].startswith("samples_mfava_de_")
    assert scored["n-samples"] == whole["n-samples"]
    assert json.loads(lines(next((tmp_path / "out").glob("samples_mfava_zh_*")))[0]["filtered_resps"][0])["answer"]
    assert scored["configs"]["mfava_de"]["metadata"]["provenance"]["detector"]["name"] == "lexical"
    for task in ("mfava_de", "mfava_zh"):
        (mine,), (theirs,) = ((lines(p) for p in f.glob(f"samples_{task}_*")) for f in (tmp_path / "out", one_step))
        for a, b in zip(mine, theirs, strict=True):
            assert a["filtered_resps"] == b["filtered_resps"]
            assert (a["arguments"]["gen_args_0"]["arg_0"], a["resps"]) == (
                b["arguments"]["gen_args_0"]["arg_0"],
                b["resps"],
            )
            assert (a["doc_id"], a["prompt_hash"], a["estimated_rate"]) == (
                b["doc_id"],
                b["prompt_hash"],
                b["estimated_rate"],
            )
    (again,) = score(tmp_path / "out")  # scored samples can be scored again, in place
    third = json.loads(again.read_text("utf-8"))["results"]
    assert {task: third[task] for task in third} == {task: scored["results"][task] for task in third}
    assert again.parent == tmp_path / "out"


@pytest.mark.slow
@pytest.mark.xdist_group("scoring")
def test_a_killed_score_goes_on_where_it_was(predicted: Path, tmp_path: Path) -> None:
    """Killed hard while the detector works; the second run asks the detector for what is missing only."""
    folder = copied(predicted, tmp_path / "run")
    slow = (
        "import sys, time\n"
        "import detector_plugin.filters as filters, detector_plugin.span_store as store\n"
        "from detector_plugin.lexical import LexicalDetector\n"
        "store.CHUNK = 2\n"
        "class Slow(LexicalDetector):\n"
        "    def detect(self, r, a, l, q=None):\n"
        "        print('asked', len(a), flush=True)\n"
        "        time.sleep(float(sys.argv[2]))\n"
        "        return super().detect(r, a, l, q)\n"
        "filters.load_detector = lambda name, **options: Slow(**options)\n"
        "from pathlib import Path\n"
        "from lm_eval_tasks.commands.work.scoring import score\n"
        "print(score(Path(sys.argv[1])))\n"
    )
    first = subprocess.Popen([sys.executable, "-c", slow, str(folder), "0.5"], stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    for _ in range(3):
        while not first.stdout.readline().startswith("asked"):
            pass
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    (store,) = folder.glob(".spans_*")
    kept = len(lines(store))
    assert 4 <= kept < 9
    with store.open("a", encoding="utf-8") as stream:
        stream.write('{"key": "abc", "spa')  # what a kill can leave
    second = run([sys.executable, "-c", slow, str(folder), "0"], tmp_path)
    asked = sum(int(line.split()[1]) for line in second.stdout.splitlines() if line.startswith("asked"))
    assert asked == 18 - kept
    assert not list(folder.glob(".spans_*"))
    assert len(list(folder.glob("results_*.json"))) == 2


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


# -------------------------------------------------------------------------------------------------------- samples files


def sample(number: int, **more: Any) -> dict[str, Any]:
    doc = {
        "id": f"de_{number}_1",
        "language": "de",
        "article": number,
        "subset": 0,
        "query": "q",
        "reference": "Ein Text.",
    }
    return {"doc_id": number, "doc": {**doc, "title": "t"}, "resps": [["Ein Text."]], "filter": "answer", **more}


def write_samples(folder: Path, content: str, task: str = "mfava_de", date: str = "2026-01-01T00-00-00.0") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"samples_{task}_{date}.jsonl"
    path.write_text(content, "utf-8")
    return path


def test_a_file_that_was_cut_is_read_up_to_there_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = "\n".join(json.dumps(sample(number)) for number in range(4))
    path = write_samples(tmp_path, whole[:-40])
    with caplog.at_level(logging.WARNING):
        assert [row["doc_id"] for row in read_samples(path)] == [0, 1, 2]
    assert "is cut in line 4: the 3 samples before it are used, the rest is lost" in caplog.text


@pytest.mark.slow
def test_a_cut_file_is_scored_and_its_number_of_documents_is_in_the_results(tmp_path: Path) -> None:
    whole = "\n".join(json.dumps(sample(number)) for number in range(4))
    write_samples(tmp_path / "s", whole[:-40])
    (written,) = score(tmp_path / "s", output=tmp_path / "out")
    assert json.loads(written.read_text("utf-8"))["n-samples"]["mfava_de"] == {"original": 3, "effective": 3}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps(sample(0, resps=[])) + "\n" + json.dumps(sample(1)), "line 1: no sample .*IndexError"),
        (json.dumps(sample(0, doc=None)) + "\n" + json.dumps(sample(1)), "line 1: no sample .*TypeError"),
        (json.dumps(sample(0, doc_id="x")) + "\n" + json.dumps(sample(1)), "line 1: no sample .*ValueError"),
        (json.dumps(sample(0, doc={"id": "1"})), "a document has no language, article, subset"),
        ("{}\n" + json.dumps(sample(1)), "line 1: no sample .*KeyError"),
        ("nonsense\n" + json.dumps(sample(1)), "line 1: no sample"),
        ("\x80", "no UTF-8"),
        ("", "no sample can be read"),
        ("{", "no sample can be read"),
    ],
)
def test_damaged_samples(tmp_path: Path, content: str, message: str) -> None:
    path = write_samples(tmp_path, content if content != "\x80" else "")
    if content == "\x80":
        path.write_bytes(b"\x80\n")
    with pytest.raises(CorruptSource, match=message):
        score(path)


def test_what_is_no_estimation_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingSource, match="no samples file"):
        score(tmp_path)
    write_samples(tmp_path, json.dumps(sample(0)), task="nomiracl_de")
    with pytest.raises(MissingSource, match="samples of nomiracl_de, none of mfava_<language>"):
        score(tmp_path)


def test_answers_that_differ_and_half_characters_are_survived(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [sample(0), sample(0, resps=[["another"]]), sample(1, resps=[["half \ud800 a pair"]])]
    path = write_samples(tmp_path, "\n".join(map(json.dumps, rows)))
    with caplog.at_level(logging.WARNING):
        first, second = read_samples(path)
    assert first["resps"] == [["Ein Text."]]
    assert second["resps"] == [["half \ufffd a pair"]]
    assert "1 further answers to the same documents; the first of each counts" in caplog.text


@pytest.mark.slow
@pytest.mark.xdist_group("scoring")
def test_a_group_is_scored_as_a_group(tmp_path: Path) -> None:
    folder = generate(tmp_path / "out", "--predict_only", "--limit", "2", tasks="mfava")
    (written,) = score(folder)
    results = json.loads(written.read_text("utf-8"))
    assert len(results["results"]) == 31
    group = results["groups"]["mfava"]
    values = [r["estimated_rate,answer"] for task, r in results["results"].items() if task != "mfava"]
    assert len(values) == 30
    assert group["estimated_rate,answer"] == pytest.approx(sum(values) / 30)
    assert group["estimated_rate_stderr,answer"] > 0
    assert results["n-samples"]["mfava_de"] == {"original": 9, "effective": 2}


@pytest.mark.slow
@pytest.mark.xdist_group("scoring")
def test_each_models_answers_stay_with_it(predicted: Path, tmp_path: Path) -> None:
    """The harness's layout: a folder a model."""
    (tmp_path / "all").mkdir()
    for name in ("a", "b"):
        folder = copied(predicted, tmp_path / "all" / name)
        (results,) = folder.glob("results_*.json")
        content = json.loads(results.read_text("utf-8"))
        results.write_text(json.dumps({**content, "model_name": name}), "utf-8")
    for path in (tmp_path / "all" / "b").glob("samples_mfava_zh_*"):
        path.unlink()
    first, second = score(tmp_path / "all", output=tmp_path / "out")
    assert (first.parent.name, second.parent.name) == ("a", "b")
    tasks = [json.loads(path.read_text("utf-8")) for path in (first, second)]
    assert [task["model_name"] for task in tasks] == ["a", "b"]
    assert [sorted(task["results"]) for task in tasks] == [["mfava_de", "mfava_zh"], ["mfava_de"]]


def test_what_could_not_be_written_whole_is_not_left_behind(tmp_path: Path) -> None:
    from lm_eval_tasks.commands.work.scoring import _move

    partial, folder = tmp_path / "partial", tmp_path / "folder"
    for made in (partial, folder):
        made.mkdir()
    (partial / "samples_mfava_de_D.jsonl").write_text("{}\n{}\n{", "utf-8")
    with pytest.raises(OSError, match=r"samples_mfava_de_D.jsonl could not be written .*run the same command again"):
        _move(partial, folder, "results_D.json", {"mfava_de": 3})
    (partial / "samples_mfava_de_D.jsonl").write_text("{}\n{}\n{}\n", "utf-8")
    with pytest.raises(OSError, match=r"results_D.json could not be written"):
        _move(partial, folder, "results_D.json", {"mfava_de": 3})
    assert not list(folder.iterdir())
    (partial / "results_D.json").write_text("{}", "utf-8")
    assert _move(partial, folder, "results_D.json", {"mfava_de": 3}) == folder / "results_D.json"
    assert len(list(folder.iterdir())) == 2


def test_the_newest_samples_of_a_task_count(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_samples(tmp_path, "", date="2026-01-01T00-00-00.0")
    newest = write_samples(tmp_path, "", date="2026-02-01T00-00-00.0")
    (tmp_path / "other.jsonl").write_text("", "utf-8")
    with caplog.at_level(logging.INFO):
        assert samples_files(tmp_path) == {tmp_path: {"mfava_de": newest}}
    assert "of each task in a folder the newest samples count; passed over: " in caplog.text


# ---------------------------------------------------------------------------------------------------------- calibration


@pytest.fixture(scope="module")
def detected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(
        tmp_path_factory.mktemp("detected") / "out",
        tasks="mfava_detection_de_gold,mfava_detection_fi_silver,mfava_detection_de_gold_category",
        model="hallucination-detector",
    )


@pytest.mark.slow
@pytest.mark.xdist_group("scoring")
def test_a_calibration_is_made_of_detection_runs(
    detected: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "c.json"
    assert main(["calibrate", str(detected), "-o", str(out), "--note", "sample"]) == 0
    calibration = load(str(out))
    results = results_of(detected)["results"]
    assert calibration.detector["name"] == "lexical"
    assert {code: list(kinds) for code, kinds in calibration.languages.items()} == {"de": ["gold"], "fi": ["silver"]}
    for code, kind in (("de", "gold"), ("fi", "silver")):
        entry, result = calibration.languages[code][kind], results[f"mfava_detection_{code}_{kind}"]
        assert entry.precision == pytest.approx(result["precision,tags"])
        assert entry.recall == pytest.approx(result["recall,tags"])
        assert entry.documents is not None
        assert entry.documents.shape == (3, 4)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["language", "docs", "precision", "recall", "f1", "FPR", "prevalence"]
    assert printed[1].split()[:3] == ["de", "gold", "3"]
    content = json.loads(out.read_text("utf-8"))["languages"]["de"]["gold"]
    assert set(content) == {"source", "precision", "recall", "false_positive_rate", "prevalence", "documents"}


@pytest.mark.slow
@pytest.mark.xdist_group("scoring")
def test_runs_that_make_no_calibration(detected: Path, predicted: Path, tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match=r"no samples of mushroom_<language>, mfava_detection_<language>_gold"):
        calibration_from_runs([predicted])
    other = copied(detected, tmp_path / "other")
    (results,) = other.glob("results_*.json")
    changed = json.loads(results.read_text("utf-8"))
    changed["config"]["detector"]["version"] = "another"
    results.write_text(json.dumps(changed), "utf-8")
    with pytest.raises(CalibrationError, match="these runs are of several detectors"):
        calibration_from_runs([detected, other])
    results.unlink()
    with pytest.raises(CalibrationError, match="the results file that was written with"):
        calibration_from_runs([other])
    for path in other.glob("samples_*"):
        path.write_text("", "utf-8")
    (other / results.name).write_text(json.dumps(changed), "utf-8")
    with pytest.raises(CalibrationError, match="no sample can be read"):
        calibration_from_runs([other])


@pytest.mark.slow
@pytest.mark.xdist_group("scoring")
def test_a_calibration_on_what_was_learned_is_said_to_be_too_good(
    detected: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        calibration = calibration_from_runs([detected])
    assert "were trained on these documents, so this calibration is too good" in caplog.text
    assert "3 documents only; a calibration of so few says little" in caplog.text
    assert "held-out" not in calibration.detector["version"]


# -------------------------------------------------------------------------------------------------------------- display

HOSTILE = 'Mars <script>alert("x")</script> & \x1b[2J\x9b1m {{ 7 * 7 }} "ende"'


def test_html_quotes_everything() -> None:
    page = as_html(HOSTILE, [Span(0, 4, "entity"), Span(5, 13, "<b>")], 'de"><x', "T <i>", "C & D")
    assert "<script>" not in page
    assert "<b>" not in page
    assert "<x" not in page
    assert '<mark title="entity" style="background:#ffd6d6">Mars</mark>' in page
    assert "&lt;/script&gt;" in page
    assert "<title>T &lt;i&gt;</title>" in page
    assert "{{ 7 * 7 }}" in page


def test_joiners_and_scripts_are_left_alone() -> None:
    text = "می‌روم 👩‍🔬 हिन्दी عربي 中文\u3000字\tx\n"
    assert printable(text) == text
    assert printable("a\u202eb\x07\r") == "a\ufffdb\ufffd\ufffd"  # turned text, a bell, a carriage return


def test_ansi_lets_no_control_through() -> None:
    shown = as_ansi(HOSTILE, [Span(0, 4, "entity")])
    assert shown.startswith("\x1b[4;31mMars\x1b[0m <script>")
    assert shown.count("\x1b") == 4  # ours: around the span and in the legend
    assert "\x9b" not in shown
    assert as_ansi("x", []) == "x"


def test_detect_shows_one_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reference.txt").write_text("Die Katze schläft auf dem roten Sofa im Wohnzimmer.", "utf-8")
    (tmp_path / "answer.txt").write_text("Die Katze schläft auf dem Mond bei 1969 Außerirdischen.", "utf-8")
    arguments = ["detect", "--reference", str(tmp_path / "reference.txt"), "--language", "de"]
    arguments += ["--answer", str(tmp_path / "answer.txt"), "--detector_args", "threshold=0.42"]
    assert main(arguments) == 0
    text, spans = parse(capsys.readouterr().out.rstrip("\n"))
    assert text == (tmp_path / "answer.txt").read_text("utf-8")
    assert any(span.start <= text.index("1969") < span.end for span in spans)
    assert render(text, spans) != text
    assert main([*arguments, "--color", "always"]) == 0
    assert "\x1b[4;31m" in capsys.readouterr().out
    assert main([*arguments, "--html"]) == 0
    assert '<mark title="hallucination"' in capsys.readouterr().out
    assert main([*arguments, "--html", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").read_text("utf-8").startswith("<!doctype html>")
    import io

    monkeypatch.setattr(sys, "stdin", io.StringIO("Die Katze."))
    assert main([*arguments[:5], "--answer", "-"]) == 0
    assert parse(capsys.readouterr().out.strip())[0] == "Die Katze."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["score", "nowhere"], "nowhere: no samples file"),
        (["detect", "--reference", "nowhere", "--answer", "-"], "nowhere"),
        (["calibrate", "nowhere", "-o", "x"], "nowhere: no samples file"),
        (["detect", "--reference", "binary", "--answer", "-"], "binary is no UTF-8 text"),
        (["train", "--mirror", "nowhere"], "The mirror folder .*nowhere"),
    ],
)
def test_errors_on_the_command_line_are_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import re

    monkeypatch.chdir(tmp_path)
    Path("binary").write_bytes(b"\xff\xfe\x00")
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert re.search(message, said)
    assert "Traceback" not in said
