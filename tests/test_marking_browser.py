"""Marking answers in a browser: Debian's Chromium, driven by Playwright (``make test-report``)."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest

from lm_eval_tasks.results.marks.lines import read_marks
from tests.marking_pages import TEXTS, content, with_answers
from tests.marking_tab import CATEGORIES, Start, drag, marked, middle, parts, press, saved, sign_in

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

MOUSE = [  # what is dragged over, and the whole words of it
    ("de", "urde von 18", "wurde von 1885"),
    ("ar", "فل بين سن", "إيفل بين سنة"),
    ("hi", "मिल ज़ो", "एमिल ज़ोला"),
    ("ja", "成しました。🗼設", "完成しました。🗼設計"),
]


@pytest.mark.parametrize(("language", "part", "words"), MOUSE)
def test_marked_by_mouse_reloaded_saved_to_the_character(started: Start, language: str, part: str, words: str) -> None:
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
