"""MEMERAG: documents of answers whose sentences people judged, scores of detectors and of judges."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, cohen_kappa_score, f1_score, roc_auc_score

from custom_metrics.filters import JudgeSupport
from custom_metrics.reading.spans import NOT_SUPPORTED, SUPPORTED
from custom_metrics.scores import detection
from custom_metrics.scores.detection import process_sentence_results, process_verdict
from custom_metrics.scores.ratings import auc
from detector_plugin.calibration import load as load_calibration
from lm_eval_tasks.cli import main
from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.detection.calibrated import CalibrationKey, in_force
from lm_eval_tasks.memerag import dataset
from lm_eval_tasks.memerag.dataset import HARD_TO_TELL, LANGUAGES, REPOSITORY, file_of
from lm_eval_tasks.mfava import dataset as mfava
from lm_eval_tasks.results.compare import compare_runs
from lm_eval_tasks.runs import read_runs
from tests.conftest import Harness, command, results_of, run
from tests.labelled_facts import write_lines
from tests.logged_runs import in_this_process
from tests.miniature import MINIATURE, SAMPLE


def documents(language: str, **options: Any) -> list[dict[str, Any]]:
    return list(dataset.load(language, **options)["evaluation"])


@pytest.mark.one_python("what the public data hold")
@pytest.mark.parametrize(
    ("language", "annotators", "answers", "numbers"),
    [
        ("de", "one", 249, {SUPPORTED: 333, NOT_SUPPORTED: 125}),
        ("de", "majority", 150, {SUPPORTED: 201, NOT_SUPPORTED: 71}),
        ("es", "one", 250, {SUPPORTED: 370, NOT_SUPPORTED: 185}),
        ("es", "majority", 150, {SUPPORTED: 224, NOT_SUPPORTED: 52}),
    ],
)
def test_answers_are_sentences(hub: str, language: str, annotators: str, answers: int, numbers: dict[str, int]) -> None:
    found = documents(language, annotators=annotators, mirror=hub)
    assert len(found) == len({row["id"] for row in found}) == answers
    lines = (Path(hub) / "github" / REPOSITORY / file_of(language, annotators)).read_text("utf-8").splitlines()
    public = {row["query_id"]: row for row in map(json.loads, lines)}
    for row in found:
        theirs = public[row["id"]]
        texts = [row["answer"][sentence["start"] : sentence["end"]] for sentence in row["sentences"]]
        assert texts == [sentence["sentence"].strip() for sentence in theirs["answer"]]
        assert "".join(row["answer"].split()) == "".join("".join(s["sentence"] for s in theirs["answer"]).split())
        assert row["reference"] == "\n\n".join(passage["text"].strip() for passage in theirs["context"])
    judged = dataset.load_sentences(language, annotators=annotators, mirror=hub)["evaluation"]
    assert Counter(judged["label"]) == numbers
    assert len(set(judged["id"])) == len(judged)


def line(*labelled: tuple[Any, Any], context: Any = ("Warsaw is in Poland.",)) -> dict[str, Any]:
    told = [{"sentence": text, "factuality": label} for text, label in labelled]
    return {"query_id": "1", "query": "Where?", "context": [{"text": text} for text in context], "answer": told}


def read_second(folder: Path, row: Any) -> tuple[int, Counter[str]]:
    """The answers that a file is read as in which the second line is this row, and what was left out."""
    (folder / "de.jsonl").write_text(f"{json.dumps(GOOD)}\n{json.dumps(row)}\n", "utf-8")
    counts: Counter[str] = Counter()
    return len(list(dataset.judged_answers(folder / "de.jsonl", counts))), counts


GOOD = line(("Warsaw is in Poland.", SUPPORTED))


@pytest.mark.parametrize(
    ("row", "reason", "number"),
    [
        (line(("Fine.", SUPPORTED), ("Who knows?", HARD_TO_TELL)), "sentences left out, as hard to tell", 1),
        (line(("A.", SUPPORTED), ("B.", "Partly"), ("C.", "")), "sentences left out, with another label", 2),
        (line(("Who knows?", HARD_TO_TELL)), "answers left out, without a sentence that was judged", 1),
    ],
)
def test_what_is_left_out_is_counted(tmp_path: Path, row: Any, reason: str, number: int) -> None:
    answers, counts = read_second(tmp_path, row)
    counted = sum(count for what, count in counts.items() if what.startswith(reason))
    assert (answers, counted) == (1 if reason.startswith("answers") else 2, number)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**GOOD, "answer": "Warsaw is in Poland."}, "AttributeError"),
        ({**GOOD, "context": [{"title": "Warsaw"}]}, "'text' is NoneType, not a text"),
        (line(("Fine.", None)), "'factuality' is NoneType, not a text"),
        (line((5, SUPPORTED)), "'sentence' is int, not a text"),
        ({}, "KeyError('answer')"),
        ([1], "expected a JSON object, found list"),
    ],
)
def test_what_is_no_judged_answer_is_refused_with_its_line(tmp_path: Path, row: Any, message: str) -> None:
    with pytest.raises(CorruptSource) as refused:
        read_second(tmp_path, row)
    assert str(refused.value).startswith(f"{tmp_path}/de.jsonl, line 2: ")
    assert message in str(refused.value)


def test_a_file_without_a_judged_sentence_is_refused(tmp_path: Path) -> None:
    write_lines(tmp_path / "github" / REPOSITORY / file_of("de", "one"), [line(("Who knows?", HARD_TO_TELL))])
    with pytest.raises(CorruptSource, match=r"no document of memerag_de \(sentences left out, as"):
        documents("de", mirror=str(tmp_path))
    with pytest.raises(ValueError, match="memerag_de: unknown annotators 'five'; known are majority, one"):
        documents("de", annotators="five", **SAMPLE)


def test_sentences_stand_one_after_another_with_their_own_white_space() -> None:
    row = line(("A b. ", SUPPORTED), (" C.", NOT_SUPPORTED), ("D.\n\n", SUPPORTED), ("E\ud800.", SUPPORTED))
    found = dataset._judged_answer(row)
    assert found.answer == "A b.  C. D.\n\nE?."
    assert [found.answer[span.start : span.end] for span, _ in found.sentences] == ["A b.", "C.", "D.", "E?."]


ANSWER = "Warsaw is in Poland. It has nine rivers. Who knows? Fine."
UNSURE = '<hallucination probability="0.5">Warsaw is</hallucination>'
PLACES = [(0, 20, SUPPORTED), (21, 40, NOT_SUPPORTED), (41, 51, HARD_TO_TELL), (52, 57, NOT_SUPPORTED)]
DOC = {
    **{"answer": ANSWER, "language": "en", "passage": "en/1"},
    "sentences": [{"start": start, "end": end, "label": label} for start, end, label in PLACES],
    "spans": [{"start": s, "end": e, "category": "hallucination"} for s, e, label in PLACES if label == NOT_SUPPORTED],
}


@pytest.mark.parametrize(
    ("tagged", "counts", "shares", "words"),
    [
        (ANSWER, [0, 0, 2, 1], [0, 0, 0], [0, 0, 5, 4]),
        (ANSWER.replace("nine", "<entity>nine</entity>"), [1, 0, 1, 1], [0, 0.25, 0], [1, 0, 4, 4]),
        (UNSURE + ANSWER[9:].replace("Fine.", "<entity>Fine."), [1, 1, 1, 0], [0.25, 0, 1], [1, 2, 4, 2]),
        (ANSWER.replace("Who knows?", "<entity>Who knows?</entity>"), [0, 0, 2, 1], [0, 0, 0], [0, 0, 5, 4]),
        ("I cannot do that.", [0, 1, 2, 0], [1, 0, 0], [0, 0, 5, 4]),  # lost: wrong on every sentence
    ],
)
def test_a_word_flags_its_sentence(tagged: str, counts: list[int], shares: list[float], words: list[int]) -> None:
    """What is hard to tell counts nowhere, neither as a sentence nor with its words."""
    values = process_sentence_results(DOC, [tagged])
    assert values["balanced_accuracy"] == values["sentence_f1"] == counts
    assert values["auc"] == [[share, wrong] for share, wrong in zip(shares, (0, 1, 1), strict=True)]
    assert values["precision"] == words


def drawn(documents: int, seed: int) -> list[list[list[float]]]:
    """Shares, many of them equal, and classes of the sentences of some documents."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(1, 5, documents)
    return [[[float(round(draw.random(), 1)), float(draw.random() < 0.4)] for _ in range(size)] for size in sizes]


def test_the_scores_are_those_of_scikit_learn() -> None:
    values = drawn(80, 1)
    share, wrong = map(np.array, zip(*(pair for value in values for pair in value), strict=True))
    flagged = share > 0.5
    cells = ((1, 1), (1, 0), (0, 1), (0, 0))
    counts = [[int(sum((p > 0.5, w == 1) == cell for p, w in value)) for cell in cells] for value in values]
    assert detection.balanced_accuracy(counts) == pytest.approx(balanced_accuracy_score(wrong, flagged))
    assert detection.f1(counts) == pytest.approx(f1_score(wrong, flagged))
    assert detection.kappa(counts) == pytest.approx(cohen_kappa_score(wrong, flagged))
    assert auc(values) == pytest.approx(roc_auc_score(wrong, share))
    for aggregation, of_documents in ((detection.balanced_accuracy, counts), (auc, values)):
        figure = aggregation.figure_of(of_documents)
        rows = aggregation.linear(aggregation.rows(of_documents))
        assert rows.values.mean() == pytest.approx(figure.value)
        assert rows.values.std(ddof=1) / math.sqrt(80) == pytest.approx(figure.standard_error, rel=0.1)
        assert figure.low < figure.value < figure.high
        assert aggregation.figure_of(of_documents[::-1]) == figure  # ranks gather in an order of their own
    alone = [[pair] for value in values for pair in value]  # as if sentences of an answer were independent
    assert auc.figure_of(alone).value == pytest.approx(auc(values))


@pytest.mark.parametrize("values", [[], [[[0.5, 1.0]]], [[[0.5, 0.0]], [[0.1, 0.0]]]])
def test_one_class_alone_has_no_score(values: Any) -> None:
    assert math.isnan(auc(values))
    assert np.isnan(auc.rows(values).values).all()
    counts = [[int(wrong), 0, 0, int(not wrong)] for value in values for _, wrong in value]
    assert math.isnan(detection.balanced_accuracy(counts))
    assert math.isnan(detection.kappa(counts))


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("Verdict: Supported", SUPPORTED),
        ("**Verdict:** not supported.", NOT_SUPPORTED),
        ("Passage 2 names another year.\n\nVerdict: Not Supported (it contradicts passage 2)", NOT_SUPPORTED),
        ("<think>Verdict: Supported</think>\nVerdict: Unsupported", NOT_SUPPORTED),
        ("Verdict: Supported. All of it is supported by passage 1.", SUPPORTED),
        *((text, "unread") for text in ("Verdict: Supported or Not Supported", "Verdict: partly supported")),
        *((text, "unread") for text in ("> Verdict: Supported", None)),
    ],
)
def test_verdicts(reply: str | None, verdict: str) -> None:
    assert JudgeSupport().apply([[reply]], [{}]) == [[verdict]]


def test_an_unread_verdict_is_in_no_denominator_but_its_own() -> None:
    doc = {"label": NOT_SUPPORTED, "passage": "en/1"}
    assert process_verdict(doc, [NOT_SUPPORTED])["kappa"] == [1, 0, 0, 0]
    assert process_verdict({**doc, "label": SUPPORTED}, [NOT_SUPPORTED])["kappa"] == [0, 1, 0, 0]
    unread = process_verdict(doc, ["unread"])
    assert unread == {"balanced_accuracy": None, "sentence_f1": None, "kappa": None, "unread_rate": 1.0}
    assert detection.balanced_accuracy.figure_of([None, [1, 0, 0, 0], [0, 0, 0, 1]]).n == 2


def test_what_people_judged_scores_one(harness: Harness, tmp_path: Path) -> None:
    """Through `replay`: a language model that tags what is not supported."""
    rows = [row for language in LANGUAGES for row in documents(language, **SAMPLE)]
    told = [{"id": r["id"], "language": r["language"], "response": f"<think>Hm.</think>{r['target']}"} for r in rows]
    got = harness(["memerag"], "replay", f"path={write_lines(tmp_path / 'a.jsonl', told)}", metadata=SAMPLE)
    for metric in ("balanced_accuracy", "auc", "sentence_f1", "f1"):
        assert got["groups"]["memerag"][f"{metric},tags"] == got["results"]["memerag_hi"][f"{metric},tags"] == 1
    left_out = got["configs"]["memerag_hi"]["metadata"]["provenance"]["left_out"]
    assert left_out == {"sentences left out, as hard to tell": 1}


def test_stored_verdicts_are_scored_and_compared_from_a_shell(hub: str, tmp_path: Path) -> None:
    judged = list(dataset.load_sentences("de", mirror=hub)["evaluation"])
    results = {}
    for name, often in (("good", 9), ("bad", 3)):
        replies = [f"Verdict: {row['label'] if at % often else SUPPORTED}" for at, row in enumerate(judged)]
        replies[7] = "I cannot say."
        rows = [{"id": row["id"], "response": reply} for row, reply in zip(judged, replies, strict=True)]
        write_lines(tmp_path / f"{name}.jsonl", rows)
        judge = f"--model replay --model_args path={name}.jsonl --tasks memerag_judge_de --log_samples".split()
        run([command("lm_eval"), *judge, "--metadata", f"mirror={hub}", "--output_path", name], tmp_path)
        results[name] = results_of(tmp_path / name)["results"]["memerag_judge_de"]
        read = [(row["label"], reply.removeprefix("Verdict: ")) for row, reply in zip(judged, replies, strict=True)]
        wrong, flagged = (np.array(side) == NOT_SUPPORTED for side in zip(*(read[:7] + read[8:]), strict=True))
        scores = {"balanced_accuracy": balanced_accuracy_score, "sentence_f1": f1_score, "kappa": cohen_kappa_score}
        for metric, score in scores.items():
            assert results[name][f"{metric},verdict"] == pytest.approx(score(wrong, flagged))
        assert results[name]["unread_rate,verdict"] == pytest.approx(1 / 458)
    comparison = compare_runs(read_runs([tmp_path / "good", tmp_path / "bad"]))
    by_metric = {row.metric.name: row for row in comparison.differences}
    for metric, row in by_metric.items():
        values = tuple(results[name][f"{metric},verdict"] for name in ("good", "bad"))
        assert (row.result.first, row.result.second) == pytest.approx(values)
        assert (row.better, row.significant, row.unit) == (0, True, "passages")  # of questions
    assert by_metric.keys() == {"balanced_accuracy", "sentence_f1"}


def test_runs_make_a_calibration_of_rag_answers(
    hub: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """The words of sentences that were judged; CLAPnq takes the kind, and mFAVA does not."""
    options = {"metadata": {"mirror": hub}, "limit": 60}
    in_this_process(["memerag_de"], "hallucination-detector", "detector=lexical", tmp_path / "runs", **options)
    file = str(tmp_path / "c.json")
    assert main(["calibrate", str(tmp_path / "runs"), "-o", file]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:3] == ["de", "rag", "60"]
    assert "too good" not in caplog.text  # no weights of ours have seen these answers
    rows = documents("de", mirror=hub)[:60]
    entry = load_calibration(file).for_language("de", "rag")
    assert entry is not None
    assert entry.source == "memerag_de"
    judged = [(row["answer"], s) for row in rows for s in row["sentences"] if s["label"] != HARD_TO_TELL]
    assert sum(entry.counts or ()) == sum(len(answer[s["start"] : s["end"]].split()) for answer, s in judged)
    assert load_calibration(file).for_language("de") is None
    doc = mfava.load("de", calibration=file, mirror=MINIATURE)["evaluation"][0]
    assert in_force(CalibrationKey.from_document(doc, load_calibration(file).detector), "mfava_de") is None
    with pytest.raises(ValueError, match="unknown calibration_annotations 'rag'; known are gold, pooled, real, silver"):
        mfava.load("de", calibration=file, calibration_annotations="rag", mirror=MINIATURE)
