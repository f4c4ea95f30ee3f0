"""The page that answers are marked on: its content to the character, and that no text can be more than text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

import pytest
import yaml
from lxml import html

from lm_eval_tasks.mushroom.dataset import LANGUAGES as MUSHROOM
from lm_eval_tasks.results.marks.page import marking_page
from tests.conftest import ROOT
from tests.marking_pages import content, with_answers
from tests.report_runs import HOSTILE

FILES = ROOT / "lm_eval_tasks/results/marks/page"


def parsed(page: str) -> Any:
    return html.document_fromstring(page.encode("utf-8"))


def content_of(page: str) -> Any:
    (element,) = parsed(page).xpath("//script[@id='content']")
    return json.loads(element.text)


ENDS = {
    "script": "a</script><script>window.pwned = 1</script>",
    "comment": "<!--<script>-->",
    "line separators": "a\u2028b\u2029c\x85d",
    "line ends": "a\r\nb\rc\nd",
    "surrogates": "\ud83d half \ude00 pair",
    "controls": "\x00\x01\x1b\x7f\x9b\ufeff\ufffe\uffff\ufdd0",
    "directions": "\u202ea\u202c\u2067b\u2069\u200f",
    "template": "{{ 7 * 7 }}{% raw %}",
}


@pytest.mark.parametrize(
    "text", [*ENDS.values(), *HOSTILE.values()], ids=[*ENDS, *(f"report {name}" for name in HOSTILE)]
)
def test_any_text_comes_back_to_the_character_and_stays_in_its_element(text: str) -> None:
    given = with_answers(content("de"), text)
    given["items"][0]["line"] |= {"question": text, "reference": text, "id": text}
    page = marking_page(given)
    root = parsed(page)
    assert content_of(page)["items"] == [{"line": given["items"][0]["line"], "suggested": []}]
    assert len(root.xpath("//script")) == 2
    assert not root.xpath("//img | //iframe | //svg | //base | //link | //*[@onload or @onerror or @style]")
    assert len(re.findall("<!--", page)) == 0


@pytest.mark.parametrize("text", ENDS.values(), ids=ENDS)
def test_what_the_frame_holds_is_escaped(text: str) -> None:
    frame = dict.fromkeys(("title", "file", "instructions", "language", "direction"), text)
    root = parsed(marking_page(content("de", **frame)))
    assert (len(root.xpath("//script")), len(root.xpath("//main"))) == (2, 1)


def test_the_policy_allows_its_own_style_and_script_and_nothing_else() -> None:
    root = parsed(marking_page(content("de")))
    (policy,) = root.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    allowed = {}
    for directive, name in (("style-src", "marking.css"), ("script-src", "marking.js")):
        digest = base64.b64encode(hashlib.sha256((FILES / name).read_bytes()).digest()).decode()
        allowed[directive] = f"{directive} 'sha256-{digest}'"
    loads = f"{allowed['style-src']}; {allowed['script-src']}"
    assert policy == f"default-src 'none'; {loads}; base-uri 'none'; form-action 'none'"
    assert not root.xpath("//@src | //link | //*[@style]")
    assert {address for address in root.xpath("//@href") if not address.startswith("#")} == set()


TEXTS = yaml.safe_load((FILES / "instructions.yaml").read_text("utf-8"))
KEYS = "← → ↑ ↓ Shift Alt Shift Enter Backspace Delete N T|Ctrl + Enter|Ctrl + Z|/ 1 6"


def test_mushrooms_languages_have_instructions_and_say_that_no_native_speaker_has_read_them() -> None:
    assert {*TEXTS} == {*MUSHROOM}
    assert [language for language, texts in TEXTS.items() if not texts.get("note")] == ["en"]


@pytest.mark.parametrize("language", [*MUSHROOM, "ja"])
def test_instructions_with_an_example_are_in_the_annotators_language(language: str) -> None:
    root = parsed(marking_page(content("de", language=language)))
    known = language if language in TEXTS else "en"
    for name, text in (("instructions", TEXTS[known]["spans"]), ("hand", TEXTS[known]["hand"])):
        (box,) = root.xpath(f"//*[@class='{name}']")
        assert (box.get("lang"), box.get("dir")) == (known, "rtl" if language in ("ar", "fa") else "ltr")
        assert "".join(box.text_content().split()) == re.sub(r"^(# |- )|[*`\s]|==", "", text, flags=re.M)
    assert root.xpath("string(//*[@class='soft note'])") == TEXTS[known].get("note", "")
    assert (root.xpath("count(//*[@class='instructions']//mark)"), len(root.xpath("//kbd"))) == (3, 17)
    assert [key.text_content() for key in root.xpath("//kbd")] == re.sub(r"(?<! \+) (?!\+)", "|", KEYS).split("|")


@pytest.mark.parametrize("language", "ar de en es fa fi fr hi zh it".split())
def test_labels_have_instructions_in_the_languages_that_nomiracl_has_too(language: str) -> None:
    root = parsed(marking_page(content("de", kind="labels", language=language)))
    known = language if language != "it" else "en"
    (box,) = root.xpath("//*[@class='instructions']")
    assert (box.get("lang"), [each.text_content() for each in box.xpath(".//strong")]) == (known, LABELLED)
    assert [k.text_content() for k in root.xpath("//*[@class='hand']//kbd")] == [*"ADN←→↑↓", *KEYS.split("|")[1:3], "/"]


LABELLED = ["Answers", "Declines", "Neither"]


def test_instructions_are_plain_text_or_a_little_markdown() -> None:
    written = (
        "# How\n\nMark **what is\nwrong** and <b>nothing</b> else.\n- one\n  **two**\n* three\nfour\n\n1 * 2 * 3 ** 4"
    )
    (box,) = parsed(marking_page(content("de", instructions=written))).xpath("//*[@class='instructions']")
    blocks = [re.sub(r"\s+", " ", html.tostring(each, encoding="unicode", with_tail=False)) for each in box]
    assert blocks == [
        "<h3>How</h3>",
        "<p>Mark <strong>what is wrong</strong> and &lt;b&gt;nothing&lt;/b&gt; else.</p>",
        "<ul><li>one <strong>two</strong></li><li>three four</li></ul>",
        "<p>1 * 2 * 3 ** 4</p>",
    ]
