"""CLAPnq: answer quality against length, and against the price of caution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from custom_metrics.statistics.figures import Figure
from lm_eval_tasks.results.report.families import Family
from lm_eval_tasks.results.report.plots import scatter
from lm_eval_tasks.results.report.plots.model_names import numbered, short_names, wrapped
from lm_eval_tasks.results.report.plots.plot import Plot, cells, columns_of, not_drawn

__all__ = ["METRICS", "Answered", "answered", "caution", "length"]

METRICS = ("rougeL", "length", "unanswerable_accuracy", "answerable_abstention_rate")


class Answered(NamedTuple):
    """A model's answers under one task: passages and prompt."""

    model: str
    task: str
    rouge: Figure
    length: Figure
    unanswerable: Figure
    abstained: Figure


def answered(families: Sequence[tuple[str, Family]]) -> list[Answered]:
    """The figures, model by model, task by task.

    Args:
        families: name of the model and each of its tasks.
    """
    found = [
        Answered(model, family.name, *(family.drawn_mean(metric, family.any.headline_filter) for metric in METRICS))
        for model, family in families
    ]
    models = {one.model: place for place, one in reversed([*enumerate(found)])}
    return sorted(found, key=lambda one: models[one.model])


def length(families: Sequence[tuple[str, Family]], places: Mapping[str, int] | None = None) -> Plot:
    """Answer quality against length.

    Args:
        families: name of the model and each of its tasks.
        places: name of the model to its place in the report; in the order of `families` where nobody says.
    """
    found = answered(families)
    places = places or numbered(one.model for one in found)
    return Plot(
        name="clapnq_length",
        title="Answer quality against length (CLAPnq)",
        caption=(
            "RougeL of the answers to answerable questions against their mean length. Two models of one quality differ in "
            "how many words they need for it. Lines are 95 % bounds."
            + not_drawn((f"{one.task} of {one.model}", (one.rouge, one.length)) for one in found)
        ),
        columns=("model", "task", *columns_of("rougeL"), *columns_of("length")),
        rows=tuple((one.model, one.task, *cells(one.rouge), *cells(one.length)) for one in found),
        draw=lambda: _draw(
            [(one.model, one.task, one.length, one.rouge) for one in found],
            scatter.Axis("length of an answer (characters)"),
            scatter.Axis("RougeL"),
            places,
        ),
    )


def caution(families: Sequence[tuple[str, Family]], places: Mapping[str, int] | None = None) -> Plot:
    """What caution brings against what it costs, and what is left of answer quality; arguments as of :func:`length`."""
    found = answered(families)
    places = places or numbered(one.model for one in found)
    return Plot(
        name="clapnq_caution",
        title="What caution brings, and its price (CLAPnq)",
        caption=(
            "Left: unanswerable questions that are declined, which is right, against answerable ones that are declined, "
            "which is the price; near the upper left corner is best. Right: RougeL over all answerable questions, declined "
            "ones too, against the same price. Lines are 95 % bounds."
            + not_drawn((f"{one.task} of {one.model}", (one.abstained, one.unanswerable, one.rouge)) for one in found)
        ),
        columns=(
            "model",
            "task",
            *columns_of("answerable_abstention_rate"),
            *columns_of("unanswerable_accuracy"),
            *columns_of("rougeL"),
        ),
        rows=tuple(
            (one.model, one.task, *cells(one.abstained), *cells(one.unanswerable), *cells(one.rouge)) for one in found
        ),
        draw=lambda: _draw_caution(found, places),
    )


def _draw_caution(found: Sequence[Answered], places: Mapping[str, int]) -> Any:
    price = scatter.Axis("answerable questions declined (%)", 100)
    return scatter.draw_apart(
        [
            (
                _dots([(one.model, one.task, one.abstained, one.unanswerable) for one in found], places),
                price,
                scatter.Axis("unanswerable questions declined (%)", 100),
            ),
            (
                _dots([(one.model, one.task, one.abstained, one.rouge) for one in found], places),
                price,
                scatter.Axis("RougeL"),
            ),
        ],
        _series(found, places),
    )


Drawn = tuple[str, str, Figure, Figure]


def _dots(drawn: Sequence[Drawn], places: Mapping[str, int]) -> list[scatter.Dot]:
    return [scatter.Dot(setting(task), x, y, places[model]) for model, task, x, y in drawn]


def _series(found: Sequence[Any], places: Mapping[str, int]) -> dict[int, str]:
    models = [*dict.fromkeys(one[0] for one in found)]
    names = short_names(models)
    return {places[model]: wrapped(names[model], 60, 1) for model in models}


def _draw(drawn: Sequence[Drawn], x: scatter.Axis, y: scatter.Axis, places: Mapping[str, int]) -> Any:
    return scatter.draw_apart([(_dots(drawn, places), x, y)], _series(drawn, places))


def setting(task: str) -> str:
    """A task without the benchmark's name: ``gold``, ``rag bge``."""
    return task.removeprefix("clapnq_").replace("_", " ")
