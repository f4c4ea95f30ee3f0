"""NoMIRACL: hallucination rate against error rate, a point for each model and language, with bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from custom_metrics.statistics.figures import Figure
from lm_eval_tasks.results.report.families import Family
from lm_eval_tasks.results.report.plots import scatter
from lm_eval_tasks.results.report.plots.model_names import numbered, short_names, wrapped
from lm_eval_tasks.results.report.plots.plot import Plot, cells, columns_of, not_drawn

__all__ = ["MEAN", "RATES", "Point", "plot", "points"]

RATES = ("hallucination_rate", "error_rate")
MEAN = "mean"
"""In place of a language: the mean over a model's languages."""


class Point(NamedTuple):
    """A model in a language, or its mean over languages (:data:`MEAN`)."""

    model: str
    language: str
    hallucination: Figure
    error: Figure


def points(families: Sequence[tuple[str, Family]]) -> list[Point]:
    """The points of models, model by model, the mean last where a model has several languages.

    Args:
        families: name of the model and its tasks.
    """
    found = []
    for model, family in families:
        filter_name = family.any.headline_filter
        hallucination, error = (family.drawn(rate, filter_name) for rate in RATES)
        found += [Point(model, language, hallucination[language], error[language]) for language in family.tasks]
        if len(family.tasks) > 1:
            found.append(Point(model, MEAN, *(family.drawn_mean(rate, filter_name) for rate in RATES)))
    return found


def plot(families: Sequence[tuple[str, Family]], places: Mapping[str, int] | None = None) -> Plot:
    """The plot of a family of tasks.

    Args:
        families: name of the model and its tasks.
        places: name of the model to its place in the report; in the order of `families` where nobody says.
    """
    found = points(families)
    family = families[0][1]
    caption = (
        "Each point is a model in a language. To the right: it claims to see an answer where no passage holds one. "
        "Upwards: it says that it does not know where a passage holds the answer. Near the lower left corner is best. "
        f"Lines are 95 % bounds. Answers are read by the filter {family.any.headline_filter}. In a crowd, some have no "
        "label."
    )
    caption += not_drawn((f"{one.language} of {one.model}", (one.hallucination, one.error)) for one in found)
    return Plot(
        name=f"{family.name}_rates",
        title=f"Hallucination rate against error rate ({family.name})",
        caption=caption,
        columns=("model", "language", *columns_of("hallucination_rate"), *columns_of("error_rate")),
        rows=tuple((one.model, one.language, *cells(one.hallucination), *cells(one.error)) for one in found),
        draw=lambda: draw(found, places or numbered(model for model, _ in families)),
    )


def draw(found: Sequence[Point], places: Mapping[str, int]) -> Any:
    """A panel for each model."""
    models = [*dict.fromkeys(point.model for point in found)]
    names = short_names(models)
    panels = [
        scatter.Panel(
            wrapped(names[model], 34),
            [
                scatter.Dot(
                    "" if point.language == MEAN else point.language,
                    point.hallucination,
                    point.error,
                    places[model],
                    point.language == MEAN,
                )
                for point in found
                if point.model == model
            ],
        )
        for model in models
    ]
    return scatter.draw(
        panels,
        scatter.Axis("hallucination rate (%)", 100),
        scatter.Axis("error rate (%)", 100),
        mean="mean over languages",
        is_square=True,
    )
