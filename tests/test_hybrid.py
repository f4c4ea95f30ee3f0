"""Reciprocal rank fusion: sums that can be done in the head, and any two retrievers as halves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks.clapnq.corpus import Corpus
from lm_eval_tasks.clapnq.retrieval import Question, Ranking, open_retriever
from lm_eval_tasks.clapnq.retrieval.hybrid import Hybrid, fuse
from lm_eval_tasks.clapnq.retrieval.run import write_run
from lm_eval_tasks.data.sources import MissingSource
from tests.test_retrieval import ROWS, ids, write_corpus

WATER, STRINGS = Question("q1", "moon water"), Question("q2", "four strings")


def as_fractions(ranking: list[tuple[str, float]]) -> list[tuple[str, Fraction]]:
    return [(passage, Fraction(score).limit_denominator(1000)) for passage, score in ranking]


HALF, THIRD, QUARTER, FIFTH = (Fraction(1, n) for n in (2, 3, 4, 5))


@pytest.mark.parametrize(
    ("first", "second", "fused"),
    [
        ("", "", []),
        ("a", "", [("a", HALF)]),
        ("", "ab", [("a", HALF), ("b", THIRD)]),
        ("a", "a", [("a", 1)]),
        ("abc", "abc", [("a", 1), ("b", 2 * THIRD), ("c", HALF)]),
        # 1/2 + 1/3 each: a tie, in the order of the first
        ("ab", "ba", [("a", HALF + THIRD), ("b", HALF + THIRD)]),
        ("ba", "ab", [("b", HALF + THIRD), ("a", HALF + THIRD)]),
        # nothing in common: a before x, b before y
        ("ab", "xy", [("a", HALF), ("x", HALF), ("b", THIRD), ("y", THIRD)]),
        # second and third of both is more than first of one
        ("abc", "xcb", [("b", THIRD + QUARTER), ("c", QUARTER + THIRD), ("a", HALF), ("x", HALF)]),
        # in one only, and below what both have
        ("abcd", "d", [("d", FIFTH + HALF), ("a", HALF), ("b", THIRD), ("c", QUARTER)]),
        # a passage that stands twice counts where it stands first, and those after it move up
        ("aab", "b", [("b", THIRD + HALF), ("a", HALF)]),
        ("ab", "aba", [("a", 1), ("b", 2 * THIRD)]),
    ],
)
def test_ranks_add_up(first: str, second: str, fused: list[tuple[str, Fraction]]) -> None:
    assert as_fractions(fuse(list(first), list(second))) == fused


def test_a_tie_of_sums_is_a_tie_whatever_the_order_they_were_added_in() -> None:
    """1/(1 + i) + 1/(1 + j) for all ranks: floating point must not break what arithmetic does not."""
    ranking = [f"p{number}" for number in range(20)]
    fused = fuse(ranking, ranking[::-1])
    scores = dict(fused)
    assert all(scores[f"p{n}"] == scores[f"p{19 - n}"] for n in range(20))
    assert [passage for passage, _ in fused] == sorted(ranking, key=lambda id: (-scores[id], int(id[1:])))


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    monkeypatch.setenv("LM_EVAL_GROUNDED_CACHE", str(tmp_path / "cache"))
    rows = [*ROWS, *[(f"x{number:02}", f"filler {number}", "Nothing") for number in range(30)]]
    return Corpus.open(write_corpus(tmp_path / "passages.tsv", rows))


@pytest.fixture
def run(tmp_path: Path) -> str:
    rankings = [("q1", [("x01", 3.0), ("p2", 2.0), ("p1", 1.0)]), ("q2", [("p3", 1.0)])]
    write_run(tmp_path / "other.run", rankings, "other")
    return str(tmp_path / "other.run")


def test_bm25_and_a_run_file(corpus: Corpus, run: str) -> None:
    """BM25: p1 p2 ... and p3 ...; the run: x01 p2 p1 and p3."""
    hybrid = open_retriever("hybrid", corpus, {"hybrid": "bm25+run", "run": run})
    water, strings = hybrid.search([WATER, STRINGS], 3)
    assert as_fractions(water)[:2] == [("p1", HALF + QUARTER), ("p2", THIRD + THIRD)]
    assert water[2][0] == "x01"  # 1/2, and what BM25 adds for a passage it knows nothing of
    assert strings[0] == ("p3", 1.0)


@pytest.mark.parametrize("k", [1, 3, 4])
def test_a_corpus_of_fewer_passages_than_the_depth_is_searched(tmp_path: Path, corpus: Corpus, k: int) -> None:
    small = Corpus.open(write_corpus(tmp_path / "small.tsv", ROWS))
    write_run(tmp_path / "small.run", [("q1", [("p2", 1.0)])], "small")
    hybrid = open_retriever("hybrid", small, {"hybrid": "bm25+run", "run": tmp_path / "small.run"})
    assert ids(hybrid.search([WATER], 4)[0])[:2] == ["p2", "p1"]
    assert len(hybrid.search([WATER], k)[0]) == k


def test_it_says_what_its_halves_say(corpus: Corpus, run: str) -> None:
    options = {"hybrid": "run+bm25", "run": run, "bm25_split": True}
    described = open_retriever("hybrid", corpus, options).describe()
    halves = [open_retriever(name, corpus, options).describe() for name in ("run", "bm25")]
    assert described == {"retriever": "hybrid", "halves": halves, "constant": 1, "depth": 20}
    assert halves[1]["split"] == {"window": 512, "stride": 256}


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("bm25", r"hybrid names two retrievers, as in minilm\+bm25, got 'bm25'"),
        ("bm25+bm25", r"hybrid names two retrievers, as in minilm\+bm25, got 'bm25\+bm25'"),
        ("bm25+hybrid", r"got 'bm25\+hybrid'"),
        ("bm25+", "unknown retriever ''; known are bge, bm25"),
        ("bm25+google", "unknown retriever 'google'; known are bge, bm25"),
        ("bm25+run", "retriever run needs a TREC run file"),
        (7, "got '7'"),
    ],
)
def test_what_are_no_two_retrievers_is_refused(corpus: Corpus, said: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^clapnq: .*{message}"):
        open_retriever("hybrid", corpus, {"hybrid": said})


@pytest.mark.parametrize("options", [{}, {"hybrid": None}, {"hybrid": ""}])
def test_unless_said_otherwise_it_is_minilm_and_bm25(
    corpus: Corpus, tmp_path: Path, options: Mapping[str, Any]
) -> None:
    with pytest.raises(MissingSource, match=r"nowhere: no such folder \(minilm=DIR"):
        open_retriever("hybrid", corpus, {**options, "minilm": tmp_path / "nowhere"})


def test_what_is_asked_for_beyond_the_depth_does_not_change_what_stands_above_it() -> None:
    """Down to rank 20 the two are fused; what is left follows, the first one's before the second's."""

    class Listed:
        name = "listed"

        def __init__(self, letter: str) -> None:
            self.letter = letter

        def search(self, questions: Sequence[Question], k: int) -> list[Ranking]:
            return [[(f"{self.letter if rank != 3 else 'both'}{rank}", 1 / rank) for rank in range(1, k + 1)]]

        def describe(self) -> dict[str, Any]:
            return {}

    hybrid = Hybrid(Listed("a"), Listed("b"), 100)
    ten, thirty, sixty = (hybrid.search([Question("q", "")], k)[0] for k in (10, 30, 60))
    assert ten == thirty[:10] == sixty[:10]
    assert [id for id, _ in ten[:3]] == ["a1", "both3", "b1"]
    assert [id for id, _ in sixty[39:]] == [f"a{rank}" for rank in range(21, 42)]
    scores = [score for _, score in sixty]
    assert scores == sorted(scores, reverse=True)
    assert len({id for id, _ in sixty}) == 60
