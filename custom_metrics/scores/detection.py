"""Scores of a detector of hallucinated words: precision, recall and F1 of the hallucinated class; and of counted sentences
(:mod:`custom_metrics.scores.sentences`) balanced accuracy and kappa, too.

A word is hallucinated when any of its characters is; words are those of :mod:`custom_metrics.reading.words`. Counts are
summed over documents before anything is divided. The paper counts sub-word tokens instead, and its published code
shifts labels by a word; this module does neither.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.reading.spans import CATEGORIES, Span, covered, from_columns
from custom_metrics.reading.tagged_text import LOST, align, parse
from custom_metrics.reading.words import words
from custom_metrics.scores.aggregations import Ratios
from custom_metrics.statistics.figures import CountsOfCluster, Figure, FloatWithCounts, Rows
from custom_metrics.statistics.paired_difference import Floats


class WordCounts(NamedTuple):
    """Words of one document or of many: hallucinated and flagged (tp), flagged but fine (fp), hallucinated but not flagged
    (fn), and neither (tn)."""

    tp: int
    fp: int
    fn: int
    tn: int

    @property
    def precision(self) -> float:
        """TP / (TP + FP); ``nan`` where nothing is flagged."""
        return _ratio(self.tp, self.tp + self.fp)

    @property
    def recall(self) -> float:
        """TP / (TP + FN), the true positive rate; ``nan`` where nothing is hallucinated."""
        return _ratio(self.tp, self.tp + self.fn)

    @property
    def f1(self) -> float:
        """2 TP / (2 TP + FP + FN); ``nan`` where nothing is flagged or hallucinated."""
        return _ratio(2 * self.tp, 2 * self.tp + self.fp + self.fn)

    @property
    def false_positive_rate(self) -> float:
        """FP / (FP + TN); ``nan`` where everything is hallucinated."""
        return _ratio(self.fp, self.fp + self.tn)

    @property
    def prevalence(self) -> float:
        """(TP + FN) / words: the share that is hallucinated; ``nan`` without words."""
        return _ratio(self.tp + self.fn, sum(self))

    @property
    def flagged_share(self) -> float:
        """(TP + FP) / words; ``nan`` without words."""
        return _ratio(self.tp + self.fp, sum(self))


def count_words(
    text: str,
    language: str | None,
    gold: Sequence[Span],
    predicted: Sequence[Span],
    judged: Sequence[Span] | None = None,
) -> WordCounts:
    """Count the words of one text, or those of its `judged` parts. Spans are in characters of it."""
    places = words(text, language)
    if judged is not None:
        places = [*compress(places, (part is not None for part in covered(places, judged)))]
    pairs = zip(covered(places, gold), covered(places, predicted), strict=True)
    return _count_pairs((a is not None, b is not None) for a, b in pairs)


def _count_pairs(words: Iterable[tuple[bool, bool]]) -> WordCounts:
    counts = Counter(words)
    return WordCounts(counts[True, True], counts[False, True], counts[True, False], counts[False, False])


# ------------------------------------------------------------------------------------------------ the harness's metrics


def process_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Per-document values of a detection task.

    Args:
        doc: ``answer``, ``language`` and ``spans`` (of the annotators); ``passage``, where there is one, names the cluster
            of the document, such as a text that several people marked.
        results: one tagged text. It is aligned to the answer where it differs; a text with next to nothing in common with
            the answer is *lost*: it flags no word, and wins no document.

    Returns:
        ``f1`` of this document (1.0 where neither side marks a word, 0.0 of a lost text), which carries its word counts;
        under ``precision`` and ``recall`` the counts themselves, ``[tp, fp, fn, tn]``, which the aggregations sum, and draw
        by passage; and 1.0 or 0.0 for ``lost_rate`` and ``altered_rate`` (the text came back with other characters, white
        space aside).
    """
    return word_values(doc, *annotated_and_predicted(doc, results))


def word_values(
    doc: Mapping[str, Any],
    gold: Sequence[Span],
    predicted: Sequence[Span],
    kind: str,
    judged: Sequence[Span] | None = None,
) -> dict[str, Any]:
    """The values of :func:`process_results`, from the results of :func:`annotated_and_predicted`; `judged` as in
    :func:`count_words`."""
    counts = count_words(doc["answer"], doc["language"], gold, predicted, judged)
    return _values(counts, list(counts), kind, doc)


def process_category_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """As :func:`process_results`, with the counts of each category, in the order of ``CATEGORIES``. A true positive has the
    same category on both sides."""
    gold, predicted, kind = annotated_and_predicted(doc, results)
    places = words(doc["answer"], doc["language"])
    pairs = [*zip(covered(places, gold), covered(places, predicted), strict=True)]
    counts = [_count_pairs((a == category, b == category) for a, b in pairs) for category in CATEGORIES]
    return _values(WordCounts(*map(sum, zip(*counts, strict=True))), [*map(list, counts)], kind, doc)


def _values(total: WordCounts, counts: list[Any], kind: str, doc: Mapping[str, Any]) -> dict[str, Any]:
    passage = doc.get("passage", "")
    carried = CountsOfCluster(counts, passage)
    return {
        "f1": FloatWithCounts(float(kind != LOST) if math.isnan(total.f1) else total.f1, carried),
        "precision": carried,
        "recall": carried,
        "altered_rate": FloatWithCounts(kind in ("edited", LOST), cluster=passage),
        "lost_rate": FloatWithCounts(kind == LOST, cluster=passage),
    }


def annotated_and_predicted(doc: Mapping[str, Any], results: Sequence[Any]) -> tuple[list[Span], list[Span], str]:
    """The annotators' spans, those of a tagged text, both in characters of the answer, and the kind of its alignment."""
    gold = from_columns(doc["spans"])
    text, spans = parse(results[0])
    alignment = align(text, spans, doc["answer"])
    return gold, alignment.spans, alignment.kind


class OfCounts(Ratios):
    """A score of summed counts: the mean of ratios of them.

    Rows are (documents, 4) counts, or (documents, categories, 4). Of categories the score is the mean over those that
    people marked. A category that is never flagged has precision 0: left out, it would reward a detector for flagging only
    what it is sure of.
    """

    companions = ("precision",)
    form = (4,)

    def __init__(
        self, name: str, of_counts: Callable[..., list[tuple[Floats, Floats]]], not_compared: str = ""
    ) -> None:
        super().__init__(name)
        self._of_counts = of_counts
        self.not_compared = not_compared
        self.is_rate = not not_compared  # kappa can be negative

    def statistics(self, value: Any) -> NDArray[Any]:
        counts = np.asarray(value, dtype=float)
        if counts.ndim not in (1, 2) or counts.shape[-1] != 4:
            raise ValueError("not tp, fp, fn, tn")
        return counts

    def ratios(self, sums: Floats) -> list[tuple[Floats, Floats]]:
        return self._of_counts(*np.moveaxis(sums, -1, 0))

    def of_sums(self, sums: Floats) -> Floats:
        values = super().of_sums(sums)
        if sums.ndim == 2:
            return values
        occurs = sums[..., 0] + sums[..., 2] > 0
        return np.asarray(np.where(occurs, np.nan_to_num(values), 0.0).sum(axis=-1) / occurs.sum(axis=-1))

    def linear(self, rows: Rows) -> Rows:
        linear = super().linear(rows)
        if linear.values.ndim == 1:
            return linear
        occurs = rows.values[self.counted(rows)][..., [0, 2]].sum(axis=(0, 2)) > 0
        return linear._replace(values=np.nan_to_num(linear.values)[:, occurs].mean(axis=1))


precision = OfCounts("precision", lambda tp, fp, fn, tn: [(tp, tp + fp)])
recall = OfCounts("recall", lambda tp, fp, fn, tn: [(tp, tp + fn)])
f1 = OfCounts("f1", lambda tp, fp, fn, tn: [(2 * tp, 2 * tp + fp + fn)])
balanced_accuracy = OfCounts("balanced_accuracy", lambda tp, fp, fn, tn: [(tp, tp + fn), (tn, tn + fp)])
kappa = OfCounts(  # Cohen's
    "kappa",
    lambda tp, fp, fn, tn: [(2 * (tp * tn - fn * fp), (tp + fp) * (fp + tn) + (tp + fn) * (fn + tn))],
    not_compared="kappa is no ratio of sums over documents",
)


def category_figures(values: Sequence[Any]) -> dict[str, Figure]:
    """``<metric>_<category>`` to the figure of that category alone, from the counts of each document by category
    (:func:`process_category_results`, ``precision``)."""
    rows = f1.rows(values)
    return {
        f"{kind.name}_{category}": kind.figure(rows._replace(values=rows.values[:, place]))
        for place, category in enumerate(CATEGORIES)
        for kind in (f1, precision, recall)
        if rows.values.ndim == 3
    }


def _ratio(top: float, bottom: float) -> float:
    return top / bottom if bottom else math.nan
