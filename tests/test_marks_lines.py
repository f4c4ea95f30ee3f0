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
from lm_eval_tasks.results.marks.lines import Mark, join, kappa_of_words, read_marks

ANSWERS = {"a": "one two three four", "b": "five six", "c": "seven eight", "d": ""}
NUMBERS = np.array([len(answer.split()) for answer in ANSWERS.values()], float)
DIGEST = run_digest(ANSWERS)
DOCS = [SimpleNamespace(doc={"reference": f"about {identity}"}) for identity in ANSWERS]
RUN = TaskAnswers(
    *("mfava_en", "org/model", "en", DOCS, [*ANSWERS], [*ANSWERS.values()]),
    *(NUMBERS, np.zeros(4), np.ones(4, bool), False, DIGEST),
)
ORDER = ["a", "b", "a", "c", "a"]


def draw_of(order: list[str], seed: int = 1, runs: Sequence[str] = (DIGEST,)) -> dict[str, Any]:
    return {"seed": seed, "runs": [*runs], "order": order}


def line(identity: str = "a", annotator: str = "anna", **fields: Any) -> dict[str, Any]:
    row = {
        "id": identity,
        "task": "mfava_en",
        "kind": "spans",
        "annotator": annotator,
        "language": "en",
        "question": "?",
        "reference": f"about {identity}",
        "answer": ANSWERS.get(identity, ""),
        "run": DIGEST,
        "chance": len(ANSWERS.get(identity, "").split()) / 8 or 0.1,
        "draw": draw_of(ORDER),
        "spans": [[0, 3, "hallucination"]],
        "cannot_tell": False,
    }
    return {**row, **fields}


def read(tmp_path: Path, *rows: Any) -> list[Mark]:
    path = tmp_path / "marks.jsonl"
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), "utf-8")
    return read_marks([path])


def test_answers_are_joined_with_how_often_they_were_drawn(tmp_path: Path) -> None:
    bert = line("a", "bert", spans=[])
    marks = read(
        tmp_path, line("a"), bert, line("b", spans=[[0, 8, "entity"]]), line("c", cannot_tell=True, spans=None)
    )
    joined = join(marks, RUN)

    assert {key: drawn[1:4] for key, drawn in joined.answers.items()} == {
        "a": (3, 1.0, 0.125),  # a quarter of the words by one annotator, none by the other
        "b": (1, 1.0, 1.0),
        "c": (1, 1.0, None),
    }
    assert len(joined.description.pop("draw")) == 12
    numbers = {"seed": 1, "runs": 1, "annotators": 2, "kappa": 0.0, "answers_of_several": 1, "suggested": 0}
    assert joined.description == {"files": ["marks.jsonl"], **numbers}


def test_weights_are_the_share_of_words_over_the_chance_of_a_draw_of_several_runs(tmp_path: Path) -> None:
    draw = draw_of(["a", "b"], runs=[DIGEST, "0" * 16])
    marks = read(tmp_path, line("a", draw=draw, chance=0.25), line("b", draw=draw, chance=0.5))
    assert [each.weight for each in join(marks, RUN).answers.values()] == [2.0, 0.5]


@pytest.mark.parametrize(
    ("complete_to", "of_a", "of_b"),
    [(None, (0.5, 0.0), (0.25, 0.0)), (2, (2 / 3, 0.25), (0.5, 0.5)), (1, (1.0, 0.5), None)],
)
def test_of_draws_without_replacement_the_threshold_says_how_probable_an_answer_is(
    tmp_path: Path, complete_to: int | None, of_a: tuple[float, float], of_b: tuple[float, float] | None
) -> None:
    """An answer's share of the words, a half and a quarter, is its chance. Times the threshold it is the logarithm of the
    probability that the answer is left out, less its sign; the weight is the share over the other probability."""
    joined = join(read(tmp_path, *map(unrepeated, "abc")), RUN, complete_to).answers
    assert (joined["a"].weight, joined["a"].left_out) == pytest.approx(of_a)
    assert (joined["b"].weight, joined["b"].left_out) == pytest.approx(of_b) if of_b else "b" not in joined


THRESHOLDS = [2 * math.log(2), 4 * math.log(2), None]


def unrepeated(identity: str, **changes: Any) -> dict[str, Any]:
    """A line of a draw without replacement, as the page saves it, and then with changes in its draw."""
    drawn = Draw(1, (DIGEST,), tuple("abc"), (*THRESHOLDS[:2], math.inf))
    chance = {name: line(name)["chance"] for name in "abc"}
    fields = drawn._replace(chances=chance).fields(identity)
    return line(identity, **{**fields, "draw": {**fields["draw"], **drawn.listed, **changes}})


@pytest.mark.parametrize(
    "changes",
    [
        *({"thresholds": values} for values in ([0.5], 3, ["a", 1, 1], [-1, 1, 1], [1, 1, None], THRESHOLDS[::-1])),
        {"thresholds": [10 * value if value else None for value in THRESHOLDS]},
        {"order": ["b", "a", "c"]},
        {"order": ["a", "c"], "thresholds": THRESHOLDS[1:]},
        {"seed": 2},
        {"digest": None},
        {"digest": True},
    ],
)
def test_a_changed_order_or_threshold_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(
        CorruptSource, match=r"marks\.jsonl, line 1: .*(?:changed; take the line as the page|threshold)"
    ):
        read(tmp_path, unrepeated("a", **changes), unrepeated("b"))


def test_a_draw_without_replacement_has_digests_of_its_chances(tmp_path: Path) -> None:
    rows = [{**unrepeated(identity), "chance_digest": None} for identity in "abc"]
    with pytest.raises(UsageError, match=r"chance 0\.5 of a is not that of its draw"):
        join(read(tmp_path, *rows), RUN)


@pytest.mark.parametrize(("complete_to", "times"), [(2, {"a": 1, "b": 1}), (3, {"a": 2, "b": 1})])
def test_the_first_draws_count_where_later_ones_have_no_mark(
    tmp_path: Path, complete_to: int, times: dict[str, int]
) -> None:
    marks = read(tmp_path, line("a"), line("b"))
    with pytest.raises(UsageError, match=r"1 drawn answers are not marked: c\. .*--complete-to 3"):
        join(marks, RUN)
    joined = join(marks, RUN, complete_to)
    assert {key: drawn.times for key, drawn in joined.answers.items()} == times
    for none in (0, -1, 9):
        with pytest.raises(UsageError, match=f"--complete-to {none}, of [0-9]+ draws"):
            join(marks, RUN, none)


def test_what_only_another_run_says_something_about_needs_no_mark_and_keeps_its_draws(tmp_path: Path) -> None:
    """The answer to d has words in the other run of the draw alone."""
    both = {"seed": 1, "runs": [DIGEST, "other"], "order": ["d", "a", "d", "b"]}
    marks = read(tmp_path, *(line(identity, draw=both, spans=[]) for identity in "ab"))
    joined = {key: drawn[1:4] for key, drawn in join(marks, RUN).answers.items()}
    assert joined == {"d": (2, 0.0, 0.0), "a": (1, 1.0, 0.0), "b": (1, 1.0, 0.0)}
    with pytest.raises(UsageError, match=r"1 drawn answers are not marked: b\. .* --complete-to 3"):
        join(marks[:1], RUN)


def test_a_longer_draw_goes_on_from_a_shorter_one(tmp_path: Path) -> None:
    short = draw_of(ORDER[:3])
    marks = read(tmp_path, line("a", draw=short), line("b", draw=short), line("c"))
    assert join(marks, RUN).answers["a"].times == 3


def test_one_line_of_a_file_says_the_order(tmp_path: Path) -> None:
    rows = [line("a"), *(line(identity, draw={"seed": 1, "runs": [DIGEST]}) for identity in "bc")]
    for order in (rows, rows[::-1]):
        assert {key: drawn.times for key, drawn in join(read(tmp_path, *order), RUN).answers.items()} == {
            **{"a": 3, "b": 1, "c": 1}
        }
    with pytest.raises(
        CorruptSource, match=r"marks\.jsonl, line 1: no line says the order of its draw; name the whole"
    ):
        read(tmp_path, *rows[1:])
    longer = line("c", draw={"seed": 1, "runs": [DIGEST], "order": [*ORDER, "b"]})
    assert join(read(tmp_path, rows[0], rows[1], longer), RUN).answers["b"].times == 2


TWO = {"seed": 1, "runs": [DIGEST, "other"], "order": ["a", "b", "c"]}


def of_two(identity: str, **fields: Any) -> dict[str, Any]:
    """A line of a draw of two runs, the other of which has as many words of each answer."""
    row = line(identity, draw=TWO, **fields)
    return {**row, "chance_digest": chance_digest(identity, line(identity)["chance"], 1, TWO["runs"])}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"chance": 0.3}, r"marks\.jsonl, line 1: chance 0\.3 of a is not that of its draw; take the line as the page"),
        ({"draw": {**TWO, "seed": 2}}, "chance 0.5 of a is not that of its draw"),
        # lines without a digest: a chance is the mean of the shares of both runs
        ({"chance": 0.05, "chance_digest": None}, "drawn with chance 0.050000, but has 0.500000 of the words"),
        ({"chance": 0.8, "chance_digest": None}, "it 0.250000 to 0.750000 for 2 runs; take the line as the page"),
    ],
)
def test_a_changed_chance_is_refused_also_in_a_draw_of_several_runs(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    rows = [of_two(identity) for identity in "abc"]
    assert {key: drawn.weight for key, drawn in join(read(tmp_path, *rows), RUN).answers.items()} == {
        **{"a": 1.0, "b": 1.0, "c": 1.0}
    }
    changed = {name: value for name, value in {**rows[0], **changes}.items() if value is not None}
    with pytest.raises(UsageError, match=message):
        join(read(tmp_path, changed, *rows[1:]), RUN)


def test_lines_of_two_runs_say_the_same_chance(tmp_path: Path) -> None:
    """The line of one run was changed, that of the other not; neither has a digest."""
    rows = [line("a", draw=TWO, chance=0.3), line("a", draw=TWO, run="other", answer="x y")]
    with pytest.raises(
        CorruptSource, match=r"line 2: the chance of a is 0\.5, and 0\.3 in .*marks\.jsonl, line 1; take"
    ):
        read(tmp_path, *rows)


def test_a_run_without_marks_has_none(tmp_path: Path) -> None:
    assert join(read(tmp_path, line("a")), RUN._replace(task="mfava_de")).answers == {}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([line(answer="one two three four!")], "the answer to a is another one"),
        ([line(reference="other")], "the reference of a is another one"),
        ([line(language="ja")], "the language of a is en, not ja"),
        ([line(chance=0.4)], "a was drawn with chance 0.400000, but has 0.500000 of the words"),
        ([line("e", answer="x", spans=[], draw=draw_of(["e"]))], "the run has no document e"),
        ([line("a"), line("b", draw=draw_of(["b"], seed=2))], "are of different draws"),
        ([line(run="f" * 16, draw=draw_of(ORDER, runs=["f" * 16]))], "its answers have the digest ffffffffffffffff"),
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
        (line(chance=0), "chance is 0, not a number between 0 and 1"),
        (line(chance=True), "chance is True"),
        (line(draw=[]), "draw is not an object with seed, runs and order"),
        (line(draw=draw_of(["b"])), "its draw does not have 'a'"),
        (line(draw=draw_of(["a"], runs=["0"])), f"its draw does not have '{DIGEST}'"),
        (line(spans=None), "spans is NoneType, not a list"),
        (line(spans=[[0, 19, "entity"]]), "a span ends at 19, but the answer has 18 characters"),
        (line(spans=[[0, 1, "rude"]]), "category 'rude' is none of"),
        (line(spans=[[1.5, 3, "entity"]]), r"a span is \[start, end, category\]"),
        (line(cannot_tell="yes"), "cannot_tell is 'yes', neither true nor false"),
        (line(cannot_tell=None), "cannot_tell is None"),
        (line(cannot_tell=True), "it has spans, and cannot_tell"),
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
    assert kappa_of_words(marks) == (0.5, 1)
    assert kappa_of_words(marks[3:]) == (None, 0)


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(), lambda part: st.lists(part) | st.dictionaries(st.text(), part)
)


@given(
    st.sampled_from(["spans", "draw", "chance", "run", "id", "answer", "annotator", "cannot_tell", "suggested"]), VALUES
)
def test_any_value_of_a_field_is_read_or_refused(field: str, value: Any) -> None:
    with tempfile.TemporaryDirectory() as folder, suppress(CorruptSource):
        read(Path(folder), line(**{field: value}))
