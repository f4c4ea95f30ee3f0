"""Files of what raters said, as rows: JSON lines, JSON, CSV, TSV, and samples files of the harness."""

from __future__ import annotations

import csv
import json
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.data.tables import read_json_lines
from lm_eval_tasks.results.agreement.raters import quoted

__all__ = ["Row", "id_of", "numbered", "rows_of"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

Row: TypeAlias = tuple[str, dict[str, Any]]  # where it stands, for messages; values by column


def rows_of(path: Path, column: str, id_column: str) -> list[Row]:
    """The rows of a file, what a sample of the harness holds under the names of the columns."""
    name = path.name.lower()
    if name.endswith((".jsonl", ".jsonl.gz")):
        read: Iterator[Row] = ((f"line {number}", row) for number, row in read_json_lines(path))
    elif name.endswith(".json"):
        read = _json(path)
    elif name.endswith((".csv", ".tsv")):
        read = _delimited(path, "," if name.endswith(".csv") else "\t")
    else:
        raise ValueError(f"{path}: which format? The name of a file must end in .jsonl, .jsonl.gz, .json, .csv or .tsv")
    rows = []
    for where, row in read:
        doc, answers = row.get("doc"), row.get("filtered_resps")
        if isinstance(doc, dict) and isinstance(answers, list) and answers:
            row = {**doc, id_column: doc.get(id_column, doc.get("id")), column: answers[0]}
            if "first" in doc and "second" in doc:  # of a comparison: each order is an item, and a system is preferred
                shown = {"A": doc["first"], "B": doc["second"]}
                row |= {id_column: doc.get("query_id"), column: shown.get(answers[0], answers[0])}
        rows.append((f"{path}, {where}", row))
    if not rows:
        raise CorruptSource(f"{path} has no rows")
    if not any(column in row for _, row in rows):
        raise ValueError(f"{path} has no column {column!r}; it has {_columns(rows)} (--column NAME)")
    return rows


def _columns(rows: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    """The first columns of some rows, for a message."""
    names = dict.fromkeys(name for _, row in rows for name in row)
    return ", ".join(map(quoted, [*names][:12])) + (", ..." if len(names) > 12 else "")


def _json(path: Path) -> Iterator[Row]:
    try:
        values = json.loads(path.read_text("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise CorruptSource(f"{path} is no UTF-8 text: {error}") from error
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits is a ValueError of another kind
        raise CorruptSource(f"{path}, whole file: no JSON ({error})") from error
    if not isinstance(values, list):
        raise CorruptSource(f"{path}: expected a list of objects, found {type(values).__name__}")
    for number, value in enumerate(values, 1):
        if not isinstance(value, dict):
            raise CorruptSource(f"{path}, row {number}: expected a JSON object, found {type(value).__name__}")
        yield f"row {number}", value


def _delimited(path: Path, delimiter: str) -> Iterator[Row]:
    csv.field_size_limit(min(sys.maxsize, 1 << 30))  # answers are longer than the default allows
    with path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream, delimiter=delimiter, strict=True)  # strict: a quote that never ends is an error
        try:
            for row in reader:
                if None in row or None in row.values():
                    raise CorruptSource(f"{path}, line {reader.line_num}: not as many fields as the header has")
                yield f"line {reader.line_num}", row
        except (csv.Error, UnicodeDecodeError) as error:
            raise CorruptSource(f"{path}, line {reader.line_num}: {error}") from error


def numbered(names: Sequence[str], tables: Sequence[list[Row]]) -> list[list[Row]]:
    """Files without ids, their rows numbered.

    Raises:
        ValueError: they are not equally long, so that rows of one number need not be the same document.
    """
    if len({len(rows) for rows in tables}) > 1:
        lengths = ", ".join(f"{name} {len(rows)}" for name, rows in zip(names, tables, strict=True))
        raise ValueError(
            f"no file has ids, and their rows are not equally many ({lengths}); --id NAME says where ids are"
        )
    log.info("no file has a column `id`: rows with the same number are taken for the same document")
    return [[(where, {**row, "id": f"row {number}"}) for number, (where, row) in enumerate(rows, 1)] for rows in tables]


def id_of(where: str, row: Mapping[str, Any], column: str) -> str:
    """The id of a row, as a text."""
    value = row.get(column)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # as pandas writes whole numbers of a column with gaps
    if isinstance(value, (str, int)) and not isinstance(value, bool) and str(value).strip():
        return str(value).strip()
    raise ValueError(
        f"{where}: the id in {column!r} must be a text or a number, found {quoted(value)}; the columns are "
        f"{_columns([(where, row)])} (--id NAME)"
    )
