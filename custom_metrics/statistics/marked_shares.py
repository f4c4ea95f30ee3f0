"""A share of all answers as people would label them, from their labels of some answers and our label of all.

Our label is the reading of all answers; people's labels of drawn ones say how often it is wrong. Answers are in strata, by
our label and by how sure it is. The size of each is known, and people's labels in it are a weighted mean over its draws
(post-stratification: Särndal, Swensson and Wretman 1992, section 7.6; weights of Hansen and Hurwitz 1943). Where our label
was never found wrong the share is that of our labels.

A label that is nearly always right gives no spread to estimate bounds from. So each way to be wrong in a stratum has bounds
of its own, by Jeffreys' interval of a share (Brown, Cai and DasGupta 2001, Statistical Science 16), which has a width where
nothing was found. MOVER recombines them (Zou and Donner 2008): each counts by how far it would move the figure. The number
of draws of a weighted share is the effective one, with one more hit of the largest weight: hits that were not drawn may be
such (Fay and Feuer 1997, Statistics in Medicine 16).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.intervals import SIGNIFICANCE, Z95

Floats = NDArray[np.float64]


class Stratum(NamedTuple):
    """Answers with one label of ours. Arrays are (drawn, ...), with each drawn answer once."""

    label: int  # ours
    size: float  # its share of all answers
    drawn: NDArray[np.int64]  # places of its drawn answers among all drawn ones
    labels: Floats  # (drawn, labels): the share of annotators that give each label


class Error(NamedTuple):
    """A way in which our labels of a stratum can be wrong."""

    most: float  # how far the figure would move if all of them were
    share: float  # of them that are, by the draws
    draws: float  # effective number

    def bounds(self, level: float) -> tuple[float, float]:
        """Jeffreys' bounds of the share."""
        from scipy.special import betaincinv

        hits, misses = self.share * self.draws, (1 - self.share) * self.draws
        low = float(betaincinv(hits + 0.5, misses + 0.5, level / 2)) if hits > 0 else 0.0
        return low, float(betaincinv(hits + 0.5, misses + 0.5, 1 - level / 2)) if misses > 0 or not hits else 1.0


class MarkedShare(NamedTuple):
    """A share of all answers. It has what :func:`custom_metrics.statistics.marked.marked_difference` asks of a mean."""

    figure: Figure  # n: how many draws count
    residuals: Floats  # (drawn,) by how much one draw of each answer differs from the mean
    errors: Sequence[Error]

    def bounds(self, level: float = SIGNIFICANCE) -> tuple[float, float]:
        """Bounds that miss the share with this probability."""
        value, below, above = self.figure.value, 0.0, 0.0
        for most, share, draws in self.errors:
            ends = [most * (bound - share) for bound in Error(most, share, draws).bounds(level)]
            below, above = below + min(ends) ** 2, above + max(ends) ** 2
        return max(0.0, value - math.sqrt(below)), min(1.0, value + math.sqrt(above))


def marked_share(
    strata: Sequence[Stratum], times: Floats, weights: Floats, numerator: Sequence[float], denominator: Sequence[float]
) -> MarkedShare | None:
    """The share of the answers with some labels among those with others, such as of claims among claims and refusals.

    Args:
        strata: all answers.
        times: (drawn,) how often each answer was drawn.
        weights: (drawn,) in proportion to the inverse of its chance.
        numerator, denominator: (labels,) 1 or 0.

    Returns:
        ``None`` where no answer is in the denominator.
    """
    counted, of_all = np.asarray(numerator, float), np.asarray(denominator, float)
    shares = sum(stratum.size * _mean_labels(stratum, times * weights, len(counted)) for stratum in strata)
    bottom = float(of_all @ shares)
    if not bottom > 0:
        return None
    value = float(counted @ shares) / bottom
    moves = (counted - value * of_all) / bottom
    return _share(value, strata, [moves - moves[stratum.label] for stratum in strata], times, weights)


def wrong_labels(strata: Sequence[Stratum], times: Floats, weights: Floats) -> MarkedShare:
    """The share of all answers whose label is not ours."""
    number = strata[0].labels.shape[1]
    moves = [1.0 - np.eye(number)[stratum.label] for stratum in strata]
    means = [move @ _mean_labels(stratum, times * weights, number) for move, stratum in zip(moves, strata, strict=True)]
    value = sum(stratum.size * float(mean) for stratum, mean in zip(strata, means, strict=True))
    return _share(value, strata, moves, times, weights)


def mean_share(shares: Sequence[MarkedShare]) -> MarkedShare:
    """The mean of shares of different answers, each of which counts the same."""
    number = len(shares)
    errors = [error._replace(most=error.most / number) for share in shares for error in share.errors]
    value = sum(share.figure.value for share in shares) / number
    return _with_bounds(
        value, np.concatenate([share.residuals for share in shares]), errors, sum(s.figure.n for s in shares)
    )


def _mean_labels(stratum: Stratum, weights: Floats, number: int) -> Floats:
    """People's labels in a stratum; ours where none of it was drawn."""
    if not len(stratum.drawn):
        return np.asarray(np.eye(number)[stratum.label])
    return np.asarray(np.average(stratum.labels, axis=0, weights=weights[stratum.drawn]))


def _share(
    value: float, strata: Sequence[Stratum], moves: Sequence[Floats], times: Floats, weights: Floats
) -> MarkedShare:
    """A share with bounds; `moves` has, of each stratum, how far each label in place of ours would move it."""
    residuals, errors = np.zeros(len(times)), []
    for stratum, move in zip(strata, moves, strict=True):
        number, moved = times[stratum.drawn], stratum.labels @ move
        draws = float(number.sum())
        each = weights[stratum.drawn] * draws / max(float(number @ weights[stratum.drawn]), 1e-300)
        if draws:
            mean = float(number * each @ moved) / draws
            residuals[stratum.drawn] = stratum.size * float(times.sum()) / draws * each * (moved - mean)
        for most in (float(move.max()), float(move.min())):
            if most:
                part = np.maximum(0.0, stratum.labels @ np.maximum(0.0, move * np.sign(most))) / abs(most)
                hits, squares, heaviest = number * each @ part, number * each**2 @ part, each.max(initial=1.0)
                effective = draws * (hits + heaviest) / (squares + heaviest**2)
                share = min(1.0, float(hits) / draws) if draws else 0.0
                errors.append(Error(stratum.size * most, share, float(effective)))
    return _with_bounds(value, residuals, errors, int(times.sum()))


def _with_bounds(value: float, residuals: Floats, errors: Sequence[Error], draws: int) -> MarkedShare:
    share = MarkedShare(Figure(value), residuals, errors)
    low, high = share.bounds()
    return share._replace(figure=Figure(value, low, high, (high - low) / 2 / Z95, draws))
