"""Differences of two models by the kinds of figure, from what each document or cluster adds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from statsmodels.stats.multitest import multipletests

from custom_metrics.hallucination import HallucinationRate
from custom_metrics.scores.aggregations import Aggregation, Ratios
from custom_metrics.statistics.figures import Rows
from custom_metrics.statistics.paired_difference import (
    NO_DIFFERENCE,
    Floats,
    PairedDifference,
    difference_at,
    mean_differences,
    share_differences,
)
from custom_metrics.statistics.random_effects import Errors

Strata = Sequence[tuple[Any, Any]]


class OfRatios(Ratios):
    """The mean of ratios, of (documents, ratios, 2) numerators and denominators."""

    def __init__(self, harmonic: bool = False) -> None:
        super().__init__("ratios")
        self.harmonic = harmonic

    def ratios(self, sums: Floats) -> list[tuple[Floats, Floats]]:
        return [(sums[:, place, 0], sums[:, place, 1]) for place in range(sums.shape[1])]


class OfErrors(HallucinationRate):
    """A rate whose rows have the detector's errors as their context."""

    def errors(self, context: Any, iterations: int) -> Errors | None:
        errors: Errors | None = context
        return errors


class RateStratum(NamedTuple):
    """Two models' answers in a language: (articles, 2) words flagged and words in all; and the detector's errors."""

    first: Any
    second: Any
    errors: Errors | None = None


def holm_by_statsmodels(p_values: Sequence[float]) -> Any:
    """Its adjusted p values. It has Python collect garbage each time, which takes a second in a process of many tests."""
    with patch("gc.collect"):
        return multipletests(p_values, method="holm")[1]


def compare_means(strata: Strata) -> PairedDifference:
    pairs = [np.column_stack([np.asarray(values, float) for values in pair]) for pair in strata]
    counted = [rows for pair in pairs if len(rows := pair[~np.isnan(pair).any(axis=1)])]
    return difference_at(mean_differences(counted, [(0, 1)]), 0) if counted else NO_DIFFERENCE


def compare_shares(strata: Strata, weights: Sequence[float] | None = None) -> PairedDifference:
    values = [np.column_stack([*map(np.asarray, pair)]) for pair in strata]
    return difference_at(share_differences(values, [(0, 1)], weights), 0)


def compare_ratios(
    strata: Strata, harmonic: bool = False, clusters: Sequence[Sequence[str]] | None = None
) -> PairedDifference:
    names = clusters or [[]] * len(strata)
    of_models = [
        {run: Rows(np.reshape(np.array(of, float), (len(of), -1, 2)), labels) for run, of in enumerate(pair)}
        for pair, labels in zip(strata, names, strict=True)
    ]
    return _between(OfRatios(harmonic), of_models)


def compare_rates(strata: Sequence[RateStratum], rate: str) -> PairedDifference:
    kind = OfErrors(rate, rate)
    of_models = [
        {run: Rows(np.asarray(of, float), context=errors) for run, of in enumerate(pair)} for *pair, errors in strata
    ]
    return _between(kind, of_models)


def _between(kind: Aggregation, strata: Sequence[dict[int, Rows]]) -> PairedDifference:
    return difference_at(kind.differences(strata, [(0, 1)]), 0)
