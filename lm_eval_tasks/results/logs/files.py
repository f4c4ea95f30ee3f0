"""Records of a log, one after another, from a file of any usual format: JSON lines, JSON, CSV, TSV, Parquet, and a log of
Inspect; gzipped or not. The content tells the format, and the name of the file tells nothing.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, TypeAlias

from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import excerpt
from lm_eval_tasks.results.logs.fields import ANY_TOOL, known_tools
from lm_eval_tasks.results.logs.values import stored

_HEAD = 1 << 16  # bytes that tell the format
_SHOWN_LINES = 50  # of the head, that are tried
_BETWEEN = re.compile(r"[\s,]*(?:\][\s,]*(?:\[\s*)?)?")  # JSON values of an array, or of several
_UNPACKED_BY = {b"BZh": "bunzip2", b"\xfd7zXZ\x00": "unxz", b"\x28\xb5\x2f\xfd": "unzstd"}  # and not here
_ZSTANDARD = 93  # of a part of a zip file, which zipfile cannot read before Python 3.14
_SEPARATOR = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)  # Excel's first line
_NO_JSON = "not JSON"


Record: TypeAlias = tuple[int, dict[str, Any] | str]
"""A record's number, and its value, or why it has none. Its number is that of its line, where each has one, else among the
records (of a table, the header is 1)."""


def records_of(path: Path, name: str) -> Iterator[Record]:
    """The records of a file, also those that cannot be read. `name` stands for it in messages. UsageError where the file is
    of another format."""
    with path.open("rb") as raw:
        found = _to_damage(raw, name)
        first = [*islice(found, 2)]
        for number, value in _of_one(*first[0]) if len(first) == 1 else chain(first, found):
            yield from ((number, each) for each in ([value] if isinstance(value, str) else _within(value)))


def _to_damage(raw: io.BufferedReader, name: str) -> Iterator[Record]:
    number = 0
    try:
        for number, value in _as_written(raw, name):
            yield number, value
    except (EOFError, zlib.error, OSError) as error:
        if getattr(error, "errno", None) is not None:  # of the system, which numbers its errors
            raise
        yield number + 1, "cut off or damaged from here on"


def _as_written(raw: io.BufferedReader, name: str) -> Iterator[Record]:
    """The records as they are written, by the format that the first bytes tell."""
    stream: Any = gzip.GzipFile(fileobj=raw) if raw.peek(2).startswith(b"\x1f\x8b") else raw
    head = stream.peek(_HEAD)
    for magic, command in _UNPACKED_BY.items():
        if head.startswith(magic):
            raise UsageError(f"{name}: of compressed logs those of gzip are read; unpack it with {command} first")
    if head.startswith((b"PAR1", b"PK\x03\x04")):
        yield from enumerate(_parquet(stream) if head.startswith(b"PAR1") else _inspect(stream, name), 1)
        return
    encoding = "utf-16" if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
    shown = io.StringIO(head.decode(encoding, "replace"), newline=None).read().lstrip()
    lines = [line for line in shown.split("\n")[:_SHOWN_LINES] if line.strip()]
    text = io.TextIOWrapper(stream, encoding, errors="surrogateescape")
    alone = [line[:1] in ("[", "{") and _parsed(line) != _NO_JSON for line in lines]
    is_indented = len(lines) > 1 and not any(alone) and any(line[0] in " \t" for line in lines)
    if shown[:1] not in ("[", "{"):
        yield from _rows(text, lines, name) if lines else ()
    elif (len(lines) < 2 or not alone[0]) if shown[0] == "[" else is_indented:
        yield from enumerate(_documents(text.read()), 1)
    else:
        yield from ((number, _parsed(line)) for number, line in enumerate(text, 1) if line.strip())


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
    """The rows of a table with a header. Quoted cells may hold line breaks."""
    said = _SEPARATOR.fullmatch(head[0])
    first = "".join(head[bool(said) :][:1])
    delimiter = max(said[1] if said else "\t,;|", key=lambda sign: len(next(csv.reader([first], delimiter=sign), [])))
    if delimiter not in first or "\0" in first:
        raise UsageError(
            f"{name} is no log: neither JSON lines, JSON, CSV, TSV nor Parquet, plain or gzipped; it begins with "
            f"{excerpt(first[:60])}"
        )
    csv.field_size_limit(1 << 30)
    rows = csv.reader((line.replace("\0", "") for line in text), delimiter=delimiter, strict=True)
    names = list[str]()
    for number in count(1):
        try:
            row = next(rows, None)
        except csv.Error:
            row = names and ["", *names]
        if row is None:
            return
        if row and not names and not (said and number == 1):
            names = [name.strip() for name in row]
        elif row and names:
            problem = "" if _is_text("".join(row)) else "not UTF-8 text"
            problem = problem if len(row) == len(names) else "other cells than columns"
            yield number, problem or dict(zip(names, row, strict=True))


def _is_text(text: str) -> bool:
    return text.isascii() or not any("\udc80" <= character <= "\udcff" for character in text)


def _parsed(line: str) -> Any:
    try:
        return _record(json.loads(line)) if _is_text(line) else "not UTF-8 text"
    except (ValueError, RecursionError):
        return _NO_JSON


def _record(value: Any) -> dict[str, Any] | str:
    return value if isinstance(value, dict) else "not a JSON object"


def _documents(text: str) -> Iterator[dict[str, Any] | str]:
    """JSON values one after another, or those of arrays; to the first broken one."""
    decode, end = json.JSONDecoder().raw_decode, len(text) - len(text.lstrip().removeprefix("[").lstrip())
    while end < len(text):
        try:
            value, end = decode(text, end)
        except (ValueError, RecursionError):
            yield f"{_NO_JSON} from here on"
            return
        yield _record(value)
        end = following.end() if (following := _BETWEEN.match(text, end)) else end


def _of_one(number: int, value: dict[str, Any] | str) -> Iterator[Record]:
    """The records of a file that is one object: columns or rows of a table, a list of records, or the object itself."""
    known = known_tools()
    # an object without a field of a record that has an answer may hold records
    names = {name for paths in known.values() for path in paths.get("answer", ()) for name in path.heads}
    names -= {path.text for path in known[ANY_TOOL]["records"]}
    fields = {} if isinstance(value, str) else value
    rows = _rows_of(fields)
    with suppress(RecursionError):
        rows = rows or ([] if names & fields.keys() else _listed(stored(fields), 0))
    yield from enumerate(map(_record, rows), 1) if rows else [(number, value)]


def _rows_of(fields: dict[str, Any]) -> list[Any]:
    """The rows of a table in one object, as pandas and MLflow write it; empty for anything else."""
    columns, data, values = fields.get("columns"), fields.get("data"), [*fields.values()]
    if isinstance(columns, list) and isinstance(data, list) and all(isinstance(row, list) for row in data):
        return [dict(zip(map(str, columns), row, strict=False)) for row in data]  # orient="split"
    if len(values) > 1 and all(isinstance(value, list) for value in values) and len({*map(len, values)}) == 1:
        return [dict(zip(fields, row, strict=True)) for row in zip(*values, strict=True)]
    if not values or not all(isinstance(value, dict) and value for value in values):
        return []
    if all(map(str.isdecimal, fields)):  # orient="index"
        return values
    is_table = all(value.keys() == values[0].keys() for value in values) and all(map(str.isdecimal, values[0]))
    return [{name: column[place] for name, column in fields.items()} for place in values[0]] if is_table else []


def _within(value: dict[str, Any]) -> list[Any]:
    """The records of lists within lists, as OTLP has them, or the one; with their values read."""
    try:
        read = stored(value)
    except RecursionError:
        return ["nested too deeply"]
    return [*map(_record, _listed(read, 2))] or [read]


def _listed(value: Mapping[str, Any], depth: int) -> list[Any]:
    """The objects of the first list in which tools list records, within so many lists at least; empty without one."""
    paths = known_tools()[ANY_TOOL]["records"]
    lists = (path.value(value) for path in paths if path.text.count("[]") >= depth)
    return next((found for found in lists if isinstance(found, list) and isinstance(found[0], dict)), [])
