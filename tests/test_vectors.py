"""Vectors on disk: blocks that survive a kill, and are found when they are cut; exact search."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lm_eval_tasks.clapnq.retrieval import dense
from lm_eval_tasks.clapnq.retrieval.dense import Floats, Halves, best_rows

OF = {"weights": "w1", "passage_prefix": "", "max_length": 256, "normalised": True, "corpus": "c1"}
CALLED = {"model": "owner/name", "revision": "v1"}
ROWS, DIMENSION = 10, 3
Encode = Callable[[Sequence[int]], Iterator[Floats]]


def row_vectors(start: int, end: int) -> Floats:
    """Row r is (r, r + 1/8, r + 1/4), which float16 holds exactly."""
    return np.add.outer(np.arange(start, end), np.arange(DIMENSION) / 8).astype(np.float32)


def block_at(start: int, rows: int = ROWS) -> Floats:
    return row_vectors(start, min(start + dense.BLOCK, rows))


class Encoding:
    """Encodes blocks and remembers which; dies when it is asked for one more than it may."""

    def __init__(self, dies_after: float = math.inf) -> None:
        self.dies_after = dies_after
        self.done: list[int] = []

    def __call__(self, starts: Sequence[int]) -> Iterator[Floats]:
        for start in starts:
            if len(self.done) == self.dies_after:
                raise KeyboardInterrupt
            self.done.append(start)
            yield block_at(start)


def never(starts: Sequence[int]) -> Iterator[Floats]:
    raise AssertionError(f"encoded again: {starts}")


def open_vectors(parent: Path, encode: Encode, **of: Any) -> list[Halves]:
    return dense.open_vectors(parent, {**OF, **of}, ROWS, encode, CALLED)


def the_folder(parent: Path) -> Path:
    (folder,) = (path for path in parent.iterdir() if path.is_dir())
    return folder


def whole(blocks: Sequence[Halves]) -> Floats:
    return np.concatenate(blocks).astype(np.float32)


@pytest.fixture
def blocks_of_4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "BLOCK", 4)


pytestmark = pytest.mark.usefixtures("blocks_of_4")


def test_vectors_lie_in_float16_blocks_beside_what_they_are_of(tmp_path: Path) -> None:
    opened = open_vectors(tmp_path, Encoding())
    assert [block.shape for block in opened] == [(4, 3), (4, 3), (2, 3)]
    assert {block.dtype.name for block in opened} == {"float16"}
    assert np.array_equal(whole(opened), row_vectors(0, 10))
    folder = the_folder(tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["00000.npy", "00001.npy", "00002.npy", "about.json"]
    assert re.fullmatch("[0-9a-f]{32}", folder.name)
    assert json.loads((folder / "about.json").read_text("utf-8")) == {**OF, **CALLED, "rows": 10, "block": 4, "form": 3}
    # The second time they are mapped and nothing is encoded, whatever the model is called.
    again = dense.open_vectors(tmp_path, OF, ROWS, never, {"model": "a-folder", "revision": None})
    assert all(isinstance(block, np.memmap) and not block.flags.writeable for block in again)
    assert np.array_equal(whole(again), row_vectors(0, 10))


@pytest.mark.parametrize("done", [0, 1, 2])
def test_an_encoding_that_dies_goes_on_where_it_stopped(tmp_path: Path, done: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        open_vectors(tmp_path, Encoding(dies_after=done))
    assert len(list(the_folder(tmp_path).glob("*.npy"))) == done
    second = Encoding()
    opened = open_vectors(tmp_path, second)
    assert second.done == [0, 4, 8][done:]
    assert np.array_equal(whole(opened), row_vectors(0, 10))


@pytest.mark.parametrize(
    ("number", "kept"),
    [
        (65504.0, True),  # the largest of float16
        (65519.0, True),  # rounds to it
        (65520.0, False),  # rounds up
        (-1e30, False),
        (math.inf, False),
        (math.nan, False),
        (1e-30, True),  # rounds to 0
    ],
)
def test_what_is_not_finite_in_float16_is_refused_and_not_kept(tmp_path: Path, number: float, kept: bool) -> None:
    def encode(starts: Sequence[int]) -> Iterator[Floats]:
        for start in starts:
            block = block_at(start)
            if start == 4:
                block[1, 1] = number
            yield block

    if kept:
        assert len(open_vectors(tmp_path, encode)) == 3
    else:
        with pytest.raises(ValueError, match="the model gave numbers that are not finite in float16; is it one for"):
            open_vectors(tmp_path, encode)
        assert [path.name for path in the_folder(tmp_path).glob("*.npy")] == ["00000.npy"]


def split(matrix: Halves, rows: int) -> list[Halves]:
    return [matrix[start : start + rows] for start in range(0, len(matrix), rows)]


def naive(matrix: Halves, questions: Floats, k: int) -> tuple[NDArray[np.int64], Floats]:
    """Every product at once, sorted whole; of equal scores the earlier row."""
    scores = questions @ matrix.astype(np.float32).T
    rows = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return rows, np.take_along_axis(scores, rows, axis=1)


@pytest.mark.parametrize(
    ("rows", "block", "questions", "k"),
    [
        (1, 1024, 1, 1),
        (10, 4, 3, 7),  # more than a block has
        (50, 16, 1025, 10),  # more than are scored at a time
        (10, 4, 0, 3),
    ],
)
def test_search_is_exact(rows: int, block: int, questions: int, k: int) -> None:
    """Random directions, as encoders give them; no two scores here are nearer than a rounding error."""
    random = np.random.default_rng(rows * 31 + questions)
    matrix = random.standard_normal((rows, 384), dtype=np.float32)
    matrix = (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float16)
    wanted = random.standard_normal((questions, 384), dtype=np.float32)
    found, scores = best_rows(split(matrix, block), wanted, k)
    expected, expected_scores = naive(matrix, wanted, k)
    assert (found.shape, scores.shape) == ((questions, k), (questions, k))
    assert scores == pytest.approx(expected_scores, abs=1e-5)
    assert np.array_equal(found, expected)


@settings(deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 60), questions=st.integers(0, 9))
def test_scores_are_of_the_whole_product_with_ties(data: st.DataObject, seed: int, rows: int, questions: int) -> None:
    """Small whole numbers: sums are exact, and many scores are equal."""
    k, block = data.draw(st.integers(1, rows)), data.draw(st.integers(1, rows + 3))
    random = np.random.default_rng(seed)
    matrix = random.integers(-2, 3, (rows, 4)).astype(np.float16)
    wanted = random.integers(-2, 3, (questions, 4)).astype(np.float32)
    found, scores = best_rows(split(matrix, block), wanted, k)
    expected, expected_scores = naive(matrix, wanted, k)
    assert np.array_equal(found, expected)
    assert np.array_equal(scores, expected_scores)


@pytest.mark.parametrize("dimension", [3, 64, 384, 1001])
def test_equal_vectors_have_equal_scores_wherever_they_stand(dimension: int) -> None:
    """A product of matrices adds up in another order at the edges of a block: the scores of doubles would differ."""
    rng = np.random.default_rng(dimension)
    different = rng.standard_normal((5, dimension)).astype(np.float16)
    places = rng.integers(0, 5, 1000)
    vectors = different[places]
    questions = rng.standard_normal((9, dimension)).astype(np.float32)
    exact = np.array([[sum(map(float, q.astype(float) * v.astype(float))) for v in different] for q in questions])
    order = np.argsort(-exact[:, places], axis=1, kind="stable")
    for size in (1000, 333, 7):
        blocks = [vectors[start : start + size] for start in range(0, 1000, size)]
        for k in (1, 5, 200, 999, 1000):
            rows, scores = best_rows(blocks, questions, k)
            assert np.array_equal(rows, order[:, :k])
            assert np.array_equal(scores, np.take_along_axis(exact[:, places], order, 1)[:, :k].astype(np.float32))
