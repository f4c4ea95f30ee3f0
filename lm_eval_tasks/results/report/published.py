"""Published figures beside those of a report's runs: what a row of the page says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.units import Unit
from lm_eval_tasks.published.beside import Against, BesidePaper, beside_paper
from lm_eval_tasks.results.report.numbers import bounds, not_measurable, points, shown
from lm_eval_tasks.runs import Run

__all__ = ["PublishedTable", "published_tables"]


class PublishedTable(NamedTuple):
    """The published figures of a task and metric, with every run's beside them.

    Attributes:
        found: all that is known of them.
        own: label of a run, its value, and its bounds.
        rows: published model, its value, and for each run label and the difference, or why none is computed.
        why_none: why no difference is computed, where that is the same for every row and run; `rows` hold none then.
    """

    found: BesidePaper
    own: tuple[tuple[str, str, str], ...]
    rows: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...]
    why_none: str


def published_tables(runs: Sequence[Run]) -> list[PublishedTable]:
    """The published figures of everything in some runs, in the order of the tasks."""
    return [_table(found) for found in beside_paper(runs)]


def _table(found: BesidePaper) -> PublishedTable:
    unit = found.measured.unit
    reasons = {each.why_none for _, against in found.rows for each in against}
    alike = next(iter(reasons)) if len(reasons) == 1 else ()
    return PublishedTable(
        found,
        tuple((run, *_shown(figure, unit)) for run, figure in found.own.items()),
        tuple(
            (row.model, shown(row.value, unit), () if alike else tuple((x.run, _said(x, unit)) for x in against))
            for row, against in found.rows
        ),
        "; ".join(alike),
    )


def _shown(figure: Figure, unit: Unit) -> tuple[str, str]:
    """A run's value and its bounds; without bounds where it is not measurable, which says them."""
    unknown = not_measurable(figure, unit)
    return unknown or shown(figure.value, unit), "" if unknown else bounds(figure, unit)


def _said(against: Against, unit: Unit) -> str:
    """The difference with its bounds, or why there is none."""
    if against.why_none:
        return "no difference: " + "; ".join(against.why_none)
    text = points(against.difference, unit)
    if not math.isnan(against.low) and not math.isnan(against.high):
        text += f" [{points(against.low, unit).removesuffix(' points')} to {points(against.high, unit)}]"
    return f"{text} ({'; '.join(against.said)})" if against.said else text
