"""Do bounds of few marked answers hold where most are slips and few wholly made up? ``python -m tests.benchmarks.slips``.

``make check-marks`` runs it. A run of 300 answers, marked answers drawn as `mark` draws them; a detector that reads well,
or guesses. Ends with 1 if a bar is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from custom_metrics.statistics.marked import Draws, MarkedMean, marked_difference, marked_mean
from tests.benchmarks.statistics import Row, print_checks

ROUNDS, ANSWERS = 2000, 300
NUMBERS, RATES = (15, 50), (0.02, 0.06)
_SEED = 44

Floats = NDArray[np.float64]


def marks_of(rng: np.random.Generator, kind: str, rate: float) -> Floats:
    """The share of each answer that is made up."""
    if kind == "slips, few whole":
        slips = np.where(rng.random(ANSWERS) < 0.3, rng.uniform(0.01, 0.03, ANSWERS), 0.0)
        return np.where(rng.random(ANSWERS) < rate - 0.006, rng.uniform(0.8, 1, ANSWERS), slips)
    concentration = {"Beta(.1)": 0.1, "even": 2.0}[kind]
    return rng.beta(concentration, concentration * (1 / rate - 1), ANSWERS)


def read(rng: np.random.Generator, marked: Floats, detector: str) -> Floats:
    """What a detector expects of each answer."""
    if detector == "guesses":
        return rng.beta(1, 6, ANSWERS)
    return np.clip(0.7 * marked + 0.05 + 0.05 * rng.normal(size=ANSWERS), 0, 1)


def drawn(rng: np.random.Generator, shares: Floats, number: int) -> tuple[NDArray[np.int64], Floats]:
    """Which answers are drawn by exponential numbers over their shares, and the probability of leaving each out."""
    places = rng.standard_exponential(ANSWERS) / shares
    order = np.argsort(places)
    return order[:number], np.exp(-shares[order[:number]] * places[order[number]])


def mean_of(
    rng: np.random.Generator,
    kind: str,
    rate: float,
    detector: str,
    words: Floats,
    draw: tuple[NDArray[np.int64], Floats],
) -> tuple[Draws, MarkedMean, float]:
    """The rate of a simulated run by its draws, and the truth."""
    marked, shares, (places, left_out) = marks_of(rng, kind, rate), words / words.sum(), draw
    expected = read(rng, marked, detector)
    draws = Draws.of(shares[places] / (1 - left_out), None, left_out)
    return draws, marked_mean(draws, marked[places], expected[places], float(shares @ expected)), float(shares @ marked)


def check_rates(rounds: int = ROUNDS) -> Iterator[Row]:
    """How often bounds of ``marked_rate`` hold."""
    for kind, detector, rate, number in product(
        ("slips, few whole", "Beta(.1)", "even"), ("reads well", "guesses"), RATES, NUMBERS
    ):
        rng, held, width = np.random.default_rng(_SEED), 0, 0.0
        for _ in range(rounds):
            words = np.ceil(rng.lognormal(4.3, 0.6, ANSWERS))
            _, mean, truth = mean_of(rng, kind, rate, detector, words, drawn(rng, words / words.sum(), number))
            held += mean.figure.low <= truth <= mean.figure.high
            width += mean.figure.high - mean.figure.low
        what = f"{kind}, rate {rate}, {number} marks; detector {detector}"
        yield Row(what, f"{100 * held / rounds:.1f} %, {width / rounds:.3f} wide", held / rounds >= 0.93, ">= 93 %")


def check_differences(rounds: int = ROUNDS) -> Iterator[Row]:
    """How often two equal models are called different by marks."""
    for kind, rate, number in product(("slips, few whole", "Beta(.1)"), RATES, NUMBERS):
        rng, false = np.random.default_rng(_SEED), 0
        for _ in range(rounds):
            words = np.ceil(rng.lognormal(4.3, 0.6, (2, ANSWERS)))
            shares = words / words.sum(axis=1, keepdims=True)
            draw = drawn(rng, shares.mean(axis=0), number)
            means = []
            for share in shares:
                marked = marks_of(rng, kind, rate)
                expected = read(rng, marked, "reads well")
                draws = Draws.of(share[draw[0]] / (1 - draw[1]), None, draw[1])
                at = draw[0]
                of_all = float(share @ expected)
                means.append(marked_mean(draws, marked[at], expected[at], of_all, of_questions=True))
            found = marked_difference((draws, *means))
            false += found.p < 0.05
        what = f"{kind}, both {rate}, {number} marks: called different"
        yield Row(what, f"{100 * false / rounds:.1f} %", false / rounds <= 0.06, "<= 6 %")


if __name__ == "__main__":
    sys.exit(print_checks(check_rates, check_differences))
