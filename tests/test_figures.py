"""Intervals, aggregations, ROUGE and ranking: exact numbers, and the values of the reference libraries."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from custom_metrics.scores.aggregations import Aggregation, defined_mean, defined_share
from custom_metrics.scores.grounding import ndcg, recall, rouge1, rouge_l, tokens
from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.intervals import bootstrap_mean, wilson

NAN = math.nan


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        (0, 0, NAN, NAN),
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (81, 263, 0.2553, 0.3662),  # Newcombe 1998, Table I, method 3
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_bounds(successes: int, trials: int, low: float, high: float) -> None:
    assert wilson(successes, trials) == pytest.approx((low, high), abs=5e-5, nan_ok=True)


@pytest.mark.parametrize(("successes", "trials"), [(0, 1), (1, 1), (3, 7), (220, 250), (1, 10_000)])
def test_wilson_bounds_equal_scipys(successes: int, trials: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    bounds = stats.binomtest(successes, trials).proportion_ci(0.95, method="wilson")
    assert wilson(successes, trials) == pytest.approx((bounds.low, bounds.high), abs=1e-12)


@pytest.mark.parametrize(("successes", "trials"), [(2, 1), (-1, 5), (1, 0)])
def test_more_successes_than_trials_are_refused(successes: int, trials: int) -> None:
    with pytest.raises(ValueError, match=f"^successes must be between 0 and trials, got {successes} of {trials}$"):
        wilson(successes, trials)


@given(st.integers(0, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))).filter(lambda pair: pair[1] > 0))
def test_wilson_bounds_hold_the_share(pair: tuple[int, int]) -> None:
    low, high = wilson(*pair)
    assert 0 <= low <= pair[0] / pair[1] <= high <= 1


@pytest.mark.parametrize(
    ("values", "mean", "low", "high", "error", "n"),
    [
        ([1.0, 0.0, None, 1.0, 0.0], 0.5, 0.15003898, 0.84996102, math.sqrt(1 / 3 / 4), 4),
        ([1.0, NAN], 1.0, 0.20654931, 1.0, NAN, 1),  # one document has no spread
        ([None, None], NAN, NAN, NAN, NAN, 0),
        ([], NAN, NAN, NAN, NAN, 0),
        ([0.0, 0.0], 0.0, 0.0, 0.65761984, 0.0, 2),
    ],
)
def test_a_rate_its_bounds_and_its_error_skip_what_is_not_in_the_denominator(
    values: list[float | None], mean: float, low: float, high: float, error: float, n: int
) -> None:
    found = defined_share.figure(values)
    assert found == pytest.approx((mean, low, high, error, n), abs=1e-7, nan_ok=True)
    assert (defined_share(values), defined_share.standard_error(values)) == pytest.approx((mean, error), nan_ok=True)
    assert (defined_mean(values), defined_mean.standard_error(values)) == pytest.approx((mean, error), nan_ok=True)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_the_standard_error_of_a_mean_is_the_harnesss(values: list[float]) -> None:
    from lm_eval.api.metrics import mean_stderr

    assert defined_mean.standard_error([None, *values]) == pytest.approx(mean_stderr(values), rel=1e-9, abs=1e-6)


def test_a_figure_in_a_file_has_no_nan() -> None:
    assert Figure(0.5, 0.1, 0.9, 0.2, 7).as_json("all questions") == {
        **{"value": 0.5, "low": 0.1, "high": 0.9, "standard_error": 0.2, "n": 7, "denominator": "all questions"},
    }
    assert Figure(1.0, n=1).as_json()["standard_error"] is None


def test_an_aggregation_is_known_by_its_name() -> None:
    """The harness writes it into the results file, and copies it with the task's configuration."""
    from copy import deepcopy

    aggregation = Aggregation("name", lambda values: Figure(float(len(values))))
    assert str(aggregation) == "name"
    assert deepcopy(aggregation) is aggregation


def test_bootstrap_bounds_are_seeded_and_hold_the_mean() -> None:
    values = [0.1, 0.9, None, 0.4, 0.6, 0.5] * 20
    found = defined_mean.figure(values)
    assert (found.low, found.high) == bootstrap_mean([value for value in values if value is not None])
    assert found.low < 0.5 < found.high
    # normal theory: 1.96 * sd / sqrt(n)
    assert found.high - found.low == pytest.approx(2 * 1.96 * 0.2608 / 10, rel=0.05)
    assert bootstrap_mean([0.7]) == (0.7, 0.7)
    assert all(map(math.isnan, bootstrap_mean([NAN])))


def reference(target: str, prediction: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    scores = RougeScorer(["rouge1", "rougeL"], use_stemmer=False).score(target, prediction)
    return tuple(scores["rouge1"]), tuple(scores["rougeL"])


WORDS = st.text(alphabet="ab cdAB.,-'é1 2\n", max_size=120)


@given(WORDS, WORDS)
def test_rouge_has_the_values_of_rouge_score(target: str, prediction: str) -> None:
    assert (tuple(rouge1([target], prediction)), tuple(rouge_l(target, prediction))) == reference(target, prediction)


@given(st.text(max_size=60), st.text(max_size=60))
def test_rouge_has_the_values_of_rouge_score_on_any_text(target: str, prediction: str) -> None:
    assert (tuple(rouge1([target], prediction)), tuple(rouge_l(target, prediction))) == reference(target, prediction)


def test_tokens_are_runs_of_ascii_letters_and_digits() -> None:
    assert tokens("The `` S.S. Émile-7 '' ") == ("the", "s", "s", "mile", "7")


@pytest.mark.parametrize(
    ("ranked", "relevant", "k", "gain", "found"),
    [
        (["a", "b", "c"], ["a"], 1, 1.0, 1.0),
        (["b", "a", "c"], ["a"], 1, 0.0, 0.0),
        (["b", "a", "c"], ["a"], 3, 1 / math.log2(3), 1.0),
        (["a", "x", "b"], ["a", "b"], 3, (1 + 0.5) / (1 + 1 / math.log2(3)), 1.0),
        (["a"], ["a", "b", "c"], 1, 1.0, 1 / 3),
        ([], ["a"], 10, 0.0, 0.0),
        (["a"], [], 10, NAN, NAN),
        (["b", "a", "a"], ["a", "a"], 3, 1 / math.log2(3), 1.0),
    ],
)
def test_ndcg_and_recall(ranked: list[str], relevant: list[str], k: int, gain: float, found: float) -> None:
    assert ndcg(ranked, relevant, k) == pytest.approx(gain, nan_ok=True)
    assert recall(ranked, relevant, k) == pytest.approx(found, nan_ok=True)


def test_a_figure_says_what_its_denominator_is_only_where_that_is_named() -> None:
    assert Figure(0.5).as_json() == {
        **dict.fromkeys(("low", "high", "standard_error")),
        "value": 0.5,
        "n": 0,
        "denominator": "",
    }
