"""Rankings are a function of the data alone: of equal scores the passage that stands first in the corpus comes first,
whatever the processor, the number of threads and the number of passages asked for."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_tasks.clapnq.corpus import Corpus
from lm_eval_tasks.clapnq.retrieval.bm25 import BM25
from lm_eval_tasks.clapnq.retrieval.hybrid import Hybrid
from lm_eval_tasks.clapnq.retrieval.vectors import best_rows, top_k
from tests.conftest import run
from tests.test_retrieval import asked, ids, write_corpus


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.data())
def test_the_best_are_those_of_a_stable_sort(scores: list[int], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(scores)))
    expected = sorted(range(len(scores)), key=lambda row: (-scores[row], row))[:k]
    assert top_k(np.array(scores, np.float32), k).tolist() == expected


@pytest.fixture
def alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    """Forty passages of which thirty-six say the same, not in the order of their names."""
    monkeypatch.setenv("LM_EVAL_GROUNDED_CACHE", str(tmp_path / "cache"))
    names = [f"p{(7 * number) % 40:02}" for number in range(40)]
    rows = [(name, "violin strings" if number % 10 else "violin", "T") for number, name in enumerate(names)]
    return Corpus.open(write_corpus(tmp_path / "alike.tsv", rows))


@pytest.mark.parametrize("split", [False, True])
def test_of_equal_passages_the_first_of_the_corpus_come_first_for_every_k(alike: Corpus, split: bool) -> None:
    retriever = BM25(alike, split)
    with_strings = [name for number, name in enumerate(alike.ids) if number % 10]
    without = [name for number, name in enumerate(alike.ids) if not number % 10]
    for k in range(1, 41):
        by_strings, by_nothing = retriever.search(asked("strings", "zebra"), k)
        assert ids(by_strings) == [*with_strings, *without][:k]
        assert ids(by_nothing) == alike.ids[:k]  # nobody has a score


@pytest.mark.parametrize("dimension", [3, 64, 384, 1001])
def test_equal_vectors_have_equal_scores_wherever_they_stand(dimension: int) -> None:
    """A product of matrices adds up in another order at the edges of a block: the scores of doubles would differ."""
    pytest.importorskip("torch", reason="it multiplies")
    rng = np.random.default_rng(dimension)
    different = rng.standard_normal((5, dimension)).astype(np.float16)
    places = rng.integers(0, 5, 1000)
    vectors = different[places]
    questions = rng.standard_normal((9, dimension)).astype(np.float32)
    exact = np.array(
        [[sum(map(float, q.astype(np.float64) * v.astype(np.float64))) for v in different] for q in questions]
    )
    order = np.argsort(-exact[:, places], axis=1, kind="stable")
    for size in (1000, 333, 7):
        blocks = [vectors[start : start + size] for start in range(0, 1000, size)]
        for k in (1, 5, 200, 999, 1000):
            rows, scores = best_rows(blocks, questions, k)
            assert np.array_equal(rows, order[:, :k])
            assert np.array_equal(scores, np.take_along_axis(exact[:, places], order, 1)[:, :k].astype(np.float32))


def test_a_hybrid_of_ties_is_the_same_for_every_k(alike: Corpus) -> None:
    """Equal sums go to the half that is named first, whose own ties go by the corpus."""

    class Backwards(BM25):
        def search(self, questions, k):  # type: ignore[no-untyped-def]
            return [found[::-1][:k] for found in super().search(questions, len(self._ids))]

    hybrid = Hybrid(BM25(alike), Backwards(alike), len(alike))
    (whole,) = hybrid.search(asked("strings"), 40)
    assert sorted(ids(whole)) == sorted(alike.ids)
    assert ids(whole)[:2] == [alike.ids[1], alike.ids[30]]  # first and last: 1 / 2 each
    for k in range(1, 41):
        assert hybrid.search(asked("strings"), k) == [whole[:k]]


RANK = """
import hashlib, os, sys
if sys.argv[2] == "1":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from pathlib import Path
from lm_eval_tasks.commands.retrieve import retrieve
for split in (False, True):
    for k in (10, 20):
        found = retrieve("bm25", "dev", k, Path("run"), {"bm25_split": split} if split else {}, sys.argv[1])
        lines = [line for line in Path("run").read_text().splitlines() if int(line.split()[3]) <= 10]
        values = [round(found.figures[name].value, 4) for name in ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10")]
        print(split, k, hashlib.sha256("\\n".join(lines).encode()).hexdigest(), values)
"""


def vector_code() -> list[str]:
    """What to switch off of numpy: nothing, what needs 512 bits, everything that the processor could do without."""
    from numpy._core import _multiarray_umath as built

    there = [name for name in built.__cpu_dispatch__ if built.__cpu_features__.get(name)]
    wide = [name for name in there if name.startswith("AVX512") or name == "X86_V4"]
    return list(dict.fromkeys(["", " ".join(wide), " ".join(there)]))


def printed_of(mirror: str, disabled: str, threads: str, folder: Path) -> str:
    """What RANK prints in a process that lacks some of the processor's instructions, with one core or all."""
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("needs sched_setaffinity, to leave a process one core")
    folder.mkdir()
    environment = {"NPY_DISABLE_CPU_FEATURES": disabled} if disabled else {}
    code = [sys.executable, "-c", RANK, mirror, threads]
    return run(code, folder, LM_EVAL_GROUNDED_CACHE=str(folder), **environment).stdout


@pytest.mark.one_python("what another processor computes")
def test_the_plainest_processor_gives_the_same_files(tmp_path: Path) -> None:
    """On the sample: all instructions and all cores, and none of them that can be left out on one core."""
    everything, plain = vector_code()[0], vector_code()[-1]
    printed = {
        printed_of("sample", disabled, threads, tmp_path / threads)
        for disabled, threads in ((everything, "2"), (plain, "1"))
    }
    (said,) = printed
    assert [line.split(maxsplit=3)[3] for line in said.splitlines()] == ["[0.9444, 0.9444, 0.9444, 0.9612]"] * 4


@pytest.mark.slow  # six processes that each build an index of 5,494 passages and rank them
def test_every_processor_and_number_of_threads_gives_the_same_files(hub: str, tmp_path: Path) -> None:
    """The first ten of each question, from an index built there: the same for k 10 and 20, and these four figures."""
    found = {
        printed_of(os.path.abspath(hub), disabled, threads, tmp_path / f"{number}-{threads}")
        for number, disabled in enumerate(vector_code())
        for threads in ("1", "2")
    }
    (printed,) = found
    rows = [line.split(maxsplit=3) for line in printed.splitlines()]
    assert [row[3] for row in rows] == [
        *["[0.7933, 0.8538, 0.8607, 0.8682]"] * 2,
        *["[0.7933, 0.8555, 0.8609, 0.8685]"] * 2,
    ]
    assert rows[0][2] == rows[1][2]
    assert rows[2][2] == rows[3][2]
