"""The README's pictures of pages: ``python -m tests.environment.page_picture PAGE FOLDER NAME`` (``make picture``)."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

SIZE = {"width": 1100, "height": 860}
"""Of the window, in CSS pixels; the picture holds what is seen without scrolling."""


def main(page: Path, folder: Path, name: str) -> None:
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"])
        for scheme in ("light", "dark"):
            tab = browser.new_context(viewport=SIZE, color_scheme=scheme).new_page()
            tab.goto(page.resolve().as_uri())
            tab.screenshot(path=folder / f"{name}-{scheme}.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
