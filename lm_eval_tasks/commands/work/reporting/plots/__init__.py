"""The plots of a report: each file is one, with its data apart from its drawing.

:func:`plots_of` gives those whose tasks are in the runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lm_eval_tasks.commands.work.reporting.families import Family, families
from lm_eval_tasks.commands.work.reporting.plots import language_table, nomiracl_rates
from lm_eval_tasks.commands.work.reporting.plots.plot import Cell, Plot, save
from lm_eval_tasks.runs import Run, labels

__all__ = ["Cell", "Plot", "plots_of", "save"]


def plots_of(runs: Sequence[Run]) -> list[Plot]:
    """The plots whose tasks are in the runs, in the order of the tasks. Nothing is drawn before a picture is asked for.

    Args:
        runs: of one or more models.
    """
    found: dict[str, list[tuple[str, Family]]] = {}
    for run, name in zip(runs, labels(runs), strict=True):
        for family in families(run):
            found.setdefault(family.name, []).append((name, family))
    return [plot for of_models in found.values() for plot in _plots(of_models)]


def _plots(of_models: Sequence[tuple[str, Family]]) -> Iterator[Plot]:
    family = of_models[0][1]
    metrics = {metric.name for metric in family.any.metrics}
    if {*nomiracl_rates.RATES} <= metrics:
        yield nomiracl_rates.plot(of_models)
        yield language_table.plot(of_models, nomiracl_rates.RATES)
