"""Files of marks: what a line must hold, and which marks are those of a run."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.results.marks.draw import Draw, TaskAnswers, chance_digest, run_digest
from lm_eval_tasks.results.marks.lines import Mark, join, kappa_of, read_marks

ANSWERS = {"a": "one two three four", "b": "five six", "c": "seven eight", "d": ""}
NUMBERS = np.array([len(answer.split()) for answer in ANSWERS.values()], float)
DIGEST = run_digest(ANSWERS)
DOCS = [SimpleNamespace(doc={"reference": f"about {identity}"}) for identity in ANSWERS]
RUN = TaskAnswers(
    *("mfava_en", "org/model", "en", DOCS, [*ANSWERS], [*ANSWERS.values()]),
    *(NUMBERS, np.zeros(4), np.ones(4, bool), False, DIGEST),
)
CHANCES = {"a": 0.5, "b": 0.25, "c": 0.25, "d": 0.0}
THRESHOLDS = [2 * math.log(2), 4 * math.log(2), 8 * math.log(2), None]


def draw_of(order: str = "abc", seed: int = 1, runs: Sequence[str] = (DIGEST,)) -> dict[str, Any]:
    """The field ``draw`` of a file's first line."""
    thresholds = [math.inf if place is None else place for place in THRESHOLDS[: len(order)]]
    drawn = Draw(seed, tuple(runs), tuple(order), tuple(thresholds))
    return {"seed": seed, "runs": [*runs], **drawn.listed}


def line(name: str = "a", annotator: str = "anna", **fields: Any) -> dict[str, Any]:
    """A line as the page saves it, and then with changes."""
    draw, chance = fields.get("draw", draw_of()), CHANCES.get(name, 0.1) or 0.1
    digest = chance_digest(name, chance, draw["seed"], draw["runs"]) if isinstance(draw, dict) else ""
    return {
        **{"id": name, "task": "mfava_en", "kind": "spans", "annotator": annotator, "language": "en", "question": "?"},
        **{"reference": f"about {name}", "answer": ANSWERS.get(name, ""), "run": DIGEST, "draw": draw},
        **{"chance": chance, "chance_digest": digest, "spans": [[0, 3, "hallucination"]], "cannot_tell": False},
        **fields,
    }


def read(tmp_path: Path, *rows: Any) -> list[Mark]:
    path = tmp_path / "marks.jsonl"
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), "utf-8")
    return read_marks([path])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([line(answer="one two three four!")], "the answer to a is another one"),
        ([line(reference="other")], "the reference of a is another one"),
        ([line(language="ja")], "the language of a is en, not ja"),
        ([line("e", answer="x", spans=[], draw=draw_of("e"))], "the run has no document e"),
        ([line("a"), line("b", draw=draw_of("b", seed=2))], "are of different draws"),
        ([line(run="f" * 16, draw=draw_of(runs=["f" * 16]))], "its answers have the digest ffffffffffffffff"),
    ],
)
def test_marks_of_other_answers_are_refused(tmp_path: Path, rows: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        join(read(tmp_path, *rows), RUN)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (line(kind="rude"), "kind is 'rude', none of spans, labels"),
        (line(annotator=""), "annotator is '', not a text"),
        (line(chance=0), "chance is 0, not that of its draw"),
        (line(chance=True), "chance is True"),
        (line(draw=[]), "no line says the order of its draw"),
        (line(draw=draw_of("b")), "its draw begins otherwise than that of another line"),
        (line(draw=draw_of("b", seed=2)), "its draw does not have 'a'"),
        (line(draw=draw_of("a", runs=["0"])), f"its draw does not have '{DIGEST}'"),
        (line(spans=None), "spans is NoneType, not a list"),
        (line(spans=[[0, 19, "entity"]]), "a span ends at 19, but the answer has 18 characters"),
        (line(spans=[[0, 1, "rude"]]), "category 'rude' is none of"),
        (line(spans=[[1.5, 3, "entity"]]), r"a span is \[start, end, category\]"),
        (line(cannot_tell="yes"), "cannot_tell is 'yes', neither true nor false"),
        (line(cannot_tell=None), "cannot_tell is None"),
        (line(suggested=1), "suggested is 1, neither true nor false"),
        ("{", "no JSON"),
        ("[]", "expected a JSON object"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(tmp_path: Path, row: Any, message: str) -> None:
    with pytest.raises(CorruptSource, match=rf"marks\.jsonl, line 2: .*{message}"):
        read(tmp_path, line(), row)


def test_a_line_counts_once_and_two_of_one_annotator_must_be_equal(tmp_path: Path) -> None:
    assert len(read(tmp_path, line(), line())) == 1
    with pytest.raises(CorruptSource, match=r"line 2: anna has marked a in .*line 1, and otherwise"):
        read(tmp_path, line(), line(spans=[]))
    with pytest.raises(CorruptSource, match="no mark in it"):
        read(tmp_path)


def test_agreement_is_of_words_and_of_pairs_of_annotators(tmp_path: Path) -> None:
    marks = read(
        tmp_path,
        line("a", "anna", spans=[[0, 7, "hallucination"]]),  # one, two
        line("a", "bert", spans=[[0, 3, "entity"]]),  # one
        line("a", "cleo", cannot_tell=True, spans=None),
        line("b", "anna"),
    )
    assert kappa_of(marks) == (0.5, 1)
    assert kappa_of(marks[3:]) == (None, 0)


def test_answers_are_joined_with_what_annotators_marked(tmp_path: Path) -> None:
    rows = line("a"), line("a", "bert", spans=[]), line("b", spans=[[0, 8, "entity"]])
    joined = join(read(tmp_path, *rows, line("c", cannot_tell=True, spans=None)), RUN)
    shares = {name: drawn.marked for name, drawn in joined.answers.items()}
    assert shares == {"a": 0.125, "b": 1.0, "c": None}  # of a, a quarter by one annotator and nothing by the other
    assert len(joined.description.pop("draw")) == 12
    numbers = {"seed": 1, "runs": 1, "annotators": 2, "kappa": 0.0, "answers_of_several": 1, "suggested": 0}
    assert joined.description == {"files": ["marks.jsonl"], **numbers}
    assert join(read(tmp_path, line()), RUN._replace(task="mfava_de")).answers == {}  # a run without marks has none


@pytest.mark.parametrize(
    ("complete_to", "expected"),
    [
        (None, {"a": (0.5 / (1 - 2**-4), 2**-4), "b": (0.25 / 0.75, 0.25), "c": (0.25 / 0.75, 0.25)}),
        (2, {"a": (0.5 / 0.75, 0.25), "b": (0.5, 0.5)}),
        (1, {"a": (1.0, 0.5)}),
    ],
)
def test_the_threshold_says_how_probable_an_answer_is(
    tmp_path: Path, complete_to: int | None, expected: dict[str, tuple[float, float]]
) -> None:
    """The threshold of a number of draws, times an answer's share of the words, is the logarithm of the probability that
    it is left out, less its sign; the weight is the share over the other probability."""
    joined = join(read(tmp_path, *map(line, "abc")), RUN, complete_to).answers
    assert {name: pytest.approx(each) for name, each in expected.items()} == {
        name: (drawn.weight, drawn.left_out) for name, drawn in joined.items()
    }


@pytest.mark.parametrize(
    "changes",
    [
        *(
            {"thresholds": values}
            for values in ([0.5], 3, None, ["a", 1, 1], [-1, 1, 1], [1, 1, None], THRESHOLDS[2::-1])
        ),
        *({"order": ["b", "a", "c"]}, {"order": ["a", "c"], "thresholds": THRESHOLDS[1:3]}),
        *({"seed": 2}, {"digest": None}, {"digest": True}),
    ],
)
def test_a_changed_order_or_threshold_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(CorruptSource, match=r"line 1: .*(?:changed; take the line as the page|threshold)"):
        read(tmp_path, line("a", draw={**draw_of(), **changes}), line("b"))


@pytest.mark.parametrize("runs", [[DIGEST], [DIGEST, "other"]])
@pytest.mark.parametrize("changes", [{"chance": 0.3}, {"chance_digest": None}])
def test_a_changed_chance_is_refused(tmp_path: Path, runs: list[str], changes: dict[str, Any]) -> None:
    rows = [line(name, draw=draw_of(runs=runs)) for name in "abc"]
    assert len(join(read(tmp_path, *rows), RUN).answers) == 3
    with pytest.raises(CorruptSource, match=r"line 1: chance is 0\.[35], not that of its draw; take the line as the"):
        read(tmp_path, {**rows[0], **changes}, *rows[1:])


def test_the_first_draws_count_where_later_ones_have_no_mark(tmp_path: Path) -> None:
    marks = read(tmp_path, line("a"), line("b"))
    with pytest.raises(UsageError, match=r"1 drawn answers are not marked: c\. .*--complete-to 2"):
        join(marks, RUN)
    assert [*join(marks, RUN, 2).answers] == ["a", "b"]
    for none in (0, -1, 9):
        with pytest.raises(UsageError, match=f"--complete-to {none}, of [0-9]+ draws"):
            join(marks, RUN, none)


def test_what_only_another_run_says_something_about_needs_no_mark_and_keeps_its_place(tmp_path: Path) -> None:
    """The answer to d has words in the other run of the draw alone."""
    both = draw_of("dab", runs=[DIGEST, "other"])
    marks = read(tmp_path, *(line(name, draw=both, spans=[]) for name in "ab"))
    joined = {name: (drawn.weight > 0, drawn.marked) for name, drawn in join(marks, RUN).answers.items()}
    assert joined == {"d": (False, 0.0), "a": (True, 0.0), "b": (True, 0.0)}
    with pytest.raises(UsageError, match=r"1 drawn answers are not marked: b\. .* --complete-to 2"):
        join(marks[:1], RUN)


def test_one_line_of_a_file_says_the_order_and_the_longest_draw_counts(tmp_path: Path) -> None:
    rows = [line("a"), *(line(name, draw={"seed": 1, "runs": [DIGEST]}) for name in "bc")]
    for order in (rows, rows[::-1]):
        assert [*join(read(tmp_path, *order), RUN).answers] == ["a", "b", "c"]
    with pytest.raises(CorruptSource, match=r"line 1: no line says the order of its draw; name the whole"):
        read(tmp_path, *rows[1:])
    shorter = [line(name, draw=draw_of("ab")) for name in "ab"]
    assert [*join(read(tmp_path, *shorter, line("c")), RUN).answers] == ["a", "b", "c"]


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(), lambda part: st.lists(part) | st.dictionaries(st.text(), part)
)


@given(
    st.sampled_from(["spans", "draw", "chance", "run", "id", "answer", "annotator", "cannot_tell", "suggested"]), VALUES
)
def test_any_value_of_a_field_is_read_or_refused(field: str, value: Any) -> None:
    with tempfile.TemporaryDirectory() as folder, suppress(CorruptSource):
        read(Path(folder), {**line(), field: value})
