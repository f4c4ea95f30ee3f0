"""A number for each document of a run, whose mean is the figure: what two runs' figures are tested by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from custom_metrics.statistics.figures import clusters_of
from custom_metrics.statistics.intervals import sums_by_cluster
from custom_metrics.statistics.paired_difference import Floats
from custom_metrics.statistics.strata import linearised
from lm_eval_tasks.definition.schema import DEFINED_MEAN, DEFINED_SHARE
from lm_eval_tasks.runs import Answers, Column

__all__ = ["MEAN", "SHARE", "numbers_of", "passages_of"]

SHARE, MEAN = "share", "mean"

_RATES = ("detected_rate", "estimated_rate", "rogan_gladen_rate")
_OF_COUNTS = {"precision": ((0,), (0, 1)), "recall": ((0,), (0, 2)), "f1": ((0, 0), (0, 0, 1, 2))}
"""Which of tp, fp, fn, tn are summed above and below the line."""


def numbers_of(
    metric: str, aggregation: str, filter: str, answers: Answers | None, order: Sequence[int] = ()
) -> tuple[str, Floats]:
    """The numbers of a metric, and whether they are of a ``share`` or of a ``mean``.

    Ratios of sums are given as linearised values, whose mean they are
    (:func:`custom_metrics.statistics.strata.linearised`). The hallucination rates of mFAVA are so by article,
    and are all the flagged share: corrected by the same calibration, of one language, they differ significantly where
    the flagged shares do. Those of annotated answers are by passage, where several answers have one.

    Args:
        metric, aggregation: of the task.
        filter: that read the answers.
        answers: to its documents; ``None`` where they are not known.
        order: of the answers' places, one that all runs share.

    Returns:
        ``nan`` for documents that are not in the denominator. Nothing, and an empty kind, where there are no answers or
        there is no test for the metric.
    """
    columns = answers.readings[filter].columns if answers is not None and filter in answers.readings else {}
    column = columns.get(metric)
    if answers is None or column is None or not column.known.any():
        return "", _NONE
    named = answers.passages
    passages = clusters_of([named[at] for at in order]) if named is not None else None  # rows of one text, or page
    if aggregation in (DEFINED_SHARE, DEFINED_MEAN):
        numbers = column.numbers[[*order]]
        if passages is not None:
            sums = sums_by_cluster(np.nan_to_num(np.column_stack([numbers, ~np.isnan(numbers)])), passages)
            return _checked(linearised(*sums.T))
        return (SHARE if aggregation == DEFINED_SHARE else MEAN), numbers
    if metric in _RATES:
        return _checked(_by_article(answers, columns.get("estimated_rate")))
    if metric in _OF_COUNTS:
        counts = columns.get("precision")
        return _checked(_of_counts(metric, [counts[at] for at in order], passages) if counts is not None else None)
    return "", _NONE


def passages_of(answers: Answers, order: Sequence[int]) -> tuple[str, ...]:
    """The passage of each of the :func:`numbers_of` annotated answers, which may be fewer than the answers; nothing where
    no answer has one, or one has none."""
    named = [answers.passages[at] for at in order] if answers.passages is not None else [""]
    return tuple(dict.fromkeys(named)) if all(named) else ()


_NONE = np.empty(0)


def _checked(numbers: Floats | None) -> tuple[str, Floats]:
    return ("", _NONE) if numbers is None or np.isnan(numbers).all() else (MEAN, numbers)


def _by_article(answers: Answers, column: Column | None) -> Floats:
    articles: dict[str, list[float]] = {}
    counts = column.values() if column is not None else repeat(None)
    for article, count in zip(answers.articles or answers.keys, counts, strict=False):
        sums = articles.setdefault(article, [0.0, 0.0])
        if isinstance(count, Mapping):
            sums[0] += float(count["flagged"])
            sums[1] += float(count["words"])
    array = np.array([articles[article] for article in sorted(articles)])
    return linearised(array[:, 0], array[:, 1])


def _of_counts(metric: str, counts: Sequence[Any], passages: Sequence[Any] | None) -> Floats | None:
    """Also of several categories, each with counts of its own: their mean."""
    none = np.zeros(np.shape(next((count for count in counts if count is not None), 0)))
    try:
        array: Floats = np.array([count if count is not None else none for count in counts], dtype=np.float64)
    except (TypeError, ValueError):  # of another form
        return None
    if array.shape[-1:] != (4,):
        return None
    array = sums_by_cluster(array, passages)
    above, below = (array[..., places].sum(axis=-1) for places in _OF_COUNTS[metric])
    values = linearised(above, below)
    return values if values.ndim == 1 else np.asarray(values.mean(axis=1))
