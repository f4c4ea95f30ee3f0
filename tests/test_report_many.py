"""The report of three models and more, on answers that NoMIRACL's authors released: the best, its equals, and languages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lxml import html

from lm_eval_tasks.cli import main
from lm_eval_tasks.results.compare import compare_runs
from lm_eval_tasks.results.leaderboard.entry import entry_of
from lm_eval_tasks.results.leaderboard.standings import sections_of
from lm_eval_tasks.results.report import write_report
from lm_eval_tasks.results.report.answers import caching_reader
from lm_eval_tasks.results.report.page import page_of
from lm_eval_tasks.results.report.page.overview import Overview
from lm_eval_tasks.runs import Run, labels, read_runs
from tests.logged_runs import in_this_process
from tests.made_runs import run, share, task
from tests.shared_once import SharedOnce

MODELS = ("llama-2-70b-chat", "Mixtral-8x7B-Instruct-v0.1", "gpt-3.5-turbo-azure", "gpt-4-azure")


@pytest.fixture(scope="session")
def released(shared: Path, hub: str, shared_once: SharedOnce) -> Path:
    """Runs of four models on ``nomiracl_de`` and ``nomiracl_sw``."""

    def make(folder: Path) -> None:
        for model in MODELS:
            answers = f"path={shared / 'reference' / 'nomiracl_outputs'},model={model}"
            in_this_process(["nomiracl_de", "nomiracl_sw"], "replay", answers, folder / model, metadata={"mirror": hub})

    return shared_once("released NoMIRACL answers", make)


@pytest.fixture(scope="session")
def page(released: Path, shared_once: SharedOnce) -> Any:
    """The page of the four, parsed."""
    folder = shared_once("report_many", lambda folder: write_report(read_runs([released]), folder / "report.html", 1))
    return html.fromstring((folder / "report.html").read_text("utf-8"))


def overviews(runs: list[Run]) -> list[Overview]:
    by_label = dict(zip(labels(runs), runs, strict=True))
    listed: list[Overview] = page_of(by_label, False, caching_reader(runs))["overviews"]
    return listed


def rows(overview: Overview) -> list[tuple[str, int | None, list[str]]]:
    return [(row.model, row.rank, [each.value if each else "" for each in row.headlines]) for row in overview.rows]


def test_models_are_ranked_by_the_balanced_error_as_on_the_leaderboard(released: Path) -> None:
    runs = read_runs([released])
    (overview,) = overviews(runs)
    assert [metric.measured.name for metric in overview.metrics] == [
        "balanced_error",
        "hallucination_rate",
        "error_rate",
    ]
    assert rows(overview) == [
        ("gpt-4-azure", 1, ["19.2 %", "22.8 %", "15.5 %"]),
        ("gpt-3.5-turbo-azure", 2, ["23.9 %", "40.6 %", "7.3 %"]),
        ("Mixtral-8x7B-Instruct-v0.1", 3, ["27.4 %", "19.1 %", "35.8 %"]),
        ("llama-2-70b-chat", 4, ["50.1 %", "100.0 %", "0.2 %"]),
    ]
    (section,) = sections_of([entry_of(each, "") for each in runs])
    column = section.summary.columns[0]
    ranked = {labels(runs)[row.entry]: row.cells[column] for row in section.summary.rows}
    for row in overview.rows:
        headline, cell = row.headlines[0], ranked[row.model]
        assert headline is not None
        assert (row.rank, headline.figure.value) == (cell.rank, pytest.approx(cell.figure.value))
        assert (headline.figure.low, headline.figure.high) == pytest.approx((cell.figure.low, cell.figure.high))


def test_a_language_has_its_own_best_equals_and_doubts(released: Path, page: Any) -> None:
    """Swahili: one that claims an answer to every question is last and has no rank."""
    (overview,) = overviews(read_runs([released]))
    assert [*overview.languages] == ["de", "sw"]
    swahili = overview.languages["sw"]
    assert rows(swahili) == [
        ("gpt-4-azure", 1, ["14.6 %", "8.5 %", "20.6 %"]),
        ("gpt-3.5-turbo-azure", 2, ["20.9 %", "32.9 %", "8.9 %"]),
        ("Mixtral-8x7B-Instruct-v0.1", 3, ["30.1 %", "12.2 %", "48.0 %"]),
        ("llama-2-70b-chat", None, ["50.0 %", "100.0 %", "0.0 %"]),
    ]
    assert [row.doubts for row in swahili.rows] == ["", "", "", "it claims to see an answer to every question"]
    assert (swahili.best, swahili.beaten, swahili.equals) == (swahili.rows[0], 3, [])
    german = overview.languages["de"]
    assert (german.rows[0].model, german.beaten, german.equals) == (
        "gpt-4-azure",
        1,
        ["Mixtral-8x7B-Instruct-v0.1", "gpt-3.5-turbo-azure"],
    )

    (part,) = page.xpath("//details[@id='nomiracl_sw']")
    assert part.xpath("string(summary)").strip() == "Swahili: gpt-4-azure"
    cells = [[cell.get("data-sort") for cell in row.xpath("./td")] for row in part.xpath(".//tbody/tr")]
    assert cells[0] == ["1", str((21 / 246 + 51 / 248) / 2), None, str(21 / 246), str(51 / 248)]
    assert cells[-1] == ["", "0.5", None, "1.0", "0.0"]  # what is not known sorts last


def test_the_page_says_the_best_and_shows_pairs_as_matrices(page: Any) -> None:
    (article,) = page.xpath("//article[@class='overview']")
    said = [
        " ".join(each.text_content().split()) for each in article.xpath("./div[@class='seen']//p[@class='verdict']")
    ]
    assert said == [
        "Best by “Errs, either way”: gpt-4-azure, 19.2 %; Claims an answer that no passage holds: 22.8 %; "
        "Overlooks an answer that a passage holds: 15.5 %.",
        "Significantly better than every other model.",
    ]
    headings = page.xpath("//section[@id='differences']/details[not(@class)]/summary/text()")
    assert [heading.partition(":")[0] for heading in headings] == [
        "Errs, either way",
        "Claims an answer that no passage holds",
        "Overlooks an answer that a passage holds",
    ]
    for table in page.xpath("//section[@id='differences']//table"):
        assert len(table.xpath("./tbody/tr")) == len(MODELS)  # no row a pair
    assert "no difference shown" not in page.xpath("string(//section[@id='differences'])")
    assert len(page.xpath("//figure")) == len(page.xpath("//article//figure")) == 1


def test_without_answers_models_are_ordered_and_none_is_called_the_best() -> None:
    made = {"a": (9, 4), "b": (3, 8), "c": (5, 1), "d": None}
    runs = []
    for name, counts in made.items():
        figures = {"hallucination_rate": share(counts[0], 20), "error_rate": share(counts[1], 20)} if counts else {}
        runs.append(run(name, [task("nomiracl_de", {"robust": figures}, "de"), task("mfava_de", {}, "de")]))
    first, second = overviews(runs)
    assert rows(first) == [
        ("c", None, ["15.0 %", "25.0 %", "5.0 %"]),
        ("b", None, ["27.5 %", "15.0 %", "40.0 %"]),
        ("a", None, ["32.5 %", "45.0 %", "20.0 %"]),
        ("d", None, ["undefined"] * 3),
    ]
    assert (first.best, first.equals, first.languages) == (None, [], {})
    assert [row.rank for row in second.rows] == [None] * 4


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        ("wrong>late late", {"balanced_error": ("wrong", "late"), "wrong": ("wrong",), "late": ("late",)}),
        ("right>late late", {"right": ("right",), "late": ("late",)}),  # one of them is no rate of errors
        ("wrong>late", {"wrong": ("wrong",)}),
        ("wrong late", {"wrong": ("wrong",), "late": ("late",)}),
    ],
)
def test_two_error_rates_that_are_traded_have_a_balanced_error(names: str, parts: dict[str, tuple[str, ...]]) -> None:
    metrics = []
    for name in names.split():
        own, _, price = name.partition(">")
        metrics.append(Metric(own, "defined_share", own == "right", traded_against=price))
    assert {metric.name: names for metric, names in parts_of(metrics).items()} == parts


def test_the_balanced_error_is_compared_over_both_rates(released: Path) -> None:
    runs = read_runs([released])
    with_it = compare_runs(runs, refuse=False)
    assert not [*compare_runs(runs[:2], refuse=False).select("balanced_error")]
    assert [*with_it.select("balanced_error")]
    for row in with_it.select("balanced_error"):
        pair = [
            next(
                each for each in with_it.select(name, row.task) if (each.first, each.second) == (row.first, row.second)
            )
            for name in ("hallucination_rate", "error_rate")
        ]
        assert row.difference == pytest.approx(sum(each.difference for each in pair) / 2)
        assert (row.n, row.tasks) == (sum(each.n for each in pair), pair[0].tasks)
        assert row.low < row.difference < row.high


def test_the_markdown_has_a_table_of_each_metric(released: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(released), "--format", "markdown"]) == 0
    text = capsys.readouterr().out
    assert text.count("| no. ") == 3
    assert "is better by" not in text
