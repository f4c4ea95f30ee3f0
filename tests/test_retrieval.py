"""BM25 over a corpus: what it finds, and that its index is built once, mapped, and safe among processes."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest

from lm_eval_tasks.clapnq import corpus as corpora
from lm_eval_tasks.clapnq.corpus import Corpus, Passage
from lm_eval_tasks.clapnq.retrieval import bm25, open_retriever

ROWS = [
    ("p1", 'The "moon" pulls the water of the sea.', "Tides"),
    ("p2", "Bread is made of flour and water.", "Bread"),
    ("p3", "A violin has four strings.", "Violin"),
    ("p4", "Éclairs are filled with cream.", "Éclair"),
]


@pytest.fixture
def tsv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LM_EVAL_GROUNDED_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "passages.tsv"
    path.write_text("id\ttext\ttitle\n" + "".join("\t".join(map(quoted, row)) + "\n" for row in ROWS), "utf-8")
    return path


def quoted(field: str) -> str:
    return '"' + field.replace('"', '""') + '"' if '"' in field else field


def test_a_corpus_is_a_table_of_passages(tsv: Path) -> None:
    corpus = Corpus.open(tsv)
    assert len(corpus) == 4
    assert corpus[0] == Passage("p1", "Tides", 'The "moon" pulls the water of the sea.')
    assert corpus.passage("p3").title == "Violin"
    assert corpus.ids_of_texts(["Bread is made of flour and water. ", "nowhere"]) == {
        "Bread is made of flour and water.": "p2"
    }


def test_the_best_passages_come_first_with_falling_scores(tsv: Path) -> None:
    retriever = open_retriever("bm25", Corpus.open(tsv))
    (tides, violin) = retriever.search(["why does the moon pull water", "how many strings has a violin"], 3)
    assert [passage for passage, _ in tides][:2] == ["p1", "p2"]
    assert violin[0][0] == "p3"
    for found in (tides, violin):
        scores = [score for _, score in found]
        assert scores == sorted(scores, reverse=True)


def test_a_question_without_a_known_word_and_no_question_at_all_are_survived(tsv: Path) -> None:
    retriever = open_retriever("bm25", Corpus.open(tsv))
    assert [len(found) for found in retriever.search(["", "???", "zzz"], 2)] == [2, 2, 2]
    assert retriever.search([], 2) == []


def test_more_than_there_is_cannot_be_asked_for(tsv: Path) -> None:
    with pytest.raises(ValueError, match="5 passages were asked for, but the corpus has only 4"):
        open_retriever("bm25", Corpus.open(tsv)).search(["x"], 5)


def test_the_index_is_built_once_and_mapped_afterwards(tsv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = open_retriever("bm25", Corpus.open(tsv)).search(["water"], 4)

    def fail(*_: object) -> None:
        raise AssertionError("built again")

    monkeypatch.setattr(bm25, "_build", fail)
    monkeypatch.setattr(corpora, "_write_table", fail)
    again = bm25.BM25(Corpus.open(tsv))
    assert again.search(["water"], 4) == before
    assert isinstance(again._index.scores["data"], np.memmap)


def test_another_content_gets_another_index(tsv: Path) -> None:
    first = Corpus.open(tsv)
    tsv.write_text(tsv.read_text("utf-8").replace("violin has four", "viola has four"), "utf-8")
    second = Corpus.open(tsv)
    assert first.key != second.key
    assert second.passage("p3").text == "A viola has four strings."
    assert open_retriever("bm25", second).search(["viola"], 1)[0][0][0] == "p3"


def test_a_build_that_fails_leaves_nothing_and_the_next_one_succeeds(
    tsv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = Corpus.open(tsv)
    build = bm25._build
    monkeypatch.setattr(bm25, "_build", lambda corpus, folder: (folder / "half").touch() or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        bm25.BM25(corpus)
    assert [p.name for p in (tmp_path / "cache" / "bm25").iterdir() if p.is_dir()] == []
    monkeypatch.setattr(bm25, "_build", build)
    assert bm25.BM25(corpus).search(["violin"], 1)[0][0][0] == "p3"


def search_in_a_process(tsv: str, cache: str) -> tuple[int, list[list[tuple[str, float]]]]:
    os.environ["LM_EVAL_GROUNDED_CACHE"] = cache
    built = 0
    build = bm25._build

    def counting(corpus: Corpus, folder: Path) -> None:
        nonlocal built
        built += 1
        build(corpus, folder)

    bm25._build = counting
    found = open_retriever("bm25", Corpus.open(Path(tsv))).search(["water", "violin"], 3)
    return built, found


def test_processes_that_start_together_share_one_index(tsv: Path, tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        results = pool.starmap(search_in_a_process, [(str(tsv), str(tmp_path / "cache"))] * 3)
    assert results[0][1] == results[1][1] == results[2][1]
    assert sum(built for built, _ in results) == 1
    assert len([p for p in (tmp_path / "cache" / "bm25").iterdir() if p.is_dir()]) == 1
