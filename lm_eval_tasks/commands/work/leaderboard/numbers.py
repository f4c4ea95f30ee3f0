"""A number for each document of a run, whose mean is the figure: what two runs' figures are tested by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from custom_metrics.carried import clusters_of
from custom_metrics.intervals import sums_by_cluster
from custom_metrics.paired_rates import linearised
from lm_eval_tasks.benchmark import DEFINED_MEAN, DEFINED_SHARE
from lm_eval_tasks.runs import Answer, cluster_of

__all__ = ["MEAN", "SHARE", "numbers_of"]

SHARE, MEAN = "share", "mean"

_RATES = ("detected_rate", "estimated_rate", "rogan_gladen_rate")
_OF_COUNTS = {"precision": ((0,), (0, 1)), "recall": ((0,), (0, 2)), "f1": ((0, 0), (0, 0, 1, 2))}
"""Which of tp, fp, fn, tn are summed above and below the line."""


def numbers_of(metric: str, aggregation: str, filter: str, answers: Sequence[Answer]) -> tuple[str, Sequence[float]]:
    """The numbers of a metric, and whether they are of a ``share`` or of a ``mean``.

    Ratios of sums are given as linearised values, whose mean they are (:func:`custom_metrics.paired_rates.linearised`).
    The hallucination rates of mFAVA are so by article, and are all the flagged share: corrected by the same calibration,
    of one language, they differ significantly where the flagged shares do. Those of annotated answers are by passage, where
    several answers have one.

    Args:
        metric, aggregation: of the task.
        filter: that read the answers.
        answers: in an order that all runs share.

    Returns:
        ``nan`` for documents that are not in the denominator. Nothing, and an empty kind, where there are no answers or
        there is no test for the metric.
    """
    readings = [answer.readings.get(filter) for answer in answers]
    values = [reading.values.get(metric) if reading else None for reading in readings]
    if not any(value is not None for value in values):
        return "", ()
    passages = clusters_of(
        [cluster_of(answer.doc) for answer in answers]
    )  # of annotated answers: rows of one text, or page
    if aggregation in (DEFINED_SHARE, DEFINED_MEAN):
        numbers = [float(value) if isinstance(value, (int, float)) else np.nan for value in values]
        if passages is not None:
            sums = sums_by_cluster(np.nan_to_num(np.column_stack([numbers, ~np.isnan(numbers)])), passages)
            return _checked(linearised(*sums.T))
        return (SHARE if aggregation == DEFINED_SHARE else MEAN), numbers
    if metric in _RATES:
        counts = [reading.values.get("estimated_rate") if reading else None for reading in readings]
        return _checked(_by_article(answers, counts))
    if metric in _OF_COUNTS:
        counts = [reading.values.get("precision") if reading else None for reading in readings]
        return _checked(_of_counts(metric, counts, passages))
    return "", ()


def _checked(numbers: Any) -> tuple[str, Sequence[float]]:
    return ("", ()) if numbers is None or np.isnan(numbers).all() else (MEAN, [float(number) for number in numbers])


def _by_article(answers: Sequence[Answer], counts: Sequence[Any]) -> Any:
    articles: dict[Any, list[float]] = {}
    for answer, count in zip(answers, counts, strict=True):
        sums = articles.setdefault(answer.doc.get("article", answer.key), [0.0, 0.0])
        if isinstance(count, Mapping):
            sums[0] += float(count["flagged"])
            sums[1] += float(count["words"])
    array = np.array([articles[article] for article in sorted(articles, key=str)])
    return linearised(array[:, 0], array[:, 1])


def _of_counts(metric: str, counts: Sequence[Any], passages: Sequence[Any] | None) -> Any:
    """Also of several categories, each with counts of its own: their mean."""
    try:
        array = np.array(
            [count if count is not None else np.zeros(np.shape(_first(counts))) for count in counts], float
        )
    except (TypeError, ValueError):  # of another form
        return None
    if array.shape[-1:] != (4,):
        return None
    array = sums_by_cluster(array, passages)
    above, below = (sum(array[..., at] for at in places) for places in _OF_COUNTS[metric])
    values = linearised(above, below)
    return values if values.ndim == 1 else values.mean(axis=1)


def _first(counts: Sequence[Any]) -> Any:
    return next(count for count in counts if count is not None)
