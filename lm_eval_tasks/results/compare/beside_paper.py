"""Tables of published figures for a comparison: ``compare --paper``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from custom_metrics.statistics.units import NOT_MEASURABLE, is_measurable
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import on_one_line
from lm_eval_tasks.published import PublishedComparison, PublishedRow, all_rows, compare_with_published
from lm_eval_tasks.results.compare import Comparison
from lm_eval_tasks.results.compare.tables import differences_table, legend, letter_of
from lm_eval_tasks.results.formats import Section, csv_of, json_of, number, render_sections, with_range
from lm_eval_tasks.runs import Run


def select_published(
    runs: Sequence[Run], tasks: Sequence[str] | None = None, metrics: Sequence[str] | None = None, every: bool = False
) -> list[PublishedComparison]:
    """The published figures for tasks and metrics of one run or several, of which there is one (else a UsageError);
    arguments as of :func:`compare_runs`."""
    groups = {name: members for run in runs for name, members in run.groups.items()}
    task_names = None if tasks is None else {member for name in tasks for member in (name, *groups.get(name, ()))}
    by_name = {task.task: task for run in runs for task in run.tasks.values()}
    selected = [
        entry
        for entry in compare_with_published(runs)
        if (task_names is None or entry.task in task_names)
        and (
            entry.metric in metrics
            if metrics is not None
            else every or entry.source.of == "retriever" or by_name[entry.task].is_headline(entry.metric)
        )
    ]
    if not selected:
        sources = ", ".join(sorted({row.task.partition("_")[0] for row in all_rows()}))
        raise UsageError(
            f"there is no published figure beside these tasks and metrics; there are some of {sources} (all of them: "
            f"lm_eval_tasks/published/README.md)"
        )
    return selected


def render_with_paper(
    comparison: Comparison | None, published: Sequence[PublishedComparison], models: Sequence[str], form: str
) -> str:
    """A comparison (``None`` for a single run), followed by a table of published figures for each task and source.

    `form` is as of :func:`render`; models are the labels of the runs. A CSV file holds the published figures alone, as its
    columns are others than those of the comparison."""
    if form == "csv":
        return csv_of(_rows(published))
    if form == "json":
        return json_of({**({} if comparison is None else comparison.as_json()), "published": _rows(published)})
    letters = {model: letter_of(index) for index, model in enumerate(models)}
    by_source: dict[tuple[str, str], list[PublishedComparison]] = {}
    for entry in published:
        by_source.setdefault((entry.task, entry.source.name), []).append(entry)
    described: set[str] = set()
    tables = [] if comparison is None else [differences_table(comparison)]
    for (_, source), entries in by_source.items():
        tables.append(_section(entries, letters, source in described))
        described.add(source)
    if comparison is None:
        tables[0] = replace(tables[0], before=(*legend(models), *tables[0].before))
    return render_sections(tables, form)


def _section(entries: Sequence[PublishedComparison], letters: dict[str, str], described: bool) -> Section:
    first = entries[0]
    where = first.source.where.partition(";")[0]
    runs = list(dict.fromkeys(run for entry in entries for run in entry.figures))
    notes: dict[str, int] = {}
    rows: list[tuple[str, ...]] = []
    for entry in entries:
        for run, figure in entry.figures.items():
            value = with_range(number(figure.value), figure.low, figure.high)
            if not is_measurable(figure, entry.measured.unit):
                value = NOT_MEASURABLE + value.removeprefix(number(figure.value))
            rows.append((entry.metric, f"{letters[run]} (this run)", value, *[""] * len(runs)))
        for row, against in entry.rows:
            cells = {}
            for delta in against:
                reasons = [f"not comparable: {why}" for why in delta.why_none]
                remarks = reasons or [*delta.differs_in, *filter(None, [delta.method])]
                numbers = ", ".join(str(notes.setdefault(note, len(notes) + 1)) for note in remarks)
                difference = with_range(number(delta.difference, sign=True), delta.low, delta.high, sign=True)
                text = "none" if delta.why_none else difference
                cells[delta.run] = f"{text} ({numbers})" if numbers else text
            shots = f", {row.num_fewshot} shots" if row.num_fewshot else ""
            name = f"{row.model}{shots}" + (f" ({row.task})" if row.task != entry.task else "")
            rows.append((entry.metric, name, _published_value(row), *(cells.get(run, "") for run in runs)))
    after = [f"({number}) {note}" for note, number in notes.items()]
    if all_of := next((entry.total for entry in entries if len(entry.rows) < entry.total), 0):
        after.append(f"Of {all_of} published figures: the first, the middle, the last, and those next to the runs.")
    filter_name = first.source.filter
    read_by = f" Answers are read by the filter {filter_name}." if len(first.run_filters) > 1 and filter_name else ""
    source = f"{first.task}: {first.source}. Measured on: {first.rows[0][0].measured_on}.{read_by}"
    return Section(
        ("metric", "model", "value", *(f"{letters[run]} - published" for run in runs)),
        tuple(tuple(map(on_one_line, row)) for row in rows),
        before=(on_one_line(f"{first.task}: {where}, as above." if described else source),),
        after=tuple(map(on_one_line, after)),
    )


def _published_value(row: PublishedRow) -> str:
    if row.count is not None:
        return f"{number(row.value)} ({row.count}/{row.n})"
    return number(row.value) + (f" ± {number(row.spread)}" if row.spread is not None else "")


_PUBLISHED = {name: name for name in ("model", "task", "split")} | {"shots": "num_fewshot"}
_PUBLISHED |= {name: name for name in ("value", "spread", "count", "n")}


def _rows(published: Sequence[PublishedComparison]) -> list[dict[str, Any]]:
    """A row for each published figure and run, for CSV and JSON; ``None`` for what is not defined."""
    rows = [
        {
            "task": entry.task,
            "metric": entry.metric,
            "filter": entry.source.filter,
            "run": delta.run,
            **{name: getattr(entry.figures[delta.run], name) for name in ("value", "low", "high", "n")},
            **{f"published_{name}": getattr(row, field) for name, field in _PUBLISHED.items()},
            "source": str(entry.source),
            "difference": delta.difference,
            "difference_low": delta.low,
            "difference_high": delta.high,
            "method": delta.method,
            "why_none": "; ".join(delta.why_none),
            "differs_in": "; ".join(delta.differs_in),
        }
        for entry in published
        for row, against in entry.rows
        for delta in against
    ]
    return [{name: None if value != value else value for name, value in row.items()} for row in rows]
