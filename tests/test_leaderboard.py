"""`leaderboard`: a folder of runs as a static page, each run read once, with hostile names and damaged files among them."""

from __future__ import annotations

import csv
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lxml import html

from lm_eval_tasks.cli import main
from lm_eval_tasks.data.sources import MissingSource
from lm_eval_tasks.results.leaderboard import write_leaderboard
from lm_eval_tasks.results.leaderboard.entry import entry_of
from lm_eval_tasks.runs import read_runs
from tests.changed_runs import change_results, change_samples, few_tasks
from tests.logged_runs import in_this_process

HOSTILE = [
    '</title><script>alert(1)</script><img src=x onerror="alert(2)">',
    "org/\u202egnp.exe \u2066model",
    "org/" + "m" * 300,
    "{{ 7 * 7 }}{% raw %}",
    "a\x00b\nc\td",
    "نموذج/اللغة",
]


@pytest.fixture
def folder(two_models: Path, tmp_path: Path) -> Path:
    """A folder of two runs that may be changed."""
    return few_tasks(two_models, tmp_path / "runs", ["clapnq_gold", "clapnq_rag", "mfava_de", "nomiracl_de"])


def named(run: Path, model: str) -> None:
    change_results(run, lambda content: content.update(model_name=model))


def another(folder: Path, name: str) -> Path:
    """A copy of one of the runs, by another model."""
    run = Path(shutil.copytree(folder / "baseline-answer", folder / name))
    named(run, name)
    return run


def page_of(index: Path) -> Any:
    return html.fromstring(index.read_bytes())


def tables(page: Any, family: str) -> list[Any]:
    (section,) = page.xpath(f"//section[h2[normalize-space(text())='{family}']]")
    return list(section.iter("table"))


def cells(table: Any) -> dict[str, dict[str, tuple[float, str, str]]]:
    """Model to column to value, rank and bounds. A column is called by its metric, and in a table by language by both."""
    heads = [
        (head.get("data-name"), *(each.text.partition(",")[0] for each in head[-1:]))
        for head in table.xpath("./thead/tr/th")[1:]
    ]
    columns = [" ".join(head) if table.xpath("./ancestor::details") else head[-1] for head in heads]
    return {
        row.xpath("string(./th//bdi)"): {
            column: (
                float(cell.get("data-sort")),
                cell.xpath("string(.//span[starts-with(@class, 'rank')])"),
                cell.xpath("string(.//span[@class='bounds'])"),
            )
            for column, cell in zip(columns, row.xpath("./td"), strict=True)
            if cell.get("data-sort")
        }
        for row in table.xpath("./tbody/tr")
    }


# ---------------------------------------------------------------------------------------------------------------- the page


def test_models_by_benchmark_and_language_with_bounds_and_ranks(two_models: Path, tmp_path: Path) -> None:
    site = write_leaderboard(two_models, tmp_path / "site")
    assert (site.runs, site.updated, [*site.unreadable]) == (2, 2, [])
    page = page_of(site.index)
    assert [heading.text.strip() for heading in page.iter("h2")] == [
        "Models",
        "clapnq_gold",
        "clapnq_rag",
        "mfava",
        "nomiracl",
    ]
    runs = {run.model: run for run in read_runs([two_models])}

    summary, both = tables(page, "nomiracl")
    assert both.find("caption/span").text.strip() == "balanced_error and hallucination_rate and error_rate, robust"
    assert len(both.xpath("./thead/tr/th")) == 1 + 3 * 18
    means, found = cells(summary), cells(both)
    assert [*means["lm-eval-grounded/baseline-lexical"]] == ["balanced_error", "hallucination_rate", "error_rate"]
    assert [*means] == [*found]
    assert [*found] == ["lm-eval-grounded/baseline-lexical", "lm-eval-grounded/baseline-answer"]  # the best first
    unknown = both.xpath(".//td/span/text()")
    assert "not measurable (5 to 70 %)" in unknown  # one question of four
    for model, run in runs.items():
        for metric in ("balanced_error", "hallucination_rate", "error_rate"):
            known = run.tasks["nomiracl_de"].figure(metric, "robust")
            if known.high - known.low <= 0.5:
                value, _, bounds = found[model][f"de {metric}"]
                assert (value, bounds) == (known.value, f"{100 * known.low:.1f} to {100 * known.high:.1f} %")
            else:
                assert f"de {metric}" not in found[model]
            mean = run.group_results["nomiracl"][f"{metric},robust"]
            assert means[model][metric][0] == pytest.approx(mean)
    (overview,) = page.xpath("//section[h2='Models']//table")
    assert {model: row["balanced_error"] for model, row in cells(overview).items()} == {
        model: row["balanced_error"] for model, row in means.items()
    }

    (gold,) = tables(page, "clapnq_gold")
    heads = "balanced_error unanswerable_accuracy answerable_abstention_rate rougeL recall rougeLp".split()
    assert [*next(iter(cells(gold).values()))] == heads


def test_a_run_that_declines_everything_is_marked_and_leads_nowhere(folder: Path, tmp_path: Path) -> None:
    """Best by one rate and worst by the other: no rank, no green, behind the others, with the reason beside its name."""
    name = "declines"

    def declining(content: dict[str, Any]) -> None:
        figures = content["configs"]["clapnq_gold"]["metadata"]["figures"]["answer"]
        for metric in ("unanswerable_accuracy", "answerable_abstention_rate"):
            figures[metric] |= {"value": 1.0, "low": 0.9, "high": 1.0}

    run = another(folder, name)
    change_results(run, declining)
    change_samples(run, "clapnq_gold", lambda rows: [{**row, "resps": [["unanswerable"]]} for row in rows])
    page = page_of(write_leaderboard(folder, tmp_path / "site").index)
    (gold,) = tables(page, "clapnq_gold")
    found = cells(gold)
    assert [*found][-1] == name
    assert {column: rank for column, (_, rank, _) in found[name].items()} == dict.fromkeys(found[name], "")
    assert found[name]["unanswerable_accuracy"][0] == found[name]["answerable_abstention_rate"][0] == 1.0
    row = gold.xpath(f".//tr[th//bdi='{name}']")[0]
    assert [mark.text_content() for mark in row.find_class("mark")] == [
        "Doubt: it declines every question",
        "Doubt: all its answers are equal",
    ]
    assert row.find_class("first") == []
    others = gold.xpath(f".//tr[th//bdi!='{name}']")
    assert [other.find_class("mark") for other in others] == [[], []]
    own = page_of(tmp_path / "site" / row.xpath("./th//a/@href")[0]).text_content()
    assert "No rank: it declines every question" in own


def test_nothing_unknown_leads_where_questions_are_few(tmp_path: Path) -> None:
    """Of eight questions that are all declined, and of nine answers without a flagged word."""
    in_this_process(["nomiracl_de", "mfava_de"], "grounded-baseline", "strategy=abstain", tmp_path)
    (run,) = read_runs([tmp_path])
    entry = {task.task: task for task in entry_of(run, "").tasks}
    assert entry["nomiracl_de"].alike == ["it declines every question"]
    assert [figure.metric.name for figure in entry["mfava_de"].headlines] == ["rogan_gladen_rate"]
    assert "estimated_rate" in run.tasks["mfava_de"].figures["answer"]


def test_a_page_loads_nothing_and_says_what_a_screen_reader_needs(folder: Path, tmp_path: Path) -> None:
    site = write_leaderboard(folder, tmp_path / "site")
    for path in (site.index, *(site.index.parent / "runs").glob("*.html")):
        text, page = path.read_text("utf-8"), page_of(path)
        addresses, ids = page.xpath("//@src | //@href"), page.xpath("//@id")
        assert all(re.match(r"#|runs/|\.\./index\.html|leaderboard\.(csv|json)$", address) for address in addresses)
        assert {address[1:] for address in addresses if address.startswith("#")} <= {*ids}
        assert len(ids) == len({*ids})
        assert not re.search(r"url\(|@import", text)
        (policy,) = page.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert (len(page.xpath("//script")), page.get("lang")) == (1, "en")
        assert page.xpath("//table[not(caption)] | //thead//th[@scope!='col'] | //tbody//th[@scope!='row']") == []
        assert page.xpath("//*[@role='region'][not(@aria-label) or not(@tabindex='0')]") == []


def test_a_row_leads_to_its_run_and_to_a_report_that_lies_beside(folder: Path, tmp_path: Path) -> None:
    (folder / "baseline-answer" / "report.html").write_text("<p>mine</p>")
    index = write_leaderboard(folder, tmp_path / "site").index
    page = page_of(index)
    row = tables(page, "clapnq_gold")[0].xpath(".//tr[th//bdi[contains(., 'answer')]]")[0]
    own, report = row.xpath("./th//a/@href")
    assert (index.parent / own).is_file()
    assert (index.parent / report).resolve() == (folder / "baseline-answer" / "report.html").resolve()
    details = page_of(index.parent / own)
    assert details.xpath("string(//h1)") == "lm-eval-grounded/baseline-answer"
    assert "answerable questions with a gold answer" in details.text_content()
    linked = {*page.xpath("//tr[th//a[text()='report']]/th//bdi")}
    assert {bdi.text_content() for bdi in linked} == {"lm-eval-grounded/baseline-answer"}


def test_reports_are_written_for_runs_without_one(folder: Path, tmp_path: Path) -> None:
    (folder / "baseline-lexical" / "report.html").write_text("<p>mine</p>")
    site = tmp_path / "site"
    page = page_of(write_leaderboard(folder, site, reports=True).index)
    (written,) = (site / "runs").glob("report-*.html")
    addresses = {*page.xpath("//a[text()='report']/@href")}
    assert addresses == {f"runs/{written.name}", "../runs/baseline-lexical/report.html"}
    assert "baseline-answer" in written.read_text("utf-8")
    before = written.stat().st_mtime_ns
    write_leaderboard(folder, site, reports=True)
    assert written.stat().st_mtime_ns == before
    assert f"runs/{written.name}" in (site / "index.html").read_text("utf-8")
    named(folder / "baseline-answer", "changed")
    page = page_of(write_leaderboard(folder, site).index)  # the report of what was is gone
    assert not written.exists()
    assert {*page.xpath("//a[text()='report']/@href")} == {"../runs/baseline-lexical/report.html"}


def test_hostile_names_stay_names(folder: Path, tmp_path: Path) -> None:
    for number, name in enumerate(HOSTILE):
        named(shutil.copytree(folder / "baseline-answer", folder / f"run{number}"), name)
    index = write_leaderboard(folder, tmp_path / "site").index
    page = page_of(index)
    assert page.xpath("//img | //@onerror") == []
    assert not {"\u202e", "\x00"} & {*index.read_text("utf-8")}
    names = {bdi.text_content() for bdi in page.xpath("//tbody/tr/th//bdi")}
    assert {HOSTILE[0], HOSTILE[2], HOSTILE[3], HOSTILE[5], "a\ufffdb\ufffdc\ufffdd"} <= names
    assert "49" not in names
    for path in (index, *(index.parent / "runs").glob("*.html")):
        assert len(page_of(path).xpath("//script")) == 1


# ------------------------------------------------------------------------------------------------------ what is apart


def test_runs_that_were_not_asked_the_same_are_ranked_apart(folder: Path, tmp_path: Path) -> None:
    limited = another(folder, "limited")
    change_samples(limited, "clapnq_gold", lambda rows: rows[:4])
    other_prompt = shutil.copytree(folder / "baseline-lexical", folder / "other-prompt")

    def prompted(content: dict[str, Any]) -> None:
        content["model_name"] = "prompted"
        content["configs"]["clapnq_gold"]["metadata"]["provenance"]["prompt"]["template_sha256"] = "f" * 64

    change_results(other_prompt, prompted)
    page = page_of(write_leaderboard(folder, tmp_path / "site").index)
    groups = [heading.text_content() for heading in page.iter("h2")]
    assert groups == [
        "Models",
        *(f"clapnq_gold group {number}" for number in (1, 2, 3)),
        "clapnq_rag",
        "mfava",
        "nomiracl",
    ]
    found = [cells(table) for table in page.xpath("//section[h2[starts-with(., 'clapnq_gold')]]//table")]
    assert [len(group) for group in found] == [2, 1, 1]
    assert {*found[1], *found[2]} == {"limited", "prompted"}
    assert found[1]["limited" if "limited" in found[1] else "prompted"]["rougeL"][1] == ""  # alone there is no rank
    assert page.text_content().count("asked something else than the other groups") == 3
    assert len(cells(tables(page, "clapnq_rag")[0])) == 4


def test_a_run_without_answers_is_shown_without_a_rank(folder: Path, tmp_path: Path) -> None:
    for samples in another(folder, "without").glob("samples_*"):
        samples.unlink()
    page = page_of(write_leaderboard(folder, tmp_path / "site").index)
    found = cells(tables(page, "clapnq_gold")[0])
    ranks = {model.rpartition("/")[2]: row["rougeL"][1].removeprefix("#rank ") for model, row in found.items()}
    assert ranks == {"baseline-lexical": "1", "baseline-answer": "2", "without": ""}
    assert "without has no rank: its answers were not logged (--log_samples)" in page.text_content()


DAMAGES: dict[str, Callable[[str], str]] = {
    "no JSON": lambda text: "{",
    "a list": lambda text: "[]",
    "empty": lambda text: "",
    "configs of another kind": lambda text: '{"results": {}, "configs": {"a": 1}, "config": {}}',
    "figures of another kind": lambda text: text.replace('"value":', '"valu":'),
    "no text": lambda text: "\udcff\udcfe\x00",
}


def test_runs_that_cannot_be_read_are_listed_with_the_reason(folder: Path, tmp_path: Path) -> None:
    for what, damage in DAMAGES.items():
        damaged = shutil.copytree(folder / "baseline-answer", folder / f"<{what}>")
        (results,) = damaged.glob("results_*.json")
        results.write_text(damage(results.read_text("utf-8")), "utf-8", "surrogateescape")
    site = write_leaderboard(folder, tmp_path / "site")
    assert (site.runs, {*site.unreadable}) == (2, {f"<{what}>" for what in DAMAGES})
    assert all(site.unreadable.values())
    page = page_of(site.index)
    rows = page.xpath("//section[@id='unreadable']//tbody/tr")
    assert [row.xpath("string(./th)") for row in rows] == [*site.unreadable]
    assert str(tmp_path) not in page.text_content()


def test_samples_that_are_damaged_cost_the_rank_of_their_task_alone(folder: Path, tmp_path: Path) -> None:
    (samples,) = (folder / "baseline-answer").glob("samples_clapnq_gold_*.jsonl")
    lines = samples.read_text("utf-8").splitlines(keepends=True)
    samples.write_text("".join([lines[0], "{broken\n", *lines[2:]]), "utf-8")
    page = page_of(write_leaderboard(folder, tmp_path / "site").index)
    assert "baseline-answer has no rank:" in page.text_content()
    assert "line 2: no sample" in page.text_content()
    assert cells(tables(page, "clapnq_gold")[0])["lm-eval-grounded/baseline-answer"]["rougeL"][1] == ""
    assert cells(tables(page, "clapnq_rag")[0])["lm-eval-grounded/baseline-answer"]["rougeL"][1] != ""


# ------------------------------------------------------------------------------------------------------ many, and again


@pytest.mark.slow("three sites")
def test_after_a_run_was_added_that_run_alone_is_read(folder: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    first = write_leaderboard(folder, site)
    before = first.index.read_bytes()
    pages = {path: path.stat().st_mtime_ns for path in (site / "runs").iterdir()}
    assert write_leaderboard(folder, site).updated == 0
    assert first.index.read_bytes() == before
    assert {path: path.stat().st_mtime_ns for path in (site / "runs").iterdir()} == pages

    new = another(folder, "new")
    added = write_leaderboard(folder, site)
    assert (added.runs, added.updated) == (3, 1)
    assert {path: path.stat().st_mtime_ns for path in pages} == pages

    named(new, "new name")
    assert write_leaderboard(folder, site).updated == 1
    assert "new name" in first.index.read_text("utf-8")

    shutil.rmtree(new)
    assert write_leaderboard(folder, site).runs == 2
    assert first.index.read_bytes() == before
    assert {*(site / "runs").iterdir()} == {*pages}
    assert len([*(site / ".runs").iterdir()]) == 2


def test_the_cache_gives_the_ranks_of_a_cost_again(folder: Path, tmp_path: Path) -> None:
    figures = []
    for read in (2, 0):
        assert write_leaderboard(folder, tmp_path / "site", cost=3).updated == read
        figures.append((tmp_path / "site" / "leaderboard.json").read_text("utf-8"))
    assert figures[0] == figures[1]
    write_leaderboard(folder, tmp_path / "site")
    assert (tmp_path / "site" / "leaderboard.json").read_text("utf-8") != figures[0]


@pytest.mark.slow("a site for each way of damage")
def test_what_was_kept_heals(folder: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    index = write_leaderboard(folder, site).index
    before = index.read_bytes()
    kept = sorted((site / ".runs").iterdir())[0]
    whole = kept.read_text("utf-8")
    for damaged in ("", whole[: len(whole) // 2], "[1]", "[" * 100_000):
        kept.write_text(damaged, "utf-8")
        assert write_leaderboard(folder, site).updated == 1
        assert (index.read_bytes(), kept.read_text("utf-8")) == (before, whole)
    assert write_leaderboard(folder, site).updated == 0


def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "baseline-answer" / "results_2030-01-01T00-00-00.0.json").write_text("{")
    site = folder / "site"  # it may lie among the runs
    for read in (2, 1):
        assert main(["leaderboard", str(folder), "-o", str(site)]) == 0
        out = capsys.readouterr().out
        assert f"index.html: 1 runs, {read} folders read" in out
        assert "not read: baseline-answer: " in out
        assert re.search(r"^\| lm-eval-grounded/baseline-lexical +\| 0\.\d{3} \[0\.\d{3}, 0\.\d{3}\]", out, re.M)
    (site / "index.html").write_text("<h1>My own</h1>")
    assert main(["leaderboard", str(folder), "-o", str(site)]) == 2
    assert "index.html is not a leaderboard's; name another folder (-o)" in capsys.readouterr().err
    assert (site / "index.html").read_text() == "<h1>My own</h1>"
    (tmp_path / "empty").mkdir()
    for place, says in (("empty", r"no results_<date>\.json"), ("nowhere", "no such file")):
        with pytest.raises(MissingSource, match=says):
            write_leaderboard(tmp_path / place, tmp_path / "new site")
    assert not (tmp_path / "new site").exists()


@pytest.mark.slow("three sites")
def test_several_folders_are_one_site_and_a_run_in_two_of_them_counts_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = folder / "baseline-answer"
    other = Path(shutil.copytree(answer, tmp_path / "elsewhere" / "baseline-answer"))
    named(other, "elsewhere")
    monkeypatch.chdir(tmp_path)
    site, places = (
        tmp_path / "site",
        [folder.name, "elsewhere/../elsewhere", str(answer), *map(str, answer.glob("samples_*"))],
    )
    for read in (3, 0):
        assert main(["leaderboard", *places, "-o", "site", "--reports"]) == 0
        assert f"index.html: 3 runs, {read} folders read" in capsys.readouterr().out
    rows = json.loads((site / "leaderboard.json").read_text("utf-8"))["rows"]
    of_runs = {(row["model"].rpartition("/")[2], row["folder"]) for row in rows}
    names = {("elsewhere", "elsewhere/baseline-answer"), ("baseline-answer", f"{folder.name}/baseline-answer")}
    assert of_runs == {*names, ("baseline-lexical", f"{folder.name}/baseline-lexical")}
    assert len([*(site / "runs").glob("report-*.html")]) == 3
    assert write_leaderboard([folder], tmp_path / "one").runs == 2
    with pytest.raises(MissingSource, match="no such file"):
        write_leaderboard([folder, tmp_path / "nowhere"], tmp_path / "none")


def test_all_figures_are_files_too_with_what_a_user_says_of_the_models(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site, tags = tmp_path / "site", tmp_path / "tags.csv"
    named(folder / "baseline-answer", "=SUM(A1)")
    tags.write_text("Model,size,licence\n=SUM(A1),7B,MIT\nnobody,1B,MIT\n")
    assert main(["leaderboard", str(folder), "-o", str(site), "--tags", str(tags)]) == 0
    assert "--tags names models without a run: nobody" in capsys.readouterr().out
    rows = json.loads((site / "leaderboard.json").read_text("utf-8"))["rows"]
    by_csv = list(csv.DictReader((site / "leaderboard.csv").open(encoding="utf-8")))
    assert len(by_csv) == len(rows) > 20
    assert {row["model"] for row in by_csv} == {"'=SUM(A1)", "lm-eval-grounded/baseline-lexical"}
    assert {(row["model"], row["size"]) for row in rows} == {
        ("=SUM(A1)", "7B"),
        ("lm-eval-grounded/baseline-lexical", None),
    }
    (figure,) = (
        row for row in rows if (row["model"], row["benchmark"], row["metric"]) == ("=SUM(A1)", "clapnq_gold", "rougeL")
    )
    known = read_runs([folder / "baseline-answer"])[0].tasks["clapnq_gold"].figure("rougeL", "answer")
    assert (figure["value"], figure["low"], figure["high"], figure["n"], figure["rank"]) == (*known[:3], known.n, 2)
    assert "size: 7B" in page_of(site / "index.html").text_content()
    for content, says in (("name,size\na,b\n", "needs model"), ("model,rank\na,b\n", "column rank of its own")):
        tags.write_text(content)
        assert main(["leaderboard", str(folder), "-o", str(site), "--tags", str(tags)]) == 2
        assert says in capsys.readouterr().err


def test_a_cost_is_said_in_files_and_one_that_is_none_leaves_the_site_as_it_was(folder: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    assert main(["leaderboard", str(folder), "-o", str(site), "--cost", "3"]) == 0
    before = {path: path.read_bytes() for path in site.rglob("*") if path.is_file()}
    rows = csv.DictReader((site / "leaderboard.csv").open(encoding="utf-8"))
    titles = {row["title"] for row in rows if row["metric"].startswith("balanced_error")}
    assert titles == {"Error rate (balanced, cost 3)"}
    for wrong in ("0", "-1", "nan", "inf"):
        assert main(["leaderboard", str(folder), "-o", str(site), f"--cost={wrong}"]) == 2
    assert {path: path.read_bytes() for path in site.rglob("*") if path.is_file()} == before


def test_links_have_a_picture_where_the_address_of_the_site_is_known(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capsys: Any
) -> None:
    """Previews take absolute addresses only. Names are drawn as text: a dollar sign is no formula."""
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    named(folder / "baseline-answer", "org/$\\frac{1}{$ \x00\u202e<b>")
    site, command = tmp_path / "site", ["leaderboard", str(folder), "-o", str(tmp_path / "site")]
    images = "//meta[@property='og:image']/@content"
    assert main(command) == 0
    assert page_of(site / "index.html").xpath(images) == []
    assert main([*command, "--url", "https://example.org/board/"]) == 0
    assert page_of(site / "index.html").xpath(images) == ["https://example.org/board/leaderboard.png"]
    picture = (site / "leaderboard.png").read_bytes()
    assert (picture[:8], picture[16:24]) == (b"\x89PNG\r\n\x1a\n", (1200).to_bytes(4, "big") + (630).to_bytes(4, "big"))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main([*command, "--url", "https://example.org/board"]) == 0
    assert page_of(site / "index.html").xpath(images) == []
    assert "no picture for links: plots need matplotlib" in caplog.text
    assert main([*command, "--url", "javascript:alert(1)"]) == 2
    assert "give the address of the site" in capsys.readouterr().err
