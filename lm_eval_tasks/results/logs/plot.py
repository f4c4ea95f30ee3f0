"""The plot of a log's groups: the share of flagged answers by group, against the cost where the log has it."""

from __future__ import annotations

import math

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.units import NOT_MEASURABLE, without_point
from lm_eval_tasks.results.logs.fields import NUMBERS
from lm_eval_tasks.results.logs.summary import MOST_GROUPS, LogSummary
from lm_eval_tasks.results.logs.text import USAGE_TITLES, label_of
from lm_eval_tasks.results.report.drawing import Axis, Line, Panel, Plane, Plot, Point

_AGAINST = ("cost", "latency", "tokens_out", "tokens_in")
"""What a share is drawn against, the first that the groups have."""


def groups_plot(summary: LogSummary) -> Plot | None:
    """A point with bounds for each of the largest groups; ``None`` without groups."""
    groups = summary.groups[:MOST_GROUPS]
    if not groups:
        return None
    usage = [name for name in NUMBERS if any(name in group.usage for group in groups)]
    against = next((name for name in _AGAINST if all(name in group.usage for group in groups)), "")
    named = ("flagged_answers", "flagged_words")
    columns = ("group", "answers", *(f"{name}{end}" for name in named for end in ("", "_low", "_high")), *usage)
    shown = [[without_point(getattr(group, name), "share") for name in named] for group in groups]
    rows = tuple(
        (
            label_of(group),
            group.answers,
            *(cell for figure in figures for cell in _cells(figure)),
            *(group.usage.get(name) for name in usage),
        )
        for group, figures in zip(groups, shown, strict=True)
    )

    lines = [Line(label_of(group), figures[:1], looks=[0]) for group, figures in zip(groups, shown, strict=True)]
    points = [
        Point(look, Figure(group.usage[against]), figures[0])
        for look, (group, figures) in enumerate(zip(groups, shown, strict=True))
        if against
    ]
    usage_axis = Axis(f"{USAGE_TITLES[against]}, mean of an answer" if against else "")
    return Plot(
        name="groups",
        title=f"Flagged answers and {USAGE_TITLES[against]} by group" if against else "Flagged answers by group",
        caption="Lines are 95 % bounds of the share of flagged answers, as the detector reads them. A line without a mark "
        "spans more than half of the scale: the share is not measurable.",
        columns=columns,
        rows=rows,
        series={label_of(group): look for look, group in enumerate(groups)} if against else {},
        panels=() if against else (Panel("Flagged answers", lines, Axis("", (0.0, 1.0), True)),),
        plane=Plane(usage_axis, Axis("flagged answers", is_percent=True), points) if against else None,
        shares=frozenset(named),
    )


def _cells(figure: Figure) -> tuple[str | float | None, ...]:
    """Value and bounds of a figure without its point where that is not measurable; ``None`` for what is undefined."""
    value, low, high = (None if math.isnan(number) else number for number in figure[:3])
    return NOT_MEASURABLE if value is None and low is not None else value, low, high
