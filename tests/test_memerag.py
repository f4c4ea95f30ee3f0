"""MEMERAG: documents of answers whose sentences people judged, scores of detectors and of judges, and no training on it."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, cohen_kappa_score, f1_score, roc_auc_score

from custom_metrics.harness.filters import JudgeSupport
from custom_metrics.reading.spans import Span
from custom_metrics.scores import detection
from custom_metrics.scores.detection import WordCounts, count_words
from custom_metrics.scores.sentences import NOT_SUPPORTED, SUPPORTED, auc, auc_rows, process_results, process_verdict
from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.calibration import load as load_calibration
from detector_plugin.loading import load_detector
from lm_eval_tasks.cli import main
from lm_eval_tasks.commands.train import read_data
from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.detection.calibrated import CalibrationKey, in_force
from lm_eval_tasks.memerag import contamination, dataset
from lm_eval_tasks.memerag.dataset import HARD_TO_TELL, LANGUAGES, LONGEST, REPOSITORY, file_of
from lm_eval_tasks.mfava import dataset as mfava
from lm_eval_tasks.results.compare import compare_runs
from lm_eval_tasks.runs import read_runs
from tests.changed_runs import written_samples
from tests.conftest import command, figures_of, results_of, run
from tests.logged_runs import in_this_process

Harness = Callable[..., dict[str, Any]]
SAMPLE = {"mirror": "sample"}


def documents(language: str, **options: Any) -> list[dict[str, Any]]:
    return list(dataset.load(language, **options)["evaluation"])


# ----------------------------------------------------------------------------------------------------------- documents

COUNTS = [
    # language, annotators, answers, supported, not supported
    ("de", "one", 249, 333, 125),
    ("de", "majority", 150, 201, 71),
    ("es", "one", 250, 370, 185),
    ("es", "majority", 150, 224, 52),
]


@pytest.mark.one_python("what the public data hold")
@pytest.mark.parametrize(("language", "annotators", "answers", "supported", "not_supported"), COUNTS)
def test_real_answers_are_their_sentences(
    hub: str, language: str, annotators: str, answers: int, supported: int, not_supported: int
) -> None:
    found = documents(language, annotators=annotators, mirror=hub)
    assert len(found) == len({row["id"] for row in found}) == answers
    labels = Counter(sentence["label"] for row in found for sentence in row["sentences"])
    assert (labels[SUPPORTED], labels[NOT_SUPPORTED]) == (supported, not_supported)
    lines = (Path(hub) / "github" / REPOSITORY / file_of(language, annotators)).read_text("utf-8").splitlines()
    public = {row["query_id"]: row for row in map(json.loads, lines)}
    for row in found:
        theirs = public[row["id"]]
        texts = [row["answer"][sentence["start"] : sentence["end"]] for sentence in row["sentences"]]
        assert texts == [sentence["sentence"].strip() for sentence in theirs["answer"]]
        assert "".join(row["answer"].split()) == "".join("".join(s["sentence"] for s in theirs["answer"]).split())
        assert row["reference"] == "\n\n".join(passage["text"].strip() for passage in theirs["context"])
    judged = dataset.load_sentences(language, annotators=annotators, mirror=hub)["evaluation"]
    assert Counter(judged["label"]) == {SUPPORTED: supported, NOT_SUPPORTED: not_supported}
    assert len(set(judged["id"])) == len(judged)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_sample_has_answers_of_every_language(language: str) -> None:
    first, *_, last = documents(language, **SAMPLE)
    assert [sentence["label"] for sentence in first["sentences"]] == [SUPPORTED, NOT_SUPPORTED]
    assert first["target"].endswith("</hallucination>")
    assert last["spans"] == [{"start": 0, "end": len(last["answer"]), "category": "hallucination"}]
    assert len(documents(language, annotators="majority", **SAMPLE)) == 4


# ----------------------------------------------------------------------------------------------------------- bad input


def line(*labelled: tuple[Any, Any], context: Any = ("Warsaw is in Poland.",), **more: Any) -> dict[str, Any]:
    told = [{"sentence": text, "factuality": label} for text, label in labelled]
    passages = [{"text": text} for text in context]
    return {"query_id": "1", "query": "Where?", "context": passages, "answer": told, **more}


GOOD = line(("Warsaw is in Poland.", SUPPORTED))


@pytest.mark.parametrize(
    ("row", "reason", "number"),
    [
        (line(("Fine.", SUPPORTED), ("\n ", SUPPORTED)), "sentences left out, empty or only white space", 1),
        (line(("Fine.", SUPPORTED), ("Who knows?", HARD_TO_TELL)), "sentences left out, as hard to tell", 1),
        (line(("A.", SUPPORTED), ("B.", "Partly"), ("C.", "")), "sentences left out, with another label", 2),
        (line(("Who knows?", HARD_TO_TELL)), "answers left out, without a sentence that was judged", 1),
        (line(("Fine.", SUPPORTED), context=()), "answers left out, without passages", 1),
        (line(("Fine.", SUPPORTED), context=(" ",)), "answers left out, without passages", 1),
        (line(("x" * 10_000_000, SUPPORTED)), "answers left out, of more than a million characters", 1),
        (
            line(("A.", SUPPORTED), context=("x" * (LONGEST + 1),)),
            "answers left out, of more than a million characters",
            1,
        ),
    ],
)
def test_what_is_left_out_is_counted(tmp_path: Path, row: Any, reason: str, number: int) -> None:
    path = tmp_path / "de.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n{json.dumps(row)}\n", "utf-8")
    counts: Counter[str] = Counter()
    kept = list(dataset.judged_answers(path, counts))
    assert counts[reason] == number
    assert len(kept) == (1 if reason.startswith("answers") else 2)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**GOOD, "answer": "Warsaw is in Poland."}, "TypeError"),
        ({**GOOD, "answer": None}, "TypeError"),
        ({**GOOD, "context": [{"title": "Warsaw"}]}, "KeyError('text')"),
        (line(("Fine.", None)), "factuality is NoneType, not a text"),
        (line((5, SUPPORTED)), "sentence is int, not a text"),
        ({}, "KeyError('answer')"),
        ([1], "expected a JSON object, found list"),
    ],
)
def test_what_is_no_judged_answer_is_refused_with_its_line(tmp_path: Path, row: Any, message: str) -> None:
    path = tmp_path / "de.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n{json.dumps(row)}\n", "utf-8")
    with pytest.raises(CorruptSource) as refused:
        list(dataset.judged_answers(path, Counter()))
    assert str(refused.value).startswith(f"{path}, line 2: ")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_without_a_judged_sentence_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "github" / REPOSITORY / file_of("de", "one")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(line(("Who knows?", HARD_TO_TELL))), "utf-8")
    with pytest.raises(
        CorruptSource, match=r"no answer of MEMERAG with a judged sentence \(sentences left out, as hard"
    ):
        documents("de", mirror=str(tmp_path))
    with pytest.raises(ValueError, match="memerag_de: unknown annotators 'five'; known are majority, one"):
        documents("de", annotators="five", **SAMPLE)


def test_sentences_stand_one_after_another_with_their_own_white_space() -> None:
    counts: Counter[str] = Counter()
    row = line(("A b. ", SUPPORTED), (" C.", NOT_SUPPORTED), ("D.\n\n", SUPPORTED), ("E\ud800.", SUPPORTED))
    found = dataset._judged_answer(row, counts)
    assert found.answer == "A b.  C. D.\n\nE?."
    assert [found.answer[span.start : span.end] for span, _ in found.sentences] == ["A b.", "C.", "D.", "E?."]


# -------------------------------------------------------------------------------------------------------------- scores

ANSWER = "Warsaw is in Poland. It has nine rivers. Who knows? Fine."
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
        (
            '<hallucination probability="0.5">Warsaw is</hallucination>' + ANSWER[9:].replace("Fine.", "<entity>Fine."),
            [1, 1, 1, 0],
            [0.25, 0, 1],
            [1, 2, 4, 2],
        ),
        (ANSWER.replace("Who knows?", "<entity>Who knows?</entity>"), [0, 0, 2, 1], [0, 0, 0], [0, 0, 5, 4]),
        ("I cannot do that.", [0, 0, 2, 1], [0, 0, 0], [0, 0, 5, 4]),  # lost: it marks nothing
    ],
)
def test_a_sentence_is_flagged_where_a_word_of_it_is(
    tagged: str, counts: list[int], shares: list[float], words: list[int]
) -> None:
    """What is hard to tell counts nowhere, neither as a sentence nor with its words."""
    values = process_results(DOC, [tagged])
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
    counts = [
        [int(sum((p > 0.5, w == 1) == cell for p, w in value)) for cell in ((1, 1), (1, 0), (0, 1), (0, 0))]
        for value in values
    ]
    assert detection.balanced_accuracy(counts) == pytest.approx(balanced_accuracy_score(wrong, flagged))
    assert detection.f1(counts) == pytest.approx(f1_score(wrong, flagged))
    assert detection.kappa(counts) == pytest.approx(cohen_kappa_score(wrong, flagged))
    assert auc(values) == pytest.approx(roc_auc_score(wrong, share))
    for aggregation, of_documents in ((detection.balanced_accuracy, counts), (auc, values)):
        figure = aggregation.figure(of_documents)
        rows = aggregation.rows(of_documents)  # type: ignore[misc]
        assert rows.values.mean() == pytest.approx(figure.value)
        assert rows.values.std(ddof=1) / math.sqrt(80) == pytest.approx(figure.standard_error, rel=0.1)
        assert figure.low < figure.value < figure.high
        assert aggregation.figure(of_documents[::-1]) == figure  # ranks gather in an order of their own
    alone = [[pair] for value in values for pair in value]  # as if sentences of an answer were independent
    assert auc.figure(alone).value == pytest.approx(auc(values))


@pytest.mark.parametrize("values", [[], [[[0.5, 1.0]]], [[[0.5, 0.0]], [[0.1, 0.0]]]])
def test_one_class_alone_has_no_score(values: Any) -> None:
    assert math.isnan(auc(values))
    assert np.isnan(auc_rows(values).values).all()
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
        ('{"verdict": "Supported"}', SUPPORTED),
        ("Verdict: Supported. All of it is supported by passage 1.", SUPPORTED),
        ("not-supported", NOT_SUPPORTED),
        ("Verdict: Supported or Not Supported", "unread"),
        ("Supported / Not Supported", "unread"),
        ("Verdict: partly supported", "unread"),
        ("Verdict: Not fully supported", "unread"),
        ("> Verdict: Supported", "unread"),
        ("I think that it is supported.", "unread"),
        ("Supported\nNot Supported", "unread"),
        ("", "unread"),
        (None, "unread"),
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
    assert detection.balanced_accuracy.figure([None, [1, 0, 0, 0], [0, 0, 0, 1]]).n == 2


# ---------------------------------------------------------------------------------------------------------------- runs


def test_what_people_judged_scores_one(harness: Harness, tmp_path: Path) -> None:
    """Through `replay`: a language model that tags what is not supported."""
    rows = [{"id": row["id"], "response": f"<think>Hm.</think>{row['target']}"} for row in documents("hi", **SAMPLE)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    got = harness(["memerag_hi"], "replay", f"path={tmp_path / 'a.jsonl'}", metadata=SAMPLE)
    scores = ("balanced_accuracy", "auc", "sentence_f1", "f1")
    assert [got["results"]["memerag_hi"][f"{metric},tags"] for metric in scores] == [1, 1, 1, 1]
    assert figures_of(got, "memerag_hi")["auc"]["n"] == 4
    kept = got["configs"]["memerag_hi"]["metadata"]["provenance"]["left_out"]
    assert kept == {"sentences left out, as hard to tell": 1}


def test_the_group_is_the_mean_of_the_languages(harness: Harness) -> None:
    got = harness(["memerag"], "hallucination-detector", "detector=lexical", metadata=SAMPLE)
    values = [got["results"][f"memerag_{code}"]["auc,tags"] for code in LANGUAGES]
    assert got["groups"]["memerag"]["auc,tags"] == pytest.approx(sum(values) / 5)


def test_stored_verdicts_are_scored_and_compared_from_a_shell(hub: str, tmp_path: Path) -> None:
    judged = list(dataset.load_sentences("de", mirror=hub)["evaluation"])
    results = {}
    for name, often in (("good", 9), ("bad", 3)):
        replies = [f"Verdict: {row['label'] if at % often else SUPPORTED}" for at, row in enumerate(judged)]
        replies[7] = "I cannot say."
        rows = [{"id": row["id"], "response": reply} for row, reply in zip(judged, replies, strict=True)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
        judge = ["--model", "replay", "--model_args", f"path={name}.jsonl", "--tasks", "memerag_judge_de"]
        options = ["--metadata", f"mirror={hub}", "--log_samples", "--output_path", name]
        run([command("lm_eval"), *judge, *options], tmp_path)
        results[name] = results_of(tmp_path / name)["results"]["memerag_judge_de"]
        read = [(row["label"], reply.removeprefix("Verdict: ")) for row, reply in zip(judged, replies, strict=True)]
        wrong, flagged = (np.array(side) == NOT_SUPPORTED for side in zip(*(read[:7] + read[8:]), strict=True))
        assert results[name]["balanced_accuracy,verdict"] == pytest.approx(balanced_accuracy_score(wrong, flagged))
        assert results[name]["sentence_f1,verdict"] == pytest.approx(f1_score(wrong, flagged))
        assert results[name]["kappa,verdict"] == pytest.approx(cohen_kappa_score(wrong, flagged))
        assert results[name]["unread_rate,verdict"] == pytest.approx(1 / 458)
    by_metric = {row.metric: row for row in compare_runs(read_runs([tmp_path / "good", tmp_path / "bad"])).differences}
    for metric, row in by_metric.items():
        assert (row.first_value, row.second_value) == pytest.approx(
            tuple(results[name][f"{metric},verdict"] for name in ("good", "bad"))
        )
        assert (row.better, row.significant) == (0, True)
    assert by_metric.keys() == {"balanced_accuracy", "sentence_f1"}


def test_auc_is_compared_by_its_linearised_values(tmp_path: Path) -> None:
    first, second = drawn(60, 2), drawn(60, 2)
    for value in second:
        value[0][0] = 0.5
    places = [
        written_samples(tmp_path / str(n), "memerag_de", [{"auc": value} for value in values])
        for n, values in enumerate((first, second))
    ]
    (row,) = compare_runs(read_runs(places), every_metric=True).select("auc", "memerag_de")
    assert (row.first_value, row.second_value) == pytest.approx((auc(first), auc(second)))


# --------------------------------------------------------------------------------------------- calibration and training


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
    entry = load_calibration(file).for_language("de", "rag")
    assert entry is not None
    assert entry.source == "memerag_de"
    assert entry.counts == tuple(
        map(sum, zip(*(count_of(row) for row in documents("de", mirror=hub)[:60]), strict=True))
    )
    assert load_calibration(file).for_language("de") is None
    doc = mfava.load("de", calibration=file, mirror="sample")["evaluation"][0]
    assert in_force(CalibrationKey.from_document(doc, load_calibration(file).detector), "mfava_de") is None
    with pytest.raises(ValueError, match="unknown calibration_annotations 'rag'; known are gold, pooled, real, silver"):
        mfava.load("de", calibration=file, calibration_annotations="rag", mirror="sample")


def count_of(row: dict[str, Any]) -> WordCounts:
    """The words of a document's judged sentences as `lexical` flags them, counted sentence by sentence."""
    (spans,) = load_detector("lexical").detect([row["reference"]], [row["answer"]], ["de"], [row["query"]])
    of_sentences = []
    for start, end, label in ((sentence["start"], sentence["end"], sentence["label"]) for sentence in row["sentences"]):
        if label != HARD_TO_TELL:
            inside = [s._replace(start=max(0, s.start - start), end=s.end - start) for s in spans if s.end > start]
            gold = [Span(0, end - start)] if label == NOT_SUPPORTED else []
            of_sentences.append(count_words(row["answer"][start:end], "de", gold, inside))
    return WordCounts(*map(sum, zip(*of_sentences, strict=True)))


def labelled(row: dict[str, Any], **other: Any) -> dict[str, Any]:
    spans = [[span["start"], span["end"]] for span in row["spans"]]
    return {
        **{
            "question": row["query"],
            "reference": row["reference"],
            "answer": row["answer"],
            "language": row["language"],
        },
        **{"spans": spans, "annotations": "rag", **other},
    }


OWN = labelled({**GOOD, "reference": "Warsaw.", "answer": "Warsaw is in Poland.", "language": "en", "spans": []})


@pytest.mark.parametrize(
    "name", ["memerag", "memerag_de", "MEMERAG", "hub/amazon-science/MEMERAG/data/memerag/de.jsonl"]
)
def test_training_refuses_memerag_by_name(name: str) -> None:
    with pytest.raises(UsageError, match=f"--data {name}: MEMERAG asks not to be trained on.*CC BY-NC 4.0"):
        read_data([name], "sample", Counter())


@pytest.mark.parametrize(
    ("language", "mirror", "changed"),
    [
        ("de", "hub", {}),  # by digests that ship: the sample's files hold other answers
        ("es", "hub", {"question": "", "reference": "another"}),
        ("de", "hub", {"answer": "Eine ganz andere Antwort, die jemand selbst geschrieben hat.", "spans": []}),
        ("fr", "sample", {}),  # by the files of the mirror
        ("hi", "sample", {"question": "", "reference": ""}),
    ],
)
def test_training_refuses_memerag_by_content(
    request: pytest.FixtureRequest, tmp_path: Path, language: str, mirror: str, changed: dict[str, Any]
) -> None:
    source = request.getfixturevalue("hub") if mirror == "hub" else "sample"
    rows = [labelled(row, **changed) for row in documents(language, mirror=source)[:3]]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, [OWN, *rows])), "utf-8")
    with pytest.raises(UsageError, match=r"mine\.jsonl: \d of its 4 answers are MEMERAG's") as refused:
        read_data([str(tmp_path / "mine.jsonl")], "sample", Counter())
    assert "\n" not in str(refused.value)


def test_training_takes_answers_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text(json.dumps(OWN), "utf-8")
    documents, _ = read_data([str(tmp_path / "mine.jsonl")], "sample", Counter())
    assert [document.annotations for document in documents] == ["rag"]


@pytest.mark.one_python("what the public data hold")
def test_the_digests_are_those_of_the_mirror(hub: str) -> None:
    """`python -m lm_eval_tasks.memerag.contamination` would change nothing."""
    table = Path(contamination.__file__).with_name("contamination.tsv").read_text("utf-8").split()
    assert table == ["digest", *sorted(contamination._digests_of_files(hub))]
