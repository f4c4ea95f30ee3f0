"""Published figures as tables beside a comparison: ``compare --paper``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from custom_metrics.statistics.units import NOT_MEASURABLE, is_measurable
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import on_one_line
from lm_eval_tasks.published import PublishedRow, all_rows
from lm_eval_tasks.published.beside import BesidePaper, beside_paper
from lm_eval_tasks.results.compare.comparison import Comparison
from lm_eval_tasks.results.compare.rendering import (
    Section,
    csv_of,
    json_of,
    legend,
    letter_of,
    number,
    render_sections,
    sections,
)
from lm_eval_tasks.runs import Run


def asked_beside_paper(
    runs: Sequence[Run], tasks: Sequence[str] | None = None, metrics: Sequence[str] | None = None, every: bool = False
) -> list[BesidePaper]:
    """The published figures of what is asked for; arguments as of :func:`compare_runs`, for one run too.

    Raises:
        UsageError: no source has a figure of any of it.
    """
    groups = {name: members for run in runs for name, members in run.groups.items()}
    wanted = None if tasks is None else {member for name in tasks for member in (name, *groups.get(name, ()))}
    by_name = {task.task: task for run in runs for task in run.tasks.values()}
    found = [
        beside
        for beside in beside_paper(runs)
        if (wanted is None or beside.task in wanted)
        and (
            beside.metric in metrics
            if metrics is not None
            else every or beside.source.of == "retriever" or by_name[beside.task].is_headline(beside.metric)
        )
    ]
    if not found:
        sources = ", ".join(sorted({row.task.partition("_")[0] for row in all_rows()}))
        raise UsageError(
            f"there is no published figure beside these tasks and metrics; there are some of {sources} (all of them: "
            f"lm_eval_tasks/published/README.md)"
        )
    return found


def render_with_paper(
    comparison: Comparison | None, found: Sequence[BesidePaper], models: Sequence[str], form: str
) -> str:
    """A comparison, ``None`` for one run alone, followed by a table of the published figures for each task and source.

    `form` is as of :func:`render`; models are the labels of the runs. A CSV file holds the published figures alone, as its
    columns are others than those of the comparison."""
    if form == "csv":
        return csv_of(_rows(found))
    if form == "json":
        return json_of({**({} if comparison is None else comparison.as_json()), "published": _rows(found)})
    letters = {model: letter_of(place) for place, model in enumerate(models)}
    parts: dict[tuple[str, str], list[BesidePaper]] = {}
    for beside in found:
        parts.setdefault((beside.task, beside.source.name), []).append(beside)
    described: set[str] = set()
    tables = [] if comparison is None else sections(comparison)
    for (_, source), part in parts.items():
        tables.append(_section(part, letters, source in described))
        described.add(source)
    if comparison is None:
        tables[0] = replace(tables[0], before=(*legend(models), *tables[0].before))
    return render_sections(tables, form)


def _section(part: Sequence[BesidePaper], letters: dict[str, str], described: bool) -> Section:
    first = part[0]
    where = first.source.where.partition(";")[0]
    runs = list(dict.fromkeys(run for beside in part for run in beside.own))
    notes: dict[str, int] = {}
    rows: list[tuple[str, ...]] = []
    for beside in part:
        for run, figure in beside.own.items():
            value = _bounded(*figure[:3])
            if not is_measurable(figure, beside.measured.unit):
                value = NOT_MEASURABLE + value.removeprefix(number(figure.value))
            rows.append((beside.metric, f"{letters[run]} (this run)", value, *[""] * len(runs)))
        for row, against in beside.rows:
            cells = {}
            for each in against:
                said = [f"not comparable: {why}" for why in each.why_none] or [*each.said, *filter(None, [each.by])]
                numbers = ", ".join(str(notes.setdefault(note, len(notes) + 1)) for note in said)
                shown = "none" if each.why_none else _bounded(each.difference, each.low, each.high, sign=True)
                cells[each.run] = f"{shown} ({numbers})" if numbers else shown
            shots = f", {row.num_fewshot} shots" if row.num_fewshot else ""
            name = f"{row.model}{shots}" + (f" ({row.task})" if row.task != beside.task else "")
            rows.append((beside.metric, name, _published(row), *(cells.get(run, "") for run in runs)))
    after = [f"({place}) {note}" for note, place in notes.items()]
    if all_of := next((beside.of for beside in part if len(beside.rows) < beside.of), 0):
        after.append(f"Of {all_of} published figures: the first, the middle, the last, and those next to the runs.")
    filter_name = first.source.filter
    given = f" Answers are read by the filter {filter_name}." if len(first.run_filters) > 1 and filter_name else ""
    source = f"{first.task}: {first.source}. Measured on: {first.rows[0][0].measured_on}.{given}"
    return Section(
        ("metric", "model", "value", *(f"{letters[run]} - published" for run in runs)),
        tuple(tuple(map(on_one_line, row)) for row in rows),
        before=(on_one_line(f"{first.task}: {where}, as above." if described else source),),
        after=tuple(map(on_one_line, after)),
    )


def _bounded(value: float, low: float, high: float, sign: bool = False) -> str:
    bounds = "" if math.isnan(low) else f" [{number(low, sign=sign)}, {number(high, sign=sign)}]"
    return f"{number(value, sign=sign)}{bounds}"


def _published(row: PublishedRow) -> str:
    if row.count is not None:
        return f"{number(row.value)} ({row.count}/{row.n})"
    return number(row.value) + (f" ± {number(row.spread)}" if row.spread is not None else "")


def _rows(found: Sequence[BesidePaper]) -> list[dict[str, Any]]:
    """A row for each published figure and run, for CSV and JSON; ``None`` for what is not defined."""
    rows = [
        {
            "task": beside.task,
            "metric": beside.metric,
            "filter": beside.source.filter,
            "run": each.run,
            "value": beside.own[each.run].value,
            "low": beside.own[each.run].low,
            "high": beside.own[each.run].high,
            "n": beside.own[each.run].n,
            "published_model": row.model,
            "published_task": row.task,
            "published_split": row.split,
            "published_shots": row.num_fewshot,
            "published_value": row.value,
            "published_spread": row.spread,
            "published_count": row.count,
            "published_n": row.n,
            "source": str(beside.source),
            "difference": each.difference,
            "difference_low": each.low,
            "difference_high": each.high,
            "method": each.by,
            "why_none": "; ".join(each.why_none),
            "differs_in": "; ".join(each.said),
        }
        for beside in found
        for row, against in beside.rows
        for each in against
    ]
    return [{name: None if value != value else value for name, value in row.items()} for row in rows]
