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
from custom_metrics.reading.tagged_text import LOST
from custom_metrics.reading.words import words
from custom_metrics.scores import detection
from custom_metrics.scores.judging import UNREAD
from custom_metrics.statistics.figures import CountsOfCluster, FloatWithCounts


def process_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Per-document values of a detection task whose answers' sentences people judged.

    Args:
        doc: ``answer``, ``language``, ``passage`` (the question, by which bounds are clustered), ``spans`` (the sentences
            that are not supported), and ``sentences``: ``start``, ``end`` and ``label``. Those with another label than
            the two count nowhere.
        results: one tagged text, read as in :func:`custom_metrics.scores.detection.process_results`. A lost text is wrong
            on every sentence: it flags those that are supported, and no other.

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
        inside = [float(not wrong)] if kind == LOST else inside
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
