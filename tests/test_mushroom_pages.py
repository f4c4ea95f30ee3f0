"""Wikipedia pages of Mu-SHROOM: HTML becomes text, archives are read safely, and what is damaged is said."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from lm_eval_tasks.data import tables as archives
from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.mushroom import references as pages
from lm_eval_tasks.mushroom.references import WebPage, open_pages, read_page, read_pages
from tests.growth import exponent
from tests.miniature import MINIATURE

ADDRESS = "https://de.wikipedia.org/wiki/Stra%C3%9Fe"


def html(body: str, address: str | None = ADDRESS, title: str = "T") -> str:
    link = f'<link rel="canonical" href="{address}">' if address else ""
    return f'<!DOCTYPE html><html><head><title>{title}</title>{link}</head><body><div id="mw-content-text">{body}</div>'


LINES = [
    ("<p>Ein <b>Satz</b>.</p><p>Noch&nbsp;einer.</p>", ["Ein Satz.", "Noch einer."]),
    ("<p>A<br>B</p>C", ["A", "B", "C"]),
    ("<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>", ["a", "b", "c"]),
    ("<dl><dt>Wort</dt><dd>Sinn</dd></dl>", ["Wort", "Sinn"]),
    ("<h2>Leben</h2><p>x</p>", ["Leben", "x"]),
    # tables: a line a row
    ("<table><tr><th>a</th><th>b</th><td>c</td></tr></table>x<th>a</th>y", ["a | b | c", "x", "ay"]),
    (
        "<table>v<tr>w<td>x</td><td>y</td><td><p>z</p><p>!</p><table><tr><td>a</td><td>b</td></tr></table></td></tr></table>",
        ["v", "w", "x", "y", "z", "!", "a | b"],
    ),
    ("<table><tr><td>a<h2>no heading here</h2></td></tr></table>", ["a; no heading here"]),
    ("<table><tr><th>Jahr</th><td>1867</td></tr><tr><td>Ort</td></tr></table>", ["Jahr | 1867", "Ort"]),
    ("<table><tr><td>a<br>b</td><td><ul><li>c</li><li>d</li></ul></td><td></td></tr></table>", ["a; b | c; d"]),
    ("<table><caption>Titel</caption><tr><td><p>a</p><p>b</p></td></tr></table>x", ["Titel", "a; b", "x"]),
    (
        "<table><tr><td>Links</td><td><table><tr><td>1</td><td>2</td></tr></table></td></tr></table>",
        ["Links", "1 | 2"],  # a table for layout has no rows of its own
    ),
    # what is not the article's
    ('<p>Satz.<sup class="reference"><a>[1]</a></sup> Weiter.</p>', ["Satz. Weiter."]),
    ('<h2>Leben<span class="mw-editsection">[Bearbeiten]</span></h2><p>x</p>', ["Leben", "x"]),
    ('<nav>Menü</nav><table class="navbox"><tr><td>Leiste</td></tr></table><p>x</p>', ["x"]),
    ("<style>.a{}</style><script>var a</script><p>x<!-- y --></p>", ["x"]),
    ('<p>x<span style="font-size:1em; DISPLAY : none">0001</span>y</p>', ["xy"]),
    ('<div role="note" class="hatnote">Siehe auch</div><p>x</p>', ["x"]),
    (
        '<div class="mw-parser-output"><div class="NavFrame">Andere Flüsse</div>'
        '<table><tr><td><div class="NavFrame">Medaillen: 3</div></td></tr></table></div>',
        ["Medaillen: 3"],
    ),
    ('<div class="toc">Inhalt</div><div class="box toc2">bleibt</div>', ["bleibt"]),
    # headings below which nothing is left
    ('<p>x</p><h2>Belege</h2><ol class="references"><li>Buch</li></ol>', ["x"]),
    ("<h2>A</h2><h3>B</h3><p>x</p><h3>C</h3><h2>D</h2>", ["A", "B", "x"]),
    ("<h2>A</h2><h2>B</h2><p>x</p>", ["B", "x"]),
    # what nobody sees, and what scripts need
    ("<p>Do\u00adnau\u200b \u200eab</p>", ["Donau ab"]),
    ("<p>क्\u200dष می\u200cروم</p>", ["क्\u200dष می\u200cروم"]),
    # broken
    ("<p>a<p>b<div>c</p></td>d</table>", ["a", "b", "cd"]),
    ("<tr><td>a<td>b", ["a | b"]),
    ("a &lt;b&gt; &amp; &nosuch; &#0; <", ["a <b> & &nosuch; \ufffd <"]),
]


@pytest.mark.parametrize(("body", "lines"), LINES)
def test_html_becomes_lines(body: str, lines: list[str]) -> None:
    page = read_page(html(body).encode())
    assert (page.address, page.title) == ("https://de.wikipedia.org/wiki/Straße", "T")
    assert page.text.split("\n") == ["T", *lines]


def test_a_page_has_its_canonical_address_and_its_title_first() -> None:
    head = "<title>T</title><link rel='canonical' href=' https://de.wikipedia.org/wiki/%C3%84 '>"
    heading = "<h1 id='firstHeading'>Ä <i>b</i></h1>"
    page = f"<html><head>{head}</head><body>{heading}<div id='mw-content-text'><p>x</p></div>tail</body></html>"
    assert read_page(page.encode()) == WebPage("https://de.wikipedia.org/wiki/Ä", "Ä b", "Ä b\nx")
    without = page.replace(heading, "").replace("mw-content-text", "other")
    assert read_page(without.encode()) == WebPage("https://de.wikipedia.org/wiki/Ä", "T", "T\nx\ntail")


@pytest.mark.parametrize(
    ("address", "item"),
    [
        ("https://www.wikidata.org/wiki/Special:EntityPage/Q1653", "Q1653"),
        ("https://www.wikidata.org/wiki/Q1653#sitelinks-wikipedia", "Q1653"),
        ("https://www.wikidata.org/wiki/Special:EntityPage/P1653", ""),
        ("https://www.wikidata.org/wiki/Special:EntityPage/Q0", ""),
        ("https://example.org/https://www.wikidata.org/wiki/Q1653", ""),
    ],
)
def test_a_page_has_the_item_that_its_menu_names(address: str, item: str) -> None:
    body = "<p>x <a href='https://www.wikidata.org/wiki/Q1'>y</a></p>"
    menu = f"<ul><li id='t-wikibase'><a href='{address}'>Item</a></li></ul>"
    assert read_page(f"<body>{body}{menu}".encode()).item == item
    assert read_page(f"<body>{body}".encode()).item == ""


def test_what_a_parser_cannot_read_is_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Older releases of lxml raise an error where a page has no element."""

    def refuse(*_: object) -> None:
        raise etree.ParserError("Document is empty")

    monkeypatch.setattr(etree, "fromstring", refuse)
    assert read_page(b"<p>a</p>") == WebPage("", "", "")


def test_a_page_with_a_script_of_more_than_10_mb_is_read() -> None:
    assert read_page(b"<body><script>" + b"x" * 10_000_001 + b"</script><p>a</p></body>").text == "a"


@pytest.mark.parametrize("content", [b"\x00", b"<", b"\xff\xfe\x00<", b"<p>caf\xe9", b"{]", "<p>ü".encode("utf-16")])
def test_what_is_no_html_is_survived(content: bytes) -> None:
    assert isinstance(read_page(content).text, str)


@settings(max_examples=2 * settings.default.max_examples, deadline=None)
@given(
    st.lists(st.sampled_from("<p> </p> <table> <tr> <td> </td> </table> <h2> <li> <b a='> x </ & \x1e \n".split(" ")))
)
def test_any_soup_is_read(pieces: list[str]) -> None:
    text = read_page("".join(pieces).encode()).text
    assert all(line == " ".join(line.split()) != "" for line in text.split("\n") if text)


BODIES = {
    "paragraph": lambda size: "<p>" + "wort " * (size // 5),
    "paragraphs": lambda size: "<p>wort wort wort wort wort wort wort wort</p>" * (size // 45),
    "tables": lambda size: "<table><tr><td>" * (size // 15),
    "depth": lambda size: "<div>" * (size // 5),
    "formatting": lambda size: "<b>" * (size // 7) + "<p>x" * (size // 7),
}
"""Name to a body of so many characters."""


@pytest.mark.one_python("how time grows")
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.slow("pages that are long enough to take measurable time")
def test_a_page_is_read_in_linear_time(body: Callable[[int], str]) -> None:
    assert exponent(read_page, lambda size: html(f"<p>Anfang</p>{body(size)}").encode(), 40_000) < 1.5


def packed(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for info, content in members:
            info.size = len(content) if info.isreg() else 0
            tar.addfile(info, io.BytesIO(content))
    path.write_bytes(gzip.compress(raw.getvalue(), mtime=0))
    return path


def page_file(name: str, address: str | None, text: str = "x") -> tuple[tarfile.TarInfo, bytes]:
    return tarfile.TarInfo(name), html(f"<p>{text}</p>", address).encode()


def member(name: str, kind: bytes, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


def test_only_plain_files_count_and_no_name_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.html").write_text(html("<p>secret</p>", "https://x/secret"), "utf-8")
    archive = packed(
        tmp_path / "de.tar.gz",
        [
            member("de/", tarfile.DIRTYPE),
            page_file("../../../evil.html", "https://x/a"),
            page_file("/etc/evil.html", "https://x/b"),
            page_file("a" * 300, "https://x/a", "another"),
            page_file("de/none.html", None),
            (tarfile.TarInfo("de/empty.html"), b""),
            member("de/link.html", tarfile.SYMTYPE, "secret.html"),
            member("de/hard.html", tarfile.LNKTYPE, "secret.html"),
            member("de/fifo", tarfile.FIFOTYPE),
            member("de/device", tarfile.CHRTYPE),
        ],
    )
    before = sorted(tmp_path.parent.rglob("*"))
    found = read_pages(archive)
    assert sorted(tmp_path.parent.rglob("*")) == before
    assert found.by_address == {url: WebPage(url, "T", "T\nx") for url in ("https://x/a", "https://x/b")}
    assert found.left_out == {
        "pages of an address that another page has": 1,
        "pages without a canonical address": 1,
        "pages that are empty or no HTML": 1,
        "members of the archive that are no plain files": 4,
    }


def test_a_huge_member_is_passed_over_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LARGEST_PAGE", 1 << 20)
    archive = packed(
        tmp_path / "a.tar.gz", [page_file("big", "https://x/big", "x" * (1 << 20)), page_file("b", "https://x/b")]
    )
    found = read_pages(archive)
    assert list(found.by_address) == ["https://x/b"]
    assert found.left_out == {"members of the archive of more than 1 MB": 1}


def test_an_archive_that_unpacks_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "LARGEST_ARCHIVE", 4 << 20)
    archive = packed(tmp_path / "a.tar.gz", [page_file("a", "https://x/a")])
    archive.write_bytes(archive.read_bytes() + gzip.compress(bytes(8 << 20)))  # members of gzip may follow each other
    with pytest.raises(CorruptSource, match="unpacks to more than 4 MB"):
        read_pages(archive)


def test_an_archive_cut_anywhere_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    texts = [(tarfile.TarInfo(str(n)), html(f"<p>{n * 7919}</p>", f"https://x/{n}").encode()) for n in range(30)]
    archive = packed(tmp_path / "de.tar.gz", texts)
    whole = archive.read_bytes()
    assert len(read_pages(archive).by_address) == 30
    for end in (0, 5, 100, len(whole) // 2, len(whole) - 9, len(whole) - 1):
        archive.write_bytes(whole[:end])
        with pytest.raises(
            CorruptSource, match=r"is cut or damaged.*`lm-eval-grounded sources --fetch '\*url-pages/de"
        ):
            read_pages(archive)
    archive.write_bytes(whole[:-8] + b"\x00" * 8)  # the checksum
    with pytest.raises(CorruptSource, match="is cut or damaged"):
        read_pages(archive)
    unpacked = gzip.decompress(whole)
    for end in (700, 512 * 9 + 100):  # cut before it was compressed
        archive.write_bytes(gzip.compress(unpacked[:end]))
        with pytest.raises(CorruptSource, match="is cut or damaged"):
            read_pages(archive)
    archive.write_bytes(b"no archive")
    with pytest.raises(CorruptSource, match="is cut or damaged"):
        read_pages(archive)


def test_texts_are_made_once_and_again_for_another_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LM_EVAL_GROUNDED_CACHE", str(tmp_path / "cache"))
    archive = packed(
        tmp_path / "a.tar.gz", [page_file("a", "https://x/a", "\udc80".encode("utf-8", "replace").decode())]
    )
    first = open_pages(archive)
    monkeypatch.setattr(pages, "read_pages", lambda path: pytest.fail("parsed again"))
    assert open_pages(archive) == first
    moved = archive.rename(tmp_path / "b.tar.gz")
    assert open_pages(moved) == first  # known by its content
    monkeypatch.undo()
    monkeypatch.setenv("LM_EVAL_GROUNDED_CACHE", str(tmp_path / "cache"))
    packed(moved, [page_file("a", "https://x/other")])
    assert list(open_pages(moved).by_address) == ["https://x/other"]
    moved.write_bytes(moved.read_bytes()[:-20])
    with pytest.raises(CorruptSource):
        open_pages(moved)
    assert len([path for path in (tmp_path / "cache" / "pages").iterdir() if path.is_dir()]) == 2  # nothing half made


def test_other_texts_are_kept_under_another_name() -> None:
    """Where this fails the rules of pages have changed: count `pages._FORM` up, or caches hold the old texts."""
    texts = hashlib.sha256()
    for archive in sorted(Path(MINIATURE, "github/Helsinki-NLP/mu-shroom/data/url-pages").iterdir()):
        for page in read_pages(archive).by_address.values():
            texts.update(page.text.encode())
    texts.update("".join(read_page(html(body).encode()).text for body, _ in LINES).encode())
    assert (pages._FORM, texts.hexdigest()[:16]) == ("4", "e9ae6a49e7142d38")


@pytest.mark.one_python("what the public data hold")
@pytest.mark.parametrize(
    ("language", "number"),
    [
        ("es", 50),
        ("it", 50),
        *(pytest.param(*each, marks=pytest.mark.slow("200 pages")) for each in (("de", 199), ("fi", 200))),
    ],
)
def test_real_archives(hub: str, language: str, number: int) -> None:
    """Every page has text, and no trace of what is not the article's."""
    found = open_pages(Path(hub, f"github/Helsinki-NLP/mu-shroom/data/url-pages/{language}.tar.gz"))
    assert len(found.by_address) == number
    assert found.left_out == ({"pages of an address that another page has": 1} if language == "de" else {})
    assert len({page.item for page in found.by_address.values()} - {""}) == number
    edit = {"de": "Bearbeiten", "es": "editar", "fi": "muokkaa", "it": "modifica"}[language]
    for address, (_, title, text, _) in found.by_address.items():
        assert address.startswith(f"https://{language}.wikipedia.org/wiki/")
        lines = text.split("\n")
        assert title == lines[0] != ""
        assert len(lines) > 1
        assert f"[{edit}" not in text
        assert "mw-parser-output" not in text
        by_hand = ["[2]"] if address.endswith("/Kolumbian_presidentti") else []  # copied into the article as text
        assert re.findall(r"\[\d+\]", text) == by_hand, address
