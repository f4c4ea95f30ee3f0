"""The plot of a log's groups: the share of flagged answers by group, against the cost where the log has it."""

from __future__ import annotations

import math

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.units import NOT_MEASURABLE, without_point
from lm_eval_tasks.results.logs.fields import NUMBERS
from lm_eval_tasks.results.logs.summary import MOST_GROUPS, LogSummary
from lm_eval_tasks.results.logs.text import USAGE_TITLES, label_of
from lm_eval_tasks.results.report.drawing import Axis, Line, Panel, Plane, Plot, Point

_AGAINST = (
    "cost",
    "latency",
    "tokens_out",
    "tokens_in",
)  # what a share is drawn against, the first that the groups have
_SHARES = ("flagged_answers", "flagged_words")


def groups_plot(summary: LogSummary) -> Plot | None:
    """A point with bounds for each of the largest groups; ``None`` without groups."""
    groups = {label_of(group): group for group in summary.groups[:MOST_GROUPS]}
    if not groups:
        return None
    usage = [name for name in NUMBERS if any(name in group.usage for group in groups.values())]
    against = next((name for name in _AGAINST if all(name in group.usage for group in groups.values())), "")
    figures = {
        label: [without_point(getattr(group, name), "share") for name in _SHARES] for label, group in groups.items()
    }
    flagged = {label: answers for label, (answers, _) in figures.items()}
    rows = []
    for label, group in groups.items():
        cells = [cell for figure in figures[label] for cell in _cells(figure)]
        rows.append((label, group.answers, *cells, *map(group.usage.get, usage)))
    axis = Axis(f"{USAGE_TITLES[against]}, mean of an answer" if against else "")
    usages = [Figure(group.usage[against]) for group in groups.values() if against]
    points = [Point(look, *ends) for look, ends in enumerate(zip(usages, flagged.values(), strict=False))]
    lines = [Line(label, [figure], looks=[0]) for label, figure in flagged.items()]
    return Plot(
        name="groups",
        title=f"Flagged answers and {USAGE_TITLES[against]} by group" if against else "Flagged answers by group",
        caption="Lines are 95 % bounds of the share of flagged answers, as the detector reads them. A line without a mark "
        "spans more than half of the scale: the share is not measurable.",
        columns=("group", "answers", *(f"{name}{end}" for name in _SHARES for end in ("", "_low", "_high")), *usage),
        rows=tuple(rows),
        series={label: look for look, label in enumerate(groups)} if against else {},
        panels=() if against else (Panel("Flagged answers", lines, Axis("", (0.0, 1.0), True)),),
        plane=Plane(axis, Axis("flagged answers", is_percent=True), points) if against else None,
        shares=frozenset(_SHARES),
    )


def _cells(figure: Figure) -> tuple[str | float | None, ...]:
    """Value and bounds of a figure without its point where that is not measurable; ``None`` for what is undefined."""
    value, low, high = (None if math.isnan(number) else number for number in figure[:3])
    return NOT_MEASURABLE if value is None and low is not None else value, low, high
