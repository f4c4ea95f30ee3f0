"""Whether a public file is what its name says: read to its end, cut ones and others refused."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
from pathlib import Path

import pytest

from lm_eval_tasks.source_errors import CorruptSource
from lm_eval_tasks.tables import check_readable


def archive() -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        member = tarfile.TarInfo("page.html")
        member.size = 3
        tar.addfile(member, io.BytesIO(b"<p>"))
    return content.getvalue()


WHOLE = {
    "a.tsv": b"id\ttext\n1\ta\n",
    "b.tsv": b"",
    "c.csv": b'id,text\r\n1,"a,\nb"\r\n',
    "d.jsonl": b'{"a": 1}\n\n{}',
    "e.jsonl.gz": gzip.compress(b'{"a": 1}\n'),
    "f.json": b'{"a":\n1}',
    "g.json.gz": gzip.compress(b"[]"),
    "h.txt": b"any text\n",
    "i.txt.gz": gzip.compress(b"any text"),
    "j.tar.gz": archive(),
    "k": b"no tab",
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_file_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(WHOLE[name])
    check_readable(tmp_path / name)
    (tmp_path / "download").write_bytes(WHOLE[name])
    check_readable(tmp_path / "download", f"folder/{name}")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (
            "a.tsv",
            b"id\ttext\n1\tcu",
            " ends in the middle of a line: it was cut on the way. Fetch it again; if it is whole as",
        ),
        (
            "a.csv",
            b"id,text\n1,cut",
            " ends in the middle of a line: it was cut on the way. Fetch it again; if it is whole as",
        ),
        ("a.tsv", b"\n<html>" + b"x" * 90 + b"\n", f": no table, its first line is '<html>{'x' * 74}'"),
        ("a.csv", b'id,text\n1,"a\n', ", after line 2: unexpected end of data; delete it and fetch it again"),
        ("a.jsonl", b'{"a": 1}\n{"a"', ", line 2: no JSON (Expecting ':' delimiter at column 5)"),
        ("a.jsonl", b"{}\n[1]\n", ", line 2: expected a JSON object, found list"),
        ("a.jsonl", b"[" * 100_000, ", line 1: no JSON that can be read ("),
        ("a.jsonl.gz", gzip.compress(b"{}\n" * 9)[:-5], " is cut or damaged after line 9 ("),
        ("a.jsonl.gz", b'{"a": 1}\n', " is cut or damaged after line 0 ("),
        ("a.json", b'{"a": ', ": no JSON ("),
        ("a.json.gz", gzip.compress(b"{"), ": no JSON ("),
        ("a.json", b"[" * 100_000, ": no JSON ("),
        ("a.txt", b"a\n\xff", " is no UTF-8 text after line 0: "),
        ("a.txt.gz", gzip.compress(b"text")[:-3], " is cut or damaged after line "),
        ("a.tar.gz", archive()[:-5], ": no archive, or one that is cut ("),
        ("a.tar.gz", b"<html>", ": no archive, or one that is cut ("),
        ("a.tar.gz", gzip.compress(b"x" * 600), ": no archive"),
    ],
)
def test_a_file_that_is_cut_or_another_is_refused(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(CorruptSource, match="^" + re.escape(f"{path}{says}")):
        check_readable(path)


def test_a_damaged_public_file_can_be_fetched_again(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl.gz"
    path.write_bytes(gzip.compress(b"{}\n")[:-2])
    with pytest.raises(
        CorruptSource, match=r"delete it and fetch it again \(a public file: `lm-eval-grounded sources "
    ):
        check_readable(path)
