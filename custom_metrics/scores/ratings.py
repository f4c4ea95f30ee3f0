"""How well a judge's scores of answers agree with the ratings, 1 to 4, that several people gave each.

The value of an answer is a list: the score, on people's scale, then the ratings. A judge is held against the median of all
    ratings. The ceiling is each rater against the median of the others; beside it stands the judge against these medians.
    The figures are the area under the ROC curve, and Spearman's rank correlation: each depends on all pairs of a score and
    what people said together. What each adds makes numbers whose mean it is, and so bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from statistics import median
from typing import Any

import numpy as np

from custom_metrics.scores.aggregations import Mean, NotMeasured, Source
from custom_metrics.statistics.figures import Figure, Rows
from custom_metrics.statistics.paired_difference import Floats


class OfPairs(Mean):
    """A figure of pairs. Rows are numbers whose mean it is; ``nan`` where it is not defined."""

    of_numbers = False

    def pairs(self, value: Any) -> Any:
        """The pairs of a document's value, rows of score and what people said."""
        return value

    def effects(self, scores: Floats, said: Floats) -> tuple[float, Floats]:
        """The figure of (pairs,) scores and what people said, and what each pair adds to it; these sum to 0."""
        raise NotImplementedError

    def rows(self, values: Sequence[Any], clusters: Sequence[Any] | None = None, source: Source | None = None) -> Rows:
        used = [place for place, value in enumerate(values) if value is not None]
        try:
            by_document = [np.asarray(self.pairs(values[place]), dtype=float).reshape(-1, 2) for place in used]
        except (TypeError, ValueError) as error:
            raise NotMeasured(f"the values are not pairs of a score and what people said ({error})") from error
        pairs = np.concatenate([np.empty((0, 2)), *by_document])
        document = np.repeat(np.arange(len(used)), [len(of_document) for of_document in by_document])
        numbers = np.full(len(values), math.nan)
        if len(pairs):
            figure, added = self.effects(*pairs.T)
            numbers[used] = figure + len(used) * np.bincount(document, added, len(used))
        return Rows(numbers, self.cluster_names(values) if clusters is None else clusters)


class AUC(OfPairs):
    """The probability that what people called wrong (1; the rest is 0) has a higher score than the rest, where a tie counts
    a half. Effects are the structural components of DeLong et al. (1988)."""

    is_rate = True

    def effects(self, scores: Floats, said: Floats) -> tuple[float, Floats]:
        wrong = said == 1
        if wrong.all() or not wrong.any():
            return math.nan, np.zeros(len(said))
        above = (np.sign(scores[wrong][:, None] - scores[~wrong]) + 1) / 2
        area, added = float(above.mean()), np.zeros(len(said))
        added[wrong] = (above.mean(axis=1) - area) / wrong.sum()
        added[~wrong] = (above.mean(axis=0) - area) / (~wrong).sum()
        return area, added


auc = AUC("auc")


SCALE = (1, 4)
ALL, OTHERS, RATER = "", "_others", "_rater"  # the judge's score against the median of all, of all but one; that one's


class OfRatings(OfPairs):
    """A figure of scores and ratings."""

    against = ALL

    def held_against(self, against: str) -> OfRatings:
        kind = copy(self)
        kind.against = against
        return kind

    def pairs(self, value: Any) -> list[tuple[float, float]]:
        score, *ratings = map(float, value)
        if self.against == ALL:
            return [(score, median(ratings))]
        others = [median([*ratings[:place], *ratings[place + 1 :]]) for place in range(len(ratings))]
        return [*zip(ratings if self.against == RATER else [score] * len(ratings), others, strict=True)]


class RatedAUC(OfRatings, AUC):
    """The probability that an answer whose median is below a rating has a lower score than one whose median is not."""

    def __init__(self, name: str, below: float) -> None:
        super().__init__(name)
        self.below = below

    def effects(self, scores: Floats, said: Floats) -> tuple[float, Floats]:
        return super().effects(-scores, (said < self.below).astype(float))


class RankCorrelation(OfRatings):
    """Spearman's rank correlation of scores and medians, of mid-ranks where there are ties. Effects are its influence
    function, in which ranks move with the sample (Croux and Dehon 2010, "Influence functions of the Spearman and Kendall
    correlation measures")."""

    is_rate = True  # on the scale of its bounds

    def figure(self, rows: Rows) -> Figure:
        """With the bounds of (1 + rho)/2, a number between 0 and 1, so that they end where correlations do."""
        value, low, high, error, number = super().figure(rows._replace(values=(1 + rows.values) / 2))
        return Figure(2 * value - 1, 2 * low - 1, 2 * high - 1, 2 * error, number)

    def effects(self, scores: Floats, said: Floats) -> tuple[float, Floats]:
        (one, moves_one), (other, moves_other) = map(_grades, (scores, said))
        product, square, other_square = one * other, one**2, other**2
        if not square.any() or not other_square.any():
            return math.nan, np.zeros(len(said))
        means = product.mean(), square.mean(), other_square.mean()
        number = len(said)
        covariance = product - means[0] + (moves_one @ other + moves_other @ one) / number
        variance = square - means[1] + 2 * (moves_one @ one) / number
        other_variance = other_square - means[2] + 2 * (moves_other @ other) / number
        rho = means[0] / math.sqrt(means[1] * means[2])
        added = covariance / math.sqrt(means[1] * means[2])
        added -= rho / 2 * (variance / means[1] + other_variance / means[2])
        return float(rho), added / number


def _grades(numbers: Floats) -> tuple[Floats, Floats]:
    """Mid-ranks as shares of the whole, less a half; and (i, j) how much i moves that of j."""
    below = (np.sign(numbers - numbers[:, None]) + 1) / 2
    shares = below.mean(axis=0)
    return shares - 0.5, below - shares


auc_below_4 = RatedAUC("auc_below_4", 4)
auc_below_3 = RatedAUC("auc_below_3", 3)
rank_correlation = RankCorrelation("rank_correlation")


def opposite(ratings: Sequence[int]) -> float:
    """The score of a reply that cannot be read: it orders answers as people do not, so that nothing is won by it."""
    return sum(SCALE) - median(ratings)


def ceilings(kinds: Mapping[str, Any], values: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, Figure, str]]:
    """The further figures of metrics, by their kinds, from the values of all documents: name, figure, and what counts."""
    for metric, kind in kinds.items():
        if isinstance(kind, OfRatings) and any(value is not None for value in values.get(metric, ())):
            for against, who in ((OTHERS, "the judge"), (RATER, "each rater")):
                figure = kind.held_against(against).figure_of(values[metric])
                yield f"{metric}{against}", figure, f"{who} against the median of the other raters"
