"""Rows of a user's own files, and the edges of reading what a model made of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.reading.spans import Span
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data.sources import CorruptSource, MissingSource
from lm_eval_tasks.making.dataset import read_rows

EMPTY = {
    "title": "",
    "url": "",
    "question": "",
    "reference": "",
    "answer": "",
    "model": "",
    "language": "de",
    "spans": [],
}


def read(tmp_path: Path, *rows: Any) -> tuple[list[dict[str, Any]], Counter[str]]:
    path = tmp_path / "articles.jsonl"
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), "utf-8")
    seen: Counter[str] = Counter()
    return list(read_rows(path, "de", seen)), seen


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"text": " The Elbe. \n"}, {"reference": "The Elbe."}),
        ({"text": "a", "reference": "b"}, {"reference": "b"}),
        ({"text": "a", "reference": None}, {"reference": "a"}),
        (
            {"title": " T ", "url": "u", "question": "q ", "model": "m"},
            {"title": "T", "url": "u", "question": "q", "model": "m"},
        ),
        ({"id": "x", "language": "fi"}, {"id": "x", "language": "fi"}),
        ({"id": 7, "language": ""}, {"id": "7"}),
        ({"id": "", "title": None, "more": 3}, {}),
        ({"title": "half \ud800"}, {"title": "half \ufffd"}),
        # An answer keeps its white space: spans are places in it.
        ({"answer": " a b ", "spans": [[1, 2, "entity"]]}, {"answer": " a b ", "spans": [Span(1, 2, "entity")]}),
        ({"answer": "ab", "spans": None}, {"answer": "ab"}),
        (
            {"answer": "a b", "spans": [[2, 3, "relation"], [0, 1, "entity"]]},
            {"answer": "a b", "spans": [Span(0, 1, "entity"), Span(2, 3, "relation")]},
        ),
    ],
)
def test_a_row_has_every_field(tmp_path: Path, row: dict[str, Any], expected: dict[str, Any]) -> None:
    found, seen = read(tmp_path, "", row)
    assert found == [EMPTY | {"id": "2"} | expected]
    assert seen == {"blank lines": 1}


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    fields = [{"title": 1}, {"text": ["a"]}, {"language": 3}, {"answer": {"a": 1}, "text": "a"}]
    spans = [
        *(
            {"answer": "ab", "spans": spans}
            for spans in ([[0, 3, "entity"]], [[1, 1, "entity"]], [[0, 1, "odd"]], [["a"]], 5)
        ),
        {"spans": [[0, 1, "entity"]]},
    ]
    found, seen = read(tmp_path, *fields, {"text": "kept"}, *spans)
    assert [row["id"] for row in found] == ["5"]
    assert seen == {
        "rows left out, with a field that is no text": 4,
        "rows left out, with spans that do not fit their answer": 6,
    }


def test_an_id_names_one_row(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"articles\.jsonl: lines 1 and 3 have the same id '2'; an id names one row$"):
        read(tmp_path, {"id": 2}, {"id": "a"}, {"id": "2"})
    with pytest.raises(UsageError, match="lines 1 and 2 have the same id '2'"):  # its line is the name of the second
        read(tmp_path, {"id": "2"}, {"text": "a"})
    assert [row["id"] for row in read(tmp_path, {"title": 1, "id": "a"}, {"id": "a"})[0]] == ["a"]
    with pytest.raises(CorruptSource, match="line 2: expected a JSON object"):
        read(tmp_path, {}, "[]")
    with pytest.raises(MissingSource, match=r"none\.jsonl: no such file \(--metadata articles=FILE, JSON lines with"):
        list(read_rows(tmp_path / "none.jsonl", "de", Counter()))
