"""TREC run files: what is written is read again, what is no run is refused by file and line, what is absent is counted."""

from __future__ import annotations

import gzip
import hashlib
import logging
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_tasks.clapnq.corpus import Corpus
from lm_eval_tasks.clapnq.retrieval import Question, Ranking, open_retriever
from lm_eval_tasks.clapnq.retrieval.run import Run, read_run, write_run
from lm_eval_tasks.data.sources import CorruptSource
from tests.test_retrieval import ROWS, write_corpus

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
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
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
        ("q1 Q0 p2 4 1.0", None),
        ("q1 Q0 p2 4 1.0 my name", None),
        ("q1 Q0 p2 fourth 1.0 mine", None),
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


def test_the_first_k_of_the_file_or_as_many_as_it_has(corpus: Corpus, file: Path) -> None:
    retriever = open_retriever("run", corpus, {"run": str(file)})
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
    corpus: Corpus, file: Path, caplog: pytest.LogCaptureFixture, questions: list[Question], k: int, said: Any
) -> None:
    with caplog.at_level(logging.INFO):
        found = Run(corpus, file).search(questions, k)
    assert found == [RANKINGS.get(question.id, [])[:k] for question in questions]
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        (level, f"{file}: {what}") for level, what in said
    ]


def test_it_says_which_file_it_is_by_name_and_content(corpus: Corpus, file: Path) -> None:
    """`printf ... | sha256sum`; the folder is of no account."""
    described = Run(corpus, file).describe()
    assert described == {"retriever": "run", "file": "mine.run", "sha256": hashlib.sha256(RUN.encode()).hexdigest()}
