"""Tables of a leaderboard from made-up runs: who is in which column, mean and bounds, ranks, what is apart."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from custom_metrics.statistics.figures import share_figure
from custom_metrics.statistics.intervals import wilson
from custom_metrics.statistics.strata import mean_of_shares
from lm_eval_tasks.definition.catalogue import metric_of
from lm_eval_tasks.definition.schema import DEFINED_SHARE
from lm_eval_tasks.results.leaderboard.entry import Entry, HeadlineFigure, TaskEntry, entry_of
from lm_eval_tasks.results.leaderboard.standings import MEAN_COLUMN, Column, sections_of
from lm_eval_tasks.runs import read_runs

ERROR = Column("", "error_rate, robust", False)
ASKED = {"documents": "d", "prompt": "p"}


def task(
    language: str, numbers: list[float | None], conditions: dict[str, str] | None = None, **more: Any
) -> TaskEntry:
    return TaskEntry(
        task=f"nomiracl_{language}",
        language=language,
        family="nomiracl",
        conditions=dict(ASKED if conditions is None else conditions),
        headlines=(rate("error_rate", numbers),),
        figures={},
        units={},
        doubts=(),
        **more,
    )


def rate(metric: str, numbers: list[float | None], passages: Sequence[str] = ()) -> HeadlineFigure:
    described = replace(metric_of(metric), aggregation=DEFINED_SHARE, higher_is_better=False)
    return HeadlineFigure(
        described, "robust", share_figure(numbers), np.array(numbers, float), not passages, tuple(passages)
    )


def entry(model: str, *tasks: TaskEntry) -> Entry:
    return Entry(model, model, "2026-01-01", {}, tasks)


GOOD: list[float | None] = [0.0] * 38 + [1.0] * 2
FAIR: list[float | None] = [0.0] * 36 + [1.0] * 4
BAD: list[float | None] = [0.0] * 5 + [1.0] * 35


def test_models_that_cannot_be_told_apart_share_a_rank() -> None:
    (section,) = sections_of(
        [entry("bad", task("de", BAD)), entry("fair", task("de", FAIR)), entry("good", task("de", GOOD))]
    )
    (table,) = section.tables
    assert (table.title, table.columns) == ("", (ERROR,))
    found = [(row.entry, row.cells[ERROR].rank) for row in table.rows]
    assert found == [(2, 1), (1, 1), (0, 3)]
    assert table.rows[0].cells[ERROR].figure == share_figure(GOOD)


def test_a_mean_over_languages_is_of_runs_that_have_them_all() -> None:
    (section,) = sections_of(
        [
            entry("good", task("de", GOOD), task("fr", GOOD)),
            entry("bad", task("de", BAD), task("fr", FAIR)),
            entry("half", task("fr", GOOD)),
        ]
    )
    (table,) = section.tables
    mean, german, french = table.columns
    assert (table.title, *table.columns) == (
        "error_rate, robust",
        *(Column(name, "", False) for name in (MEAN_COLUMN, "de", "fr")),
    )
    rows = {row.entry: row.cells for row in table.rows}
    assert [row.entry for row in table.rows] == [0, 1, 2]
    assert (rows[0][mean].rank, rows[1][mean].rank) == (1, 2)
    assert rows[1][mean].figure == mean_of_shares([share_figure(BAD), share_figure(FAIR)])
    assert rows[1][mean].figure[:3] == pytest.approx((39 / 80, 0.418, 0.557), abs=5e-4)
    assert {*rows[2]} == {french}
    assert german in rows[1]
    assert {number: cells[french].rank for number, cells in rows.items()} == {0: 1, 1: 1, 2: 1}


@pytest.mark.parametrize(("value", "bounds"), [(0.0, (0.0002205, 0.0070524)), (1.0, (0.9929476, 0.9997795))])
def test_the_bounds_of_a_mean_stay_on_its_scale(value: float, bounds: tuple[float, float]) -> None:
    """0 of 400 in one language and 1 of 400 in the other: value +- 1.96 standard errors would leave [0, 1]."""
    one, other = [value] * 400, [value] * 399 + [1 - value]
    (section,) = sections_of([entry("a", task("de", [*one]), task("fr", [*other]))])
    figure = section.tables[0].rows[0].cells[section.tables[0].columns[0]].figure
    assert figure == mean_of_shares([share_figure(one), share_figure(other)])
    assert figure[:3] == pytest.approx((abs(value - 1 / 800), *bounds), abs=1e-7)


@pytest.mark.parametrize(("better", "rank_of_worst"), [(1, 2), (2, 3), (3, 4), (4, 1), (5, 1)])
def test_ranks_are_by_the_p_that_holm_corrects_for_all_pairs(better: int, rank_of_worst: int) -> None:
    """0 and 7 of 40 differ at p = 2 / 2^8 (mid-p): of 6 pairs 0.047 is significant, of 10 pairs 0.078 is not."""
    runs = [entry(f"a{n}", task("de", [0.0] * 40)) for n in range(better)]
    (section,) = sections_of([entry("b", task("de", [0.0] * 33 + [1.0] * 7)), *runs])
    found = {row.entry: row.cells[ERROR].rank for row in section.tables[0].rows}
    assert found == {0: rank_of_worst, **dict.fromkeys(range(1, better + 1), 1)}


def test_parallel_languages_are_no_strata_of_their_own() -> None:
    """The same 40 passages in both languages: as sure as 40 documents, not as 80."""
    runs = {"good": GOOD, "worse": [*GOOD[:34], *[1.0] * 6]}
    for names, error, documents, rank in (
        ([[f"p{n}" for n in range(40)]] * 2, share_figure(GOOD).standard_error, 39, 1),
        ([[f"{code}{n}" for n in range(40)] for code in "ab"], share_figure(GOOD).standard_error / math.sqrt(2), 78, 2),
    ):
        entries = []
        for model, n in runs.items():
            tasks = [
                replace(task(code, n), headlines=(rate("error_rate", n, passages),))
                for code, passages in zip(("de", "fr"), names, strict=True)
            ]
            entries.append(entry(model, *tasks))
        (section,) = sections_of(entries)
        first, second = section.tables[0].rows
        mean = section.tables[0].columns[0]
        found = first.cells[mean].figure
        assert found == pytest.approx((0.05, *wilson(0.05 * documents, documents), error, 80))
        assert (first.cells[mean].rank, second.cells[mean].rank) == (1, rank)


def test_what_is_bought_with_each_other_stands_side_by_side() -> None:
    def both(language: str, hallucination: list[float | None], error: list[float | None]) -> TaskEntry:
        headlines = (rate("hallucination_rate", hallucination), rate("error_rate", error))
        return replace(task(language, error), headlines=headlines)

    (section,) = sections_of([entry("a", both("de", GOOD, BAD), both("fr", GOOD, BAD))])
    (table,) = section.tables
    assert table.title == "hallucination_rate and error_rate, robust"
    assert [column[:2] for column in table.columns] == [
        (place, metric) for place in ("mean", "de", "fr") for metric in ("hallucination_rate", "error_rate")
    ]


NONE: list[float | None] = [0.0] * 40


def test_a_run_that_answers_every_question_alike_has_a_mark_and_no_rank() -> None:
    """Of the others each is ranked as if it were not there."""
    alike = {"alike": ("it declines every question",)}
    (section,) = sections_of(
        [
            entry("abstains", task("de", NONE, **alike), task("fr", NONE, **alike)),
            entry("good", task("de", GOOD), task("fr", GOOD, unread=("many answers are Invalid",))),
            entry("fair", task("de", FAIR), task("fr", FAIR)),
            entry("half", task("de", BAD), task("fr", NONE, **alike)),
        ]
    )
    (table,) = section.tables
    assert [row.entry for row in table.rows] == [1, 2, 3, 0]  # those that compete, best first
    ranks = {row.entry: [row.cells[column].rank for column in table.columns] for row in table.rows}
    assert ranks == {1: [1, 1, 1], 2: [2, 1, 1], 3: [3, 3, None], 0: [None, None, None]}
    marked = {row.entry: [row.cells[column].marked for column in table.columns] for row in table.rows}
    assert marked == {1: [True, False, True], 2: [False] * 3, 3: [True, False, True], 0: [True] * 3}
    assert {row.entry: row.marks for row in table.rows} == {
        0: ("it declines every question",),
        1: ("many answers are Invalid (fr)",),
        2: (),
        3: ("it declines every question (fr)",),
    }


def test_what_is_not_measurable_has_no_rank_and_stands_behind() -> None:
    def unknown(model: str, numbers: list[float | None], low: float, high: float) -> Entry:
        headline = rate("error_rate", numbers)
        headline = replace(headline, figure=headline.figure._replace(low=low, high=high))
        return entry(model, replace(task("de", numbers), headlines=(headline,)))

    (section,) = sections_of(
        [unknown("unknown", NONE, 0.0, 1.0), unknown("bad", BAD, 0.5, 1.0), unknown("good", GOOD, 0.0, 0.2)]
    )
    rows = [(row.entry, row.cells[ERROR].rank, row.cells[ERROR].competes) for row in section.tables[0].rows]
    assert rows == [(2, 1, True), (1, 2, True), (0, None, False)]


@pytest.mark.parametrize("condition", ["documents", "prompt", "shots", "detector", "version"])
def test_runs_under_other_conditions_are_apart(condition: str) -> None:
    first, other = ({**ASKED, condition: said} for said in ("first", "other"))
    runs = [task("de", GOOD, first), task("de", BAD, other), task("de", FAIR, first), task("fr", GOOD, other)]
    found = sections_of([entry(name, of_run) for name, of_run in zip("abcd", runs, strict=True)])
    assert [section.number for section in found] == [1, 2]
    members = [sorted({row.entry for table in section.tables for row in table.rows}) for section in found]
    assert members == [[0, 2, 3], [1]]
    assert all(row.cells[ERROR].rank is None for row in found[1].tables[0].rows)


def test_an_entry_is_what_was_kept_of_it_and_its_numbers_have_the_figure_as_their_mean(two_models: Path) -> None:
    for run in read_runs([two_models]):
        made = entry_of(run, ".")
        kept = json.dumps(made.to_json())
        assert json.dumps(Entry.from_json(json.loads(kept)).to_json()) == kept
        assert [found.task for found in made.tasks] == [*run.tasks]
        for found in made.tasks:
            for headline in found.headlines:
                known = headline.numbers[~np.isnan(headline.numbers)]
                value = headline.figure.value
                if headline.metric.name in ("rogan_gladen_rate", "estimated_rate"):
                    value = found.figures["answer"]["detected_rate"]["value"]  # what ranks are by
                assert np.mean(known) == pytest.approx(value), (found.task, headline.metric.name)
