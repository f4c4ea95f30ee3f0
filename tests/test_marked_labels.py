"""People's labels of some answers, joined with ours of all: shares, doubt, draws, results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from custom_metrics.statistics.marked import Draws, MarkedShare, marked_difference, marked_share, mean_share
from lm_eval_tasks.cli import main
from lm_eval_tasks.detection.marked import KINDS
from lm_eval_tasks.results.marks.draw import label_chances
from lm_eval_tasks.runs import read_runs
from tests.changed_runs import few_tasks
from tests.logged_runs import lines
from tests.marked_runs import _row, clapnq_row, logged_run, task_answers

CLAIMS, READABLE = (1, 0, 0), (1, 1, 0)


def share(ours: list[int], drawn: dict[int, int], weights: Any = 1.0, doubtful: Any = False) -> MarkedShare:
    """The share of claims among answers that can be read. `drawn` has people's labels by place."""
    is_drawn = np.array([place in drawn for place in range(len(ours))])
    labels = np.array([np.eye(3)[drawn[place]] if place in drawn else np.full(3, np.nan) for place in range(len(ours))])
    spread = (np.broadcast_to(each, len(ours)) for each in (doubtful, weights))
    doubt, weight = (np.array(each) for each in spread)
    found = marked_share(np.array(ours), doubt, is_drawn, weight.astype(float), labels, CLAIMS, READABLE)
    assert found is not None
    return found


def jeffreys(hits: float, draws: float) -> float:
    return float(beta.ppf(0.975, hits + 0.5, draws - hits + 0.5))


def test_where_all_labels_were_right_it_is_our_share_with_bounds() -> None:
    found = share([0] * 2 + [1] * 18, {0: 0, **dict.fromkeys(range(2, 11), 1)})
    assert found.figure.value == pytest.approx(0.1)
    assert found.figure.n == 10
    assert found.figure.low == pytest.approx(0.1 - 0.1 * jeffreys(0, 1))  # the other claim may be none
    assert found.figure.high == pytest.approx(0.1 + 0.9 * jeffreys(0, 9))
    assert not found.residuals.any()


def test_a_wrong_label_counts_by_its_group_and_weight() -> None:
    found = share([1] * 10, {0: 0, 1: 1, 2: 1, 3: 1}, weights=[3.0, *[1.0] * 9])
    assert found.figure.value == pytest.approx(3 / 6)
    doubted = share([1] * 10, {0: 0, 1: 1, 2: 1, 3: 1}, doubtful=[True, *[False] * 9])
    assert doubted.figure.value == pytest.approx(0.1)  # all answers in doubt were read
    assert doubted.figure.high == pytest.approx(0.1 + 0.9 * jeffreys(0, 3))


def test_of_a_group_without_draws_ours_are_taken_and_may_all_be_wrong() -> None:
    found = share([0] + [1] * 9, dict.fromkeys(range(1, 6), 1))
    assert found.figure.value == pytest.approx(0.1)
    assert found.figure.low == 0
    assert found.bounds(0.5)[1] < found.bounds(0.05)[1] < found.bounds(0.01)[1]


def test_answers_that_are_neither_leave_the_denominator() -> None:
    found = share([2, 2, 1, 1], {0: 0, 1: 2, 2: 1, 3: 1})
    assert found.figure.value == pytest.approx(1 / 3)


def test_a_mean_and_a_difference_have_the_bounds_of_their_parts() -> None:
    one, other = share([1] * 20, dict.fromkeys(range(10), 1)), share([0] * 20, dict.fromkeys(range(10), 0))
    mean = mean_share([one, other])
    assert mean.figure.value == pytest.approx(0.5)
    reach = jeffreys(0, 10)
    assert mean.figure[1:3] == pytest.approx((0.5 - reach / 2, 0.5 + reach / 2))
    difference = marked_difference((Draws.of(np.ones(10)), one, other))
    assert difference[2:5] == pytest.approx((-1.0, -1.0, -1 + np.sqrt(2) * reach))
    assert difference.p < 1e-4


@pytest.mark.parametrize(
    ("response", "robust", "doubtful"),
    [
        ("Yes, answer is present.", "Yes, answer is present", False),
        ("I don't know. The passages do not say.", "I don't know", False),
        ("Yes, answer is present. Or: I don't know.", "Yes, answer is present", True),  # several verdicts
        ("Paris", "Yes, answer is present", True),  # Invalid for the released parser
        ("Please answer the question.", "Invalid", True),
    ],
)
def test_a_nomiracl_label_is_doubtful_by_parsers(tmp_path: Path, response: str, robust: str, doubtful: bool) -> None:
    doc = {"query_id": "1", "subset": "relevant", "language": "en", "docids": [], "label": "Yes, answer is present"}
    row = {**_row(0, doc, response, robust), "filter": "robust"}
    answers = task_answers(tmp_path, [row], "nomiracl_en", "labels")
    assert (answers.texts, answers.doubtful.tolist()) == ([response], [doubtful])


@pytest.mark.parametrize(
    ("answer", "label", "doubtful"),
    [
        ("The tower was built in 1889 by the company of Eiffel.", 0, False),
        ("The passages do not say who built the tower.", 1, False),
        ("in 1889", 0, True),  # short
        ("", 0, True),
    ],
)
def test_a_clapnq_label_is_doubtful_by_readers(tmp_path: Path, answer: str, label: int, doubtful: bool) -> None:
    answers = task_answers(tmp_path, [clapnq_row(0, answer)], "clapnq_gold", "labels")
    assert (answers.labels.tolist(), answers.doubtful.tolist()) == ([label], [doubtful])


def test_half_of_a_draw_is_of_each_kind_and_doubt_doubles_a_chance() -> None:
    chances = label_chances(np.array([True, True, True, False]), np.array([True, False, False, False]))
    assert chances.tolist() == [0.25, 0.125, 0.125, 0.5]
    assert label_chances(np.array([True, True]), np.array([False, True])).tolist() == pytest.approx([1 / 3, 2 / 3])


def labelled_run(folder: Path) -> Path:
    """A run of CLAPnq: twenty answers to each kind of question, of which one in five declines."""
    texts = ("The passages do not say who built it.", "It was built in 1889 by the company of Eiffel.")
    return logged_run(folder, [clapnq_row(n, texts[n % 5 > 0]) for n in range(40)], "clapnq_gold")


def test_labels_need_results_to_be_added_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labelled_run(tmp_path / "run")
    assert main(["mark", str(tmp_path / "run"), "--kind", "labels", "--answers", "10", "-o", str(tmp_path)]) == 0
    assert "clapnq_gold: 10 answers to label" in capsys.readouterr().out
    page = (tmp_path / "marking.html").read_text("utf-8")
    content = json.loads(page.partition('id="content">')[2].partition("</script>")[0])
    rows = [{**item["line"], "annotator": "Anna", "label": "answers"} for item in content["items"]]
    for name, changed in (("labels", rows), ("odd", [{**rows[0], "label": "maybe"}, *rows[1:]])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in changed), "utf-8")
    command = ["score", str(tmp_path / "run"), "--marks"]
    assert main([*command, str(tmp_path / "labels.jsonl")]) == 2
    assert "no results file is beside it" in capsys.readouterr().err
    assert main([*command, str(tmp_path / "odd.jsonl")]) == 2
    assert "label is 'maybe', none of answers, declines, neither" in capsys.readouterr().err


def test_labels_are_added_to_finished_results(two_models: Path, tmp_path: Path) -> None:
    """Two baselines on the sample: people read all drawn answers as we do, but for the first."""
    runs = sorted(few_tasks(two_models, tmp_path / "runs", ["nomiracl_de", "clapnq_gold"]).iterdir())
    arguments = ["--tasks", "nomiracl_de", "--kind", "labels", "--answers", "8", "-o", str(tmp_path)]
    assert main(["mark", *map(str, runs), *arguments]) == 0
    page = (tmp_path / "marking.html").read_text("utf-8")
    content = json.loads(page.partition('id="content">')[2].partition("</script>")[0])
    marks = tmp_path / "labels.jsonl"
    said = {True: "answers", False: "declines"}
    with marks.open("w", encoding="utf-8") as stream:
        for place, item in enumerate(content["items"]):
            claims = item["line"]["answer"].startswith("Yes") != (place == 0)
            stream.write(json.dumps({**item["line"], "annotator": "Anna", "label": said[claims]}) + "\n")
    for run in runs:
        assert main(["score", str(run), "--marks", str(marks), "-o", str(tmp_path / run.name)]) == 0
    wrong = 0.0
    for run in runs:
        (scored,) = read_runs([tmp_path / run.name])
        task = scored.tasks["nomiracl_de"]
        assert {*task.provenance["label_marks"]} >= {"draw", "annotators", "answers", "draws"}
        for name in ("marked_balanced_error", "marked_hallucination_rate", "marked_error_rate"):
            figure = task.figure(name, "robust")
            assert 0 <= figure.low <= figure.value <= figure.high <= 1
            assert figure.low < figure.high
            assert task.metric(name).aggregation.endswith(name)
        wrong += task.figure("wrong_label_rate", "robust").value
        rows = [row for row in lines(task.samples) if row["filter"] == "robust"]
        values = [row["marked_balanced_error"] for row in rows]
        assert KINDS["marked_balanced_error"].figure_of(values) == task.figure("marked_balanced_error", "robust")
    assert wrong > 0
    assert {*scored.tasks} == {*read_runs([runs[1]])[0].tasks}  # the other tasks are there as they were
    assert main(["compare", *(str(tmp_path / run.name) for run in runs), "-o", str(tmp_path / "table.txt")]) == 0
    assert "marked_balanced_error" in (tmp_path / "table.txt").read_text("utf-8")
