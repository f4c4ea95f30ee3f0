"""Labelled answers in files of a user's own: what a line holds, and what is said of one that is none."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.reading.spans import Span
from lm_eval_tasks.data import provenance
from lm_eval_tasks.data.sources import CorruptSource, MissingSource
from lm_eval_tasks.detection.labelled_answers import EMPTY, read_labelled_lines
from lm_eval_tasks.mfava import dataset as mfava

LONG = "x" * 200
CATEGORIES = "entity, relation, invented, contradictory, unverifiable, subjective, hallucination"
ROW = {"reference": "r", "answer": "ab c", "spans": [], "language": "de"}


def lines(tmp_path: Path, *rows: dict[str, Any]) -> Path:
    path = tmp_path / "own.jsonl"
    path.write_text("\n" + "".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


@pytest.mark.parametrize(
    ("change", "why"),
    [
        *(({key: 5}, f"{key!r} is int, not a text") for key in ("reference", "answer", "question", "annotations")),
        ({"annotations": "human"}, "annotations is 'human', none of real, gold, silver, rag"),
        ({"language": " "}, "language is empty; it is an ISO 639 code such as de"),
        ({"answer": None}, "'answer' is NoneType, not a text"),
        ({"spans": {}}, "spans is dict, not a list of [start, end, ...]"),
        ({"spans": [LONG]}, f"spans hold {LONG[:80]}, not [start, end, category]"),
        ({"spans": [[0, 1, "odd"]]}, f"category 'odd' is none of {CATEGORIES}"),
        ({"spans": [[0, 5]]}, "a span ends at 5, but the answer has 4 characters"),
        ({"soft": [[0, 1]]}, "soft holds [0, 1], not [start, end, share]"),
        ({"soft": [[0, 5, 0.5]]}, "a span ends at 5, but the answer has 4 characters"),
    ],
)
def test_a_line_that_is_no_labelled_answer_is_named(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    path = lines(tmp_path, ROW, ROW | change)
    with pytest.raises(CorruptSource) as refused:
        read_labelled_lines(path, Counter())
    assert str(refused.value) == f"{path}, line 3: not a labelled answer: {why}"


def test_a_labelled_answer_has_what_its_line_says(tmp_path: Path) -> None:
    more = {"question": "q", "model": "m", "article": "a", "annotations": "gold", "language": " fi ", "group": " g "}
    spans = {"spans": [[0, 2], [3, 4, "invented"]], "soft": [[1, 4, 0.25]]}
    unsaid = dict.fromkeys((*more, "soft")) | {"language": "de"}
    rows = [ROW, ROW | more | spans, ROW | unsaid, ROW | {"answer": " "}, ROW | {"answer": ""}]
    seen: Counter[str] = Counter()
    plain, full, null = read_labelled_lines(lines(tmp_path, *rows), seen)
    assert seen == {"blank lines": 1, EMPTY: 2}
    assert plain == null
    names = ("question", "model", "article", "group", "annotations", "language")
    assert [getattr(plain, name) for name in names] == ["", "", "", "", "silver", "de"]
    assert [getattr(full, name) for name in names] == ["q", "m", "a", "g", "gold", "fi"]
    assert (plain.soft, plain.spans, full.spans) == (None, (), (Span(0, 2), Span(3, 4, "invented")))
    assert [(span.start, span.end, span.probability) for span in full.soft or ()] == [(1, 4, 0.25)]
    missing = tmp_path / "none.jsonl"
    with pytest.raises(MissingSource) as refused:
        read_labelled_lines(missing, Counter())
    assert str(refused.value) == f"{missing}: no such file; --data names collections and files of JSON lines"


def test_questions_of_mfava_come_from_an_earlier_runs_samples(tmp_path: Path) -> None:
    doc = dict.fromkeys(mfava.COLUMNS, "x") | {"article": 3, "subset": 1, "more": 7}
    path = tmp_path / "samples_mfava_de_2026-01-01T00-00-00.jsonl"
    rows = [{"doc_id": n, "doc": doc | {"id": f"q{n}"}, "resps": [["a"]]} for n in (1, 0)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    documents = mfava.load("de", samples=str(path))["evaluation"]
    assert documents["id"] == ["q0", "q1"]
    assert documents["detector"] == ["lexical", "lexical"]
    record = provenance.of_dataset(documents)
    assert record["read_from"] == "samples"
    assert [(file["option"], file["name"]) for file in record["local_files"]] == [("samples", path.name)]
