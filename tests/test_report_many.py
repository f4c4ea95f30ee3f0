"""The report of three models and more, on answers that NoMIRACL's authors released: the best, its equals, and languages."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from lxml import html

import lm_eval_grounded as g
from custom_metrics.relevance import ANSWER, NO_ANSWER
from custom_metrics.scores.balanced_error import balanced_error
from custom_metrics.statistics.figures import outcome
from lm_eval_tasks.cli import main
from lm_eval_tasks.results.board import Cell
from lm_eval_tasks.results.compare import compare_runs
from lm_eval_tasks.results.formats import as_text
from lm_eval_tasks.results.report import Report, write_report
from lm_eval_tasks.results.report.drawing import COLOURS, MARKERS, marker_style
from lm_eval_tasks.results.report.page.summary import Overview
from lm_eval_tasks.runs import Run, read_runs
from lm_eval_tasks.runs.run import with_cost
from tests.logged_runs import in_this_process, lines
from tests.made_runs import run, share, task
from tests.many_runs import labelled_runs
from tests.paired import compare_shares
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
    return Report.of(runs).overviews


def rows(overview: Overview) -> list[tuple[str, int | None, list[str]]]:
    def texts(cells: Sequence[Cell | None]) -> list[str]:
        shown = zip(cells, overview.shown, strict=True)
        return [as_text(cell.value, column.metric.unit) if cell else "" for cell, column in shown]

    return [(row.model, row.rank, texts(row.cells)) for row in overview.rows]


def wrong(folder: Path, task: str, subset: str) -> float:
    """The share of a subset's questions whose label is not that of the question: Invalid is wrong."""
    (path,) = folder.rglob(f"samples_{task}_2*.jsonl")
    rows = [row for row in lines(path) if row["filter"] == "robust" and row["doc"]["subset"] == subset]
    return fmean(row["filtered_resps"][0] != row["doc"]["label"] for row in rows)


def test_models_are_ranked_by_the_balanced_error(released: Path) -> None:
    runs = read_runs([released])
    (overview,) = overviews(runs)
    assert [column.metric.name for column in overview.shown] == ["balanced_error", "hallucination_rate", "error_rate"]
    assert rows(overview) == [
        ("gpt-4-azure", 1, ["19.7 %", "22.8 %", "15.5 %"]),
        ("gpt-3.5-turbo-azure", 2, ["24.3 %", "40.6 %", "7.3 %"]),
        ("Mixtral-8x7B-Instruct-v0.1", 2, ["27.3 %", "18.8 %", "35.8 %"]),
        ("llama-2-70b-chat", 4, ["50.1 %", "100.0 %", "0.2 %"]),
    ]
    assert [row.better_than for row in overview.rows] == ["2–4", "4", "4", ""]
    parts = [(task, subset) for task in ("nomiracl_de", "nomiracl_sw") for subset in ("relevant", "non_relevant")]
    for row in overview.rows:
        assert row.cells[0] is not None
        assert row.cells[0].figure.value == pytest.approx(fmean(wrong(released / row.model, *at) for at in parts))


def test_raised_numbers_are_explained_where_there_are_some(page: Any, released: Path) -> None:
    """In a sentence below the table: neither a phone nor paper shows the title of a number."""
    says = "Raised: the numbers of the models that are significantly worse."
    tables = page.xpath("//table[.//sup[@class='beats']]")
    assert len(tables) == 3  # the mean and two languages
    assert [table.getnext().text for table in tables] == 3 * [says]
    two = write_report(read_runs([released / MODELS[0], released / MODELS[3]]), released.parent / "two.html", 1)
    assert "Raised:" not in two.read_text("utf-8")


@pytest.mark.slow("replays the answers of every released model")
def test_every_page_has_the_same_ranks_for_all_released_models(shared: Path, hub: str, tmp_path: Path) -> None:
    """In two languages and in their mean, through the doors: Python, a folder's figures, a page."""
    answers, tasks = shared / "reference" / "nomiracl_outputs", {"de": "nomiracl_de", "sw": "nomiracl_sw"}
    with gzip.open(answers / "sw.jsonl.gz", "rt", encoding="utf-8") as stream:
        models = {json.loads(line)["model"] for line in stream}
    for model in sorted(models):
        path, runs = f"path={answers},model={model}", tmp_path / "runs"
        in_this_process([*tasks.values()], "replay", path, runs / model, metadata={"mirror": hub})
    comparison = g.compare(runs).result
    assert {*comparison.models} == models
    assert main(["report", str(runs), "-o", str(tmp_path / "site"), "--documents", "1"]) == 0
    rows = json.loads((tmp_path / "site" / "figures.json").read_text("utf-8"))["rows"]
    page = html.fromstring((tmp_path / "site" / "index.html").read_text("utf-8"))
    for column, name in (("mean", "nomiracl"), *tasks.items()):
        for metric in ("balanced_error", "hallucination_rate", "error_rate"):
            of_board = comparison.column(metric, name)
            assert of_board is not None
            ranks = {comparison.models[run]: cell.rank for run, cell in of_board.cells.items()}
            key = (column, f"{metric}, robust")
            assert {row["model"]: row["rank"] for row in rows if (row["column"], row["metric"]) == key} == ranks, key
            if metric == "balanced_error":
                place = "article[@class='overview']" if name == "nomiracl" else f"details[@id='{name}']"
                (table,) = page.xpath(f"//{place}/table[contains(@class, 'dots')]")
                shown = {row.xpath("string(.//bdi)"): row[0].get("data-sort") for row in table.xpath("./tbody/tr")}
                assert {model: int(rank) if rank else None for model, rank in shown.items()} == ranks, name


def test_a_language_has_its_own_best_equals_and_doubts(released: Path, page: Any) -> None:
    """Swahili: one that claims an answer to every question is last and has no rank."""
    (overview,) = overviews(read_runs([released]))
    assert [*overview.languages] == ["de", "sw"]
    swahili = overview.languages["sw"]
    assert rows(swahili) == [
        ("gpt-4-azure", 1, ["14.9 %", "8.5 %", "20.6 %"]),
        ("gpt-3.5-turbo-azure", 2, ["21.3 %", "32.9 %", "8.9 %"]),
        ("Mixtral-8x7B-Instruct-v0.1", 3, ["30.1 %", "12.2 %", "48.0 %"]),
        ("llama-2-70b-chat", None, ["50.0 %", "100.0 %", "0.0 %"]),
    ]
    assert [row.doubts for row in swahili.rows] == ["", "", "", "it claims to see an answer to every question"]
    assert (swahili.best, swahili.equals) == (swahili.rows[0], [])
    german = overview.languages["de"]
    assert german.rows[0].model == "gpt-4-azure"
    assert german.equals == ["Mixtral-8x7B-Instruct-v0.1", "gpt-3.5-turbo-azure"]

    (beside,) = page.xpath("//details[@class='by-language']//table[contains(@class, 'beside')]")
    assert beside.xpath("string(caption)") == "By language: Error rate (balanced)"
    assert [head.text_content() for head in beside.xpath("./thead//th")] == ["Model", "Mean", "German", "Swahili"]
    best = [" ".join(cell.text_content().split()) for cell in beside.xpath("./tbody/tr[1]/td")]
    assert best == ["19.7 % rank 1", "24.5 % rank 1", "14.9 % rank 1"]
    (part,) = page.xpath("//details[@id='nomiracl_sw']")
    assert part.xpath("string(summary)").strip() == "Swahili: gpt-4-azure"
    cells = [[cell.get("data-sort") for cell in row.xpath("./td")] for row in part.xpath(".//tbody/tr")]
    assert [cells[0][0], *cells[0][2:]] == ["1", None, str(21 / 246), str(51 / 248)]  # two of 250 are Invalid
    assert float(cells[0][1]) == pytest.approx((21 / 246 + 53 / 250) / 2)
    assert cells[-1] == ["", "0.5", None, "1.0", "0.0"]  # what is not known sorts last


def test_the_page_says_the_best_and_has_no_row_a_pair(page: Any) -> None:
    said = [" ".join(each.text_content().split()) for each in page.xpath("//header//p[starts-with(@class, 'finding')]")]
    assert said == [
        "NoMIRACL: gpt-4-azure has the lowest balanced error over nomiracl (mean of 2 tasks): 19.7 % (answers although no "
        "passage does: 22.8 %; misses an answer that is there: 15.5 %). Significantly worse: gpt-3.5-turbo-azure 24.3 %, "
        "Mixtral-8x7B-Instruct-v0.1 27.3 % and llama-2-70b-chat (it claims to see an answer to "
        "every question in 1 of 2 tasks) 50.1 %. No model is significantly better in either task.",
        "Best at a cost of 1 wrong refusal for a made-up answer: gpt-4-azure, 19.7 %; of 3: gpt-4-azure, 21.3 % (not "
        "significantly worse: Mixtral-8x7B-Instruct-v0.1); of 10: Mixtral-8x7B-Instruct-v0.1, 20.3 % (not significantly "
        "worse: gpt-4-azure; declining everything: 9.1 %).",
    ]
    (german,) = page.xpath("//details[@id='nomiracl_de']/p[@class='verdict']/text()")[:1]
    assert german.startswith("gpt-4-azure has the lowest balanced error in German: ")
    assert page.xpath("//section[@id='differences']//table") == []
    assert "no difference shown" not in page.xpath("string(//section[@id='differences'])")
    assert len(page.xpath("//article//figure")) == 1
    for tables in ("//table[contains(@class, 'dots')]", "//figure//table"):  # percent as everywhere on the page
        texts = [text.replace("\xa0", " ") for text in page.xpath(f"{tables}//td//text()")]
        assert any("19.7 %" in text or "22.8 %" in text for text in texts)
        assert [text for text in texts if re.fullmatch(r"0\.\d+", text)] == []


def test_without_answers_models_are_ordered_and_none_is_called_the_best() -> None:
    made = {"a": (9, 4), "b": (3, 8), "c": (5, 1), "d": None}
    runs = []
    for name, counts in made.items():
        rates = dict(zip(("hallucination_rate", "error_rate"), (share(n, 20) for n in counts or ()), strict=False))
        kinds = [outcome(bool(kind), number >= n) for kind, n in enumerate(counts or ()) for number in range(20)]
        figures = {"balanced_error": balanced_error.figure_of(kinds).as_json(), **rates} if counts else {}
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


def test_full_runs_come_first_and_those_of_a_limit_are_compared_below(two_models: Path, tmp_path: Path) -> None:
    """A few answers are no reason: requests fail now and then."""
    right = [NO_ANSWER if number % 2 else ANSWER for number in range(120)]
    made = {"good": right, "poor": right[:60] + right[1:61], "lacks some": right[:110], "few": right[:30]}
    labels = {name: {"nomiracl_de": of} for name, of in made.items()}
    folder = labelled_runs(two_models / "baseline-lexical", tmp_path / "runs", labels)
    first, second = overviews(read_runs([folder]))
    assert [(row.model, row.rank) for row in first.rows] == [("good", 1), ("lacks some", 1), ("poor", 3)]
    assert (first.apart, first.elsewhere) == ("", 1)
    assert [(row.model, row.rank) for row in second.rows] == [("few", None)]
    assert (second.apart, second.elsewhere, second.verdict) == ("30 of 120 documents", 0, None)
    labelled_runs(two_models / "baseline-lexical", folder, {"few, wrong": {"nomiracl_de": [*right[1:30], NO_ANSWER]}})
    first, second = overviews(read_runs([folder]))
    assert first.elsewhere == 2
    assert [(row.model, row.rank) for row in second.rows] == [("few", 1), ("few, wrong", 2)]
    page = html.fromstring(write_report(read_runs([folder]), tmp_path / "r.html").read_text("utf-8"))
    assert "2 runs were asked something else, and stand below" in page.text_content()
    assert page.xpath("//header//p[starts-with(@class, 'finding')]")[0].text_content().count("few") == 0


def test_domains_have_their_mean_first_as_languages_have() -> None:
    made = {f"mtragun_{domain}": share(n, 20) for n, domain in enumerate(("clapnq", "cloud", "fiqa", "govt"), 2)}
    tasks = [task(name, {"clarification_rate": figure}) for name, figure in made.items()]
    (overview,) = overviews([run("m", tasks)])
    assert (overview.family, overview.parts) == ("mtragun", "tasks")
    assert [*overview.languages] == ["clapnq", "cloud", "fiqa", "govt"]
    assert rows(overview) == [("m", None, ["17.5 %", "undefined", "undefined"])]


@pytest.mark.parametrize("number", [13, 20, 64])
def test_no_two_models_look_alike_and_the_page_shows_them_as_the_plots_do(number: int, tmp_path: Path) -> None:
    rates = {"balanced_error": (5, 40), "hallucination_rate": (1, 20), "error_rate": (4, 20)}
    figures = {"robust": {metric: share(*counts) for metric, counts in rates.items()}}
    names = [f"model-{place:02}" for place in range(number)]
    path = write_report([run(name, [task("nomiracl_de", figures, "de")]) for name in names], tmp_path / "r.html")
    page, looks = html.fromstring(path.read_text("utf-8")), {}
    for model in page.xpath("//tr/th/*[contains(@class, 'model')]"):
        (dot,) = model.xpath("./ancestor::tr//svg[@class='interval']/g")
        of_name, of_dot = (each.xpath(".//use/@href") for each in (model, dot))
        colours = {each.get("class").split()[-1] for each in (model, dot)}
        looks[model.text_content()] = (*colours, *of_name)
        assert (of_name, len(colours)) == (of_dot, 1)
    styles = {name: marker_style(place) for place, name in enumerate(names)}
    assert looks == {
        name: (f"m{COLOURS.index(style['color'])}", f"#look{[*MARKERS].index(style['marker'])}")
        for name, style in styles.items()
    }
    assert len({*looks.values()}) == number
    assert page.xpath("//svg/defs/path/@id") == [f"look{place}" for place in range(8)]


def test_a_balanced_error_is_compared_over_all_questions_of_both_kinds(two_models: Path) -> None:
    """Of each language, and of their mean; a made-up answer counts as often as it costs."""
    runs = [with_cost(run, 3) for run in read_runs([two_models])]
    tasks = runs[0].groups["nomiracl"]
    found = compare_runs(runs, ["nomiracl"], ["balanced_error"])
    strata: dict[str, list[Any]] = {}
    for name in tasks:
        of_runs = [run.tasks[name].answers() for run in runs]
        both = [{each.key: each.readings["robust"].values["balanced_error"] for each in of_run} for of_run in of_runs]
        for kind in (0, 1):
            pairs = [[of[key]["wrong"] for of in both] for key in both[0] if both[0][key]["answerable"] == kind]
            strata.setdefault(name, []).append(tuple(zip(*pairs, strict=True)))
    strata["nomiracl"] = [stratum for name in tasks for stratum in strata[name]]
    for name, of_task in strata.items():
        (row,) = found.select("balanced_error", name)
        expected = compare_shares(of_task, weights=[3, 1] * (len(of_task) // 2))
        assert row.result[:6] == pytest.approx(expected[:6])
        assert (row.tasks, row.result.n, row.only_first, row.only_second) == (len(of_task) // 2, 4 * len(of_task), 0, 0)
        assert row.result.method == "MOVER of Tango score intervals, p by inverting it"
        own = [fmean(run.tasks[each].figure("balanced_error", "robust").value for each in tasks) for run in runs]
        assert name != "nomiracl" or [row.cells[0].value, row.cells[1].value] == pytest.approx(own)


def test_the_markdown_has_a_table_of_each_metric(released: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(released), "--format", "markdown"]) == 0
    text = capsys.readouterr().out
    assert text.count("| no. ") == 3
    assert "is better by" not in text
