"""``marked_rate`` of several runs, whose answers to the same questions were drawn and marked."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.statistics.marked import Draws, MarkedMean, marked_difference, marked_mean
from custom_metrics.statistics.paired_difference import NO_DIFFERENCE, PairedDifference
from lm_eval_tasks.detection.marked import MarkedAnswer

Floats = NDArray[np.float64]


class MarkedRun(NamedTuple):
    """The marks of a run's answers to a task. Arrays are (documents,) of the joined task."""

    times: Floats  # how often each document was drawn; 0: it was not
    weights: Floats
    marked: Floats  # nan where nobody could judge the answer
    expected: Floats
    of_all: float  # the share of all words that the detector expects
    articles: Sequence[Hashable] | None

    @classmethod
    def from_values(cls, values: Mapping[int, Mapping[str, Any]], documents: int) -> MarkedRun:
        """From document to value of ``marked_rate`` (:class:`lm_eval_tasks.detection.marked.MarkedAnswer`)."""
        answers = {place: MarkedAnswer(**{"article": None, **value}) for place, value in values.items()}
        array = np.full((documents, 4), np.nan)
        array[:, 0] = 0.0
        articles: list[Hashable] = [None] * documents
        for place, answer in answers.items():
            array[place] = answer.times, answer.weight, np.nan, answer.expected
            if answer.marked is not None:
                array[place, 2] = answer.marked
            articles[place] = answer.article
        words = [answer.words for answer in answers.values()]
        of_all = float(np.average([answer.expected for answer in answers.values()], weights=words))
        named = all(answer.article is not None for answer in answers.values())
        times, weights, marked, expected = array.T
        return cls(times, weights, marked, expected, of_all, articles if named else None)

    @property
    def judged(self) -> NDArray[np.bool_]:
        """(documents,) whether an answer was drawn, and somebody could judge it."""
        return np.asarray((self.times > 0) & ~np.isnan(self.marked))

    def mean(self, documents: NDArray[np.bool_]) -> tuple[Draws, MarkedMean]:
        """The rate by the marks of some documents."""
        articles = self.articles
        clusters = None if articles is None else [articles[place] for place in np.flatnonzero(documents).tolist()]
        draws = Draws.of(self.times[documents], self.weights[documents], clusters)
        return draws, marked_mean(draws, self.marked[documents], self.expected[documents], self.of_all)

    def numbers(self) -> Floats:
        """(documents,) numbers whose mean is the rate; nan for an answer without marks."""
        numbers = np.full(len(self.times), np.nan)
        judged = self.judged
        if judged.any():
            draws, rate = self.mean(judged)
            terms = self.marked[judged] - rate.slope * self.expected[judged]
            counts = draws.times * draws.weights
            numbers[judged] = terms * counts / counts.mean() + rate.slope * self.of_all
        return numbers


def compare_marked(pairs: Sequence[tuple[MarkedRun, MarkedRun]]) -> PairedDifference:
    """The difference of two models' rates, by the answers that were judged for both; the mean over tasks, if several."""
    strata = []
    for first, second in pairs:
        both = first.judged & second.judged
        if both.any():
            draws, mean = first.mean(both)
            strata.append((draws, mean, second.mean(both)[1]))
    return marked_difference(*strata) if strata else NO_DIFFERENCE
