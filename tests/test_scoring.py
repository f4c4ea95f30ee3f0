"""Two steps: answers that were logged are scored later, with the figures of one step; after a kill it goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lm_eval_tasks.data.sources import CorruptSource, MissingSource
from lm_eval_tasks.results.score import score
from tests.conftest import run
from tests.logged_runs import copied, generate, lines, only_predicted, sample, write_samples
from tests.report_runs import changed
from tests.shared_once import SharedOnce


@pytest.fixture(scope="module")
def predicted(shared_once: SharedOnce) -> Path:
    return only_predicted(shared_once)


@pytest.mark.slow("processes are started, one of them killed while its detector works")
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
        "from lm_eval_tasks.results.score import score\n"
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


@pytest.mark.slow("thirty languages are run and scored")
def test_a_group_is_scored_as_a_group(tmp_path: Path) -> None:
    folder = generate(tmp_path / "out", "--predict_only", "--limit", "2", tasks="mfava")
    # What the baseline quotes is right: words that stand in no article.
    changed(folder, lambda path, number, row: {**row, "resps": [[f"{row['resps'][0][0]} Zobelin 8675309"]]})
    (written,) = score(folder)
    results = json.loads(written.read_text("utf-8"))
    assert len(results["results"]) == 31
    group = results["groups"]["mfava"]
    values = [r["estimated_rate,answer"] for task, r in results["results"].items() if task != "mfava"]
    assert len(values) == 30
    assert min(values) > 0
    assert group["estimated_rate,answer"] == pytest.approx(sum(values) / 30)
    assert group["estimated_rate_stderr,answer"] > 0
    assert results["n-samples"]["mfava_de"] == {"original": 9, "effective": 2}


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
        (json.dumps(sample(0, doc={"id": "1"})), "a document has no language, article, subset"),
        ("nonsense\n" + json.dumps(sample(1)), "line 1: no sample"),
        ("\x80", "no UTF-8"),
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


def test_what_could_not_be_written_whole_is_not_left_behind(tmp_path: Path) -> None:
    from lm_eval_tasks.results.score import _move

    partial, folder = tmp_path / "partial", tmp_path / "folder"
    for made in (partial, folder):
        made.mkdir()
    (partial / "samples_mfava_de_D.jsonl").write_text("{}\n{}\n{", "utf-8")
    with pytest.raises(OSError, match=r"samples_mfava_de_D.jsonl could not be written .*run the same command again"):
        _move(partial, folder, "D", {"mfava_de": 3})
    (partial / "samples_mfava_de_D.jsonl").write_text("{}\n{}\n{}\n", "utf-8")
    with pytest.raises(OSError, match=r"results_D.json could not be written"):
        _move(partial, folder, "D", {"mfava_de": 3})
    assert not list(folder.iterdir())
    (partial / "results_D.json").write_text("{}", "utf-8")
    assert _move(partial, folder, "D", {"mfava_de": 3}) == folder / "results_D.json"
    assert len(list(folder.iterdir())) == 2
