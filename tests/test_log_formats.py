"""``detect LOG``: files of any format become records, told by their content; what is broken is counted, with its place."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import random
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.results.logs.files import records_of

ROWS = [{"answer": f'Es sind {n} Meter, {{und [mehr"]}}.\n', "reference": "x,\t;y"} for n in range(3)]
LINES = [json.dumps(row, ensure_ascii=False) for row in ROWS]


def zstandard(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


def table(delimiter: str) -> bytes:
    return pd.DataFrame(ROWS).to_csv(sep=delimiter, index=False).encode()


def parquet() -> bytes:
    sink = pa.BufferOutputStream()
    pd.DataFrame(ROWS).to_parquet(sink)
    return bytes(sink.getvalue())


FORMATS: dict[str, tuple[bytes, list[int]]] = {
    "JSON lines": ("\n".join(LINES).encode(), [1, 2, 3]),
    "JSON lines with blank ones": ("\n\n".join(LINES).encode() + b"\n\n", [1, 3, 5]),
    "JSON lines with CR": ("\r\n".join(LINES).encode(), [1, 2, 3]),
    "an array": (json.dumps(ROWS).encode(), [1, 2, 3]),
    "an array, indented": (json.dumps(ROWS, indent=2).encode(), [1, 2, 3]),
    "an array, a line each": (("[\n" + ",\n".join(LINES) + "\n]\n").encode(), [1, 2, 3]),
    "objects, indented": ("\n".join(json.dumps(row, indent=1) for row in ROWS).encode(), [1, 2, 3]),
    "a list in an object": (json.dumps({"version": [2, {}], "a": {"data": [{}]}, "data": ROWS}).encode(), [1, 2, 3]),
    "a list in an object, indented": (json.dumps({"samples": ROWS, "n": 3}, indent=2).encode(), [1, 2, 3]),
    "CSV": (table(","), [2, 3, 4]),
    "CSV of a spreadsheet": (table(";"), [2, 3, 4]),
    "TSV": (table("\t"), [2, 3, 4]),
    "Parquet": (parquet(), [1, 2, 3]),
}


def read(path: Path, content: bytes) -> list[Any]:
    path.write_bytes(content)
    return [*records_of(path, path.name)]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_records_with_their_numbers(name: str, tmp_path: Path) -> None:
    content, numbers = FORMATS[name]
    read_records = read(tmp_path / "log.txt", content)
    assert read_records == [*zip(numbers, ROWS, strict=True)]
    if name != "Parquet":
        assert read(tmp_path / "bom.txt", b"\xef\xbb\xbf" + content) == read_records


@pytest.mark.parametrize("name", ["JSON lines", "an array, indented", "CSV", "Parquet"])
def test_gzip_is_told_by_content(name: str, tmp_path: Path) -> None:
    content, numbers = FORMATS[name]
    assert [number for number, _ in read(tmp_path / "log.jsonl", gzip.compress(content))] == numbers


@pytest.mark.parametrize(
    ("compress", "command"), [(bz2.compress, "bunzip2"), (lzma.compress, "unxz"), (zstandard, "unzstd")]
)
def test_other_compression_names_what_unpacks_it(
    compress: Callable[[bytes], bytes], command: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=rf"log: of compressed logs those of gzip are read; unpack it with {command}"):
        read(tmp_path / "log", compress(FORMATS["CSV"][0]))


def test_of_a_gzipped_file_that_is_cut_the_first_records_are_used(tmp_path: Path) -> None:
    content = f"{LINES[0]}\n{random.Random(1).randbytes(200_000).hex()}".encode()
    *_, last = given = read(tmp_path / "log", gzip.compress(content)[:150_000])
    assert given[0] == (1, ROWS[0])
    assert last == (2, "cut off or damaged from here on")


CUT = {
    "JSON lines": (-4, 2, "not JSON"),
    "an array": (-4, 2, "not JSON from here on"),
    "an array, indented": (-20, 2, "not JSON from here on"),
    "objects, indented": (-4, 2, "not JSON from here on"),
    "a list in an object": (-10, 0, "not JSON"),
    "Parquet": (-30, 0, "cut off or damaged from here on"),
    "TSV": (-7, 2, "other cells than columns"),
}


@pytest.mark.parametrize("name", CUT)
def test_what_stands_before_a_cut_is_used(name: str, tmp_path: Path) -> None:
    end, whole, problem = CUT[name]
    *before, last = read(tmp_path / "log", FORMATS[name][0][:end])
    assert [value for _, value in before] == ROWS[:whole]
    assert last[1] == problem


BROKEN: list[tuple[str, bytes, list[str]]] = [
    ("an array", b'[{"a": 1}, {\'b\': 2}, {"c": [3}, {"d": 4}]', ["", "not JSON from here on"]),
    ("a list of lists", b'[[1], {"a": 1}, "text", null]', ["not a JSON object", "", *["not a JSON object"] * 2]),
    ("lines", b'{"a": 1}\nnull\n[1]\n{"a": NaN}', ["", "not a JSON object", "not a JSON object", ""]),
    ("bytes", b'{"a": 1}\n\xff\xfe\n', ["", "not UTF-8 text"]),
    ("depth", b'{"a": 1}\n' + b'{"a":' * 100_000 + b"\n", ["", "not JSON"]),
    ("a row", b'a,b\n1,2,3\n"1"x,2\n3\n\xff,1\n1,2', [*["other cells than columns"] * 3, "not UTF-8 text", ""]),
    ("a quotation mark", b'a,b\n1,2\n1,"2\n3,4\n', ["", "other cells than columns"]),
    ("a quotation mark in the header", b'"a"b,c\na,b\n1,2\n', [""]),
    ("NUL", b"a,b\n1,\0002\n", [""]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "problems"), BROKEN, ids=[name for name, *_ in BROKEN])
def test_a_broken_record_costs_itself(name: str, content: bytes, problems: list[str], tmp_path: Path) -> None:
    given = [value for _, value in read(tmp_path / "log", content)]
    assert [value if isinstance(value, str) else "" for value in given] == problems
    assert all(given)


def test_of_fields_of_one_name_the_last_is_read(tmp_path: Path) -> None:
    assert read(tmp_path / "log", b'{"a": 1, "a": 2}') == [(1, {"a": 2})]


@pytest.mark.parametrize("content", [b"plain text\nand more", b"\x89PNG\r\n\x1a\n\0\0", b"PK\x03\x04x"])
def test_what_is_no_log_is_said_in_printable_words(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is no log: (neither JSON lines|a zip file)") as raised:
        read(tmp_path / "log", content)
    assert str(raised.value).isprintable()


def test_a_log_of_inspect_is_read_without_inspect() -> None:
    log = Path(__file__).parent / "data" / "logs" / "inspect.eval"
    assert [value["id"] for _, value in records_of(log, log.name) if isinstance(value, dict)] == ["q0", "q1", "q2"]


def rows_of_a_long_log(number: int) -> Iterator[str]:
    return ('{"answer": "' + "x" * 900 + f'", "reference": "{place}"}}' for place in range(number))


@pytest.mark.parametrize(("form", "times"), [("{}\n", 1 / 3), ("[{}]", 3), ('{{"data": [{}]}}', 6)])
@pytest.mark.slow("logs of 18 MB, traced")
def test_memory_is_of_a_record_where_records_are_lines(form: str, times: float, tmp_path: Path) -> None:
    """One JSON value is read whole."""
    path, separator = tmp_path / "log", "\n" if form == "{}\n" else ","
    path.write_text(form.format(separator.join(rows_of_a_long_log(20_000))), "utf-8")
    tracemalloc.start()
    assert sum(1 for _ in records_of(path, path.name)) == 20_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < path.stat().st_size * times
