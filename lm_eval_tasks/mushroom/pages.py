"""The Wikipedia pages of a language: an archive of HTML, turned once into a table of texts by address.

The archive is read as a stream: nothing is unpacked to disk, no name in it is used, and only plain files count.
"""

from __future__ import annotations

import gzip
import json
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lm_eval_tasks.data import sources
from lm_eval_tasks.data.atomic import whole_folder
from lm_eval_tasks.data.digests import sha256_of
from lm_eval_tasks.mushroom.html_text import WebPage, read_page

LARGEST_PAGE = 32 << 20
"""Bytes of HTML; the largest page of de, es, fi and it has 1 MB. A larger file is passed over and counted."""

LARGEST_ARCHIVE = 1 << 30
"""Bytes, unpacked; those of de, es, fi and it have 6 to 19 MB. One that goes on beyond it is refused."""

_FORM = "4"  # version of the text and of the cache file; a new version gets a new key


class Pages(NamedTuple):
    """The pages of an archive."""

    by_address: dict[str, WebPage]  # the canonical one, percent-decoded
    left_out: Counter[str]  # why members of the archive are no pages, and how often


def open_pages(archive: Path) -> Pages:
    """The pages of an archive (``.tar.gz`` of HTML files); the first use writes their texts into the cache. An archive
    that is cut, damaged, or unpacks to more than ``LARGEST_ARCHIVE`` is a CorruptSource."""

    def write_pages(folder: Path) -> None:
        pages, left_out = read_pages(archive)
        content = json.dumps({"pages": [*pages.values()], "left_out": left_out}, ensure_ascii=False)
        # half a surrogate pair fits into no file
        (folder / "pages.json").write_text(content, "utf-8", errors="replace")

    key = f"{sha256_of(archive)[:32]}-{_FORM}"
    folder = whole_folder(sources.cache_folder() / "pages" / key, write_pages, f"the text of the pages of {archive}")
    cached = json.loads((folder / "pages.json").read_text("utf-8"))
    return Pages({page[0]: WebPage(*page) for page in cached["pages"]}, Counter(cached["left_out"]))


def read_pages(archive: Path) -> Pages:
    """The pages of an archive, without the cache; see :func:`open_pages`."""
    by_address: dict[str, WebPage] = {}
    left_out: Counter[str] = Counter()
    for content in _contents(archive, left_out):
        page = read_page(content)
        if not page.text:
            left_out["pages that are empty or no HTML"] += 1
        elif not page.address:
            left_out["pages without a canonical address"] += 1
        elif page.address in by_address:
            left_out["pages of an address that another page has"] += 1
        else:
            by_address[page.address] = page
    return Pages(by_address, left_out)


def _contents(archive: Path, left_out: Counter[str]) -> Iterator[bytes]:
    """The plain files of an archive, one after another."""
    try:
        with gzip.open(archive) as unpacked:
            stream = _Limited(unpacked, archive)
            with tarfile.open(fileobj=stream, mode="r|") as tar:  # type: ignore[call-overload]
                for member in tar:
                    if member.isdir():
                        continue
                    if not member.isreg() or member.issparse():  # links, devices, holes
                        left_out["members of the archive that are no plain files"] += 1
                    elif member.size > LARGEST_PAGE:
                        left_out[f"pages of more than {LARGEST_PAGE >> 20} MB"] += 1
                    else:
                        file = tar.extractfile(member)
                        yield file.read() if file else b""
            while stream.read(1 << 20):  # to the checksum at the end; tarfile stops where it finds no further member
                pass
            if not stream.total:
                raise tarfile.ReadError("it is empty")
    except sources.CorruptSource:
        raise
    except (
        EOFError,
        OSError,
        zlib.error,
        tarfile.TarError,
        ValueError,
    ) as error:  # the last two: headers that are none
        raise sources.CorruptSource(
            f"{archive} is cut or damaged ({error}); delete it and fetch it again "
            f"(`lm-eval-grounded sources --fetch '*url-pages/{archive.name}'`)"
        ) from error


class _Limited:
    """A readable stream of limited length: a few kilobytes of gzip can unpack to terabytes."""

    def __init__(self, stream: gzip.GzipFile, archive: Path) -> None:
        self.stream = stream
        self.archive = archive
        self.total = 0

    def read(self, size: int) -> bytes:
        block = self.stream.read(size)
        self.total += len(block)
        if self.total > LARGEST_ARCHIVE:
            raise sources.CorruptSource(
                f"{self.archive} unpacks to more than {LARGEST_ARCHIVE >> 20} MB, which no archive of the public "
                f"repository does; delete it and fetch it again"
            )
        return block
