"""The page of a report: what stands on it, and that no text of a model or a data set can be more than text."""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from copy import deepcopy
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from lxml import html

from lm_eval_tasks.cli import main
from lm_eval_tasks.results.report import BYTES, write_report
from lm_eval_tasks.results.report.drawing import COLOURS
from lm_eval_tasks.results.report.page import cleaned, direction, language_tag
from lm_eval_tasks.results.reproduce import command_files
from lm_eval_tasks.runs import labels, read_runs
from tests.conftest import ROOT
from tests.golden import golden
from tests.report_runs import ADDRESSES, HOSTILE
from tests.shared_once import SharedOnce

FILES = ROOT / "lm_eval_tasks/results/report/page"


@lru_cache(maxsize=4)
def parsed(path: Path) -> Any:
    """A page that nobody changes."""
    return html.document_fromstring(path.read_text("utf-8"))


def written(name: str, runs: str, **options: Any) -> Any:
    """A fixture: the page of the runs of another fixture, made once."""

    @pytest.fixture(scope="session", name=name)
    def make(request: pytest.FixtureRequest, shared_once: SharedOnce) -> Path:
        places = [request.getfixturevalue(each) for each in runs.split()]
        folder = shared_once(
            f"report_{name}", lambda to: write_report(read_runs(places), to / "report.html", **options)
        )
        return folder / "report.html"

    return make


page = written("page", "two_models closed_book")  # three models: overviews, and matrices of pairs
pair_page = written("pair_page", "two_models")
hostile_page = written("hostile_page", "hostile_runs", documents=None, at_most=None)
hostile_many = written("hostile_many", "hostile_runs closed_book", documents=1)
big_page = written("big_page", "big_runs")
BIG = pytest.mark.slow("three models on every language, with texts of the real ones' length")


def test_the_sections_stand_in_order(page: Path) -> None:
    root = parsed(page)
    sections = [section.get("id") for section in root.xpath("//main/section")]
    assert sections == ["summary", "plots", "differences", "documents", "provenance", "words"]
    assert root.xpath("string(//h1)") == "Which model errs less?"
    levels = [int(heading.tag[1]) for heading in root.iter("h1", "h2", "h3", "h4")]
    assert (levels[0], levels.count(1)) == (1, 1)
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_the_top_of_the_page(pair_page: Path) -> None:
    """The verdicts, the best model, numbers with their bounds, sentences and doubts; without languages
    and plots, which have tests of their own."""
    root = deepcopy(parsed(pair_page))
    for element in root.xpath("//*[@id='summary']//*[self::figure or @class='by-language']"):
        element.drop_tree()
    top = root.xpath("//header//*[starts-with(@class, 'finding') or @class='doubts']")
    parts = [*top, *root.xpath("//*[@id='summary']")]
    lines = (" ".join(line.split()) for part in parts for line in part.text_content().splitlines())
    text = "\n".join(filter(None, lines)) + "\n"
    assert text == golden("two_models.txt", text)


def test_one_model_has_no_differences_and_files_of_plots_need_matplotlib(
    two_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    runs = read_runs([two_models / "baseline-lexical"])
    first, second = (write_report(runs, tmp_path / name, 1).read_bytes() for name in ("one.html", "again.html"))
    assert first == second
    root = parsed(tmp_path / "one.html")
    assert root.xpath("string(//h1)") == "How much does baseline-lexical make up?"
    assert root.xpath("//*[@id='differences' or @id='by-model' or @value='disagree']") == []
    assert root.xpath("//*[@id='plots']//svg")
    command = ["report", str(two_models / "baseline-lexical"), "--svg", str(tmp_path), "-o", str(tmp_path / "no.html")]
    assert main(command) == 2
    assert "plots need matplotlib: pip install 'lm-eval-grounded[report]'" in capsys.readouterr().err


def test_documents_say_how_many_of_how_many_and_texts_have_their_language_and_direction(page: Path) -> None:
    root = parsed(page)
    (task,) = root.xpath("//details[@data-task='clapnq_rag']")
    assert (task.xpath("string(summary/*[@class='count'])"), len(task.xpath("details"))) == ("8 of 32", 8)
    assert "This is no random sample" in page.read_text("utf-8")
    (document,) = root.xpath("//*[@id='nomiracl_ar-1']")
    (passages,) = document.xpath(".//ol[@class='passages']")
    assert passages.get("dir") == "rtl"
    assert {(text.get("dir"), text.get("lang")) for text in document.find_class("text")} == {("auto", "ar")}
    assert document.xpath("string(summary//bdi/@lang)") == "ar"


def test_tables_can_be_read_aloud(page: Path) -> None:
    tables = parsed(page).xpath("//table")
    assert len(tables) > 5
    assert all(table.xpath("caption") for table in tables)
    assert all(heading.get("scope") for table in tables for heading in table.iter("th"))


def test_every_number_has_its_command(page: Path, two_models: Path) -> None:
    runs = read_runs([two_models])
    by_label = dict(zip(labels(runs), runs, strict=True))
    text = parsed(page).xpath("string(//*[@id='provenance'])")
    commands = [command for one in command_files(by_label) for command in one["commands"]]
    assert len(commands) == 2
    for command in commands:
        assert command in text
        assert str(two_models.parent) not in command


def test_samples_without_results_say_that_the_command_is_not_known(two_models: Path, tmp_path: Path) -> None:
    (samples,) = (two_models / "baseline-lexical").glob("samples_mfava_de_*.jsonl")
    (tmp_path / samples.name).write_bytes(samples.read_bytes())
    assert main(["report", str(tmp_path), "-o", str(tmp_path / "r.html"), "--documents", "2"]) == 0
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "There is no results file beside the samples" in page
    assert " is undefined: there is no results file beside the samples." in page


@pytest.mark.one_python("what a page holds")
@pytest.mark.parametrize(
    "name", ["page", "pair_page", "hostile_page", "hostile_many", pytest.param("big_page", marks=BIG)]
)
def test_a_page_loads_nothing_has_our_script_and_style_alone_and_links_lead_somewhere(
    name: str, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(name)
    root = parsed(path)
    (policy,) = root.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    for tag, file in (("style", "report.css"), ("script", "report.js")):
        (element,) = root.iter(tag)
        assert element.text == (FILES / file).read_text("utf-8")
        digest = base64.b64encode(hashlib.sha256(element.text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    unwanted = "iframe object embed audio video base form template foreignObject image applet frame portal".split()
    assert [element.tag for element in root.iter(*unwanted)] == []
    assert [link.get("href") for link in root.iter("link")] == ["data:,"]
    for element in root.iter():
        for attribute, value in element.items() if isinstance(element.tag, str) else ():
            assert not attribute.lower().startswith("on"), (element.tag, attribute)
            assert attribute.lower() not in "style srcdoc action formaction background ping".split()
            if attribute.lower() in ("src", "srcset"):
                assert re.fullmatch(r"data:image/svg\+xml;base64,[A-Za-z0-9+/=]+", value)
    ids = root.xpath("//@id")
    assert len(ids) == len({*ids})
    assert {link[1:] for link in root.xpath("//a/@href[starts-with(., '#')]")} <= {*ids}


def test_only_web_addresses_become_links(hostile_page: Path) -> None:
    outside = [link for link in parsed(hostile_page).iter("a") if not link.get("href").startswith("#")]
    assert {link.get("href") for link in outside} == {ADDRESSES[2]}
    assert all("noopener" in link.get("rel") for link in outside)


def test_hostile_answers_are_text(hostile_page: Path) -> None:
    answers = parsed(hostile_page).xpath("//article[contains(@class, 'answer')]")
    assert any("The answer is empty." in answer.text_content() for answer in answers)
    texts = [text for answer in answers for text in answer.find_class("text")]
    # what the page adds to hallucinated parts, and what it replaces or cuts, is tested below
    shown = {"".join(text.xpath(".//text()[not(ancestor::*[@class='vh'])]")) for text in texts}
    changed = {"controls", "override", "surrogate", "noncharacter", "megabyte", "empty", "white"}
    assert [name for name, text in HOSTILE.items() if name not in changed and text not in shown] == []


def test_characters_are_replaced_lengths_cut_visibly_and_braces_of_templates_not_filled(hostile_page: Path) -> None:
    text = hostile_page.read_text("utf-8")
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202d\u202e\ufdd0\ufffe\uffff]", text)
    assert "null \ufffd bell \ufffd escape \ufffd[31m delete \ufffd c1 \ufffd\ufffd" in text
    assert "half \ufffd of a pair" in text
    assert "\ufffdright to left\ufffd \u2066isolate without an end" in text
    assert text.count("992\u202f000 characters are left out here.") > 1
    assert "{{ 7 * 7 }} {% include" in text
    names = {each.text_content() for each in parsed(hostile_page).find_class("model")}
    assert HOSTILE["handler"] in names or any('onerror="window.pwned = 1"' in name for name in names)


def test_characters_that_a_page_cannot_show() -> None:
    assert cleaned("a\r\nb\rc\t") == "a\nb\nc\t"
    assert cleaned("\x00\x1b\x7f\x9f \u202eabc\u202d \ud83d") == "\ufffd" * 4 + " \ufffdabc\ufffd \ufffd"
    shown = "می\u200cخواهم \u200fעברית 😀"
    assert cleaned(shown) == shown


def test_languages() -> None:
    codes = ("de", "zh-Hant", "", 'de" onload="x', "x" * 50)
    assert [language_tag(code) for code in codes] == ["de", "zh-Hant", "", "", ""]
    assert [direction(code) for code in ("ar", "fa", "he", "ur-PK", "de", "")] == ["rtl"] * 4 + ["ltr"] * 2


def test_plots_are_drawn_in_the_page_with_their_captions(page: Path) -> None:
    document = parsed(page)
    figures = document.xpath("//figure")
    assert len(figures) > 3
    assert document.xpath("//img") == []
    for figure in figures:
        assert figure.xpath(".//div[@class='panel' or @class='panels']//svg | ./svg[@class='plane']/g")
        assert figure.xpath("string(figcaption)")
    for plane in document.xpath("//svg[@class='plane']"):
        assert plane.get("aria-label") == plane.xpath("string(ancestor::figure/h3)")
        assert document.get_element_by_id(plane.get("aria-describedby")).text_content()


def test_models_have_the_colours_of_the_plots() -> None:
    assert tuple(re.findall(r"--m\d: (#\w+);", (FILES / "report.css").read_text("utf-8"))) == COLOURS


@pytest.mark.one_python("how large a page is")
@BIG
def test_three_models_on_all_languages_are_under_five_megabytes(big_page: Path) -> None:
    assert big_page.stat().st_size < BYTES < 5_000_000
    tasks = parsed(big_page).xpath("//details[contains(@class, 'task')]")
    assert len(tasks) == 18 + 2 + 31
    assert min(len(task.xpath("details")) for task in tasks) >= 4


def test_users_set_the_number_of_documents(
    two_models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(two_models / "baseline-lexical")
    for number, shown in (("0", 0), ("2", 2), ("all", 8)):
        assert main(["report", run, "-o", str(tmp_path / number), "--documents", number]) == 0
        (task,) = parsed(tmp_path / number / "index.html").xpath("//details[@data-task='nomiracl_de']")
        assert len(task.xpath("details")) == shown
    assert capsys.readouterr().out.splitlines() == [f"{tmp_path / n / 'index.html'}: 1 runs" for n in ("0", "2", "all")]
    with pytest.raises(SystemExit):
        main(["report", run, "--documents", "-3"])
    assert "is no number of documents" in capsys.readouterr().err


def test_nothing_to_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path / "nowhere"), "-o", str(tmp_path / "r.html")]) == 2
    assert "there is no such file or folder" in capsys.readouterr().err
    assert not (tmp_path / "r.html").exists()
