"""mFAVA: the rates of each language with bounds: detected, by Equation 1, and Rogan-Gladen, side by side (as Figures 3
and 4 of Islam et al. 2025 have the second)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from custom_metrics.statistics.figures import Figure
from lm_eval_tasks.results.report.families import Family, language_name
from lm_eval_tasks.results.report.plots import ranges
from lm_eval_tasks.results.report.plots.model_names import short_names, wrapped
from lm_eval_tasks.results.report.plots.plot import Plot, cells, columns_of
from lm_eval_tasks.results.report.plots.scatter import Axis

__all__ = ["RATES", "Rates", "plot", "rates"]

RATES = ("detected_rate", "estimated_rate", "rogan_gladen_rate")
NAMES = ("detected", "estimated (Equation 1)", "Rogan-Gladen")
MEAN = "mean"


class Rates(NamedTuple):
    """The three rates of a model in a language, or their means over languages."""

    model: str
    language: str
    figures: tuple[Figure, ...]
    calibration: str
    """Kind of annotations that correct the rates; empty where nothing does."""


def rates(families: Sequence[tuple[str, Family]]) -> list[Rates]:
    """The rates, model by model, languages by their codes, the mean last where there are several.

    Args:
        families: name of the model and its tasks.
    """
    found = []
    for model, family in families:
        filter_name = family.any.headline_filter
        figures = [family.drawn(rate, filter_name) for rate in RATES]
        for language in sorted(family.tasks):
            calibration = family.tasks[language].provenance.get("calibration") or {}
            kind = str(calibration.get("annotations") or "")
            found.append(Rates(model, language, tuple(of_rate[language] for of_rate in figures), kind))
        if len(family.tasks) > 1:
            found.append(Rates(model, MEAN, tuple(family.drawn_mean(rate, filter_name) for rate in RATES), ""))
    return found


def plot(families: Sequence[tuple[str, Family]]) -> Plot:
    """The plot of a family of tasks."""
    found = rates(families)
    family = families[0][1]
    kinds = {one.calibration for one in found if one.calibration}
    rests = f" Corrections rest on {', '.join(sorted(kinds))} annotations." if kinds else ""
    return Plot(
        name=f"{family.name}_rates",
        title=f"Share of words that are made up, by language ({family.name})",
        caption=(
            "Detected: what the detector flags. Estimated: corrected by precision and recall, Equation 1 of Islam et al. "
            "(2025). Rogan-Gladen: corrected by true and false positive rates, which does not assume that answers are as "
            f"often wrong as the calibration texts. Lines are 95 % bounds.{rests} "
            "A line without a mark: the bounds span more than half of the scale, so the rate is not measurable. Without a "
            "line the rate is undefined."
        ),
        columns=("model", "language", "name", "calibration", *(part for rate in RATES for part in columns_of(rate))),
        rows=tuple(
            (
                *(one.model, one.language, language_name(one.language), one.calibration),
                *(cell for figure in one.figures for cell in cells(figure)),
            )
            for one in found
        ),
        draw=lambda: draw(found),
    )


def draw(found: Sequence[Rates]) -> Any:
    """A panel for each model, a line for each language."""
    models = [*dict.fromkeys(one.model for one in found)]
    languages = sorted({one.language for one in found} - {MEAN}) + (
        [MEAN] if any(one.language == MEAN for one in found) else []
    )
    by_place = {(one.model, one.language): one.figures for one in found}
    names = short_names(models)
    nothing = tuple(Figure(math.nan) for _ in RATES)
    panels = [
        ranges.Panel(
            wrapped(names[model], 30),
            [
                ranges.Line(_label(language), by_place.get((model, language), nothing), is_mean=language == MEAN)
                for language in languages
            ],
            Axis("share of words (%)", 100),
            ranges.PERCENT,
        )
        for model in models
    ]
    return ranges.draw(panels, NAMES)


def _label(language: str) -> str:
    return language if language == MEAN else f"{language_name(language)}  {language}"
