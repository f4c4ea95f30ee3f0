"""The page of a report in a browser: Debian's Chromium without a window, driven by Playwright (``make test-report``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks.results.report import write_report
from tests.browser import SCHEMES, WIDTHS, Tab
from tests.made_runs import run, share, task
from tests.report_runs import HOSTILE
from tests.test_report_page import big_page, hostile_many, hostile_page, page, pair_page  # noqa: F401

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

WITHIN = 2.0
"""Seconds of the processor in which a page is there to be read; the clock would measure what else the machine does."""


def open_everything(tab: Tab) -> None:
    tab.page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["page", "pair_page", "hostile_page", "hostile_many", "big_page"])
def test_it_opens_without_a_request_an_error_or_an_overflow(
    opened: Any, name: str, width: int, scheme: str, request: pytest.FixtureRequest
) -> None:
    tab = opened(request.getfixturevalue(name), width, scheme)
    if name != "big_page":
        open_everything(tab)
    tab.check_quiet(name, width, scheme)
    assert tab.seconds < WITHIN


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [("page", 1400, "light"), ("pair_page", 400, "dark"), ("hostile_page", 400, "light")],  # seconds each
)
def test_axe_finds_no_fault(opened: Any, name: str, width: int, scheme: str, request: pytest.FixtureRequest) -> None:
    tab = opened(request.getfixturevalue(name), width, scheme)
    tab.page.evaluate("""
        for (const task of ['nomiracl_ar', 'clapnq_rag', 'mfava_de'])
            document.querySelectorAll(`[data-task=${task}], [data-task=${task}] details:nth-of-type(-n+3)`)
                .forEach(each => { each.open = true });
        document.querySelectorAll('#provenance h3 + details').forEach(each => { each.open = true });
    """)
    tab.check_axe()


def test_an_example_of_a_card_opens_its_document(opened: Any, page: Path) -> None:  # noqa: F811
    tab = opened(page)
    link = tab.page.locator(".examples a").first
    link.click()
    document = tab.page.locator(f"[id='{link.get_attribute('href')[1:]}']")
    assert document.evaluate("found => found.open && found.closest('.task').open")
    assert link.text_content().removesuffix("…") in " ".join(document.locator(".question").text_content().split())


def test_the_keyboard_reaches_everything(opened: Any, page: Path) -> None:  # noqa: F811
    tab = opened(page)
    tab.page.keyboard.press("Tab")
    assert tab.page.evaluate("document.activeElement.className") == "skip"
    assert tab.page.evaluate("document.activeElement.getBoundingClientRect().top") >= 0  # seen once it has the focus
    tab.page.keyboard.press("Enter")
    assert tab.page.evaluate("location.hash") == "#summary"
    summary = tab.page.locator("#nomiracl_ar-1 > summary")
    summary.focus()
    tab.page.keyboard.press("Enter")
    assert tab.page.locator("#nomiracl_ar-1 .passages").is_visible()
    assert tab.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_documents_are_filtered(opened: Any, page: Path) -> None:  # noqa: F811
    tab = opened(page)
    everything = tab.shown()
    tab.page.select_option("#by-task", "task:mfava_de")
    assert tab.shown() == [f"mfava_de-{number}" for number in range(1, 9)]
    assert tab.page.inner_text("#found") == f"8 of {len(everything)} documents on this page match."
    assert tab.page.locator("details.task:not([hidden])").count() == 1

    tab.page.select_option("#by-kind", "hallucinated")
    (document,) = tab.shown()
    model = tab.page.locator(f"#{document} .answer[data-kinds~=hallucinated]").get_attribute("data-model")
    tab.page.select_option("#by-model", model)
    assert tab.shown() == [document]
    tab.page.select_option("#by-model", "1" if model == "0" else "0")
    assert tab.shown() == []  # the other model's answer to it is none of the most hallucinated

    tab.page.click("#clear")
    assert tab.shown() == everything
    assert tab.page.inner_text("#found") == ""
    tab.page.select_option("#by-task", "benchmark:clapnq")
    assert {each.rpartition("-")[0] for each in tab.shown()} == {"clapnq_gold", "clapnq_rag"}
    for kind in ("wrong", "abstained"):
        tab.page.select_option("#by-kind", kind)
        ids = tab.shown()
        assert ids
        assert all(tab.page.locator(f"#{each} .answer[data-kinds~={kind}]").count() for each in ids)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("kölner fertiggestellt wann", {"nomiracl_de"}),
        ("KOLNER fertiggestellt wann", {"nomiracl_de"}),  # marks and capitals make no difference
        ("دجلة روافد", {"mfava_ar"}),
        ("no such words anywhere", set()),
        ("<script>", set()),
    ],
)
def test_documents_are_searched(opened: Any, page: Path, words: str, expected: set[str]) -> None:  # noqa: F811
    tab = opened(page)
    tab.page.fill("#search", words)
    tab.page.locator("#found", has_text="match").wait_for()
    assert {each.rpartition("-")[0] for each in tab.shown()} == expected
    for each in tab.shown():
        assert tab.page.locator(f"#{each}").is_visible()  # its task is open


def test_documents_are_put_in_order(opened: Any, big_page: Path) -> None:  # noqa: F811
    tab = opened(big_page)
    tab.page.select_option("#by-order", "share")
    shares = tab.page.eval_on_selector_all(
        "[data-task=mfava_tr] > .document", "found => found.map(each => Number(each.dataset.share))"
    )
    assert len(shares) >= 4
    assert shares == sorted(shares, reverse=True)


def test_tables_are_sorted(opened: Any, page: Path) -> None:  # noqa: F811
    tab = opened(page)
    tab.page.locator("#provenance summary", has_text="NoMIRACL").first.click()
    table = tab.page.locator("table.numbers").first
    for direction, backwards in (("ascending", False), ("descending", True)):
        table.get_by_role("button", name="Value").click()
        values = table.evaluate("table => Array.from(table.tBodies[0].rows, row => Number(row.cells[4].dataset.sort))")
        assert values == sorted(values, reverse=backwards)
        assert table.locator("th").nth(4).get_attribute("aria-sort") == direction


def test_a_language_is_opened_by_its_link_and_sorted_by_the_keyboard(opened: Any, page: Path) -> None:  # noqa: F811
    tab = opened(page)
    tab.page.goto("about:blank")
    tab.page.goto(f"{tab.address}#nomiracl_sw")
    table = tab.page.locator("#nomiracl_sw table")
    assert table.is_visible()
    values = "table => Array.from(table.tBodies[0].rows, row => row.cells[2].dataset.sort)"
    best, worst = table.evaluate(values)
    button = table.get_by_role("button", name="Error rate (balanced)")
    button.focus()
    for direction in ("ascending", "descending"):
        tab.page.keyboard.press("Enter")
        assert table.locator("th[aria-sort]").get_attribute("aria-sort") == direction
        assert table.evaluate(values) == ([best, worst] if direction == "ascending" else [worst, best])


def test_documents_are_flagged_by_the_keyboard_kept_and_saved(opened: Any, page: Path) -> None:  # noqa: F811
    tab = opened(page)
    assert not tab.page.locator("#save-flags").is_visible()
    tab.page.goto("about:blank")
    tab.page.goto(f"{tab.address}#nomiracl_de-1")
    note = 'passage 3 answers it </script><img src=x onerror="window.pwned = 1">'
    tab.page.locator("#nomiracl_de-1 .flag input").first.focus()
    tab.page.keyboard.press("Space")
    tab.page.keyboard.press("Tab")
    tab.page.keyboard.insert_text(note)
    tab.page.reload()
    assert tab.page.locator("details.flagged").evaluate_all("found => found.map(e => e.id)") == ["nomiracl_de-1"]
    with tab.page.expect_download() as download:
        tab.page.get_by_role("button", name="Save flagged (1)").press("Enter")
    (entry,) = json.loads(download.value.path().read_text("utf-8"))
    key = tab.page.locator("#nomiracl_de-1 .key").text_content()
    models = ["lm-eval-grounded/baseline-answer", "lm-eval-grounded/baseline-lexical"]
    assert entry == {"task": "nomiracl_de", "document": key, "models": models, "note": note}
    tab.page.locator("#nomiracl_de-1 .flag input").first.uncheck()
    assert not tab.page.locator("#save-flags").is_visible()
    assert tab.said == []


def test_flags_last_as_long_as_a_page_that_may_keep_nothing(opened: Any, page: Path) -> None:  # noqa: F811
    tab = opened(page)
    tab.page.add_init_script("Object.defineProperty(window, 'localStorage', { get() { throw new Error('no') } })")
    tab.page.goto(f"{tab.address}#nomiracl_de-1")
    tab.page.reload()
    tab.page.locator("#nomiracl_de-1 .flag input").first.check()
    assert tab.page.get_by_role("button", name="Save flagged (1)").is_visible()
    assert tab.said == []


def test_a_link_opens_its_document(opened: Any, page: Path) -> None:  # noqa: F811
    tab = opened(page)
    tab.page.goto("about:blank")
    tab.page.goto(f"{tab.address}#mfava_ar-2")
    assert tab.page.locator("#mfava_ar-2 .answers").is_visible()


def test_without_script_everything_is_there(opened: Any, pair_page: Path) -> None:  # noqa: F811
    tab = opened(pair_page, java_script_enabled=False)
    assert not tab.page.locator(".filters").is_visible()
    assert tab.page.locator("#nomiracl table").is_visible()
    assert tab.page.locator("#plots .interval").first.is_visible()
    tab.page.locator("[data-task=clapnq_rag] > summary").click()
    tab.page.locator("#clapnq_rag-1 > summary").click()
    assert tab.page.locator("#clapnq_rag-1 .passages").is_visible()


def test_plots_stand_below_each_other_on_a_phone(opened: Any, page: Path) -> None:  # noqa: F811
    for width, across in ((400, 1), (1280, 3)):
        tab = opened(page, width)
        tab.page.locator("#plots summary").first.click()  # of three models they are folded
        panels = tab.page.locator("#plot-nomiracl_intervals .panel")
        boxes = [panel.bounding_box() for panel in panels.all()]
        assert len([box for box in boxes if box["y"] == boxes[0]["y"]]) == across
        assert all(box["x"] + box["width"] <= width for box in boxes)


def test_the_numbers_of_a_plot_fit_beside_its_examples(opened: Any, tmp_path: Path) -> None:
    rates = [{"hallucination_rate": share(465 - n, 465), "error_rate": share(460 + n, 560)} for n in range(11)]
    runs = [
        run(
            f"Mixtral-8x7B-Instruct-v0.{n}",
            [task(f"nomiracl_{code}", {"robust": of_run}, code) for code in ("de", "sw")],
        )
        for n, of_run in enumerate(rates)
    ]
    tab = opened(write_report(runs, tmp_path / "report.html"), 1280)
    open_everything(tab)
    table = tab.page.locator("#plot-nomiracl_trade_off .scroll")
    assert table.evaluate("each => each.scrollWidth - each.clientWidth") == 0
    assert table.bounding_box()["width"] < 600


def test_right_to_left_texts_begin_at_the_right(opened: Any, page: Path) -> None:  # noqa: F811
    for width in WIDTHS:
        tab = opened(page, width)
        tab.page.goto(f"{tab.address}#nomiracl_ar-1")
        tab.page.reload()
        text = tab.page.locator("#nomiracl_ar-1 .passages .text").first
        assert text.evaluate("each => getComputedStyle(each).direction") == "rtl"
        marker = tab.page.locator("#nomiracl_ar-1 .passages").bounding_box()
        box = text.bounding_box()
        assert marker["x"] + marker["width"] - (box["x"] + box["width"]) < 60


def test_hidden_marks_of_direction_stay_in_their_answer(opened: Any, hostile_page: Path) -> None:  # noqa: F811
    tab = opened(hostile_page)
    texts = tab.page.locator(".text", has_text="isolate without an end")
    assert texts.count() > 0
    assert texts.first.evaluate("each => getComputedStyle(each).unicodeBidi") in ("plaintext", "isolate")


def test_a_hallucinated_part_is_marked_without_colour(opened: Any, page: Path) -> None:  # noqa: F811
    tab = opened(page)
    mark = tab.page.locator("#documents .answer mark").first
    assert mark.evaluate("each => getComputedStyle(each).textDecorationLine") == "underline"
    assert mark.text_content().startswith("[hallucinated, ")
    assert mark.get_attribute("title").startswith("hallucinated: ")


def test_it_prints_what_is_open(opened: Any, page: Path, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(page, scheme="dark")
    tab.page.goto(f"{tab.address}#mfava_ar-1")
    tab.page.reload()
    tab.page.emulate_media(media="print")
    assert not tab.page.locator(".filters").is_visible()
    assert tab.page.locator("#mfava_ar-1 .answers").is_visible()
    assert not tab.page.locator("#mfava_ar-2 .answers").is_visible()
    assert tab.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    printed = tab.page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert printed[:5] == b"%PDF-"
    assert len(printed) > 100_000


def test_hostile_answers_run_nothing_when_they_are_opened(opened: Any, hostile_page: Path) -> None:  # noqa: F811
    tab = opened(hostile_page)
    open_everything(tab)
    tab.page.mouse.move(300, 300)
    tab.page.fill("#search", HOSTILE["attribute"])
    tab.page.locator("#found", has_text="match").wait_for()
    assert tab.page.evaluate("typeof window.pwned") == "undefined"
    assert tab.page.evaluate("document.querySelectorAll('script').length") == 1
    assert tab.said == []
