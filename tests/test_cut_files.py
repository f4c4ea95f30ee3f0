"""Files that were cut on the way, changed by a program or replaced by a proxy do not pass for the public ones."""

from __future__ import annotations

import gzip
import hashlib
import logging
from pathlib import Path

import pytest

from lm_eval_tasks.data import sources, tables
from lm_eval_tasks.data.sources import CorruptSource, SourceFile
from lm_eval_tasks.mfava import dataset as mfava
from lm_eval_tasks.nomiracl import dataset as nomiracl
from tests.miniature import MINIATURE, MINIATURE_FOLDER


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
WHOLE = {"a/topics.tsv": b"1\twho?\n2\twhen?\n", "a/corpus.jsonl.gz": gzip.compress(b'{"docid": "1"}\n')}
WRONG = {  # of each kind; test_table_files.py has what else can be wrong with one
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
