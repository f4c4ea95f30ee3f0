"""The plots of a report: a file for each benchmark, with a plot's data apart from its drawing.

:func:`plots_of` gives those whose tasks are in the runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lm_eval_tasks.results.report.families import families
from lm_eval_tasks.results.report.plots import clapnq, language_table, mfava, mushroom, nomiracl
from lm_eval_tasks.results.report.plots.entries import Colours, Named
from lm_eval_tasks.results.report.plots.plot import DARK, LIGHT, Plot, save
from lm_eval_tasks.runs import Run, labels

__all__ = ["DARK", "LIGHT", "Plot", "plots_of", "save"]


def plots_of(runs: Sequence[Run]) -> list[Plot]:
    """The plots whose tasks are in the runs, in the order of the tasks. Nothing is drawn before a picture is asked for.

    Args:
        runs: of one or more models.
    """
    names = labels(runs)
    named = [(name, family) for run, name in zip(runs, names, strict=True) for family in families(run)]
    by_family: dict[str, list[Named]] = {}
    for name, family in named:
        by_family.setdefault(family.name, []).append((name, family))
    colours = {name: number for number, name in enumerate(dict.fromkeys(names))}
    plots = [plot for of_models in by_family.values() for plot in _of_family(of_models, colours)]
    answered = [(name, family) for name, family in named if _have(by_family[family.name], clapnq.ANSWERED)]
    retrieved = [(name, family) for name, family in named if _have(by_family[family.name], clapnq.RETRIEVED)]
    if answered:
        plots += [clapnq.length(answered, colours), clapnq.caution(answered, colours)]
    if retrieved:
        plots.append(clapnq.retrieval(retrieved))
    return plots


def _have(named: Sequence[Named], metrics: Sequence[str]) -> bool:
    return {*metrics} <= {metric.name for _, family in named for metric in family.any.metrics}


def _of_family(named: Sequence[Named], colours: Colours) -> Iterator[Plot]:
    """The plots of tasks that differ in their language alone."""
    if _have(named, nomiracl.RATES):
        yield nomiracl.rates(named, colours)
        yield language_table.plot(named, nomiracl.RATES)
    if _have(named, mfava.RATES):
        yield mfava.rates(named)
        yield language_table.plot(named, mfava.RATES[1:])
        yield from mfava.correlations(named, colours)
    if _have(named, mushroom.METRICS):
        yield mushroom.detectors(named)
    if _have(named, clapnq.ASPECTS):
        yield clapnq.ratings(named)
    if clapnq.wins(named):
        yield clapnq.comparisons(named)
