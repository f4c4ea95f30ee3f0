"""Languages by model as a heat map with its values: NoMIRACL's two rates, and mFAVA's (as the paper's Figure 4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from custom_metrics.statistics.figures import Figure
from lm_eval_tasks.definition.catalogue import metric_of
from lm_eval_tasks.results.report.families import Family, language_name
from lm_eval_tasks.results.report.plots.model_names import short_names, wrapped
from lm_eval_tasks.results.report.plots.plot import Cell, Plot, cells, is_unknown

__all__ = ["Field", "fields", "plot"]

MEAN = "mean"


class Field(NamedTuple):
    """A cell of the heat map: a metric of a model in a language, or its mean over languages (``mean``)."""

    metric: str
    model: str
    language: str
    figure: Figure


def fields(families: Sequence[tuple[str, Family]], metrics: Sequence[str]) -> list[Field]:
    """The cells: metric by metric, language by language in the order of their codes, model by model; means last.

    Args:
        families: name of the model and its tasks.
        metrics: one for each panel.
    """
    languages = sorted({language for _, family in families for language in family.tasks})
    found = []
    for metric in metrics:
        figures = {model: family.drawn(metric, family.any.headline_filter) for model, family in families}
        found += [
            Field(metric, model, language, figures[model].get(language, Figure(math.nan)))
            for language in languages
            for model, _ in families
        ]
        if len(languages) > 1:
            found += [
                Field(metric, model, MEAN, family.drawn_mean(metric, family.any.headline_filter))
                for model, family in families
            ]
    return found


def plot(families: Sequence[tuple[str, Family]], metrics: Sequence[str]) -> Plot:
    """The heat map of a family of tasks, a panel for each metric."""
    found = fields(families, metrics)
    family = families[0][1]
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            field.metric,
            field.language,
            language_name(field.language),
            field.model,
            *cells(field.figure),
        )
        for field in found
    )
    named = " and ".join(family.any.metric(name).in_prose for name in metrics)
    return Plot(
        name=f"{family.name}_languages",
        title=f"{named[0].upper()}{named[1:]} by language and model ({family.name})",
        caption=(
            "Values are percent; the stronger the tint, the higher the rate. A dash: the rate is undefined, or the "
            "language is not in the run. A question mark: its bounds span more than half of the scale, so it is not "
            "measurable. Bounds stand in the table."
        ),
        columns=("metric", "language", "name", "model", "value", "low", "high", "n"),
        rows=rows,
        draw=lambda: draw(found),
    )


_CELL = (0.72, 0.24)  # inches


def draw(found: Sequence[Field]) -> Any:
    """Panels side by side, languages from top to bottom."""
    from lm_eval_tasks.results.report.plots import drawing

    metrics = [*dict.fromkeys(field.metric for field in found)]
    models = [*dict.fromkeys(field.model for field in found)]
    languages = [*dict.fromkeys(field.language for field in found)]
    names = short_names(models)
    width, height = max(_CELL[0], 1.75 / len(models)), _CELL[1]
    made = drawing.figure(1.3 + len(metrics) * (width * len(models) + 0.35), 0.9 + height * (len(languages) + 3))
    panels = made.subplots(1, len(metrics), sharey=True, squeeze=False)[0]
    for number, (axes, metric) in enumerate(zip(panels, metrics, strict=True)):
        _panel(axes, [field for field in found if field.metric == metric], models, languages, drawing.COLOURS[number])
        axes.set_title(f"{metric_of(metric).in_prose} (%)", loc="left")
        axes.set_xticks(range(len(models)), [wrapped(names[model], 26) for model in models], rotation=40)
        for tick in axes.get_xticklabels():
            tick.set(ha="right", rotation_mode="anchor")
    shown = [language if language == MEAN else f"{language_name(language)}  {language}" for language in languages]
    panels[0].set_yticks(range(len(languages)), shown)
    return made


def _panel(axes: Any, found: Sequence[Field], models: Sequence[str], languages: Sequence[str], colour: str) -> None:
    from matplotlib.patches import Rectangle

    for field in found:
        x, y = models.index(field.model), languages.index(field.language)
        value = field.figure.value
        is_mean = field.language == MEAN
        if not math.isnan(value):
            tint = 0.08 + 0.5 * min(1.0, max(0.0, value))
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colour, alpha=tint, linewidth=0))
        text = "?" if is_unknown(field.figure) else "–" if math.isnan(value) else f"{100 * value:.1f}"
        axes.text(x, y, text, ha="center", va="center", fontsize=8, fontweight="bold" if is_mean else "normal")
    if MEAN in languages:
        axes.axhline(len(languages) - 1.5, color=axes.spines["left"].get_edgecolor(), linewidth=0.8)
    axes.set(xlim=(-0.5, len(models) - 0.5), ylim=(len(languages) - 0.5, -0.5))
    axes.grid(False)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
