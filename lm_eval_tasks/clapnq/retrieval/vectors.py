"""Passages as vectors: float16 blocks on disk. They are written one by one, so a killed encoding goes on where it stopped.

A block is an ``.npy`` file with the CRC-32 of it behind it: a damaged one is found when it is opened, and encoded again.
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

BLOCK = 1024  # rows in a file: 0.8 MB at 384 dimensions, the most that a kill can lose
_QUESTIONS = 1024  # scored against a block at a time: 4 MB of scores
_FORM = 2  # of the folder; a new form gets a new key
_CRC_BYTES = 4

Floats = NDArray[np.float32]
Halves = NDArray[np.float16]


def open_vectors(
    parent: Path,
    of: Mapping[str, Any],
    rows: int,
    encode: Callable[[Sequence[int]], Iterator[Floats]],
    called: Mapping[str, Any],
) -> list[Halves]:
    """The vectors of a model over a corpus, mapped into memory. Blocks that are missing or damaged are made.

    Args:
        parent: folder of the cache.
        of: what the vectors depend on: weights, prefix, corpus. They are kept under a hash of it.
        rows: how many passages there are, at least one.
        encode: given the first rows of the missing blocks, yields the vectors of each.
        called: name and revision of the model, written beside them for people, with `of`.

    Returns:
        float16 arrays of ``BLOCK`` rows each, the last with what remains.

    Raises:
        ValueError: the model gave a number beyond float16.
    """
    from filelock import FileLock

    identity = {**of, "rows": rows, "block": BLOCK, "form": _FORM}
    folder = parent / hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        files = {start: folder / f"{start // BLOCK:05d}.npy" for start in range(0, rows, BLOCK)}
        blocks = {start: _load(file, min(BLOCK, rows - start)) for start, file in files.items()}
        missing = [start for start, block in blocks.items() if block is None]
        if 0 < len(missing) < len(blocks):
            log.info("clapnq: %d of %d blocks are encoded already", len(blocks) - len(missing), len(blocks))
        if missing:
            with whole_file(folder / "about.json") as partial:
                partial.write_text(json.dumps({**called, **identity}, indent=1, sort_keys=True), "utf-8")
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
        k: how many; no more than there are rows.
        device: where torch multiplies.

    Returns:
        Rows, counted through the blocks, and scores, both (questions, k), best first; of equal scores the earlier row.
        Scores are exact to single precision, so that equal vectors have equal scores wherever they stand: a product of
        matrices adds up in another order at the edge of a block, on another processor, and with more threads.
    """
    import torch

    asked = np.ascontiguousarray(questions, dtype=np.float32)
    longest = max(float(np.linalg.norm(np.asarray(block, np.float32), axis=1).max()) for block in blocks)
    # What d products and their sum in single precision can be off by, twice: of the k-th best score, and of a candidate's.
    margins = 2 * asked.shape[1] * 2.0**-23 * longest * np.linalg.norm(asked, axis=1)
    rows, scores = np.empty((len(asked), k), np.int64), np.empty((len(asked), k), np.float32)
    for first in range(0, len(asked), _QUESTIONS):
        part = asked[first : first + _QUESTIONS]
        found = _candidates(blocks, torch.from_numpy(part).to(device), k, margins[first : first + _QUESTIONS])
        for number, (question, candidates) in enumerate(zip(part, found, strict=True), first):
            exact = _exact(blocks, candidates, question)
            order = best_of(exact, k)
            rows[number], scores[number] = candidates[order], exact[order]
    return rows, scores


def _candidates(
    blocks: Sequence[Halves], questions: Any, k: int, margins: NDArray[np.float64]
) -> list[NDArray[np.int64]]:
    """For each question, rising, every row that may be among its k best, by scores in single precision."""
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
        of, at = (scores >= least).nonzero(as_tuple=True)
        near.append((of.cpu(), (at + start).cpu(), scores[of, at].cpu()))
        start += len(block)
    of, at, said = (torch.cat(parts) for parts in zip(*near, strict=True))
    kept = said >= least.cpu()[of, 0]
    of, at = of[kept], at[kept]
    order = torch.argsort(of, stable=True)  # rows were found in rising order
    counts = torch.bincount(of, minlength=len(questions)).tolist()
    return [rows.numpy() for rows in at[order].split(counts)]


def _exact(blocks: Sequence[Halves], rows: NDArray[np.int64], question: Floats) -> Floats:
    """Inner products, summed in double precision in one order and rounded to single: equal vectors have equal ones."""
    found = np.empty(len(rows), np.float32)
    starts = np.cumsum([0, *map(len, blocks)])
    numbers = np.searchsorted(starts, rows, side="right") - 1
    for number in np.unique(numbers).tolist():
        here = numbers == number
        vectors = np.asarray(blocks[number][rows[here] - starts[number]], np.float64)
        found[here] = (vectors * question.astype(np.float64)).sum(axis=1)
    return found


def _load(path: Path, rows: int) -> Halves | None:
    """A block; ``None`` where it is not there, or damaged, which is said."""
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
    with np.errstate(over="ignore"):  # said below
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

_ROWS = 64  # whose maximum is taken first: a pass over all scores is much faster than a selection among them


def best_of(scores: NDArray[np.floating[Any]], k: int) -> NDArray[np.intp]:
    """Rows of the k largest scores, the largest first; of equal ones the earlier row.

    Partial sorting leaves the order of equal scores open, and numpy's depends on the processor. This order follows from the
    data alone.

    Args:
        scores: (rows,), none of them ``nan``.
        k: from 1 to the number of rows.
    """
    groups = len(scores) // _ROWS
    least: Any = -np.inf  # a score that k rows reach at least, and mostly few more
    if k <= groups:
        least = _kth(scores[: groups * _ROWS].reshape(groups, _ROWS).max(1), k)
    rows = np.flatnonzero(scores >= least)
    if k < len(rows):
        rows = rows[scores[rows] >= _kth(scores[rows], k)]
    return rows[np.argsort(-scores[rows], kind="stable")][:k]


def _kth(scores: NDArray[np.floating[Any]], k: int) -> Any:
    """The k-th largest: the same whatever order the selection leaves behind."""
    return np.partition(scores, len(scores) - k)[len(scores) - k]
