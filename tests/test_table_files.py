"""Files of tables and lines: read however they are written; cut, damaged and other ones are named."""

from __future__ import annotations

import csv
import gzip
import hashlib
import locale
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lm_eval_tasks.data import sources, tables
from lm_eval_tasks.data.sources import CorruptSource, SourceFile
from lm_eval_tasks.data.tables import check_end, check_readable, read_csv, read_lines, read_quoted_tsv, read_tsv
from lm_eval_tasks.mfava import dataset as mfava
from lm_eval_tasks.nomiracl import dataset as nomiracl
from lm_eval_tasks.runs.results_file import read_results
from tests.miniature import MINIATURE, MINIATURE_FOLDER


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.fixture
def ascii_locale() -> Iterator[None]:
    """A locale whose encoding is ASCII: a file that is opened without an encoding cannot be read in it."""
    before = locale.setlocale(locale.LC_CTYPE)
    locale.setlocale(locale.LC_CTYPE, "C")
    yield
    locale.setlocale(locale.LC_CTYPE, before)


@pytest.mark.usefixtures("ascii_locale")
def test_files_are_utf_8_whatever_the_locale_is(tmp_path: Path) -> None:
    for name in ("a.txt", "a.txt.gz"):
        assert list(read_lines(written(tmp_path / name, "für\n".encode()))) == [(1, "für")]
    table = written(tmp_path / "a.tsv", "id\ttext\n1\tfür\n".encode())
    assert list(read_quoted_tsv(table, ("id",))) == [{"id": "1", "text": "für"}]
    results = '{"results": {"für": {}}, "configs": {}, "config": {}}'
    assert list(read_results(written(tmp_path / "results.json", results.encode()))["results"]) == ["für"]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_a_line_ends_with_a_line_feed_and_nothing_else_is_taken_from_it(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, b"a\rb \t\n\nAX\r\nX")
    assert list(read_lines(path)) == [(1, "a\rb \t"), (2, ""), (3, "AX"), (4, "X")]


def test_a_row_that_is_none_is_named_with_its_line(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", b"a\tb\n" + b"x" * 90 + b"\n")
    with pytest.raises(CorruptSource, match=rf"^{path}, line 2: 1 of 2 columns in '{'x' * 80}'$"):
        list(read_tsv(path, 2))


def test_quoted_fields_keep_their_line_ends(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", b'id\ttext\r\n1\t"a\r\nb\rc"\r\n')
    assert list(read_quoted_tsv(path, ("id", "text"))) == [{"id": "1", "text": "a\r\nb\rc"}]
    with pytest.raises(CorruptSource) as refused:
        list(read_quoted_tsv(path, ("id", "title", "url")))
    assert str(refused.value) == f"{path}: the header lacks the columns ['title', 'url']; it has ['id', 'text']"
    assert csv.field_size_limit() == 1 << 30  # a gigabyte, which 32 bits hold


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        *((b"", [{}]), (b"ID, Text \n", [{"id": "", "text": ""}])),
        (b"ID,Text\n1,a\n\n2\n", [{"id": "", "text": ""}, {"id": "1", "text": "a"}, {"id": "2"}]),
    ],
    ids=["empty", "header", "short row"],
)
def test_the_header_of_a_csv_file_comes_first(tmp_path: Path, content: bytes, rows: list[dict[str, str]]) -> None:
    assert list(read_csv(written(tmp_path / "a.csv", content))) == rows


@pytest.mark.parametrize(
    ("name", "content", "whole"),
    [
        *(("a.tsv", b"a\tb\n", True), ("a.csv", b"a,b\r", True), ("a.tsv", b"", True), ("a.tsv", b"a\tb", False)),
        *(("a.csv", b"\na", False), ("a.jsonl", b"{}", True)),
    ],
    ids=["LF", "CR", "empty", "cut", "cut CSV", "no table"],
)
def test_a_table_whose_last_line_has_no_end_was_cut(tmp_path: Path, name: str, content: bytes, whole: bool) -> None:
    path = written(tmp_path / name, content)
    if whole:
        check_end(path)
        return
    for check in (check_end, check_readable):
        with pytest.raises(CorruptSource, match=f"^{path} ends in the middle of a line: it was cut on the way"):
            check(path)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.tsv", b"\n<html>" + b"x" * 90 + b"\n", f": no table, its first line is '<html>{'x' * 74}'"),
        ("a.jsonl", b'{"a": 1}\n{"a"', ", line 2: no JSON (Expecting ':' delimiter at column 5)"),
        ("a.jsonl", b"{}\n[1]\n", ", line 2: expected a JSON object, found list"),
        ("a.jsonl", b"[" * 100_000, ", line 1: no JSON that can be read ("),
        (
            "a.jsonl.gz",
            gzip.compress(b"{}\n" * 9)[:-5],
            " is cut or damaged after line 9 (Compressed file ended before the end-of-stream marker was reached); delete "
            "it and fetch it again (a public file: `lm-eval-grounded sources --fetch '*a.jsonl.gz'`)",
        ),
        ("a.jsonl.gz", b'{"a": 1}\n', " is cut or damaged after line 0 ("),
        ("a.txt", b"a\n\xff", " is no UTF-8 text after line 0: "),
    ],
    # gzip writes the time into its bytes, and a test must be called the same in every process
    ids=lambda value: "" if isinstance(value, bytes) else None,
)
def test_a_file_that_is_cut_or_another_is_refused(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(CorruptSource, match="^" + re.escape(f"{path}{says}")):
        check_readable(path)


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_the_sample_and_the_mirror_have_nothing_to_say(hub: str, caplog: pytest.LogCaptureFixture) -> None:
    for language, folder in (("de", MINIATURE), ("de", hub), ("yo", hub), ("ar", hub)):
        nomiracl.load(language, mirror=folder, max_samples="all")
    assert [said for said in warnings_of(caplog) if "lack" in said or "without judgements" in said] == []


def test_a_row_without_a_column_is_counted_and_said(mirror: Path, caplog: pytest.LogCaptureFixture) -> None:
    (path,) = mirror.rglob("wiki_references_queries_de.csv")
    header, *_ = path.read_text("utf-8").splitlines()
    whole, short = (",".join("x" for _ in columns) for columns in (header.split(","), header.split(",")[:-2]))
    path.write_text("\n".join([header, whole, short, whole]) + "\n", "utf-8")
    documents = mfava.load("de", mirror=str(mirror))["evaluation"]
    assert set(documents["article"]) == {0, 2}
    (said,) = warnings_of(caplog)
    assert said == ("mfava_de: articles left out, without a question: 1")


def test_what_was_published_without_a_last_line_end_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pinned checksum says so."""
    content = b"a\tb\nc\td"
    file = SourceFile("hub", "o/n", "main", "x.tsv", "sha256:" + hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(sources, "source_file", lambda repository, path: file)
    path = tmp_path / "o" / "n" / "x.tsv"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert sources.locate("o/n", "x.tsv", tmp_path) == path
    path.write_bytes(content[:-1])
    with pytest.raises(CorruptSource, match="ends in the middle of a line"):
        sources.locate("o/n", "x.tsv", tmp_path)


PAGE = b"<!doctype html>\n<title>Log in</title>\n"
WHOLE = {"a/topics.tsv": b"1\twho?\n2\twhen?\n", "a/corpus.jsonl.gz": gzip.compress(b'{"docid": "1"}\n', mtime=0)}
WRONG = {  # of each kind; the table above has what else can be wrong with one
    "a/topics.tsv": [PAGE, b"1\twho?\n2\twh"],
    "a/corpus.jsonl.gz": [PAGE, WHOLE["a/corpus.jsonl.gz"][:-4]],
}


@pytest.mark.parametrize("there", [False, True], ids=["downloaded", "already there"])
@pytest.mark.parametrize(("path", "content"), [(path, content) for path, every in WRONG.items() for content in every])
def test_what_cannot_be_read_as_what_it_should_be_is_not_put_into_a_mirror(
    path: str, content: bytes, there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, downloaded = SourceFile("hub", "o/n", "c0ffee", path, ""), tmp_path / Path(path).name
    monkeypatch.setattr(sources, "fetch", lambda _: downloaded)
    mirror = tmp_path / "mirror"
    target = mirror / "o" / "n" / path
    if there:
        target.parent.mkdir(parents=True)
        target.write_bytes(content)
        with pytest.raises(CorruptSource, match=f"{target}"):
            sources.fetch_into(file, mirror)
        assert (target.read_bytes(), sources.state(file, mirror)[0]) == (content, "unreadable")
        return
    downloaded.write_bytes(content)
    with pytest.raises(CorruptSource, match=r"is not what it should be: .*proxy"):
        sources.fetch_into(file, mirror)
    assert not mirror.exists()


def test_what_can_be_read_is_put_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, content in WHOLE.items():
        file, downloaded = SourceFile("hub", "o/n", "c0ffee", path, ""), tmp_path / Path(path).name
        downloaded.write_bytes(content)
        monkeypatch.setattr(sources, "fetch", lambda _, downloaded=downloaded: downloaded)
        target = sources.fetch_into(file, tmp_path / "mirror")
        assert target.read_bytes() == content
        assert sources.fetch_into(file, tmp_path / "mirror") == target
        assert sources.state(file, tmp_path / "mirror") == ("readable", target)


def test_every_file_of_the_sample_can_be_read_as_what_it_is() -> None:
    for path in MINIATURE_FOLDER.rglob("*"):
        if path.is_file() and path.suffix != ".md":
            tables.check_readable(path)
