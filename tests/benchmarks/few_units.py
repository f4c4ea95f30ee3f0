"""Do p and bounds hold where few units carry a figure? ``python -m tests.benchmarks.few_units``; ``make check-statistics``.

Simulates few documents, few passages with anything to find, strata of one to ten documents, rare values and long tails.
Prints a row for each case beside its bar, how often a case is not measurable (it has no bounds there), and ends with 1 if a
bar is missed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from custom_metrics.hallucination import HallucinationRate
from custom_metrics.scores.aggregations import Aggregation, defined_score
from custom_metrics.scores.detection import balanced_accuracy, f1, precision, recall
from custom_metrics.scores.ratings import RankCorrelation, auc
from custom_metrics.statistics.figures import CountsOfCluster, Figure, Rows
from custom_metrics.statistics.paired_difference import (
    Floats,
    Form,
    difference_of_shares,
    figure_bounds,
    freedom_of,
    mean_differences,
)
from custom_metrics.statistics.random_effects import Errors
from custom_metrics.statistics.strata import linearised, mean_of_shares, mean_of_strata
from tests.benchmarks.statistics import Row, print_checks

ROUNDS = 2000
_SEED = 29

Random = np.random.Generator


class Outcome(NamedTuple):
    """What of some rounds has bounds, and of these, what is right."""

    measured: float
    right: float

    def row(self, what: str, bar: float, error: bool = False) -> Row:
        """The row of a table; what is right is a type I error, or a coverage."""
        text = f"{100 * self.right:.1f} %" if self.measured else ""
        unmeasured = f"not measurable: {100 * (1 - self.measured):.0f} %" if self.measured < 1 else ""
        holds = not self.measured or (self.right <= bar if error else self.right >= bar)
        value = ", ".join(filter(None, (text, unmeasured)))
        return Row(what, value, holds, f"{'<=' if error else '>='} {100 * bar:g} %")


def _errors(p: Any) -> Outcome:
    """How often equal models are called different, of all rounds: one that is not measurable calls nothing."""
    known = ~np.isnan(p)
    return Outcome(float(known.mean()), float((np.asarray(p)[known] < 0.05).mean()) if known.any() else 0.0)


def _held(low: Any, high: Any, truth: float) -> Outcome:
    known = ~np.isnan(low)
    held = (low <= truth + 1e-12) & (truth <= high + 1e-12)
    return Outcome(float(known.mean()), float(held[known].mean()) if known.any() else 0.0)


VALUES: dict[str, tuple[Callable[[Random, tuple[int, ...]], Floats], float]] = {
    "normal": (lambda rng, shape: rng.normal(1, 1, shape), 1.0),
    "RougeL, 2 of 5 are 0": (lambda rng, shape: np.where(rng.random(shape) < 0.4, 0, rng.beta(1, 3, shape)), 0.15),
    "length, long tail": (lambda rng, shape: np.exp(rng.normal(4, 1, shape)), math.exp(4.5)),
    "rare (1 in 10)": (lambda rng, shape: np.where(rng.random(shape) < 0.1, rng.random(shape), 0.0), 0.05),
    "rare (3 in 100)": (lambda rng, shape: np.where(rng.random(shape) < 0.03, rng.random(shape), 0.0), 0.015),
}
SIZES: dict[str, Sequence[int]] = {
    **{"5": [5], "10": [10], "30": [30], "1 and 200": [1, 200], "2 and 200": [2, 200], "3, 3 and 3": [3, 3, 3]},
    **{"18 strata of 1": [1] * 18, "9 strata of 2": [2] * 9, "1 and 3 of 50": [1, 50, 50, 50]},
}


def check_differences_of_means(rounds: int = ROUNDS) -> Iterator[Row]:
    """How often equal models are called different by their means."""
    for name, (draw, _) in VALUES.items():
        for strata, sizes in SIZES.items():
            rng = np.random.default_rng(_SEED)
            values = [np.column_stack([draw(rng, (size, rounds)) for _ in range(2)]) for size in sizes]
            found = mean_differences(values, [(place, rounds + place) for place in range(rounds)])
            yield _errors(found.p).row(f"{name}, {strata}: called different", 0.06, error=True)


def check_means(rounds: int = ROUNDS) -> Iterator[Row]:
    """How often the bounds of a mean hold."""
    for name, (draw, truth) in VALUES.items():
        for size in (5, 8, 10, 20, 50, 150):
            form: Form = "" if name == "normal" else "positive"
            low, high = figure_bounds(draw(np.random.default_rng(_SEED), (size, rounds)), form)
            yield _held(low, high, truth).row(f"mean of {size}, {name}", 0.93)
    for sizes in ([1, 200], [1, 50, 50], [1] * 18):
        rng, (draw, truth) = np.random.default_rng(_SEED), VALUES["normal"]
        figures = []
        for _ in range(rounds):
            own = [draw(rng, (size,)) for size in sizes]
            errors = [of.std(ddof=1) / math.sqrt(len(of)) if len(of) > 1 else math.nan for of in own]
            reach = [1.96 * error for error in errors]
            of_strata = zip(own, reach, errors, strict=True)
            strata = [Figure(m := float(o.mean()), m - r, m + r, e, len(o)) for o, r, e in of_strata]
            figures.append(mean_of_strata(strata))
        low, high = np.array([figure[1:3] for figure in figures]).T
        yield _held(low, high, truth).row(f"mean of strata of {', '.join(map(str, sizes))}"[:56], 0.93)


SCORES: dict[str, tuple[Callable[[Random, int], Floats], float]] = {
    "RougeL, 2 of 5 are 0": (lambda rng, size: np.where(rng.random(size) < 0.4, 0, rng.beta(1, 3, size)), 0.15),
    "rare (3 in 100)": (lambda rng, size: np.where(rng.random(size) < 0.03, rng.random(size), 0.0), 0.015),
    "recall, 3 of 4 are 1": (lambda rng, size: np.where(rng.random(size) < 0.75, 1.0, rng.random(size)), 0.875),
    "win rate, 0, half or 1": (lambda rng, size: rng.choice((0, 0.5, 1), size, p=(0.2, 0.2, 0.6)), 0.7),
    "0 or 1 at .9": (lambda rng, size: (rng.random(size) < 0.9) * 1.0, 0.9),
    "0 or 1 at .02": (lambda rng, size: (rng.random(size) < 0.02) * 1.0, 0.02),
}


def check_means_of_scores(rounds: int = ROUNDS) -> Iterator[Row]:
    """How often the bounds of a mean of scores between 0 and 1 hold."""
    for name, (draw, truth) in SCORES.items():
        for size in (5, 10, 20, 50, 100):
            rng = np.random.default_rng(_SEED)
            low, high = np.array([defined_score.figure_of(draw(rng, size).tolist())[1:3] for _ in range(rounds)]).T
            yield _held(low, high, truth).row(f"mean of {size} scores, {name}", 0.93)


def _detector(rng: Random, gold: Floats, found: Floats, passages: int) -> Floats:
    """(passages, 4) word counts of a detector: of the first passages so many words are hallucinated, a share is found."""
    counts, number = np.zeros((passages, 4)), len(gold)
    share = np.clip(found + rng.normal(0, 0.2, number), 0, 1)
    counts[:number, 0] = rng.binomial(gold.astype(int), share)
    counts[:number, 2] = gold - counts[:number, 0]
    counts[:, 1] = rng.binomial(40, 0.05 * (rng.random(passages) < 0.3), passages)
    counts[:, 3] = 40 - counts[:, 1]
    return counts


def check_ratios(rounds: int = 2 * ROUNDS) -> Iterator[Row]:
    """How often equal detectors are called different, where so many of 100 passages have hallucinated words."""
    for number in (1, 2, 3, 5, 10, 20, 50):
        rng = np.random.default_rng(_SEED)
        p: dict[str, list[float]] = {}
        for _ in range(rounds):
            gold, found = np.maximum(1, np.round(rng.lognormal(2, 0.7, number))), rng.beta(2, 2, number)
            one, other = (Rows(_detector(rng, gold, found, 100)) for _ in range(2))
            for kind in (recall, precision, f1, balanced_accuracy):
                p.setdefault(kind.name, []).append(kind.difference(one, other).p)
        for name, of_kind in p.items():
            yield _errors(of_kind).row(f"{name}, {number} of 100 passages: called different", 0.06, error=True)


def check_ratio_figures(rounds: int = ROUNDS) -> Iterator[Row]:
    """How often the bounds of a recall hold, where so many passages have hallucinated words."""
    for share, alike in ((0.5, 4.0), (0.9, 10.0), (0.02, 1.0), (0.98, 20.0), (0.3, 0.5)):
        for number in (2, 5, 8, 10, 20, 50):
            rng, shape = np.random.default_rng(_SEED), (number, rounds)
            gold = np.maximum(1, np.round(rng.lognormal(1.5, 0.8, shape))).astype(int)
            tops = rng.binomial(gold, rng.beta(share * alike, (1 - share) * alike, shape))
            values = linearised(tops, gold)
            freedom = [freedom_of([of], [words**1.5]) for of, words in zip(values.T, gold.T, strict=True)]
            low, high = figure_bounds(values, "rate", np.array(freedom))
            yield _held(low, high, share).row(f"recall {share:g} of {number} passages, alike {alike:g}", 0.93)


def check_areas(rounds: int = ROUNDS) -> Iterator[Row]:
    """How often equal detectors are called different by their AUC, where sentences of a passage depend on each other."""
    for passages in (10, 40):
        rng, p = np.random.default_rng(_SEED), []
        for _ in range(rounds):
            values: list[list[Any]] = [[], []]
            for passage in range(passages):
                own = rng.normal(0, 1, 2)
                for _ in range(5):
                    wrong = rng.random(3) < 0.3
                    for of_model, effect in zip(values, own, strict=True):
                        shares = rng.normal(wrong + effect * np.where(wrong, 1, -1), 1)
                        pairs = np.column_stack([shares, wrong]).tolist()
                        of_model.append(CountsOfCluster(pairs, f"p{passage}"))
            p.append(auc.difference(*(auc.rows(of_model) for of_model in values)).p)
        yield _errors(p).row(f"AUC, {passages} passages of 5 answers: called different", 0.06, error=True)


def check_correlations(rounds: int = ROUNDS // 4) -> Iterator[Row]:
    """How often the bounds of a rank correlation hold: of scores and ratings, most of them 4, of two answers a turn."""
    kind = RankCorrelation("rho")

    def drawn(rng: Random, turns: int) -> Rows:
        values = []
        for turn in range(turns):
            own, harder = rng.normal(0, 0.5), rng.choice([-0.5, 1.5])  # what the turn does to people, and to the scores
            quality = rng.normal(own, 1, 2)
            scores, said = rng.normal(quality + harder * own, 1), np.digitize(quality, [-1.6, -1.0, -0.3])
            values += [CountsOfCluster(pair, f"t{turn}") for pair in zip(scores, said, strict=True)]
        return kind.rows(values)

    truth = kind.value(drawn(np.random.default_rng(_SEED), 1500))
    for turns in (20, 40):
        rng = np.random.default_rng(_SEED)
        bounds = np.array([kind.figure(drawn(rng, turns))[1:3] for _ in range(rounds)])
        yield _held(*bounds.T, truth).row(f"rank correlation, {turns} turns of 2 answers: held", 0.93)


def check_tiny_strata(rounds: int = ROUNDS) -> Iterator[Row]:
    """Shares of strata of 1 to 50 documents: how often equal models are called different, and how often bounds hold."""
    few = [(2, 5), (2, 10), (4, 1), (4, 3), (9, 1), (9, 5), (9, 10), (18, 1), (18, 3), (18, 10), (18, 50)]
    for strata, size in few:
        for first, second in ((0.02, 0.02), (0.1, 0.1), (0.5, 0.5), (0.3, 0.5), (0.02, 0.9)):
            rng, shape = np.random.default_rng(_SEED), (strata, rounds)
            b = rng.binomial(size, first * (1 - second), shape)
            c = rng.binomial(size - b, second * (1 - first) / (1 - first * (1 - second)), shape)
            found = difference_of_shares(b, c, np.full(shape, size), np.full(shape, 1 / strata))
            _, low, high, p = found
            what = f"{strata} x {size} at {first:g} and {second:g}"
            yield _held(low, high, first - second).row(f"{what}: bounds hold", 0.93)
            if first == second:
                yield _errors(p).row(f"{what}: called different", 0.06, error=True)
    cases = [((0.4, 0.4), (250, 10)), ((0.005, 0.005), (10, 10)), ((0.3, 0.3), (10, 10)), ((0.02, 0.9), (60, 26))]
    cases += [((share,) * number, (size,) * number) for number in (4, 18) for size in (2, 10) for share in (0.02, 0.4)]
    for shares, sizes in cases:
        counts = np.random.default_rng(_SEED).binomial(sizes, shares, (rounds, len(sizes))).tolist()
        means = [mean_of_shares([Figure(k / n, n=n) for k, n in zip(of, sizes, strict=True)]) for of in counts]
        low, high = np.array([figure[1:3] for figure in means]).T
        name = f"{len(sizes)} x {sizes[0]} at {shares[0]:g}" if len(sizes) > 2 else f"{sizes} at {shares}"
        yield _held(low, high, float(np.mean(shares))).row(f"mean of shares, {name}", 0.93)


class _Rate(HallucinationRate):
    def errors(self, context: Any, iterations: int) -> Errors:
        return Errors(0.6, 0.1, 1.0, np.tile([0.6, 0.1, 1.0], (iterations, 1)))


def check_nothing_flagged(rounds: int = ROUNDS // 10) -> Iterator[Row]:
    """How often the bounds of the difference of two estimated rates hold, where next to no answer has a flagged word."""
    kind: Aggregation = _Rate("estimated_rate", "estimated_rate")
    for answers, often in ((20, 0.0), (20, 0.01), (100, 0.002), (100, 0.01)):
        rng, found = np.random.default_rng(_SEED), []
        for _ in range(rounds):
            words = np.full(answers, 40.0)
            one, other = (Rows(np.column_stack([20.0 * (rng.random(answers) < often), words])) for _ in range(2))
            difference = kind.difference(one, other)
            found.append((difference.low, difference.high, difference.p))
        (low, high, p), what = np.array(found).T, f"estimated rate, {answers} answers, {often:g} flagged"
        yield _held(low, high, 0.0).row(f"{what}: bounds hold", 0.93)
        yield _errors(p).row(f"{what}: called different", 0.06, error=True)


if __name__ == "__main__":
    sys.exit(
        print_checks(
            check_differences_of_means,
            check_means,
            check_means_of_scores,
            check_ratios,
            check_ratio_figures,
            check_areas,
            check_correlations,
            check_tiny_strata,
            check_nothing_flagged,
        )
    )
