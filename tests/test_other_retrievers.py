"""Rankings from elsewhere: TREC run files, and retrievers of other packages, found by name."""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.clapnq.corpus import Corpus
from lm_eval_tasks.clapnq.dataset import load_task
from lm_eval_tasks.clapnq.retrieval import RETRIEVERS, Question, Ranking, names, open_retriever
from lm_eval_tasks.clapnq.retrieval.run import Run, read_run, write_run
from lm_eval_tasks.commands.retrieve import retrieve
from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.harness.autoload import task_folder
from tests.conftest import evaluate
from tests.miniature import MINIATURE
from tests.test_retrieval import ROWS, asked, ids, write_corpus


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


Q1, Q2, Q3, Q4 = (Question(id, "what?") for id in ("q1", "q2", "q3", "q4"))

RUN = """\
q1 Q0 p3 1 9.5 mine
q1 Q0 p1 2 7.25 mine
q1 Q0 p4 3 7.25 mine
q2 Q0 p1 1 -0.5 mine
q2 Q0 p2 2 -1e3 mine
"""
RANKINGS: dict[str, Ranking] = {"q1": [("p3", 9.5), ("p1", 7.25), ("p4", 7.25)], "q2": [("p1", -0.5), ("p2", -1000.0)]}


@pytest.fixture
def corpus_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    monkeypatch.setenv("LM_EVAL_GROUNDED_CACHE", str(tmp_path / "cache"))
    return Corpus.open(write_corpus(tmp_path / "passages.tsv", ROWS))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.run"
    path.write_text(RUN, "utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    [
        RUN,
        RUN.replace("\n", "\r\n"),
        RUN.replace(" ", "\t"),
        RUN.replace("\n", "\n\n"),
        RUN.removesuffix("\n"),
        "\n".join(sorted(RUN.splitlines(), key=lambda line: line.split()[3])),  # questions in turn
        RUN.replace(" 2 ", " 20 ").replace(" 3 ", " 30 "),  # ranks with gaps
        "".join(f"{line[:9]}{int(line[9]) - 1}{line[10:]}\n" for line in RUN.splitlines()),  # ranks from 0
        RUN.replace("Q0", "0").replace("mine", "BM25-v2"),  # columns that nobody reads
    ],
)
def test_a_run_is_read_however_it_was_written(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.run"
    path.write_bytes(text.encode())
    assert read_run(path) == RANKINGS
    compressed = tmp_path / "x.run.gz"
    compressed.write_bytes(gzip.compress(text.encode()))
    assert read_run(compressed) == RANKINGS


@pytest.mark.parametrize(
    ("line", "message"),
    [
        *((line, None) for line in ("q1 Q0 p2 4 1.0", "q1 Q0 p2 4 1.0 my name", "q1 Q0 p2 fourth 1.0 mine")),
        ("q1 Q0 p2 4 1,5 mine", None),
        ("q1 Q0 p2 4 nan mine", "question q1: scores are not finite, or rise"),
        ("q3 Q0 p2 1 -inf mine", "question q3: scores are not finite, or rise"),
        ("q1 Q0 p1 4 1.0 mine", "question q1: a passage stands twice"),
        ("q1 Q0 p2 4 7.5 mine", "question q1: scores are not finite, or rise"),
    ],
)
def test_what_is_no_run_is_refused_by_file_and_line(file: Path, line: str, message: str | None) -> None:
    file.write_text(RUN + line + "\n", "utf-8")
    with pytest.raises(CorruptSource) as refused:
        read_run(file)
    no_line = "line 6: no line of a TREC run, which has six columns, question Q0 passage rank score name, with"
    assert str(refused.value).startswith(f"{file}, {message or no_line}")


def test_lines_are_in_the_order_of_their_ranks(file: Path) -> None:
    file.write_text("q1 Q0 p2 2 1.0 x\nq1 Q0 p1 1 2.0 x\n", "utf-8")
    assert read_run(file) == {"q1": [("p1", 2.0), ("p2", 1.0)]}


IDS = st.text(st.characters(exclude_categories=("Z", "C")), min_size=1, max_size=8)
SCORES = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def rankings(draw: st.DrawFn) -> dict[str, Ranking]:
    def ranking() -> Ranking:
        passages = draw(st.lists(IDS, unique=True, min_size=1, max_size=5))
        scores = draw(st.lists(SCORES, min_size=len(passages), max_size=len(passages)))
        return list(zip(passages, sorted(scores, reverse=True), strict=True))

    return {question: ranking() for question in draw(st.lists(IDS, unique=True, max_size=4))}


@settings(deadline=None)
@given(written=rankings())
def test_what_is_written_is_read_again_to_the_last_digit(written: dict[str, Ranking]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "some" / "where.run"
        write_run(path, written.items(), "any")
        assert read_run(path) == written
        assert [file.name for file in path.parent.iterdir()] == ["where.run"]


def test_the_file_is_as_trec_eval_wants_it_and_compressed_where_its_name_ends_in_gz(tmp_path: Path) -> None:
    rankings: list[tuple[str, Ranking]] = [("q1", [("p3", 0.1), ("p1", -2.0)]), ("q2", []), ("q3", [("p1", 1e-9)])]
    for name in ("x.run", "x.run.gz"):
        write_run(tmp_path / name, rankings, "bm25")
    text = b"q1 Q0 p3 1 0.1 bm25\nq1 Q0 p1 2 -2.0 bm25\nq3 Q0 p1 1 1e-09 bm25\n"
    assert (tmp_path / "x.run").read_bytes() == text
    assert gzip.decompress((tmp_path / "x.run.gz").read_bytes()) == text


def test_the_first_k_of_the_file_or_as_many_as_it_has(corpus_of_rows: Corpus, file: Path) -> None:
    retriever = open_retriever("run", corpus_of_rows, {"run": str(file)})
    for k in (1, 2, 3, 4):
        assert retriever.search([Q2, Q1], k) == [RANKINGS["q2"][:k], RANKINGS["q1"][:k]]


ABSENT = "2 of 3 questions are not in it and get no passage"


@pytest.mark.parametrize(
    ("questions", "k", "said"),
    [
        ([Q1, Q2], 2, []),
        ([Q3, Q2, Q4], 4, [("WARNING", ABSENT), ("INFO", "1 of 3 questions have fewer than 4 passages")]),
    ],
)
def test_what_is_absent_or_short_is_counted_and_said(
    corpus_of_rows: Corpus, file: Path, caplog: pytest.LogCaptureFixture, questions: list[Question], k: int, said: Any
) -> None:
    with caplog.at_level(logging.INFO):
        found = Run(corpus_of_rows, file).search(questions, k)
    assert found == [RANKINGS.get(question.id, [])[:k] for question in questions]
    assert [(r.levelname, r.message) for r in caplog.records] == [(level, f"{file}: {what}") for level, what in said]


def test_it_says_which_file_it_is_by_name_and_content(corpus_of_rows: Corpus, file: Path) -> None:
    """`printf ... | sha256sum`; the folder is of no account."""
    described = Run(corpus_of_rows, file).describe()
    assert described == {"retriever": "run", "file": "mine.run", "sha256": hashlib.sha256(RUN.encode()).hexdigest()}
