"""`report RUNS... -o FOLDER`: a page of many runs, each read once, with hostile names and damaged files among them."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lxml import html

from custom_metrics.relevance import ANSWER, NO_ANSWER
from lm_eval_tasks.cli import main
from lm_eval_tasks.data.sources import MissingSource
from lm_eval_tasks.results.report import Report
from lm_eval_tasks.results.report.documents import caching_reader, read_task
from lm_eval_tasks.results.report.folder import readable_runs, write_folder
from lm_eval_tasks.runs import Answers, TaskRun, kept, read_runs
from tests.changed_runs import change_results, change_samples, few_tasks
from tests.growth import calls
from tests.many_runs import labelled_runs

MARKUP = '</title><script>alert(1)</script><img src=x onerror="alert(2)">'
HOSTILE = [MARKUP, "org/" + "m" * 300, "{{ 7 * 7 }}{% raw %}", "نموذج/اللغة"]


@pytest.fixture
def folder(two_models: Path, tmp_path: Path) -> Path:
    """A folder of two runs that may be changed."""
    return few_tasks(two_models, tmp_path / "runs", ["clapnq_gold", "nomiracl_de"])


def named(run: Path, model: str) -> Path:
    change_results(run, lambda content: content.update(model_name=model))
    return run


def another(folder: Path, name: str) -> Path:
    """A copy of one of the runs, by another model."""
    return named(Path(shutil.copytree(folder / "baseline-answer", folder / name)), name)


def written(folder: Path, site: Path, **options: Any) -> Any:
    """The page of a folder, parsed."""
    runs, unreadable = readable_runs([folder])
    write_folder(runs, site, unreadable=unreadable, **{"documents": 1} | options)
    return html.fromstring((site / "index.html").read_text("utf-8"))


def ranks(page: Any, task: str) -> dict[str, str]:
    """Model to rank, as a table shows it."""
    table = page.xpath(f"//table[caption[starts-with(., '{task}:')]]")[0]
    names = [row.xpath("string(./th//*[contains(@class, 'model')]/@title)") for row in table.xpath("./tbody/tr")]
    return dict(zip(names, (row[0].text_content() for row in table.xpath("./tbody/tr")), strict=True))


def test_names_lead_to_the_pages_of_runs_and_nothing_else_is_loaded(folder: Path, tmp_path: Path) -> None:
    for number, name in enumerate(HOSTILE):
        named(Path(shutil.copytree(folder / "baseline-answer", folder / f"run{number}")), name)
    page = written(folder, tmp_path / "site")
    links = {*page.xpath("//tbody//th/a/@href")}
    assert {path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site" / "runs").iterdir()} == links
    assert len(links) == 2 + len(HOSTILE)
    for path in (tmp_path / "site").rglob("*.html"):
        page = html.fromstring(path.read_text("utf-8"))
        assert all(
            re.match(r"#|runs/|figures\.(csv|json)$|data:,$|https://", each) for each in page.xpath("//@src | //@href")
        )
        assert (len(page.xpath("//script")), page.xpath("//img | //@onerror")) == (1, [])
        ids = page.xpath("//@id")
        assert len(ids) == len({*ids})
        assert {each[1:] for each in page.xpath("//@href") if each.startswith("#")} <= {*ids}
    assert {*HOSTILE} <= {*html.fromstring((tmp_path / "site" / "index.html").read_text("utf-8")).xpath("//@title")}


def test_runs_that_were_not_asked_the_same_are_ranked_apart(folder: Path, tmp_path: Path) -> None:
    change_samples(another(folder, "limited"), "clapnq_gold", lambda rows: rows[:4])
    prompt = "configs clapnq_gold metadata provenance prompt".split()

    def prompted(content: dict[str, Any]) -> None:
        content["model_name"] = "prompted"
        content[prompt[0]][prompt[1]][prompt[2]][prompt[3]][prompt[4]]["template_sha256"] = "f" * 64

    change_results(Path(shutil.copytree(folder / "baseline-lexical", folder / "other-prompt")), prompted)
    first, *others = [each for each in Report.of(read_runs([folder])).overviews if each.family == "clapnq_gold"]
    assert ([row.rank for row in first.rows], first.elsewhere) == ([1, 1], 2)
    found = {each.rows[0].model: (each.apart, [row.rank for row in each.rows]) for each in others}
    assert found["limited"] == ("4 of 32 documents", [None])
    assert re.match("the prompt's template differs: ", found["prompted"][0])
    page = written(folder, tmp_path / "site")
    assert page.text_content().count("was asked something else: ") == 2
    assert len(ranks(page, "nomiracl")) == 4


def test_runs_without_answers_and_with_damaged_ones_have_no_rank_on_that_task(folder: Path, tmp_path: Path) -> None:
    for samples in another(folder, "without").glob("samples_*"):
        samples.unlink()
    another(folder, "third")
    (samples,) = another(folder, "damaged").glob("samples_clapnq_gold_*.jsonl")
    lines = samples.read_text("utf-8").splitlines(keepends=True)
    samples.write_text("".join([lines[0], "{broken\n", *lines[2:]]), "utf-8")
    page = written(folder, tmp_path / "site")
    rows = json.loads((tmp_path / "site" / "figures.json").read_text("utf-8"))["rows"]
    by_model = {row["model"].rpartition("/")[2]: row["rank"] for row in rows if row["metric"] == "rougeL"}
    assert by_model == {"baseline-lexical": 1, "baseline-answer": 2, "third": 2, "without": None, "damaged": None}
    assert len(ranks(page, "nomiracl")) == 5
    assert "damaged, clapnq_gold" in page.text_content()
    assert "line 2: no sample" in page.text_content()


DAMAGES: dict[str, Callable[[str], str]] = {
    "no JSON": lambda text: "{",
    "a list": lambda text: "[]",
    "empty": lambda text: "",
    "configs of another kind": lambda text: '{"results": {}, "configs": {"a": 1}, "config": {}}',
    "no text": lambda text: "\udcff\udcfe\x00",
}


def test_runs_that_cannot_be_read_are_listed_with_the_reason(folder: Path, tmp_path: Path) -> None:
    for what, damage in DAMAGES.items():
        (results,) = Path(shutil.copytree(folder / "baseline-answer", folder / f"<{what}>")).glob("results_*.json")
        results.write_text(damage(results.read_text("utf-8")), "utf-8", "surrogateescape")
    runs, unreadable = readable_runs([folder])
    assert (len(runs), {*unreadable}) == (2, {f"<{what}>" for what in DAMAGES})
    page = written(folder, tmp_path / "site")
    assert page.xpath("//section[@id='unreadable']//dt//text()") == [*unreadable]
    assert str(tmp_path) not in page.xpath("string(//section[@id='unreadable'])")


def test_what_was_read_is_kept_until_it_changes(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def reading(folder: Path, task: Any, read_anew: Any) -> Any:
        return kept.read_kept(folder, task, lambda one: read.append(one.task) or read_anew(one))

    monkeypatch.setattr("lm_eval_tasks.results.report.documents.read_kept", reading)
    site = tmp_path / "site"
    written(folder, site)
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in site.rglob("*") if path.is_file()}
    assert sorted(read) == 2 * ["clapnq_gold"] + 2 * ["nomiracl_de"]
    written(folder, site)
    assert len(read) == 4
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in before} == before
    for damage in (b"", b"PK", next(site.rglob("*.answers")).read_bytes()[:500]):
        next(site.rglob("*.answers")).write_bytes(damage)
        written(folder, site)
    assert len(read) == 4 + 3
    assert [path for path, (_, of) in before.items() if path.suffix != ".answers" and path.read_bytes() != of] == []
    new = another(folder, "new")
    written(folder, site)
    assert len(read) == 4 + 3 + 2
    shutil.rmtree(new)
    written(folder, site)
    assert {path for path in site.rglob("*") if path.is_file()} == {*before}


def test_kept_answers_are_those_that_were_read(two_models: Path, tmp_path: Path) -> None:
    def plain(answers: Answers) -> list[Any]:
        of_filters = [(each.columns, each.derived) for each in answers.readings.values()]
        columns = [{name: column.values() for name, column in of.items()} for both in of_filters for of in both]
        kept = ("keys", "articles", "passages", "ids", "path")
        return [answers[0], [*answers.readings], columns, *(getattr(answers, name) for name in kept)]

    for task in read_runs([two_models / "baseline-lexical"])[0].tasks.values():
        for _ in range(2):
            assert plain(caching_reader(tmp_path)(task)) == plain(read_task(task))


def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "baseline-answer" / "results_2030-01-01T00-00-00.0.json").write_text("{")
    site = folder / "site"  # it may lie among the runs
    assert main(["report", str(folder), "-o", str(site)]) == 0
    out = capsys.readouterr().out
    assert "index.html: 1 runs\nnot read: baseline-answer: " in out
    (site / "index.html").write_text("<h1>My own</h1>")
    assert main(["report", str(folder), "-o", str(site)]) == 2
    assert "index.html is not a report's; name another folder (-o)" in capsys.readouterr().err
    assert (site / "index.html").read_text() == "<h1>My own</h1>"
    assert main(["report", str(folder), "-o", str(tmp_path / "r.html"), "--tags", "x"]) == 2
    assert "--tags is for a folder" in capsys.readouterr().err
    assert main(["leaderboard", str(folder), "-o", str(site)]) == 2
    assert "`leaderboard` is gone: `report RUNS... -o FOLDER` writes the page" in capsys.readouterr().err
    with pytest.raises(MissingSource, match="no such file"):
        readable_runs([folder, tmp_path / "nowhere"])


def test_a_run_in_two_folders_counts_once(folder: Path, tmp_path: Path) -> None:
    answer = folder / "baseline-answer"
    other = named(Path(shutil.copytree(answer, tmp_path / "elsewhere" / "baseline-answer")), "elsewhere")
    places = [folder, other.parent / ".." / "elsewhere", answer, *answer.glob("samples_*")]
    ours = ["lm-eval-grounded/baseline-answer", "lm-eval-grounded/baseline-lexical"]
    assert sorted(run.model for run in readable_runs(places)[0]) == ["elsewhere", *ours]


def test_all_figures_are_files_too_with_what_a_user_says_of_the_models(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site, tags = tmp_path / "site", tmp_path / "tags.csv"
    named(folder / "baseline-answer", "=SUM(A1)")
    tags.write_text("Model,size,licence\n=SUM(A1),7B,MIT\nnobody,1B,MIT\n")
    assert main(["report", str(folder), "-o", str(site), "--tags", str(tags), "--cost", "3"]) == 0
    assert "--tags names models without a run: nobody" in capsys.readouterr().out
    rows = json.loads((site / "figures.json").read_text("utf-8"))["rows"]
    by_csv = list(csv.DictReader((site / "figures.csv").open(encoding="utf-8")))
    assert len(by_csv) == len(rows) > 15
    assert {row["model"] for row in by_csv} == {"'=SUM(A1)", "lm-eval-grounded/baseline-lexical"}
    assert {row["model"]: row["size"] for row in rows} == {"=SUM(A1)": "7B", "lm-eval-grounded/baseline-lexical": None}
    (figure,) = (r for r in rows if (r["size"], r["benchmark"], r["metric"]) == ("7B", "clapnq_gold", "rougeL"))
    known = read_runs([folder / "baseline-answer"])[0].tasks["clapnq_gold"].figure("rougeL", "answer")
    assert (figure["value"], figure["low"], figure["high"], figure["n"], figure["rank"]) == (*known[:3], known.n, 2)
    assert {row["title"] for row in rows if row["metric"].startswith("balanced")} == {"Error rate (balanced, cost 3)"}
    assert "size: 7B" in html.fromstring((site / "index.html").read_text("utf-8")).text_content()
    for content, says in (("name,size\na,b\n", "needs model"), ("model,rank\na,b\n", "column rank of their own")):
        tags.write_text(content)
        assert main(["report", str(folder), "-o", str(site), "--tags", str(tags)]) == 2
        assert says in capsys.readouterr().err
    before = {path: path.read_bytes() for path in site.rglob("*") if path.is_file()}
    for wrong in ("0", "-1", "nan", "inf"):
        assert main(["report", str(folder), "-o", str(site), f"--cost={wrong}"]) == 2
    assert {path: path.read_bytes() for path in site.rglob("*") if path.is_file()} == before


def test_twice_as_many_runs_are_twice_as_much_to_read(
    two_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And at most four times as much to compare: each has a difference to each other."""
    labels = {f"model-{number}": [ANSWER, NO_ANSWER, ANSWER, ANSWER][: number % 3 + 2] * 12 for number in range(12)}
    few = {name: {"nomiracl_de": of[:24]} for name, of in labels.items()}
    folder = labelled_runs(two_models / "baseline-lexical", tmp_path, few)
    runs, rows = read_runs([folder]), list[int]()

    def reading(task: TaskRun) -> Answers:
        answers = read_task(task)
        rows.append(len(answers))
        return answers

    monkeypatch.setattr("lm_eval_tasks.results.report.documents.read_task", reading)
    once, twice = (calls(lambda number=number: [*Report.of(runs[:number]).figures()]) for number in (6, 12))
    assert rows == [24] * 18
    assert twice < 4 * once
