"""Passages as vectors: float16 blocks on disk, written one by one, so a killed encoding continues where it stopped.

A block is an ``.npy`` file followed by its CRC-32: damage is detected when it is opened, and the block is encoded again.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data.atomic import checksum, whole_file

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

BLOCK = 1024  # rows in a file: 0.8 MB at 384 dimensions, the maximum that a kill can lose
_QUESTIONS = 1024  # scored against a block at a time: 4 MB of scores
_FORM = 2  # version of the folder's layout, part of its key
_CRC_BYTES = 4

Floats = NDArray[np.float32]
Halves = NDArray[np.float16]


def open_vectors(
    parent: Path,
    identity: Mapping[str, Any],
    rows: int,
    encode: Callable[[Sequence[int]], Iterator[Floats]],
    labels: Mapping[str, Any],
) -> list[Halves]:
    """The vectors of a model over a corpus, mapped into memory. Missing or damaged blocks are encoded.

    Args:
        parent: folder of the cache.
        identity: everything that determines the vectors (weights, prefix, corpus); its hash is the folder's name.
        rows: number of passages, at least one.
        encode: given the first rows of the missing blocks, yields the vectors of each.
        labels: name and revision of the model, written beside the vectors with `identity`, for people.

    Returns:
        float16 arrays of ``BLOCK`` rows each, the last with the rest.

    Raises:
        ValueError: the model returned a number that float16 cannot hold.
    """
    from filelock import FileLock

    fields = {**identity, "rows": rows, "block": BLOCK, "form": _FORM}
    folder = parent / hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:32]
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        files = {start: folder / f"{start // BLOCK:05d}.npy" for start in range(0, rows, BLOCK)}
        blocks = {start: _load(file, min(BLOCK, rows - start)) for start, file in files.items()}
        missing = [start for start, block in blocks.items() if block is None]
        if 0 < len(missing) < len(blocks):
            log.info("clapnq: %d of %d blocks are encoded already", len(blocks) - len(missing), len(blocks))
        if missing:
            with whole_file(folder / "about.json") as partial:
                partial.write_text(json.dumps({**labels, **fields}, indent=1, sort_keys=True), "utf-8")
        for start, vectors in zip(missing, encode(missing) if missing else (), strict=True):
            _write(files[start], vectors)
            blocks[start] = _load(files[start], min(BLOCK, rows - start))
    return [block for block in blocks.values() if block is not None]


def best_rows(
    blocks: Sequence[Halves], questions: Floats, k: int, device: str = "cpu"
) -> tuple[NDArray[np.int64], Floats]:
    """The rows with the largest inner products: exact search, one block in memory at a time.

    Args:
        blocks: (rows, dimension) of each block.
        questions: (questions, dimension).
        k: number of rows for each question, at most the total number of rows.
        device: of torch's matrix products.

    Returns:
        Rows, counted through the blocks, and scores, both (questions, k), best first; of equal scores the earlier row.
        Scores are exact to single precision, so that equal vectors have equal scores in any row: a product of matrices
        adds up in another order at the edge of a block, on another processor, and with more threads.
    """
    import torch

    queries = np.ascontiguousarray(questions, dtype=np.float32)
    longest = max(float(np.linalg.norm(np.asarray(block, np.float32), axis=1).max()) for block in blocks)
    # Largest error of d products and their sum in single precision, twice: for the k-th best score and for a candidate.
    margins = 2 * queries.shape[1] * 2.0**-23 * longest * np.linalg.norm(queries, axis=1)
    rows, scores = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32)
    for first in range(0, len(queries), _QUESTIONS):
        batch = queries[first : first + _QUESTIONS]
        nearest = _candidates(blocks, torch.from_numpy(batch).to(device), k, margins[first : first + _QUESTIONS])
        for number, (question, candidates) in enumerate(zip(batch, nearest, strict=True), first):
            exact = _exact(blocks, candidates, question)
            order = top_k(exact, k)
            rows[number], scores[number] = candidates[order], exact[order]
    return rows, scores


def _candidates(
    blocks: Sequence[Halves], questions: Any, k: int, margins: NDArray[np.float64]
) -> list[NDArray[np.int64]]:
    """For each question, in rising order, all rows that may be among its k best, by scores in single precision."""
    import torch

    margin = torch.from_numpy(margins.astype(np.float32)).to(questions.device)[:, None]
    best = torch.empty((len(questions), 0), device=questions.device)
    near: list[tuple[Any, Any, Any]] = []  # questions, rows, scores
    least = torch.full_like(margin, -torch.inf)
    start = 0
    for block in blocks:
        vectors = torch.from_numpy(np.array(block)).to(questions.device).float()  # a copy: the file is mapped read-only
        scores = questions @ vectors.T
        best = torch.cat([best, torch.topk(scores, min(k, len(block))).values], 1)
        if best.shape[1] >= k:
            best = torch.topk(best, k).values
            least = best[:, -1:] - margin
        question, row = (scores >= least).nonzero(as_tuple=True)
        near.append((question.cpu(), (row + start).cpu(), scores[question, row].cpu()))
        start += len(block)
    question, row, values = (torch.cat(columns) for columns in zip(*near, strict=True))
    near_enough = values >= least.cpu()[question, 0]
    question, row = question[near_enough], row[near_enough]
    order = torch.argsort(question, stable=True)  # rows were found in rising order
    counts = torch.bincount(question, minlength=len(questions)).tolist()
    return [rows.numpy() for rows in row[order].split(counts)]


def _exact(blocks: Sequence[Halves], rows: NDArray[np.int64], question: Floats) -> Floats:
    """Inner products, summed in double precision in a fixed order and rounded to single: equal for equal vectors."""
    products = np.empty(len(rows), np.float32)
    starts = np.cumsum([0, *map(len, blocks)])
    numbers = np.searchsorted(starts, rows, side="right") - 1
    for number in np.unique(numbers).tolist():
        mask = numbers == number
        vectors = np.asarray(blocks[number][rows[mask] - starts[number]], np.float64)
        products[mask] = (vectors * question.astype(np.float64)).sum(axis=1)
    return products


def _load(path: Path, rows: int) -> Halves | None:
    """Load a block; ``None`` where it is missing, or damaged, which is logged."""
    if not path.is_file():
        return None
    size = path.stat().st_size - _CRC_BYTES
    if size > 0:
        with path.open("rb") as stream:
            stream.seek(size)
            if checksum(path, size) == int.from_bytes(stream.read(), "little"):
                block: Halves = np.load(path, mmap_mode="r", allow_pickle=False)
                return block
    log.warning("%s is damaged; its %d passages are encoded again", path, rows)
    return None


def _write(path: Path, vectors: Floats) -> None:
    with np.errstate(over="ignore"):  # raised below
        halves = np.asarray(vectors).astype(np.float16)
    if not np.isfinite(halves).all():
        raise UsageError(
            f"{path.parent}: the model gave numbers that are not finite in float16; is it one for retrieval?"
        )
    with whole_file(path) as partial:
        with partial.open("wb") as stream:
            np.save(stream, halves, allow_pickle=False)
        crc = checksum(partial)
        with partial.open("ab") as stream:
            stream.write(crc.to_bytes(_CRC_BYTES, "little"))


# --------------------------------------------------------------------------------------------------------- the best scores

_ROWS = 64  # in a group whose maximum is taken first: much faster than a selection among all scores


def top_k(scores: NDArray[np.floating[Any]], k: int) -> NDArray[np.intp]:
    """Rows of the k largest scores, the largest first; of equal scores the earlier row first.

    Partial sorting leaves the order of equal scores open, and numpy's depends on the processor. This order depends on the
    data alone.

    Args:
        scores: (rows,), none of them ``nan``.
        k: from 1 to the number of rows.
    """
    groups = len(scores) // _ROWS
    least: Any = -np.inf  # a score that at least k rows reach, and usually few more
    if k <= groups:
        least = _kth(scores[: groups * _ROWS].reshape(groups, _ROWS).max(1), k)
    rows = np.flatnonzero(scores >= least)
    if k < len(rows):
        rows = rows[scores[rows] >= _kth(scores[rows], k)]
    return rows[np.argsort(-scores[rows], kind="stable")][:k]


def _kth(scores: NDArray[np.floating[Any]], k: int) -> Any:
    """The k-th largest score, which does not depend on the order after the selection."""
    return np.partition(scores, len(scores) - k)[len(scores) - k]
