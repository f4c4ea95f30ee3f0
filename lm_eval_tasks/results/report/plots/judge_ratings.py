"""CLAPnq's judge: ratings of a run's answers, and how often systems win their comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from custom_metrics.statistics.figures import Figure
from lm_eval_tasks.results.report.families import Family
from lm_eval_tasks.results.report.plots import ranges
from lm_eval_tasks.results.report.plots.model_names import short_names, wrapped
from lm_eval_tasks.results.report.plots.plot import Plot, cells, columns_of
from lm_eval_tasks.results.report.plots.scatter import Axis

__all__ = ["ASPECTS", "Rated", "Won", "comparisons", "rated", "ratings", "won"]

_WINS = "win_rate_"
ASPECTS = ("faithfulness", "appropriateness", "f_plus_a")
_NAMES = ("faithfulness", "appropriateness", "both (harmonic mean)")


class Rated(NamedTuple):
    """Ratings of one system's answers by one judge."""

    judge: str
    system: str
    figures: tuple[Figure, ...]


class Won(NamedTuple):
    """The share of its comparisons that a system wins with one judge."""

    judge: str
    system: str
    figure: Figure


def rated(families: Sequence[tuple[str, Family]]) -> list[Rated]:
    """The ratings, judge by judge."""
    return [
        Rated(
            judge,
            _rated_system(family),
            tuple(family.drawn_mean(aspect, family.any.headline_filter) for aspect in ASPECTS),
        )
        for judge, family in families
    ]


def _rated_system(family: Family) -> str:
    """Whose answers were rated, where the results say so."""
    files = family.any.provenance.get("local_files") or ()
    systems = [str(file["system"]) for file in files if isinstance(file, dict) and file.get("system")]
    return ", ".join(dict.fromkeys(systems))


def won(families: Sequence[tuple[str, Family]]) -> list[Won]:
    """The win rates, judge by judge."""
    return [
        Won(judge, metric.removeprefix(_WINS), family.drawn_mean(metric, family.any.headline_filter))
        for judge, family in families
        for metric in family.any.figures.get(family.any.headline_filter, {})
        if metric.startswith(_WINS)
    ]


def ratings(families: Sequence[tuple[str, Family]]) -> Plot:
    """The plot of a judge's ratings."""
    found = rated(families)
    family = families[0][1]
    return Plot(
        name=f"{family.name}_ratings",
        title=f"A judge's ratings ({family.name})",
        caption=(
            "Means on a scale from 1 (no) to 4 (yes): is the answer faithful to its passages; does it look appropriate, "
            "useful, concise and complete. Lines are 95 % bounds over questions. A judge's ratings are as good as its "
            "agreement with people."
        ),
        columns=("judge", "system", *(column for aspect in ASPECTS for column in columns_of(aspect))),
        rows=tuple(
            (one.judge, one.system, *(cell for figure in one.figures for cell in cells(figure))) for one in found
        ),
        draw=lambda: draw_ratings(found),
    )


def draw_ratings(found: Sequence[Rated]) -> Any:
    """A line for each judge and rated system."""
    names = short_names([*dict.fromkeys(one.judge for one in found)])
    lines = [
        ranges.Line(
            wrapped(names[one.judge], 30) + (f"\non {wrapped(one.system, 30, 1)}" if one.system else ""), one.figures
        )
        for one in found
    ]
    return ranges.draw([ranges.Panel("", lines, Axis("rating"), (0.9, 4.1))], _NAMES)


def comparisons(families: Sequence[tuple[str, Family]]) -> Plot:
    """The plot of win rates."""
    found = won(families)
    family = families[0][1]
    return Plot(
        name=f"{family.name}_wins",
        title=f"Comparisons won, by a judge ({family.name})",
        caption="The share of a system's comparisons that it wins; ties are no wins. Lines are 95 % bounds over questions.",
        columns=("judge", "system", *columns_of("win_rate")),
        rows=tuple((one.judge, one.system, *cells(one.figure)) for one in found),
        draw=lambda: draw_comparisons(found),
    )


def draw_comparisons(found: Sequence[Won]) -> Any:
    """A panel for each judge, a line for each system."""
    judges = [*dict.fromkeys(one.judge for one in found)]
    systems = [*dict.fromkeys(one.system for one in found)]
    names = short_names(judges)
    by_place = {(one.judge, one.system): one.figure for one in found}
    panels = [
        ranges.Panel(
            wrapped(names[judge], 30),
            [
                ranges.Line(wrapped(system, 26), [by_place.get((judge, system), Figure(float("nan")))])
                for system in systems
            ],
            Axis("comparisons won (%)", 100),
            ranges.PERCENT,
        )
        for judge in judges
    ]
    return ranges.draw(panels, ["win rate"])
