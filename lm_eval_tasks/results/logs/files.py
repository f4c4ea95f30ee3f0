"""Records of a log, one after another, from a file of any usual format: JSON lines, JSON, CSV, TSV, Parquet, and a log of
Inspect; compressed or not. The content tells the format, and the name of the file tells nothing.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import json
import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import excerpt
from lm_eval_tasks.results.logs.fields import ANY_TOOL, known_tools
from lm_eval_tasks.results.logs.values import stored

_HEAD = 1 << 16  # bytes that tell the format
_SHOWN_LINES = 50  # of the head, that are tried
_BETWEEN = re.compile(r"[\s,]*(?:\][\s,]*(?:\[\s*)?)?")  # JSON values of an array, or of several
_ZSTANDARD = 93  # of a part of a zip file, which zipfile cannot read before Python 3.14
_SEPARATOR = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)  # Excel's first line
_DAMAGE = (EOFError, zlib.error, lzma.LZMAError, OSError)  # as decompression says it; the system's errors have a number


class Record(NamedTuple):
    """A record and its place: the line where it begins, or its number in a file without lines. `problem` says why it has no
    value."""

    number: int
    value: dict[str, Any]
    problem: str = ""


def records_of(path: Path, name: str, read: Callable[[int], object] = lambda _: None) -> Iterator[Record]:
    """The records of a file, also those that cannot be read. `name` stands for it in messages; `read` gets the bytes of it
    that were read so far. UsageError where the file is of another format."""
    found = _to_damage(path, name, read)
    first = [*filter(None, (next(found, None), next(found, None)))]
    for record in _of_one(*first) if len(first) == 1 else chain(first, found):
        yield from _within(record)


def _to_damage(path: Path, name: str, read: Callable[[int], object]) -> Iterator[Record]:
    number = 0
    with path.open("rb") as raw:
        try:
            for record in _records(raw, name):
                number = record.number
                read(raw.tell())
                yield record
        except _DAMAGE as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            yield Record(number + 1, {}, "cut off or damaged from here on")


_OPENERS: Mapping[bytes, Callable[[io.BufferedReader], Any]] = {
    **{b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw), b"BZh": bz2.BZ2File, b"\xfd7zXZ\x00": lzma.LZMAFile},
    b"\x28\xb5\x2f\xfd": lambda raw: io.BufferedReader(
        import_module("pyarrow").CompressedInputStream(raw, "zstd"), _HEAD
    ),
}


def _records(raw: io.BufferedReader, name: str) -> Iterator[Record]:
    """The records as they are written, by the format that the first bytes tell."""
    magic = raw.peek(6)
    stream = next((opener(raw) for beginning, opener in _OPENERS.items() if magic.startswith(beginning)), raw)
    head = stream.peek(_HEAD)
    if head.startswith((b"PAR1", b"PK\x03\x04")):
        values = _parquet(stream) if head.startswith(b"PAR1") else _inspect(stream, name)
        yield from (Record(number, value) for number, value in enumerate(values, 1))
        return
    encoding = "utf-16" if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
    shown = io.StringIO(head.decode(encoding, "replace"), newline=None).read().lstrip()
    lines = [line for line in shown.split("\n")[:_SHOWN_LINES] if line.strip()]
    text = io.TextIOWrapper(stream, encoding, errors="surrogateescape")
    alone = [line[:1] in ("[", "{") and not _parsed(1, line).problem.startswith("not JSON") for line in lines]
    if shown[:1] not in ("[", "{"):
        yield from _rows(text, lines, name)
        return
    is_indented = len(lines) > 1 and not any(alone) and any(line[0] in " \t" for line in lines)
    if (len(lines) < 2 or not alone[0]) if shown[0] == "[" else is_indented:
        yield from _documents(text.read())
    else:
        yield from (_parsed(number, line) for number, line in enumerate(text, 1) if line.strip())


def _parquet(stream: Any) -> Iterator[dict[str, Any]]:
    import pyarrow
    import pyarrow.parquet

    try:
        for batch in pyarrow.parquet.ParquetFile(stream).iter_batches(batch_size=256):
            yield from batch.to_pylist()
    except (pyarrow.ArrowException, ValueError) as error:  # or a text that is not UTF-8
        raise EOFError(str(error)) from error


def _inspect(stream: io.BufferedReader, name: str) -> Iterator[dict[str, Any]]:
    import pyarrow

    try:
        with zipfile.ZipFile(stream) as log:
            for info in (each for each in log.infolist() if each.filename.startswith("samples/")):
                if info.compress_type != _ZSTANDARD:
                    yield json.loads(log.read(info))
                    continue
                stream.seek(info.header_offset + 26)
                stream.seek(sum(struct.unpack("<HH", stream.read(4))), io.SEEK_CUR)  # the name and what is beside it
                yield json.loads(pyarrow.decompress(stream.read(info.compress_size), info.file_size, "zstd", True))
    except (zipfile.BadZipFile, struct.error, pyarrow.ArrowException, ValueError) as error:
        raise UsageError(f"{name} is no log: a zip file, but not a whole one of Inspect ({error})") from None


def _rows(text: Iterator[str], head: Sequence[str], name: str) -> Iterator[Record]:
    """The rows of a table with a header, each with the line on which it begins. Quoted cells may hold line breaks."""
    said = _SEPARATOR.fullmatch("".join(head[:1]))
    first = "".join(head[bool(said) :][:1])
    delimiter = max(said[1] if said else "\t,;|", key=lambda sign: len(next(csv.reader([first], delimiter=sign), [])))
    if head and (delimiter not in first or "\0" in first):
        raise UsageError(
            f"{name} is no log: neither JSON lines, JSON, CSV, TSV nor Parquet, compressed or not; it begins with "
            f"{excerpt(first[:60])}"
        )
    csv.field_size_limit(1 << 30)
    rows = csv.reader((line.replace("\0", "") for line in text), delimiter=delimiter, strict=True)
    names: list[str] = []
    row: list[str] | None = next(rows) if said else []
    while row is not None:
        start = rows.line_num + 1
        try:
            row = next(rows, None)
        except csv.Error:
            row = names and ["", *names]
        if row and not names:
            names = [name.strip() for name in row]
        elif row:
            problem = "" if _is_text("".join(row)) else "not UTF-8 text"
            problem = problem if len(row) == len(names) else "other cells than columns"
            yield Record(start, {} if problem else dict(zip(names, row, strict=True)), problem)


def _is_text(text: str) -> bool:
    return text.isascii() or not any("\udc80" <= character <= "\udcff" for character in text)


def _parsed(number: int, line: str) -> Record:
    try:
        return _record(number, json.loads(line)) if _is_text(line) else Record(number, {}, "not UTF-8 text")
    except (ValueError, RecursionError):
        return Record(number, {}, "not JSON")


def _record(number: int, value: Any) -> Record:
    return Record(number, value) if isinstance(value, dict) else Record(number, {}, "not a JSON object")


def _documents(text: str) -> Iterator[Record]:
    """JSON values one after another, or those of arrays, each with the line where it begins; to the first broken one."""
    decode, number, at = json.JSONDecoder().raw_decode, 1, 0
    end = len(text) - len(text.lstrip().removeprefix("[").lstrip())
    while end < len(text):
        number, at = number + text.count("\n", at, end), end
        try:
            value, end = decode(text, at)
        except (ValueError, RecursionError):
            yield Record(number, {}, "not JSON from here on")
            return
        yield _record(number, value)
        end = following.end() if (following := _BETWEEN.match(text, end)) else end


def _of_one(record: Record) -> Iterator[Record]:
    """The records of a file that is one object: columns or rows of a table, a list of records, or the object itself."""
    rows, known = _rows_of(record.value), known_tools()
    # an object without a field of a record that has an answer may hold records
    names = {name for paths in known.values() for path in paths.get("answer", ()) for name in path.heads}
    names -= {path.text for path in known[ANY_TOOL]["records"]}
    with suppress(RecursionError):
        rows = rows or ([] if names & record.value.keys() else _listed(stored(record.value), 0))
    found = [_record(number if len(rows) > 1 else record.number, row) for number, row in enumerate(rows, 1)]
    yield from found or [record]


def _rows_of(fields: dict[str, Any]) -> list[Any]:
    """The rows of a table in one object, as pandas and MLflow write it; empty for anything else."""
    columns, values = fields.get("columns"), [*fields.values()]
    rows = fields["data"] if isinstance(columns, list) and isinstance(fields.get("data"), list) else None
    if rows and all(isinstance(row, list) for row in rows):  # orient="split"
        return [dict(zip(map(str, columns or ()), row, strict=False)) for row in rows]
    if len(values) > 1 and all(isinstance(value, list) for value in values) and len({*map(len, values)}) == 1:
        return [dict(zip(fields, row, strict=True)) for row in zip(*values, strict=True)]
    if not values or not all(isinstance(value, dict) and value for value in values):
        return []
    if all(map(str.isdecimal, fields)):  # orient="index"
        return values
    is_table = all(value.keys() == values[0].keys() for value in values) and all(map(str.isdecimal, values[0]))
    return [{name: column[place] for name, column in fields.items()} for place in values[0]] if is_table else []


def _within(record: Record) -> Iterator[Record]:
    """The records of lists within lists, as OTLP has them, or the one; with their values read."""
    try:
        value = stored(record.value)
    except RecursionError:
        yield Record(record.number, {}, "nested too deeply")
        return
    found = _listed(value, 2)
    yield from (_record(record.number, each) for each in found) if found else [record._replace(value=value)]


def _listed(value: Mapping[str, Any], depth: int) -> list[Any]:
    """The objects of the first list in which tools list records, within so many lists at least; empty without one."""
    paths = known_tools()[ANY_TOOL]["records"]
    lists = (path.value(value) for path in paths if path.text.count("[]") >= depth)
    return next((found for found in lists if isinstance(found, list) and isinstance(found[0], dict)), [])
