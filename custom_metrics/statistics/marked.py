"""A mean over all answers, from marks of a few of them and a cheaper reading of all.

People mark a probability sample of the answers; a detector (or a judge) has read every one. Its reading of the drawn
answers shows how far it errs; its reading of all takes the luck of the draw out. This is prediction-powered inference
(Angelopoulos et al. 2023, arXiv 2301.09633) with a weight for the reading (PPI++, arXiv 2311.01453), in survey sampling the
difference estimator (Särndal, Swensson and Wretman 1992, section 6.3).

The difference of two such means has bounds by MOVER: the distances of each mean to its own bounds, recombined with the
correlation of both (Zou and Donner 2008, "Construction of confidence limits about effect measures", Statistics in Medicine
27). Student's t would collapse where rates are low: of two models without a mark it says that they differ by 0 to 0.

Answers are drawn one after the other, each in proportion to its chance among those not yet drawn, which is to draw those
whose exponential random number over their chance is smallest (Efraimidis and Spirakis 2006, Information Processing Letters
97). Given the smallest of these quotients that was not drawn, each answer is drawn independently of the others with a known
probability (Cohen and Kaplan 2007, "Summarizing data using bottom-k sketches"). Its weight is the inverse, and a mean
varies only by what the draw leaves out.

The bounds of a rate are for the answers of this run and for marks like these; those of a difference are for questions like
these, as in other comparisons, so that they have a width also where all answers are marked.

*A share by labels* (:func:`marked_share`): people's labels of drawn answers say how often ours is wrong. Answers are
grouped by our label and whether it is in doubt; people's labels in a group are a weighted mean over its draws
(post-stratification: Särndal, Swensson and Wretman 1992, section 7.6). Of a group without draws ours are taken, and the
bounds allow for all of them being wrong. Each way in which the labels of a group can be wrong has Jeffreys' bounds of a
share (Brown, Cai and DasGupta 2001, Statistical Science 16); the bound next to 0 or 1 is Clopper and Pearson's, as
Jeffreys' is above a rare error whenever that is drawn once. MOVER recombines the bounds, each by how far it moves the
figure. The effective number of draws counts one more hit of the largest weight (Fay and Feuer 1997).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from custom_metrics.statistics.figures import UNDEFINED, Figure
from custom_metrics.statistics.intervals import SIGNIFICANCE, Z95, level_of, sums_by_cluster, two_part_bounds
from custom_metrics.statistics.paired_difference import Floats, PairedDifference

FEWEST_DRAWS = 5  # of fewer there are no bounds
METHOD = "MOVER of two marked means with their correlation"

_CLOSEST = 0.95  # of two means residuals are never more correlated: equal marks of a few draws prove no equality
_FAR = 3.0  # logits from the value to a bound, from which on bounds are those of the mean


class Draws(NamedTuple):
    """The answers that were drawn. Arrays are (answers,)."""

    weights: Floats  # what it counts among all over the probability by which it is drawn; 0: nothing
    clusters: Sequence[Any] | None  # names of what answers hang together with; None: each by itself
    left_out: Floats  # probability that the draw leaves each out; 1: of a run without end

    @classmethod
    def of(cls, weights: ArrayLike, clusters: Sequence[Any] | None = None, left_out: ArrayLike | None = None) -> Draws:
        """Without `left_out` the drawn answers are next to nothing of the run. An answer of weight 0 adds nothing to a
        mean: it keeps its place beside another run's."""
        each = np.asarray(weights, float)
        return cls(each, clusters, np.ones(each.shape) if left_out is None else np.asarray(left_out, float))

    def only(self, chosen: NDArray[np.bool_]) -> Draws:
        names = self.clusters
        clusters = None if names is None else [names[place] for place in np.flatnonzero(chosen).tolist()]
        return Draws(self.weights[chosen], clusters, self.left_out[chosen])


class MarkedMean(NamedTuple):
    """A mean of all answers by marks of some of them."""

    figure: Figure  # n: how many draws count
    slope: float  # lambda, the part of the reading's difference that is taken off; 0: the reading is not used
    alone: Figure  # by the marks alone
    residuals: Floats  # ([2,] answers) by how much one draw of each differs from the mean; two rows where of questions
    freedom: float  # degrees of freedom of the standard error; inf: all answers were drawn, which leaves no error
    units: tuple[Floats, Floats, float, Floats]  # of two-part bounds

    def bounds(self, level: float = SIGNIFICANCE) -> tuple[float, float]:
        """Bounds that miss the mean with this probability, of the same form as the 95 % ones of the figure."""
        value, _, _, error, number = self.figure
        low, high = _bounds(value, error, self.freedom, number, level)
        if not math.isnan(low) and not math.isinf(self.freedom):
            at_most, at_least = two_part_bounds(*self.units, level)
            return min(low, max(0.0, float(at_most))), max(high, float(at_least))
        return low, high

    @property
    def worth(self) -> float:
        """How many draws would give a standard error as small without the reading; ``nan`` where that is not known."""
        error, alone = self.figure.standard_error, self.alone.standard_error
        return self.figure.n * (alone / error) ** 2 if error > 0 else math.nan


def marked_mean(
    draws: Draws, marked: ArrayLike, expected: ArrayLike, of_all: float, of_questions: bool = False
) -> MarkedMean:
    """The mean of all answers, ``mean(h) - lambda * (mean(f) - F)``, lambda in [0, 1] by least squares of h on f.

    Args:
        draws: which answers were drawn, one or more.
        marked: (answers,) h, what people say of each, such as the share of its words that is made up.
        expected: (answers,) f, the same by the detector.
        of_all: F, the mean of f over all answers of the run, weighted as the draws are.
        of_questions: whether the bounds are for questions like these, which a difference is about. The value is the same.

    Returns:
        The mean with 95 % bounds by Student's t on its logit. At 0 and 1, and where all draws say the same, they are by t
        alone, and no narrower than those of a share without a hit (Clopper and Pearson 1934). The standard error is HC3
        (MacKinnon and White 1985); where all answers were drawn it is 0, and both bounds are the value. There are no bounds
        below five of several draws.
    """
    h, f = np.asarray(marked, float), np.asarray(expected, float)
    counts = draws.weights > 0
    if not counts.all():
        mean = marked_mean(draws.only(counts), h[counts], f[counts], of_all, of_questions)
        residuals = np.zeros((*mean.residuals.shape[:-1], len(h)))
        residuals[..., counts] = mean.residuals * len(h) / counts.sum()
        return mean._replace(residuals=residuals)
    of_run = h if of_questions else None
    alone = _mean(draws, h, h, 0.0, of_run)
    parts = draws.weights * np.sqrt(draws.left_out)  # of what a draw never leaves out the slope need not fit
    deviations = parts * _deviations(draws, f)
    squares = float(deviations @ deviations)
    if squares < 1e-12 or alone.figure.n < FEWEST_DRAWS:
        return alone
    slope = min(1.0, max(0.0, float(parts * deviations @ _deviations(draws, h)) / squares))
    leverage = deviations**2 / squares if 0 < slope < 1 else None
    mean = _mean(draws, h, h - slope * f, slope * of_all, of_run, leverage)
    return mean._replace(slope=slope, alone=alone.figure)


def marked_difference(*strata: tuple[Draws, MarkedMean | MarkedShare, MarkedMean | MarkedShare]) -> PairedDifference:
    """The difference of two models' means, and the mean over strata, such as languages, of which `strata` have the draws
    and two means ``of_questions`` of these draws.

    An answer that counts for one model only (the other's has no words, or nobody could judge it) is in that model's mean.
    Leaving it out of both would be biased: models abstain where others make things up. The 95 % bounds are by MOVER; p is
    the level at which such bounds touch 0. Both are ``nan`` where a mean has no bounds. ``n`` is the number of draws.
    """
    correlations = [_correlation(draws, first.residuals, second.residuals) for draws, first, second in strata]
    values = np.array([[mean.figure.value for mean in means] for _, *means in strata])
    of_first, of_second = map(float, values.mean(axis=0))
    difference = of_first - of_second

    def reaches(level: float) -> Floats:
        """How far the bounds of this level are below and above the difference."""
        squares = np.zeros(2)
        for (_, first, second), correlation in zip(strata, correlations, strict=True):
            of_one = np.abs(np.array(first.bounds(level)) - first.figure.value)
            of_other = np.abs(np.array(second.bounds(level)) - second.figure.value)[::-1]
            squares += of_one**2 + of_other**2 - 2 * correlation * of_one * of_other
        return np.asarray(np.sqrt(squares) / len(strata))

    below, above = map(float, reaches(SIGNIFICANCE))
    number = sum(len(draws.weights) for draws, *_ in strata)
    low, high = difference - below, difference + above
    p = math.nan if math.isnan(low) else level_of(lambda level: abs(difference) > reaches(level)[int(difference < 0)])
    return PairedDifference(of_first, of_second, difference, low, high, p, number, METHOD)


def _correlation(draws: Draws, first: Floats, second: Floats) -> float:
    """Of the errors of two means of the same draws, by their residuals."""
    size = math.sqrt(_products(draws, first, first) * _products(draws, second, second))
    return min(_CLOSEST, max(0.0, _products(draws, first, second) / size)) if size > 0 else 0.0


def _products(draws: Draws, first: Floats, second: Floats) -> float:
    """The sum of the products of residuals, which a variance or covariance is in proportion to.

    Answers of one cluster hang together; in a variance they count where they make it larger.
    """
    products = float(np.vdot(first, second))
    if draws.clusters is None:
        return products
    of_first, of_second = np.hsplit(sums_by_cluster(np.vstack([first, second]).T, draws.clusters), 2)
    between = float(np.vdot(of_first, of_second)) - products
    return products + (max(0.0, between) if first is second else between)


def _deviations(draws: Draws, values: Floats) -> Floats:
    return values - np.average(values, weights=draws.weights)


def _mean(
    draws: Draws,
    marked: Floats,
    values: Floats,
    shift: float,
    of_run: Floats | None,
    leverage: Floats | None = None,
) -> MarkedMean:
    """The weighted mean of values, shifted. The `leverage` of each draw is that of a slope that was learned from them.

    With the values `of_run` it counts, too, by how much a run's mean varies with its questions, which no reading takes out:
    the sum of the squares of their part of the run, over the probability of being drawn. Each is as far as the mean moves
    without that answer (jackknife: Särndal, Swensson and Wretman 1992, section 11.5), as few answers may hold most words.
    Where `left_out` is 1 nothing is added.
    """
    number = len(values)
    units = _units(draws, np.column_stack([marked, values + shift]), of_run is not None)
    weights = draws.weights / draws.weights.mean()
    residuals = weights * _deviations(draws, values)
    if leverage is not None:
        residuals = residuals / (1 - np.minimum(leverage, 1 - 1 / number))
    residuals = residuals * np.sqrt(draws.left_out)
    if of_run is not None:
        left = 1 - np.minimum(weights / number, 1 - 1 / number)  # of a run without the answer, which moves its mean
        moves = weights * (1 - 1 / number) / left * _deviations(draws, of_run)
        residuals = np.stack([residuals, np.sqrt(1 - draws.left_out) * moves])
        draws = draws._replace(left_out=np.ones(len(values)))
    mean = float(np.average(values, weights=draws.weights)) + shift
    error, freedom = _standard_error(draws, residuals, leverage is not None)
    figure = Figure(min(1.0, max(0.0, mean)), standard_error=error, n=number)
    plain = MarkedMean(figure, 0.0, UNDEFINED, residuals, freedom, units)
    low, high = plain.bounds()
    figure = figure._replace(low=low, high=high)
    return plain._replace(figure=figure, alone=figure)


def _units(draws: Draws, columns: Floats, of_questions: bool) -> tuple[Floats, Floats, float, Floats]:
    """The units of a mean's two-part bounds: answers, or clusters. `columns` are (answers, 2), marked part and value.

    All of K answers that the draw left out with probability L stay unseen with probability L^K, as if so many more had been
    drawn with replacement as -log(L) is more than 1 - L.
    """
    weights = draws.weights / draws.weights.max()
    rows = np.column_stack([weights, weights[:, None] * columns])
    of_units, *sums = sums_by_cluster(rows, draws.clusters).T
    left = 1.0 if of_questions else float(np.average(draws.left_out, weights=weights))
    more = -math.log(left) / (1 - left) if 0 < left < 1 else 1.0
    parts, values = sums / np.maximum(of_units, np.finfo(float).tiny)  # a weight can be next to nothing
    return parts, of_units, more, values


def _bounds(mean: float, error: float, freedom: float, number: int, level: float = SIGNIFICANCE) -> tuple[float, float]:
    """The bounds of a mean; those of a smaller level hold those of a larger one."""
    from scipy.special import expit, logit

    if math.isnan(error) or math.isinf(freedom):
        return mean + error, mean + error
    reach = _t(freedom, SIGNIFICANCE) * error
    slope = mean * (1 - mean)
    if reach > 1e-9 and reach < _FAR * slope:
        half = _t(freedom, level) * error / slope
        low, high = map(float, expit(logit(mean) + np.array([-half, half])))
        return low, high
    reach = max(_t(freedom, level) * error, 1 - (level / 2) ** (1 / number))
    return max(0.0, mean - reach), min(1.0, mean + reach)


def _standard_error(draws: Draws, residuals: Floats, learned: bool) -> tuple[float, float]:
    """Of a mean, by its residuals, and the degrees of freedom; ``nan`` where there are too few draws. A slope that was
    `learned` from them takes one degree, and so does each further answer of a cluster.

    A few answers with most of the spread tell less of it than many with the same: with the kurtosis k of the residuals, of
    n draws there are at most 2n / (k - (n - 3) / (n - 1)) degrees of freedom, n - 1 of a normal distribution (O'Neill
    2014, "Some useful moment results in sampling problems"). Of N answers there are n (1 - n / N) at most: what is sure to
    be drawn tells nothing of those left out.
    """
    if not draws.left_out.any():
        return 0.0, math.inf
    number = len(draws.weights)
    freedom = float(number - 1 - learned)
    of_each = np.atleast_2d(residuals**2).sum(axis=0)
    squares = float(of_each.sum())
    if draws.clusters is not None:
        freedom -= len(residuals) - len({*draws.clusters})
    if number < FEWEST_DRAWS or freedom < 2 - learned:
        return math.nan, freedom
    if (draws.left_out < 1).all():
        others = float((draws.left_out / (1 - draws.left_out)).sum())  # by the probabilities of those drawn
        freedom = min(freedom, max(1.0, number * others / (number + others)))
    if squares**2 > 0:  # of residuals of 1e-100 it is 0
        kurtosis = number * float(of_each @ of_each) / squares**2
        freedom = min(freedom, 2 * number / (kurtosis - (number - 3) / (number - 1)))
    return math.sqrt(_products(draws, residuals, residuals) / number / (number - 1)), freedom


def _t(freedom: float, level: float) -> float:
    """Student's t that is exceeded, in either direction, with this probability."""
    from scipy.special import stdtrit

    return -float(stdtrit(freedom, level / 2))


# -------------------------------------------------------------------------------------------- a share by people's labels


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
    """A share of all answers. It has what :func:`marked_difference` asks of a mean."""

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
    is_drawn: NDArray[np.bool_],
    weights: Floats,
    labels: Floats,
    numerator: ArrayLike,
    denominator: ArrayLike,
) -> MarkedShare | None:
    """The share of the answers with some labels among those with others, such as of claims among claims and refusals.

    Args:
        ours, doubtful: (answers,) the number of our label, and whether it is in doubt.
        is_drawn, weights: (answers,) and a number in proportion to the inverse of the chance of each.
        labels: (answers, labels) the shares of annotators that give each label.
        numerator: (labels,) whether a label counts, 1 or 0; or (labels, labels), for each label of ours.
        denominator: (labels,)

    Returns:
        ``None`` without a draw, and where no answer is in the denominator.
    """
    every, total = np.eye(labels.shape[1]), int(is_drawn.sum())
    groups = []
    for label, doubt in sorted({*zip(ours.tolist(), doubtful.tolist(), strict=True)}):
        members = (ours == label) & (doubtful == doubt)
        drawn = np.flatnonzero(members & is_drawn)
        said = np.average(labels[drawn], axis=0, weights=weights[drawn]) if len(drawn) else every[label]
        groups.append((label, float(members.mean()), drawn, said))
    counted, of_all = np.broadcast_to(np.asarray(numerator, float), every.shape), np.asarray(denominator, float)
    bottom = sum(size * float(of_all @ said) for _, size, _, said in groups)
    if not total or not bottom > 0:
        return None
    value = sum(size * float(counted[label] @ said) for label, size, _, said in groups) / bottom
    residuals, errors = np.zeros(len(ours)), []
    for label, size, drawn, said in groups:
        move = (counted[label] - value * of_all) / bottom
        move, draws = move - move[label], len(drawn)  # how far each label in place of ours moves the share
        each = weights[drawn] / weights[drawn].mean() if draws else weights[drawn]
        residuals[drawn] = size * total / max(draws, 1) * each * ((labels[drawn] - said) @ move)
        for most in filter(None, (float(move.max()), float(move.min()))):
            part = labels[drawn] @ np.maximum(0.0, move / most)
            hits, heaviest = float(each @ part), float(each.max(initial=1.0))
            effective = draws * (hits + heaviest) / (float(each**2 @ part) + heaviest**2)
            errors.append(Error(size * most, min(1.0, hits / max(draws, 1)), effective))
    return MarkedShare.of(value, residuals[is_drawn], errors, total)


def mean_share(shares: Sequence[MarkedShare]) -> MarkedShare:
    """The mean of shares of different answers, each of which counts the same."""
    errors = [error._replace(most=error.most / len(shares)) for share in shares for error in share.errors]
    value, draws = (sum(share.figure[place] for share in shares) for place in (0, 4))
    residuals = np.concatenate([share.residuals for share in shares])
    return MarkedShare.of(value / len(shares), residuals, errors, int(draws))
