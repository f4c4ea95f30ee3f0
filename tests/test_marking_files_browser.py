"""Files of the page that answers are marked on, where things are on it, how it looks, and from a run to its rate."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks.cli import main
from lm_eval_tasks.runs import read_runs
from tests import logged_runs
from tests.browser import SCHEMES, WIDTHS
from tests.conftest import ROOT
from tests.marked_runs import rate_by_hand
from tests.marking_pages import content
from tests.marking_tab import CATEGORIES, Start, drag, drop, marked, middle, parts, press, saved, sign_in, units
from tests.report_runs import HOSTILE

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


# --------------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("name", "file"),
    [("  Zoë  Müller ", "Zoë_Müller"), ("../../etc/passwd", "etc_passwd"), ("آنا", "آنا"), ("***", "annotator")],
)
def test_the_name_of_the_file_holds_the_annotator(started: Start, name: str, file: str) -> None:
    page = started(content("de"), name)
    page.click("#nothing")
    with page.expect_download() as download:
        page.click("#save-end")
    assert download.value.suggested_filename == f"marks_mfava_de_{file}.jsonl"


def test_a_saved_file_is_gone_on_with_elsewhere(started: Start) -> None:
    given = content("de", "ar", "hi", "ja")
    page = started(given)
    drag(page, "1889 errichtet 🗼👩‍👩‍👧 und")
    page.fill("#note", "n\u2028n")
    page.click("#next")
    page.click("#unknown")
    lines = saved(page)

    page = started(given, name="")  # another browser
    assert drop(page, *lines) == "2 answers restored."
    assert (page.inner_text("#place"), page.inner_text("#who")) == ("Answer 3 of 4", "Anna")
    assert saved(page) == lines
    page.click("#nothing")
    lines = saved(page)

    page = started(given)
    page.click("#nothing")
    text = "".join(json.dumps(line) + "\n" for line in lines)
    page.set_input_files("#file", {"name": "lines.jsonl", "mimeType": "", "buffer": text.encode()})
    page.locator("#message:has-text('restored')").wait_for()
    assert "3 answers restored, of which 1 had been done here" in page.inner_text("#message")
    assert [line["cannot_tell"] for line in saved(page)] == [False, True, False]
    press(page, "Control+z")
    assert [parts(line) for line in saved(page)] == [[]]


REFUSED: list[tuple[Any, str]] = [
    ("{", "is none of a saved file"),
    ("[1]", "is none of a saved file"),
    ({"draw": {"seed": 7, "runs": ["9f86d081884c7d65"]}}, "is of another draw (mfava_de, seed 7) than this page"),
    ({"task": "mfava_fi"}, "is of another draw (mfava_fi, seed 1234)"),
    ({"kind": "labels"}, "is of another draw"),
    ({"id": "de_9"}, "is of an answer that is not on this page (de_9)"),
    ({"run": "0000"}, "is of an answer that is not on this page (de_0_1)"),
    ({"answer": "other"}, "has another answer for de_0_1 than this page"),
    ({"reference": "other"}, "has another reference for de_0_1 than this page"),
    ({"annotator": "Ben"}, "is by Ben, and you are Anna"),
    ({"annotator": ""}, "names no annotator"),
    *(({"spans": spans}, "is damaged") for spans in ([[0, 999, "x"]], [[3, 3, "x"]], [5], None)),
    ({"note": {}}, "is damaged"),
    ({"seconds": "<img src=x onerror=window.pwned=1>"}, "is damaged"),
]


def test_lines_that_do_not_fit_are_refused_in_words(started: Start) -> None:
    given = content("de", "ja")
    page = started(given)
    marks = {"annotator": "Anna", "spans": [[0, 2, "hallucination"]], "cannot_tell": False, "note": "", "seconds": 1.0}
    first, second = ({**item["line"], **marks, "suggested": False} for item in given["items"])
    for changes, message in REFUSED:
        said = drop(page, second, changes if isinstance(changes, str) else {**first, **changes})
        assert said.startswith("1 answer restored")
        assert "Not taken: line 2 of marks.jsonl " in said
        assert message in said, changes
        assert page.inner_text("#progress").startswith("1 of 2 done")
    assert drop(page, *["no"] * 5, name="<b>.txt").endswith("; line 3 of <b>.txt is none of a saved file, and 2 more.")


# ------------------------------------------------------------------------------------------------------ where things are


@pytest.mark.parametrize("height", [640, 844])
def test_the_answer_and_the_reference_share_a_phone(started: Start, height: int) -> None:
    given = content("de", "ar", "ja")
    for item in given["items"]:
        item["line"]["answer"] = " ".join([item["line"]["answer"]] * 12)
        item["line"]["reference"] = "\n\n".join([item["line"]["reference"]] * 12)
    page = started(given, width=400, has_touch=True, is_mobile=True)
    page.set_viewport_size({"width": 400, "height": height})
    for _ in given["items"]:
        page.evaluate("scrollBy(0, 300)")  # in the midst of a long answer, and of a long reference
        page.evaluate("document.getElementById('reference').scrollTop = 500")
        boxes = {name: page.locator(name).bounding_box() for name in (".answer", "#reference", ".decision")}
        ends = {name: (box["y"], box["y"] + box["height"]) for name, box in boxes.items()}
        assert min(ends[".answer"][1], ends[".decision"][0]) - max(ends[".answer"][0], 0) > 0.3 * height
        assert min(ends["#reference"][1], height) - ends["#reference"][0] > 0.25 * height
        assert ends[".decision"][1] <= ends["#reference"][0]
        page.click("#nothing")


def test_the_reference_shows_where_it_has_most_words_of_the_sentence(started: Start) -> None:
    given = content("de", "hi", "ja")
    line = given["items"][0]["line"]
    line["reference"] = "Ein Absatz über etwas anderes, das hier nicht gefragt ist.\n\n" * 80 + line["reference"]
    page = started(given)
    near = page.locator("#reference .best").first
    assert near.text_content().startswith("Das von 1887 bis 1889 errichtete Bauwerk")
    page.mouse.click(*middle(page, "Zola"))
    assert "Entworfen haben ihn" in near.text_content()
    box, best = page.locator("#reference").bounding_box(), near.bounding_box()
    assert box["y"] <= best["y"] <= box["y"] + box["height"]
    assert page.locator("#reference").text_content() == line["reference"]
    page.click("#next")
    page.click("#next")
    press(page, "End")
    assert "高さは330メートル" in near.text_content()


def test_the_reference_is_searched(started: Start) -> None:
    page = started(content("de"))
    page.locator(".answer").focus()
    page.keyboard.press("/")
    page.keyboard.type("EMILE n")
    assert page.inner_text("#hits") == "1 of 1"
    assert page.locator("#reference mark").all_text_contents() == ["Émile N"]
    page.fill("#search", "eiffel")
    press(page, "Enter")
    assert page.inner_text("#hits") == "2 of 2"
    assert page.evaluate("document.querySelector('.here').nextSibling.textContent").startswith(". Entworfen")
    page.fill("#search", "<b>")
    assert page.inner_text("#hits") == "nowhere"
    press(page, "Escape ArrowRight Enter")
    assert marked(page) == ["Der"]


# --------------------------------------------------------------------------------------------------- looks, and hostility


def busy(page: Any) -> None:
    """A mark, a selection, a note and a search."""
    page.locator(".answer").first.focus()
    leftward = page.evaluate("getComputedStyle(document.activeElement).direction") == "rtl"
    arrow = "ArrowLeft" if leftward else "ArrowRight"
    press(page, f"4*{arrow} Shift+{arrow} Enter 4*{arrow} Shift+{arrow}")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("name", "categories"), [("spans", []), ("categories", CATEGORIES)])
def test_it_is_whole_at_any_width_and_axe_finds_no_fault(
    started: Start, name: str, categories: list[str], width: int, scheme: str
) -> None:
    page = started(content("ar", "de", categories=categories), name="", width=width, scheme=scheme)
    stages: list[tuple[str, Callable[[], Any]]] = [
        ("start", lambda: None),
        ("work", lambda: (sign_in(page, "Anna"), busy(page))),
        ("end", lambda: press(page, "2*Control+Enter")),
    ]
    for stage, go in stages:
        go()
        page.tab.check_quiet(f"marking-{name}-{stage}", width, scheme)
        page.tab.check_axe()


def test_hostile_texts_do_nothing(started: Start) -> None:
    texts = [text for name, text in HOSTILE.items() if name != "megabyte"]
    given = content(*["de"] * len(texts), title=HOSTILE["script"], instructions=HOSTILE["script"])
    for item, text in zip(given["items"], texts, strict=True):
        item["line"] |= {"question": text, "reference": text, "answer": text, "language": text[:20]}
    page = started(given, name=HOSTILE["handler"][:80], width=400)
    for text in texts:
        assert page.evaluate("document.querySelector('.answer').textContent.length") == units(text)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        page.locator(".answer").focus()
        press(page, "ArrowRight End Shift+Home Enter")
        page.click("#next")
    assert drop(page, HOSTILE["script"], name="<img src=x onerror=window.pwned=1>").startswith("0 answers restored.")
    assert [line["answer"] for line in saved(page)] == [text for text in texts if text.strip()]
    assert page.evaluate("typeof window.pwned") == "undefined"
    assert page.evaluate("document.querySelectorAll('script').length") == 2
    assert page.tab.said == []


# ------------------------------------------------------------------------------------------------ from a run to its rate


def test_from_the_demo_by_ten_marks_to_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Any) -> None:
    """What both READMEs show, typed as it stands there: the rate is the one that the marks give by hand."""
    shown = r"^lm-eval-grounded (.*marking/|score .* --marks marks_.*|report results/marked .*)"
    readmes = [(ROOT / name).read_text("utf-8") for name in ("README.md", "lm_eval_tasks/results/marks/README.md")]
    typed, other = (re.findall(shown, text, re.M) for text in readmes)
    assert typed == other
    names = {"MODEL": "sample__closed-book", "NAME": "Anna"}
    mark, score, report = (
        re.sub("MODEL|NAME", lambda m: names[m[0]], line).partition("#")[0].split() for line in typed
    )
    monkeypatch.chdir(tmp_path)
    answers = f"path={logged_runs.ANSWERS}"
    logged_runs.generate(tmp_path / "results", tasks="mfava_de", model="replay", model_args=answers)  # as `make demo`
    assert main(mark) == 0
    page = opened(tmp_path / "marking" / "marking.html").page
    sign_in(page, "Anna")
    for _ in range(9):
        drag(page, page.locator(".answer").first.text_content().split()[0])
        page.click("#next")
    with page.expect_download() as download:
        page.click("#save")
    download.value.save_as(download.value.suggested_filename)
    assert main(score) == 0
    (run,) = read_runs([tmp_path / "results" / "marked"])
    task = run.tasks["mfava_de"]
    by_hand = rate_by_hand(task, logged_runs.lines(tmp_path / "marks_mfava_de_Anna.jsonl"))
    rate = task.figure("marked_rate", "answer")
    assert rate[:4] == pytest.approx(by_hand.figure[:4])
    assert main(report) == 0
    headline = opened(tmp_path / "report.html").page.locator("table:has(.value)").first
    assert "Words that are made up, by annotators' marks" in headline.inner_text()
    figure = headline.locator(".value").first.inner_text().splitlines()[0]
    assert figure == f"{100 * rate.value:.1f}\N{NO-BREAK SPACE}%"
    assert headline.page.locator(".answer .people").count() > 0


def test_labels_by_keys_from_the_page_to_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    logged_runs.generate(tmp_path / "results", tasks="nomiracl_de")
    (folder,) = (path for path in (tmp_path / "results").iterdir() if path.is_dir())
    assert main(["mark", str(folder), "--kind", "labels", "--answers", "6", "-o", "labelling"]) == 0
    page = opened(tmp_path / "labelling" / "marking.html").page
    sign_in(page, "Anna")
    press(page, "n")
    page.click("#reference")
    press(page, "d Control+z")  # the keys work wherever nothing is typed
    assert page.inner_text("#state") == "Not done yet."
    page.click("button[data-label=answers]")
    page.reload()
    assert page.inner_text("#place") == "Answer 3 of 6"
    press(page, "a d a d")
    lines = saved(page, "#save-end")
    assert [line["label"] for line in lines] == ["neither", "answers", "answers", "declines", "answers", "declines"]
    assert drop(page, *lines) == "6 answers restored, of which 6 had been done here (Undo brings them back)."
    Path("labels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    assert main(["score", str(folder), "--marks", "labels.jsonl", "-o", "labelled"]) == 0
    assert main(["report", "labelled", "-o", "report.html"]) == 0
    report = opened(tmp_path / "report.html").page
    assert "by annotators' labels" in report.locator("table:has(.value)").first.inner_text()
    report.select_option("#by-kind", "differ")
    shown = report.locator(".document:visible .verdict-of").all_text_contents()
    assert shown
    assert all("annotators: " in text for text in shown)
