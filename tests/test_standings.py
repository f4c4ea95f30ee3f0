"""Tables of a leaderboard from made-up runs, and the same ranks on every page."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER
from custom_metrics.scores.aggregations import defined_share
from custom_metrics.scores.balanced_error import balanced_error
from custom_metrics.statistics.figures import outcome
from custom_metrics.statistics.intervals import wilson
from custom_metrics.statistics.strata import mean_of_shares
from lm_eval_tasks.definition.catalogue import metric_of
from lm_eval_tasks.definition.schema import DEFINED_SHARE
from lm_eval_tasks.nomiracl.benchmark import BENCHMARK
from lm_eval_tasks.published import rows_for
from lm_eval_tasks.results.compare import compare_runs
from lm_eval_tasks.results.leaderboard.entry import DETECTORS, Entry, HeadlineFigure, TaskEntry, entry_of, read_entries
from lm_eval_tasks.results.leaderboard.standings import MEAN_COLUMN, Table, overviews, sections_of
from lm_eval_tasks.results.measuring import Measured
from lm_eval_tasks.results.report.documents import caching_reader
from lm_eval_tasks.results.report.page import page_of
from lm_eval_tasks.runs import labels as labels_of
from lm_eval_tasks.runs import read_runs
from tests.many_runs import labelled_runs

share_of = defined_share.figure_of
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
    measured = Measured(defined_share, {0: defined_share.rows(numbers, passages)}, "documents")
    return HeadlineFigure(described, "robust", share_of(numbers), measured)


def ranks(table: Table) -> list[tuple[int, int | None]]:
    """The runs of a table, in order, with their ranks in its first column."""
    return [(row.entry, table.columns[0].cells[row.entry].rank) for row in table.rows]


def entry(model: str, *tasks: TaskEntry) -> Entry:
    return Entry(model, model, "2026-01-01", {}, tasks)


GOOD: list[float | None] = [0.0] * 38 + [1.0] * 2
FAIR: list[float | None] = [0.0] * 36 + [1.0] * 4
BAD: list[float | None] = [0.0] * 5 + [1.0] * 35


def test_models_that_cannot_be_told_apart_share_a_rank() -> None:
    (section,) = sections_of(
        [entry("bad", task("de", BAD)), entry("fair", task("de", FAIR)), entry("good", task("de", GOOD))]
    )
    table = section.summary
    (column,) = table.columns
    assert (table.label(column), column.name, section.main, section.tables) == ("error_rate, robust", "", (0,), ())
    assert ranks(table) == [(2, 1), (1, 1), (0, 3)]
    assert column.cells[2].figure == share_of(GOOD)


def test_a_mean_over_languages_is_of_runs_that_have_them_all() -> None:
    (section,) = sections_of(
        [
            entry("good", task("de", GOOD), task("fr", GOOD)),
            entry("bad", task("de", BAD), task("fr", FAIR)),
            entry("half", task("fr", GOOD)),
        ]
    )
    (mean,), (table,) = section.summary.columns, section.tables
    german, french = table.columns
    assert (mean.name, section.summary.label(mean)) == (MEAN_COLUMN, "error_rate, robust")
    names = [(column.name, table.label(column)) for column in table.columns]
    assert (table.title, names) == ("error_rate, robust", [("de", ""), ("fr", "")])  # the metric is the title
    assert ranks(section.summary) == [(0, 1), (1, 2)]
    assert mean.cells[1].figure == mean_of_shares([share_of(BAD), share_of(FAIR)])
    assert mean.cells[1].figure[:3] == pytest.approx((39 / 80, 0.415, 0.561), abs=5e-4)
    assert [row.entry for row in table.rows] == [0, 1, 2]
    assert ({*german.cells}, french.ranks) == ({0, 1}, {0: 1, 1: 1, 2: 1})


@pytest.mark.parametrize(("better", "rank_of_worst"), [(1, 2), (3, 4), (4, 1)])
def test_ranks_are_by_the_p_that_holm_corrects_for_all_pairs(better: int, rank_of_worst: int) -> None:
    """0 and 7 of 40 differ at p = 0.0082 (z is the root of 7): of 6 pairs 0.049 is significant, of 10 0.082 is not."""
    runs = [entry(f"a{n}", task("de", [0.0] * 40)) for n in range(better)]
    (section,) = sections_of([entry("b", task("de", [0.0] * 33 + [1.0] * 7)), *runs])
    assert section.summary.columns[0].ranks == {0: rank_of_worst, **dict.fromkeys(range(1, better + 1), 1)}


def test_parallel_languages_are_no_strata_of_their_own() -> None:
    """The same 40 passages in both languages: as sure as 40 documents, not as 80."""
    runs = {"good": GOOD, "worse": [*GOOD[:34], *[1.0] * 6]}
    for names, error, documents, rank in (
        ([[f"p{n}" for n in range(40)]] * 2, share_of(GOOD).standard_error, 39, 1),
        ([[f"{code}{n}" for n in range(40)] for code in "ab"], share_of(GOOD).standard_error / math.sqrt(2), 80, 2),
    ):
        entries = []
        for model, n in runs.items():
            tasks = [
                replace(task(code, n), headlines=(rate("error_rate", n, passages),))
                for code, passages in zip(("de", "fr"), names, strict=True)
            ]
            entries.append(entry(model, *tasks))
        (section,) = sections_of(entries)
        first, second = (row.entry for row in section.summary.rows)
        cells = section.summary.columns[0].cells
        assert cells[first].figure[:5] == pytest.approx((0.05, *wilson(0.05 * documents, documents), error, 80))
        assert (cells[first].rank, cells[second].rank) == (1, rank)


def both(language: str, hallucination: list[float | None], error: list[float | None], **more: Any) -> TaskEntry:
    """Both rates and their balanced error; what is ``None`` is Invalid, and wrong in that."""
    kinds = enumerate((hallucination, error))
    outcomes = [outcome(bool(kind), number == 0.0) for kind, numbers in kinds for number in numbers]
    measured = Measured(balanced_error, {0: balanced_error.rows(outcomes)}, "documents")
    metric = BENCHMARK.metrics["balanced_error"]
    balanced = HeadlineFigure(metric, "robust", balanced_error.figure_of(outcomes), measured)
    headlines = (balanced, rate("hallucination_rate", hallucination), rate("error_rate", error))
    return replace(task(language, error, **more), headlines=headlines)


def test_what_is_bought_with_each_other_stands_side_by_side_and_the_balanced_error_sorts() -> None:
    """A model that declines nearly everything is first by one rate, and last by their mean."""
    declines, halves = [*[0.0] * 39, 1.0], [*[0.0] * 20, *[1.0] * 20]
    section, *_ = sections_of(
        [
            entry("declines", both("de", declines, [*[1.0] * 39, 0.0]), both("fr", declines, [*[1.0] * 39, 0.0])),
            entry("knows", both("de", FAIR, GOOD), both("fr", FAIR, GOOD)),
            entry("guesses", both("de", halves, FAIR), both("fr", halves, FAIR)),
        ]
    )
    balanced, hallucination, _ = section.summary.columns
    metrics = ["balanced_error, robust", "hallucination_rate, robust", "error_rate, robust"]
    assert [section.summary.label(column) for column in section.summary.columns] == metrics
    assert section.main == (0, 1, 2)
    rows = [
        (row.entry, balanced.cells[row.entry].figure.value, balanced.ranks[row.entry]) for row in section.summary.rows
    ]
    assert rows == [(1, pytest.approx(0.075), 1), (2, pytest.approx(0.3), 2), (0, 0.5, 3)]
    assert hallucination.ranks[0] == 1
    of_all = mean_of_shares([share_of(FAIR), share_of(FAIR), share_of(GOOD), share_of(GOOD)])
    assert balanced.cells[1].figure[:5] == pytest.approx(of_all[:5])
    (table,) = section.tables
    assert table.title == "balanced_error and hallucination_rate and error_rate, robust"
    assert [(column.name, table.label(column)) for column in table.columns] == [
        (place, f"{metric}, robust")
        for place in ("de", "fr")
        for metric in ("balanced_error", "hallucination_rate", "error_rate")
    ]
    assert [row.entry for row in table.rows] == [1, 2, 0]


def test_an_overview_has_models_apart_from_detectors_and_published_detectors_beside() -> None:
    def found(language: str, metric: str, numbers: list[float | None], family: str, **more: Any) -> TaskEntry:
        headline = replace(rate(metric, numbers), filter="tags")
        name = f"{family}_{language}"
        return replace(task(language, numbers), task=name, family=family, headlines=(headline,), kind=DETECTORS, **more)

    detector = entry("lexical", *(found(code, "iou", FAIR, "mushroom", title="Mu-SHROOM") for code in ("de", "fi")))
    entries = [replace(detector, speed=190.0), entry("model", task("de", GOOD, title="NoMIRACL")), entry("other")]
    models, detectors = overviews(sections_of(entries), entries)
    assert [(column.name, models.label(column)) for column in models.columns] == [("NoMIRACL", "error_rate, robust")]
    assert ([row.entry for row in models.rows], models.published) == ([1], ())
    assert [(column.name, detectors.label(column)) for column in detectors.columns] == [
        ("Mu-SHROOM", "iou"),
        ("", "documents a second"),
    ]
    values = [cell.figure.value for column in detectors.columns for cell in column.cells.values()]
    assert values == [pytest.approx(0.1), 190.0]
    best, *_, last = detectors.published
    teams = {key: [r.value for r in rows_for(f"mushroom_{key}", "iou")] for key in ("de", "fi")}
    assert max(map(max, teams.values())) >= best.values[0] > last.values[0]
    assert {*best.values} == {0}


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
    (mean,), (languages,) = section.summary.columns, section.tables
    order = [[row.entry for row in table.rows] for table in (section.summary, languages)]
    assert order == [[1, 2, 3, 0]] * 2  # those that compete, best first
    table = section.summary
    cells = {row.entry: [each.cells[row.entry] for each in (mean, *languages.columns)] for row in table.rows}
    found = {number: [cell.rank for cell in of_run] for number, of_run in cells.items()}
    assert found == {1: [1, 1, 1], 2: [1, 1, 1], 3: [3, 3, None], 0: [None, None, None]}
    marked = {number: [cell.doubted for cell in of_run] for number, of_run in cells.items()}
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
    assert ranks(section.summary) == [(2, 1), (1, 2), (0, None)]
    assert not section.summary.columns[0].cells[0].competes


@pytest.mark.parametrize("condition", ["documents", "prompt", "shots", "detector", "version"])
def test_runs_under_other_conditions_are_apart(condition: str) -> None:
    first, other = ({**ASKED, condition: said} for said in ("first", "other"))
    runs = [task("de", GOOD, first), task("de", BAD, other), task("de", FAIR, first), task("fr", GOOD, other)]
    found = sections_of([entry(name, of_run) for name, of_run in zip("abcd", runs, strict=True)])
    assert [section.number for section in found] == [1, 2]
    members = [
        sorted({row.entry for table in (section.summary, *section.tables) for row in table.rows}) for section in found
    ]
    assert members == [[0, 2, 3], [1]]
    assert not found[1].summary.columns[0].ranks


def test_runs_of_one_model_that_were_asked_otherwise_are_rows_beside_each_other() -> None:
    """Where the first of them is ranked; answers tagged by another detector stay apart, and so do other models."""
    shots = [
        task("de", values, {**ASKED, "shots": n, "detector": "x"})
        for values, n in ((GOOD, "0"), (BAD, "5"), (FAIR, "5"), (BAD, "0"))
    ]
    tagged = task("de", GOOD, {**ASKED, "shots": "0", "detector": "other"})
    runs = [*zip(("a", "a", "b", "c", "a"), (*shots, tagged), strict=True)]
    for order in (runs, runs[::-1]):
        found = sections_of([entry(name, of_run) for name, of_run in order])
        models = [sorted(order[row.entry][0] for row in section.summary.rows) for section in found]
        assert [models[0], *sorted(models[1:])] == [["a", "a", "c"], ["a"], ["b"]]
    assert [rank for _, rank in ranks(found[0].summary)] == [1, 2, 2]
    assert (found[0].conditions["shots"], found[0].conditions["prompt"]) == ("as the runs are named", "p")


def test_an_entry_is_what_was_kept_of_it_and_its_rows_have_the_figure(two_models: Path) -> None:
    for run in read_runs([two_models]):
        made = entry_of(run, ".")
        kept = json.dumps(made.to_json())
        read = Entry.from_json(json.loads(kept))
        assert json.dumps(read.to_json()) == kept
        assert [found.task for found in made.tasks] == [*run.tasks]
        for headline in (headline for task in read.tasks for headline in task.headlines):
            assert headline.measured is not None
            assert headline.measured.value(0) == pytest.approx(headline.figure.value), headline.key


# --------------------------------------------------------------------------------------------- beside the other pages


def test_the_better_model_is_that_of_the_paired_difference(two_models: Path, tmp_path: Path) -> None:
    """Of 250 questions without an answer one model makes up 32 and the other 25, but that is Invalid on 22 of these 32:
    where both can be read it is 10 and 25. By their own shares, 0.128 and 0.110, the worse would be first."""
    wrong = {"first": {*range(32)}, "second": {*range(27, 52)}}
    labels = {
        model: [ANSWER if not n % 2 or n // 2 in wrong[model] else NO_ANSWER for n in range(500)] for model in wrong
    }
    labels["second"] = [INVALID if n % 2 and n < 44 else label for n, label in enumerate(labels["second"])]
    by_task = {model: {"nomiracl_de": of_model} for model, of_model in labels.items()}
    runs = read_runs([labelled_runs(two_models / "baseline-lexical", tmp_path, by_task)])
    comparison = compare_runs(runs)
    (section,) = sections_of([entry_of(run, "") for run in runs])
    for metric, own, difference in (
        ("hallucination_rate", (0.128, 25 / 228), -15 / 228),
        ("balanced_error", (0.064, 47 / 500), -15 / 500),
    ):
        (row,) = comparison.select(metric)
        assert (row.first_own, row.second_own, row.difference) == pytest.approx((*own, difference))
        column = next(each for each in section.summary.columns if each.metric.name == metric)
        cells = {comparison.models[entry]: cell for entry, cell in column.cells.items()}
        assert [cell.figure.value for _, cell in sorted(cells.items())] == pytest.approx(own)
        assert comparison.models[row.better or 0] == "first"
        assert {model: cell.rank for model, cell in cells.items()} == {"first": 1, "second": 2}
        of_report = comparison.column(metric, "nomiracl_de")
        assert of_report is not None
        assert (of_report.order, of_report.ranks) == ([0, 1], {0: 1, 1: 2})


def made_labels(wrong: Mapping[int, range], invalid: range = range(0)) -> list[str]:
    """The labels of 120 questions: by kind (1: no passage has the answer), the wrong ones of its 60; both kinds have the
    same Invalid ones."""
    right = {0: ANSWER, 1: NO_ANSWER}
    return [INVALID if n // 2 in invalid else right[(n + (n // 2 in wrong.get(n % 2, ()))) % 2] for n in range(120)]


def test_a_run_that_lacks_a_language_has_no_rank_by_the_mean_and_changes_none(two_models: Path, tmp_path: Path) -> None:
    """On the leaderboard it is not in the column. If its pairs were in Holm's family, the report would see no difference
    of the others (p = 0.026, of three pairs 0.078). What a made-up answer costs is decided by the same family."""
    good, worse = made_labels({1: range(2)}), made_labels({0: range(10, 11), 1: range(2, 9)})
    tasks = "nomiracl_de", "nomiracl_fr"
    labels = {"good": dict.fromkeys(tasks, good), "worse": dict.fromkeys(tasks, worse), "half": {tasks[0]: worse}}
    runs = read_runs([labelled_runs(two_models / "baseline-lexical", tmp_path, labels)])
    comparison = compare_runs(runs)
    page = page_of(dict(zip(labels_of(runs), runs, strict=True)), False, caching_reader())
    (section,), (overview,) = sections_of([entry_of(run, "") for run in runs]), page["overviews"]
    mean, column = section.summary.columns[0], comparison.column("balanced_error", "nomiracl")
    assert {comparison.models[entry]: rank for entry, rank in mean.ranks.items()} == {"good": 1, "worse": 2}
    assert {row.model: row.rank for row in overview.rows} == {"good": 1, "worse": 2, "half": None}
    assert column is not None
    assert {comparison.models[model]: rank for model, rank in column.ranks.items()} == {"good": 1, "worse": 2}
    rows = {row.tasks: row for row in comparison.select("balanced_error", "nomiracl")}
    assert [(rows[2].family, rows[1].family), rows[2].p_adjusted] == [(1, 2), pytest.approx(0.0259, abs=1e-4)]
    at_one = comparison.costs["nomiracl"].at[0]
    assert (at_one.cost, at_one.best, [*at_one.equals]) == (1.0, column.order[0], column.equals(column.order[0]))


def test_a_run_of_which_no_answer_can_be_read_is_the_worst_and_takes_no_column_away(
    two_models: Path, tmp_path: Path
) -> None:
    """It has neither of the two rates. One that cannot be read where it would be wrong wins nothing by it."""
    labels = {
        "a_good": made_labels({1: range(2)}),
        "b_unreadable": made_labels({1: range(50, 60)}, range(40)),
        "c_nothing": made_labels({}, range(60)),
    }
    by_task = {model: {"nomiracl_de": of_model} for model, of_model in labels.items()}
    runs = read_runs([labelled_runs(two_models / "baseline-lexical", tmp_path, by_task)])
    (section,) = sections_of([entry_of(run, "") for run in runs])
    assert [column.metric.name for column in section.summary.columns] == [
        "balanced_error",
        "hallucination_rate",
        "error_rate",
    ]
    cells = [[column.cells.get(row.entry) for column in section.summary.columns] for row in section.summary.rows]
    assert [[cell and (round(cell.figure.value, 3), cell.rank) for cell in row] for row in cells] == [
        [(0.017, 1), (0.033, 1), (0.0, 1)],
        [(0.75, 2), (0.5, 2), (0.0, 1)],
        [(1.0, 3), None, None],
    ]


MADE = {"good": (0.05, 0.0), "better": (0.04, 0.0), "fair": (0.15, 0.0), "poor": (0.35, 0.0), "unreadable": (0.05, 0.4)}
"""Shares of wrong and of Invalid answers."""


def test_leaderboard_report_and_compare_have_the_same_ranks_doubts_and_best(two_models: Path, tmp_path: Path) -> None:
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
    entries, unreadable, _ = read_entries([folder], folder, tmp_path / "cache")
    assert not unreadable
    (section,) = sections_of(entries)
    runs = read_runs([folder])
    comparison = compare_runs(runs)
    overviews = page_of(dict(zip(labels_of(runs), runs, strict=True)), False, caching_reader())["overviews"]
    (overview,) = overviews
    mean, (by_language,) = section.summary.columns[0], section.tables
    of_errors = {column.name: column for column in by_language.columns if column.metric.name == "balanced_error"}
    columns = {"nomiracl": mean, **{task: of_errors[code] for code, task in tasks.items()}}
    ranked = {
        name: {entries[entry].model: cell.rank for entry, cell in each.cells.items()} for name, each in columns.items()
    }
    assert ranked["nomiracl"] == {
        **{"better": 1, "good": 1, "fair": 3, "poor": 4, "unreadable": 5, "half": 4, "declines": None}
    }
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
    assert entries[section.summary.rows[0].entry].model == overview.best.model == overview.rows[0].model

    marks = {entries[row.entry].model: {mark.partition(" (")[0] for mark in row.marks} for row in section.summary.rows}
    declines, invalid = "it declines every question", "many answers are Invalid"
    assert {model: {mark.partition(":")[0] for mark in found} for model, found in marks.items()} == {
        **{model: set() for model in ("better", "good", "fair", "poor")},
        **{"unreadable": {invalid, "the run looks broken"}, "half": {declines}, "declines": {declines}},
    }
    summaries = {text for found in marks.values() for text in found}
    for headline in overview.shown[0].headlines:
        texts = {doubt.text for doubt in headline.doubts if doubt.kind in ("alike", "broken", "invalid", "abstains")}
        assert {summary for summary in summaries for text in texts if text.startswith(summary)} == marks[headline.model]
        assert len(texts) == len(marks[headline.model])
    of_compare = {comparison.models[model]: texts for model, texts in comparison.doubts.items()}
    assert {model: {text.partition(" (")[0] for text in texts} for model, texts in of_compare.items()} == {
        model: found for model, found in marks.items() if found
    }
