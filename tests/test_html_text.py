"""HTML to text: what of a page's markup is text, line by line."""

from __future__ import annotations

import pytest
from lxml import etree

from lm_eval_tasks.mushroom.html_text import WebPage, read_page


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<p>a<?php echo 1 ?>b</p>", "ab"),
        ("<p>a<!-- no -->b</p>", "ab"),
        ("<p>a</p><h1>last</h1>", "a"),  # a heading with nothing below
        ("<p>a</p><h2>empty</h2><h3>empty, too</h3>", "a"),
        ("<h2>one</h2><h2>two</h2><p>a</p>", "two\na"),
        ("<h2>one</h2><h3>below</h3><p>a</p>", "one\nbelow\na"),
        ("<h3>deep</h3><h2>two</h2><p>a</p>", "two\na"),
        ("<ul><li>a</li><li>b <b>c</b></li></ul>", "a\nb c"),
        ("<table><tr><th>k</th><td>v<br>w</td><td> </td></tr><tr><td>x</td></tr></table>", "k | v; w\nx"),
        ("<table><tr><td><table><tr><td>a</td><td>b</td></tr></table></td></tr></table>", "a | b"),
        ("<table><tr><td>a</td></tr></table><p>b</p><p>c</p>", "a\nb\nc"),
        # a table for layout: its cells are lines
        (
            "<table>v<tr>w<td>x</td><td>y</td><td><p>z</p><p>!</p><table><tr><td>a</td><td>b</td></tr></table></td></tr>"
            "</table>",
            "v\nw\nx\ny\nz\n!\na | b",
        ),
        ("<table><tr><td>a<h2>no heading here</h2></td></tr></table>", "a; no heading here"),
        ("a<div>b</div>c", "a\nb\nc"),
        ("<p>a<sup class='reference'>[1]</sup>b</p><div class='x navbox'>n</div>c", "ab\nc"),
        ("<p>a<span style='color:red;display : NONE'>b</span>c</p>", "ac"),
        ("<p>a<span style='visibility:hidden'>b</span><span style='visibility:visible'>c</span></p>", "ac"),
        ("<div role='note'>a</div><div role='main'>b</div>", "b"),
        ("<div class='mw-parser-output'><div class='NavFrame'>a</div>b</div>", "b"),
        ("<div class='infobox'><div class='NavFrame'>a</div>b</div>", "a\nb"),
        ("<p>soft\u00adhyphen \u200b a\u00a0 b\u200c</p>", "softhyphen a b\u200c"),
        ("<script>a</script><style>b</style><p>c</p>", "c"),
        ("", ""),
    ],
)
def test_lines_of_a_body(body: str, text: str) -> None:
    assert read_page(f"<html><body>{body}</body></html>".encode()).text == text


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


@pytest.mark.parametrize("content", [b"", b"  ", b"<!-- -->"])
def test_what_holds_no_element_is_no_page(content: bytes) -> None:
    assert read_page(content) == WebPage("", "", "")


def test_what_a_parser_cannot_read_is_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Older releases of lxml raise an error where a page has no element."""

    def refuse(*_: object) -> None:
        raise etree.ParserError("Document is empty")

    monkeypatch.setattr(etree, "fromstring", refuse)
    assert read_page(b"<p>a</p>") == WebPage("", "", "")


def test_a_page_with_a_script_of_more_than_10_mb_is_read() -> None:
    assert read_page(b"<body><script>" + b"x" * 10_000_001 + b"</script><p>a</p></body>").text == "a"
