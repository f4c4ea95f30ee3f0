"""The same ranks, doubts and best models everywhere: Python, the page, and the figures of a report."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER
from lm_eval_tasks.results.compare import compare_runs
from lm_eval_tasks.results.report import Report
from lm_eval_tasks.runs import Run, read_runs
from tests.many_runs import labelled_runs

WRONG = range(32), range(27, 52)


def of_labels(two_models: Path, folder: Path, labels: Mapping[str, Sequence[str]]) -> list[Run]:
    """Runs of ``nomiracl_de`` with these labels, by model."""
    by_task = {model: {"nomiracl_de": of_model} for model, of_model in labels.items()}
    return read_runs([labelled_runs(two_models / "baseline-lexical", folder, by_task)])


def test_the_better_model_is_that_of_the_paired_difference(two_models: Path, tmp_path: Path) -> None:
    """Of 250 questions without an answer one model makes up 32 and the other 25, but that is Invalid on 22 of these 32:
    where both can be read it is 10 and 25. By their own shares, 0.128 and 0.110, the worse would be first."""
    first, second = ([ANSWER if not n % 2 or n // 2 in of else NO_ANSWER for n in range(500)] for of in WRONG)
    second = [INVALID if n % 2 and n < 44 else label for n, label in enumerate(second)]
    runs = of_labels(two_models, tmp_path, {"first": first, "second": second})
    comparison = compare_runs(runs)
    for metric, own, difference, only in (
        ("hallucination_rate", (0.128, 25 / 228), -15 / 228, (22, 0)),  # documents that count for one alone
        ("balanced_error", (0.064, 47 / 500), -15 / 500, (0, 0)),
    ):
        (row,) = comparison.select(metric)
        assert (row.cells[0].value, row.cells[1].value, row.result.difference) == pytest.approx((*own, difference))
        assert (row.only_first, row.only_second) == only
        assert comparison.models[row.better or 0] == "first"
        column = comparison.column(metric, "nomiracl_de")
        assert column is not None
        assert (column.order, column.ranks) == ([0, 1], {0: 1, 1: 2})
        rows = {row["model"]: row for row in Report.of(runs).figures() if row["metric"] == f"{metric}, robust"}
        assert [rows[model]["value"] for model in ("first", "second")] == pytest.approx(own)
        assert [rows[model]["rank"] for model in ("first", "second")] == [1, 2]


def made_labels(wrong: Mapping[int, range], invalid: range = range(0)) -> list[str]:
    """The labels of 120 questions: by kind (1: no passage has the answer), the wrong ones of its 60; both kinds have the
    same Invalid ones."""
    right = {0: ANSWER, 1: NO_ANSWER}
    return [INVALID if n // 2 in invalid else right[(n + (n // 2 in wrong.get(n % 2, ()))) % 2] for n in range(120)]


def test_a_run_that_lacks_a_language_has_no_rank_by_the_mean_and_changes_none(two_models: Path, tmp_path: Path) -> None:
    """If its pairs were in Holm's family, the report would see no difference of the others (p = 0.026, of three
    pairs 0.078). What a made-up answer costs is decided by the same family."""
    good, worse = made_labels({1: range(2)}), made_labels({0: range(10, 11), 1: range(2, 9)})
    tasks = "nomiracl_de", "nomiracl_fr"
    labels = {"good": dict.fromkeys(tasks, good), "worse": dict.fromkeys(tasks, worse), "half": {tasks[0]: worse}}
    runs = read_runs([labelled_runs(two_models / "baseline-lexical", tmp_path, labels)])
    comparison = compare_runs(runs)
    (overview,), column = Report.of(runs).overviews, comparison.column("balanced_error", "nomiracl")
    assert {row.model: row.rank for row in overview.rows} == {"good": 1, "worse": 2, "half": None}
    assert column is not None
    assert {comparison.models[model]: rank for model, rank in column.ranks.items()} == {"good": 1, "worse": 2}
    rows = {row.tasks: row for row in comparison.select("balanced_error", "nomiracl")}
    assert [(rows[2].family, rows[1].family), rows[2].p_adjusted] == [(1, 2), pytest.approx(0.0259, abs=1e-4)]
    at_one = comparison.costs["nomiracl"].at[0]
    assert (at_one.cost, at_one.best, [*at_one.equals]) == (1.0, column.order[0], column.equals(column.order[0]))


def test_a_run_that_cannot_be_read_is_the_worst_and_takes_no_column_away(two_models: Path, tmp_path: Path) -> None:
    """It has neither of the two rates. One that cannot be read where it would be wrong wins nothing by it."""
    labels = {
        "a_good": made_labels({1: range(2)}),
        "b_unreadable": made_labels({1: range(50, 60)}, range(40)),
        "c_nothing": made_labels({}, range(60)),
    }
    report = Report.of(of_labels(two_models, tmp_path, labels))
    (overview,), shown = report.overviews, dict[str, list[Any]]()
    for row in report.figures():
        shown.setdefault(row["metric"], []).append((row["value"] and round(row["value"], 3), row["rank"]))
    assert [row.model for row in overview.rows] == [*labels]
    assert shown == {
        "balanced_error, robust": [(0.017, 1), (0.75, 2), (1.0, 3)],
        "hallucination_rate, robust": [(0.033, 1), (0.5, 2), (None, None)],
        "error_rate, robust": [(0.0, 1), (0.0, 1), (None, None)],
    }


MADE = {"good": (0.05, 0.0), "better": (0.04, 0.0), "fair": (0.15, 0.0), "poor": (0.35, 0.0), "unreadable": (0.05, 0.4)}
"""Shares of wrong and of Invalid answers."""


def test_figures_page_and_compare_have_the_same_ranks_doubts_and_best(two_models: Path, tmp_path: Path) -> None:
    """Over two languages; a further model declines everything, and one does so in one language alone."""
    rng = random.Random(5)

    def label(model: str, number: int) -> str:
        wrong, invalid = MADE[model]
        right = (rng.random() >= wrong) != bool(number % 2)
        return INVALID if rng.random() < invalid else ANSWER if right else NO_ANSWER

    tasks = {"de": "nomiracl_de", "fr": "nomiracl_fr"}
    labels = {model: {task: [label(model, n) for n in range(120)] for task in tasks.values()} for model in MADE}
    labels["declines"] = {task: [NO_ANSWER] * 120 for task in tasks.values()}
    labels["half"] = {**labels["fair"], tasks["fr"]: [NO_ANSWER] * 120}
    folder = labelled_runs(two_models / "baseline-lexical", tmp_path / "runs", labels)
    report = Report.of(read_runs([folder]))
    comparison, (overview,) = report.comparison, report.overviews
    assert comparison is not None
    ranked: dict[str, dict[str, int | None]] = {"nomiracl": {}, **{task: {} for task in tasks.values()}}
    for row in report.figures():
        if row["metric"] == "balanced_error, robust":
            ranked[tasks.get(row["column"], "nomiracl")][row["model"]] = row["rank"]
    expected = {"better": 1, "good": 1, "fair": 3, "poor": 4, "unreadable": 4, "half": 4, "declines": None}
    assert ranked["nomiracl"] == expected
    assert [ranked[task]["half"] for task in tasks.values()] == [ranked["nomiracl_de"]["fair"], None]
    for name, seen in (("nomiracl", overview), *((task, overview.languages[code]) for code, task in tasks.items())):
        assert {row.model: row.rank for row in seen.rows} == ranked[name], name
        column = comparison.column("balanced_error", name)
        assert column is not None
        by_model = {comparison.models[model]: rank for model, rank in column.ranks.items()}
        assert by_model == {model: rank for model, rank in ranked[name].items() if rank is not None}
        assert [comparison.models[model] for model in column.order] == [row.model for row in seen.rows]
        assert seen.best is not None
        assert ranked[name][seen.best.model] == 1
        assert {seen.best.model, *seen.equals} >= {model for model, rank in ranked[name].items() if rank == 1}
    marks = {row.model: row.doubts for row in overview.rows}
    assert {model for model, text in marks.items() if not text} == {"better", "good", "fair", "poor"}
    assert marks["unreadable"].startswith("the run looks broken")
    assert marks["half"] == "it declines every question (in 1 of 2 languages)"
    assert marks["declines"].startswith("it declines every question")
    of_compare = {comparison.models[model]: texts for model, texts in comparison.doubts.items()}
    assert {*of_compare} == {"unreadable", "half", "declines"}
    assert of_compare["half"] == ("it declines every question (nomiracl_fr)",)
