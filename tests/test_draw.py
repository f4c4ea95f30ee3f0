"""Which answers are drawn, with which chance, and what annotators get of them: a page, or tasks of Label Studio."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data.sources import CorruptSource, MissingSource
from lm_eval_tasks.detection.marked import expected_share, marked_rate
from lm_eval_tasks.results.marks.draw import TaskAnswers, draw, expectations, run_digest
from lm_eval_tasks.results.marks.lines import join, lines_from_export, project, read_marks
from lm_eval_tasks.results.marks.page import marking_page, page_content
from lm_eval_tasks.runs import read_runs
from tests.marked_runs import Row, clapnq_row, logged_run, mfava_row, task_answers
from tests.report_runs import HOSTILE

LENGTHS = (1, 2, 3, 4, 10)


def of_lengths(lengths: Iterable[int]) -> list[Row]:
    return [mfava_row(number, " ".join(["Wort"] * length)) for number, length in enumerate(lengths)]


ROWS = of_lengths(LENGTHS)


def test_chances_are_shares_of_the_words(tmp_path: Path) -> None:
    rows = [*ROWS, mfava_row(5, ""), mfava_row(6, " \n")]
    answers = task_answers(tmp_path / "run", rows)
    drawn = draw([answers], 1_000, 7)
    assert [*drawn.chances.values()] == [0.05, 0.1, 0.15, 0.2, 0.5, 0.0, 0.0]
    assert sum(drawn.chances.values()) == pytest.approx(1)
    assert sorted(drawn.order) == answers.ids[:5]  # each once, and none without a word
    first = Counter(draw([answers], 5, seed).order[0] for seed in range(1_000))
    for name, chance in drawn.chances.items():
        assert abs(first[name] - 1_000 * chance) < 50


def test_a_longer_draw_begins_with_a_shorter_one(tmp_path: Path) -> None:
    lengths = LENGTHS * 6
    answers = task_answers(tmp_path / "run", of_lengths(lengths))
    longest = draw([answers], 30, 7)
    for number in (5, 20, 29):
        shorter = draw([answers], number, 7)
        assert (shorter.order, shorter.thresholds) == (longest.order[:number], longest.thresholds[:number])
        short, long = (page_content([answers], each)["items"] for each in (shorter, longest))
        assert [item["line"]["id"] for item in short] == [item["line"]["id"] for item in long[: len(short)]]
    assert draw([answers], 20, 8).order != longest.order[:20]
    # the draw as its module says it, without the code that is tested
    quotients = np.random.default_rng(7).standard_exponential(30) * sum(lengths) / lengths
    assert longest.order == tuple(answers.ids[place] for place in np.argsort(quotients))
    assert longest.thresholds == pytest.approx((*sorted(quotients)[1:], math.inf))


def test_several_runs_draw_the_same_documents_by_the_mean_of_their_shares(tmp_path: Path) -> None:
    first = task_answers(tmp_path / "one", ROWS)
    second = task_answers(tmp_path / "two", of_lengths(reversed(LENGTHS)))
    drawn = draw([first, second], 40, 7)
    assert [*drawn.chances.values()] == pytest.approx([0.275, 0.15, 0.15, 0.15, 0.275])
    assert drawn.runs == (first.digest, second.digest)
    content = page_content([first, second], drawn)
    ids = [item["line"]["id"] for item in content["items"]]
    assert len(ids) == 2 * len(drawn.order)
    assert ids[::2] == ids[1::2] == [*drawn.order]
    assert ["order" in item["line"]["draw"] for item in content["items"]] == [True] + [False] * (len(ids) - 1)
    by_model = [item["line"]["run"] for item in content["items"]][::2]
    assert {*by_model} == {first.digest, second.digest}  # neither always comes first
    assert content["title"] == f"mfava_de: {len(ids)} answers to mark"


def test_an_answer_without_a_word_is_drawn_for_the_other_run_and_not_marked(tmp_path: Path) -> None:
    first = task_answers(tmp_path / "one", [mfava_row(0, ""), mfava_row(1, "ein Wort")])
    second = task_answers(tmp_path / "two", [mfava_row(0, "ein Wort"), mfava_row(1, "")])
    drawn = draw([first, second], 20, 1)
    content = page_content([first, second], drawn)
    assert [*drawn.chances.values()] == [0.5, 0.5]
    drawn_for = sorted((item["line"]["id"], item["line"]["model"]) for item in content["items"])
    assert drawn_for == [("de_0_1", "two"), ("de_0_2", "one")]


def test_a_line_holds_what_the_marks_need(tmp_path: Path) -> None:
    answers = task_answers(tmp_path / "run", ROWS)
    drawn = draw([answers], 5, 7)
    content = page_content([answers], drawn)

    def digest_of(text: str) -> str:
        return hashlib.sha256(text.encode()).hexdigest()

    of_answers = (f"{row['doc']['id']}\t{digest_of(row['resps'][0][0])}\n" for row in ROWS)
    lines = [item["line"] for item in content["items"]]
    (line,) = (line for line in lines if line["id"] == "de_2_1")
    listed: dict[str, Any] = {"order": [*drawn.order], "thresholds": [*drawn.thresholds[:-1], None]}
    listed["digest"] = digest_of(json.dumps([7, [answers.digest], *listed.values()]))[:16]
    assert line == {
        **{"id": "de_2_1", "task": "mfava_de", "kind": "spans", "language": "de", "model": "run", "article": "2"},
        **{"question": "Frage 4?", "reference": "Artikel 4.", "answer": " ".join(["Wort"] * 10), "annotations": "real"},
        **{"run": digest_of("".join(of_answers))[:16], "chance": 0.5},
        "chance_digest": digest_of(f'["de_2_1", 0.5, 7, ["{answers.digest}"]]')[:16],
        "draw": {"seed": 7, "runs": [answers.digest], **({} if line is not lines[0] else listed)},
    }
    assert [each["draw"].get("order") for each in lines] == [[*drawn.order], *[None] * (len(lines) - 1)]
    frame = {name: content[name] for name in ("kind", "file", "language", "direction")}
    assert [*frame.values()] == ["spans", "marks_mfava_de", "de", "ltr"]


def test_the_digest_is_of_the_answer_and_not_of_who_tagged_it(tmp_path: Path) -> None:
    plain = task_answers(tmp_path / "plain", [mfava_row(0, "ein Wort", None)])
    tagged = task_answers(tmp_path / "tagged", [mfava_row(0, "ein Wort", [[0, 3, "entity", 0.5]])])
    assert plain.digest == tagged.digest == run_digest({"de_0_1": "ein Wort"}) != run_digest({"de_0_1": "zwei"})
    assert (plain.is_tagged, *plain.expected, tagged.is_tagged, *tagged.expected) == (False, 0.0, True, 0.25)


@pytest.mark.parametrize(
    ("answer", "spans", "language", "share"),
    [
        ("eins zwei drei vier", [[0, 9, "entity", 0.5]], "de", 0.25),
        ("eins zwei drei vier", [[0, 9, "entity"]], "de", 0.5),
        ("eins zwei drei vier", [[0, 19, "entity", 0.2], [5, 9, "relation", 0.8]], "de", (3 * 0.2 + 0.8) / 4),
        ("eins zwei", None, "de", 0.0),
        ("", [[0, 0, "entity"]], "de", 0.0),
        ("北京是首都", [[0, 2, "entity", 0.6]], "zh", 0.2),
    ],
)
def test_expected_shares(answer: str, spans: Any, language: str, share: float) -> None:
    assert expected_share(answer, spans, language) == pytest.approx(share)


def test_suggestions_and_categories(tmp_path: Path) -> None:
    answers = task_answers(tmp_path / "run", [mfava_row(0, "ein Wort", [[0, 3, "entity", 0.5]])], "mfava_ar")
    drawn = draw([answers], 5, 1)
    assert [item["suggested"] for item in page_content([answers], drawn)["items"]] == [[]]
    assert page_content([answers], drawn)["direction"] == "rtl"
    assert page_content([answers], drawn, suggest=True)["items"][0]["suggested"] == [[0, 3, "hallucination"]]
    content = page_content([answers], drawn, categories=True, suggest=True, instructions="Mark.")
    assert [item["suggested"] for item in content["items"]] == [[[0, 3, "entity"]]]
    plain = task_answers(tmp_path / "plain", [mfava_row(0, "ein Wort", [[0, 3, "hallucination"]])])
    offered = page_content([plain], draw([plain], 5, 1), categories=True, suggest=True)
    assert offered["items"][0]["suggested"] == [[0, 3, "entity"]]  # the page has to offer its category
    assert (len(content["categories"]), content["suggest"], content["instructions"]) == (6, True, "Mark.")


def test_abstentions_of_clapnq_count_no_words_and_its_passages_are_the_reference(tmp_path: Path) -> None:
    rows = [clapnq_row(0, "two words"), clapnq_row(1, "I don't know."), clapnq_row(2, "three more words here")]
    answers = task_answers(tmp_path / "run", rows, "clapnq_gold")
    drawn = draw([answers], 20, 1)
    assert [*drawn.chances.values()] == pytest.approx([1 / 3, 0, 2 / 3])
    line = page_content([answers], drawn)["items"][0]["line"]
    assert line["reference"] == "Title " + line["id"][1:] + " A passage.\n\n More."
    assert (line["language"], line["article"]) == ("en", None)


def test_what_to_expect(tmp_path: Path) -> None:
    tagged, plain = (
        task_answers(tmp_path / word, [mfava_row(n, f"a b c {word}", spans) for n in range(300)])
        for word, spans in (("d", [[0, 3, "entity", 0.5]]), ("e", None))
    )
    assert [(row.answers, row.items) for row in expectations([tagged], 1)] == [(n, n) for n in (25, 50, 100, 200)]
    # a quarter of the words are expected to be made up
    assert [round(row.width, 2) for row in expectations([tagged], 1)] == [0.22, 0.13, 0.08, 0.04]
    assert [round(row.width, 2) for row in expectations([plain], 1)] == [0.24, 0.15, 0.1, 0.05]
    both = expectations([plain, tagged], 1)[0]
    assert (both.width, both.items) == (expectations([plain], 1)[0].width, 50)


def test_of_fewer_answers_than_were_asked_for_all_are_drawn(tmp_path: Path) -> None:
    answers = task_answers(tmp_path / "run", of_lengths(range(1, 10)))
    assert sorted(draw([answers], 50, 3).order) == answers.ids
    rows = expectations([answers], 3, numbers=(5, 50, 100))
    assert [(row.answers, row.items) for row in rows] == [(5, 5), (9, 9)]
    assert rows[1].width == 0  # nothing is left to chance


@pytest.mark.one_python("how an estimate is distributed")
def test_a_draw_is_unbiased_and_its_errors_are_as_large_as_it_says(tmp_path: Path) -> None:
    """Five of nine, the longest of which has a third of the words, and so is nearly always drawn: 4,000 draws. The short
    ones, which are drawn rarely and count much then, leave the variance 15 % to chance."""
    lengths = [1, 1, 2, 3, 4, 6, 9, 14, 20]
    answers = task_answers(tmp_path / "run", of_lengths(lengths))
    made_up = dict(zip(answers.ids, 1 / np.arange(1, 10), strict=True))  # the longer, the less
    totals, variances = [], []
    for seed in range(4_000):
        drawn = draw([answers], 5, seed)
        included = np.array([drawn.inclusion(drawn.chances[name], 5)[0] for name in drawn.order])
        parts = np.array([drawn.chances[name] * made_up[name] for name in drawn.order]) / included
        totals.append(parts.sum())
        variances.append(parts**2 @ (1 - included))
    truth = float(answers.shares @ [*made_up.values()])
    assert np.mean(totals) == pytest.approx(truth, abs=0.003)  # three standard errors
    assert np.mean(variances) == pytest.approx(np.var(totals), rel=0.15)


@pytest.mark.one_python("how wide bounds are")
@pytest.mark.parametrize(("number", "asked"), [(9, 5), (300, 50)])
def test_bounds_are_as_wide_as_was_forecast(tmp_path: Path, number: int, asked: int) -> None:
    """Of a run that no detector has read, with answers of 1 to 40 words, two on each article: marks by chance."""
    rng = np.random.default_rng(2)
    lengths = [1 + int(40 * rng.random() ** 3) for _ in range(number)]
    rows = [{**row, "filtered_resps": row["resps"][0]} for row in of_lengths(lengths)]
    answers = task_answers(tmp_path / "run", rows)
    sample = draw([answers], asked, 1)
    drawn: list[dict[str, Any]] = [{"words": n, "expected": 0.0, "article": at // 2} for at, n in enumerate(lengths)]
    widths = []
    for _ in range(200):
        for name, share, value in zip(answers.ids, answers.shares, drawn, strict=True):
            if name in sample.order:
                included, left_out = sample.inclusion(sample.chances[name], asked)
                value |= {"times": 1, "weight": share / included, "left_out": left_out, "marked": float(rng.random())}
        figure = marked_rate.figure_of(drawn)
        widths.append(figure.high - figure.low)
    assert expectations([answers], 1, numbers=[asked])[0].width == pytest.approx(np.mean(widths), rel=0.1)


def test_a_page_grows_with_its_answers_and_not_by_their_square(tmp_path: Path) -> None:
    answers = task_answers(tmp_path / "run", [mfava_row(number, "ein Wort") for number in range(4_000)])
    sizes = [len(marking_page(page_content([answers], draw([answers], n, 1)))) for n in (500, 1_000, 1_500)]
    assert sizes[2] - sizes[1] < 1.2 * (sizes[1] - sizes[0]) < 600_000


@pytest.mark.parametrize(
    ("task", "runs", "number", "message"),
    [
        ("mfava_de", [ROWS], 4, "4 answers: draw 5 or more"),
        ("mfava_de", [[mfava_row(0, "")]], 5, "nothing to draw"),
        ("clapnq_gold", [[clapnq_row(1, "I don't know.")]], 5, "nothing to draw"),
        ("mfava_de", [ROWS, ROWS], 5, "run0 and run1 gave the same answers"),
        ("mfava_de", [ROWS, ROWS[:3]], 5, r"2 documents are in one of them only, such as de_1_2 \(run0\)"),
        ("mfava_de", [ROWS, [mfava_row(0, "x", reference="y"), *ROWS[1:]]], 5, "document de_0_1 differs in reference"),
    ],
)
def test_refused_draws(tmp_path: Path, task: str, runs: list[list[Row]], number: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        draw([task_answers(tmp_path / f"run{place}", rows, task) for place, rows in enumerate(runs)], number, 1)


@pytest.mark.parametrize(
    ("task", "rows", "error", "message"),
    [
        ("nomiracl_de", ROWS, UsageError, "people mark answers of mfava_<language>, clapnq_gold"),
        ("mfava_de", [], CorruptSource, "no sample can be read"),
        ("mfava_de", [mfava_row(0, "a"), mfava_row(1, "b", id="de_0_1")], CorruptSource, "have the id 'de_0_1'"),
        ("mfava_de", [mfava_row(0, "a", [[3, 1, "entity"]])], CorruptSource, "document 'de_0_1': a span is"),
        ("clapnq_gold", [clapnq_row(0, "a", passages=[None])], CorruptSource, "'q0' has neither reference nor"),
    ],
)
def test_refused_runs(tmp_path: Path, task: str, rows: list[Row], error: type[Exception], message: str) -> None:
    def page() -> None:
        answers = task_answers(tmp_path / "run", rows, task)
        page_content([answers], draw([answers], 5, 1))

    with pytest.raises(error, match=message):
        page()


def test_answers_that_were_not_logged(tmp_path: Path) -> None:
    (run,) = read_runs([logged_run(tmp_path / "run", ROWS)])
    with pytest.raises(MissingSource, match="were not logged"):
        TaskAnswers.of("m", replace(run.tasks["mfava_de"], samples=None))


ANSWER = "Ein 👩‍🔬 sagt:\nzwei Wörter"
HALL = "hallucination"
LINE = {"id": "de_0_1", "task": "mfava_de", "kind": "spans", "answer": ANSWER}


def region(start: int, end: int, text: str, label: str = "hallucination") -> dict[str, Any]:
    value = {"start": start, "end": end, "labels": [label], "text": text}
    return {"from_name": "spans", "to_name": "answer", "type": "labels", "value": value}


CANNOT_TELL = {"from_name": "verdict", "to_name": "answer", "type": "choices", "value": {"choices": ["cannot tell"]}}
NOTE = {"from_name": "note", "to_name": "answer", "type": "textarea", "value": {"text": ["so", "so"]}}


def annotation(*results: Any, by: Any = 3, **more: Any) -> dict[str, Any]:
    return {"result": [*results], "completed_by": by, "was_cancelled": False, "lead_time": 41.2, **more}


def exported(path: Path, *annotations: Any) -> list[dict[str, Any]]:
    path.write_text(json.dumps([{"id": 12, "data": LINE, "annotations": [*annotations]}]), "utf-8")
    return lines_from_export(path)


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ([], {"spans": []}),
        ([region(4, 7, "👩‍🔬")], {"spans": [[4, 7, "hallucination"]]}),  # offsets count code points
        ([region(8, 18, "sagt:\\nzwei", "entity")], {"spans": [[8, 18, "entity"]]}),  # a line feed is stored as `\n`
        ([region(0, 3, "Ein"), NOTE], {"spans": [[0, 3, "hallucination"]], "note": "so\nso"}),
        ([region(0, 3, "Ein"), {**region(4, 7, "👩‍🔬"), "from_name": "x"}], {"spans": [[0, 3, HALL], [4, 7, HALL]]}),
        ([CANNOT_TELL], {"spans": None, "cannot_tell": True}),
    ],
)
def test_an_annotation_is_a_line(tmp_path: Path, results: list[Any], said: dict[str, Any]) -> None:
    (line,) = exported(tmp_path / "export.json", annotation(*results))
    assert line == {**LINE, "annotator": "3", "cannot_tell": False, "note": "", "seconds": 41.2, **said}


def test_every_annotator_has_a_line_but_for_cancelled_annotations(tmp_path: Path) -> None:
    lines = exported(
        tmp_path / "export.json",
        annotation(by={"id": 1, "email": "anna@example.org"}),
        annotation(lead_time=None),
        annotation(region(0, 9, ""), was_cancelled=True, by=7),
    )
    assert [(line["annotator"], line["seconds"]) for line in lines] == [("anna@example.org", 41.2), ("3", 0)]
    assert exported(tmp_path / "export.json") == []  # a task that nobody has annotated


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not a JSON export of Label Studio"),
        ("[" * 100_000, "not a JSON export of Label Studio"),
        ([{"id": 5, "answer": "x"}], "KeyError"),  # JSON-MIN
        ([{"data": LINE, "annotations": [{"completed_by": 1}]}], "KeyError('result')"),
        ([{"data": LINE, "annotations": [3]}], "AttributeError"),
        *(
            ([{"data": LINE, "annotations": [annotation(result)]}], message)
            for result, message in (
                (region(0, 3, "Wort"), "a region of de_0_1 is 'Ein', not 'Wort'"),
                ({**region(0, 3, "Ein"), "to_name": "reference"}, "result of the tag 'spans', which is no region"),
                ({**CANNOT_TELL, "from_name": "unsure"}, "result of the tag 'unsure', which is no region"),
                ({"from_name": "box", "to_name": "answer", "value": {"x": 1, "rectanglelabels": ["a"]}}, "tag 'box'"),
                ({"type": "relation", "from_id": "a", "to_id": "b"}, "KeyError('value')"),
            )
        ),
    ],
)
def test_damage_is_named(tmp_path: Path, content: Any, message: str) -> None:
    path = tmp_path / "export.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    with pytest.raises(CorruptSource) as error:
        lines_from_export(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    rows = [mfava_row(n, f"x {text}"[:300]) for n, text in enumerate(HOSTILE.values())]
    answers = task_answers(tmp_path / "run", rows)
    content = page_content([answers], draw([answers], 100, 1), categories=True)
    tasks, interface = project(content)
    assert all(task["data"]["draw"]["order"] for task in tasks)  # any task may stay without annotation
    for task in tasks:
        task["annotations"] = [annotation(region(0, 1, "x", "entity"))]
    path = tmp_path / "export.json"
    path.write_text(json.dumps(tasks, ensure_ascii=False), "utf-8")
    joined = join(read_marks([path]), answers)
    assert {*joined.answers} == {*content["items"][0]["line"]["draw"]["order"]}
    assert joined.description["annotators"] == 1

    view = ElementTree.fromstring(interface)
    assert [text.get("value") for text in view.iter("Text")] == ["$answer", "$reference"]
    assert len([*view.iter("Label")]) == 6
