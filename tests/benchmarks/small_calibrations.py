"""How often 95 % bounds of the corrected rates hold, by the size of a calibration: ``python -m
tests.benchmarks.small_calibrations [--runs N] [CELL ...]``, where a cell is such as ``"es real 10"``.

A run draws a calibration, and a corpus of 200 answers, from the answers of a shipped calibration, whose errors are the
true ones. The table has, for each rate, the share of the runs in which its bounds hold the true rate, and their median
width. The standard error of a share is .006 with 1,500 runs.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from custom_metrics.hallucination import estimate
from custom_metrics.statistics.figures import Figure
from detector_plugin.calibration import Calibration, load

__all__ = ["CELLS", "Held", "held"]

RATES = (None, 0.1, 0.3, 0.6)
"""True rates; ``None`` is that of the calibration, which Equation 1 wants."""

CELLS = (
    *(f"es real {answers}" for answers in (5, 8, 10, 15, 20)),
    *(f"it real {answers}" for answers in (5, 10, 20, 50)),
    *(f"ar gold {answers}" for answers in (5, 20, 50)),
    *(f"{kind} {answers}" for kind in ("de gold", "de real", "fi real", "ko silver") for answers in (5, 10, 20)),
)
CORPUS = 200
ITERATIONS = 1000


class Held(NamedTuple):
    """What bounds of a rate did.

    Attributes:
        share: of the runs in which they held the true rate; a rate that is not defined misses nothing.
        below, above: shares of the runs in which they were all below the true rate, or all above.
        width: their median width.
    """

    share: float
    below: float
    above: float
    width: float


@lru_cache(maxsize=1)
def _shipped() -> Calibration:
    return load("lexical")


def held(language: str, kind: str, answers: int, rate: float | None, runs: int, iterations: int = 300) -> list[Held]:
    """What the bounds of the rates did with calibrations of so many answers: of Equation 1, if `rate` is ``None``, and of
    Rogan and Gladen.

    Args:
        language, kind: of the shipped calibration that answers are drawn from.
        answers: of a calibration.
        rate: the true one of the corpora, in which hallucinated words and others are weighted for it; ``None``: they are as
            in the calibration.
        runs: calibrations, and as many corpora.
        iterations: draws of each run's bounds.
    """
    counts = _shipped().languages[language][kind].documents
    assert counts is not None
    tp, fp, fn, tn = counts.T.astype(float)
    prevalence = (tp + fn).sum() / counts.sum()
    truth = prevalence if rate is None else rate
    more, less = truth / prevalence, (1 - truth) / (1 - prevalence)
    wild = np.column_stack([more * tp + less * fp, more * (tp + fn) + less * (fp + tn)])
    rng = np.random.default_rng(answers)
    found: list[Sequence[Figure]] = []
    for seed in range(runs):
        drawn, corpus = rng.integers(len(counts), size=answers), rng.integers(len(counts), size=CORPUS)
        rates = estimate(wild[corpus], counts[drawn], iterations=iterations, seed=seed)
        found.append((rates.estimated, rates.rogan_gladen) if rate is None else (rates.rogan_gladen,))
    return [_held(intervals, truth) for intervals in zip(*found, strict=True)]


def _held(intervals: Sequence[Figure], truth: float) -> Held:
    known = [one for one in intervals if not math.isnan(one.value)]
    below = sum(not truth <= one.high + 1e-9 for one in known) / len(intervals)
    above = sum(not one.low - 1e-9 <= truth and truth <= one.high + 1e-9 for one in known) / len(intervals)
    return Held(1 - below - above, below, above, float(np.median([one.high - one.low for one in known])))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1500)
    parser.add_argument("cells", nargs="*", default=CELLS)
    arguments = parser.parse_args()
    named = ["Equation 1", *("Rogan-Gladen" + (f" {rate}" if rate else "") for rate in RATES)]
    print(f"{'held, (width)':14}" + "".join(f"{name:>20}" for name in named))
    for cell in arguments.cells:
        language, kind, answers = cell.split()
        found = [one for rate in RATES for one in held(language, kind, int(answers), rate, arguments.runs, ITERATIONS)]
        print(f"{cell:14}" + "".join(f"{one.share:>12.3f} ({one.width:5.3f})" for one in found), flush=True)


if __name__ == "__main__":
    main()
