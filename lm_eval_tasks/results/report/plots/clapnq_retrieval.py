"""CLAPnq with retrieval: answer quality where the gold passage was among those given, and where it was missed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.units import without_point
from lm_eval_tasks.results.report.families import Family
from lm_eval_tasks.results.report.plots import ranges
from lm_eval_tasks.results.report.plots.clapnq_tradeoffs import setting
from lm_eval_tasks.results.report.plots.model_names import short_names, wrapped
from lm_eval_tasks.results.report.plots.plot import Plot, cells, columns_of
from lm_eval_tasks.results.report.plots.scatter import Axis

__all__ = ["PARTS", "Parted", "parted", "plot"]

PARTS = ("retrieved", "missed")
_METRICS = ("rougeL", "answerable_abstention_rate")


class Parted(NamedTuple):
    """A model's answers under a retriever, by whether the gold passage was given to it."""

    model: str
    task: str
    rouge: tuple[Figure, ...]
    abstained: tuple[Figure, ...]
    gold_retrieved: Figure


def parted(families: Sequence[tuple[str, Family]]) -> list[Parted]:
    """The figures, in the order of the families."""
    found = []
    for model, family in families:
        filter_name = family.any.headline_filter
        rouge, abstained = (
            tuple(_drawn(family, f"{metric}_{part}", filter_name) for part in PARTS) for metric in _METRICS
        )
        found.append(Parted(model, family.name, rouge, abstained, _drawn(family, "gold_retrieved", filter_name)))
    return found


def _drawn(family: Family, metric: str, filter_name: str) -> Figure:
    return without_point(family.any.figure(metric, filter_name), family.any.metric(metric).unit)


def plot(families: Sequence[tuple[str, Family]]) -> Plot:
    """The plot of all tasks with retrieval."""
    found = parted(families)
    return Plot(
        name="clapnq_retrieval",
        title="Answers where the gold passage was retrieved, and where it was missed (CLAPnq)",
        caption=(
            "Answerable questions only. Left: RougeL. Right: questions declined, which is right where the passages do not "
            "hold the answer. Lines are 95 % bounds; of one question they have no width. A line without a mark spans more "
            "than half of the scale: not measurable. The counts are of questions."
        ),
        columns=(
            *("model", "task"),
            *(column for metric in _METRICS for part in PARTS for column in columns_of(f"{metric}_{part}")),
            *columns_of("gold_retrieved"),
        ),
        rows=tuple(
            (
                *(one.model, one.task),
                *(cell for figure in (*one.rouge, *one.abstained, one.gold_retrieved) for cell in cells(figure)),
            )
            for one in found
        ),
        draw=lambda: draw(found),
    )


def draw(found: Sequence[Parted]) -> Any:
    """Two panels, a line for each model and task."""
    names = short_names([*dict.fromkeys(one.model for one in found)])
    labels = [f"{wrapped(names[one.model], 30)}\n{setting(one.task)}{_counts(one.rouge)}" for one in found]
    rouge = [ranges.Line(label, one.rouge) for label, one in zip(labels, found, strict=True)]
    abstained = [ranges.Line(label, one.abstained) for label, one in zip(labels, found, strict=True)]
    return ranges.draw(
        [
            ranges.Panel("answer quality", rouge, Axis("RougeL"), (-0.03, 1.03)),
            ranges.Panel("caution", abstained, Axis("questions declined (%)", 100), ranges.PERCENT),
        ],
        [f"gold passage {part}" for part in PARTS],
    )


def _counts(parts: Sequence[Figure]) -> str:
    """How many questions each part has: bounds of one or two say nothing."""
    return ": " + ", ".join(f"{figure.n} {part}" for figure, part in zip(parts, PARTS, strict=True))
