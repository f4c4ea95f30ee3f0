"""Tasks and interface for Label Studio, and its export read back as lines of a marks file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.results.marks.content import page_content
from lm_eval_tasks.results.marks.draw import draw
from lm_eval_tasks.results.marks.label_studio import label_studio_tasks, labelling_interface, lines_from_export
from tests.marked_runs import clapnq_row, mfava_row, task_answers
from tests.report_runs import HOSTILE

ANSWER = "Ein 👩‍🔬 sagt:\nzwei Wörter"
LINE = {"id": "de_0_1", "task": "mfava_de", "kind": "spans", "answer": ANSWER, "suggested": False}


def region(start: int, end: int, text: str | None = None, label: str = "hallucination") -> dict[str, Any]:
    value = {"start": start, "end": end, "labels": [label], **({} if text is None else {"text": text})}
    return {"from_name": "spans", "to_name": "answer", "type": "labels", "value": value}


def chosen(verdict: str) -> dict[str, Any]:
    return {"from_name": "verdict", "to_name": "answer", "type": "choices", "value": {"choices": [verdict]}}


def noted(*texts: str) -> dict[str, Any]:
    return {"from_name": "note", "to_name": "answer", "type": "textarea", "value": {"text": [*texts]}}


def annotation(*results: Any, by: Any = 3, **more: Any) -> dict[str, Any]:
    return {"result": [*results], "completed_by": by, "was_cancelled": False, "lead_time": 41.23, **more}


def exported(path: Path, *annotations: Any, line: Any = LINE, **more: Any) -> list[dict[str, Any]]:
    task = {"id": 12, "data": line, "annotations": [*annotations], "predictions": [{"result": [region(0, 3)]}], **more}
    path.write_text(json.dumps([task]), "utf-8")
    return lines_from_export(path)


@pytest.mark.parametrize(
    ("regions", "spans"),
    [
        ([], []),
        ([region(0, 3, "Ein")], [[0, 3, "hallucination"]]),
        # today's versions count code points, those before 2022 units of UTF-16; a line feed is stored as `\n`
        ([region(4, 7, "👩‍🔬")], [[4, 7, "hallucination"]]),
        ([region(4, 9, "👩‍🔬")], [[4, 7, "hallucination"]]),
        ([region(8, 18, "sagt:\\nzwei")], [[8, 18, "hallucination"]]),
        ([region(10, 20, "sagt:\\nzwei")], [[8, 18, "hallucination"]]),
        ([region(8, 18)], [[8, 18, "hallucination"]]),  # without a text: as today
        ([region(19, 25, "Wörter", "entity"), region(0, 3, "Ein")], [[0, 3, "hallucination"], [19, 25, "entity"]]),
    ],
)
def test_regions_are_read_to_the_character(tmp_path: Path, regions: list[Any], spans: list[Any]) -> None:
    (line,) = exported(tmp_path / "export.json", annotation(*regions, noted("so", "so")))
    assert line == {
        **LINE,
        "annotator": "3",
        "spans": spans,
        "cannot_tell": False,
        "note": "so\nso",
        "seconds": 41.2,
    }


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40), st.data())
def test_both_ways_of_counting_give_the_same_text(tmp_path_factory: Any, answer: str, data: Any) -> None:
    start = data.draw(st.integers(0, len(answer) - 1))
    end = data.draw(st.integers(start + 1, len(answer)))
    text = answer[start:end]
    units = [len(answer[:at].encode("utf-16-le")) // 2 for at in (start, end)]
    path = tmp_path_factory.getbasetemp() / "export.json"
    for offsets in ((start, end), units):
        (line,) = exported(path, annotation(region(*offsets, text)), line={**LINE, "answer": answer})
        ((first, last, _),) = line["spans"]
        assert answer[first:last] == text


def test_annotators_cancelled_annotations_and_those_who_cannot_tell(tmp_path: Path) -> None:
    lines = exported(
        tmp_path / "export.json",
        annotation(region(0, 3, "Ein"), by={"id": 1, "email": "anna@example.org"}),
        annotation(chosen("cannot tell"), by={"id": 2, "email": ""}, lead_time=None),
        annotation(region(0, 9), was_cancelled=True, by=7),
    )
    assert [(line["annotator"], line["spans"], line["cannot_tell"], line["seconds"]) for line in lines] == [
        ("anna@example.org", [[0, 3, "hallucination"]], False, 41.2),
        ("2", None, True, 0.0),
    ]
    assert exported(tmp_path / "export.json") == []  # a task that nobody has annotated
    old = [{"id": 1, "data": LINE, "completions": [annotation()]}]
    (tmp_path / "old.json").write_text(json.dumps(old))
    assert [line["spans"] for line in lines_from_export(tmp_path / "old.json")] == [[]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "no JSON of Label Studio"),
        ("[" * 100_000, "no JSON of Label Studio"),
        ('{"tasks": []}', "not a list of tasks"),
        ("[3]", "not a list of tasks"),
        ([{"id": 5, "answer": "x"}], "task 5: no annotations; export as JSON, not as JSON-MIN"),
        ([{"id": 5, "annotations": [annotation()]}], "task 5: 'data' is missing"),
        ([{"id": 5, "data": {"text": "x"}, "annotations": [annotation()]}], "task 5: 'kind' is missing"),
        ([{"data": LINE, "annotations": [{"completed_by": 1}]}], "task 1: 'result' is missing"),
        ([{"data": LINE, "annotations": [annotation(region(0, 99))]}], "does not hold None"),
        (
            [{"data": LINE, "annotations": [annotation(region(0, 3, "Wort"))]}],
            "from 0 to 3 of the answer does not hold 'W",
        ),
        ([{"data": LINE, "annotations": [annotation(region(3, 3, ""))]}], "a region from 3 to 3"),
        ([{"data": LINE, "annotations": [annotation(region(0, 3), chosen("cannot tell"))]}], "undo one of them"),
        ([{"data": LINE, "annotations": [annotation(), annotation()]}], "3 has annotated it twice"),
        ([{"data": LINE, "annotations": [3]}], "task 1: "),
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
    """Somebody accepts each suggestion in Label Studio."""
    rows = [mfava_row(n, f"x {text}"[:300], [[0, 3, "entity", 0.5]]) for n, text in enumerate(HOSTILE.values())]
    answers = task_answers(tmp_path / "run", rows)
    content = page_content([answers], draw([answers], 100, 1), categories=True, suggest=True)
    tasks = json.loads(json.dumps(label_studio_tasks(content), ensure_ascii=False))
    for number, task in enumerate(tasks):
        task |= {"id": number, "annotations": [annotation(*task["predictions"][0]["result"])]}
    (tmp_path / "export.json").write_text(json.dumps(tasks, ensure_ascii=False), "utf-8")
    lines = lines_from_export(tmp_path / "export.json")
    said = {"annotator": "3", "spans": [[0, 3, "entity"]], "cannot_tell": False, "note": "", "seconds": 41.2}
    assert lines == [{**item["line"], "suggested": True, **said} for item in content["items"]]


def test_the_interface_has_what_the_kind_asks_for(tmp_path: Path) -> None:
    answers = [
        task_answers(tmp_path / name, [clapnq_row(n, f"{name} {n}") for n in range(5)], "clapnq_gold")
        for name in ("one", "two")
    ]
    drawn = draw(answers, 5, 1)
    content = page_content(answers, drawn, instructions="# Read <this>\n\n- & mark")
    view = ElementTree.fromstring(labelling_interface(content))
    assert [header.get("value") for header in view.iter("Header")][:3] == ["# Read <this>", "- & mark", "$question"]
    assert {text.get("name"): text.get("value") for text in view.iter("Text")} == {
        "answer": "$answer",
        "reference": "$reference",
    }
    assert [label.get("value") for label in view.iter("Label")] == ["hallucination"]
    assert [choice.get("value") for choice in view.iter("Choice")] == ["cannot tell"]
    six = ElementTree.fromstring(labelling_interface(page_content(answers, drawn, categories=True)))
    assert len([*six.iter("Label")]) == 6
    content["items"][0]["suggested"] = [[0, 3, "hallucination"], [0, 3, "entity"]]
    suggested = ElementTree.fromstring(labelling_interface(content))
    assert [label.get("value") for label in suggested.iter("Label")] == ["hallucination", "entity"]
    ratings = ElementTree.fromstring(labelling_interface(page_content(answers, drawn, "ratings")))
    assert [(r.get("name"), r.get("maxRating")) for r in ratings.iter("Rating")] == [
        ("faithfulness", "4"),
        ("appropriateness", "4"),
    ]
    pairs = ElementTree.fromstring(labelling_interface(page_content(answers, drawn, "preferences")))
    assert [choice.get("value") for choice in pairs.iter("Choice")] == ["answer_1", "answer_2", "tie", "cannot tell"]


@pytest.mark.parametrize(
    ("kind", "results", "said"),
    [
        ("ratings", [("faithfulness", 4), ("appropriateness", 2)], {"faithfulness": 4, "appropriateness": 2}),
        ("ratings", [("faithfulness", 4)], {"faithfulness": 4, "appropriateness": None}),
        ("preferences", "answer_2", 1),
        ("preferences", "tie", "tie"),
        ("preferences", "cannot tell", None),
    ],
)
def test_ratings_and_preferences_are_read_back(tmp_path: Path, kind: str, results: Any, said: Any) -> None:
    line = {"id": "q1", "task": "clapnq_gold", "kind": kind, "answers": ["a", "b"], "suggested": False}
    if kind == "ratings":
        rated = [{"from_name": name, "type": "rating", "value": {"rating": rating}} for name, rating in results]
        (read,) = exported(tmp_path / "export.json", annotation(*rated), line=line)
        assert read["ratings"] == said
    else:
        line_and_more = {**line, "answer_1": "a", "answer_2": "b"}
        (read,) = exported(tmp_path / "export.json", annotation(chosen(results)), line=line_and_more)
        assert read["preferred"] == said
        assert not {"answer_1", "answer_2"} & read.keys()
        with pytest.raises(CorruptSource, match="does not say which answer is better"):
            exported(tmp_path / "export.json", annotation(), line=line)
