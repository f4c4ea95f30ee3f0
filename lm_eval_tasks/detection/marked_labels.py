"""Rates of right and wrong answers as people would read them: their labels of some answers, joined with ours of all.

A label says whether an answer answers the question, declines, or does neither. ``lm-eval-grounded score --marks`` adds
``marked_hallucination_rate`` and so on to a finished run. Estimator: :mod:`custom_metrics.statistics.marked_shares`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from custom_metrics.scores.aggregations import Strata
from custom_metrics.statistics.figures import UNDEFINED, Figure, Rows
from custom_metrics.statistics.marked import Draws, marked_difference
from custom_metrics.statistics.marked_shares import MarkedShare, Stratum, marked_share, mean_share, wrong_labels
from custom_metrics.statistics.paired_difference import NO_DIFFERENCE, PairedDifference
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.detection.marked import LABELS_RECORD, PREFIX, MarkedRate, MarksOfTask, log_kappa

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

LABELS = ("answers", "declines", "neither")
FIELDS = ("answerable", "label", "times", "weight", *LABELS[:2], "doubtful")
"""What an answer adds to a rate: whether its question can be answered; the number of our label; how often it was drawn, 0 if
not; the inverse of its chance; the shares of annotators who say that it answers, and that it declines; and whether our label
is doubtful."""
_ANSWERABLE, _LABEL, _TIMES, _WEIGHT, _DOUBTFUL = 0, 1, 2, 3, 6

_ANSWERED, _DECLINED, _READABLE, _ALL = (1, 0, 0), (0, 1, 0), (1, 1, 0), (1, 1, 1)  # by label
_NOT_ANSWERED, _NOT_DECLINED = (0, 1, 1), (1, 0, 1)

Part = tuple[bool, Sequence[int], Sequence[int]]
"""Whether its questions can be answered; the labels that are counted, and those in the denominator."""


class MarkedLabels(MarkedRate):
    """The mean of one or two shares by people's labels. Its rows are :data:`FIELDS`."""

    form = (len(FIELDS),)
    record = LABELS_RECORD

    def __init__(self, name: str, *parts: Part) -> None:
        super().__init__(name)
        self.parts = parts

    def statistics(self, value: Any) -> list[float]:
        fields = {"times": 0, "weight": 1.0, "answers": math.nan, "declines": math.nan, **value}
        return [fields[name] for name in FIELDS]

    def shares(self, rows: Rows) -> list[tuple[Draws, MarkedShare]]:
        """The share of each part, with its draws; empty where one is not known."""
        shares = []
        for answerable, numerator, denominator in self.parts:
            strata, times, weights = strata_of(rows.only(rows.values[:, _ANSWERABLE] == answerable))
            share = marked_share(strata, times, weights, numerator, denominator) if len(times) else None
            if share is None:
                return []
            shares.append((Draws.of(times), share))
        return shares

    def figure(self, rows: Rows) -> Figure:
        """The rate; its ``n`` is the number of labelled answers."""
        shares = self.shares(rows)
        number = sum(len(draws.times) for draws, _ in shares)
        return mean_share([share for _, share in shares]).figure._replace(n=number) if shares else UNDEFINED

    def _difference(self, strata: Strata, first: int, second: int) -> PairedDifference:
        pairs = [(self.shares(stratum[first]), self.shares(stratum[second])) for stratum in strata]
        of_parts = [
            (draws, one, other) for pair in pairs if all(pair) for (draws, one), (_, other) in zip(*pair, strict=True)
        ]
        return marked_difference(*of_parts) if of_parts else NO_DIFFERENCE


def strata_of(rows: Rows) -> tuple[list[Stratum], Any, Any]:
    """All answers by our label and whether it is doubtful; how often each drawn answer was drawn; and its weight."""
    values = rows.values[~np.isnan(rows.values[:, _ANSWERABLE])]
    drawn = values[values[:, _TIMES] > 0]
    answers, declines = drawn[:, 4:6].T
    labels = np.column_stack([answers, declines, 1 - answers - declines])
    columns, strata = [_LABEL, _DOUBTFUL], []
    kinds, counts = np.unique(values[:, columns], axis=0, return_counts=True)
    for kind, number in zip(kinds, counts.tolist(), strict=True):
        places = np.flatnonzero((drawn[:, columns] == kind).all(axis=1))
        strata.append(Stratum(int(kind[0]), number / len(values), places, labels[places]))
    return strata, drawn[:, _TIMES], drawn[:, _WEIGHT]


marked_hallucination_rate = MarkedLabels(f"{PREFIX}hallucination_rate", (False, _ANSWERED, _READABLE))
marked_error_rate = MarkedLabels(f"{PREFIX}error_rate", (True, _DECLINED, _READABLE))
marked_balanced_error = MarkedLabels(
    f"{PREFIX}balanced_error", (False, _NOT_DECLINED, _ALL), (True, _NOT_ANSWERED, _ALL)
)
marked_unanswerable_accuracy = MarkedLabels(f"{PREFIX}unanswerable_accuracy", (False, _DECLINED, _ALL))
marked_answerable_abstention_rate = MarkedLabels(f"{PREFIX}answerable_abstention_rate", (True, _DECLINED, _ALL))
KINDS = {
    kind.name: kind
    for kind in (
        marked_balanced_error,
        marked_hallucination_rate,
        marked_error_rate,
        marked_unanswerable_accuracy,
        marked_answerable_abstention_rate,
    )
}


def by_labels(metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    """The metrics by people's labels that a table has beside its own."""
    return tuple(
        replace(
            metric,
            name=f"{PREFIX}{metric.name}",
            aggregation=f"{__name__}.{PREFIX}{metric.name}",
            denominator=f"{metric.denominator}; people labelled some of the answers",
            definition=f"{metric.in_prose} as people would read the answers: their labels of some, joined with ours "
            " of all (with `lm-eval-grounded score --marks`)",
            label=f"{metric.in_prose} by people's labels",
            title=f"{metric.title}, by people's labels",
            sentence=f"As people would read its answers, {metric.sentence[0].lower()}{metric.sentence[1:]}",
            counted="labelled answers",
            prominence=4 if metric.balances else 0,
            traded_against=metric.traded_against and f"{PREFIX}{metric.traded_against}",
            balances=(),
        )
        for metric in metrics
        if f"{PREFIX}{metric.name}" in KINDS
    )


def finer_figures(values: Sequence[Any]) -> Iterator[tuple[str, Figure, str]]:
    """How often our label is wrong."""
    strata, times, weights = strata_of(marked_balanced_error.rows(values))
    if len(times):
        yield (
            "wrong_label_rate",
            wrong_labels(strata, times, weights).figure,
            "all answers; people label them otherwise",
        )


def description_of(values: Sequence[Any], marks: MarksOfTask) -> dict[str, Any]:
    """For the results file: what the rates rest on."""
    strata, times, _ = strata_of(marked_balanced_error.rows(values))
    wrong = sum(float((1 - stratum.labels[:, stratum.label]).sum()) for stratum in strata)
    design = "half from each kind of question, doubtful labels with twice the chance"
    return {**marks.description, "design": design, "draws": int(times.sum()), "answers": len(times), "wrong": wrong}


def log_basis(task: str, figures: Mapping[str, Figure], basis: Mapping[str, Any]) -> None:
    """Log each rate with its bounds, and how often our label was wrong; warn where annotators agree little."""
    for name, figure in figures.items():
        log.info(
            "%s: %s %.1f %%, 95 %% bounds %.1f to %.1f, by people's labels of %d answers, %g of them not ours",
            *(task, name, *(100 * number for number in figure[:3]), basis["answers"], basis["wrong"]),
        )
    message = f"{basis['answers_of_several']} of the answers were labelled by several annotators, with kappa {{:.2f}}"
    log_kappa(task, basis["kappa"], message, "what an answer says is not one thing to them")
