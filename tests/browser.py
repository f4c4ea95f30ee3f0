"""Debian's Chromium without a window, driven by Playwright: what the tests of pages open them with.

Playwright runs one loop in a thread, so that one browser serves all test files of a session.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

WIDTHS = (1400, 400)
SCHEMES = ("light", "dark")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="no Playwright: pip install 'lm-eval-grounded[browser]'"
    )
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if not path:
        pytest.skip("no Chromium: apt-get install chromium, or name one with CHROMIUM=PATH")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


class Tab:
    """A page that is open, with everything that it asked for and complained of.

    Attributes:
        page: of Playwright.
        asked: addresses of its requests.
        said: messages of its console, and its errors.
        seconds: of the processor, until it was loaded.
    """

    def __init__(self, context: Any, path: Path) -> None:
        self.asked: list[str] = []
        self.said: list[str] = []
        self.address = path.as_uri()
        self.page = context.new_page()
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        session = context.new_cdp_session(self.page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.page.goto(self.address)
        measured = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
        self.seconds: float = measured["TaskDuration"]

    def check_quiet(self, name: str, width: int, scheme: str) -> None:
        """Nothing overflows, nothing is asked for or complained of; SCREENSHOTS names a folder for a picture."""
        assert self.page.evaluate("document.documentElement.scrollWidth") <= width
        assert self.asked == [self.address]
        assert self.said == []
        assert self.page.evaluate("typeof window.pwned") == "undefined"
        if shots := os.environ.get("SCREENSHOTS"):
            self.page.screenshot(path=f"{shots}/{name}-{width}-{scheme}.png")

    def check_axe(self) -> None:
        axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe: pip install '.[browser]'")
        violations = axe.Axe().run(self.page).response["violations"]
        assert [(each["id"], each["impact"], each["nodes"][0]["html"][:200]) for each in violations] == []

    def shown(self) -> list[str]:
        """The ids of the documents that are not filtered away."""
        ids: list[str] = self.page.eval_on_selector_all(
            "details.document:not([hidden])", "found => found.map(e => e.id)"
        )
        return ids


@pytest.fixture
def opened(chromium: Any) -> Iterator[Any]:
    contexts = []

    def open_(path: Path, width: int = 1400, scheme: str = "light", **options: Any) -> Tab:
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **options)
        context.set_default_timeout(300_000)  # milliseconds: a machine that is busy is no fault of the page
        contexts.append(context)
        return Tab(context, path)

    yield open_
    for context in contexts:
        context.close()
