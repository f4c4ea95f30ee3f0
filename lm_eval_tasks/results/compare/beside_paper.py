"""Published figures as tables beside a comparison: ``compare --paper``."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.units import NOT_MEASURABLE, Unit, is_measurable
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import on_one_line, printable
from lm_eval_tasks.published import PublishedRow, all_rows
from lm_eval_tasks.published.beside import Against, BesidePaper, Own, beside_paper
from lm_eval_tasks.results.compare.comparison import Comparison
from lm_eval_tasks.results.compare.rendering import (
    Section,
    csv_of,
    letter_of,
    render_sections,
    sections,
)
from lm_eval_tasks.results.compare.wording import number
from lm_eval_tasks.runs import Run

__all__ = ["asked_beside_paper", "paper_rows", "paper_sections", "render_with_paper"]


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

    def is_asked(one: BesidePaper) -> bool:
        if wanted is not None and one.task not in wanted:
            return False
        if metrics is not None:
            return one.metric in metrics
        return every or by_name[one.task].is_headline(one.metric) or one.source.of == "retriever"

    found = [one for one in beside_paper(runs) if is_asked(one)]
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
    """A comparison followed by the published figures.

    Args:
        comparison: ``None`` for one run alone.
        found: the published figures.
        models: labels of the runs.
        form: one of ``FORMATS``. A CSV file holds the published figures alone, as its columns are others than those of the
            comparison.
    """
    if form == "csv":
        return csv_of(paper_rows(found))
    if form == "json":
        said = {} if comparison is None else comparison.as_json()
        both = {**said, "published": paper_rows(found)}
        return printable(json.dumps(both, ensure_ascii=False, indent=1, allow_nan=False)) + "\n"
    if comparison is not None:
        return render_sections([*sections(comparison), *paper_sections(found, models)], form)
    legend = tuple(f"{letter_of(place)} = {on_one_line(model)}" for place, model in enumerate(models))
    first, *others = paper_sections(found, models)
    return render_sections([replace(first, before=(*legend, *first.before)), *others], form)


def paper_sections(found: Sequence[BesidePaper], models: Sequence[str]) -> list[Section]:
    """A table for each task and source. Models have the letters of the comparison.

    Args:
        found: metric by metric.
        models: labels of the runs.
    """
    letters = {model: letter_of(place) for place, model in enumerate(models)}
    parts: dict[tuple[str, str], list[BesidePaper]] = {}
    for one in found:
        parts.setdefault((one.task, one.source.name), []).append(one)
    tables = []
    described: set[str] = set()
    for part in parts.values():
        tables.append(_section(part, letters, part[0].source.name in described))
        described.add(part[0].source.name)
    return tables


def _section(part: Sequence[BesidePaper], letters: dict[str, str], described: bool) -> Section:
    first = part[0]
    runs = list(dict.fromkeys(own.run for one in part for own in one.own))
    notes: dict[str, int] = {}
    rows: list[tuple[str, ...]] = []
    for one in part:
        rows += [
            (one.metric, f"{letters[own.run]} (this run)", _own(own, one.measured.unit), *[""] * len(runs))
            for own in one.own
        ]
        for row, against in one.rows:
            by_run = {found.run: found for found in against}
            cells = (_cell(by_run[run], notes) if run in by_run else "" for run in runs)
            rows.append((one.metric, _name(row, one.task), _published(row), *cells))
    after = [f"({place}) {note}" for note, place in notes.items()]
    shown = [one for one in part if len(one.rows) < one.of]
    if shown:
        after.append(
            f"Of {shown[0].of} published figures: the first, the middle, the last, and those next to the runs."
        )
    return Section(
        f"{first.task} beside {first.source.where.partition(';')[0]}",
        ("metric", "model", "value", *(f"{letters[run]} - published" for run in runs)),
        tuple(tuple(map(on_one_line, row)) for row in rows),
        before=(on_one_line(_source(first, described)),),
        after=tuple(map(on_one_line, after)),
    )


def _source(one: BesidePaper, described: bool) -> str:
    if described:
        return f"{one.task}: {one.source.where.partition(';')[0]}, as above."
    given = f" Answers are read by the filter {one.filter}." if len(one.run_filters) > 1 and one.filter else ""
    return f"{one.task}: {one.source}. Measured on: {one.rows[0][0].measured_on}.{given}"


def _cell(against: Against, notes: dict[str, int]) -> str:
    """The difference, or none, with the numbers of its notes."""
    said = [f"not comparable: {why}" for why in against.why_none] or [
        *against.said,
        *([against.by] if against.by else []),
    ]
    numbers = ", ".join(str(notes.setdefault(note, len(notes) + 1)) for note in said)
    marks = f" ({numbers})" if numbers else ""
    if against.why_none:
        return f"none{marks}"
    return f"{_bounded(against.difference, against.low, against.high, sign=True)}{marks}"


def _own(own: Own, unit: Unit) -> str:
    """A run's value with its bounds."""
    text = _bounded(own.value, own.low, own.high)
    known = is_measurable(Figure(own.value, own.low, own.high), unit)
    return text if known else NOT_MEASURABLE + text.removeprefix(number(own.value))


def _bounded(value: float, low: float, high: float, sign: bool = False) -> str:
    bounds = "" if math.isnan(low) else f" [{number(low, sign=sign)}, {number(high, sign=sign)}]"
    return f"{number(value, sign=sign)}{bounds}"


def _published(row: PublishedRow) -> str:
    if row.count is not None:
        return f"{number(row.value)} ({row.count}/{row.n})"
    return number(row.value) + (f" ± {number(row.spread)}" if row.spread is not None else "")


def _name(row: PublishedRow, task: str) -> str:
    shots = f", {row.num_fewshot} shots" if row.num_fewshot else ""
    return f"{row.model}{shots}" + (f" ({row.task})" if row.task != task else "")


def paper_rows(found: Sequence[BesidePaper]) -> list[dict[str, Any]]:
    """A row for each published figure and run, for CSV and JSON; ``None`` for what is not defined."""
    return [
        {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}
        for one in found
        for row in _rows_of(one)
    ]


def _rows_of(one: BesidePaper) -> Iterator[dict[str, Any]]:
    own = {figure.run: figure for figure in one.own}
    for row, against in one.rows:
        for found in against:
            yield {
                "task": one.task,
                "metric": one.metric,
                "filter": one.filter,
                "run": found.run,
                "value": own[found.run].value,
                "low": own[found.run].low,
                "high": own[found.run].high,
                "n": own[found.run].n,
                "published_model": row.model,
                "published_task": row.task,
                "published_split": row.split,
                "published_shots": row.num_fewshot,
                "published_value": row.value,
                "published_spread": row.spread,
                "published_count": row.count,
                "published_n": row.n,
                "source": str(one.source),
                "difference": found.difference,
                "difference_low": found.low,
                "difference_high": found.high,
                "method": found.by,
                "why_none": "; ".join(found.why_none),
                "differs_in": "; ".join(found.said),
            }
