"""Readers of public files: TSV, CSV, JSON lines, gzipped or not, with errors that name a line."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from custom_metrics.usage.plain_errors import PlainError


class CorruptSource(PlainError, ValueError):
    """A public file has the wrong content: another checksum, a truncated archive, a malformed row."""


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines with their numbers (from 1), without line ends, blank lines too; decompressed where the suffix is ``.gz``. A
    CorruptSource where the file is truncated, or is not UTF-8 text."""
    number = 0
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8", newline="\n") as stream:
            for number, line in enumerate(stream, 1):
                yield number, line.rstrip("\r\n")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CorruptSource(
            f"{path} is cut or damaged after line {number} ({error}); delete it and fetch it again "
            f"(a public file: `lm-eval-grounded sources --fetch '*{path.name}'`)"
        ) from error
    except UnicodeDecodeError as error:
        raise CorruptSource(f"{path} is no UTF-8 text after line {number}: {error}") from error


def _filled_lines(path: Path) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in read_lines(path) if line.strip())


def read_tsv(path: Path, columns: int) -> Iterator[list[str]]:
    """Rows of a TSV file without header and quoting; blank lines are skipped. A CorruptSource where a row has fewer
    columns, or the file is truncated."""
    for number, line in _filled_lines(path):
        row = line.split("\t")
        if len(row) < columns:
            raise CorruptSource(f"{path}, line {number}: {len(row)} of {columns} columns in {line[:80]!r}")
        yield row


def read_quoted_tsv(path: Path, required: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """Rows of a TSV file with a header and quoted fields (which may hold line breaks), as dictionaries. A required
    column that is missing from the header or from a row is a CorruptSource."""
    for number, row in _rows(path, "\t", "utf-8"):
        if number == 0:
            absent = [column for column in required if column not in row]
            if absent:
                raise CorruptSource(f"{path}: the header lacks the columns {absent}; it has {list(row)}")
            continue
        short = [column for column in required if row[column] is None]
        if short:
            raise CorruptSource(f"{path}, line {number}: too few columns, no value for {short}")
        yield {key: value for key, value in row.items() if isinstance(value, str)}


def read_csv(path: Path) -> Iterator[dict[str, str]]:
    """The header of a CSV file, as the keys of a first dictionary, and then its rows; column names in lower case. A row
    with fewer fields than the header lacks the last columns. A quoted field that is not closed, and what is no UTF-8 text,
    is a CorruptSource."""
    for _, row in _rows(path, ",", "utf-8-sig"):
        yield {key.strip().lower(): value for key, value in row.items() if isinstance(value, str)}


def _rows(path: Path, delimiter: str, encoding: str) -> Iterator[tuple[int, dict[str, str | None]]]:
    """The header as (0, its names), and each row with the number of its last line; missing fields are ``None``."""
    csv.field_size_limit(1 << 30)  # articles are longer than the default allows
    with path.open(encoding=encoding, newline="") as stream:
        reader = csv.DictReader(stream, delimiter=delimiter, strict=True)  # strict: a quote that never ends is an error
        try:
            yield 0, dict.fromkeys(reader.fieldnames or (), "")
            for row in reader:
                row.pop(None, None)  # fields beyond those of the header
                yield reader.line_num, row
        except (csv.Error, UnicodeDecodeError) as error:
            raise CorruptSource(
                f"{path}, after line {reader.reader.line_num}: {error}; delete it and fetch it again"
            ) from error


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Objects of a JSON lines file with their line numbers; blank lines are skipped. A CorruptSource where a line is no
    JSON object, or the file is truncated."""
    for number, line in _filled_lines(path):
        try:
            value = json.loads(line.removeprefix("\ufeff"))
        except json.JSONDecodeError as error:
            raise CorruptSource(f"{path}, line {number}: no JSON ({error.msg} at column {error.colno})") from error
        except (ValueError, RecursionError) as error:  # a number of 5,000 digits, a thousand brackets
            raise CorruptSource(f"{path}, line {number}: no JSON that can be read ({error})") from error
        if not isinstance(value, dict):
            raise CorruptSource(f"{path}, line {number}: expected a JSON object, found {type(value).__name__}")
        yield number, value


Row = TypeVar("Row")


def read_rows(path: Path, parse: Callable[[dict[str, Any]], Row], wrong: str) -> Iterator[Row]:
    """What `parse` makes of each object of a JSON lines file (:func:`read_json_lines`). An error that it raises, of a value
    of the wrong kind, becomes a CorruptSource: the line, what is `wrong` there, and the error."""
    for number, row in read_json_lines(path):
        try:
            parsed = parse(row)
        except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise CorruptSource(f"{path}, line {number}: {wrong}: {error!r}") from error
        yield parsed


def text_of(row: Mapping[str, Any], column: str, needed: bool = True) -> str:
    """The text in a column, else a ValueError; half a surrogate pair, which no table can hold, becomes a question mark. An
    absent text is empty unless it is `needed`."""
    value = row.get(column)
    if not isinstance(value, str) and (needed or value is not None):
        raise ValueError(f"{column!r} is {type(value).__name__}, not a text")
    return (value or "").encode("utf-8", "replace").decode("utf-8")


def flag_of(row: Mapping[str, Any], column: str) -> bool:
    """Whether a column is true, else a ValueError; one that is absent is false."""
    value = row.get(column, False)
    if not isinstance(value, bool):
        raise ValueError(f"{column} is {value!r:.80}, neither true nor false")
    return value


def check_readable(path: Path) -> None:
    """Read a file to its end in the format of its suffix: JSON lines, TSV, or else text, gzipped or not; a CorruptSource,
    with the line, where it does not have that format."""
    kind = path.name.removesuffix(".gz").rpartition(".")[2]
    check_end(path)
    if kind == "jsonl":
        for _ in read_json_lines(path):
            pass
        return
    lines = [line for _, line in _filled_lines(path)]
    if kind == "tsv" and lines and "\t" not in lines[0]:
        raise CorruptSource(f"{path}: no table, its first line is {lines[0][:80]!r}")


def check_end(path: Path) -> None:
    """Refuse a table whose last line has no end, as truncated. (Truncated JSON does not parse anyway.)"""
    if path.suffix not in (".tsv", ".csv") or path.stat().st_size == 0:
        return
    with path.open("rb") as stream:
        stream.seek(-1, 2)
        if stream.read() not in (b"\n", b"\r"):
            raise CorruptSource(
                f"{path} ends in the middle of a line: it was cut on the way. Fetch it again; if it is whole as it is, add "
                f"a line end."
            )
