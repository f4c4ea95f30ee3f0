"""RAGTruth: documents of all forms of the public files, the field's scores."""

from __future__ import annotations

import json
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score, precision_score, recall_score

from custom_metrics.reading.spans import Span
from custom_metrics.scores import detection
from custom_metrics.scores.detection import process_character_results as mushroom
from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.calibration import load as load_calibration
from lm_eval_tasks.cli import main
from lm_eval_tasks.data.sources import CorruptSource, MissingSource
from lm_eval_tasks.definition.catalogue import tables
from lm_eval_tasks.published import rows_for
from lm_eval_tasks.ragtruth import dataset
from lm_eval_tasks.ragtruth.dataset import FAITHJUDGE, PARTS, disjoint, process_rating, process_results
from lm_eval_tasks.results.compare import compare_runs
from lm_eval_tasks.results.report import Report, write_report
from lm_eval_tasks.runs import read_runs
from tests.changed_runs import written_samples
from tests.conftest import Harness
from tests.labelled_facts import write_lines
from tests.logged_runs import in_this_process
from tests.miniature import SAMPLE


def documents(part: str, **options: Any) -> list[dict[str, Any]]:
    return list(dataset.load(part, **options)["evaluation"])


def marked(row: dict[str, Any]) -> list[str]:
    return [row["answer"][span["start"] : span["end"]] for span in row["spans"]]


@pytest.mark.one_python("what the public data hold")
@pytest.mark.parametrize(
    ("part", "sources", "answers", "with_span", "labels"),
    [("qa", 139, 817, 259, 387), ("data2txt", 150, 900, 579, 1054)],
)
def test_the_public_answers(hub: str, part: str, sources: int, answers: int, with_span: int, labels: int) -> None:
    found = dataset.load(part, mirror=hub)["evaluation"]
    record = json.loads(found.info.description)["provenance"]
    assert record["not_comparable"] == ([] if answers == 900 else ["817 of the 900 test answers (files=faithjudge)"])
    assert record["kept"] == {"answers": answers, "with a marked span": with_span, "labels": labels}
    assert len(found) == len(set(found["id"])) == answers
    assert len(set(found["passage"])) == sources
    assert {*found["language"]} == {"en"}


OF_QA = {"s1/sample/a": [], "s1/sample/b": ["1876", "the third of six children"], "s2/sample/a": ["the Elbe does, too"]}


@pytest.mark.parametrize(
    ("part", "spans", "left_out"),
    [
        ("qa", OF_QA, {"answers left out, incorrect refusal": 1}),
        ("summary", {"s3/sample/a": [], "s3/sample/b": ["1,904", "Berlin"]}, {"answers left out, truncated": 1}),
        ("data2txt", {"s4/sample/a": [], "s4/sample/b": ["on Sundays", "free WiFi"]}, {}),
    ],
)
def test_the_authors_files(part: str, spans: dict[str, list[str]], left_out: dict[str, int]) -> None:
    """Rows of our own: the good answers of the split `test`."""
    found = dataset.load(part, **SAMPLE)
    assert {row["id"]: marked(row) for row in found["evaluation"]} == spans
    assert json.loads(found["evaluation"].info.description)["provenance"].get("left_out", {}) == left_out
    for row in found["evaluation"]:
        assert row["soft_labels"] == [{"start": s["start"], "end": s["end"], "prob": 1.0} for s in row["spans"]]
        assert row["target"].count("<hallucination>") == len(row["spans"])


def faithjudge(folder: Path, part: str) -> str:
    """A mirror that has a part of the miniature in FaithJudge's form alone."""
    lines: dict[str, dict[str, Any]] = {}
    for row in documents(part, **SAMPLE):
        source = row["passage"].partition("/")[2]
        told: Any = json.loads(row["reference"]) if part == "data2txt" else row["reference"]
        told = {"question": row["query"], "passages": told} if part == "qa" else told
        line = lines.setdefault(source, {"source_id": source, "source": told, "responses": []})
        labels = [{"start": span["start"], "end": span["end"]} for span in row["spans"]]
        line["responses"].append({"response": row["answer"], "model": row["model"], "labels": labels})
    write_lines(faithjudge_file(folder, part), lines.values())
    return str(folder)


def faithjudge_file(mirror: Path | str, part: str = "qa") -> Path:
    return Path(mirror) / "github" / FAITHJUDGE / "eval_data" / f"ragtruth_{part}.jsonl"


@pytest.mark.parametrize("part", PARTS)
def test_both_forms_of_the_files_are_read_as_the_same_documents(tmp_path: Path, part: str) -> None:
    """FaithJudge's is the default where the mirror has that alone; where it has none, the authors' are missing."""
    mirror = faithjudge(tmp_path / "mirror", part)
    assert documents(part, mirror=mirror) == documents(part, **SAMPLE)
    with pytest.raises(MissingSource, match=r"dataset/response\.jsonl of github repository ParticleMedia/RAGTruth"):
        documents(part, mirror=mirror, files="authors")
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingSource, match=r"'ParticleMedia/RAGTruth/dataset/response\.jsonl' --into"):
        documents(part, mirror=str(tmp_path / "empty"))
    with pytest.raises(UsageError, match=f"ragtruth_{part}: unknown files 'both'; known are authors, faithjudge"):
        documents(part, files="both")


def test_the_summaries_are_not_in_the_mirror(hub: str, harness: Harness) -> None:
    with pytest.raises(MissingSource, match=r"2 public files \(.*RAGTruth/dataset/source_info.jsonl\) are not in the"):
        harness(["ragtruth_summary"], "hallucination-detector", "detector=flag-none", metadata={"mirror": hub})


@pytest.mark.parametrize(
    ("labels", "spans", "repairs"),
    [
        ([(0, 3), (5, 10)], [(0, 3), (5, 10)], {}),
        ([(5, 10), (0, 3), (2, 6)], [(0, 10)], {dataset.OVERLAPPING: 1}),
        ([(0, 3), (3, 5)], [(0, 5)], {}),
    ],
)
def test_labels_become_disjoint_spans(
    labels: list[tuple[int, int]], spans: list[tuple[int, int]], repairs: dict[str, int]
) -> None:
    counts: Counter[str] = Counter()
    assert disjoint([Span(*place) for place in labels], counts) == [Span(*place) for place in spans]
    assert +counts == repairs


ONE = {"source_id": 1, "source": "s"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"source": "s", "responses": []}, "has no document of ragtruth_qa"),
        ({"source_id": 1, "responses": []}, "line 1: no marked answer: KeyError('source')"),
        ({"source_id": 1, "source": {"passages": 3}, "responses": []}, "'question' is NoneType, not a text"),
        ({**ONE, "responses": [{"model": "m", "response": "r", "labels": [{"start": "0"}]}]}, "KeyError('end')"),
        ({**ONE, "responses": [{"model": "m", "response": 3, "labels": []}]}, "is int, not a text"),
    ],
)
def test_what_is_no_marked_answer_is_refused_with_its_line(tmp_path: Path, row: Any, message: str) -> None:
    write_lines(faithjudge_file(tmp_path), [row])
    with pytest.raises(CorruptSource) as refused:
        documents("qa", mirror=str(tmp_path))
    assert message in str(refused.value)


@pytest.mark.parametrize("source", ["half \ud800", {"name": "\ud800"}, {"question": "\ud800?", "passages": "\ud800"}])
def test_halves_of_surrogate_pairs_do_no_harm(tmp_path: Path, source: Any) -> None:
    told = [{"model": "m", "response": "r \ud800 s", "labels": [{"start": 4, "end": 5}]}]
    faithjudge_file(tmp_path).parent.mkdir(parents=True)
    faithjudge_file(tmp_path).write_text(json.dumps({"source_id": 1, "source": source, "responses": told}), "utf-8")
    (row,) = documents("qa", mirror=str(tmp_path))
    assert marked(row) == ["s"]


DOC = {
    **{"answer": "Paris has 9 rivers.", "language": "en", "passage": "qa/1", "query": "", "reference": ""},
    "spans": [{"start": 10, "end": 18, "category": "hallucination"}],
    "soft_labels": [{"start": 10, "end": 18, "prob": 1.0}],
}


@pytest.mark.parametrize(
    ("spans", "tagged", "example", "characters", "auc"),
    [
        (DOC["spans"], "Paris has <entity>9</entity> rivers.", [1, 0, 0, 0], [1, 0, 7, 11], 3.0349),
        (DOC["spans"], "Paris has 9 rivers.", [0, 0, 1, 0], [0, 0, 8, 11], 0.0),
        (DOC["spans"], "I cannot do that.", [0, 0, 1, 0], [0, 0, 8, 11], 0.0),  # lost: it flags nothing
        ([], '<entity probability="0.5">Paris</entity> has 9 rivers.', [0, 1, 0, 0], [0, 5, 0, 14], 0.8326),
        ([], "Paris has 9 rivers.", [0, 0, 0, 1], [0, 0, 0, 19], 0.0),
        ([], "I cannot do that.", [0, 1, 0, 0], [0, 19, 0, 0], 6.0697),
        ([], "", [0, 1, 0, 0], [0, 19, 0, 0], 6.0697),
    ],
)
def test_any_span_flags(spans: Any, tagged: str, example: list[int], characters: list[int], auc: float) -> None:
    doc = {**DOC, "spans": spans, "soft_labels": [{**span, "prob": 1.0} for span in spans]}
    values = process_results(doc, [tagged])
    assert values["example_f1"] == values["example_precision"] == values["example_recall"] == example
    assert values["span_f1"] == characters
    assert values["answer_auc"] == [[pytest.approx(auc, abs=1e-4), float(bool(spans))]]
    for name, value in mushroom(doc, [tagged]).items():  # Mu-SHROOM's scorer
        assert values[name] == value


@pytest.mark.one_python("what the public data hold")
@pytest.mark.parametrize("part", ["qa", "data2txt"])
def test_the_scores_are_those_that_lettucedetect_reports(hub: str, part: str) -> None:
    """Example scores by any span, span F1 of all characters together. LettuceDetect counts characters twice where labels
    overlap; of these answers that changes F1 by less than .002."""
    rows = documents(part, mirror=hub)
    flagged = [[Span(0, len(row["answer"]) // 2)] if at % 3 else [] for at, row in enumerate(rows)]
    tagged = [
        f"<hallucination>{row['answer'][: s[0].end]}</hallucination>{row['answer'][s[0].end :]}" if s else row["answer"]
        for row, s in zip(rows, flagged, strict=True)
    ]
    values = [process_results(row, [text]) for row, text in zip(rows, tagged, strict=True)]
    truth, found = [bool(row["spans"]) for row in rows], [bool(spans) for spans in flagged]
    for name, score in (("f1", f1_score), ("precision", precision_score), ("recall", recall_score)):
        kind = getattr(detection, name)
        assert kind([value[f"example_{name}"] for value in values]) == pytest.approx(score(truth, found))
    read = dataset.read_faithjudge([faithjudge_file(hub, part)], Counter(), part)
    public = {f"{each.source}/{each.model}": each for each in read}
    overlap = predicted = gold = 0
    for row, spans in zip(rows, flagged, strict=True):
        labels = public[row["id"]].labels
        predicted += sum(span.end - span.start for span in spans)
        gold += sum(label.end - label.start for label in labels)
        overlap += sum(max(0, min(s.end, end) - max(s.start, start)) for s in spans for start, end, *_ in labels)
    theirs = 2 * overlap / (predicted + gold)
    assert detection.f1([value["span_f1"] for value in values]) == pytest.approx(theirs, abs=2e-3)


def test_what_people_marked_scores_one(harness: Harness, tmp_path: Path) -> None:
    rows = [{**row, "task": f"ragtruth_{part}"} for part in PARTS for row in documents(part, **SAMPLE)]
    told = [{"id": row["id"], "task": row["task"], "response": row["target"]} for row in rows]
    got = harness(["ragtruth"], "replay", f"path={write_lines(tmp_path / 'a.jsonl', told)}", metadata=SAMPLE)
    for metric in ("example_f1", "span_f1", "answer_auc", "iou", "rho", "f1"):
        assert got["groups"]["ragtruth"][f"{metric},tags"] == 1


@pytest.mark.parametrize(
    ("part", "options", "not_for_records"),
    [
        ("qa", {}, False),
        ("data2txt", {}, True),
        ("data2txt", {"detector": "lexical"}, True),
        ("data2txt", {"detector": "flag-all"}, False),
        ("data2txt", {"pretrained": "a/model"}, False),  # a language model
    ],
)
def test_a_run_warns_of_missing_labels_and_of_lexical_on_records(
    caplog: pytest.LogCaptureFixture, part: str, options: dict[str, str], not_for_records: bool
) -> None:
    with caplog.at_level(logging.WARNING):
        documents(part, **SAMPLE, **options)
    assert "found 865 spans where RAGTruth has 86" in caplog.text
    assert ("of which word overlap says nothing" in caplog.text) == not_for_records


def test_the_board_says_that_labels_are_missing_and_has_published_rows() -> None:
    assert "865 spans in 408" in tables()["ragtruth"].question("ragtruth_qa")
    f1 = {row.model: row.value for row in rows_for("ragtruth", "example_f1")}
    assert f1["lettucedect-base-modernbert-en-v1"] == 0.768
    assert f1["lettucedect-large-modernbert-en-v1"] == 0.792
    assert (f1["GPT-4, prompted"], f1["Luna"]) == (0.634, 0.654)
    span_f1 = {row.model: row.value for row in rows_for("ragtruth", "span_f1")}
    assert span_f1 == {"lettucedect-v2-mmbert-base": 0.528, "lettucedect-v2-qwen-2b": 0.574}


def test_calibrations_of_rag_answers_gain_english(hub: str, tmp_path: Path) -> None:
    """Question answering, which is what CLAPnq asks; texts from data have other errors."""
    options = {"metadata": {"mirror": hub}, "limit": 60}
    tasks = ["ragtruth_qa", "ragtruth_data2txt"]
    in_this_process(tasks, "hallucination-detector", "detector=lexical", tmp_path / "runs", **options)
    assert main(["calibrate", str(tmp_path / "runs"), "-o", str(tmp_path / "c.json")]) == 0
    entry = load_calibration(str(tmp_path / "c.json")).for_language("en", "rag")
    assert entry is not None
    assert entry.source == "ragtruth_qa"
    assert entry.documents is not None
    assert len(entry.documents) == 60


@pytest.mark.parametrize(
    ("marked", "reply", "cell", "evidence"),
    [
        *((True, "4", 2, 0), (True, "3", 0, 1), (False, "4", 3, 0), (False, "1", 1, 3)),
        *((True, "unread", 2, 0), (False, "unread", 1, 4)),
    ],
)
def test_the_values_of_a_judges_rating(marked: bool, reply: str, cell: int, evidence: float) -> None:
    """Any rating but 4 flags an answer; one that cannot be read is wrong."""
    values = process_rating({"marked": marked, "passage": "qa/1"}, [reply])
    assert values["example_f1"] == values["example_recall"] == [int(place == cell) for place in range(4)]
    assert (values["answer_auc"], values["unread_rate"]) == ([[evidence, float(marked)]], reply == "unread")
    assert values["answer_auc"].cluster == "qa/1"


def test_a_judge_of_whole_answers(harness: Harness, tmp_path: Path) -> None:
    """It is right on two of the three answers of the miniature; a report has a row for each model that wrote them."""
    says = {"s1/sample/a": "Rating: 4", "s1/sample/b": "Rating: 2", "s2/sample/a": "4/4"}
    told = write_lines(tmp_path / "judge.jsonl", [{"id": name, "response": reply} for name, reply in says.items()])
    in_this_process(["ragtruth_judge_qa"], "replay", f"path={told}", tmp_path / "runs")
    (run,) = read_runs([tmp_path / "runs"])
    figure = run.tasks["ragtruth_judge_qa"].figure
    assert [figure(name, "rating").value for name in ("example_recall", "example_precision")] == [0.5, 1]
    text = Report.of([run]).to_markdown("model")
    header, _, *rows = text.partition("- ragtruth\\_judge\\_qa, by model")[2].strip().splitlines()[:4]
    assert header.split("|")[1].strip() == "model"
    shown = [(row.split("|")[1].strip(), row.split("|")[3].strip()) for row in rows]
    assert shown == [("sample/a", "2"), ("sample/b", "1")]
    assert "By model" in write_report([run], tmp_path / "r.html", by="model").read_text("utf-8")
    for by, why in (("writer", " .* they have .*, model, "), ("language", " with 2 to 60 values")):
        with pytest.raises(UsageError, match=f"--by {by}: no task's documents have such a column{why}"):
            Report.of([run]).to_markdown(by)


def test_answers_about_one_source_hang_together_in_a_comparison(tmp_path: Path) -> None:
    """Twice the same answers about a source are no further evidence for a difference of AUC."""
    rng = np.random.default_rng(5)
    wrong, scores = rng.integers(0, 2, 60), rng.normal(size=(2, 60))
    found = {}
    for copies in (1, 2):
        docs = [{"id": f"{at}/{copy}", "passage": f"qa/{at}"} for at in range(60) for copy in range(copies)]
        for name, values in zip("ab", scores + np.array([wrong, 0 * wrong]), strict=True):
            rows = [{"answer_auc": [[values[at], float(wrong[at])]]} for at in range(60) for _ in range(copies)]
            written_samples(tmp_path / f"{copies}" / name, "ragtruth_qa", rows, docs)
        comparison = compare_runs(read_runs([tmp_path / f"{copies}"]), every_metric=True)
        (row,) = comparison.select("answer_auc", "ragtruth_qa")
        found[copies] = (row.result.difference, row.result.low, row.result.high)
    assert found[2] == pytest.approx(found[1], abs=1e-9)


def test_flag_all_has_the_share_of_answers_with_a_span_as_precision(hub: str, harness: Harness) -> None:
    got = harness(["ragtruth_qa"], "hallucination-detector", "detector=flag-all", metadata={"mirror": hub})
    values = got["results"]["ragtruth_qa"]
    assert values["example_precision,tags"] == pytest.approx(259 / 817)
    assert values["example_recall,tags"] == 1
