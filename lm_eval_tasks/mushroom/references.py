"""The references of Mu-SHROOM's answers as plain text: Wikipedia pages, and contexts that were written for a question.

The pages of a language are an archive of HTML, turned once into a table of the texts that readers see. Nothing is unpacked
to disk, no name in the archive is used, and only plain files count. Of a page, headings, paragraphs, lists, captions,
infobox and table rows stay, one line each; navigation, references and their marks, edit links, notices, style and whatever
is not displayed go. The rules are those of MediaWiki's markup, the same in every language.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from lm_eval_tasks.data import sources
from lm_eval_tasks.data.atomic import sha256_of, whole_folder
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


# ------------------------------------------------------------------------------------------------------------ contexts
#
# Texts that a search-backed model wrote for the questions of a split, one file an answer. Citation marks and Markdown go;
# the text itself stays. What only looks like a mark stays, too: ``[1,2]``, ``2*3*4``, and the year at the beginning of
# ``1276. urteak 366 egun izan zituen``.

SUFFIX = ".context.txt"
_AS_IT_IS = re.compile(
    r"(`[^`]{1,2000}`|\\\[.{1,2000}?\\\]|\\\(.{1,2000}?\\\)|\$\$.{1,2000}?\$\$)"
)  # code and formulas
_FENCE = re.compile(r"\s*(```|~~~)")
_TARGET = r"\((?:https?://|www\.|mailto:|[/#])[^\s()]*(?:\([^\s()]*\)[^\s()]*)*\)"
_CITATION = re.compile(rf"[ \t]*\[[1-9]\d?\](?:{_TARGET})?")
_LINK = re.compile(rf"!?\[([^\[\]\n]*)\]{_TARGET}")
_EMPHASIS = tuple(
    re.compile(rf"(?<![{word}{mark}])({re.escape(mark)}+)(?=\S)([^{mark}\n]+)(?<=\S)\1(?![{word}{mark}])")
    for mark, word in (("*", "A-Za-z0-9"), ("_", r"\w"))  # `2*3*4` and `snake_case_name` have none
)
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+")
_BULLET = re.compile(r"\s*[-*+•][ \t]+(?=\S)")
_NUMBER = re.compile(r"(\s*)(\d{1,3})[.)][ \t]+(?=\S)")
_ROW, _BELOW_HEADER = re.compile(r"\s*\|(.*)\|\s*"), re.compile(r"\s*\|[ \t]*:?-[-:| \t]*\|\s*")
_SENTENCE_GOES_ON = re.compile(r"[\w,;–-]")


def read_contexts(folder: Path, published: bool, counts: Counter[str]) -> dict[str, WebPage]:
    """The contexts of a folder, by the id of their answer. Files that cannot be used are counted in `counts`.

    A file that ends within a sentence was cut, unless the folder is as `published`: there the model ended so.
    """
    contexts = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            markdown = path.read_bytes().decode("utf-8-sig").rstrip()
        except UnicodeDecodeError:
            counts["contexts left out, cut or no UTF-8 text"] += 1
            continue
        if not published and _SENTENCE_GOES_ON.match(markdown[-1:]):
            counts["contexts left out, cut: they are not the published ones, and end within a sentence"] += 1
        elif text := plain_text(markdown):
            contexts[path.name.removesuffix(SUFFIX)] = WebPage("", "", text)
        else:
            counts["contexts left out, empty or only white space"] += 1
    return contexts


def plain_text(markdown: str) -> str:
    """A text without citation marks (``[3]``) and Markdown, one line a heading, paragraph, list item or row.

    Links and emphasis give their text, a table the cells of its rows. Code and formulas stay as they are.
    """
    lines = markdown.splitlines()
    numbered = _numbered(lines)
    plain = []
    in_code = in_table = False
    for at, line in enumerate(lines):
        is_header = bool(at + 1 < len(lines) and _BELOW_HEADER.fullmatch(lines[at + 1]))
        in_table = bool(_ROW.fullmatch(line)) and (in_table or is_header)
        if _FENCE.match(line):
            in_code = not in_code
        elif in_code:
            plain.append(line.strip())
        elif in_table:
            cells = "" if _BELOW_HEADER.fullmatch(line) else line.strip().strip("|")
            plain.append(CELL.join(filter(None, (_without_marks(cell) for cell in cells.split("|")))))
        else:
            if heading := _HEADING.match(line):
                line = line[heading.end() :].rstrip("# \t")
            elif mark := _BULLET.match(line) or (_NUMBER.match(line) if at in numbered else None):
                line = line[mark.end() :]
            plain.append(_without_marks(line))
    return "\n".join(filter(None, plain))


def _numbered(lines: list[str]) -> set[int]:
    """The places of lines whose number is a list's: at one depth they count 1, 2 and so on. Another begins a sentence."""
    numbered: set[int] = set()
    lists: dict[int, list[int]] = {}
    for at, line in enumerate(lines):
        if match := _NUMBER.match(line):
            depth, number = len(match[1]), int(match[2])
            if number == 1:
                lists[depth] = [at]
            elif number == len(lists.get(depth, ())) + 1:
                lists[depth].append(at)
                numbered.update(lists[depth])
    return numbered


def _without_marks(line: str) -> str:
    parts = _AS_IT_IS.split(line)
    parts[1::2] = [part.strip("`") for part in parts[1::2]]
    for at in range(0, len(parts), 2):
        parts[at] = _LINK.sub(r"\1", _CITATION.sub("", parts[at]))
        for emphasis in 2 * _EMPHASIS:  # it may be within emphasis
            parts[at] = emphasis.sub(r"\2", parts[at])
    return "".join(parts).strip()
