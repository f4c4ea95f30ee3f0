"""Labels in files, at their edges: places at the end of an answer, and what is said of a line that is none."""

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
from lm_eval_tasks.mushroom.labels import hard_spans, soft_labels

LONG = "x" * 200
CATEGORIES = "entity, relation, invented, contradictory, unverifiable, subjective, hallucination"
BEYOND = {"labels that reach beyond the answer, cut there": 1}


@pytest.mark.parametrize(
    ("place", "found", "seen"),
    [
        ([0, 10], [(0, 10)], {}),
        ([9, 10], [(9, 10)], {}),
        ([9, 11], [(9, 10)], BEYOND),
        ([10, 12], [], BEYOND),
        ([-2, 0], [], BEYOND),
        ([-1, 1], [(0, 1)], BEYOND),
        ([3.0, 4.0], [(3, 4)], {}),
        ([3, 3], [], {"labels that end where they start or before, left out": 1}),
    ],
)
def test_a_label_at_the_end_of_an_answer(place: list[Any], found: list[tuple[int, int]], seen: dict[str, int]) -> None:
    counted: Counter[str] = Counter()
    assert hard_spans([place], 10, counted) == [Span(*each) for each in found]
    assert counted == seen
    soft = soft_labels([{"start": place[0], "end": place[1], "prob": 0.25}], 10, Counter())
    assert soft == [{"start": start, "end": end, "prob": 0.25} for start, end in found]


@pytest.mark.parametrize(
    ("labels", "hard", "soft"),
    [
        (None, "hard_labels is NoneType, not a list", "soft_labels is NoneType, not a list"),
        ({}, "hard_labels is dict, not a list", "soft_labels is dict, not a list"),
        (
            [LONG],
            f"hard_labels hold {LONG[:80]}, not [start, end]",
            f"soft_labels hold {LONG[:80]}, no start, end and prob",
        ),
        ([[1]], "hard_labels hold [1], not [start, end]", "soft_labels hold [1], no start, end and prob"),
        (
            [{"start": 1, "end": 2}],
            "hard_labels hold {'start': 1, 'end': 2}, not [start, end]",
            "soft_labels hold {'start': 1, 'end': 2}, no start, end and prob",
        ),
    ],
)
def test_what_is_no_list_of_labels(labels: Any, hard: str, soft: str) -> None:
    for read, says in ((hard_spans, hard), (soft_labels, soft)):
        with pytest.raises(ValueError) as refused:  # noqa: PT011 (its whole text is compared)
            read(labels, 10, Counter())
        assert str(refused.value) == says


@pytest.mark.parametrize("probability", [True, "1", None, -0.1, 1.1, [0.5]])
def test_a_probability_is_a_number_from_0_to_1(probability: Any) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        soft_labels([{"start": 0, "end": 1, "prob": probability}], 10, Counter())
    assert str(refused.value) == f"a soft label's prob is {probability!r}, no number from 0 to 1"
    for edge in (0, 1):
        assert soft_labels([{"start": 0, "end": 1, "prob": edge}], 10, Counter())[0]["prob"] == edge


ROW = {"reference": "r", "answer": "ab c", "spans": [], "language": "de"}


def lines(tmp_path: Path, *rows: dict[str, Any]) -> Path:
    path = tmp_path / "own.jsonl"
    path.write_text("\n" + "".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


@pytest.mark.parametrize(
    ("change", "why"),
    [
        *(
            ({key: 5}, f"{key} is int, not a text")
            for key in ("reference", "answer", "language", "question", "model", "article")
        ),
        ({"annotations": 5}, "annotations is int, not a text"),
        ({"annotations": "human"}, "annotations is 'human', none of real, gold, silver"),
        ({"language": " "}, "language is empty; it is an ISO 639 code such as de"),
        ({"answer": None}, "answer is NoneType, not a text"),
        ({"spans": {}}, "spans is dict, not a list of [start, end, ...]"),
        ({"soft": {}}, "soft is dict, not a list of [start, end, ...]"),
        ({"spans": [LONG]}, f"spans hold {LONG[:80]}, not [start, end, category]"),
        ({"spans": [[1]]}, "spans hold [1], not [start, end, category]"),
        ({"spans": [[0, 1, "odd"]]}, f"category 'odd' is none of {CATEGORIES}"),
        ({"spans": [[0, 5]]}, "a span ends at 5, but the answer has 4 characters"),
        ({"soft": [LONG]}, f"soft holds {LONG[:80]}, not [start, end, share]"),
        ({"soft": [[0, 1]]}, "soft holds [0, 1], not [start, end, share]"),
        ({"soft": [[0, 5, 0.5]]}, "a span ends at 5, but the answer has 4 characters"),
    ],
)
def test_a_line_that_is_no_labelled_answer_is_named_with_what_it_lacks(
    tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    path = lines(tmp_path, ROW, ROW | change)
    with pytest.raises(CorruptSource) as refused:
        read_labelled_lines(path, Counter())
    assert str(refused.value) == f"{path}, line 3: no labelled answer: {why}"


def test_a_labelled_answer_has_what_its_line_says(tmp_path: Path) -> None:
    more = {"question": "q", "model": "m", "article": "a", "annotations": "gold", "language": " fi "}
    spans = {"spans": [[0, 2], [3, 4, "invented"]], "soft": [[1, 4, 0.25]]}
    seen: Counter[str] = Counter()
    plain, full, null = read_labelled_lines(
        lines(
            tmp_path,
            ROW,
            ROW | more | spans,
            ROW | dict.fromkeys((*more, "soft")) | {"language": "de"},
            ROW | {"answer": " "},
            ROW | {"answer": ""},
        ),
        seen,
    )
    assert seen == {"blank lines": 1, EMPTY: 2}
    assert plain == null
    assert (plain.question, plain.model, plain.article, plain.annotations, plain.soft, plain.spans) == (
        *("", "", "", "silver", None),
        (),
    )
    assert (full.question, full.model, full.article, full.annotations, full.language) == ("q", "m", "a", "gold", "fi")
    assert full.spans == (Span(0, 2), Span(3, 4, "invented"))
    assert [(span.start, span.end, span.probability) for span in full.soft or ()] == [(1, 4, 0.25)]
    missing = tmp_path / "none.jsonl"
    with pytest.raises(MissingSource) as refused:
        read_labelled_lines(missing, Counter())
    assert str(refused.value) == f"{missing}: no such file; --data names collections and files of JSON lines"


def test_questions_of_mfava_come_from_an_earlier_runs_samples(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    doc = dict.fromkeys(mfava.COLUMNS, "x") | {"article": 3, "subset": 1, "more": 7}
    path = tmp_path / "samples_mfava_de_2026-01-01T00-00-00.jsonl"
    path.write_text(
        "".join(json.dumps({"doc_id": n, "doc": doc | {"id": f"q{n}"}, "resps": [["a"]]}) + "\n" for n in (1, 0)),
        "utf-8",
    )
    with caplog.at_level("INFO", "lm_eval"):
        documents = mfava.load("de", samples=str(path))["evaluation"]
    assert documents["id"] == ["q0", "q1"]
    assert documents["detector"] == ["lexical", "lexical"]
    assert caplog.messages[-1].startswith(f"mfava_de: 2 questions from {path}; ")
    record = provenance.of_dataset(documents)
    assert record["read_from"] == "samples"
    assert [(file["option"], file["name"]) for file in record["local_files"]] == [("samples", path.name)]
