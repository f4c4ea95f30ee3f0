"""Kinds of figure: what follows from the two methods of a new one, also of one that somebody else's package brings."""

from __future__ import annotations

import csv
import json
import math
import shutil
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lxml import html
from scipy import stats

from custom_metrics.scores.aggregations import NotMeasured, defined_mean, defined_share
from custom_metrics.scores.balanced_error import balanced_error
from custom_metrics.scores.detection import f1, kappa
from custom_metrics.scores.judging import f_plus_a, flip_rate, share, win_rate
from custom_metrics.scores.ratings import auc
from custom_metrics.statistics.figures import CountsOfCluster, Figure, Rows, outcome
from custom_metrics.statistics.paired_difference import BOOTSTRAP, CLUSTERS, TANGO
from detector_plugin.calibration import load
from lm_eval_tasks.cli import main
from lm_eval_tasks.data import sources
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.detection.marked import marked_rate
from lm_eval_tasks.mfava.task import detected_rate, estimated_rate, rogan_gladen_rate
from lm_eval_tasks.results import board
from lm_eval_tasks.results.board import Cell, Column
from lm_eval_tasks.results.compare import compare_runs, differences_of
from lm_eval_tasks.results.measuring import Measured
from lm_eval_tasks.results.report import write_report
from lm_eval_tasks.runs import Run, read_runs
from tests.changed_runs import change_results
from tests.development import generated
from tests.growth import calls
from tests.logged_runs import files_of, in_this_process, lines

MODULE = '''
import math

import numpy as np

from custom_metrics.scores.aggregations import Aggregation

class GeometricMean(Aggregation):
    """The geometric mean of positive numbers."""

    def statistics(self, value):
        return [math.log(value), 1.0]

    def of_sums(self, sums):
        return np.exp(sums[..., 0] / sums[..., 1])

geometric_mean = GeometricMean("geometric_mean")
'''


@pytest.fixture
def kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A package of somebody else's, with a kind that it names as an entry point."""
    info = tmp_path / "site" / "somebodys_kinds-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: somebodys-kinds\nVersion: 1.0\n", "utf-8")
    points = "[lm_eval_grounded.kinds]\ngeometric_mean = somebodys_kinds:geometric_mean\n"
    (info / "entry_points.txt").write_text(points, "utf-8")
    (info.parent / "somebodys_kinds.py").write_text(MODULE, "utf-8")
    monkeypatch.syspath_prepend(str(info.parent))
    import somebodys_kinds  # type: ignore[import-not-found]

    yield somebodys_kinds
    sys.modules.pop("somebodys_kinds", None)


def test_bounds_and_differences_follow_from_what_a_document_adds_and_the_figure_of_sums(kinds: Any) -> None:
    kind, rng = kinds.geometric_mean, np.random.default_rng(1)
    first = rng.lognormal(1.0, 0.5, 200)
    second = first * rng.lognormal(-0.1, 0.2, 200)
    figure = kind.figure_of([*first, None])
    assert (kind([*first, None]), figure.n) == (pytest.approx(stats.gmean(first)), 200)
    assert figure.standard_error == pytest.approx(figure.value * stats.sem(np.log(first)), rel=0.05)
    assert figure.low < figure.value < figure.high
    difference = kind.difference(kind.rows([*first, 3.0]), kind.rows([*second, None]))
    assert difference.difference == pytest.approx(stats.gmean(first) - stats.gmean(second), rel=1e-3)
    assert (difference.n, difference.method) == (200, "paired cluster bootstrap-t")
    assert 0 < difference.low < difference.high
    assert difference.p < 0.001
    with pytest.raises(NotMeasured, match=r"the values are not those of geometric_mean: 'three'"):
        kind.rows(["three"])


COUNTS = [[3, 1, 1, 9], [2, 2, 1, 7], [5, 0, 2, 8], [1, 1, 4, 9], None, [4, 2, 2, 6]]
RATINGS = [(f"q{n // 2}", ("faithfulness", "appropriateness")[n % 2], float(1 + n % 4)) for n in range(16)]
SENTENCES = [[[0.1 * n, float(n % 3 == 0)], [0.5, float(n % 2)]] for n in range(12)]
KEY = f"{load('lexical').identity}|de||lexical|any"
WORDS = [{"flagged": 5 + n % 7, "words": 20 + n, "article": n // 2, "calibration": KEY} for n in range(20)]
EXAMPLES: list[tuple[Any, list[Any]]] = [
    (defined_mean, [0.5, 0.25, None, 1.0, 0.0, 0.75]),
    (defined_share, [1.0, 0.0, 1.0, None, 0.0, 1.0]),
    (balanced_error, [outcome(n % 2 == 0, n % 3 > 0) for n in range(20)]),
    *((kind, COUNTS) for kind in (f1, kappa)),
    (f1, [counts and [counts, counts[::-1]] for counts in COUNTS]),
    (auc, SENTENCES),
    (f_plus_a, RATINGS),
    (share, [(f"q{n // 3}", n % 2, 1) for n in range(15)]),
    (flip_rate, [(f"q{n // 2}", "x", "y", "xy"[n % 3 // 2]) for n in range(12)]),
    (win_rate, [(f"q{n // 2}", float(n % 3 == 0)) for n in range(12)]),
    *((kind, WORDS) for kind in (detected_rate, estimated_rate, rogan_gladen_rate)),
    (marked_rate, [{"words": 9 + n, "expected": 0.2, "times": n % 2, "marked": 0.1 * n} for n in range(10)]),
]


@pytest.mark.parametrize(("kind", "values"), EXAMPLES, ids=lambda value: value.name if hasattr(value, "name") else "")
def test_of_every_kind(kind: Any, values: list[Any]) -> None:
    """Values read back from a samples file, or gathered from processes in another order, have the same figure; its
    value needs no resample; a model does not differ from itself."""
    assert str(kind) == kind.name  # in results files
    assert deepcopy(kind) is kind  # as the harness copies a task's configuration
    rows = kind.rows(values)
    figure = kind.figure(rows)
    assert kind(values) == kind.figure_of(json.loads(json.dumps(values))).value == pytest.approx(kind.value(rows))
    assert kind.figure_of([*values[::2], *values[1::2]])[:5] == pytest.approx(figure[:5], nan_ok=True, rel=1e-12)
    assert len(kind.counted(rows)) == len(values)
    if not kind.not_compared:
        same = kind.difference(rows, rows)
        assert (same.difference, same.p) == (0.0, 1.0)
        assert same.first == pytest.approx(figure.value)
    else:
        with pytest.raises(NotMeasured):
            kind.check({"a model": rows})


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (defined_mean, ["a"], "the values are str, not numbers"),
        (f1, [[1, 2, 3]], r"the values are not those of f1: \[1, 2, 3\]"),
        (f1, [COUNTS[0], [COUNTS[0]]], "several forms"),
        (f_plus_a, [("q", "spelling", 3.0)], "not those of f_plus_a"),
        (balanced_error, [{"wrong": 1}], "not those of balanced_error"),
        (auc, [["a"]], "not pairs of a score and what people said"),
    ],
)
def test_values_of_another_form_are_not_measured(kind: Any, values: list[Any], message: str) -> None:
    with pytest.raises(NotMeasured, match=message):
        kind.rows(values)


@pytest.mark.parametrize(("kind", "method"), [(defined_share, TANGO), (defined_mean, BOOTSTRAP)])
def test_the_kind_says_whether_a_difference_is_one_of_shares(kind: Any, method: str) -> None:
    """A count that happens to be 0 or 1 everywhere is none."""
    first, second = kind.rows([1.0, 0.0, 1.0, 1.0, 0.0, 1.0] * 5), kind.rows([0.0, 0.0, 1.0, 0.0, 1.0, 1.0] * 5)
    assert kind.difference(first, second).method == method


def test_an_area_is_compared_by_passage() -> None:
    one = [CountsOfCluster(pairs, f"passage {place // 2}") for place, pairs in enumerate(SENTENCES)]
    other = [CountsOfCluster([[0.3, wrong] for _, wrong in pairs], pairs.cluster) for pairs in one]
    found = auc.difference(auc.rows(one), auc.rows(other))
    assert (found.n, found.method, found.second) == (6, CLUSTERS, 0.5)
    assert found.standard_error == pytest.approx(auc.figure(auc.rows(one)).standard_error)


def test_the_order_of_tasks_changes_nothing() -> None:
    rng, metric, cells = np.random.default_rng(2), Metric("m"), {run: Cell(0.5, Figure(0.5)) for run in (0, 1)}
    tasks = [
        Measured(defined_mean, {run: Rows(rng.random(size)) for run in (0, 1)}, "documents", (), name)
        for name, size in (("b", 30), ("a", 20), ("c", 40))
    ]
    for order in (tasks[::-1], tasks[1:] + tasks[:1]):
        of_both = [board.tested([Column("group", metric, "", cells, each, True)])[0] for each in (tasks, order)]
        assert repr(of_both[0].tested.found) == repr(of_both[1].tested.found)


def board_of(runs: int) -> list[Column]:
    """Columns of a balanced error: two tasks of twenty questions, and their mean."""
    rng = np.random.default_rng(4)
    metric = Metric("balanced_error", aggregation="balanced_error", higher_is_better=False)
    columns = []
    for task in ("a", "b"):
        wrong = rng.random((runs, 20)) < 0.3
        outcomes = [[outcome(n % 2 == 0, not w) for n, w in enumerate(of_run)] for of_run in wrong.tolist()]
        rows = {run: balanced_error.rows(values) for run, values in enumerate(outcomes)}
        cells = {run: Cell.of(balanced_error.figure(of_run), metric, False) for run, of_run in rows.items()}
        columns.append(Column(task, metric, "", cells, [Measured(balanced_error, rows, "documents", task=task)]))
    both = [task for column in columns for task in column.measured]
    return [Column("mean", metric, "", columns[0].cells, both, group=True), *columns]


def test_twice_the_runs_cost_four_times_in_pairs() -> None:
    """Of ten runs there are 45 pairs, of twenty there are 190."""
    few, many = board_of(10), board_of(20)
    assert calls(lambda: board.tested(many)) < 4.3 * calls(lambda: board.tested(few))
    means = board.tested(few)[0], board.tested(many)[0]
    for work in (lambda mean: board.best_by_cost(mean, 1.0), lambda mean: [*differences_of(mean)]):
        of_few, of_many = (calls(lambda mean=mean, work=work: work(mean)) for mean in means)
        assert of_many < 4.3 * of_few


def test_a_results_file_alone_makes_nothing_be_imported(kinds: Any) -> None:
    assert catalogue.kind_of(Metric("m", "geometric_mean")) is kinds.geometric_mean
    assert catalogue.kind_of(Metric("m", "somebodys_kinds.geometric_mean")) is kinds.geometric_mean
    assert catalogue.kind_of(Metric("m", "antigravity.fly")) is None
    assert "antigravity" not in sys.modules
    assert catalogue.kind_of(Metric("f1", "f1")) is f1
    assert catalogue.kind_of(Metric("hallucination_rate")) is defined_share


@pytest.fixture
def runs(kinds: Any, tmp_path: Path) -> Iterator[list[Run]]:
    """Two models on Capitals, of which the second needs half more words for the same answer; their length is a geometric
    mean."""
    folder, mirror = tmp_path / "capitals", tmp_path / "mirror" / "atlas" / "capitals" / "no"
    shutil.copytree(Path(__file__).parent / "data" / "capitals", folder)
    table = folder / "benchmark.py"
    named = '"somebodys_kinds.geometric_mean",\n            False'
    text = table.read_text("utf-8").replace("DEFINED_MEAN,\n            False", named)
    table.write_text(text.replace('unit="words",', 'unit="words", headline=True,'), "utf-8")
    generated.main([str(folder)])
    mirror.mkdir(parents=True)
    answers = [f"It is Oslo{' indeed' * (n % 5)}." for n in range(40)]
    rows = [{"id": str(n), "question": f"{n}?", "reference": each, "capital": "Oslo"} for n, each in enumerate(answers)]
    (mirror / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    options = {"metadata": {"mirror": str(tmp_path / "mirror")}, "include_path": [str(folder)]}
    for name in ("brief", "wordy"):
        in_this_process(["capitals_no"], "grounded-baseline", "strategy=full_passage", tmp_path / name, **options)
        change_results(files_of(tmp_path / name), lambda content, name=name: content.update(model_name=name))
    (path,) = (tmp_path / "wordy").rglob("samples_*.jsonl")
    changed = [{**row, "words": row["words"] * 1.5 + row["doc_id"] % 3} for row in lines(path)]
    path.write_text("".join(json.dumps(row) + "\n" for row in changed), "utf-8")
    yield read_runs([tmp_path / "brief", tmp_path / "wordy"])
    sources._ELSEWHERE.clear()
    sources.files.cache_clear()


def test_a_kind_of_somebody_elses_is_computed_compared_reported_and_ranked(runs: list[Run], tmp_path: Path) -> None:
    words = [row["words"] for row in lines(next((tmp_path / "brief").rglob("samples_*.jsonl")))]
    figure = runs[0].tasks["capitals_no"].figure("words", "answer")
    assert figure.value == pytest.approx(stats.gmean(words))
    assert figure.low < figure.value < figure.high
    assert runs[0].tasks["capitals_no"].metric("words").aggregation == "geometric_mean"

    (row,) = compare_runs(runs).select("words")
    assert (row.result.first, row.result.n) == (pytest.approx(figure.value), 40)
    assert row.result.low < row.result.difference < row.result.high < 0
    assert runs[row.better or 0].model == "brief"

    page = write_report(runs, tmp_path / "report.html").read_text("utf-8")
    assert "Words of an answer" in page
    assert f"brief {figure.value:.0f}" in " ".join(html.fromstring(page).text_content().split())
    assert main(["report", str(tmp_path / "brief"), str(tmp_path / "wordy"), "-o", str(tmp_path / "board")]) == 0
    with (tmp_path / "board" / "figures.csv").open(encoding="utf-8") as file:
        ranks = {row["model"]: row["rank"] for row in csv.DictReader(file) if row["metric"] == "words"}
    assert ranks == {"brief": "1", "wordy": "2"}


def test_a_kind_that_is_not_installed_is_not_taken_for_a_mean(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "entry_points", lambda group: [])
    comparison = compare_runs(runs, every_metric=True)
    assert not [*comparison.select("words")]
    assert any("of which nothing here knows how models are compared" in note for note in comparison.notes)
    assert math.isfinite(next(comparison.select("correct")).result.difference)
