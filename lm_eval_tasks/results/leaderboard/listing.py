"""A leaderboard without its pages: each cell as a row, for CSV and JSON, and the overviews as text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.units import NOT_MEASURABLE, is_measurable
from custom_metrics.usage.printable import on_one_line
from lm_eval_tasks.results.formats import three_digits
from lm_eval_tasks.results.leaderboard.entry import Entry
from lm_eval_tasks.results.leaderboard.standings import Cell, Section, Table

Tags = Mapping[str, str]
"""What a user says of a model: name to value."""


FIELDS = "model folder date benchmark group column metric value low high n rank doubts".split()
"""Of a row: the model, where its figure stands, the figure with its 95 % bounds, its rank, and doubts about the run."""


def rows_of(
    sections: Sequence[Section], entries: Sequence[Entry], labels: Sequence[str], tags: Sequence[Tags]
) -> Iterator[dict[str, Any]]:
    """A row for each cell of the sections' tables: :data:`FIELDS`, and the tags of any model. What is not known is
    ``None``, as is the value of a figure that is not measurable."""
    no_tags = dict.fromkeys(key for of_run in tags for key in of_run)
    cells = (
        (section, table, row, column, cell)
        for section in sections
        for table in (section.summary, *section.tables)
        for row in table.rows
        for column, cell in row.cells.items()
    )
    for section, table, row, column, cell in cells:
        entry, figure = entries[row.entry], cell.figure
        where = section.family, section.number or None, column.name or section.family, column.metric or table.title
        value = _known(figure.value) if is_measurable(figure, cell.unit) else None
        numbers = value, _known(figure.low), _known(figure.high), figure.n or None, cell.rank
        values = labels[row.entry], entry.folder, entry.date, *where, *numbers, "; ".join(row.marks)
        yield {**dict(zip(FIELDS, values, strict=True)), **no_tags, **tags[row.entry]}


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
        [
            f"* {row.model}",
            *(three_digits(row.values[column]) if column in row.values else "-" for column in table.columns),
        ]
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
    bounds = f" [{three_digits(figure.low)}, {three_digits(figure.high)}]" if math.isfinite(figure.low) else ""
    if not is_measurable(figure, cell.unit):
        return NOT_MEASURABLE + bounds
    return three_digits(figure.value) + bounds + (f" #{cell.rank}" if cell.rank else "")
