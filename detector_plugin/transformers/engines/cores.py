"""Batches on a CPU, each read by a core of its own.

A small model's operations have little to share: two cores on each operation read a document of 126 tokens with MiniLM 1.3
times as fast as one core. Two cores with a document each are twice as fast as one. Torch releases Python's lock within its
operations, so threads of one process suffice, and the weights are in memory once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import TypeVar

from detector_plugin.transformers.repository import library

__all__ = ["each_on_a_core"]

_QUEUED = 2  # batches for each core that are running or wait to: what is read ahead is bounded

Batch = TypeVar("Batch")
Result = TypeVar("Result")


def each_on_a_core(
    work: Callable[[Batch], Result],
    batches: Iterable[Batch],
    cores: int,
    size: Callable[[Batch], int],
    room: Callable[[], int],
) -> Iterator[tuple[Batch, Result]]:
    """The result of each batch, in the order of the batches.

    Where there are fewer batches than cores, all cores work on one batch after another, as torch does by itself.

    Args:
        work: on one batch; called by several threads at once.
        batches: that are taken one by one, never many more than there are cores.
        cores: that work at once; with 1, torch's own number of threads works on one batch after another.
        size: of a batch.
        room: the sizes of the batches that are worked on at once have this sum at most; a single one may have more.

    Raises:
        Exception: what `work` raised on the first batch that failed.
    """
    coming = iter(batches)
    first = list(islice(coming, cores))
    if cores == 1 or len(first) < cores:
        for batch in chain(first, coming):
            yield batch, work(batch)
        return
    torch = library("torch")
    threads = torch.get_num_threads()
    running: deque[tuple[Batch, Future[Result]]] = deque()
    pool = ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,))
    try:
        for batch in chain(first, coming):
            while running and (
                len(running) >= _QUEUED * cores or sum(size(other) for other, _ in running) + size(batch) > room()
            ):
                yield _oldest(running)
            running.append((batch, pool.submit(work, batch)))
        while running:
            yield _oldest(running)
    finally:
        pool.shutdown(cancel_futures=True)
        # Threads that others start take the number that was set last, by whichever thread.
        torch.set_num_threads(threads)


def _oldest(running: deque[tuple[Batch, Future[Result]]]) -> tuple[Batch, Result]:
    batch, future = running.popleft()
    return batch, future.result()
