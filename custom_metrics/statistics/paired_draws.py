"""The draws of a paired bootstrap: which documents a resample holds, the same for all models that are compared."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from custom_metrics.statistics.intervals import RESAMPLES, SEED
from custom_metrics.statistics.paired_difference import Floats

__all__ = ["ITERATIONS", "SEED", "draws"]

ITERATIONS = RESAMPLES - 1  # with the observed one 2,000, of which 2.5 % are a whole number

_BLOCK = 1 << 22  # counts held at once: 32 MB


def draws(rows: int, stratum: int = 0, iterations: int = ITERATIONS, seed: int = SEED) -> Iterator[Floats]:
    """How often each row is in each resample, block by block; a resample is as many rows, drawn with replacement.

    The draws depend on the arguments alone. The rows of all models must be in the same order, which should not depend on
    that of the runs.

    Args:
        rows: documents, or clusters of them; at least one.
        stratum: draws of different strata are independent.
        iterations: resamples.
        seed: of the generator.

    Yields:
        (resamples, rows), `iterations` resamples in all.
    """
    if rows * iterations <= _BLOCK:
        yield _kept(rows, stratum, iterations, seed)
        return
    rng = np.random.default_rng([seed, stratum, rows])
    block = max(1, _BLOCK // rows)
    for done in range(0, iterations, block):
        yield _counts(rng, rows, min(block, iterations - done))


@lru_cache(maxsize=4)  # a task's metrics, and its pairs of models, have the same
def _kept(rows: int, stratum: int, iterations: int, seed: int) -> Floats:
    counts = _counts(np.random.default_rng([seed, stratum, rows]), rows, iterations)
    counts.setflags(write=False)
    return counts


def _counts(rng: np.random.Generator, rows: int, resamples: int) -> Floats:
    drawn = rng.integers(rows, size=(resamples, rows))
    drawn += rows * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=rows * resamples).reshape(resamples, rows).astype(float)
