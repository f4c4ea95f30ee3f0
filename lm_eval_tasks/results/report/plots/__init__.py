"""The plots of a report: each file is one, with its data apart from its drawing.

:func:`plots_of` gives those whose tasks are in the runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lm_eval_tasks.results.report.families import Family, families
from lm_eval_tasks.results.report.plots import (
    clapnq_retrieval,
    clapnq_tradeoffs,
    judge_ratings,
    language_table,
    mfava_correlations,
    mfava_rates,
    mushroom_detectors,
    nomiracl_rates,
)
from lm_eval_tasks.results.report.plots.model_names import numbered
from lm_eval_tasks.results.report.plots.plot import Cell, Plot, save
from lm_eval_tasks.runs import Run, labels

__all__ = ["Cell", "Plot", "plots_of", "save"]


def plots_of(runs: Sequence[Run]) -> list[Plot]:
    """The plots whose tasks are in the runs, in the order of the tasks. Nothing is drawn before a picture is asked for.

    Args:
        runs: of one or more models.
    """
    found: dict[str, list[Named]] = {}
    places = numbered(labels(runs))
    for run, name in zip(runs, places, strict=True):
        for family in families(run):
            found.setdefault(family.name, []).append((name, family))
    plots: list[Plot] = []
    together: dict[str, list[Named]] = {}
    for of_models in found.values():
        plots += _of_a_family(of_models, places)
        metrics = _metrics(of_models)
        for part, needed in _TOGETHER.items():
            if {*needed} <= metrics:
                together.setdefault(part, []).extend(of_models)
    answered, retrieved = together.get("answered", []), together.get("retrieved", [])
    if answered:
        plots += [clapnq_tradeoffs.length(answered, places), clapnq_tradeoffs.caution(answered, places)]
    if retrieved:
        plots.append(clapnq_retrieval.plot(retrieved))
    return plots


Named = tuple[str, Family]
"""The name of a model, and its tasks."""

_TOGETHER = {"answered": clapnq_tradeoffs.METRICS, "retrieved": ("rougeL", "gold_retrieved")}
"""Metrics whose tasks share a plot."""


def _metrics(of_models: Sequence[Named]) -> set[str]:
    return {metric.name for _, family in of_models for metric in family.any.metrics}


def _of_a_family(of_models: Sequence[Named], places: Mapping[str, int]) -> Iterator[Plot]:
    """The plots of tasks that differ in their language alone."""
    metrics = _metrics(of_models)
    if {*nomiracl_rates.RATES} <= metrics:
        yield nomiracl_rates.plot(of_models, places)
        yield language_table.plot(of_models, nomiracl_rates.RATES)
    if {*mfava_rates.RATES} <= metrics:
        yield mfava_rates.plot(of_models)
        yield language_table.plot(of_models, mfava_rates.RATES[1:])
        yield from mfava_correlations.plots(of_models, places)
    if {*mushroom_detectors.METRICS} <= metrics:
        yield mushroom_detectors.plot(of_models)
    if {*judge_ratings.ASPECTS} <= metrics:
        yield judge_ratings.ratings(of_models)
    if judge_ratings.won(of_models):
        yield judge_ratings.comparisons(of_models)
