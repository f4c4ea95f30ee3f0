"""Passages as vectors: float16 blocks on disk, written one by one, so that a killed encoding goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lm_eval_tasks.atomic import whole_file
from lm_eval_tasks.sources import CorruptSource

__all__ = ["BLOCK", "Vectors", "best_rows"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

BLOCK = 1024  # rows in a file: 0.8 MB at 384 dimensions, the most that a kill can lose
_QUESTIONS = 1024  # scored against a block at a time: 4 MB of scores
_ABOUT = "about.json"

Floats = NDArray[np.float32]
Halves = NDArray[np.float16]


class Vectors:
    """The vectors of a corpus, mapped into memory.

    Attributes:
        blocks: float16 arrays of ``BLOCK`` rows each, the last with what remains.
    """

    def __init__(self, folder: Path, rows: int) -> None:
        self.blocks: list[Halves] = [_load(folder / _file(start)) for start in range(0, rows, BLOCK)]
        dimension = self.blocks[0].shape[-1:]
        for number, block in enumerate(self.blocks):
            expected = (min(BLOCK, rows - number * BLOCK), *dimension)
            if block.dtype != np.float16 or block.shape != expected:
                raise CorruptSource(
                    f"{folder / _file(number * BLOCK)}: {block.dtype} of shape {block.shape}, but float16 of {expected} is "
                    f"expected; delete the folder to have the passages encoded again"
                )

    @classmethod
    def open(
        cls,
        parent: Path,
        of: Mapping[str, Any],
        rows: int,
        encode: Callable[[Sequence[int]], Iterator[Floats]],
        called: Mapping[str, Any],
    ) -> Vectors:
        """The vectors of a model over a corpus; what of them is not there yet is made.

        Args:
            parent: folder of the cache.
            of: what the vectors depend on: weights, prefix, corpus. They are kept under a hash of it.
            rows: how many passages there are, at least one.
            encode: given the first rows of the missing blocks, yields the vectors of each.
            called: name and revision of the model, written beside them for people.

        Raises:
            CorruptSource: the folder holds vectors of something else, or a damaged block.
            ValueError: the model gave a number that is not finite in float16.
        """
        from filelock import FileLock

        identity = {**of, "rows": rows, "block": BLOCK}
        key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]
        folder = parent / key
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_suffix(".lock")):
            _check(folder, identity, called)
            starts = range(0, rows, BLOCK)
            missing = [start for start in starts if not (folder / _file(start)).is_file()]
            if missing:
                if len(missing) < len(starts):
                    log.info("clapnq: %d of %d blocks are encoded already", len(starts) - len(missing), len(starts))
                for start, vectors in zip(missing, encode(missing), strict=True):
                    _write(folder / _file(start), vectors)
        return cls(folder, rows)


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
        Rows, counted through the blocks, and scores, both (questions, k), best first; of equal scores the earlier row
        (which of those that tie at the last place of a block is left open).
    """
    import torch

    asked = torch.from_numpy(np.ascontiguousarray(questions, dtype=np.float32)).to(device)
    found = []
    for part in asked.split(_QUESTIONS):
        scores = torch.empty((len(part), 0), device=device)
        rows = torch.empty((len(part), 0), dtype=torch.int64, device=device)
        start = 0
        for block in blocks:
            vectors = torch.from_numpy(np.array(block)).to(device).float()  # a copy: the file is mapped read-only
            best = torch.topk(part @ vectors.T, min(k, len(block)))
            indices, by_row = best.indices.sort(dim=1)  # topk leaves open which of two equal ones comes first
            values = best.values.gather(1, by_row)
            scores, order = torch.cat([scores, values], 1).sort(dim=1, descending=True, stable=True)
            rows = torch.cat([rows, indices + start], 1).gather(1, order)
            scores, rows = scores[:, :k], rows[:, :k]
            start += len(block)
        found.append((rows.cpu().numpy(), scores.cpu().numpy()))
    return np.concatenate([rows for rows, _ in found]), np.concatenate([scores for _, scores in found])


def _file(start: int) -> str:
    return f"{start // BLOCK:05d}.npy"


def _check(folder: Path, identity: Mapping[str, Any], called: Mapping[str, Any]) -> None:
    """Hold what a folder says of itself against what is asked for; write it where nothing stands yet."""
    about = folder / _ABOUT
    if about.is_file():
        try:
            found = json.loads(about.read_text("utf-8"))
            differing = [key for key, value in identity.items() if found.get(key) != value]
        except (ValueError, AttributeError) as error:
            raise CorruptSource(
                f"{about} is damaged ({error}); delete {folder} to have the passages encoded again"
            ) from error
        if differing:
            raise CorruptSource(
                f"{folder} holds vectors of another corpus or model ({found.get('model')}; it differs in "
                f"{', '.join(differing)}); delete it to have the passages encoded again"
            )
        return
    if any(folder.glob("*.npy")):
        raise CorruptSource(
            f"{folder} holds vectors and no {_ABOUT} that says of what; delete it to have them made again"
        )
    text = json.dumps({**called, **identity}, indent=1, sort_keys=True)
    with whole_file(about) as partial:
        partial.write_text(text, "utf-8")


def _load(path: Path) -> Halves:
    try:
        block: Halves = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise CorruptSource(f"{path} is damaged ({error}); delete it to have its passages encoded again") from error
    return block


def _write(path: Path, vectors: Floats) -> None:
    with np.errstate(over="ignore"):  # said below
        halves = np.asarray(vectors).astype(np.float16)
    if not np.isfinite(halves).all():
        raise ValueError(
            f"{path.parent}: the model gave numbers that are not finite in float16; is it one for retrieval?"
        )
    with whole_file(path) as partial, partial.open("wb") as stream:
        np.save(stream, halves, allow_pickle=False)
