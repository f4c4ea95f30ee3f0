"""Records of a log, one after another, from a file of any usual format: JSON lines, a JSON array, JSON objects one after
another, an object with a list of records in it, CSV, TSV, Parquet, and a log of Inspect; compressed or not.

The content tells the format, and the name of the file tells nothing. A record, and not the file, is in memory at a time.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import json
import lzma
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from zipfile import is_zipfile

from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import excerpt
from lm_eval_tasks.results.logs.fields import lists_of_records

LONGEST = 64 << 20
"""Bytes of a record that is read; longer ones are left out."""

_HEAD = 1 << 20  # bytes that tell the format
_SHOWN_LINES = 50  # of the head, that are tried
_CHUNK = 1 << 18
_DELIMITERS = "\t,;|"
_OUTSIDE, _INSIDE = re.compile(rb'["\[\]{}]'), re.compile(rb'["\\]')  # what ends a text, or a part outside of texts

Stream: TypeAlias = "io.BufferedIOBase"
_DAMAGE = (
    EOFError,
    zlib.error,
    lzma.LZMAError,
    OSError,
)  # as decompression says it; an error of the system has a number


class Record(NamedTuple):
    """A record and its place: the line where it begins, or its number in a file without lines. `problem` says why it has no
    value."""

    number: int
    value: dict[str, Any]
    problem: str = ""


class Format(NamedTuple):
    """What a file is: its name for people; the delimiter of a table; the field of a JSON object that lists its records."""

    name: str
    delimiter: str = ""
    inside: str = ""


@dataclass(frozen=True)
class LogFile:
    """A file of records. `name` stands for it in messages.

    With `wait`, the end of a file of lines is not the end of its records: `wait` is called there, and as long as it returns
    true the file is read on. A file that has become shorter is read from its beginning; of one that was replaced first the
    rest, then the new one.
    """

    path: Path
    name: str
    wait: Callable[[], bool] | None = None

    def records(self, read: Callable[[int], None] | None = None) -> Iterator[Record | None]:
        """The records, those that cannot be read too; ``None`` where `wait` is about to be called. `read` gets the bytes of
        the file that were read so far. UsageError where the file is of another format."""
        number = 0
        with self.path.open("rb") as raw:
            try:
                for record in self._records(raw):
                    number = record.number if record else number
                    yield record
                    if read is not None:
                        read(raw.tell())
            except UsageError:
                raise
            except _DAMAGE as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise
                yield Record(number + 1, {}, "cut off or damaged from here on")

    def _records(self, raw: io.BufferedReader) -> Iterator[Record | None]:
        name, delimiter, inside = self.format_of(head := self._beginning())
        stream = _decompressed(raw)
        if self.wait is not None and (stream is not raw or name != "JSON lines"):
            form = f"{name}, compressed" if stream is not raw else name
            raise UsageError(f"{self.name}: --follow reads JSON lines, one record a line; this is {form}")
        if name == "Parquet":
            yield from _parquet(stream)
        elif name == "Inspect":
            yield from self._inspect()
        elif delimiter:
            yield from self._table(stream, delimiter)
        elif name == "JSON lines":
            for line in self._lines(stream):
                if line is None:
                    yield None
                elif line[1].strip():
                    yield from self._several(_record(*line))
        else:
            depth = 2 if inside else 1 if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"[" else 0
            for number, content, field in _containers(stream, depth):
                if not inside or field == inside:
                    yield from self._several(_record(number, content))

    def _beginning(self) -> bytes:
        """The head of the file, or what there is before it is damaged. The first bytes of one that grows are waited for."""
        head = bytearray()
        while not head:
            with self.path.open("rb") as raw, suppress(*_DAMAGE):
                stream = _decompressed(raw)
                while len(head) < _HEAD and (chunk := stream.read1(_HEAD - len(head))):
                    head += chunk
            if not head and (self.wait is None or not self.wait()):
                break
        return bytes(head)

    def format_of(self, head: bytes) -> Format:
        """The format of a file with this beginning; a head shorter than :data:`_HEAD` is a whole file."""
        if head.startswith(b"PAR1"):
            return Format("Parquet")
        if head.startswith(b"PK\x03\x04"):
            if not is_zipfile(self.path):
                raise UsageError(
                    f"{self.name} is no log: a zip file, as Inspect writes them, that is cut off or damaged"
                )
            return Format("Inspect")
        if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            raise UsageError(f"{self.name} is UTF-16; write it as UTF-8 (iconv -f UTF-16 -t UTF-8)")
        text = head.removeprefix(codecs.BOM_UTF8).lstrip()
        lines = text.splitlines()[:_SHOWN_LINES] if len(head) < _HEAD else text.splitlines()[:-1][:_SHOWN_LINES]
        filled = [line for line in lines if line.strip()]
        alone = [line[:1] in (b"{", b"[") and _is_json(line) for line in filled]
        fields = {path.steps[0] for path in lists_of_records()}
        if not filled and not text:
            return Format("JSON lines")
        if text[:1] == b"[" and not (len(filled) > 1 and alone[0]):
            return Format("JSON")
        if text[:1] == b"{" and (len(filled) < 2 or not any(alone)):
            inside = next((field for *_, field in _containers(io.BytesIO(text), 2) if field in fields), "")
            if inside or any(line[:1] in b" \t" or line.strip() == b"{" for line in filled):
                return Format("JSON", inside=inside)
        if any(alone) or text[:1] == b"{":
            return Format("JSON lines")
        first = filled[0].decode("utf-8", "replace") if filled else ""
        columns, delimiter = max((len(next(csv.reader([first], delimiter=each), [])), each) for each in _DELIMITERS)
        if columns < 2 or "\0" in first:
            raise UsageError(
                f"{self.name} is no log: neither JSON lines, JSON, CSV, TSV nor Parquet, compressed or not; it begins with "
                f"{excerpt(text[:60].decode('utf-8', 'replace'))}"
            )
        return Format("TSV" if delimiter == "\t" else "CSV", delimiter)

    def _lines(self, stream: Stream) -> Iterator[tuple[int, bytes] | None]:
        """Lines with their numbers; ``None`` before each wait. Of a line that is too long only the beginning."""
        number, line, next_file = 0, b"", None
        while True:
            line += stream.readline(LONGEST + 1 - len(line))
            is_end = not line.endswith(b"\n") and len(line) <= LONGEST  # for now
            if is_end and next_file is not None:
                stream, next_file = next_file, None
            elif is_end and self.wait is not None:
                yield None
                if not self.wait():
                    return  # half a line is read when it is whole
                with suppress(FileNotFoundError):  # between two files of the name
                    now, opened = self.path.stat(), os.fstat(stream.fileno())
                    if now.st_ino != opened.st_ino:
                        next_file = self.path.open("rb")
                    elif now.st_size < stream.tell():
                        stream.seek(0)
                        line = b""
                continue
            elif not line:
                return
            if not line:
                continue
            number, rest = number + 1, line
            while len(line) > LONGEST and rest and not rest.endswith(b"\n"):
                rest = stream.readline(_CHUNK)
            yield number, line
            line = b""

    def _table(self, stream: Stream, delimiter: str) -> Iterator[Record]:
        """The rows of a table with a header, each with the line on which it begins. Quoted cells may hold line breaks."""
        csv.field_size_limit(LONGEST)
        is_whole = True

        def texts() -> Iterator[str]:
            nonlocal is_whole
            for number, line in filter(None, self._lines(stream)):
                is_whole = line.endswith(b"\n")
                yield line.decode("utf-8-sig" if number == 1 else "utf-8", "surrogateescape").replace("\0", "")

        rows = csv.reader(texts(), delimiter=delimiter, strict=True)
        header, start = list[str](), 1
        while True:
            problem, cells = "", list[str]()
            try:
                cells = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                problem = "a quoted cell without an end" if "unexpected end" in str(error) else f"not a row ({error})"
            if any("\udc80" <= character <= "\udcff" for cell in cells if not cell.isascii() for character in cell):
                problem = "not UTF-8 text"
            elif header and len(cells) > len(header):
                problem = "more cells than columns"
            elif len(cells) < len(header) and not is_whole:
                problem = "a row that is cut off"
            if not header:
                header = _column_names(cells)
            elif cells or problem:
                yield Record(start, {} if problem else dict(zip(header, cells, strict=False)), problem)
            start = rows.line_num + 1

    def _several(self, record: Record) -> Iterator[Record]:
        """The record, or those of a list within lists that it is made of, as OTLP has them."""
        for path in lists_of_records():
            if path.steps.count(None) > 1 and path.steps[0] in record.value:
                values = path.values(record.value)
                yield from (Record(record.number, value) for value in values if isinstance(value, dict))
                return
        yield record

    def _inspect(self) -> Iterator[Record]:
        try:
            from inspect_ai.log import read_eval_log_samples
        except ImportError:
            raise UsageError(
                f"{self.name} is a log of Inspect: pip install inspect-ai, or write it as JSON (`inspect log dump`)"
            ) from None
        samples = read_eval_log_samples(str(self.path), all_samples_required=False)
        for number, sample in enumerate(samples, 1):
            yield Record(number, sample.model_dump(mode="json", exclude={"events", "attachments", "store"}))


def _decompressed(raw: io.BufferedReader) -> Stream:
    """The content of a file as UTF-8, from the place where it stands."""
    magic = raw.read(6)
    raw.seek(-len(magic), os.SEEK_CUR)
    opened = (opener(raw) for beginning, opener in _COMPRESSED.items() if magic.startswith(beginning))
    return next(opened, raw)


def _zstandard(raw: io.BufferedReader) -> Stream:
    import pyarrow

    return io.BufferedReader(pyarrow.CompressedInputStream(pyarrow.PythonFile(raw, "r"), "zstd"), _CHUNK)


_COMPRESSED: dict[bytes, Callable[[io.BufferedReader], Stream]] = {
    b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": _zstandard,
}


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), (dict, list))
    except (ValueError, RecursionError):
        return False


def _record(number: int, content: bytes) -> Record:
    if len(content) > LONGEST:
        return Record(number, {}, f"longer than {LONGEST >> 20} MB")
    try:
        value = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return Record(number, {}, "not JSON")
    return Record(number, value) if isinstance(value, dict) else Record(number, {}, "not a JSON object")


def _containers(stream: Stream, depth: int) -> Iterator[tuple[int, bytes, str]]:
    """The objects and lists of JSON that lie within `depth` others, each with the line where it begins. For a depth of 2
    also the field of the outermost object that lists it; what lies there in no list is passed over.

    Only brackets and quotation marks count, so what is no JSON between them costs one record. Of one that is too long, the
    beginning is returned; what is open at the end is returned as it is.
    """
    buffer, at, start, quote, level, line = bytearray(), 0, -1, -1, 0, 1
    field, is_listed, is_skipped = "", depth < 2, False
    while True:
        chunk = stream.read1(_CHUNK)
        buffer += chunk
        while match := (_OUTSIDE if quote < 0 else _INSIDE).search(buffer, at):
            at, sign = match.end(), match[0]
            if sign == b"\\":
                at += 1
            elif sign == b'"':
                if quote >= 0 and level == 1 and depth == 2:
                    field = buffer[quote : at - 1].decode("utf-8", "replace")
                quote = at if quote < 0 else -1
            elif sign in b"[{":
                if level == depth and is_listed:
                    start = match.start()
                elif level == 1 and depth == 2:
                    is_listed = sign == b"["
                level += 1
            else:
                level = max(level - 1, 0)
                if level == depth and start >= 0:
                    if not is_skipped:
                        yield line + buffer.count(b"\n", 0, start), bytes(buffer[start:at]), field
                    line += buffer.count(b"\n", 0, at)
                    del buffer[:at]
                    at, start, is_skipped = 0, -1, False
        if start >= 0 and len(buffer) - start > LONGEST and not is_skipped:
            yield line + buffer.count(b"\n", 0, start), bytes(buffer[start : start + LONGEST + 1]), field
            is_skipped = True
        if not chunk:
            break
        at = max(at, len(buffer))
        if is_skipped or (start < 0 and quote < 0):
            line += buffer.count(b"\n")
            at -= len(buffer)
            start, quote = min(start, 0), min(quote, 0)
            buffer.clear()
    if (start >= 0 and not is_skipped) or (start < 0 and level > 0):
        yield line + buffer.count(b"\n", 0, max(start, 0)), bytes(buffer[max(start, 0) :]), field


def _column_names(cells: list[str]) -> list[str]:
    """The names of columns; a second one of a name gets a number."""
    names, seen = list[str](), Counter[str]()
    for cell in cells:
        name = cell.strip()
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return names


def _parquet(stream: Stream) -> Iterator[Record]:
    import pyarrow
    import pyarrow.parquet

    try:
        batches = pyarrow.parquet.ParquetFile(stream).iter_batches(batch_size=256)
        rows = (row for batch in batches for row in batch.to_pylist())
        yield from (Record(number, row) for number, row in enumerate(rows, 1))
    except (pyarrow.ArrowException, ValueError) as error:  # or a text that is not UTF-8
        raise EOFError(str(error)) from error
