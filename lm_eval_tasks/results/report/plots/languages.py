"""Plots by language: NoMIRACL's two rates against each other, mFAVA's three side by side (Figure 3 of Islam et al. 2025),
both as heat maps (Figure 4), and Mu-SHROOM's detectors beside the teams of the shared task."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from custom_metrics.hallucination import RATES
from custom_metrics.statistics.figures import UNDEFINED, Figure
from lm_eval_tasks.definition.catalogue import metric_of
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.published import rows_for
from lm_eval_tasks.published.beside import mismatches
from lm_eval_tasks.results.report.families import MEAN, language_name
from lm_eval_tasks.results.report.plots import drawing, ranges, scatter
from lm_eval_tasks.results.report.plots.drawing import Axis, axis_of, language_label, short_names, wrapped
from lm_eval_tasks.results.report.plots.plot import (
    Model,
    Plot,
    Row,
    by_language,
    by_task,
    cells,
    columns_of,
    is_unknown,
    not_drawn,
    rows_of,
)

ERROR_RATES = ("hallucination_rate", "error_rate")
WORD_RATES = RATES
DETECTOR_FIGURES = ("iou", "rho")

_CELL = (0.72, 0.24)  # width and height in a heat map, in inches


def trade_off(models: Sequence[Model], metric: Metric, price: Metric) -> Plot:
    """Two metrics that are traded against each other, a point for each model: the mean over its languages."""
    names, family = short_names(model.name for model in models), models[0].family
    entries = [
        each._replace(group=wrapped(names[each.model], 24)) for each in by_task(models, (metric.name, price.name))
    ]
    x, y = axis_of(metric.name), axis_of(price.name)
    return Plot(
        name=f"{family.name}_trade_off",
        title=f"{_title(metric, price)} ({family.name})",
        caption=(
            f"Each point is a model{', the mean over its languages' if len(family.tasks) > 1 else ''}. To the right: "
            f"{_title(metric)} ({metric.better} is better). Upwards: {_title(price)} ({price.better} is better). Either is "
            "bought with the other. Lines are 95 % bounds. In a crowd, some have no label." + not_drawn(entries)
        ),
        columns=("model", "name", *columns_of(metric.name, price.name)),
        rows=rows_of(entries),
        draw=lambda: scatter.draw([scatter.Panel("", entries, x, y)], same_limits=True),
        family=family.name,
    )


def _title(*metrics: Metric) -> str:
    return " / ".join(metric.title or metric.in_prose for metric in metrics)


def error_rates(models: Sequence[Model]) -> Plot:
    """NoMIRACL: hallucination rate against error rate, a point for each model and language."""
    entries = by_language(models, ERROR_RATES)
    x, y = map(axis_of, ERROR_RATES)
    family = models[0].family
    return Plot(
        name=f"{family.name}_rates",
        title=f"{_title(*map(metric_of, ERROR_RATES))} ({family.name})",
        caption=(
            "Each point is a model in a language. To the right: it claims to see an answer where no passage holds one. "
            "Upwards: it says that it does not know where a passage holds the answer. Near the lower left corner is best. "
            f"Lines are 95 % bounds. Answers are read by the filter {family.filter}. "
            "In a crowd, some have no label." + not_drawn(entries)
        ),
        columns=("model", "language", *columns_of(*ERROR_RATES)),
        rows=rows_of(entries),
        draw=lambda: scatter.draw(scatter.by_model(entries, x, y), same_limits=True),
    )


def word_rates(models: Sequence[Model]) -> Plot:
    """mFAVA: the three rates, a panel for each model, a line for each language."""
    entries = by_language(models, WORD_RATES)
    kinds = {
        (model, language): str((task.provenance.get("calibration") or {}).get("annotations") or "")
        for model, _, family in models
        for language, task in family.tasks.items()
    }
    annotations = sorted({*kinds.values()} - {""})
    basis = f" Corrections rest on {', '.join(annotations)} annotations." if annotations else ""
    languages = sorted({entry.group for entry in entries}, key=lambda group: (group == MEAN, group))
    figures = {(entry.model, entry.group): [*entry.figures.values()] for entry in entries}

    def draw() -> Any:
        panels = []
        for model, name in short_names(entry.model for entry in entries).items():
            lines = [
                ranges.Line(language_label(group), figures.get((model, group), [UNDEFINED] * 3), is_mean=group == MEAN)
                for group in languages
            ]
            panels.append(ranges.Panel(wrapped(name, 30), lines, Axis("share of words (%)", 100, ranges.PERCENT)))
        return ranges.draw(panels, [metric_of(name).heading for name in WORD_RATES])

    family_name = models[0].family.name
    return Plot(
        name=f"{family_name}_rates",
        title=f"Share of words that are made up, by language ({family_name})",
        caption=(
            "Detected: what the detector flags. Estimated: corrected by precision and recall, Equation 1 of Islam et al. "
            "(2025). Rogan-Gladen: corrected by true and false positive rates, which does not assume that answers are as "
            f"often wrong as the calibration texts. Lines are 95 % bounds.{basis} "
            "A line without a mark: the bounds span more than half of the scale, so the rate is not measurable. Without a "
            "line the rate is undefined."
        ),
        columns=("model", "language", "name", "calibration", *columns_of(*WORD_RATES)),
        rows=rows_of(entries, lambda entry: (language_name(entry.group), kinds.get((entry.model, entry.group), ""))),
        draw=draw,
    )


def heat_map(models: Sequence[Model], metrics: Sequence[str]) -> Plot:
    """A heat map of languages by model, a panel for each metric; means over languages are last."""
    tables = {
        metric: {model: {MEAN: family.drawable_mean(metric), **family.drawable(metric)} for model, _, family in models}
        for metric in metrics
    }
    languages = sorted({language for model in models for language in model.family.tasks})
    if len(languages) > 1:
        languages.append(MEAN)
    family_name = models[0].family.name
    return Plot(
        name=f"{family_name}_languages",
        title=f"{_title(*map(metric_of, metrics))}, by language and model ({family_name})",
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
        draw=lambda: _draw_tables(tables, languages),
    )


def _draw_tables(tables: Mapping[str, Mapping[str, Mapping[str, Figure]]], languages: Sequence[str]) -> Any:
    """Draw panels side by side, languages from top to bottom. `tables` maps metric to model to language to figure."""
    from matplotlib.patches import Rectangle

    names = short_names(next(iter(tables.values())))
    width = max(_CELL[0], 1.75 / len(names)) * len(names) + 0.35
    titles = [wrapped(f"{metric_of(metric).heading} (%)", max(24, int(10 * width))) for metric in tables]
    figure, grid = drawing.panels(titles, (), width, 0.6 + _CELL[1] * (len(languages) + 3), margin=1.3)
    for axes, colour, table in zip(grid, drawing.COLOURS, tables.values(), strict=False):
        for x, figures in enumerate(table.values()):
            for y, language in enumerate(languages):
                cell = figures.get(language, UNDEFINED)
                text = "?" if is_unknown(cell) else "–" if math.isnan(cell.value) else f"{100 * cell.value:.1f}"
                if not math.isnan(cell.value):
                    tint = 0.08 + 0.5 * min(1.0, max(0.0, cell.value))
                    axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colour, alpha=tint, linewidth=0))
                weight = "bold" if language == MEAN else "normal"
                axes.text(x, y, text, ha="center", va="center", fontsize=8, fontweight=weight)
        if MEAN in languages:
            axes.axhline(len(languages) - 1.5, color=drawing.INK, linewidth=0.8)
        axes.set(xlim=(-0.5, len(table) - 0.5), ylim=(len(languages) - 0.5, -0.5))
        axes.grid(False)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        tick_labels = [wrapped(name, 26) for name in names.values()]
        axes.set_xticks(range(len(names)), tick_labels, rotation=40, ha="right", rotation_mode="anchor")
    grid[0].set_yticks(range(len(languages)), map(language_label, languages))
    return figure


def detectors(models: Sequence[Model]) -> Plot:
    """Mu-SHROOM: a panel for each metric, a line for each language; the teams' figures are ticks."""
    rows: list[Row] = []
    panels: list[ranges.Panel] = []
    differing: list[str] = []
    for metric in DETECTOR_FIGURES:
        lines = []
        for language in sorted({language for model in models for language in model.family.tasks}):
            teams: tuple[float, ...] = ()
            figures = []
            for detector, _, family in models:
                task = family.tasks.get(language)
                figure = family.drawable(metric)[language] if task else UNDEFINED
                figures.append(figure)
                if task:
                    published = rows_for(task.task, metric)
                    teams = tuple(sorted((row.value for row in published), reverse=True))
                    reasons = mismatches(published[0], task) if published else ()
                    differing += reasons
                    is_placed = published and not reasons and not math.isnan(figure.value)
                    above = sum(team > figure.value for team in teams) if is_placed else None
                    key = (metric, language, language_name(language), detector)
                    rows.append((*key, *cells(figure), len(teams), max(teams, default=None), above))
            lines.append(ranges.Line(language_label(language), figures, teams))
        values = [number for line in lines for figure in line.figures for number in figure[:3]]
        values += [team for line in lines for team in line.behind]
        lowest = min([0.0, *(number for number in values if not math.isnan(number))])  # of a negative correlation
        panels.append(
            ranges.Panel(wrapped(metric_of(metric).heading, 34), lines, Axis(metric, limits=(lowest - 0.03, 1.03)))
        )
    caveat = f" Measured otherwise than the teams: {'; '.join(dict.fromkeys(differing))}." if differing else ""
    names = short_names(model.name for model in models).values()
    return Plot(
        name=f"{models[0].family.name}_detectors",
        title="Detectors beside the shared task (Mu-SHROOM)",
        caption=(
            "Ticks are the teams of SemEval-2025 Task 3 (Vázquez et al. 2025). They were not given the page that the "
            "detectors here read. iou: intersection over union of flagged characters. rho: rank correlation of "
            f"probabilities with the annotators' votes. Lines are 95 % bounds.{caveat}"
        ),
        columns=("metric", "language", "name", "detector", *columns_of("value"), "teams", "best team", "teams above"),
        rows=tuple(rows),
        draw=lambda: ranges.draw(panels, [wrapped(name, 60, 1) for name in names], "a team of the shared task"),
    )
