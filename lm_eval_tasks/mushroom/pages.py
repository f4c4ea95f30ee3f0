"""The Wikipedia pages of a language: an archive of HTML, turned once into a table of the texts that readers see.

Nothing is unpacked to disk, no name in the archive is used, and only plain files count. Of a page, headings, paragraphs,
lists, captions, infobox and table rows stay, one line each; navigation, references and their marks, edit links, notices,
style and whatever is not displayed go. The rules are those of MediaWiki's markup, the same in every language.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from lm_eval_tasks.data import sources
from lm_eval_tasks.data.atomic import whole_folder
from lm_eval_tasks.data.digests import sha256_of
from lm_eval_tasks.data.tables import plain_files

LARGEST_PAGE = 32 << 20
"""Bytes of HTML; the largest page of de, es, fi and it has 1 MB. A larger file is passed over and counted."""

_FORM = "4"  # version of the text and of the cache file; a new version gets a new key

CELL, ITEM = " | ", "; "  # between the cells of a row, and between the lines or items of a cell

_ITEM = re.compile(r"https?://(?:www\.)?wikidata\.org/wiki/(?:Special:EntityPage/)?(Q[1-9][0-9]*)(?:[#?].*)?", re.ASCII)
_TITLE = (".//h1[@id='firstHeading']", ".//title")  # of each the first that is there
_BODY = (".//*[@id='mw-content-text']", ".//*[@id='bodyContent']", ".//main", ".//body")
_LEFT_OUT = frozenset(
    "script style noscript template head nav form button input select textarea svg math img audio video iframe "
    "object".split()
)
_BLOCKS = frozenset(
    "address article aside blockquote caption center dd details div dl dt figcaption figure footer header hr li main ol p "
    "pre section summary table tbody tfoot thead ul br".split()
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_NOT_TEXT = frozenset(  # classes; `reference` is a footnote's mark, `references` are the footnotes
    "reference references reflist refbegin mw-references-wrap mw-cite-backlink mw-editsection navbox vertical-navbox "
    "sidebar navigation-not-searchable noprint metadata ambox toc catlinks printfooter hatnote dablink mw-jump-link "
    "mw-indicators mw-hidden-catlinks mw-authority-control sistersitebox sisterproject autonumber".split()
)
# A frame that folds: at the foot of an article it holds links to others, in an infobox or table a part of it.
_FRAME, _ARTICLE = "NavFrame", "mw-parser-output"
_ROLES = frozenset(("navigation", "note", "search"))
_HIDDEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
# Soft hyphens, joints and marks of direction: they are invisible, and a word with one equals no other. (The zero width
# joiners stay: Hindi and Persian are spelt with them.)
_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u2060\ufeff]")
_WHITE = re.compile(r"\s+")
_NEXT_CELL, _NEXT_ITEM = "\x1e", "\x1f"  # white space to `\s`, so that no page can hold them


class WebPage(NamedTuple):
    """A page as text. Fields that the page does not name are empty."""

    address: str  # the canonical one, percent-decoded
    title: str  # of the article
    text: str  # one line a heading, paragraph, list item or row, the title first
    item: str = ""  # of Wikidata, such as ``Q1653``: the subject of the article, in every language


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


# ---------------------------------------------------------------------------------------------------------- HTML


def decoded(address: str) -> str:
    """An address in the form for comparison: without percent-encoding, which pages and lists of pages use differently."""
    return unquote(address.strip())


def read_page(content: bytes) -> WebPage:
    """The page in bytes of HTML (UTF-8). Broken HTML is read as far as possible; nothing is raised."""
    from lxml import etree

    # huge_tree: without it, all of a page with a text of 10 MB is lost. Its limit of 2048 levels still stands.
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True, huge_tree=True)
    try:
        root = etree.fromstring(content, parser)
    except etree.LxmlError:  # not one element in it
        root = None
    if root is None:
        return WebPage("", "", "")
    canonical = root.find(".//link[@rel='canonical'][@href]")
    named, body = (next((e for path in paths if (e := root.find(path)) is not None), None) for paths in (_TITLE, _BODY))
    title = "" if named is None else _line("".join(named.itertext()))
    lines = [] if body is None else _lines(body)
    if lines and title and lines[0] != title:
        lines.insert(0, title)
    menu = root.iterfind(".//li[@id='t-wikibase']//a[@href]")  # links of the article itself lead to any item
    item = next((match[1] for link in menu if (match := _ITEM.fullmatch(link.get("href").strip()))), "")
    return WebPage("" if canonical is None else decoded(canonical.get("href")), title, "\n".join(lines), item)


class _Writer:
    """Collects the lines of a page, each with its heading's level, or 0."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, str]] = []
        self.pieces: list[str] = []
        self.in_row = False

    def add_text(self, text: str | None) -> None:
        if text:
            self.pieces.append(_WHITE.sub(" ", text))

    def separate(self) -> None:
        """Begin or end a block: a line of its own, but in a row of a table only an item of its cell."""
        if self.in_row:
            self.pieces.append(_NEXT_ITEM)
        else:
            self.end_line()

    def end_line(self, level: int = 0) -> None:
        cells = [
            ITEM.join(filter(None, map(_line, cell.split(_NEXT_ITEM))))
            for cell in "".join(self.pieces).split(_NEXT_CELL)
        ]
        self.pieces.clear()
        if line := CELL.join(filter(None, cells)):
            self.lines.append((level, line))


def _lines(body: Any) -> list[str]:
    from lxml import etree

    writer = _Writer()
    walk = etree.iterwalk(body, events=("start", "end"))
    for event, element in walk:
        tag = element.tag
        if event == "start":
            if _is_left_out(element):
                walk.skip_subtree()
                continue
            if tag == "tr" and element.find(".//table") is None:  # a table for layout is no row
                writer.end_line()
                writer.in_row = True
            elif tag in ("td", "th") and writer.in_row:
                writer.pieces.append(_NEXT_CELL)
            elif tag in _BLOCKS or tag in _HEADINGS or tag in ("tr", "td", "th"):
                writer.separate()
            writer.add_text(element.text)
            continue
        if not _is_left_out(element):
            if tag == "tr":
                writer.in_row = False
                writer.end_line()
            elif tag in _HEADINGS and not writer.in_row:
                writer.end_line(_HEADINGS[tag])
            elif tag in _BLOCKS or tag in _HEADINGS:
                writer.separate()
        if element is not body:
            writer.add_text(element.tail)
    writer.end_line()
    return _with_content(writer.lines)


def _with_content(lines: list[tuple[int, str]]) -> list[str]:
    """Lines without headings below which nothing is left, such as that of the references."""
    content: list[str] = []
    following = 1  # level of the line after it, 0 for content; after the last line a chapter ends
    for level, line in reversed(lines):
        if not 0 < following <= level:
            content.append(line)
            following = level
    return content[::-1]


def _is_left_out(element: Any) -> bool:
    if element.tag in _LEFT_OUT:
        return True
    classes = (element.get("class") or "").split()
    if not _NOT_TEXT.isdisjoint(classes):
        return True
    if _FRAME in classes and _ARTICLE in (element.getparent().get("class") or "").split():
        return True
    style = element.get("style")
    return element.get("role") in _ROLES or bool(style and _HIDDEN.search(style))


def _line(text: str) -> str:
    return _WHITE.sub(" ", _INVISIBLE.sub("", text)).strip()
