"""Scores of a detector of hallucinated words, against what people marked or judged: by word, by character, by sentence.

*Words.* Precision, recall and F1 of the hallucinated class. A word is hallucinated when any of its characters is; words are
those of :mod:`custom_metrics.reading.words`. Counts are summed over documents before anything is divided. The paper counts
sub-word tokens instead, and its published code shifts labels by a word; this module does neither.

*Characters.* Mu-SHROOM's ``iou`` and ``rho`` equal those of the shared task's scorer to the digit
(``participant_kit/scorer.py`` of https://github.com/Helsinki-NLP/mu-shroom; Vázquez et al. 2025). Both are figures of one
answer. *Hard labels* tell whether each character is hallucinated, *soft labels* which share of annotators marked it.

*Sentences* that people judged supported or not; the positive class is *Not Supported*. A detector flags a sentence where it
marks any word of it: that is what the label says (a sentence is supported where all of it is), and the one rule by which a
detector that marks nothing but the wrong words makes no mistake. The *share* of a sentence is the mean over its words of
the detector's probability, which is 1 for a marked word without one and 0 outside of all marks.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.reading.spans import (
    CATEGORIES,
    NOT_SUPPORTED,
    SUPPORTED,
    Span,
    covered,
    from_columns,
    probabilities,
)
from custom_metrics.reading.tagged_text import LOST, align, parse
from custom_metrics.reading.words import words
from custom_metrics.scores.aggregations import Ratios
from custom_metrics.scores.judging import UNREAD
from custom_metrics.statistics.figures import CountsOfCluster, Figure, FloatWithCounts, Rows
from custom_metrics.statistics.paired_difference import Floats


class WordCounts(NamedTuple):
    """Words that are hallucinated and flagged (tp), flagged but fine (fp), hallucinated only (fn), neither (tn)."""

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
    """Count words, or sentences, each whether it is hallucinated, and flagged."""
    counts = Counter(words)
    return WordCounts(counts[True, True], counts[False, True], counts[True, False], counts[False, False])


_DECIMALS = 8  # to which the scorer rounds before it asks whether labels are constant


def iou(annotated: Iterable[tuple[int, int]], predicted: Iterable[tuple[int, int]]) -> float:
    """Intersection over union of the characters of two sets of spans, which may overlap; 1.0 where both are empty."""
    theirs = {at for start, end in annotated for at in range(start, end)}
    ours = {at for start, end in predicted for at in range(start, end)}
    return len(theirs & ours) / len(theirs | ours) if theirs or ours else 1.0


def rho(annotated: Iterable[tuple[int, int, float]], predicted: Iterable[tuple[int, int, float]], length: int) -> float:
    """Spearman's correlation of the soft labels of a text's characters.

    There is no correlation where one side gives all characters the same label (to eight decimals). The value is then 1.0 if
    both sides do, else 0.0. So one span over the whole text scores 0.0 where people marked a part.

    Spans are (start, end, probability) in characters; where they overlap the last one holds, outside it is 0. The labels of
    an empty text are constant. ValueError for a span beyond the text of that length.
    """
    from scipy.stats import rankdata

    theirs, ours = np.zeros(length), np.zeros(length)
    for labels, spans in ((theirs, annotated), (ours, predicted)):
        for start, end, probability in spans:
            if not 0 <= start <= end <= length:
                raise ValueError(f"the span {start} to {end} is not in a text of {length} characters")
            labels[start:end] = probability
    constant = [len(np.unique(np.round(labels, _DECIMALS))) <= 1 for labels in (theirs, ours)]
    if any(constant):
        return float(all(constant))
    return float(np.corrcoef(rankdata(theirs), rankdata(ours))[0, 1])


def process_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Per-document values of a detection task.

    Args:
        doc: ``answer``, ``language`` and ``spans`` (of the annotators); ``passage``, where there is one, names the cluster.
        results: one tagged text. It is aligned to the answer where it differs; a text with next to nothing in common with
            the answer is *lost*: it flags no word, and wins no document.

    Returns:
        ``f1`` of this document (1.0 where neither side marks a word, 0.0 of a lost text), which carries its word counts;
        under ``precision`` and ``recall`` the counts, ``[tp, fp, fn, tn]``, to be summed and drawn by passage; and 1.0 or
        0.0 for ``lost_rate`` and ``altered_rate`` (the text came back with other characters, white space aside).
    """
    return word_values(doc, *annotated_and_predicted(doc, results))


def word_values(
    doc: Mapping[str, Any],
    gold: Sequence[Span],
    predicted: Sequence[Span],
    kind: str,
    judged: Sequence[Span] | None = None,
) -> dict[str, Any]:
    """The values of :func:`process_results`, from :func:`annotated_and_predicted`; `judged` as in :func:`count_words`."""
    counts = count_words(doc["answer"], doc["language"], gold, predicted, judged)
    return _values(counts, counts, kind, doc)


def process_category_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """As :func:`process_results`, with the counts of each of ``CATEGORIES``, which a true positive has on both sides."""
    gold, predicted, kind = annotated_and_predicted(doc, results)
    places = words(doc["answer"], doc["language"])
    pairs = [*zip(covered(places, gold), covered(places, predicted), strict=True)]
    counts = [_count_pairs((a == category, b == category) for a, b in pairs) for category in CATEGORIES]
    return _values(WordCounts(*map(sum, zip(*counts, strict=True))), [*map(list, counts)], kind, doc)


def _values(total: WordCounts, counts: Sequence[Any], kind: str, doc: Mapping[str, Any]) -> dict[str, Any]:
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


def process_character_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Per-document values of a Mu-SHROOM task: ``iou``, ``rho``, and those of :func:`process_results`.

    The document's ``spans`` are hard labels, its ``soft_labels`` have ``start``, ``end`` and ``prob``. Every predicted span
    is a hard label, whatever its category. Its probability is the soft label; where spans overlap, the highest. Of a lost
    text both are 0.0, also where people marked nothing.
    """
    hard, predicted, kind = annotated_and_predicted(doc, results)
    soft = [(label["start"], label["end"], label["prob"]) for label in doc["soft_labels"]]
    sure_last = sorted(predicted, key=lambda span: span.probability)
    overlap = iou((span[:2] for span in hard), (span[:2] for span in predicted))
    correlation = rho(soft, ((span.start, span.end, span.probability) for span in sure_last), len(doc["answer"]))
    if kind == LOST:
        overlap = correlation = 0.0
    passage = doc.get("passage", "")
    return {
        "iou": FloatWithCounts(overlap, cluster=passage),
        "rho": FloatWithCounts(correlation, cluster=passage),
        **word_values(doc, hard, predicted, kind),
    }


def process_sentence_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Per-document values of a detection task whose answers' sentences people judged.

    Args:
        doc: ``answer``, ``language``, ``passage`` (the question, by which bounds are clustered), ``spans`` (the sentences
            that are not supported), and ``sentences``: ``start``, ``end`` and ``label``. Others count nowhere.
        results: one tagged text, read as in :func:`process_results`. A lost text is wrong on every sentence.

    Returns:
        ``balanced_accuracy`` and ``sentence_f1``: sentences, ``[tp, fp, fn, tn]``; ``auc``: share and class (1 not
        supported, 0 supported) of each sentence; and :func:`process_results` of their words.
    """
    gold, predicted, kind = annotated_and_predicted(doc, results)
    judged = [sentence for sentence in doc["sentences"] if sentence["label"] in (SUPPORTED, NOT_SUPPORTED)]
    places = words(doc["answer"], doc["language"])
    of_words, starts = probabilities(places, predicted), [start for start, _ in places]
    pairs, verdicts = [], []
    for sentence in judged:
        inside = of_words[bisect_left(starts, sentence["start"]) : bisect_left(starts, sentence["end"])] or [0.0]
        wrong = sentence["label"] == NOT_SUPPORTED
        inside = [float(not wrong)] if kind == LOST else inside
        pairs.append([fmean(inside), float(wrong)])
        verdicts.append((wrong, any(inside)))
    parts = [Span(sentence["start"], sentence["end"]) for sentence in judged]
    return {
        **dict.fromkeys(("balanced_accuracy", "sentence_f1"), CountsOfCluster(_count_pairs(verdicts), doc["passage"])),
        "auc": CountsOfCluster(pairs, doc["passage"]),
        **word_values(doc, gold, predicted, kind, parts),
    }


def process_verdict(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Per-document values of a judge's verdict (``"Supported"``, ``"Not Supported"``, ``"unread"``) on a labelled sentence.

    Returns:
        ``balanced_accuracy``, ``sentence_f1`` and ``kappa``: ``[tp, fp, fn, tn]``, ``None`` for a verdict that could not be
        read; and ``unread_rate``.
    """
    verdict, question = results[0], doc["passage"]
    pair = doc["label"] == NOT_SUPPORTED, verdict == NOT_SUPPORTED
    counts = CountsOfCluster(_count_pairs([pair]), question)
    return {
        **dict.fromkeys(("balanced_accuracy", "sentence_f1", "kappa"), None if verdict == UNREAD else counts),
        "unread_rate": FloatWithCounts(verdict == UNREAD, cluster=question),
    }


class OfCounts(Ratios):
    """A score of summed counts: the mean of ratios of them. Rows are (documents, 4) counts, or (documents, categories, 4).
    Of categories the score is the mean over those that people marked. One that is never flagged has precision 0: left out,
    it would reward a detector for flagging only what it is sure of."""

    companions = ("precision",)
    form = (4,)

    def __init__(self, name: str, of_counts: Callable[..., Any], not_compared: str = "") -> None:
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
        return [*self._of_counts(*np.moveaxis(sums, -1, 0))]

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
    """``<metric>_<category>`` to its figure, from the ``precision`` of :func:`process_category_results`."""
    rows = f1.rows(values)
    return {
        f"{kind.name}_{category}": kind.figure(rows._replace(values=rows.values[:, place]))
        for place, category in enumerate(CATEGORIES)
        for kind in (f1, precision, recall)
        if rows.values.ndim == 3
    }


def _ratio(top: float, bottom: float) -> float:
    return top / bottom if bottom else math.nan
