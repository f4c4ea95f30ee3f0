"""A metric's values, document by document, and two models' difference on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from custom_metrics.hallucination import rogan_gladen_rate
from custom_metrics.paired_rates import RATES, RateStratum, compare_rates, compare_ratios
from custom_metrics.statistics.multiple_comparisons import is_share
from custom_metrics.statistics.paired_difference import NO_DIFFERENCE, Floats, PairedDifference, compare_means
from custom_metrics.statistics.paired_shares import compare_shares
from custom_metrics.statistics.random_effects import Errors

__all__ = ["MEAN", "RATE", "RATIO", "Measured", "compare_measured"]

MEAN, RATIO, RATE = "mean", "ratio", "rate"


@dataclass(frozen=True)
class Measured:
    """A metric of a task, over all documents of all runs.

    Attributes:
        kind: ``mean`` of numbers, ``ratio`` of sums, or ``rate``: a ratio that a calibration corrects.
        metric: its name.
        values: of each model, (documents,) numbers, or (documents, ratios, 2) numerators and denominators; ``nan`` where a
            document does not count.
        present: of each model, (documents,) whether its run has the document.
        clusters: (documents,) numbers of what is drawn together.
        unit: what the clusters are.
        names: of the clusters, by their number; a cluster that several tasks have is drawn once. Empty where each task has
            its own.
        annotated: (documents, ratios) what there is to find, where the ratios are categories. Those that do not occur are
            left out; one that occurs and is never flagged counts as 0.
        harmonic: whether the figure is the harmonic mean of the ratios, not their mean.
        errors: of the detector, for a rate.
        expected: whether they are expected from other languages.
    """

    kind: str
    metric: str
    values: tuple[Floats, ...]
    present: tuple[np.ndarray[Any, Any], ...]
    clusters: np.ndarray[Any, Any]
    unit: str
    annotated: Floats | None = None
    harmonic: bool = False
    errors: Errors | None = None
    expected: bool = False
    names: tuple[str, ...] = ()

    def counted(self, model: int) -> np.ndarray[Any, Any]:
        """(documents,): whether a document counts for a model."""
        values = self.values[model]
        counts: np.ndarray[Any, Any] = ~np.isnan(values.reshape(len(values), -1)).any(axis=1) & self.present[model]
        return counts

    def pair(self, first: int, second: int) -> tuple[Floats, Floats]:
        """What counts for both models, in rows that are drawn: documents or clusters."""
        common = self.counted(first) & self.counted(second)
        if self.kind == MEAN:
            return self.values[first][common], self.values[second][common]
        return tuple(self._summed(model, common) for model in (first, second))  # type: ignore[return-value]

    def names_of_pair(self, first: int, second: int) -> list[str]:
        """The names of the rows of :meth:`pair`."""
        return [self.names[place] for place in np.unique(self.clusters[self.counted(first) & self.counted(second)])]

    def own(self, model: int) -> float:
        """The value over all documents that count for a model; ``nan`` where none does."""
        counted = self.counted(model)
        if not counted.any():
            return math.nan
        if self.kind == MEAN:
            return float(self.values[model][counted].mean())
        return self._figure(self._summed(model, counted))

    def _summed(self, model: int, documents: np.ndarray[Any, Any]) -> Floats:
        """(clusters, ratios, 2) of the documents; clusters without a document are left out."""
        places, rows = np.unique(self.clusters[documents], return_inverse=True)
        parts = self.values[model][documents]
        sums = np.zeros((len(places), *parts.shape[1:]))
        np.add.at(sums, rows, parts)
        if self.metric.startswith("win_rate"):  # each question counts the same, however many verdicts it has
            return np.stack([sums[..., 0] / sums[..., 1], np.ones_like(sums[..., 1])], axis=-1)
        if self.annotated is not None:
            sums = sums[:, self.annotated[documents].sum(axis=0) > 0]
            never = sums[..., 1].sum(axis=0) == 0
            sums[:, never, 1] = 1.0
        return sums

    def _figure(self, clusters: Floats) -> float:
        top, bottom = np.moveaxis(clusters.sum(axis=0), -1, 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios = top / bottom
            share = float(len(ratios) / np.sum(1 / ratios) if self.harmonic else np.mean(ratios))
        if self.kind == RATIO:
            return share
        assert self.errors is not None
        if self.metric == RATES[1]:
            return self.errors.ratio * share
        return rogan_gladen_rate(share, self.errors.true_positive_rate, self.errors.false_positive_rate)


def compare_measured(tasks: Sequence[Measured], first: int, second: int) -> PairedDifference:
    """Two models on a metric of one task, or on the mean over several tasks."""
    pairs = [task.pair(first, second) for task in tasks]
    if tasks[0].kind == MEAN:
        if all(is_share([task.values[model][:, None]]) for task in tasks for model in (first, second)):
            return compare_shares(pairs)
        return compare_means(pairs)
    used = [(task, pair) for task, pair in zip(tasks, pairs, strict=True) if len(pair[0])]
    if not used:
        return NO_DIFFERENCE
    if tasks[0].kind == RATIO:
        named = len(used) > 1 and all(task.names for task, _ in used)
        names = [task.names_of_pair(first, second) for task, _ in used] if named else None
        return compare_ratios([pair for _, pair in used], tasks[0].harmonic, clusters=names)
    strata = [RateStratum(one[:, 0], other[:, 0], task.errors, task.expected) for task, (one, other) in used]
    return compare_rates(strata, tasks[0].metric)
