"""Reading the public files: TSV rows and JSON lines, plain or gzipped, with errors that name file and line."""

from __future__ import annotations

import csv
import gzip
import json
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from lm_eval_tasks.sources import CorruptSource

__all__ = ["read_json_lines", "read_lines", "read_quoted_tsv", "read_tsv"]


def _open(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="\n")
    return path.open(encoding="utf-8", newline="\n")


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines without their ends, blank ones too; raises `CorruptSource` where the file is cut or no text."""
    number = 0
    try:
        with _open(path) as stream:
            for number, line in enumerate(stream, 1):
                yield number, line.rstrip("\r\n")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CorruptSource(
            f"{path} is cut or damaged after line {number} ({error}); delete it and fetch it again "
            f"(a public file: `lm-eval-grounded sources --fetch '*{path.name}'`)"
        ) from error
    except UnicodeDecodeError as error:
        raise CorruptSource(f"{path} is no UTF-8 text after line {number}: {error}") from error


def _count_blank(seen: Counter[str] | None) -> None:
    if seen is not None:
        seen["blank lines"] += 1


def read_tsv(path: Path, columns: int, seen: Counter[str] | None = None) -> Iterator[list[str]]:
    """Rows of a TSV file without header and quoting; blank lines are passed over and counted in `seen`.

    Raises:
        CorruptSource: a row with fewer columns, or a file cut in the middle.
    """
    for number, line in read_lines(path):
        if not line.strip():
            _count_blank(seen)
            continue
        row = line.split("\t")
        if len(row) < columns:
            raise CorruptSource(f"{path}, line {number}: {len(row)} of {columns} columns in {line[:80]!r}")
        yield row


def read_quoted_tsv(path: Path, required: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """Rows of a TSV file with a header and quoted fields (which may hold line breaks), as dictionaries.

    Raises:
        CorruptSource: a required column is missing from the header, or a row is short of it.
    """
    csv.field_size_limit(min(sys.maxsize, 1 << 30))  # passages are longer than the default allows
    with path.open(encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream, delimiter="\t", strict=True)  # strict: a quote that never ends is an error
        try:
            absent = [column for column in required if column not in (reader.fieldnames or ())]
            if absent:
                raise CorruptSource(f"{path}: the header lacks the columns {absent}; it has {reader.fieldnames}")
            for row in reader:
                short = [column for column in required if row[column] is None]
                if short:
                    raise CorruptSource(f"{path}, line {reader.line_num}: too few columns, no value for {short}")
                yield row
        except (csv.Error, UnicodeDecodeError) as error:
            raise CorruptSource(f"{path}, line {reader.line_num}: {error}") from error


def read_json_lines(path: Path, seen: Counter[str] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Objects of a JSON lines file with their line numbers; blank lines are passed over and counted in `seen`.

    Raises:
        CorruptSource: a line that is no JSON object, or a file cut in the middle.
    """
    for number, line in read_lines(path):
        if not line.strip():
            _count_blank(seen)
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            raise CorruptSource(f"{path}, line {number}: no JSON ({error.msg} at column {error.colno})") from error
        if not isinstance(value, dict):
            raise CorruptSource(f"{path}, line {number}: expected a JSON object, found {type(value).__name__}")
        yield number, value
