"""What a person does on the page that answers are marked on, by Playwright: signs in, drags, presses, saves and drops."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks.results.marks.page import marking_page
from tests.browser import Tab

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
