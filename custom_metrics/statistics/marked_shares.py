"""A share of all answers as people would label them, from their labels of some answers and our label of all.

People's labels of drawn answers say how often ours is wrong. Answers are grouped by our label and whether it is in doubt;
the size of each group is known, and people's labels in it are a weighted mean over its draws (post-stratification: Särndal,
Swensson and Wretman 1992, section 7.6, with the weights of Hansen and Hurwitz 1943). Of a group without draws ours are
taken, and the bounds allow for all of them being wrong.

Of labels that are nearly always right few draws show a spread. So each way in which the labels of a group can be wrong has
Jeffreys' bounds of a share (Brown, Cai and DasGupta 2001, Statistical Science 16), which are apart where none was found.
The bound next to 0 or 1 is Clopper and Pearson's, as Jeffreys' is above a rare error whenever that is drawn once. MOVER
recombines the bounds (Zou and Donner 2008), each by how far it moves the figure. A weighted share has an effective number
of draws, which counts one more hit of the largest weight (Fay and Feuer 1997, Statistics in Medicine 16).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.intervals import SIGNIFICANCE, Z95

Floats = NDArray[np.float64]


class Error(NamedTuple):
    """A way in which our labels of a group can be wrong."""

    most: float  # how far the figure would move if all of them were
    share: float  # of them that are, by the draws
    draws: float  # effective number

    def reach(self, level: float) -> tuple[float, float]:
        """How far the bounds of the share move the figure: down, and up."""
        from scipy.special import betaincinv

        hits, misses = self.share * self.draws, (1 - self.share) * self.draws
        fewer, more = sorted((hits, misses))
        near = float(betaincinv(fewer, more + 1, level / 2)) if fewer > 0 else 0.0
        far = float(betaincinv(fewer + 0.5, more + 0.5, 1 - level / 2))
        low, high = (near, far) if hits <= misses else (1 - far, 1 - near)
        down, up = sorted((self.most * (low - self.share), self.most * (high - self.share)))
        return down, up


class MarkedShare(NamedTuple):
    """A share of all answers. It has what :func:`custom_metrics.statistics.marked.marked_difference` asks of a mean."""

    figure: Figure  # n: how many draws count
    residuals: Floats  # (drawn,) by how much one draw of each answer differs from the mean
    errors: Sequence[Error]

    @classmethod
    def of(cls, value: float, residuals: Floats, errors: Sequence[Error], draws: int) -> MarkedShare:
        """With 95 % bounds. The standard error is that of a normal distribution with bounds as wide."""
        share = cls(Figure(value), residuals, errors)
        low, high = share.bounds()
        return share._replace(figure=Figure(value, low, high, (high - low) / 2 / Z95, draws))

    def bounds(self, level: float = SIGNIFICANCE) -> tuple[float, float]:
        """Bounds that miss the share with this probability."""
        drawn = [error.reach(level) for error in self.errors if error.draws]
        others = [error.most for error in self.errors if not error.draws]
        down, up = np.sqrt(np.square([(0.0, 0.0), *drawn]).sum(axis=0)).tolist()
        low = self.figure.value - down + sum(most for most in others if most < 0)
        return max(0.0, low), min(1.0, self.figure.value + up + sum(most for most in others if most > 0))


def marked_share(
    ours: NDArray[np.int64],
    doubtful: NDArray[np.bool_],
    times: Floats,
    weights: Floats,
    labels: Floats,
    numerator: ArrayLike,
    denominator: ArrayLike,
) -> MarkedShare | None:
    """The share of the answers with some labels among those with others, such as of claims among claims and refusals.

    Args:
        ours, doubtful: (answers,) the number of our label, and whether it is in doubt.
        times, weights: (answers,) how often each was drawn, and a number in proportion to the inverse of its chance.
        labels: (answers, labels) the shares of annotators that give each label.
        numerator: (labels,) whether a label counts, 1 or 0; or (labels, labels), for each label of ours.
        denominator: (labels,)

    Returns:
        ``None`` without a draw, and where no answer is in the denominator.
    """
    every, total = np.eye(labels.shape[1]), float(times.sum())
    groups = []
    for label, doubt in sorted({*zip(ours.tolist(), doubtful.tolist(), strict=True)}):
        members = (ours == label) & (doubtful == doubt)
        drawn = np.flatnonzero(members & (times > 0))
        said = np.average(labels[drawn], axis=0, weights=(times * weights)[drawn]) if len(drawn) else every[label]
        groups.append((label, float(members.mean()), drawn, said))
    counted, of_all = np.broadcast_to(np.asarray(numerator, float), every.shape), np.asarray(denominator, float)
    bottom = sum(size * float(of_all @ said) for _, size, _, said in groups)
    if not total or not bottom > 0:
        return None
    value = sum(size * float(counted[label] @ said) for label, size, _, said in groups) / bottom
    residuals, errors = np.zeros(len(times)), []
    for label, size, drawn, said in groups:
        move = (counted[label] - value * of_all) / bottom
        move, number = move - move[label], times[drawn]  # how far each label in place of ours moves the share
        draws = float(number.sum())
        each = weights[drawn] * draws / float(number @ weights[drawn]) if draws else weights[drawn]
        residuals[drawn] = size * total / max(draws, 1.0) * each * ((labels[drawn] - said) @ move)
        for most in filter(None, (float(move.max()), float(move.min()))):
            part = labels[drawn] @ np.maximum(0.0, move / most)
            hits, heaviest = float((number * each) @ part), float(each.max(initial=1.0))
            effective = draws * (hits + heaviest) / (float((number * each**2) @ part) + heaviest**2)
            errors.append(Error(size * most, min(1.0, hits / max(draws, 1.0)), effective))
    return MarkedShare.of(value, residuals[times > 0], errors, int(total))


def mean_share(shares: Sequence[MarkedShare]) -> MarkedShare:
    """The mean of shares of different answers, each of which counts the same."""
    errors = [error._replace(most=error.most / len(shares)) for share in shares for error in share.errors]
    value, draws = (sum(share.figure[place] for share in shares) for place in (0, 4))
    residuals = np.concatenate([share.residuals for share in shares])
    return MarkedShare.of(value / len(shares), residuals, errors, int(draws))
