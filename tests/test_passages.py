"""Annotated answers about one passage hang together: rows of one text that several people marked, and its translations."""

from __future__ import annotations

import hashlib
import json
import math
import pickle
import shutil
from collections import Counter
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from custom_metrics.reading.spans import CATEGORIES
from custom_metrics.scores import detection
from custom_metrics.scores.aggregations import defined_mean, defined_share
from custom_metrics.statistics.figures import CountsOfCluster, FloatWithCounts, Rows
from custom_metrics.statistics.intervals import resampled_sums, share_of_clusters, spread
from custom_metrics.statistics.strata import error_across
from lm_eval_tasks.mfava import annotations as annotated
from lm_eval_tasks.mfava.annotations import SILVER_ROWS, is_unplaced, passages_of
from lm_eval_tasks.mfava.dataset import GOLD_FILE, REPOSITORY
from lm_eval_tasks.mushroom import dataset as mushroom
from tests.conftest import Harness, figures_of
from tests.development.mfava_passages import table_of
from tests.miniature import MINIATURE
from tests.paired import compare_ratios


def test_rows_of_one_text_have_one_passage_and_the_texts_of_other_languages_their_own() -> None:
    german = annotated.load("de", "gold", _sample())["evaluation"]
    assert german["passage"] == annotated.load("de", "silver", _sample())["evaluation"]["passage"]
    assert [german["passage"].index(passage) for passage in german["passage"]] == [0, 1, 2, 3, 4, 5, 0]
    assert german["reference"][0] == german["reference"][6]
    others = annotated.load("fi", "silver", _sample())["evaluation"]["passage"]
    assert not {*others} & {*german["passage"]}


def _sample() -> str:
    return MINIATURE


def test_a_passage_is_known_by_its_place_in_parallel_files_alone() -> None:
    rows = [f"text {place // 2}" for place in range(SILVER_ROWS)]
    assert passages_of(rows, parallel=True) == [str(place - place % 2) for place in range(SILVER_ROWS)]
    assert passages_of(rows, parallel=False) == [*passages_of(rows[:-1], parallel=True), passages_of(rows, False)[-1]]
    assert passages_of(["x", "y", "x"], parallel=True)[::2] == ["2d711642b726"] * 2


@pytest.mark.one_python("what the public data hold")
def test_passages_of_the_public_data(hub: str) -> None:
    german, turkish, finnish = (
        annotated.load(code, kind, hub)["evaluation"]["passage"]
        for code, kind in (("de", "gold"), ("tr", "gold"), ("fi", "silver"))
    )
    assert (len(german), len({*german})) == (331, 238)
    assert Counter(Counter(german).values()) == {1: 213, 5: 18, 4: 5, 6: 1, 2: 1}
    assert (len(finnish), len({*finnish})) == (309, 302)
    assert [len({*german} & {*other}) for other in (finnish, turkish)] == [238, 232]
    pages = {code: {*mushroom.load(code, mirror=hub)["evaluation"]["passage"]} for code in ("de", "fi", "es", "it")}
    assert {code: len(found) for code, found in pages.items()} == {"de": 199, "fi": 200, "es": 202, "it": 200}
    assert len(pages["de"] & pages["fi"]) > 50


def test_texts_of_the_public_data_are_at_the_passage_that_they_translate(hub: str) -> None:
    """Ithaca, which shares years with another text in numbers alone; narcolepsy; and the seasons in all languages."""
    known = {row["passage"]: row["reference"] for row in annotated.load("fi", "silver", hub)["evaluation"]}
    for passage, said, names in (
        ("283", "Ithaca", {"ar": "923b34460e68", "de": "fe90309bfd09", "tr": "fa7e5afcfdb6"}),
        ("298", "arkolepsi", {"de": "1d55848a9a00", "tr": "e99c4303ab3d"}),
        ("281", "Kausi", {"ar": "ab5d1dfa26a3", "de": "bac4b4b41f63", "tr": "821110deb601"}),
    ):
        assert said in known[passage][:200]
        for code, digest in names.items():
            rows = annotated.load(code, "gold", hub)["evaluation"]
            assert passage in {
                row["passage"] for row in rows if hashlib.sha256(row["reference"].encode()).hexdigest()[:12] == digest
            }


@pytest.mark.slow("reads all annotated texts of the mirror, some ten seconds")
def test_the_table_of_passages_is_what_the_public_data_say(hub: str) -> None:
    table = [*resources.files("lm_eval_tasks.mfava").joinpath("passages.tsv").open(encoding="utf-8")]
    assert table == ["reference\tpassage\n", *(f"{line}\n" for line in table_of(hub))]
    assert sum(is_unplaced(line.split("\t")[0]) for line in table) == 6


def test_values_carry_their_passage() -> None:
    doc = {"answer": "a b", "language": "de", "spans": [{"start": 0, "end": 1, "category": "entity"}], "passage": "7"}
    doc["soft_labels"] = [{"start": 0, "end": 1, "prob": 1.0}]
    values = detection.process_character_results(doc, ["<entity>a</entity> b"])
    assert values["precision"] == [1, 0, 0, 1]
    assert isinstance(values["f1"], FloatWithCounts)
    for name in ("iou", "rho", "altered_rate", "lost_rate", "precision", "recall"):
        again = pickle.loads(pickle.dumps(values[name]))
        assert (again, again.cluster, type(again)) == (values[name], "7", type(values[name]))
        assert json.loads(json.dumps(values[name])) == values[name]
    assert values["f1"].counts.cluster == "7"
    without = detection.process_results({**doc, "passage": ""}, ["a b"])
    assert without["precision"].cluster == ""


COUNTS = [[3, 1, 1, 9], [2, 2, 1, 7], [5, 0, 2, 8], [1, 1, 4, 9], [4, 2, 2, 6]]
NAMES = ["a", "b", "a", "c", "b"]


def test_bounds_and_errors_of_word_scores_are_by_passage() -> None:
    sums = np.array([[8, 1, 3, 17], [6, 4, 3, 13], [1, 1, 4, 9]])
    tp, fp, fn, _ = resampled_sums(sums).T
    plain = detection.f1.figure_of(COUNTS)
    found = detection.f1.figure_of([CountsOfCluster(*row) for row in zip(COUNTS, NAMES, strict=True)])
    error = spread(2 * tp / (2 * tp + fp + fn))[2]
    assert found == pytest.approx((plain.value, math.nan, math.nan, error, 5), nan_ok=True)  # three passages: no bounds
    own = detection.f1.figure_of([CountsOfCluster(*row) for row in zip(COUNTS, "abcde", strict=True)])
    assert own == plain


def of_clusters(values: Sequence[float], names: Sequence[str]) -> list[FloatWithCounts]:
    return [FloatWithCounts(value, cluster=name) for value, name in zip(values, names, strict=True)]


def test_means_and_shares_are_by_passage() -> None:
    values = [0.5, 1.0, 0.25, 0.0, 0.75]
    clustered = of_clusters(values, NAMES)
    sums = np.array([[0.75, 2], [1.75, 2], [0.0, 1]])
    apart = sums[:, 0] - 0.5 * sums[:, 1]
    error = math.sqrt(3 / 2 * (apart @ apart)) / 5
    assert defined_mean.figure_of([*clustered, None]) == pytest.approx((0.5, math.nan, math.nan, error, 5), nan_ok=True)
    assert defined_mean.figure_of(of_clusters(values, "abcde")) == defined_mean.figure_of(values)
    ones = [1.0, 0.0, 1.0, 0.0, 0.0]
    found = defined_share.figure_of(of_clusters(ones, NAMES))
    # hits and documents of a, b and c, by Korn and Graubard; of no hit by Clopper and Pearson of Kish's number of passages
    assert found == pytest.approx((0.4, *map(float, share_of_clusters([2, 0, 0], [2, 2, 1])), 5))
    none = defined_share.figure_of(of_clusters([0.0] * 5, NAMES))
    assert none == pytest.approx((0.0, 0.0, 1 - 0.025 ** (9 / 25), 0.0, 5))


@pytest.mark.parametrize(
    ("strata", "rows"),
    [
        ([([1, 0, 0, 1], "abcd"), ([1, 0, 0, 1], "abcd")], [1, 0, 0, 1]),  # a translation says nothing new
        ([([1, 0, 0, 1], "abcd"), ([0, 1, 0, 1], "dcba")], [1, 0, 0.5, 0.5]),
        ([([1, 0, 1], "aab"), ([1, 0], "bc")], [-1 / 6, 13 / 24, -3 / 8]),
        ([([1, 0], "ab"), ([math.nan], "a"), ([1, 0], "ab")], [1, 0]),
    ],
)
def test_errors_of_means_over_languages_go_by_passage(strata: list[tuple[list[float], str]], rows: list[float]) -> None:
    found = error_across([Rows(np.array(values, float), [*names]) for values, names in strata])
    assert found == pytest.approx(np.std(rows, ddof=1) / math.sqrt(len(rows)))


def test_languages_without_a_passage_in_common_have_errors_of_their_own() -> None:
    for names in (["ab", "cd"], ["", ""], ["ab"]):
        assert math.isnan(error_across([Rows(np.array([0.0, 1.0]), [*of] or ["", ""]) for of in names]))
    assert math.isnan(error_across([]))


@pytest.mark.parametrize("metric", ["f1", "precision", "recall"])
def test_linearised_scores_have_the_spread_of_the_bootstrap(metric: str) -> None:
    rng = np.random.default_rng(2)
    score = getattr(detection, metric)
    for counts in (rng.integers(1, 30, (200, 4)), rng.integers(1, 30, (200, len(CATEGORIES), 4))):
        values = [CountsOfCluster(row.tolist(), str(place // 2)) for place, row in enumerate(counts)]
        found, rows = (score.figure_of(values), score.linear(score.rows([FloatWithCounts(1.0, v) for v in values])))
        assert float(rows.values.mean()) == pytest.approx(found.value)
        assert error_across([rows, rows]) == pytest.approx(found.standard_error, rel=0.05)


def test_a_run_has_the_standard_error_by_passage(harness: Harness, tmp_path: Path) -> None:
    """Every language has the same texts, marked alike: the group is as sure as each of them."""
    shutil.copytree(_sample(), mirror := tmp_path / "mirror")
    file = mirror / "github" / REPOSITORY / GOLD_FILE
    rows = json.loads(file.read_text("utf-8"))
    german = [row for row in rows if row["language"] == "german"]
    languages = {row["language"] for row in rows}
    file.write_text(json.dumps([{**row, "language": code} for code in languages for row in german]), "utf-8")
    metadata = {"mirror": str(mirror)}
    got = harness(["mfava_detection_gold"], "hallucination-detector", "detector=lexical", metadata=metadata)
    tasks = got["group_subtasks"]["mfava_detection_gold"]
    assert len(tasks) == len(languages) > 3
    for metric in ("f1", "precision", "recall", "altered_rate"):
        counted = metric != "altered_rate"
        rows = []
        for task in tasks:
            values = [sample["precision" if counted else metric] for sample in got["samples"][task]]
            passages = [sample["doc"]["passage"] for sample in got["samples"][task]]
            carried = [*map(CountsOfCluster, values, passages)] if counted else of_clusters(values, passages)
            score = getattr(detection, metric, defined_share)
            rows.append(score.linear(score.rows(carried)))
            expected, figure = score.figure_of(carried), figures_of(got, task)[metric]
            assert (figure["low"], figure["high"], figure["n"]) == (expected.low, expected.high, 7)
            assert got["results"][task][f"{metric}_stderr,tags"] == expected.standard_error
        error = got["groups"]["mfava_detection_gold"][f"{metric}_stderr,tags"]
        assert error == error_across(rows)
        errors = [got["results"][task][f"{metric}_stderr,tags"] for task in tasks]
        assert error >= 0.9 * fmean(errors) >= 1.5 * math.hypot(*errors) / len(errors)


def test_a_passage_in_two_languages_is_one_row() -> None:
    rng = np.random.default_rng(5)
    first, second = (np.stack([rng.integers(0, 9, 12), rng.integers(9, 20, 12)], axis=1) for _ in range(2))
    names = [*"abcdefghijkl"]
    alone = compare_ratios([(first, second)], clusters=[names])
    twice = compare_ratios([(first, second)] * 2, clusters=[names, names])
    apart = compare_ratios([(first, second)] * 2, clusters=[names, [name * 2 for name in names]])
    assert twice[:6] == pytest.approx(alone[:6])  # a translation that says the same says nothing new
    assert (twice.n, apart.n, alone.n) == (12, 24, 12)
    assert apart.high - apart.low < 0.8 * (alone.high - alone.low)
    some = compare_ratios([(first, second), (first[:5] * 2, second[:5])], clusters=[names, names[:5]])
    assert some.n == 12
    parts = [compare_ratios([pair]) for pair in ((first, second), (first[:5] * 2, second[:5]))]
    assert some.difference == pytest.approx(np.mean([part.difference for part in parts]))
    empty = np.zeros((2, 2))
    assert compare_ratios([(first, second), (empty, empty)], clusters=[names, names[:2]])[:6] == pytest.approx(
        alone[:6]
    )
    assert compare_ratios([(empty, empty)] * 2, clusters=[names[:2]] * 2).n == 0
