"""The pages of a leaderboard in a browser, as those of a report: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks.results.leaderboard import write_leaderboard
from tests.browser import SCHEMES, WIDTHS
from tests.changed_runs import change_results
from tests.shared_once import SharedOnce

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

NAMES = ('<script>window.pwned = 1</script><img src=x onerror="window.pwned = 1">', "org/" + "m" * 300, "نموذج/اللغة")


@pytest.fixture(scope="module")
def site(two_models: Path, shared_once: SharedOnce) -> Path:
    """A site of five runs, three of them with names that are hard to show, and a run that cannot be read."""

    def make(folder: Path) -> None:
        runs = Path(shutil.copytree(two_models, folder / "runs"))
        for number, name in enumerate(NAMES):
            run = Path(shutil.copytree(runs / "baseline-answer", runs / f"run{number}"))
            change_results(run, lambda content, name=name: content.update(model_name=name))
        (runs / "damaged").mkdir()
        (runs / "damaged" / "results_2026-01-01T00-00-00.0.json").write_text("{")
        write_leaderboard(runs, folder / "site")

    return shared_once("leaderboard site", make) / "site"


def pages_of(site: Path) -> dict[str, Path]:
    return {"index": site / "index.html", "run": sorted((site / "runs").glob("run-*.html"))[0]}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["index", "run"])
def test_it_opens_without_a_request_an_error_or_an_overflow(
    opened: Any, site: Path, name: str, width: int, scheme: str
) -> None:
    opened(pages_of(site)[name], width, scheme).check_quiet(f"leaderboard-{name}", width, scheme)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ["index", "run"])
def test_axe_finds_no_fault(opened: Any, site: Path, name: str, scheme: str) -> None:
    opened(pages_of(site)[name], 1400, scheme).check_axe()


def test_a_column_is_ordered_by_the_keyboard(opened: Any, site: Path) -> None:
    page = opened(site / "index.html").page
    table = page.locator("section:has(h2:text-is('clapnq_gold')) table")
    values = "found => found.map(row => Number(row.cells[1].dataset.sort))"
    head = table.locator("thead th").nth(1)
    head.locator("button").focus()
    page.keyboard.press("Enter")
    best_first = table.locator("tbody tr").evaluate_all(values)
    assert head.get_attribute("aria-sort") == "ascending"  # of an error, of which less is better
    assert best_first == sorted(best_first)
    assert best_first[0] < best_first[-1]
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert table.locator("tbody tr").evaluate_all(values) == best_first[::-1]
    table.locator("thead th").nth(0).locator("button").press("Enter")
    assert head.get_attribute("aria-sort") is None
    names = table.locator("tbody th a:first-child").all_inner_texts()
    assert len({*names}) == 5


def test_without_javascript_every_table_is_there(opened: Any, site: Path) -> None:
    page = opened(site / "index.html", java_script_enabled=False).page
    assert page.locator("table.sortable").count() == 7  # an overview, four summaries, two by language
    assert page.locator("th button").count() == 0
    assert page.get_by_text("no results file, or a damaged one").count() == 1


def test_rows_are_searched_by_name(opened: Any, site: Path) -> None:
    page = opened(site / "index.html").page
    shown = page.locator("section:has(h2:text-is('Models')) tbody tr:visible th bdi")
    assert shown.count() == 5
    page.get_by_label("Show only models with").fill(" LEXICAL")
    assert shown.all_text_contents() == ["lm-eval-grounded/baseline-lexical"]
    assert " of " in page.get_by_role("status").text_content()
    page.get_by_label("Show only models with").fill("")
    assert shown.count() == 5


def test_one_language_is_shown_alone_its_best_model_first(opened: Any, site: Path) -> None:
    page = opened(site / "index.html").page
    page.get_by_label("Language").select_option(label="Persian")
    shown = page.locator("details[open] table:visible").first
    heads = shown.locator("thead th:visible")
    assert {each.split("\n")[0] for each in heads.all_inner_texts()[1:]} == {"Persian"}
    assert heads.nth(1).get_attribute("aria-sort") == "ascending"
    assert shown.locator("tbody th bdi").first.text_content() == "lm-eval-grounded/baseline-lexical"
    page.get_by_label("Language").select_option("")
    assert page.locator("details[open] table").count() == 0
