"""Retrievers of other packages, found by name: their options, their rankings, and the way into the tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.clapnq.corpus import Corpus
from lm_eval_tasks.clapnq.dataset import load_task
from lm_eval_tasks.clapnq.retrieval import RETRIEVERS, names, open_retriever
from lm_eval_tasks.clapnq.retrieval.run import read_run
from lm_eval_tasks.commands.retrieve import retrieve
from lm_eval_tasks.harness.autoload import task_folder
from tests.conftest import evaluate
from tests.miniature import MINIATURE
from tests.test_retrieval import asked, ids, write_corpus


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    rows = [("p001", "short", "A"), ("p002", "a much longer text", "B"), ("p003", "a longer text", "C")]
    return Corpus.open(write_corpus(tmp_path / "passages.tsv", rows))


@pytest.mark.usefixtures("theirs")
def test_a_retriever_of_another_package_has_its_own_options_and_says_whose_it_is(corpus: Corpus) -> None:
    assert names() == sorted([*RETRIEVERS, "length", "wrong", "dumb", "nothing"])
    longest = open_retriever("length", corpus)
    assert longest.search(asked("x", "y"), 2) == [[("p002", 20.0), ("p003", 15.0)]] * 2
    assert longest.describe() == {"retriever": "length", "order": "longest", "package": "somebodys-package 1.5"}
    for said in ("order=shortest", '{"order": "shortest"}'):
        shortest = open_retriever("length", corpus, {"retriever_args": said, "encoder": "not for it"})
        assert ids(shortest.search(asked("x"), 3)[0]) == ["p001", "p003", "p002"]
        assert shortest.describe()["order"] == "shortest"


@pytest.mark.usefixtures("theirs")
@pytest.mark.parametrize(
    ("name", "said", "message"),
    [
        ("length", "order=random", r"^clapnq: retriever length: order is longest or shortest, got 'random'$"),
        ("length", "shortest", r"^clapnq: retriever_args must be JSON or name=value;name=value, got 'shortest'$"),
        ("nothing", None, r"^clapnq: retriever nothing: nothing\(\) takes 0 positional arguments"),
        ("wrong", "how=few", r"wrong of somebodys-package 1\.5: 0 rankings for 2 questions$"),
        ("wrong", "how=unknown", r"question q1: passage 'no-such-passage' is not in the corpus$"),
        ("wrong", "how=twice", r"question q1: a passage stands twice$"),
        ("wrong", "how=rising", r"question q1: scores are not finite, or rise$"),
        ("wrong", "how=infinite", r"question q1: scores are not finite, or rise$"),
        ("lenght", None, r"^clapnq: unknown retriever 'lenght'; did you mean 'length'\? There are bge, bm25, .*length"),
    ],
)
def test_a_retriever_that_cannot_be_used_says_why(corpus: Corpus, name: str, said: str | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_retriever(name, corpus, {"retriever_args": said}).search(asked("x", "y"), 2)


@pytest.mark.usefixtures("theirs")
def test_what_it_says_of_itself_must_go_into_a_results_file(corpus: Corpus) -> None:
    with pytest.raises(UsageError, match=r"dumb of somebodys-package 1\.5: describe\(\) gives what is no JSON"):
        open_retriever("dumb", corpus).describe()


@pytest.mark.usefixtures("theirs")
def test_its_run_is_what_the_tasks_read(tmp_path: Path) -> None:
    """The way to evaluate a model with any retriever, and a task of one's own that retrieves by itself."""
    file = tmp_path / "length.run"
    retrieved = retrieve("length", "validation", 10, file, {"retriever_args": "order=shortest"}, MINIATURE)
    assert retrieved.described["package"] == "somebodys-package 1.5"
    rows = load_task(task_name="clapnq_rag_run", task_retriever="run", mirror=MINIATURE, run=str(file))["evaluation"]
    assert all(row["retrieved_ids"] == ids_of_run(file) for row in rows)
    its_run = r"""-o FILE` writes its run, and clapnq_rag_run reads it with --metadata '{"run": "FILE"}'\.$"""
    with pytest.raises(UsageError, match=rf"length has none: `lm-eval-grounded retrieve --retriever length {its_run}"):
        load_task(task_name="clapnq_rag", task_retriever="bm25", retriever="length")
    with pytest.raises(ValueError, match=r"option bm25_split is for bm25, not for length$"):
        retrieve("length", "dev", 10, None, {"bm25_split": True}, MINIATURE)
    with pytest.raises(ValueError, match=r"option retriever_args is for those of other packages, not for bm25$"):
        retrieve("bm25", "dev", 10, None, {"retriever_args": "order=shortest"}, MINIATURE)

    bases = [str(Path(task_folder(), "clapnq", base)) for base in ("_rag_base", "_prompt_flan")]
    (tmp_path / "mine.yaml").write_text(
        f"include: {json.dumps(bases)}\ntask: clapnq_rag_length\n"
        "dataset_kwargs:\n  task_name: clapnq_rag_length\n  task_retriever: length\n"
    )
    metadata = {"mirror": MINIATURE, "retriever_args": "order=shortest", "top_k": 2}
    options: dict[str, Any] = {"include_path": [str(tmp_path)], "metadata": metadata, "bootstrap_iters": 0}
    results = evaluate(["clapnq_rag_length"], "grounded-baseline", "strategy=full_passage", **options)
    docs = [sample["doc"] for sample in results["samples"]["clapnq_rag_length"]]
    assert {tuple(doc["retrieved_ids"]) for doc in docs} == {tuple(ids_of_run(file))}
    assert {json.loads(doc["retriever"])["package"] for doc in docs} == {"somebodys-package 1.5"}


def ids_of_run(file: Path) -> list[str]:
    """The ranking that all questions of a run have."""
    (ranking,) = {tuple(id for id, _ in ranking) for ranking in read_run(file).values()}
    return [*ranking]
