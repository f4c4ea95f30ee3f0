"""Two steps: answers that were logged are scored later, with the figures of one step; after a kill it goes on."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from detector_plugin import calibration as calibrations
from lm_eval_tasks.cli import main
from lm_eval_tasks.data.sources import CorruptSource, MissingSource
from lm_eval_tasks.results import is_tagged
from lm_eval_tasks.results.score import score
from tests.conftest import results_of, run
from tests.logged_runs import copied, files_of, generate, lines, sample, write_samples
from tests.report_runs import changed
from tests.shared_once import SharedOnce


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
    values = [r["detected_rate,answer"] for task, r in results["results"].items() if task != "mfava"]
    assert len(values) == 30
    assert min(values) > 0
    assert group["detected_rate,answer"] == pytest.approx(sum(values) / 30)
    assert group["detected_rate_stderr,answer"] > 0
    assert results["n-samples"]["mfava_de"] == {"original": 9, "effective": 2}


def test_each_models_answers_stay_with_it(predicted: Path, tmp_path: Path) -> None:
    """The harness's layout: a folder a model."""
    (tmp_path / "all").mkdir()
    for name in ("a", "b"):
        folder = copied(predicted, tmp_path / "all" / name)
        (results,) = folder.glob("results_*.json")
        content = json.loads(results.read_text("utf-8"))
        mine = {"group_subtasks": {"a group of theirs": ["mfava_de"]}}  # which is not known here
        results.write_text(json.dumps({**content, **mine, "model_name": name}), "utf-8")
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
        (json.dumps(sample(0, doc={"id": "1"})), "a document has no language, article, subset"),
        ("nonsense\n" + json.dumps(sample(1)), "line 1: no sample"),
        ("\udc80\n", "no UTF-8"),
        ("{", "no sample can be read"),
    ],
)
def test_damaged_samples(tmp_path: Path, content: str, message: str) -> None:
    path = write_samples(tmp_path, "")
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(CorruptSource, match=message):
        score(path)


def test_what_is_no_estimation_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingSource, match="no samples file"):
        score(tmp_path)
    write_samples(tmp_path, json.dumps(sample(0)), task="nomiracl_de")
    write_samples(tmp_path, json.dumps(question(0)), task="clapnq_judge")
    none = r"samples of clapnq_judge, nomiracl_de, none of mfava_<language>, clapnq_gold\* or clapnq_rag\*, whose"
    with pytest.raises(MissingSource, match=none):
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


TASKS = "clapnq_gold,clapnq_rag_llama,mfava_de"
# So low that words of the passages are flagged: the baseline says no others.
DETECTOR = ("detector=lexical", "detector_args=threshold=0.01")


@pytest.fixture(scope="module")
def calibration(shared_once: SharedOnce) -> str:
    """Of the embedded detector, with German, and RAG answers in English."""

    def make(folder: Path) -> None:
        ours = calibrations.load("lexical")
        entry = calibrations.from_counts([[60, 20, 40, 400], [50, 30, 30, 500]] * 3, "by hand")
        calibrations.Calibration(ours.detector, {**ours.languages, "en": {"rag": entry}}).save(folder / "both.json")

    return str(shared_once("calibration of two languages", make) / "both.json")


@pytest.fixture(scope="module")
def one_step(shared_once: SharedOnce, calibration: str) -> Path:
    metadata = (*DETECTOR, f"calibration={calibration}")
    made = shared_once("clapnq in one step", lambda folder: generate(folder / "out", tasks=TASKS, metadata=metadata))
    return files_of(made)


@pytest.fixture(scope="module")
def predicted_three(shared_once: SharedOnce) -> Path:
    """No detector is named when the answers are generated."""
    made = shared_once("clapnq predicted", lambda folder: generate(folder / "out", "--predict_only", tasks=TASKS))
    return files_of(made)


def test_two_steps_give_what_one_does(one_step: Path, predicted_three: Path, calibration: str, tmp_path: Path) -> None:
    """Answers of both benchmarks in one folder."""
    before = results_of(predicted_three)
    assert before["results"]["clapnq_gold"]["bypass,answer"] == 999
    assert "hallucination" not in before["configs"]["mfava_de"]["metadata"]  # no detector ran
    folder = copied(predicted_three, tmp_path / "scored")
    (written,) = score(folder, "lexical", "threshold=0.01", calibration, output=tmp_path / "out")
    scored, whole = json.loads(written.read_text("utf-8")), results_of(one_step)
    assert scored["results"].keys() == whole["results"].keys() == {*TASKS.split(",")}
    for task in whole["results"]:
        assert scored["results"][task] == whole["results"][task]
        (mine,), (theirs,) = ((lines(p) for p in f.glob(f"samples_{task}_*")) for f in (tmp_path / "out", one_step))
        assert mine == theirs  # documents, prompts, answers, spans, every value
    for task in ("clapnq_gold", "clapnq_rag_llama"):
        figures = scored["results"][task]
        assert 0 < figures["hallucinated_share,answer"] <= 1
        assert figures["hallucinated_share_stderr,answer"] >= 0
        assert 0 <= figures["rogan_gladen_rate,answer"] <= 1
        mine, theirs = (each["configs"][task]["metadata"] for each in (scored, whole))
        for side in (mine, theirs):  # that of dense retrieval is there where other tests of this process imported it
            side["provenance"]["versions"].pop("sentence-transformers", None)
        assert {part: mine["provenance"][part] for part in theirs["provenance"]} == theirs["provenance"]
        assert mine["figures"] == theirs["figures"]
        for key in ("filter_list", "generation_kwargs", "metric_list"):
            assert scored["configs"][task][key] == whole["configs"][task][key]
    for part in ("n-samples", "higher_is_better", "model_source", "model_name"):
        assert scored[part] == whole[part]
    assert scored["config"]["model_args"] == whole["config"]["model_args"]
    assert scored["config"]["scored_from"]["mfava_de"].startswith("samples_mfava_de_")
    assert len([*(tmp_path / "out").iterdir()]) == 4  # results, and samples of three tasks
    (again,) = score(tmp_path / "out", "lexical", "threshold=0.01", calibration)  # in place
    third = json.loads(again.read_text("utf-8"))["results"]
    assert third == scored["results"]


def test_prompt_and_shots_are_those_of_the_answers(tmp_path: Path) -> None:
    folder = generate(tmp_path / "in", "--predict_only", "--num_fewshot", "2", "--limit", "6", tasks="clapnq_gold")
    (written,) = score(folder, output=tmp_path / "out")
    scored, before = json.loads(written.read_text("utf-8")), results_of(tmp_path / "in")
    assert scored["n-shot"] == before["n-shot"] == {"clapnq_gold": 2}
    assert scored["configs"]["clapnq_gold"]["num_fewshot"] == 2
    assert scored["n-samples"] == before["n-samples"] == {"clapnq_gold": {"original": 32, "effective": 6}}
    (mine,), (theirs,) = ((lines(p) for p in f.rglob("samples_*")) for f in (tmp_path / "out", tmp_path / "in"))
    for a, b in zip(mine, theirs, strict=True):
        assert (a["arguments"], a["prompt_hash"]) == (b["arguments"], b["prompt_hash"])


def test_the_share_is_printed(predicted_three: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = copied(predicted_three, tmp_path / "run")
    for path in folder.glob("samples_mfava_*"):
        path.unlink()
    shutil.copy(next(folder.glob("samples_clapnq_gold_*")), folder / "samples_nomiracl_de_2026-01-01T00-00-00.0.jsonl")
    assert main(["score", str(folder), "--detector", "lexical", "--detector_args", "threshold=0.01"]) == 0
    printed = capsys.readouterr().out
    assert "hallucinated_share" in printed
    assert "rogan_gladen_rate" not in printed
    assert "k_precision" in printed


def question(number: int, **more: Any) -> dict[str, Any]:
    """A line of a samples file; `more` changes its document."""
    doc = {
        **{"id": str(number), "question": "Who?", "answerable": True, "answers": ["Ada did."], "target": "Ada did."},
        **{"passages": [{"id": "", "title": "Ada", "text": "Ada did."}], "groundings": ["Ada Ada did."]},
    }
    return {"doc_id": number, "doc": {**doc, **more}, "resps": [["Ada did."]], "filter": "answer"}


def test_logged_answers_without_a_results_file_are_scored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [question(0), question(1, answerable=False, answers=[], target="unanswerable")]
    path = write_samples(tmp_path / "s", "\n".join(map(json.dumps, rows)), task="clapnq_gold")
    with caplog.at_level(logging.WARNING):
        (written,) = score(path, output=tmp_path / "out")
    assert "the results will not say which model gave the answers" in caplog.text
    results = json.loads(written.read_text("utf-8"))["results"]["clapnq_gold"]
    assert (results["hallucinated_share,answer"], results["k_precision,answer"]) == (0.0, 1.0)


RETRIEVED = {"gold_ids": ["p"], "retrieved_ids": ["p"], "gold_ranks": [1], "retriever": "{}"}


@pytest.mark.parametrize(
    ("task", "more", "message"),
    [
        ("clapnq_gold", {"passages": [{"title": "Ada"}]}, "a document of clapnq_gold is damaged"),
        ("clapnq_rag", {}, "a document has no gold_ids, retrieved_ids, gold_ranks, retriever; it is none of clapnq"),
    ],
)
def test_damaged_documents_are_named(tmp_path: Path, task: str, more: dict[str, Any], message: str) -> None:
    whole = RETRIEVED if more.keys() & RETRIEVED.keys() else {}
    rows = [question(0, **whole), question(1, **more)]
    path = write_samples(tmp_path, "\n".join(map(json.dumps, rows)), task=task)
    with pytest.raises(CorruptSource, match=message):
        score(path, output=tmp_path / "out")


def test_whose_answers_a_detector_tags() -> None:
    tasks = ("mfava_de", "clapnq_rag_e5_gpt", "clapnq_gold_of_mine", "mfava_detection_de_gold")
    assert [*map(is_tagged, tasks)] == [True, True, False, False]
