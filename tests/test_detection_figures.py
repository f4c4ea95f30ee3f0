"""Figures of detection from summed counts: bounds on resamples that anybody can draw, categories, what is carried."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

from custom_metrics.reading.spans import Span
from custom_metrics.reading.words import words
from custom_metrics.scores import detection
from custom_metrics.scores.detection import WordCounts, count_words
from custom_metrics.statistics.intervals import resampled_sums, spread

COUNTS = [[6, 2, 4, 8], [0, 0, 0, 50], [1, 0, 9, 0], [3, 5, 1, 20], [2, 2, 2, 2]]
RATES = {
    "precision": lambda c: c[..., 0] / (c[..., 0] + c[..., 1]),
    "recall": lambda c: c[..., 0] / (c[..., 0] + c[..., 2]),
    "f1": lambda c: 2 * c[..., 0] / (2 * c[..., 0] + c[..., 1] + c[..., 2]),
}


@pytest.mark.parametrize("metric", RATES)
def test_a_metric_is_of_the_sums_and_its_bounds_of_resampled_sums(metric: str) -> None:
    kind = getattr(detection, metric)
    many, value = COUNTS * 150, RATES[metric](np.sum(COUNTS, axis=0))
    with np.errstate(invalid="ignore"):
        informing = ~np.isnan(RATES[metric](np.array(many)))  # 300 documents and more
    expected = (value, *spread(RATES[metric](resampled_sums(np.array(many)[informing]))), 750)
    assert kind.figure_of(many) == pytest.approx(expected, rel=1e-12)
    ten = kind.figure_of(COUNTS * 2)
    assert 0 <= ten.low < expected[1] < value < expected[2] < ten.high <= 1
    assert kind.figure_of([*COUNTS * 2, *[[0, 0, 0, 9]] * 20])[:4] == pytest.approx(ten[:4])  # they say nothing of it
    assert math.isnan(kind.figure_of([*COUNTS[:4], *[[0, 0, 0, 9]] * 20]).low)
    assert kind.linear(kind.rows(COUNTS)).values.mean() == pytest.approx(value)


def test_what_no_resample_defines_has_no_bounds_and_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = detection.precision.figure_of([[0, 0, 3, 5], [0, 0, 1, 1]])
        macro = detection.f1.figure_of([[[0, 0, 0, 5]] * 6])
        nothing = detection.recall.figure_of([])
    assert np.isnan([found.value, found.low, macro.value, nothing.value]).all()


TEXT = "Er war 1969 auf dem Mars"
GOLD = [Span(7, 11, "entity"), Span(12, 19, "relation")]
FOUND = [Span(7, 11, "entity"), Span(16, 24, "invented"), Span(12, 15, "relation")]


def test_words_are_counted_by_what_both_sides_say() -> None:
    found = count_words(TEXT, "de", GOLD, FOUND)
    assert found == WordCounts(3, 1, 0, 2)
    assert all(type(count) is int for count in found)
    assert count_words(TEXT, "de", FOUND, GOLD) == WordCounts(3, 0, 1, 2)
    assert count_words("我不知道", "zh", [Span(0, 1)], []) == WordCounts(0, 0, 1, len(words("我不知道", "zh")) - 1)


def doc(text: str, spans: list[Span]) -> dict[str, Any]:
    names = ("start", "end", "category")
    return {"answer": text, "language": "de", "spans": [dict(zip(names, span[:3], strict=True)) for span in spans]}


def test_a_document_has_the_counts_of_its_categories_and_of_all_of_them() -> None:
    tagged = "Er war <entity>1969</entity> <relation>auf</relation> <invented>dem Mars</invented>"
    got = detection.process_category_results(doc(TEXT, GOLD), [tagged])
    counts = [[1, 0, 0, 5], [1, 0, 1, 4], [0, 2, 0, 4], *[[0, 0, 0, 6]] * 3]
    assert got["precision"] == got["recall"] == got["f1"].counts == counts
    assert got["f1"] == pytest.approx(2 * 2 / (2 * 2 + 2 + 1))
    assert {**got, "f1": 0, "precision": 0, "recall": 0} == {
        **dict.fromkeys(("f1", "precision", "recall", "altered_rate", "lost_rate"), 0.0)
    }


@pytest.mark.parametrize(
    ("tagged", "gold", "f1"), [(TEXT, [], 1.0), (TEXT, GOLD, 0.0), ("<entity>Er</entity>" + TEXT[2:], [], 0.0)]
)
def test_a_document_in_which_neither_side_marks_a_word_is_right(tagged: str, gold: list[Span], f1: float) -> None:
    for process in (detection.process_results, detection.process_category_results):
        got = process(doc(TEXT, gold), [tagged])
        assert float(got["f1"]) == f1


def test_macro_scores_count_the_categories_that_people_marked() -> None:
    """Marked and never found counts as 0; found and never marked does not count."""
    counts = np.array([[[2, 1, 1, 9], [0, 3, 0, 9], [0, 0, 4, 9], [1, 0, 0, 9], [0, 0, 0, 9], [0, 0, 0, 9]]] * 3)
    for kind in (detection.precision, detection.recall, detection.f1):
        assert kind(counts.tolist()) == pytest.approx((2 / 3 + 0 + 1) / 3)
    varied = np.concatenate([np.stack([np.roll(counts[0], place, axis=0) for place in range(3)])] * 100)
    resampled = resampled_sums(varied.reshape(300, 24)).reshape(-1, 6, 4)
    with np.errstate(invalid="ignore"):
        rates = np.nan_to_num(resampled[..., 0] / (resampled[..., 0] + resampled[..., 1]))
    occurs = resampled[..., 0] + resampled[..., 2] > 0
    bounds = spread((rates * occurs).sum(-1) / occurs.sum(-1))
    assert detection.precision.figure_of(varied.tolist())[1:] == pytest.approx((*bounds, 300), rel=1e-12)


def test_a_category_alone_has_the_figures_of_its_counts() -> None:
    values = [[[n, 1, 2, 9], [1, n, 0, 9], *[[0, 0, 0, 9]] * 4] for n in (1, 2, 3)]
    found = detection.category_figures(values)
    assert list(found)[:4] == ["f1_entity", "precision_entity", "recall_entity", "f1_relation"]
    assert len(found) == 18
    assert found["precision_entity"] == detection.precision.figure_of([of[0] for of in values])
    assert found["recall_relation"] == detection.recall.figure_of([of[1] for of in values])
    assert found["f1_relation"].value == pytest.approx(2 * 3 / (2 * 3 + 6))
    assert math.isnan(found["f1_subjective"].value)


@pytest.mark.parametrize(
    ("counts", "rates"),
    [
        (WordCounts(6, 2, 4, 8), (0.75, 0.6, 12 / 18, 0.2, 0.5, 0.4)),
        (WordCounts(0, 0, 0, 0), (math.nan,) * 6),
        (WordCounts(1, 2, 3, 0), (1 / 3, 0.25, 2 / 7, 1.0, 4 / 6, 0.5)),
    ],
)
def test_rates_of_counts(counts: WordCounts, rates: tuple[float, ...]) -> None:
    names = ("precision", "recall", "f1", "false_positive_rate", "prevalence", "flagged_share")
    assert [getattr(counts, name) for name in names] == pytest.approx(rates, nan_ok=True)


@pytest.mark.parametrize(("positive", "others", "n"), [(1, 299, 1), (4, 30, 4), (6, 300, 6)])
def test_a_recall_is_compared_over_the_passages_that_have_something_to_find(positive: int, others: int, n: int) -> None:
    """One passage of 300 had p = 9.8e-91; of fewer than five there is none."""
    first, second = ([[3 + k % 2, 1, 2, 40] for k in range(positive)], [[2, 1, 3 - k % 3, 40] for k in range(positive)])
    rest = [[[0, 1, 0, 50]] * others, [[0, 0, 0, 51]] * others]
    rows = [detection.recall.rows([*of, *nothing]) for of, nothing in zip((first, second), rest, strict=True)]
    found = detection.recall.difference(*rows)
    assert found.n == n
    if n < 5:
        assert np.isnan([found.p, found.low, found.high]).all()
    else:
        alone = detection.recall.difference(*map(detection.recall.rows, (first, second)))
        assert found[:7] == pytest.approx(alone[:7])


def test_sensitivity_by_one_passage_leaves_a_balanced_accuracy_without_p() -> None:
    rows = [
        detection.balanced_accuracy.rows([[found, 1, 5 - found, 40], *[[0, n % 3, 0, 40]] * 99])
        for n, found in ((0, 3), (1, 2))
    ]
    assert math.isnan(detection.balanced_accuracy.difference(*rows).p)
