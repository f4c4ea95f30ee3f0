"""Mu-SHROOM: detectors beside the teams of the shared task, by language."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from custom_metrics.statistics.figures import Figure
from lm_eval_tasks.published import differs, rows_for
from lm_eval_tasks.results.report.families import Family, language_name
from lm_eval_tasks.results.report.plots import ranges
from lm_eval_tasks.results.report.plots.model_names import short_names, wrapped
from lm_eval_tasks.results.report.plots.plot import Plot, cells, columns_of
from lm_eval_tasks.results.report.plots.scatter import Axis

__all__ = ["METRICS", "Ranked", "plot", "ranked"]

METRICS = ("iou", "rho")


class Ranked(NamedTuple):
    """A detector's figure in a language, beside the teams'.

    Attributes:
        metric, language, detector: what was measured.
        figure: the detector's.
        teams: what the teams of the shared task have, best first.
        differing: in what the run was measured otherwise; empty where it can be ranked among them.
    """

    metric: str
    language: str
    detector: str
    figure: Figure
    teams: tuple[float, ...]
    differing: tuple[str, ...]

    @property
    def better(self) -> int:
        """How many teams have more."""
        return sum(team > self.figure.value for team in self.teams)


def ranked(families: Sequence[tuple[str, Family]]) -> list[Ranked]:
    """The figures, metric by metric, language by language, detector by detector."""
    languages = sorted({language for _, family in families for language in family.tasks})
    found = []
    for metric in METRICS:
        for language in languages:
            for detector, family in families:
                task = family.tasks.get(language)
                if task is None:
                    continue
                rows = rows_for(task.task, metric)
                teams = tuple(sorted((row.value for row in rows), reverse=True))
                differing = tuple(differs(rows[0], task)) if rows else ()
                figure = family.drawn(metric, task.headline_filter)[language]
                found.append(Ranked(metric, language, detector, figure, teams, differing))
    return found


def plot(families: Sequence[tuple[str, Family]]) -> Plot:
    """The plot of Mu-SHROOM's tasks."""
    found = ranked(families)
    family = families[0][1]
    reasons = dict.fromkeys(reason for one in found for reason in one.differing)
    caption = (
        "Ticks are the teams of SemEval-2025 Task 3 (Vázquez et al. 2025). They were not given the page that the detectors "
        "here read. iou: intersection over union of flagged characters. rho: rank correlation of probabilities with the "
        "annotators' votes. Lines are 95 % bounds."
    )
    if reasons:
        caption += f" Measured otherwise than the teams: {'; '.join(reasons)}."
    return Plot(
        name=f"{family.name}_detectors",
        title="Detectors beside the shared task (Mu-SHROOM)",
        caption=caption,
        columns=("metric", "language", "name", "detector", *columns_of("value"), "teams", "best team", "teams above"),
        rows=tuple(
            (
                *(one.metric, one.language, language_name(one.language), one.detector, *cells(one.figure)),
                *(len(one.teams), max(one.teams, default=None)),
                one.better if one.teams and not math.isnan(one.figure.value) and not one.differing else None,
            )
            for one in found
        ),
        draw=lambda: draw(found),
    )


def draw(found: Sequence[Ranked]) -> Any:
    """A panel for each metric, a line for each language."""
    detectors = [*dict.fromkeys(one.detector for one in found)]
    languages = [*dict.fromkeys(one.language for one in found)]
    names = short_names(detectors)
    by_place = {(one.metric, one.language, one.detector): one for one in found}
    panels = []
    for metric in METRICS:
        lines = []
        for language in languages:
            here = [by_place.get((metric, language, detector)) for detector in detectors]
            teams = next((one.teams for one in here if one is not None), ())
            figures = [one.figure if one is not None else Figure(math.nan) for one in here]
            lines.append(ranges.Line(f"{language_name(language)}  {language}", figures, teams))
        panels.append(ranges.Panel(metric, lines, Axis(_LABELS[metric]), _limits(found, metric)))
    series = [wrapped(names[detector], 60, 1) for detector in detectors]
    return ranges.draw(panels, series, "a team of the shared task")


_LABELS = {"iou": "intersection over union", "rho": "rank correlation"}


def _limits(found: Sequence[Ranked], metric: str) -> tuple[float, float]:
    """From 0 to 1, and further down where a rank correlation is negative."""
    here = [part for one in found if one.metric == metric for part in (*one.figure[:3], *one.teams)]
    return min([0.0, *(part for part in here if not math.isnan(part))]) - 0.03, 1.03
