"""CLAPnq's values of a document and figures by retrieval, in exact numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest

from custom_metrics.scores.grounding import (
    process_results,
    process_results_with_retrieval,
    retrieval_figures,
    retrieval_quality,
    score_answer,
)
from custom_metrics.statistics.figures import FloatWithCounts, mean_figure, share_figure


def test_recall_is_of_the_reference_with_the_best_f_measure() -> None:
    """The long reference is found with more precision and less recall, and has the better F-measure."""
    answer = "a b c d"
    short, long = "a x", "a b c d e f g h"  # F 1/3 and recall 1/2; F 2/3 and recall 1/2
    assert score_answer(answer, [short, long, " "], ["b c", "x"]) == {
        "rougeL": pytest.approx(2 / 3),
        "recall": 0.5,
        "rougeLp": pytest.approx(2 / 3),
        "length": 7.0,
    }
    precise, complete = "a b c d e f", "a"  # precision 1, recall 2/3; precision 1/4, recall 1
    assert score_answer(answer, [complete, precise], [])["recall"] == pytest.approx(2 / 3)
    imprecise = "a b"  # precision 1/2, recall 1: F 2/3, which is less than that of the precise one
    assert score_answer(answer, [imprecise, precise], [])["recall"] == pytest.approx(2 / 3)
    long = "a b c d e f g h i j k l"  # precision 1, recall 1/3: F 1/2; "a b c" has precision 3/4 and F 6/7
    assert score_answer(answer, [long, "a b c"], [])["recall"] == 1.0
    nothing = score_answer("a", ["", " "], [])
    assert [math.isnan(nothing[name]) for name in ("rougeL", "recall", "rougeLp")] == [True] * 3


DOC = {
    "answerable": True,
    "answers": ["a b"],
    "groundings": ["a b c"],
    "gold_ids": ["p1"],
    "retrieved_ids": ["p2", "p1"],
    "gold_ranks": [2],
}


def test_values_of_an_answer() -> None:
    assert process_results(DOC, ["a b x"]) == {
        "rougeL": pytest.approx(0.8),
        "unanswerable_accuracy": None,
        "recall": 1.0,
        "rougeLp": pytest.approx(2 / 3),
        "k_precision": pytest.approx(2 / 3),
        "length": 5.0,
        "answerable_abstention_rate": 0.0,
    }
    abstains = process_results(DOC, ["I do not know."])
    assert (abstains["k_precision"], abstains["answerable_abstention_rate"]) == (None, 1.0)
    unanswerable = {**DOC, "answerable": False, "answers": []}
    assert process_results(unanswerable, ["a b x"]) == {
        **dict.fromkeys(("rougeL", "recall", "rougeLp", "length", "answerable_abstention_rate")),
        "unanswerable_accuracy": 0.0,
        "k_precision": pytest.approx(2 / 3),
    }
    assert process_results(unanswerable, ["I do not know."])["unanswerable_accuracy"] == 1.0
    assert next(iter(process_results(DOC, ["a"]))) == "rougeL"
    assert process_results(DOC, [None])["length"] == 0.0
    assert process_results({**DOC, "answers": []}, ["a"])["rougeL"] is None


def test_an_answer_in_another_language_than_english_does_not_abstain() -> None:
    assert process_results(DOC, ["Das weiß ich leider nicht."])["answerable_abstention_rate"] == 0.0


def test_values_of_retrieval() -> None:
    found = process_results_with_retrieval(DOC, ["a"])
    assert (found["ndcg@10"], found["recall@10"], found["gold_retrieved"]) == (
        pytest.approx(1 / math.log2(3)),
        1.0,
        1.0,
    )
    assert isinstance(found["ndcg@10"], FloatWithCounts)
    assert found["ndcg@10"].counts == retrieval_quality(["p2", "p1"], ["p1"])
    assert process_results_with_retrieval({**DOC, "gold_ranks": []}, ["a"])["gold_retrieved"] == 0.0
    for doc in ({**DOC, "gold_ids": []}, {**DOC, "answerable": False}):
        values = process_results_with_retrieval(doc, ["a"])
        assert [values[name] for name in ("ndcg@10", "recall@10", "gold_retrieved")] == [None] * 3
        assert values["rougeLp"] == (None if not doc["answerable"] else pytest.approx(0.5))


def test_quality_of_a_ranking() -> None:
    found = retrieval_quality(["p2", "p1", "p3"], ["p1", "p4"])
    assert list(found) == ["ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10", "recall@10"]
    ideal = 1 + 1 / math.log2(3)
    assert found == pytest.approx(
        {"ndcg@1": 0.0, **dict.fromkeys(("ndcg@3", "ndcg@5", "ndcg@10"), 1 / math.log2(3) / ideal), "recall@10": 0.5}
    )


def test_a_cutoff_is_the_last_rank_that_counts() -> None:
    ranked = [f"p{rank}" for rank in range(1, 12)]
    for name, last in (("ndcg@1", 1), ("ndcg@3", 3), ("ndcg@5", 5), ("ndcg@10", 10), ("recall@10", 10)):
        assert retrieval_quality(ranked, [f"p{last}"])[name] > 0
        assert retrieval_quality(ranked, [f"p{last + 1}"])[name] == 0


def test_figures_are_split_by_whether_the_gold_passage_was_given() -> None:
    quality = [retrieval_quality(["p1"], ["p1"]), retrieval_quality(["p2", "p1"], ["p1"])]
    values: dict[str, list[Any]] = {
        "ndcg@10": [FloatWithCounts(1.0, quality[0]), None, FloatWithCounts(0.6, quality[1])],
        "gold_retrieved": [1.0, None, 0.0],
        "rougeL": [0.25, 0.5, 0.75],
        "recall": [0.5, 0.5, 1.0],
        "rougeLp": [0.1, 0.2, 0.3],
        "length": [10, 20, 30],
        "answerable_abstention_rate": [0.0, 1.0, 1.0],
    }
    found = {name: (figure, documents) for name, figure, documents in retrieval_figures(values)}
    assert list(found) == [
        *("ndcg@1", "ndcg@3", "ndcg@5"),
        *(
            "rougeL_retrieved",
            "recall_retrieved",
            "rougeLp_retrieved",
            "length_retrieved",
            "answerable_abstention_rate_retrieved",
        ),
        *("rougeL_missed", "recall_missed", "rougeLp_missed", "length_missed", "answerable_abstention_rate_missed"),
    ]
    assert found["ndcg@1"] == (mean_figure([1.0, 0.0]), "answerable questions whose gold passage is in the corpus")
    assert found["ndcg@3"][0] == mean_figure([1.0, quality[1]["ndcg@3"]])
    given, missed = (
        f"answerable questions whose gold passage {what}" for what in ("is among the passages given", "is not")
    )
    assert found["rougeL_retrieved"] == (pytest.approx(mean_figure([0.25]), nan_ok=True), given)
    assert found["length_missed"] == (pytest.approx(mean_figure([30]), nan_ok=True), missed)
    assert found["answerable_abstention_rate_missed"] == (pytest.approx(share_figure([1.0]), nan_ok=True), missed)
    assert found["answerable_abstention_rate_missed"][0].low > 0  # Wilson's bounds


def test_of_a_run_without_these_metrics_there_are_no_figures() -> None:
    assert all(math.isnan(figure.value) for _, figure, _ in retrieval_figures({}))
