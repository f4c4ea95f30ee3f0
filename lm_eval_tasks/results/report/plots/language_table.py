"""Languages by model as a heat map with its values: NoMIRACL's two rates, and mFAVA's (as the paper's Figure 4)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from custom_metrics.statistics.figures import Figure
from lm_eval_tasks.definition.catalogue import metric_of
from lm_eval_tasks.results.report.families import language_name
from lm_eval_tasks.results.report.plots import drawing
from lm_eval_tasks.results.report.plots.entries import MEAN, UNDEFINED, Named, cells, is_unknown, language_figures
from lm_eval_tasks.results.report.plots.plot import Plot

__all__ = ["plot"]

_Table = Mapping[str, Mapping[str, Figure]]
"""Model to language to figure."""

_WIDTH, _HEIGHT = 0.72, 0.24  # of a cell, in inches


def plot(families: Sequence[Named], metrics: Sequence[str]) -> Plot:
    """The heat map of a family of tasks, a panel for each metric; means over languages are last."""
    tables = {
        metric: {
            model: {MEAN: family.drawn_mean(metric, family.any.headline_filter), **language_figures(family, metric)}
            for model, family in families
        }
        for metric in metrics
    }
    languages = sorted({language for _, family in families for language in family.tasks})
    if len(languages) > 1:
        languages.append(MEAN)
    family_name = families[0][1].name
    names = " and ".join(metric_of(metric).in_prose for metric in metrics)
    return Plot(
        name=f"{family_name}_languages",
        title=f"{names[0].upper()}{names[1:]} by language and model ({family_name})",
        caption=(
            "Values are percent; the stronger the tint, the higher the rate. A dash: the rate is undefined, or the "
            "language is not in the run. A question mark: its bounds span more than half of the scale, so it is not "
            "measurable. Bounds stand in the table."
        ),
        columns=("metric", "language", "name", "model", "value", "low", "high", "n"),
        rows=tuple(
            (metric, language, language_name(language), model, *cells(figures.get(language, UNDEFINED)))
            for metric, table in tables.items()
            for language in languages
            for model, figures in table.items()
        ),
        draw=lambda: _draw(tables, languages),
    )


def _draw(tables: Mapping[str, _Table], languages: Sequence[str]) -> Any:
    """Panels side by side, languages from top to bottom."""
    models = [*next(iter(tables.values()))]
    width = max(_WIDTH, 1.75 / len(models)) * len(models) + 0.35
    figure, grid = drawing.panels(len(tables), width, 0.6 + _HEIGHT * (len(languages) + 3), margin=1.3)
    names = drawing.short_names(models)
    for axes, colour, (metric, table) in zip(grid, drawing.COLOURS, tables.items(), strict=False):
        _fill(axes, table, languages, colour)
        axes.set_title(f"{metric_of(metric).in_prose} (%)", loc="left")
        shown = [drawing.wrapped(names[model], 26) for model in models]
        axes.set_xticks(range(len(models)), shown, rotation=40, ha="right", rotation_mode="anchor")
    grid[0].set_yticks(range(len(languages)), map(drawing.language_label, languages))
    return figure


def _fill(axes: Any, table: _Table, languages: Sequence[str], colour: str) -> None:
    from matplotlib.patches import Rectangle

    for x, figures in enumerate(table.values()):
        for y, language in enumerate(languages):
            figure = figures.get(language, UNDEFINED)
            value = figure.value
            if not math.isnan(value):
                tint = 0.08 + 0.5 * min(1.0, max(0.0, value))
                axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colour, alpha=tint, linewidth=0))
            text = "?" if is_unknown(figure) else "–" if math.isnan(value) else f"{100 * value:.1f}"
            weight = "bold" if language == MEAN else "normal"
            axes.text(x, y, text, ha="center", va="center", fontsize=8, fontweight=weight)
    if MEAN in languages:
        axes.axhline(len(languages) - 1.5, color=drawing.INK, linewidth=0.8)
    axes.set(xlim=(-0.5, len(table) - 0.5), ylim=(len(languages) - 0.5, -0.5))
    axes.grid(False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
