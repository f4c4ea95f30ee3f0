"""CLAPnq: documents, prompt, metrics, and the paper's own row."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.scores.grounding import process_results, process_results_with_retrieval
from lm_eval_tasks.clapnq.benchmark import BENCHMARK
from lm_eval_tasks.clapnq.dataset import load, load_task
from lm_eval_tasks.data.sources import CorruptSource
from tests.miniature import MINIATURE

load_gold = partial(load_task, task_name="clapnq_gold")
load_rag_bm25 = partial(load_task, task_name="clapnq_rag", task_retriever="bm25")


def test_answers_have_the_metrics_of_the_table_and_retrieval_adds_its_own() -> None:
    gold, rag = ({metric.name for metric in base.metrics} for base in BENCHMARK.bases)
    assert rag - gold == {"gold_retrieved", "ndcg@10", "recall@10"}
    answerable: dict[str, Any] = {"answerable": True, "answers": ["a"], "groundings": ["a"]}
    answerable |= {"gold_ids": ["p"], "retrieved_ids": ["p"], "gold_ranks": [1]}
    for doc in (answerable, answerable | {"answerable": False, "answers": [], "gold_ids": [], "gold_ranks": []}):
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
        (
            {"retriever": "google"},
            "clapnq: unknown retriever 'google'; known are bge, bm25, dense, e5, minilm, run",
        ),
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
