"""Scores of sentences that people judged supported or not: of a detector's marks in them (:func:`process_results`), and of
a judge's verdicts on them (:func:`process_verdict`). The positive class is *Not Supported*.

A detector flags a sentence where it marks any word of it: that is what the label says (a sentence is supported where all of
it is), and the one rule by which a detector that marks nothing but the wrong words makes no mistake. The *share* of a
sentence is the mean over its words of the detector's probability, which is 1 for a marked word without one and 0 outside of
all marks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from custom_metrics.reading.spans import NOT_SUPPORTED, SUPPORTED, Span, probabilities
from custom_metrics.reading.words import words
from custom_metrics.scores import detection
from custom_metrics.scores.aggregations import Aggregation
from custom_metrics.scores.judging import UNREAD
from custom_metrics.statistics.figures import CountsOfCluster, Figure, FloatWithCounts, Rows, cluster_of, mean_figure


def process_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Per-document values of a detection task whose answers' sentences people judged.

    Args:
        doc: ``answer``, ``language``, ``passage`` (the question, by which bounds are clustered), ``spans`` (the sentences
            that are not supported), and ``sentences``: ``start``, ``end`` and ``label``. Those with another label than
            the two count nowhere.
        results: one tagged text, read as in :func:`custom_metrics.scores.detection.process_results`.

    Returns:
        ``balanced_accuracy`` and ``sentence_f1``: sentences, ``[tp, fp, fn, tn]``; ``auc``: share and class (1 not
        supported, 0 supported) of each sentence; and the values over words of
        :func:`custom_metrics.scores.detection.process_results`, of the words of these sentences alone.
    """
    gold, predicted, kind = detection.annotated_and_predicted(doc, results)
    judged = [sentence for sentence in doc["sentences"] if sentence["label"] in (SUPPORTED, NOT_SUPPORTED)]
    places = words(doc["answer"], doc["language"])
    of_words, starts = probabilities(places, predicted), [start for start, _ in places]
    pairs, counts = [], np.zeros(4, dtype=int)
    for sentence in judged:
        inside = of_words[bisect_left(starts, sentence["start"]) : bisect_left(starts, sentence["end"])] or [0.0]
        wrong = sentence["label"] == NOT_SUPPORTED
        pairs.append([fmean(inside), float(wrong)])
        counts += _counts(wrong, any(inside))
    parts = [Span(sentence["start"], sentence["end"]) for sentence in judged]
    return {
        **dict.fromkeys(("balanced_accuracy", "sentence_f1"), CountsOfCluster(counts.tolist(), doc["passage"])),
        "auc": CountsOfCluster(pairs, doc["passage"]),
        **detection.word_values(doc, gold, predicted, kind, parts),
    }


def process_verdict(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Per-document values of a judge's verdict, ``"Supported"``, ``"Not Supported"`` or ``"unread"``, on a sentence
    whose ``label`` is one of the two; ``passage`` is its question.

    Returns:
        ``balanced_accuracy``, ``sentence_f1`` and ``kappa``: ``[tp, fp, fn, tn]``, ``None`` for a verdict that could not be
        read; and ``unread_rate``.
    """
    verdict, question = results[0], doc["passage"]
    counts = CountsOfCluster(_counts(doc["label"] == NOT_SUPPORTED, verdict == NOT_SUPPORTED), question)
    return {
        **dict.fromkeys(("balanced_accuracy", "sentence_f1", "kappa"), None if verdict == UNREAD else counts),
        "unread_rate": FloatWithCounts(verdict == UNREAD, cluster=question),
    }


def _counts(wrong: bool, flagged: bool) -> list[int]:
    """tp, fp, fn, tn of one sentence."""
    return [int(pair == (wrong, flagged)) for pair in ((True, True), (False, True), (True, False), (False, False))]


def auc_rows(values: Sequence[Any]) -> Rows:
    """Numbers of documents whose mean is the AUC: the probability that a sentence that is not supported has a higher share
    than one that is, where a tie counts a half. They are the structural components of DeLong et al. (1988), summed over a
    document's sentences; ``nan`` where there is one class alone."""
    pairs = np.array([pair for value in values for pair in value], dtype=float).reshape(-1, 2)
    document = np.repeat(np.arange(len(values)), [len(value) for value in values])
    share, wrong = pairs[:, 0], pairs[:, 1] == 1
    linear = np.full(len(values), np.nan)
    if wrong.any() and not wrong.all():
        above = (np.sign(share[wrong][:, None] - share[~wrong]) + 1) / 2
        area, sums = above.mean(), np.zeros(len(pairs))
        sums[wrong] = (above.mean(axis=1) - area) / wrong.sum()
        sums[~wrong] = (above.mean(axis=0) - area) / (~wrong).sum()
        linear = area + len(values) * np.bincount(document, sums, len(values))
    return Rows(linear, [cluster_of(value) for value in values])


def _auc(values: Sequence[Any]) -> Figure:
    rows = auc_rows(values)
    figure = mean_figure([FloatWithCounts(*row) for row in zip(rows.values, values, rows.clusters, strict=True)])
    low, high = np.clip(figure[1:3], 0.0, 1.0).tolist()
    return figure._replace(low=low, high=high)


auc = Aggregation("auc", _auc, auc_rows)
