"""How well a judge's scores of answers agree with the ratings, 1 to 4, that several people gave each.

The value of an answer is a list: the score, then the ratings. Scores are on people's scale, the higher the better. A judge
is held against the median of all ratings. The ceiling is each rater against the median of the others; beside it stands the
judge against these medians. Bounds are clustered by what answers have in common.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from custom_metrics.scores.ranking import AUC, OfPairs, RankCorrelation
from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.paired_difference import Floats

SCALE = (1, 4)
ALL, OTHERS, RATER = "", "_others", "_rater"
"""Whose score is held against whose median: the judge's against that of all raters, of all but one, and the one's."""


class OfRatings(OfPairs):
    """A figure of scores and ratings."""

    against = ALL

    def pairs(self, value: Any) -> list[tuple[float, float]]:
        score, *ratings = map(float, value)
        if self.against == ALL:
            return [(score, median(ratings))]
        others = [median([*ratings[:place], *ratings[place + 1 :]]) for place in range(len(ratings))]
        return [*zip(ratings if self.against == RATER else [score] * len(ratings), others, strict=True)]


class RatedAUC(OfRatings, AUC):
    """The probability that an answer whose median is below a rating has a lower score than one whose median is not."""

    def __init__(self, name: str, below: float, against: str = ALL) -> None:
        super().__init__(name)
        self.below, self.against = below, against

    def effects(self, scores: Floats, said: Floats) -> tuple[float, Floats]:
        return super().effects(-scores, (said < self.below).astype(float))

    def held_against(self, against: str) -> RatedAUC:
        return RatedAUC(self.name, self.below, against)


class RatedCorrelation(OfRatings, RankCorrelation):
    """The rank correlation of scores and medians."""

    def __init__(self, name: str, against: str = ALL) -> None:
        super().__init__(name)
        self.against = against

    def held_against(self, against: str) -> RatedCorrelation:
        return RatedCorrelation(self.name, against)


auc_below_4 = RatedAUC("auc_below_4", 4)
auc_below_3 = RatedAUC("auc_below_3", 3)
rank_correlation = RatedCorrelation("rank_correlation")


def opposite(ratings: Sequence[int]) -> float:
    """The score of a reply that cannot be read: it orders answers as people do not, so that nothing is won by it."""
    return sum(SCALE) - median(ratings)


def ceilings(kinds: Mapping[str, Any], values: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, Figure, str]]:
    """The further figures of metrics, by their kinds, from the values of all documents: name, figure, and what counts."""
    for metric, kind in kinds.items():
        if isinstance(kind, (RatedAUC, RatedCorrelation)) and any(
            value is not None for value in values.get(metric, ())
        ):
            for against, who in ((OTHERS, "the judge"), (RATER, "each rater")):
                figure = kind.held_against(against).figure_of(values[metric])
                yield f"{metric}{against}", figure, f"{who} against the median of the other raters"
