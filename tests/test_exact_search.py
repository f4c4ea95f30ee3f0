"""Exact search: the rows with the largest products, whatever the blocks are."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lm_eval_tasks.clapnq.retrieval.vectors import Floats, Halves, best_rows

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")


def split(matrix: Halves, rows: int) -> list[Halves]:
    return [matrix[start : start + rows] for start in range(0, len(matrix), rows)]


def naive(matrix: Halves, questions: Floats, k: int) -> tuple[NDArray[np.int64], Floats]:
    """Every product at once, sorted whole; of equal scores the earlier row."""
    scores = questions @ matrix.astype(np.float32).T
    rows = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return rows, np.take_along_axis(scores, rows, axis=1)


@needs_torch
@pytest.mark.parametrize(
    ("rows", "block", "questions", "k"),
    [
        (1, 1024, 1, 1),
        (10, 4, 3, 1),
        (10, 4, 3, 4),
        (10, 4, 3, 7),  # more than a block has
        (10, 4, 3, 10),  # all there is
        (7, 1, 5, 7),
        (100, 8, 5, 20),
        (1024, 1024, 4, 10),
        (1025, 1024, 4, 10),
        (5000, 1024, 20, 100),
        (50, 16, 1023, 10),
        (50, 16, 1024, 10),
        (50, 16, 1025, 10),  # more than are scored at a time
        (300, 128, 2500, 10),
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


@needs_torch
@settings(deadline=None, max_examples=200)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 60), questions=st.integers(0, 9))
def test_scores_are_those_of_the_whole_product_ties_and_all(
    data: st.DataObject, seed: int, rows: int, questions: int
) -> None:
    """Small whole numbers: sums are exact, and many scores are equal."""
    k, block = data.draw(st.integers(1, rows)), data.draw(st.integers(1, rows + 3))
    random = np.random.default_rng(seed)
    matrix = random.integers(-2, 3, (rows, 4)).astype(np.float16)
    wanted = random.integers(-2, 3, (questions, 4)).astype(np.float32)
    found, scores = best_rows(split(matrix, block), wanted, k)
    expected, expected_scores = naive(matrix, wanted, k)
    assert np.array_equal(found, expected)
    assert np.array_equal(scores, expected_scores)


@needs_torch
@pytest.mark.parametrize("k", [1, 2, 3, 10, 16, 20, 40])
@pytest.mark.parametrize("block", [7, 64, 1024])
def test_of_equal_scores_the_earlier_row_comes_first_whatever_k_is(block: int, k: int) -> None:
    """Rows 100, 350 and 351 are the best, as if one text, cut where the model cuts it, stood three times in the corpus."""
    random = np.random.default_rng(7)
    matrix = random.standard_normal((1000, 384), dtype=np.float32).astype(np.float16)
    matrix[[100, 350, 351]] = 3 * matrix[100]
    wanted = matrix[100:101].astype(np.float32)
    found, _ = best_rows(split(matrix, block), wanted, max(k, 3))
    assert found[0, :3].tolist() == [100, 350, 351]
