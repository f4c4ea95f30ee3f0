"""A leaderboard without its pages: each cell as a row, for CSV and JSON, and the overviews as text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.units import NOT_MEASURABLE, is_measurable
from custom_metrics.usage.printable import on_one_line
from lm_eval_tasks.results.leaderboard.entry import Entry
from lm_eval_tasks.results.leaderboard.standings import Cell, Section, Table

Tags = Mapping[str, str]
"""What a user says of a model: name to value."""


def rows_of(
    sections: Sequence[Section], entries: Sequence[Entry], labels: Sequence[str], tags: Sequence[Tags]
) -> Iterator[dict[str, Any]]:
    """A row for each cell of the sections' tables: model, its tags, where the cell stands, the figure with its 95 % bounds,
    and the rank. Values that are not known are ``None``; that of a figure which is not measurable is, too."""
    for section in sections:
        for table in (section.summary, *section.tables):
            for row in table.rows:
                entry = entries[row.entry]
                for column, cell in row.cells.items():
                    shown = is_measurable(cell.figure, cell.unit)
                    yield {
                        "model": labels[row.entry],
                        **tags[row.entry],
                        "folder": entry.folder,
                        "date": entry.date,
                        "benchmark": section.family,
                        "group": section.number or None,
                        "column": column.name or section.family,
                        "metric": column.metric or table.title,
                        "value": _known(cell.figure.value) if shown else None,
                        "low": _known(cell.figure.low),
                        "high": _known(cell.figure.high),
                        "n": cell.figure.n or None,
                        "rank": cell.rank,
                        "doubts": "; ".join(row.marks),
                    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def overview_text(table: Table, labels: Sequence[str]) -> str:
    """An overview as a table in Markdown: value, bounds and rank; ``*`` marks published values."""
    from tabulate import tabulate

    header = [table.title, *(" ".join(filter(None, (column.name, column.metric))) for column in table.columns)]
    rows = [
        [on_one_line(labels[row.entry]), *(_text(row.cells.get(column)) for column in table.columns)]
        for row in table.rows
    ]
    rows += [
        [f"* {row.model}", *(_number(row.values[column]) if column in row.values else "-" for column in table.columns)]
        for row in table.published
    ]
    safe = [[cell.replace("|", "\\|") for cell in row] for row in (header, *rows)]
    sources = "".join(f"* {source}\n" for source in dict.fromkeys(row.source for row in table.published))
    text: str = tabulate(safe[1:], safe[0], tablefmt="github", disable_numparse=True)
    return f"{text}\n{sources}"


def _text(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    figure: Figure = cell.figure
    bounds = f" [{_number(figure.low)}, {_number(figure.high)}]" if math.isfinite(figure.low) else ""
    if not is_measurable(figure, cell.unit):
        return NOT_MEASURABLE + bounds
    return _number(figure.value) + bounds + (f" #{cell.rank}" if cell.rank else "")


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.0f}"
