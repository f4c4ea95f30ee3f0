"""The plots of a report, each with its data as a table. :func:`plots_of` makes those of some runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lm_eval_tasks.results.report.families import MANY, families
from lm_eval_tasks.results.report.plots import clapnq, languages
from lm_eval_tasks.results.report.plots.correlations import correlations
from lm_eval_tasks.results.report.plots.plot import DARK, LIGHT, Model, Plot, save
from lm_eval_tasks.runs import Run, labels

__all__ = ["DARK", "LIGHT", "Plot", "plots_of", "save"]


def plots_of(runs: Sequence[Run]) -> list[Plot]:
    """The plots of the tasks in some runs, in the order of the tasks. They are drawn when a picture is needed."""
    models = [
        Model(name, colour, family)
        for colour, (run, name) in enumerate(zip(runs, labels(runs), strict=True))
        for family in families(run)
        if family.any_task.table is not None
    ]
    by_family: dict[str, list[Model]] = {}
    for model in models:
        by_family.setdefault(model.family.name, []).append(model)
    plots: list[Plot | None] = []
    is_many = len(runs) >= MANY
    for alike in by_family.values():  # the same tasks of different models
        metrics = {metric.name: metric for model in alike for metric in model.family.any_task.metrics}
        traded = [metric for metric in metrics.values() if metric.traded_against in metrics] if is_many else []
        plots += [languages.trade_off(alike, metric, metrics[metric.traded_against]) for metric in traded[:1]]
        if {*languages.ERROR_RATES} <= {*metrics} and not is_many:
            plots += [languages.error_rates(alike), languages.heat_map(alike, languages.ERROR_RATES)]
        if _have_metrics(alike, languages.WORD_RATES):
            plots += [languages.word_rates(alike), languages.heat_map(alike, languages.WORD_RATES[1:])]
            plots += correlations(alike)
        if _have_metrics(alike, languages.DETECTOR_FIGURES):
            plots.append(languages.detectors(alike))
        if _have_metrics(alike, clapnq.ASPECTS):
            plots.append(clapnq.ratings(alike))
        plots.append(clapnq.comparisons(alike))
    answered = [model for model in models if _have_metrics(by_family[model.family.name], clapnq.ANSWERED)]
    retrieved = [model for model in models if _have_metrics(by_family[model.family.name], clapnq.RETRIEVED)]
    plots += [clapnq.length(answered), clapnq.caution(answered)] if answered else []
    plots += [clapnq.retrieval(retrieved)] if retrieved else []
    return [plot for plot in plots if plot is not None]


def _have_metrics(models: Sequence[Model], metrics: Iterable[str]) -> bool:
    return {*metrics} <= {metric.name for model in models for metric in model.family.any_task.metrics}
