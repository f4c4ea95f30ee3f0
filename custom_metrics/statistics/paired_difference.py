"""The difference of two models that answered the same documents, and the draws of its bootstrap: which documents a resample
holds, the same for all models that are compared."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.statistics.intervals import RESAMPLES, SEED

__all__ = ["ITERATIONS", "NO_DIFFERENCE", "SIGNIFICANCE", "Floats", "PairedDifference", "columns", "draws"]

Floats = NDArray[np.float64]

ITERATIONS = RESAMPLES - 1  # with the observed one 2,000, of which 2.5 % are a whole number
SIGNIFICANCE = 0.05
"""Below this p, or adjusted p, a difference is called significant; bounds are for one less this: 95 %."""

_BLOCK = 1 << 22  # counts held at once: 32 MB


class PairedDifference(NamedTuple):
    """Two models' values over the same documents, and how sure their difference is; ``nan`` for what is not defined."""

    first: float
    second: float
    difference: float  # first minus second
    low: float  # its 95 % bounds
    high: float
    p: float  # two-sided, of the hypothesis that the difference is 0
    n: int  # what was paired: documents, or clusters of them (articles)
    method: str  # what the bounds and p come from
    p_exact: float = math.nan  # of the exact test, where `p` is its mid-p version

    def as_json(self) -> dict[str, Any]:
        """``null`` for what is not defined."""
        return {
            name: None if isinstance(part, float) and not math.isfinite(part) else part
            for name, part in self._asdict().items()
        }


NO_DIFFERENCE = PairedDifference(math.nan, math.nan, math.nan, math.nan, math.nan, math.nan, 0, "")
"""Of models without a document in common."""


def columns(first: Any, second: Any, share: bool = False, parts: int = 0) -> tuple[Floats, Floats]:
    """Two models' values over the same documents, in the same order, checked.

    They are a number of each document (of a share 1.0 or 0.0, or ``nan``); or `parts` numbers, such as numerator and
    denominator, or several times so many.

    Raises:
        ValueError: they are not numbers of such a form, or not of equally many documents; a share is neither 1 nor 0.
    """
    form = f"{parts} numbers, or lists of {parts}, a document" if parts else "one number a document"
    arrays = []
    for name, values in (("first", first), ("second", second)):
        try:
            array: Floats = np.asarray(values, dtype=float)
        except (TypeError, ValueError) as error:
            raise ValueError(f"the {name} model's values are not all numbers ({error})") from error
        fits = array.ndim in (2, 3) and array.shape[-1] == parts if parts else array.ndim == 1
        if not fits and array.size:
            raise ValueError(f"the {name} model's values are {form}, not of shape {array.shape}")
        wrong = array[~np.isnan(array) & ~np.isin(array, (0.0, 1.0))] if share else array[:0]
        if wrong.size:
            raise ValueError(
                f"the {name} model's values are 1 (in the share) or 0 (not), not {wrong[0]:g}; compare means instead"
            )
        arrays.append(array)
    one, other = arrays
    if len(one) != len(other):
        raise ValueError(
            f"the first model has values of {len(one)} documents, the second of {len(other)}; both are of the same"
        )
    return one, other


def draws(rows: int, stratum: int = 0, iterations: int = ITERATIONS) -> Iterator[Floats]:
    """How often each row is in each resample, block by block, (resamples, rows); a resample is as many rows, drawn with
    replacement.

    The draws depend on the arguments alone, and those of different strata are independent. The rows of all models must be
    in the same order, which should not depend on that of the runs.
    """
    if rows * iterations <= _BLOCK:
        yield _kept(rows, stratum, iterations)
        return
    rng = np.random.default_rng([SEED, stratum, rows])
    block = max(1, _BLOCK // rows)
    for done in range(0, iterations, block):
        yield _counts(rng, rows, min(block, iterations - done))


@lru_cache(maxsize=4)  # a task's metrics, and its pairs of models, have the same
def _kept(rows: int, stratum: int, iterations: int) -> Floats:
    counts = _counts(np.random.default_rng([SEED, stratum, rows]), rows, iterations)
    counts.setflags(write=False)
    return counts


def _counts(rng: np.random.Generator, rows: int, resamples: int) -> Floats:
    drawn = rng.integers(rows, size=(resamples, rows))
    drawn += rows * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=rows * resamples).reshape(resamples, rows).astype(float)
