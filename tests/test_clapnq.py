"""CLAPnq: documents, gold passages, the record of both, what is logged, and the paper's own row."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.scores.grounding import process_results, process_results_with_retrieval
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.clapnq import dataset
from lm_eval_tasks.clapnq.benchmark import BENCHMARK
from lm_eval_tasks.clapnq.corpus import Corpus, gold_ids
from lm_eval_tasks.clapnq.dataset import load, load_task, open_corpus, questions_by_kind
from lm_eval_tasks.data import provenance
from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.definition import in_turn
from tests.miniature import MINIATURE

load_gold = partial(load_task, task_name="clapnq_gold")
load_rag_bm25 = partial(load_task, task_name="clapnq_rag", task_retriever="bm25")


def test_answers_have_the_metrics_of_the_table_and_retrieval_adds_its_own() -> None:
    gold, rag = ({metric.name for metric in base.metrics} for base in BENCHMARK.bases)
    assert rag - gold == {"gold_retrieved", "ndcg@10", "recall@10"}
    both: dict[str, Any] = {"answers": ["a"], "groundings": ["a"], "gold_ids": ["p"], "retrieved_ids": ["p"]}
    for answerable in (True, False):
        doc = {**both, "answerable": answerable, "gold_ranks": [1]}
        assert process_results(doc, ["x"]).keys() == gold
        assert process_results_with_retrieval(doc, ["x"]).keys() == rag


def test_documents_say_which_passage_is_the_gold_one(hub: str) -> None:
    documents = load_rag_bm25(mirror=hub)["evaluation"]
    for doc in documents:
        ids = [passage["id"] for passage in doc["passages"]]
        assert [ids[rank - 1] for rank in doc["gold_ranks"]] == [id for id in ids if id in doc["gold_ids"]]
        assert doc["answerable"] or not doc["gold_ids"]
    answerable = [doc for doc in documents if doc["answerable"]]
    assert sum(bool(doc["gold_ranks"]) for doc in answerable) == 268
    assert len(answerable) == 300


PAPER = {"rougeL": 49.5, "recall": 97.4, "rougeLp": 100.0, "length": 912, "unanswerable_accuracy": 0.0}


@pytest.mark.one_python("figures of the public data")
def test_the_full_passage_has_the_papers_row(hub: str, shared: Path, harness: Callable[..., dict[str, Any]]) -> None:
    """Table 5, dev, "Full Passage"; from unrounded values through the harness."""
    table = (shared / "reference" / "published" / "clapnq_table5_gold.csv").read_text("utf-8").splitlines()
    (row,) = (row.split(",")[2:7] for row in table if row.startswith("Full Passage"))
    assert [*map(float, row)] == [*PAPER.values()]
    results = harness(["clapnq_gold"], "grounded-baseline", "strategy=full_passage", metadata={"mirror": hub})
    found = {metric: results["results"]["clapnq_gold"][f"{metric},answer"] for metric in PAPER}
    assert {name: round(value) if name == "length" else round(100 * value, 1) for name, value in found.items()} == PAPER
    assert results["n-samples"]["clapnq_gold"] == {"original": 600, "effective": 600}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": "test"}, "clapnq: unknown split 'test'; known are dev, train, validation"),
        ({"retriever": "google"}, "clapnq: unknown retriever 'google'; known are bge, bm25, dense, e5, minilm, run"),
        ({"split": ["dev"]}, r"clapnq: split takes one value, got \['dev'\]"),
        ({"retriever": "bm25", "bm25_split": "no"}, "clapnq: bm25_split must be true or false, got 'no'"),
        ({"top_k": 0}, "clapnq: top_k must be a whole number of at least 1, got 0"),
        ({"retriever": "bm25", "top_k": 61}, r"clapnq: top_k=61 is larger than the corpus \(60 passages\)"),
    ],
)
def test_an_unknown_value_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(**{"mirror": MINIATURE, **arguments})


HEADER = "id\ttext\ttitle\n"
CORPUS, ANSWERABLE = "clapnq_passages/passages.tsv", "clapnq/clapnq_dev_answerable.jsonl"
ASKED = '{"id": "1", "input": "q", '


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (CORPUS, HEADER, "the corpus is empty"),
        (CORPUS, "id\ttext\n1\tx\n", r"the header lacks the columns \['title'\]"),
        (CORPUS, HEADER + "1\tx\tT\n2\ty\n", r"line 3: too few columns, no value for \['title'\]"),
        (CORPUS, HEADER + "1\tx\tT\n1\ty\tT\n", "1 passage ids stand twice"),
        (CORPUS, HEADER + '1\tx\t"T\n2\ty\tT\n', "unexpected end of data"),
        (ANSWERABLE, '{"id": "1"', "line 1: no JSON"),
        (ANSWERABLE, '{"id": "1", "input": "q"}', "line 1: not a CLAPnq annotation"),
        (ANSWERABLE, ASKED + '"passages": [{"title": "T", "text": null}], "output": []}', "no passage with title"),
        (ANSWERABLE, ASKED + '"passages": [], "output": []}', "no passage with title and text"),
        (ANSWERABLE, ASKED + '"passages": [], "output": [{"answer": null}]}', "not a CLAPnq annotation"),
    ],
)
def test_a_broken_file_is_named(mirror: Path, file: str, content: str, message: str) -> None:
    (mirror / "PrimeQA" / file).write_text(content + "\n" * (file == ANSWERABLE), "utf-8")
    with pytest.raises(CorruptSource, match=message):
        (load_rag_bm25 if file == CORPUS else load_gold)(mirror=str(mirror))


PASSAGES = [("p1", "Moon", "pulls the water"), ("p2", "Sun", " shines "), ("p3", "Sea", "is salt")]
PASSAGES.append(("p4", "Ice", "is cold"))
DOCUMENTS = [("q1", "why tides", "pulls the water", ["The Moon.", " "]), ("q2", "why salt", "is salt", [" Rivers. "])]
WITHOUT_ANSWER = [("q3", "who", "shines"), ("q4", "when", "is cold"), ("q5", "where", "is salt")]


def annotation(id: str, question: str, text: str, answers: list[str]) -> str:
    row = {"id": id, "input": question, "passages": [{"title": "T", "text": text}]}
    return json.dumps({**row, "output": [{"answer": answer} for answer in answers]})


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    dataset._documents.cache_clear()
    folder = tmp_path / "mirror"
    files = {
        "PrimeQA/clapnq/clapnq_{}_answerable.jsonl": [annotation(*row) for row in DOCUMENTS],
        "PrimeQA/clapnq/clapnq_{}_unanswerable.jsonl": [annotation(*row, []) for row in WITHOUT_ANSWER],
        "PrimeQA/clapnq_passages/passages.tsv": [
            HEADER[:-1],
            *(f"{id}\t{text}\t{title}" for id, title, text in PASSAGES),
        ],
        "github/primeqa/clapnq/retrieval/{0}/question_{0}_answerable.tsv": [
            "id\tquestion\tdoc-id-list\tanswers",
            "q1\twhy tides\tp1\ta",
            "q2\twhy salt\tp4::p9, p3\ta",
        ],
    }
    for name, lines in files.items():
        for split in ("dev", "train"):
            path = folder / name.format(split)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(lines) + "\n", "utf-8")
    return folder


@pytest.fixture(autouse=True)
def _warnings_only(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever an earlier test asked for."""
    caplog.set_level(logging.WARNING, "lm_eval")


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [f"{record.levelname} {record.getMessage()}" for record in caplog.records if "clapnq" in record.name]
    caplog.clear()
    return found


def test_questions_with_and_without_answer_come_in_turn(mirror: Path) -> None:
    rows = in_turn(questions_by_kind("validation", str(mirror)))
    assert [row["id"] for row in rows] == ["q1", "q3", "q2", "q4", "q5"]
    assert rows[0] == {
        **{"id": "q1", "question": "why tides", "answerable": True, "answers": ["The Moon."], "target": "The Moon."},
        "passages": [{"id": "", "title": "T", "text": "pulls the water"}],
        "groundings": ["T pulls the water"],
    }
    assert (rows[1]["target"], rows[1]["answerable"]) == ("unanswerable", False)


def test_answerable_questions_without_an_answer_have_no_target(mirror: Path) -> None:
    path = mirror / "PrimeQA/clapnq/clapnq_dev_answerable.jsonl"
    path.write_text(annotation("7", "q", "x", [" ", ""]) + "\n" + annotation("8", "q", "x", ["a"]) + "\n", "utf-8")
    rows = in_turn(questions_by_kind("dev", str(mirror)))
    assert (rows[0]["answers"], rows[0]["target"]) == ([], "unanswerable")
    path.write_text("\n", "utf-8")
    with pytest.raises(CorruptSource, match=r"answerable\.jsonl holds no question; delete it and fetch it again$"):
        in_turn(questions_by_kind("dev", str(mirror)))


def test_documents_without_retrieval(mirror: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "lm_eval")
    found = load(mirror=str(mirror), name="t")
    assert {*found} == {"evaluation", "validation"}
    columns = {"id", "question", "answerable", "answers", "target", "passages", "groundings"}
    assert {*found["evaluation"].column_names} == columns
    assert logged(caplog) == [f"INFO t: 5 questions, split validation, the gold passage, files from {mirror}"]
    record = provenance.of_dataset(found["evaluation"])
    assert (record["split"], record["options"]) == ("validation", {"split": "validation"})
    assert record["kept"] == {"answerable": 2, "unanswerable": 3}
    assert not record.get("corpus")
    assert not any("where the paper has dev" in reason for reason in record["not_comparable"])
    train = provenance.of_dataset(load(mirror=str(mirror), split="train")["train"])
    assert "split train, where the paper has dev" in train["not_comparable"]


def test_documents_with_retrieved_passages(mirror: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "lm_eval")
    run = tmp_path / "mine.run"
    ranked = {"q1": ["p2", "p1", "p3"], "q2": ["p1", "p2", "p3", "p4"], "q3": ["p1", "p2"], "q4": ["p4"]}
    lines = (f"{id} Q0 {found[n]} {n + 1} {9 - n} me\n" for id, found in ranked.items() for n in range(len(found)))
    run.write_text("".join(lines), "utf-8")
    documents = load(mirror=str(mirror), name="t", retriever="run", run=str(run), top_k=2)["evaluation"]
    rows = {row["id"]: row for row in documents}
    assert rows["q1"]["passages"] == [
        {"id": "p2", "title": "Sun", "text": " shines "},
        {"id": "p1", "title": "Moon", "text": "pulls the water"},
    ]
    assert rows["q1"]["groundings"][1] == "Moon pulls the water"
    assert {id: (row["gold_ids"], row["gold_ranks"], row["retrieved_ids"]) for id, row in rows.items()} == {
        **{"q1": (["p1"], [2], ranked["q1"]), "q2": (["p4", "p3"], [], ranked["q2"]), "q3": ([], [], ranked["q3"])},
        **{"q4": ([], [], ["p4"]), "q5": ([], [], [])},
    }
    described = json.loads(rows["q1"]["retriever"])
    assert (described["passages_given"], described["questions_with_fewer_passages"]) == (2, 2)
    messages = logged(caplog)
    assert messages[-1] == f"INFO t: 5 questions, split validation, top 2 of run, files from {mirror}"
    assert "WARNING t: 1 gold passages are not in the corpus" in messages

    record = provenance.of_dataset(documents)
    digest = hashlib.sha256(run.read_bytes()).hexdigest()
    assert {name: record[name] for name in ("options", "corpus", "retrieval", "local_files")} == {
        "options": {"split": "validation", "retriever": "run", "top_k": 2, "run": "mine.run"},
        "corpus": {"passages": 4, "published": 178_891},
        "retrieval": described,
        "local_files": [{"option": "run", "name": "mine.run", "sha256": digest}],
    }
    assert "the corpus holds 4 of 178,891 passages" in "\n".join(record["not_comparable"])


def test_ten_passages_are_kept_of_those_found(mirror: Path) -> None:
    path = mirror / "PrimeQA/clapnq_passages/passages.tsv"
    path.write_text("id\ttext\ttitle\n" + "".join(f"p{n}\twhy tides {'x ' * n}\tT\n" for n in range(1, 15)), "utf-8")
    assert len(open_corpus(str(mirror))) == 14
    for top_k, given in ((3, 3), (12, 12)):
        first = load(mirror=str(mirror), retriever="bm25", top_k=top_k)["evaluation"][0]
        assert (len(first["passages"]), len(first["retrieved_ids"])) == (given, 10)


def test_only_answerable_questions_have_gold_passages(mirror: Path, tmp_path: Path) -> None:
    """The question file names one of q3, which is unanswerable, and none of q2."""
    path = mirror / "github/primeqa/clapnq/retrieval/dev/question_dev_answerable.tsv"
    path.write_text("id\tdoc-id-list\nq1\tp1\nq3\tp2\n", "utf-8")
    run = tmp_path / "läufe.run"
    run.write_text("".join(f"q{n} Q0 p{n} 1 1.0 me\n" for n in (1, 2, 3)), "utf-8")
    documents = load(mirror=str(mirror), name="t", retriever="run", run=str(run))["evaluation"]
    assert {row["id"]: row["gold_ids"] for row in documents if row["gold_ids"]} == {"q1": ["p1"]}
    assert '"file": "läufe.run"' in documents[0]["retriever"]  # to be read in samples


COME_FROM = "(--metadata) does not fit: this task's passages come from"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"task_name": "clapnq_rag", "task_retriever": "bm25", "retriever": "google"},
            f"clapnq_rag: the retriever 'google' {COME_FROM} bm25. Every retriever has a task of its own: "
            "clapnq_rag (bm25), clapnq_rag_minilm, clapnq_rag_bge, ",
        ),
        ({"retriever": "bm25"}, f"clapnq: the retriever 'bm25' {COME_FROM} the gold annotation."),
    ],
)
def test_a_retriever_of_another_task_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(says)}"):
        load_task.options(given)
    same = {"task_name": "clapnq_rag", "task_retriever": "bm25", "retriever": "bm25"}
    assert load_task.options(same) == {"name": "clapnq_rag", "retriever": "bm25"}


def test_options_of_a_detector_without_one_change_nothing(mirror: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = load(mirror=str(mirror), name="t", detector_args="threshold=0.5", calibration_annotations="gold")
    assert "detector" not in found["evaluation"].column_names
    assert logged(caplog)[0] == (
        "WARNING t: no detector is named, so these change nothing here: detector_args, calibration_annotations"
    )


def asked(*rows: tuple[str, bool, str]) -> list[dict[str, Any]]:
    return [{"id": id, "answerable": answerable, "passages": [{"text": text}]} for id, answerable, text in rows]


def test_gold_passages_are_those_of_the_question_file(mirror: Path, caplog: pytest.LogCaptureFixture) -> None:
    corpus = Corpus.open(mirror / "PrimeQA/clapnq_passages/passages.tsv")
    rows = asked(("q1", True, "x"), ("q7", True, "y"), ("q3", False, "z"))
    path = mirror / "github/primeqa/clapnq/retrieval/dev/question_dev_answerable.tsv"
    path.write_text("id\tdoc-id-list\nq1\tp3:: p1 ,,\nq2\tp8\nq7\tp9::p8\n", "utf-8")
    assert gold_ids(rows, "dev", corpus, str(mirror), "t") == {"q1": ["p3", "p1"], "q2": [], "q7": []}
    assert logged(caplog) == [
        "WARNING t: 3 gold passages are not in the corpus",
        "WARNING t: 1 answerable questions have no gold passage in the corpus; retrieval is not scored there",
    ]


def test_without_the_question_file_the_text_finds_gold_passages(mirror: Path, caplog: pytest.LogCaptureFixture) -> None:
    corpus = Corpus.open(mirror / "PrimeQA/clapnq_passages/passages.tsv")
    rows = asked(("q1", True, " pulls the water\n"), ("q2", True, "unheard"), ("q3", False, "is salt"))
    (mirror / "github/primeqa/clapnq/retrieval/train/question_train_answerable.tsv").unlink()
    assert gold_ids(rows, "train", corpus, str(mirror), "t") == {"q1": ["p1"]}
    by_text, without = logged(caplog)
    assert by_text.startswith("WARNING t: the gold passages of 1 of 2 questions were found by their text, because ")
    assert "question_train_answerable.tsv" in by_text
    assert without.startswith("WARNING t: 1 answerable questions have no gold passage")


def test_questions_of_an_earlier_run_come_from_its_samples(tmp_path: Path) -> None:
    passages = [{"id": "p1", "title": "Moon", "text": "pulls"}, {"id": "p2", "title": "Sun", "text": "shines"}]
    doc = {"id": "q1", "question": "why", "answerable": True, "answers": ["a", "b"], "passages": passages, "more": 1}
    path = tmp_path / "samples_t_2026-01-01T00-00-00.jsonl"

    def write(**changes: Any) -> None:
        path.write_text(json.dumps({"doc_id": 0, "doc": doc | changes, "resps": [["x"]]}) + "\n", "utf-8")

    write()
    (row,) = load(name="t", samples=str(path), detector="lexical")["evaluation"]
    assert (row["groundings"], row["target"], row["detector"]) == (["Moon pulls", "Sun shines"], "a", "lexical")
    assert not {"more", "retriever"} & {*row}
    with pytest.raises(CorruptSource, match="has no gold_ids, retrieved_ids, gold_ranks, retriever; it is none of t"):
        load(name="t", samples=str(path), retriever="bm25")
    places: dict[str, Any] = {"gold_ids": ["p2"], "retrieved_ids": ["p1", "p2"], "gold_ranks": [2]}
    retrieved = {**places, "retriever": '{"retriever": "x"}'}
    write(**retrieved)
    documents = load(name="t", samples=str(tmp_path), retriever="bm25")["evaluation"]
    assert {key: documents[0][key] for key in retrieved} == retrieved
    assert provenance.of_dataset(documents)["retrieval"] == {"retriever": "x"}
    for changes, fault in (
        ({"passages": ["a"]}, "TypeError"),
        ({"passages": [{"id": "a", "title": "b"}]}, "'text'"),
        ({**retrieved, "retriever": "{"}, "JSONDecodeError"),
    ):
        write(**changes)
        with pytest.raises(CorruptSource, match=f"a document of t is damaged: .*{fault}"):
            load(name="t", samples=str(path), retriever="bm25" if retrieved.keys() <= changes.keys() else None)
