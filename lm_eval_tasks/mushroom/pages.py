"""The Wikipedia pages of a language: an archive of HTML, turned once into a table of texts by address.

Nothing is unpacked to disk, no name in the archive is used, and only plain files count.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from lm_eval_tasks.data import sources
from lm_eval_tasks.data.archives import plain_files
from lm_eval_tasks.data.atomic import whole_folder
from lm_eval_tasks.data.digests import sha256_of
from lm_eval_tasks.mushroom.html_text import WebPage, read_page

LARGEST_PAGE = 32 << 20
"""Bytes of HTML; the largest page of de, es, fi and it has 1 MB. A larger file is passed over and counted."""

_FORM = "4"  # version of the text and of the cache file; a new version gets a new key


class Pages(NamedTuple):
    """The pages of an archive."""

    by_address: dict[str, WebPage]  # the canonical one, percent-decoded
    left_out: Counter[str]  # why members of the archive are no pages, and how often


def open_pages(archive: Path) -> Pages:
    """The pages of an archive (``.tar.gz`` of HTML files); the first use writes their texts into the cache. An archive
    that is cut, damaged, or unpacks to more than 1 GB is a CorruptSource."""

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
    advice = f"delete it and fetch it again (`lm-eval-grounded sources --fetch '*url-pages/{archive.name}'`)"
    for _, content in plain_files(archive, LARGEST_PAGE, left_out, advice):
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
