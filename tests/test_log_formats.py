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
from lm_eval_tasks.results.logs.records import LogFile

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
    "an array": (json.dumps(ROWS).encode(), [1, 1, 1]),
    "an array, indented": (json.dumps(ROWS, indent=2).encode(), [2, 6, 10]),
    "an array, a line each": (("[\n" + ",\n".join(LINES) + "\n]\n").encode(), [2, 3, 4]),
    "objects, indented": ("\n".join(json.dumps(row, indent=1) for row in ROWS).encode(), [1, 5, 9]),
    "a list in an object": (json.dumps({"version": [2, {}], "a": {"data": [{}]}, "data": ROWS}).encode(), [1, 1, 1]),
    "a list in an object, indented": (json.dumps({"samples": ROWS, "n": 3}, indent=2).encode(), [3, 7, 11]),
    "CSV": (table(","), [2, 4, 6]),
    "CSV of a spreadsheet": (table(";"), [2, 4, 6]),
    "TSV": (table("\t"), [2, 4, 6]),
    "Parquet": (parquet(), [1, 2, 3]),
}


def read(path: Path, content: bytes, wait: Callable[[], bool] | None = None) -> list[Any]:
    path.write_bytes(content)
    return [*LogFile(path, path.name, wait).records()]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_records_with_their_lines(name: str, tmp_path: Path) -> None:
    content, numbers = FORMATS[name]
    read_records = read(tmp_path / "log.txt", content)
    assert [record.value for record in read_records] == ROWS
    assert [record.number for record in read_records] == numbers
    if name != "Parquet":
        assert read(tmp_path / "bom.txt", b"\xef\xbb\xbf" + content) == read_records


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress, zstandard])
@pytest.mark.parametrize("name", ["JSON lines", "an array, indented", "CSV"])
def test_compression_is_told_by_content(name: str, compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    content, numbers = FORMATS[name]
    assert [record.number for record in read(tmp_path / "log.jsonl", compress(content))] == numbers


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, zstandard])
def test_of_a_compressed_file_that_is_cut_the_first_records_are_used(
    compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    content = f"{LINES[0]}\n{random.Random(1).randbytes(200_000).hex()}".encode()
    *_, last = given = read(tmp_path / "log", compress(content)[:150_000])
    assert given[0].value == ROWS[0]
    assert last.problem == "cut off or damaged from here on"


CUT = {
    "JSON lines": (-4, 2, "not JSON"),
    "an array": (-4, 2, "not JSON"),
    "an array, indented": (-20, 2, "not JSON"),
    "objects, indented": (-4, 2, "not JSON"),
    "a list in an object": (-10, 2, "not JSON"),
    "Parquet": (-30, 0, "cut off or damaged from here on"),
    "TSV": (-7, 2, "a row that is cut off"),
}


@pytest.mark.parametrize("name", CUT)
def test_what_stands_before_a_cut_is_used(name: str, tmp_path: Path) -> None:
    end, whole, problem = CUT[name]
    *before, last = read(tmp_path / "log", FORMATS[name][0][:end])
    assert [record.value for record in before] == ROWS[:whole]
    assert last.problem == problem


BROKEN: list[tuple[str, bytes, list[str]]] = [
    ("an array", b'[{"a": 1}, {\'b\': 2}, {"c": [3}, {"d": 4}]', ["", "not JSON", "not JSON", "not JSON"]),
    ("a list of lists", b'[[1], {"a": 1}, "text", null]', ["not a JSON object", ""]),
    ("lines", b'{"a": 1}\nnull\n\xff\xfe\n[1]\n{"a": NaN}', ["", "not a JSON object", "not JSON", "not a JSON object", ""]),
    ("depth", b'{"a": 1}\n' + b'{"a":' * 100_000 + b"\n", ["", "not JSON"]),
    ("a row", b'a,b\n1,2,3\n"1"x,2\n3\n\xff,1\n1,2', ["more cells than columns", "not a row", "", "not UTF-8 text", ""]),
    ("a quotation mark", b'a,b\n1,2\n1,"2\n3,4\n', ["", "a quoted cell without an end"]),
    ("NUL", b"a,b\n1,\0002\n", [""]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "problems"), BROKEN, ids=[name for name, *_ in BROKEN])
def test_a_broken_record_costs_itself(name: str, content: bytes, problems: list[str], tmp_path: Path) -> None:
    given = read(tmp_path / "log", content)
    assert [record.problem.partition(" (")[0] for record in given] == problems
    assert all(record.value for record in given if not record.problem)


def test_of_fields_of_one_name_json_has_the_last_and_a_table_all(tmp_path: Path) -> None:
    assert read(tmp_path / "log", b'{"a": 1, "a": 2}')[0].value == {"a": 2}
    assert read(tmp_path / "log", b"a,b,a,a\n1,2,3,4\n")[0].value == {"a": "1", "b": "2", "a_2": "3", "a_3": "4"}


@pytest.mark.parametrize(
    "content", [b"plain text\nand more", b"\x89PNG\r\n\x1a\n\0\0", "ä".encode("utf-16"), b"PK\x03\x04x"]
)
def test_what_is_no_log_is_said_in_printable_words(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"is no log: (neither JSON lines|a zip file)|is UTF-16; write it as UTF-8"
    ) as raised:
        read(tmp_path / "log", content)
    assert str(raised.value).isprintable()


def test_of_a_log_of_inspect_without_inspect_the_error_says_what_to_install(tmp_path: Path) -> None:
    path = Path(__file__).parent / "data" / "logs" / "inspect.eval"
    log = LogFile(path, "inspect.eval")
    try:
        import inspect_ai  # noqa: F401
    except ImportError:
        with pytest.raises(UsageError, match="is a log of Inspect: pip install inspect-ai, or write it as JSON"):
            [*log.records()]
    else:
        assert [record.value["id"] for record in log.records() if record] == ["q0", "q1", "q2"]


@pytest.mark.parametrize("is_array", [False, True])
@pytest.mark.slow("a log of 120 MB")
def test_a_line_of_50_mb_is_read_and_a_longer_one_left_out(is_array: bool, tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("w", encoding="utf-8") as stream:
        stream.write("[" * is_array)
        for size in (50 << 20, 70 << 20, 3):
            stream.write('{"a": "' + "x" * size + '"}' + ("," if is_array and size != 3 else "") + "\n")
        stream.write("]" * is_array)
    given = LogFile(path, path.name).records()
    assert [(len(record.value.get("a", "")), record.problem) for record in given if record] == [
        (50 << 20, ""),
        (0, "longer than 64 MB"),
        (3, ""),
    ]


def rows_of_a_long_log(number: int) -> Iterator[str]:
    return ('{"answer": "' + "x" * 900 + f'", "reference": "{place}"}}' for place in range(number))


@pytest.mark.parametrize("form", ["{}\n", "[{}]", '{{"data": [{}]}}'])
@pytest.mark.slow("logs of 18 MB, traced")
def test_memory_is_of_a_record_and_not_of_the_file(form: str, tmp_path: Path) -> None:
    path, separator = tmp_path / "log", "\n" if form == "{}\n" else ","
    path.write_text(form.format(separator.join(rows_of_a_long_log(20_000))), "utf-8")
    tracemalloc.start()
    assert sum(1 for _ in LogFile(path, path.name).records()) == 20_000
    assert tracemalloc.get_traced_memory()[1] < path.stat().st_size / 3
    tracemalloc.stop()


def test_a_log_that_grows_is_read_on_whole_line_by_whole_line(tmp_path: Path) -> None:
    path, events = tmp_path / "log", iter(["half", "rest", "shorter", "another", "stop"])

    def wait() -> bool:
        event = next(events)
        with path.open("ab") as stream:
            if event == "half":
                stream.write(b'{"a": 2')
            elif event == "rest":
                stream.write(b'2}\n{"a": 3}\n')
        if event == "shorter":
            path.write_bytes(b'{"a": 4}\n')
        elif event == "another":  # what came before, and half a line, is still in the old one
            with path.open("ab") as stream:
                stream.write(b'{"a": 44}\n{"a": 45}')
            (tmp_path / "new").write_bytes(b'{"a": 5}\n{"cut')
            (tmp_path / "new").replace(path)
        return event != "stop"

    given = read(path, b'{"a": 1}\n', wait)
    assert [record and (record.number, record.value["a"]) for record in given] == [
        *((1, 1), None, None, (2, 22), (3, 3)),
        *(None, (4, 4), None, (5, 44), (6, 45), (7, 5), None),
    ]


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (gzip.compress(b'{"a": 1}\n', mtime=0), "JSON lines, compressed"),
        *((FORMATS[name][0], form) for name, form in (("an array", "JSON"), ("CSV", "CSV"), ("Parquet", "Parquet"))),
    ],
)
def test_only_json_lines_are_followed(content: bytes, form: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"log: --follow reads JSON lines, one record a line; this is {form}$"):
        read(tmp_path / "log", content, lambda: False)


def test_a_log_that_is_empty_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "log"
    answers = iter([True, True, False, False])

    def wait() -> bool:
        path.write_bytes(b'{"a": 1}\n')
        return next(answers)

    assert [record.value for record in read(path, b"", wait) if record] == [{"a": 1}]
