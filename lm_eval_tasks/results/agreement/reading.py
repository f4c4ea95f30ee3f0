"""Readers of raters' files: JSON lines, JSON, CSV, TSV, and samples files of the harness; and parsers of a row's id, rating
and tagged text."""

from __future__ import annotations

import csv
import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from custom_metrics.reading.spans import Span, span_of
from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.data.tables import read_json_lines
from lm_eval_tasks.mfava.dataset import LANGUAGES

Row: TypeAlias = tuple[str, dict[str, Any]]  # its place in the file, for messages; values by column

_CODES = {"english": "en", **{language.name.lower(): code for code, language in LANGUAGES.items()}}


def quoted(value: Any) -> str:
    """A value for a message: shortened, and without terminal control characters."""
    text = f"{value:g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def read_rows(path: Path, column: str, id_column: str) -> list[Row]:
    """Read the rows of a file. Samples of the harness become rows with the names of the columns."""
    name = path.name.lower()
    if name.endswith((".jsonl", ".jsonl.gz")):
        placed_rows: Iterator[Row] = ((f"line {number}", row) for number, row in read_json_lines(path))
    elif name.endswith(".json"):
        placed_rows = _read_json(path)
    elif name.endswith((".csv", ".tsv")):
        placed_rows = _read_delimited(path, "," if name.endswith(".csv") else "\t")
    else:
        raise ValueError(f"{path}: which format? The name of a file must end in .jsonl, .jsonl.gz, .json, .csv or .tsv")
    rows = []
    for where, row in placed_rows:
        doc, answers = row.get("doc"), row.get("filtered_resps")
        if isinstance(doc, dict) and isinstance(answers, list) and answers:
            row = {**doc, id_column: doc.get(id_column, doc.get("id")), column: answers[0]}
            if "first" in doc and "second" in doc:  # a comparison: each order is an item, and the rating is a system
                systems = {"A": doc["first"], "B": doc["second"]}
                row |= {id_column: doc.get("query_id"), column: systems.get(answers[0], answers[0])}
        elif column not in row and "spans" in row and isinstance(row.get("answer"), str):  # of a file of marks
            row = {**row, id_column: f"{row.get('id')} of run {row.get('run')}", column: _marked(path, where, row)}
        rows.append((f"{path}, {where}", row))
    if not rows:
        raise CorruptSource(f"{path} has no rows")
    if not any(column in row for _, row in rows):
        raise ValueError(f"{path} has no column {column!r}; it has {_columns(rows)} (--column NAME)")
    return rows


def _columns(rows: Iterable[Row]) -> str:
    """The first columns of some rows, for a message."""
    names = dict.fromkeys(name for _, row in rows for name in row)
    return ", ".join(map(quoted, [*names][:12])) + (", ..." if len(names) > 12 else "")


def _read_json(path: Path) -> Iterator[Row]:
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


def _read_delimited(path: Path, delimiter: str) -> Iterator[Row]:
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


def parse_id(where: str, row: dict[str, Any], column: str) -> str:
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


def parse_rating(where: str, value: Any) -> float | str | None:
    """A rating as a finite number, else as a label; ``None`` if it is missing or says so."""
    if value is None:
        return None
    if not isinstance(value, (str, int, float)):
        raise CorruptSource(f"{where}: a rating is a number or a label, found {quoted(value)}")
    label = str(value).strip()
    if label.lower() in ("", "nan", "unread"):
        return None
    try:
        number = float(label)
    except ValueError:
        return label
    return number if math.isfinite(number) and "_" not in label else label  # Python reads 1_0 as 10


class Tagged(NamedTuple):
    """A tagged text, with the original text and its language if the row has them."""

    tagged: str
    text: str | None
    language: str | None
    spans: tuple[Span, ...] | None = None  # in the text, where a row has these and no tags

    def __repr__(self) -> str:  # for messages
        return repr(self.tagged)


def _marked(path: Path, where: str, row: Mapping[str, Any]) -> Tagged | None:
    """The marks of a line of a marks file (:mod:`lm_eval_tasks.results.marks.lines`); ``None`` where the annotator could
    not tell."""
    if row["spans"] is None:
        return None
    try:
        spans = tuple(map(span_of, row["spans"]))
    except (TypeError, ValueError) as error:
        raise CorruptSource(f"{path}, {where}: {error}") from error
    language = row.get("language")
    return Tagged("", row["answer"], language if isinstance(language, str) and language else None, spans)


def parse_tagged(
    where: str, row: Mapping[str, Any], column: str, text_column: str | None, language: str | None
) -> Tagged | None:
    """The tagged text of a row; ``None`` where there is none. Its language may be given as a code or in English."""
    if isinstance(marked := row.get(column), Tagged):
        return marked._replace(language=language or marked.language)
    texts = {name: row.get(name) for name in (column, text_column, "language") if name is not None}
    for name, value in texts.items():
        if value is not None and not isinstance(value, str) and (name != "language" or not language):
            raise CorruptSource(f"{where}: {name!r} is no text but {quoted(value)}")
    if not (texts[column] or "").strip():
        return None
    code = name_or_code = language or texts["language"]
    if name_or_code:
        code = _CODES.get(name_or_code.strip().lower(), name_or_code.strip().lower())
        if not re.fullmatch("[a-z]{2,3}", code):
            raise ValueError(
                f"{where}: unknown language {quoted(name_or_code)}; known are ISO 639 codes and mFAVA's languages"
            )
    return Tagged(str(texts[column]), texts[text_column] if text_column else None, code or None)
