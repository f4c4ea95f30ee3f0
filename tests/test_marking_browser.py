"""The page that answers are marked on, in a browser: Debian's Chromium, driven by Playwright (``make test-report``)."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks.cli import main
from lm_eval_tasks.results.marks.lines import read_marks
from lm_eval_tasks.results.marks.page import marking_page
from lm_eval_tasks.runs import read_runs
from tests import logged_runs
from tests.browser import SCHEMES, WIDTHS, Tab
from tests.conftest import ROOT
from tests.marked_runs import rate_by_hand
from tests.marking_pages import TEXTS, content, with_answers
from tests.report_runs import HOSTILE

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

CATEGORIES = ["entity", "relation", "invented", "contradictory", "unverifiable", "subjective"]

ENDS = """([from, to]) => {  // the points where a part of the answer begins and ends, in reading order
    const answer = document.querySelector('.answer');
    const nodes = [];
    const walker = document.createTreeWalker(answer, NodeFilter.SHOW_TEXT);
    for (let at = 0; walker.nextNode(); at += walker.currentNode.length) nodes.push([at, walker.currentNode]);
    const box = (start, end) => {
        const range = document.createRange();
        for (const [at, node] of nodes) {
            if (at <= start && start < at + node.length) range.setStart(node, start - at);
            if (at < end && end <= at + node.length) range.setEnd(node, end - at);
        }
        return range.getBoundingClientRect();
    };
    let [first, last] = [box(from, from + 1), box(to - 1, to)];
    for (let more = 2; !first.width; more += 1) first = box(from, from + more);
    for (let more = 2; !last.width; more += 1) last = box(to - more, to);
    const rtl = getComputedStyle(answer).direction === 'rtl';
    const [start, end] = rtl ? [first.right, last.left] : [first.left, last.right];
    return [[start, first.top + first.height / 2], [end, last.top + last.height / 2]];
}"""

Start = Callable[..., Any]


@pytest.fixture
def started(opened: Any, tmp_path: Path) -> Start:
    """Opens a page with this content as Anna."""

    def start(page_content: dict[str, Any], name: str = "Anna", **options: Any) -> Any:
        path = tmp_path / "marking.html"
        path.write_text(marking_page(page_content), "utf-8")
        tab: Tab = opened(path, **options)
        if name:
            sign_in(tab.page, name)
        tab.page.tab = tab
        return tab.page

    return start


def sign_in(page: Any, name: str) -> None:
    page.fill("#name", name)
    page.click("#naming button.main")


def units(text: str) -> int:
    """How long a text is for a browser, which counts UTF-16."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def ends(page: Any, part: str) -> list[list[float]]:
    before = page.locator(".answer").first.text_content().partition(part)[0]
    points: list[list[float]] = page.evaluate(ENDS, [units(before), units(before + part)])
    return points


def drag(page: Any, part: str) -> None:
    """Select a part of the answer with the mouse."""
    (x, y), (to_x, to_y) = ends(page, part)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move((x + to_x) / 2, (y + to_y) / 2)
    page.mouse.move(to_x, to_y)
    page.mouse.up()


def middle(page: Any, part: str) -> tuple[float, float]:
    (x, y), (to_x, _) = ends(page, part)
    return (x + to_x) / 2, y


def press(page: Any, keys: str) -> None:
    """Press keys, such as ``3*ArrowRight Enter``."""
    for key in keys.split():
        number, _, name = key.rpartition("*")
        for _ in range(int(number or 1)):
            page.keyboard.press(name)


def saved(page: Any, button: str = "#save") -> list[dict[str, Any]]:
    with page.expect_download() as download:
        page.click(button)
    text = Path(download.value.path()).read_bytes().decode("utf-8")
    assert text.endswith("\n")
    return [json.loads(line) for line in text[:-1].split("\n")]


def parts(line: dict[str, Any]) -> list[str]:
    """What is marked, by code points, as Python counts."""
    return [line["answer"][start:end] for start, end, _ in line["spans"]]


def marked(page: Any) -> list[str]:
    texts: list[str] = page.locator("#marks bdi").all_text_contents()
    return texts


def drop(page: Any, *lines: Any, name: str = "marks.jsonl") -> str:
    """Drop a file of these lines on the page; what the page says of it."""
    text = "\n".join(line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines)
    page.evaluate(
        """([text, name]) => {
            const data = new DataTransfer();
            data.items.add(new File([text], name));
            dispatchEvent(new DragEvent('drop', {dataTransfer: data, cancelable: true}));
        }""",
        [text, name],
    )
    page.locator("#message:has-text('restored')").wait_for()
    message: str = page.inner_text("#message")
    return message


# ------------------------------------------------------------------------------------------------------------- marking

MOUSE = [  # what is dragged over, and the whole words of it
    ("de", "urde von 18", "wurde von 1885"),
    ("ar", "فل بين سن", "إيفل بين سنة"),
    ("hi", "मिल ज़ो", "एमिल ज़ोला"),
    ("ja", "成しました。🗼設", "完成しました。🗼設計"),
]


@pytest.mark.parametrize(("language", "part", "words"), MOUSE)
def test_marked_by_mouse_reloaded_and_saved_to_the_character(
    started: Start, language: str, part: str, words: str
) -> None:
    """Whole words are marked unless that is switched off."""
    page = started(content(language))
    drag(page, part)
    assert marked(page) == [words]
    page.click("#marks button")
    page.uncheck("#whole")
    drag(page, part)
    page.reload()
    assert (marked(page), page.is_checked("#whole")) == ([part], False)
    page.click("#next")
    (line,) = saved(page)
    given = content(language)["items"][0]["line"]
    assert {name: line.pop(name) for name in given} == given
    start = given["answer"].index(part)
    assert line.pop("seconds") >= 0
    spans = [[start, start + len(part), "hallucination"]]
    assert line == {"annotator": "Anna", "spans": spans, "cannot_tell": False, "note": "", "suggested": False}


KEYS = [
    ("de", "5*ArrowRight Enter", ["1885"]),
    ("de", "2*ArrowRight 3*Alt+Shift+ArrowLeft Enter", ["Eiffelt"]),
    ("de", "9*ArrowRight Alt+ArrowRight Enter", ["👩‍👩‍👧"]),
    ("de", "ArrowRight Alt+ArrowLeft 2*Alt+Shift+ArrowRight Enter ArrowRight Enter", ["Der", "Eiffelturm"]),
    ("de", "End Enter Home Shift+ArrowRight Enter", ["Der Eiffelturm", "entworfen"]),
    ("ar", "14*ArrowLeft Shift+ArrowLeft Enter", ["زولا» 🗼"]),
    ("ar", "14*ArrowLeft ArrowRight Enter", ["إميل"]),
    ("hi", "11*ArrowRight Alt+Shift+ArrowLeft Enter", ["ज़ो"]),  # two characters that a reader sees, four code points
    ("ja", "11*ArrowRight 3*Shift+ArrowRight Enter", ["完成しました。🗼"]),
    ("ja", "3*ArrowRight Enter 2*ArrowRight Enter ArrowLeft Shift+ArrowLeft Backspace", ["に"]),
]


@pytest.mark.parametrize(("language", "keys", "expected"), KEYS)
def test_marked_by_keyboard_alone(started: Start, language: str, keys: str, expected: list[str]) -> None:
    page = started(content(language), name="")
    page.keyboard.type("Anna")
    press(page, f"Enter {keys}")
    assert marked(page) == expected
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    press(page, "Control+Enter" if expected else "n")
    assert page.inner_text("#end-title") == "Everything is done"
    (line,) = saved(page, "#save-end")
    assert parts(line) == expected


def test_keys_of_other_scripts_do_the_same(started: Start) -> None:
    page = started(content("ar", "de", categories=CATEGORIES))
    page.evaluate("""() => {
        const keys = [
            ['٣', 'Digit3'], ['End', 'End'], ['Enter', 'Enter'], ['ى', 'KeyN'], ['ئ', 'KeyZ', true], ['ف', 'KeyT'],
        ];
        for (const [key, code, ctrlKey] of keys)
            document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key, code, ctrlKey, bubbles: true}));
    }""")
    assert page.inner_text("#message") == "Answer 1 has lost its marks. Undo brings them back."
    assert [line["cannot_tell"] for line in saved(page)] == [True]
    press(page, "Control+z")
    assert marked(page) == ["مترًا"]
    assert page.input_value("#marks select") == "invented"


HARD = {  # an answer, and its last word
    "line ends": ("eins\r\nzwei\rdrei\n\nvier", "vier"),
    "controls": ("a\x00b \x1b[31m c\x7f\x85d", "d"),
    "combining marks": ("e\u0301e\u0301 Z\u0301\u0322\u0489algo u\u0308ber", "u\u0308ber"),
    "surrogates": ("half \ud83d of a 😀 pair \ude00 end", "end"),
    "hidden": ("soft\u00adhyphen \u200bwidth \ufeffbom \u202eoverride\u202c \u2067isolate\u2069 \ufffd", "\ufffd"),
    "separators": ("a\u2028b\u2029c", "c"),
    "white space": ("  \t a \u3000 ", "a"),
    "only marks": ("…!?", "?"),
}


def test_answers_are_on_the_page_and_in_the_file_to_the_character(started: Start, tmp_path: Path) -> None:
    page = started(with_answers(content(*["de"] * len(HARD)), *(text for text, _ in HARD.values())))
    for place, name in enumerate(HARD):
        answer = f"JSON.parse(document.getElementById('content').textContent).items[{place}].line.answer"
        assert page.evaluate(f"{answer} === document.querySelector('.answer').textContent"), name
        press(page, "End Enter Control+Enter")
    with page.expect_download() as download:
        page.click("#save-end")
    download.value.save_as(tmp_path / "marks.jsonl")
    marks = read_marks([tmp_path / "marks.jsonl"])
    assert [(mark.answer, [span[:2] for span in mark.spans or ()]) for mark in marks] == [
        (text, [(text.rindex(last), text.rindex(last) + len(last))]) for text, last in HARD.values()
    ]
    assert {(mark.annotator, mark.draw.seed, mark.chance) for mark in marks} == {("Anna", 1234, 0.012345678901234567)}


def test_words_are_tapped(started: Start) -> None:
    page = started(content("de"), width=400, has_touch=True, is_mobile=True)
    for words, expected in [
        (["errichtet", "1885"], ["1885 bis 1889 errichtet"]),
        (["Zola"], ["1885 bis 1889 errichtet", "Zola"]),  # begins anew
    ]:
        assert page.is_disabled("#mark")
        for word in words:
            page.touchscreen.tap(*middle(page, word))
        page.tap("#mark")
        assert marked(page) == expected
    page.touchscreen.tap(*middle(page, "1889"))
    assert marked(page) == ["Zola"]
    for _ in range(2):
        page.touchscreen.tap(*middle(page, "Meter"))  # a second tap lets go
    assert page.is_disabled("#mark")


def test_suggested_spans_are_marks_at_the_start(started: Start) -> None:
    page = started(content("de", "de", suggest=True))
    page.click("#next")
    page.click("#nothing")
    assert [(parts(line), line["suggested"]) for line in saved(page)] == [(["Eiffelturm"], True), ([], True)]


def test_marks_that_overlap_become_one_of_the_later_category_and_a_click_removes_it(started: Start) -> None:
    page = started(content("de", categories=CATEGORIES))
    drag(page, "1885 bis")
    drag(page, "bis 1889 ")  # without the white space at its end
    assert marked(page) == ["1885 bis 1889"]
    page.check("input[value=invented]")
    drag(page, "1889 errichtet")
    page.locator(".answer").focus()
    press(page, "6 End Enter")
    assert marked(page) == ["1885 bis", "1889 errichtet", "entworfen"]
    page.mouse.click(*middle(page, "1885"))  # gets the category that is chosen
    page.mouse.click(*middle(page, "entworfen"))  # has it: is removed
    page.select_option("#marks li:last-child select", "relation")
    assert page.evaluate("document.activeElement.localName") == "select"
    page.click("#next")
    (line,) = saved(page)
    assert [(part, span[2]) for part, span in zip(parts(line), line["spans"], strict=True)] == [
        *(("1885 bis", "subjective"), ("1889 errichtet", "relation"))
    ]


# ----------------------------------------------------------------------------------------------- done, undone and kept


def test_what_counts_as_done(started: Start) -> None:
    page = started(content("de", "ar", "hi", "ja"))
    for button in ("#next", "#nothing", "#unknown"):
        page.click(button)
    drag(page, "1885年")
    assert [line["id"] for line in saved(page)] == ["ar_1_1", "hi_2_1"]
    assert "Skipped so far: Answer 1." in page.inner_text("#message")
    page.click("#next")
    assert page.inner_text("#end-title") == "1 answer still open"
    page.click("#left button")
    assert page.inner_text("#place") == "Answer 1 of 4"
    assert page.inner_text("#progress").startswith("3 of 4 done, about 1 minute left")
    page.fill("#note", "unklar <b>")
    page.click("#unknown")
    page.click("#back")
    assert page.get_attribute("#unknown", "aria-pressed") == "true"
    lines = saved(page)
    assert [(line["spans"], line["cannot_tell"], line["note"]) for line in lines] == [
        *((None, True, "unklar <b>"), ([], False, ""), (None, True, "")),
        ([[7, 12, "hallucination"]], False, ""),
    ]
    assert parts(lines[3]) == ["1885年"]
    drag(page, "1885")  # after "cannot tell": open until it is confirmed
    assert len(saved(page)) == 3


def test_undo_takes_back_step_by_step_over_all_answers(started: Start) -> None:
    page = started(content("de", "ja"))
    drag(page, "1885")
    drag(page, "Zola")
    page.click("#next")
    page.click("#nothing")
    for place, state in [("Answer 2 of 2", "Not done yet."), ("Answer 1 of 2", '2 parts marked: "Next" confirms.')]:
        press(page, "Control+z")
        assert (page.inner_text("#place"), page.inner_text("#state")) == (place, state)
    page.click(".undo")
    assert marked(page) == ["1885"]
    page.fill("#note", "x")
    page.locator(".answer").focus()
    press(page, "2*Control+z")
    assert (marked(page), page.input_value("#note"), page.is_disabled(".undo")) == ([], "", True)
    page.reload()
    assert (marked(page), page.is_disabled(".undo")) == ([], True)


@pytest.mark.parametrize("language", ["ar", "ja"])
def test_whatever_keys_are_pressed_marks_stay_in_order_and_undo_leads_back(started: Start, language: str) -> None:
    page = started(content(language, categories=CATEGORIES))
    arrows = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"]
    keys = [*arrows, *(f"Shift+{key}" for key in arrows), *(f"Alt+Shift+{key}" for key in arrows[:2]), "Alt+ArrowLeft"]
    keys += ["Enter"] * 6 + ["Backspace", "Control+z", "1", "2", "End", "Home", "Escape"]
    answer, chosen = TEXTS[language][2], random.Random(24)
    for _ in range(15):
        press(page, " ".join(chosen.choices(keys, k=20)))
        spans = page.evaluate("""() => {
            const [state] = Object.values(localStorage).map(each => JSON.parse(each)).filter(each => each.spans);
            return state ? state.spans : [];
        }""")
        assert all(0 <= start < end <= len(answer) for start, end, _ in spans)
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
        assert [answer[start:end] for start, end, _ in spans] == marked(page)
        assert all(part == part.strip() for part in marked(page))
        assert page.locator(".answer").text_content() == answer
    for _ in range(300):
        press(page, "Control+z")
        if page.inner_text("#message") == "There is nothing to undo.":
            break
    assert marked(page) == []


def test_two_tabs_show_the_same_and_lose_nothing(started: Start) -> None:
    page = started(content("de", "ja"))
    other = page.context.new_page()
    other.goto(page.url)
    drag(page, "1885")
    other.locator("#marks bdi").wait_for()
    drag(other, "Zola")
    page.locator("#marks bdi:text('Zola')").wait_for()
    assert marked(page) == marked(other) == ["1885", "Zola"]
    press(page, "Control+z")
    assert page.inner_text("#message") == "There is nothing to undo."  # the last to change it was the other tab
    other.click("#next")
    other.click("#nothing")
    page.locator("#progress:has-text('2 of 2')").wait_for()
    page.fill("#note", "from the first")
    other.click("#again")
    other.click("#back")
    assert other.input_value("#note") == "from the first"
    assert parts(saved(page)[0]) == ["1885", "Zola"]


def test_a_localstorage_that_a_browser_shows_empty_loses_nothing(started: Start) -> None:
    """As Chromium does now and then, where it takes the page to another process when it is loaded again."""
    page = started(content("de", "ja"))
    drag(page, "1885")
    page.evaluate("localStorage.clear()")
    page.reload()
    assert marked(page) == ["1885"]


FULL = """() => {
    const set = Storage.prototype.setItem;
    Storage.prototype.setItem = function(key, value) {
        if (window.isFull) throw new DOMException('', 'QuotaExceededError');
        return set.call(this, key, value);
    };
    window.isFull = true;
}"""


def test_the_page_goes_on_with_a_full_storage_and_warns(started: Start) -> None:
    page = started(content("de", "ja"))
    page.evaluate(FULL)
    drag(page, "1885")
    page.click("#next")
    assert page.inner_text("#warning").startswith("This browser has no room left to keep your work.")
    page.click("#nothing")
    assert [parts(line) for line in saved(page, "#save-end")] == [["1885"], []]
    page.evaluate("window.isFull = false")
    page.click("#again")
    page.fill("#note", "x")
    assert page.is_hidden("#warning")  # everything is stored now
    page.reload()
    assert page.inner_text("#progress") == "2 of 2 done"


def test_a_name_is_corrected_or_another_person_starts_afresh(started: Start) -> None:
    page = started(content("de"), name="Ana")
    drag(page, "Zola")
    page.click("#next")
    page.click("#who")
    sign_in(page, "Anna")
    assert saved(page)[0]["annotator"] == "Anna"
    for name in ("Ben", "Anna"):
        page.click("#who")
        page.check("input[value=theirs]")
        sign_in(page, name)
        if name == "Ben":
            assert page.inner_text("#progress") == "0 of 1 done"
            page.click("#nothing")
    assert [(line["annotator"], parts(line)) for line in saved(page)] == [("Anna", ["Zola"])]


# --------------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("name", "file"),
    [("  Zoë  Müller ", "Zoë_Müller"), ("../../etc/passwd", "etc_passwd"), ("آنا", "آنا"), ("***", "annotator")],
)
def test_the_name_of_the_file_holds_the_annotator(started: Start, name: str, file: str) -> None:
    page = started(content("de"), name)
    page.click("#nothing")
    with page.expect_download() as download:
        page.click("#save-end")
    assert download.value.suggested_filename == f"marks_mfava_de_{file}.jsonl"


def test_a_saved_file_is_gone_on_with_elsewhere(started: Start) -> None:
    given = content("de", "ar", "hi", "ja")
    page = started(given)
    drag(page, "1889 errichtet 🗼👩‍👩‍👧 und")
    page.fill("#note", "n\u2028n")
    page.click("#next")
    page.click("#unknown")
    lines = saved(page)

    page = started(given, name="")  # another browser
    assert drop(page, *lines) == "2 answers restored."
    assert (page.inner_text("#place"), page.inner_text("#who")) == ("Answer 3 of 4", "Anna")
    assert saved(page) == lines
    page.click("#nothing")
    lines = saved(page)

    page = started(given)
    page.click("#nothing")
    text = "".join(json.dumps(line) + "\n" for line in lines)
    page.set_input_files("#file", {"name": "lines.jsonl", "mimeType": "", "buffer": text.encode()})
    page.locator("#message:has-text('restored')").wait_for()
    assert "3 answers restored, of which 1 had been done here" in page.inner_text("#message")
    assert [line["cannot_tell"] for line in saved(page)] == [False, True, False]
    press(page, "Control+z")
    assert [parts(line) for line in saved(page)] == [[]]


REFUSED: list[tuple[Any, str]] = [
    ("{", "is none of a saved file"),
    ("[1]", "is none of a saved file"),
    ({"draw": {"seed": 7, "runs": ["9f86d081884c7d65"]}}, "is of another draw (mfava_de, seed 7) than this page"),
    ({"task": "mfava_fi"}, "is of another draw (mfava_fi, seed 1234)"),
    ({"kind": "labels"}, "is of another draw"),
    ({"id": "de_9"}, "is of an answer that is not on this page (de_9)"),
    ({"run": "0000"}, "is of an answer that is not on this page (de_0_1)"),
    ({"answer": "other"}, "has another answer for de_0_1 than this page"),
    ({"reference": "other"}, "has another reference for de_0_1 than this page"),
    ({"annotator": "Ben"}, "is by Ben, and you are Anna"),
    ({"annotator": ""}, "names no annotator"),
    *(({"spans": spans}, "is damaged") for spans in ([[0, 999, "x"]], [[3, 3, "x"]], [5], None)),
    ({"note": {}}, "is damaged"),
    ({"seconds": "<img src=x onerror=window.pwned=1>"}, "is damaged"),
]


def test_lines_that_do_not_fit_are_refused_in_words(started: Start) -> None:
    given = content("de", "ja")
    page = started(given)
    marks = {"annotator": "Anna", "spans": [[0, 2, "hallucination"]], "cannot_tell": False, "note": "", "seconds": 1.0}
    first, second = ({**item["line"], **marks, "suggested": False} for item in given["items"])
    for changes, message in REFUSED:
        said = drop(page, second, changes if isinstance(changes, str) else {**first, **changes})
        assert said.startswith("1 answer restored")
        assert "Not taken: line 2 of marks.jsonl " in said
        assert message in said, changes
        assert page.inner_text("#progress").startswith("1 of 2 done")
    assert drop(page, *["no"] * 5, name="<b>.txt").endswith("; line 3 of <b>.txt is none of a saved file, and 2 more.")


# ------------------------------------------------------------------------------------------------------ where things are


@pytest.mark.parametrize("height", [640, 844])
def test_the_answer_and_the_reference_share_a_phone(started: Start, height: int) -> None:
    given = content("de", "ar", "ja")
    for item in given["items"]:
        item["line"]["answer"] = " ".join([item["line"]["answer"]] * 12)
        item["line"]["reference"] = "\n\n".join([item["line"]["reference"]] * 12)
    page = started(given, width=400, has_touch=True, is_mobile=True)
    page.set_viewport_size({"width": 400, "height": height})
    for _ in given["items"]:
        page.evaluate("scrollBy(0, 300)")  # in the midst of a long answer, and of a long reference
        page.evaluate("document.getElementById('reference').scrollTop = 500")
        boxes = {name: page.locator(name).bounding_box() for name in (".answer", "#reference", ".decision")}
        ends = {name: (box["y"], box["y"] + box["height"]) for name, box in boxes.items()}
        assert min(ends[".answer"][1], ends[".decision"][0]) - max(ends[".answer"][0], 0) > 0.3 * height
        assert min(ends["#reference"][1], height) - ends["#reference"][0] > 0.25 * height
        assert ends[".decision"][1] <= ends["#reference"][0]
        page.click("#nothing")


def test_the_reference_shows_where_it_has_most_words_of_the_sentence(started: Start) -> None:
    given = content("de", "hi", "ja")
    line = given["items"][0]["line"]
    line["reference"] = "Ein Absatz über etwas anderes, das hier nicht gefragt ist.\n\n" * 80 + line["reference"]
    page = started(given)
    near = page.locator("#reference .best").first
    assert near.text_content().startswith("Das von 1887 bis 1889 errichtete Bauwerk")
    page.mouse.click(*middle(page, "Zola"))
    assert "Entworfen haben ihn" in near.text_content()
    box, best = page.locator("#reference").bounding_box(), near.bounding_box()
    assert box["y"] <= best["y"] <= box["y"] + box["height"]
    assert page.locator("#reference").text_content() == line["reference"]
    page.click("#next")
    page.click("#next")
    press(page, "End")
    assert "高さは330メートル" in near.text_content()


def test_the_reference_is_searched(started: Start) -> None:
    page = started(content("de"))
    page.locator(".answer").focus()
    page.keyboard.press("/")
    page.keyboard.type("EMILE n")
    assert page.inner_text("#hits") == "1 of 1"
    assert page.locator("#reference mark").all_text_contents() == ["Émile N"]
    page.fill("#search", "eiffel")
    press(page, "Enter")
    assert page.inner_text("#hits") == "2 of 2"
    assert page.evaluate("document.querySelector('.here').nextSibling.textContent").startswith(". Entworfen")
    page.fill("#search", "<b>")
    assert page.inner_text("#hits") == "nowhere"
    press(page, "Escape ArrowRight Enter")
    assert marked(page) == ["Der"]


# --------------------------------------------------------------------------------------------------- looks, and hostility


def busy(page: Any) -> None:
    """A mark, a selection, a note and a search."""
    page.locator(".answer").first.focus()
    leftward = page.evaluate("getComputedStyle(document.activeElement).direction") == "rtl"
    arrow = "ArrowLeft" if leftward else "ArrowRight"
    press(page, f"4*{arrow} Shift+{arrow} Enter 4*{arrow} Shift+{arrow}")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("name", "categories"), [("spans", []), ("categories", CATEGORIES)])
def test_it_is_whole_at_any_width_and_axe_finds_no_fault(
    started: Start, name: str, categories: list[str], width: int, scheme: str
) -> None:
    page = started(content("ar", "de", categories=categories), name="", width=width, scheme=scheme)
    stages: list[tuple[str, Callable[[], Any]]] = [
        ("start", lambda: None),
        ("work", lambda: (sign_in(page, "Anna"), busy(page))),
        ("end", lambda: press(page, "2*Control+Enter")),
    ]
    for stage, go in stages:
        go()
        page.tab.check_quiet(f"marking-{name}-{stage}", width, scheme)
        page.tab.check_axe()


def test_hostile_texts_do_nothing(started: Start) -> None:
    texts = [text for name, text in HOSTILE.items() if name != "megabyte"]
    given = content(*["de"] * len(texts), title=HOSTILE["script"], instructions=HOSTILE["script"])
    for item, text in zip(given["items"], texts, strict=True):
        item["line"] |= {"question": text, "reference": text, "answer": text, "language": text[:20]}
    page = started(given, name=HOSTILE["handler"][:80], width=400)
    for text in texts:
        assert page.evaluate("document.querySelector('.answer').textContent.length") == units(text)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        page.locator(".answer").focus()
        press(page, "ArrowRight End Shift+Home Enter")
        page.click("#next")
    assert drop(page, HOSTILE["script"], name="<img src=x onerror=window.pwned=1>").startswith("0 answers restored.")
    assert [line["answer"] for line in saved(page)] == [text for text in texts if text.strip()]
    assert page.evaluate("typeof window.pwned") == "undefined"
    assert page.evaluate("document.querySelectorAll('script').length") == 2
    assert page.tab.said == []


# ------------------------------------------------------------------------------------------------ from a run to its rate


def test_from_the_demo_by_ten_marks_to_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Any) -> None:
    """What both READMEs show, typed as it stands there: the rate is the one that the marks give by hand."""
    shown = r"^lm-eval-grounded (.*marking/|score .* --marks marks_.*|report results/marked .*)"
    readmes = [(ROOT / name).read_text("utf-8") for name in ("README.md", "lm_eval_tasks/results/marks/README.md")]
    typed, other = (re.findall(shown, text, re.M) for text in readmes)
    assert typed == other
    names = {"MODEL": "sample__closed-book", "NAME": "Anna"}
    mark, score, report = (
        re.sub("MODEL|NAME", lambda m: names[m[0]], line).partition("#")[0].split() for line in typed
    )
    monkeypatch.chdir(tmp_path)
    answers = f"path={logged_runs.ANSWERS}"
    logged_runs.generate(tmp_path / "results", tasks="mfava_de", model="replay", model_args=answers)  # as `make demo`
    assert main(mark) == 0
    page = opened(tmp_path / "marking" / "marking.html").page
    sign_in(page, "Anna")
    for _ in range(9):
        drag(page, page.locator(".answer").first.text_content().split()[0])
        page.click("#next")
    with page.expect_download() as download:
        page.click("#save")
    download.value.save_as(download.value.suggested_filename)
    assert main(score) == 0
    (run,) = read_runs([tmp_path / "results" / "marked"])
    task = run.tasks["mfava_de"]
    by_hand = rate_by_hand(task, logged_runs.lines(tmp_path / "marks_mfava_de_Anna.jsonl"))
    rate = task.figure("marked_rate", "answer")
    assert rate[:4] == pytest.approx(by_hand.figure[:4])
    assert main(report) == 0
    headline = opened(tmp_path / "report.html").page.locator("table:has(.value)").first
    assert "Words that are made up, by annotators' marks" in headline.inner_text()
    figure = headline.locator(".value").first.inner_text().splitlines()[0]
    assert figure == f"{100 * rate.value:.1f}\N{NO-BREAK SPACE}%"
    assert headline.page.locator(".answer .people").count() > 0


def test_labels_by_keys_from_the_page_to_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    logged_runs.generate(tmp_path / "results", tasks="nomiracl_de")
    (folder,) = (path for path in (tmp_path / "results").iterdir() if path.is_dir())
    assert main(["mark", str(folder), "--kind", "labels", "--answers", "6", "-o", "labelling"]) == 0
    page = opened(tmp_path / "labelling" / "marking.html").page
    sign_in(page, "Anna")
    press(page, "n")
    page.click("#reference")
    press(page, "d Control+z")  # the keys work wherever nothing is typed
    assert page.inner_text("#state") == "Not done yet."
    page.click("button[data-label=answers]")
    page.reload()
    assert page.inner_text("#place") == "Answer 3 of 6"
    press(page, "a d a d")
    lines = saved(page, "#save-end")
    assert [line["label"] for line in lines] == ["neither", "answers", "answers", "declines", "answers", "declines"]
    assert drop(page, *lines) == "6 answers restored, of which 6 had been done here (Undo brings them back)."
    Path("labels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    assert main(["score", str(folder), "--marks", "labels.jsonl", "-o", "labelled"]) == 0
    assert main(["report", "labelled", "-o", "report.html"]) == 0
    report = opened(tmp_path / "report.html").page
    assert "by annotators' labels" in report.locator("table:has(.value)").first.inner_text()
    report.select_option("#by-kind", "differ")
    shown = report.locator(".document:visible .verdict-of").all_text_contents()
    assert shown
    assert all("annotators: " in text for text in shown)
