"""Mu-SHROOM: detectors beside the teams of the shared task, by language."""

from __future__ import annotations

import math
from collections.abc import Sequence

from custom_metrics.statistics.figures import Figure
from lm_eval_tasks.published import rows_for
from lm_eval_tasks.published.beside import differs
from lm_eval_tasks.results.report.families import language_name
from lm_eval_tasks.results.report.plots import drawing, ranges
from lm_eval_tasks.results.report.plots.entries import UNDEFINED, Cell, Named, cells, columns_of
from lm_eval_tasks.results.report.plots.plot import Plot
from lm_eval_tasks.results.report.plots.scatter import Axis
from lm_eval_tasks.runs import TaskRun

__all__ = ["METRICS", "detectors"]

_LABELS = {"iou": "intersection over union", "rho": "rank correlation"}
METRICS = (*_LABELS,)


def detectors(families: Sequence[Named]) -> Plot:
    """The figures of detectors among those of the teams: a panel for each metric, a line for each language."""
    rows: list[tuple[Cell, ...]] = []
    panels: list[ranges.Panel] = []
    differing: list[str] = []
    for metric, label in _LABELS.items():
        lines = []
        for language in sorted({language for _, family in families for language in family.tasks}):
            teams: tuple[float, ...] = ()
            figures = []
            for detector, family in families:
                task = family.tasks.get(language)
                figure = family.drawn(metric, task.headline_filter)[language] if task else UNDEFINED
                figures.append(figure)
                if task:
                    teams, reasons = _published(task, metric)
                    differing += reasons
                    place = None if reasons else _teams_above(figure, teams)
                    key = (metric, language, language_name(language), detector)
                    rows.append((*key, *cells(figure), len(teams), max(teams, default=None), place))
            lines.append(ranges.Line(drawing.language_label(language), figures, teams))
        panels.append(ranges.Panel(metric, lines, Axis(label, limits=_limits(lines))))
    caption = (
        "Ticks are the teams of SemEval-2025 Task 3 (Vázquez et al. 2025). They were not given the page that the detectors "
        "here read. iou: intersection over union of flagged characters. rho: rank correlation of probabilities with the "
        "annotators' votes. Lines are 95 % bounds."
    )
    if differing:
        caption += f" Measured otherwise than the teams: {'; '.join(dict.fromkeys(differing))}."
    names = drawing.short_names([detector for detector, _ in families])
    series = [drawing.wrapped(name, 60, 1) for name in names.values()]
    return Plot(
        name=f"{families[0][1].name}_detectors",
        title="Detectors beside the shared task (Mu-SHROOM)",
        caption=caption,
        columns=("metric", "language", "name", "detector", *columns_of("value"), "teams", "best team", "teams above"),
        rows=tuple(rows),
        draw=lambda: ranges.draw(panels, series, "a team of the shared task"),
    )


def _published(task: TaskRun, metric: str) -> tuple[tuple[float, ...], Sequence[str]]:
    """What the teams of the shared task have, best first; and in what the run was measured otherwise."""
    rows = rows_for(task.task, metric)
    return tuple(sorted((row.value for row in rows), reverse=True)), differs(rows[0], task) if rows else ()


def _teams_above(figure: Figure, teams: Sequence[float]) -> int | None:
    """How many teams have more; ``None`` where there are none, or no figure."""
    return sum(team > figure.value for team in teams) if teams and not math.isnan(figure.value) else None


def _limits(lines: Sequence[ranges.Line]) -> tuple[float, float]:
    """From 0 to 1, and further down where a rank correlation is negative."""
    values = [value for line in lines for value in (*line.behind, *(n for figure in line.figures for n in figure[:3]))]
    return min([0.0, *(value for value in values if not math.isnan(value))]) - 0.03, 1.03
