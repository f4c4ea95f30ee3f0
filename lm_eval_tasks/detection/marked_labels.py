"""Rates of right and wrong answers as people would read them: their labels of some answers, joined with ours of all.

A label says whether an answer answers the question, declines, or does neither. ``lm-eval-grounded score --marks`` adds
``marked_hallucination_rate`` and so on to a finished run. Estimator: :func:`custom_metrics.statistics.marked.marked_share`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from custom_metrics.scores.aggregations import Strata
from custom_metrics.statistics.figures import UNDEFINED, Figure, Rows
from custom_metrics.statistics.marked import Draws, MarkedShare, marked_difference, marked_share, mean_share
from custom_metrics.statistics.paired_difference import NO_DIFFERENCE, PairedDifference
from lm_eval_tasks.definition.schema import PREFIX, WRONG_LABELS
from lm_eval_tasks.detection.marked import LABELS_RECORD, MarkedRate

LABELS = ("answers", "declines", "neither")
FIELDS = ("answerable", "label", "times", "weight", *LABELS[:2], "doubtful")
"""What an answer adds to a rate: whether its question can be answered; the number of our label; 1 if it was drawn;
the inverse of its chance; the shares of annotators who say that it answers, and that it declines; and whether our label is
doubtful."""

_ANSWERED, _DECLINED, _READABLE, _ALL = (1, 0, 0), (0, 1, 0), (1, 1, 0), (1, 1, 1)  # by label
_NOT_ANSWERED, _NOT_DECLINED = (0, 1, 1), (1, 0, 1)


class MarkedLabels(MarkedRate):
    """The mean of one or two shares by people's labels. Its rows are :data:`FIELDS`.

    Attributes:
        parts: of each share whether its questions can be answered, ``None`` for all; and its numerator and denominator.
    """

    form = (len(FIELDS),)
    record = LABELS_RECORD

    def __init__(self, name: str, *parts: tuple[bool | None, ArrayLike, ArrayLike]) -> None:
        super().__init__(name)
        self.parts = parts

    def statistics(self, value: Any) -> list[float]:
        fields = {"times": 0, "weight": 1.0, "answers": math.nan, "declines": math.nan, **value}
        return [fields[name] for name in FIELDS]

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
"""Name to kind, of all of them."""
