"""``marked_rate``: the share of words that people call made up, by their marks of some answers and a detector's reading of
all.

``lm-eval-grounded score --marks`` reads and checks the marks, and adds the rates to results
(:mod:`lm_eval_tasks.results.marks.rates`). The estimator is :func:`custom_metrics.statistics.marked.marked_mean`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from custom_metrics.reading.spans import probabilities, span_of
from custom_metrics.reading.words import words
from custom_metrics.scores.aggregations import Aggregation, NotMeasured, Source, Strata
from custom_metrics.statistics.figures import UNDEFINED, Figure, Rows
from custom_metrics.statistics.marked import (
    Draws,
    MarkedMean,
    MarkedShare,
    marked_difference,
    marked_mean,
    marked_share,
    mean_share,
)
from custom_metrics.statistics.paired_difference import NO_DIFFERENCE, Differences, PairedDifference, Pairs, together
from lm_eval_tasks.data.provenance import mapping
from lm_eval_tasks.definition.schema import PREFIX, WRONG_LABELS, Metric

METRIC = f"{PREFIX}rate"
MARKS_RECORD, LABELS_RECORD = ("marks", "label_marks")
"""Names in a task's provenance: what ``marked_rate`` rests on, and what rates by labels do."""
MARKED_RATE = Metric(
    METRIC,
    "lm_eval_tasks.detection.marked.marked_rate",
    higher_is_better=False,
    denominator="drawn answers that annotators marked; the rate is of the words of all answers",
    definition="share of words that annotators call made up: their marks of some answers, joined with the detector's "
    "reading of all (with `lm-eval-grounded score --marks`)",
    title="Words that are made up, by annotators' marks",
    sentence="About {value} of the words that it writes are made up, by annotators' marks of some answers and the "
    "detector's reading of all",
    counted="marked answers",
    headline=True,
    prominence=4,
)

NEEDS = "marks"
REMEDY = "People's marks of fifty of its answers would measure it: lm-eval-grounded mark RUN --tasks {task} -o marking"
"""Of corrected rates: what :class:`lm_eval_tasks.definition.schema.Metric` has under these names."""


FIELDS = ("words", "expected", "times", "weight", "marked", "left_out")
"""What an answer adds to the rate: the number of its words; the share that the detector expects to be made up; 1 if it
was drawn; its weight; the share that people call made up, ``nan`` where nobody could tell; and the probability that the
draw leaves it out."""
_WORDS, _, _TIMES, _WEIGHT, _MARKED, _LEFT_OUT = range(len(FIELDS))


def expected_share(answer: str, spans: Sequence[Sequence[Any]] | None, language: str | None) -> float:
    """The share of an answer's words that a detector expects to be made up: the sum of the probabilities of the spans that
    words are in over the number of words; 0 without a word, and where the detector failed."""
    places = words(answer, language)
    if not places or not spans:
        return 0.0
    return sum(probabilities(places, [span_of(span) for span in spans])) / len(places)


class MarkedRate(Aggregation):
    """The rate by people's marks of some answers. Its rows are :data:`FIELDS`, clustered by the article that a
    value names; their context is the identity of the draw."""

    clustered_by = ""
    unit = "draws"
    shares_clusters = False
    form = (len(FIELDS),)
    record = MARKS_RECORD

    def statistics(self, value: Any) -> list[float]:
        fields = {"times": 0, "weight": 1.0, "marked": math.nan, "left_out": 1.0, **value}
        return [fields[name] for name in FIELDS]

    def cluster_names(self, values: Sequence[Any]) -> Sequence[Any]:
        names = [None if value is None else value.get("article") for value in values]
        return ["" if name is None else str(name) for name in names]

    def rows(self, values: Sequence[Any], clusters: Sequence[Any] | None = None, source: Source | None = None) -> Rows:
        marks = mapping(source.provenance.get(self.record)) if source else {}
        return super().rows(values)._replace(context=str(marks.get("draw", "")))

    def counted(self, rows: Rows) -> NDArray[np.bool_]:
        """(documents,) whether people marked an answer that was drawn."""
        return np.asarray((rows.values[:, _TIMES] > 0) & ~np.isnan(rows.values[:, _MARKED]))

    def mean(
        self, rows: Rows, unknown: float | None = None, of_questions: bool = False
    ) -> tuple[Draws, MarkedMean] | None:
        """The rate over all words of the answers, and its draws; ``None`` without a drawn answer that somebody could
        judge. `unknown` is the share of words to take for drawn answers that nobody could judge; default: these have
        weight 0. Bounds are for the answers of the run, or `of_questions` like these."""
        rows = rows.only(~np.isnan(rows.values[:, _WORDS]))
        drawn = rows.only(rows.values[:, _TIMES] > 0)
        words, expected = rows.values[:, :2].T
        _, of_drawn, _, weights, marked, left_out = drawn.values.T
        if unknown is None:
            weights = np.where(np.isnan(marked), 0.0, weights)
        if not weights.any():
            return None
        draws = Draws.of(weights, drawn.clusters if drawn.clusters and all(drawn.clusters) else None, left_out)
        shares = np.nan_to_num(marked, nan=unknown or 0.0)
        of_all = float(np.average(expected, weights=words))
        return draws, marked_mean(draws, shares, of_drawn, of_all, of_questions=of_questions)

    def value(self, rows: Rows) -> float:
        return float(self.figure(rows).value)

    def figure(self, rows: Rows) -> Figure:
        """The rate; its ``n`` is the number of drawn answers that somebody could judge."""
        rate = self.mean(rows)
        return UNDEFINED if rate is None else rate[1].figure._replace(n=int((rate[0].weights > 0).sum()))

    def check(self, runs: Mapping[str, Rows]) -> Mapping[str, str]:
        """Leaves out models without marks, and those whose marks are of another draw than most; of two draws with equally
        many the first by name counts, so that the order of the runs does not matter."""
        apart = {
            model: f"the answers of {model} have no marks (`score --marks`)"
            for model, rows in runs.items()
            if np.isnan(rows.values[:, _WORDS]).all()
        }
        draws = {model: str(rows.context or "") for model, rows in runs.items() if model not in apart}
        runs_of = Counter(draws.values())
        shared = min(runs_of, key=lambda draw: (-runs_of[draw], draw), default="")
        together = [model for model, draw in draws.items() if draw == shared]
        if others := [model for model in draws if model not in together]:
            why = (
                f"the marks of {' and '.join((together[0], *others))} are of different draws: draw once for all runs "
                f"(`mark RUN RUN --tasks ...`), and score them with the same --complete-to"
            )
            apart |= dict.fromkeys(others, why)
        if apart and len(together) < 2:
            raise NotMeasured("; ".join(dict.fromkeys(apart.values())))
        return apart

    def differences(self, strata: Strata, pairs: Pairs) -> Differences:
        """The differences of rates by the same draws, with bounds for questions like these. Each rate is that of all
        answers of its model that were judged. A drawn answer that one model lacks, as earlier results lack those without
        words, has weight 0."""
        return together([self._difference([of for of in strata if {*pair} <= of.keys()], *pair) for pair in pairs])

    def _difference(self, strata: Strata, first: int, second: int) -> PairedDifference:
        of_strata = []
        for stratum in strata:
            one, other = stratum[first], stratum[second]
            means = [self.mean(_with_draws(*each), of_questions=True) for each in ((one, other), (other, one))]
            if means[0] is not None and means[1] is not None:
                of_strata.append((*means[0], means[1][1]))
        return marked_difference(*of_strata) if of_strata else NO_DIFFERENCE


def _with_draws(rows: Rows, other: Rows) -> Rows:
    """Rows with the answers that were drawn and the other model alone has, with weight 0."""
    lacking = np.isnan(rows.values[:, _WORDS]) & (other.values[:, _TIMES] > 0)
    empty = np.where(np.isin(range(len(FIELDS)), (_TIMES, _LEFT_OUT)), other.values, 0.0)
    names = zip(*(of.clusters or [""] * len(lacking) for of in (rows, other)), strict=True)
    clusters = [theirs if lacks else own for (own, theirs), lacks in zip(names, lacking.tolist(), strict=True)]
    return rows._replace(values=np.where(lacking[:, None], empty, rows.values), clusters=clusters)


marked_rate = MarkedRate(METRIC)


# ------------------------------------------------------------------------------------------------ rates by people's labels
#
# Rates of right and wrong answers as people would read them: their labels of some answers, joined with ours of all. A label
# says whether an answer answers the question, declines, or does neither. ``score --marks`` adds
# ``marked_hallucination_rate`` and so on to a finished run. Estimator: custom_metrics.statistics.marked.marked_share.

LABELS = ("answers", "declines", "neither")
LABEL_FIELDS = ("answerable", "label", "times", "weight", *LABELS[:2], "doubtful")
"""What an answer adds to a rate: whether its question can be answered; the number of our label; how often it was drawn;
the inverse of its chance; the shares of annotators who say that it answers, and that it declines; and whether our label is
doubtful."""

_ANSWERED, _DECLINED, _READABLE, _ALL = (1, 0, 0), (0, 1, 0), (1, 1, 0), (1, 1, 1)  # by label
_NOT_ANSWERED, _NOT_DECLINED = (0, 1, 1), (1, 0, 1)


class MarkedLabels(MarkedRate):
    """The mean of one or two shares by people's labels. Its rows are :data:`LABEL_FIELDS`."""

    form = (len(LABEL_FIELDS),)
    record = LABELS_RECORD

    def __init__(self, name: str, *parts: tuple[bool | None, ArrayLike, ArrayLike]) -> None:
        super().__init__(name)
        self.parts = parts  # each: whether its questions can be answered, None for all; its numerator and denominator

    def statistics(self, value: Any) -> list[float]:
        fields = {"times": 0, "weight": 1.0, "answers": math.nan, "declines": math.nan, **value}
        return [fields[name] for name in LABEL_FIELDS]

    def shares(self, rows: Rows) -> list[tuple[Draws, MarkedShare]]:
        """Each share with its draws; empty where one is not known."""
        shares = []
        for asked, numerator, denominator in self.parts:
            asks = rows.values[:, 0]
            values = rows.values[~np.isnan(asks) if asked is None else asks == asked]
            _, ours, times, weights, answers, declines, doubtful = values.T
            labels = np.column_stack([answers, declines, 1 - answers - declines])
            share = marked_share(ours.astype(int), doubtful > 0, times > 0, weights, labels, numerator, denominator)
            if share is None:
                return []
            shares.append((Draws.of(np.ones(share.figure.n)), share))
        return shares

    def figure(self, rows: Rows) -> Figure:
        """The rate; its ``n`` is the number of labelled answers."""
        shares = self.shares(rows)
        number = sum(len(draws.weights) for draws, _ in shares)
        return mean_share([share for _, share in shares]).figure._replace(n=number) if shares else UNDEFINED

    def _difference(self, strata: Strata, first: int, second: int) -> PairedDifference:
        pairs = [(self.shares(stratum[first]), self.shares(stratum[second])) for stratum in strata]
        parts = [(draws, one, other) for pair in pairs for (draws, one), (_, other) in zip(*pair, strict=False)]
        return marked_difference(*parts) if parts else NO_DIFFERENCE


marked_hallucination_rate = MarkedLabels(f"{PREFIX}hallucination_rate", (False, _ANSWERED, _READABLE))
marked_error_rate = MarkedLabels(f"{PREFIX}error_rate", (True, _DECLINED, _READABLE))
marked_balanced_error = MarkedLabels(
    f"{PREFIX}balanced_error", (False, _NOT_DECLINED, _ALL), (True, _NOT_ANSWERED, _ALL)
)
marked_unanswerable_accuracy = MarkedLabels(f"{PREFIX}unanswerable_accuracy", (False, _DECLINED, _ALL))
marked_answerable_abstention_rate = MarkedLabels(f"{PREFIX}answerable_abstention_rate", (True, _DECLINED, _ALL))
wrong_label_rate = MarkedLabels(WRONG_LABELS, (None, 1 - np.eye(len(LABELS)), _ALL))
KINDS = {name: kind for name, kind in globals().items() if isinstance(kind, MarkedLabels)}
"""Name to kind, of all rates by labels."""
