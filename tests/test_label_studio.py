"""Tasks and interface for Label Studio, and its export read back as lines of a marks file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.results.marks.draw import draw
from lm_eval_tasks.results.marks.lines import join, lines_from_export, project, read_marks
from lm_eval_tasks.results.marks.page import page_content
from tests.marked_runs import mfava_row, task_answers
from tests.report_runs import HOSTILE

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
    answers = task_answers(
        tmp_path / "run", [mfava_row(n, f"x {text}"[:300]) for n, text in enumerate(HOSTILE.values())]
    )
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
