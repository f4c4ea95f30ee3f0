"""Figures and their bounds in exact numbers: intervals of shares, percentiles of resamples, means over languages."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from custom_metrics.hallucination import estimate
from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER, process_results
from custom_metrics.scores.aggregations import defined_mean, defined_share
from custom_metrics.scores.balanced_error import balanced_error
from custom_metrics.statistics.figures import UNDEFINED, Figure, FigureOfStrata, Rows, Stratum, outcome
from custom_metrics.statistics.intervals import (
    clopper_pearson,
    difference_of_clusters,
    resampled_sums,
    share_of_clusters,
    spread,
    two_part_bounds,
    wilson,
)
from custom_metrics.statistics.marked import Draws, marked_mean
from custom_metrics.statistics.random_effects import measured_errors
from custom_metrics.statistics.strata import mean_of_shares, mean_of_strata
from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.calibration import load
from lm_eval_tasks.detection.calibrated import TaggedAnswer
from lm_eval_tasks.mfava import task as estimation
from lm_eval_tasks.results.measuring import _together
from lm_eval_tasks.runs.answers import content_of, key_of
from lm_eval_tasks.runs.run import with_cost
from tests.made_runs import run as made_run
from tests.made_runs import task as made_task
from tests.paired import compare_means

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


@pytest.mark.parametrize(("successes", "trials"), [(2, 1), (-1, 5), (1, 0)])
def test_more_successes_than_trials_are_refused(successes: int, trials: int) -> None:
    with pytest.raises(ValueError, match=f"^successes must be between 0 and trials, got {successes} of {trials}$"):
        wilson(successes, trials)


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
    found = defined_share.figure_of(values)
    assert found[:5] == pytest.approx((mean, low, high, error, n), abs=1e-7, nan_ok=True)
    assert found.strata == ()
    assert defined_share(values) == pytest.approx(mean, nan_ok=True)
    of_mean = defined_mean.figure_of(values)
    assert (of_mean.value, of_mean.standard_error) == pytest.approx((mean, error), nan_ok=True)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_the_standard_error_of_a_mean_is_the_harnesss(values: list[float]) -> None:
    from lm_eval.api.metrics import mean_stderr

    error = defined_mean.figure_of([None, *values]).standard_error
    assert error == pytest.approx(mean_stderr(values), rel=1e-9, abs=1e-6)


def test_a_figure_in_a_file_has_no_nan() -> None:
    assert Figure(0.5, 0.1, 0.9, 0.2, 7).as_json("all questions") == {
        **{"value": 0.5, "low": 0.1, "high": 0.9, "standard_error": 0.2, "n": 7, "denominator": "all questions"}
    }
    nothing = dict.fromkeys(("low", "high", "standard_error"))
    assert Figure(0.5).as_json() == {**nothing, "value": 0.5, "n": 0, "denominator": ""}
    strata = (Stratum(0.25, 4, 0.5), Stratum(0.75, 8, 0.5))
    assert FigureOfStrata.of(Figure(0.5, n=12), strata).as_json()["strata"] == [
        {"share": 0.25, "n": 4, "weight": 0.5},
        {"share": 0.75, "n": 8, "weight": 0.5},
    ]


VALUES = [0.0, 1.0, 0.25, 0.75, 0.5, 1.0, 0.125]


def test_bounds_of_a_mean_of_300_numbers_are_of_2000_resamples_with_the_projects_seed() -> None:
    many = VALUES * 43
    low, high = np.percentile(resampled_sums(np.array(many)[:, None], 2000, 1234)[:, 0] / len(many), [2.5, 97.5])
    assert defined_mean.figure_of([*many[:3], NAN, *many[3:], None])[1:3] == pytest.approx((low, high))


def test_bounds_of_a_mean_of_fewer_numbers_are_those_that_differences_have() -> None:
    """On a logarithmic scale where no number is negative; the upper one is 2/n further out."""
    numbers = [0.3, 0.1, 0.9, 0.4, 0.6, 0.5, 0.0]
    mean, paired = fmean(numbers), compare_means([(sorted(numbers), [0.0] * 7)])
    ratio = (paired.high - mean) / mean
    low, high = defined_mean.figure_of(numbers)[1:3]
    assert (low, high) == pytest.approx((mean * math.exp(-ratio), mean * math.exp(ratio * 9 / 7)))
    signed = defined_mean.figure_of([*numbers, -0.1])
    assert signed.high - signed.value == pytest.approx(signed.value - signed.low)
    assert np.isnan([defined_mean.figure_of(values)[1:3] for values in ([], [NAN, NAN], [0.7] * 4, [0.0] * 9)]).all()


@pytest.mark.parametrize(
    ("resampled", "expected"),
    [
        (np.arange(41.0), (1.0, 39.0, math.sqrt(41 * 42 / 12))),
        ([*np.arange(19.0), NAN], (0.45, 17.55, math.sqrt(19 * 20 / 12))),  # one in twenty may be undefined
        ([*np.arange(18.0), NAN, NAN], (NAN, NAN, NAN)),
        ([3.0], (NAN, NAN, NAN)),
        ([3.0, 3.0, 3.0], (NAN, NAN, 0.0)),  # bounds of no width would say that the figure is sure
        ([1.0, 2.0], (1.025, 1.975, math.sqrt(0.5))),
        ([], (NAN, NAN, NAN)),
        ([NAN], (NAN, NAN, NAN)),
    ],
)
def test_a_spread_has_percentiles_and_a_deviation(resampled: Any, expected: tuple[float, float, float]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = spread(np.array(resampled, dtype=float))
    assert found == pytest.approx(expected, nan_ok=True, abs=1e-12)
    assert all(type(part) is float for part in found)


def tagged(flagged: float, words: int, article: int, subset: int = 0) -> TaggedAnswer:
    identity = load("lexical").identity
    return TaggedAnswer(flagged, words, article, subset, f"{identity}|de||lexical|any")


def test_answers_and_calibration_are_drawn_apart() -> None:
    """Drawn by one seed, document for document, their errors would cancel: every resample would say exactly one half."""
    flagged = np.arange(10, 50)
    total = 100 + flagged
    # Half of each document's words are hallucinated; how many are flagged differs, and so do the documents' sizes.
    calibration = np.stack([flagged // 2, flagged - flagged // 2, total // 2 - flagged // 2, total], axis=1)
    calibration[:, 3] = total - calibration[:, :3].sum(axis=1)
    got = estimate(np.stack([flagged, total], axis=1), measured_errors(calibration))
    assert got.estimated.value == pytest.approx(0.5, abs=0.01)
    assert got.estimated.high - got.estimated.low > 0.1


def test_answers_about_one_article_are_drawn_together() -> None:
    """Both answers of an article are all hallucinated or not at all: forty answers say no more than twenty articles."""
    answers = [tagged(10.0 * (article % 2), 10, article) for article in range(20) for _ in range(2)]
    articles = np.array([[20.0 * (article % 2), 20] for article in range(20)])
    expected = estimate(articles).detected
    assert estimation.detected_rate.figure_of(answers) == expected._replace(n=40)
    apart = estimate(np.array([[answer.flagged, answer.words] for answer in answers])).detected
    assert expected.high - expected.low > 1.25 * (apart.high - apart.low)


def share(count: int, n: int) -> Figure:
    return Figure(count / n, *wilson(count, n), math.sqrt(count / n * (1 - count / n) / n), n)


KNOWN = Figure(0.7, 0.6, 0.8, 0.04, 10)


@pytest.mark.parametrize(
    ("figures", "mean"),
    [
        ([], UNDEFINED),
        ([UNDEFINED, UNDEFINED], UNDEFINED),
        ([Figure(0.4, 0.1, 0.6, 0.1, 9), UNDEFINED], Figure(0.4, 0.1, 0.6, 0.1, 9)),
        # error: sqrt(0.03^2 + 0.04^2) / 2, and 1.96 times that on either side
        (
            [Figure(0.5, 0.2, 1.1, 0.03, 4), Figure(0.7, 0.3, 1.5, 0.04, 6)],
            Figure(0.6, 0.6 - 1.959964 * 0.025, 0.6 + 1.959964 * 0.025, 0.025, 10),
        ),
        # the same without a standard error: sqrt(0.06^2 + 0.08^2) / 2 below, sqrt(0.12^2 + 0.16^2) / 2 above
        ([Figure(0.5, 0.44, 0.62, 0.03, 4), Figure(0.7, 0.62, 0.86, NAN, 6)], Figure(0.6, 0.55, 0.7, NAN, 10)),
        # rates that were cut off at 0: known to a third, they average out; where they can be anything, nothing does
        ([Figure(0.0, 0.0, 0.3, NAN, 5)] * 9, Figure(0.0, 0.0, 0.1, NAN, 45)),
        ([Figure(0.0, 0.0, 1.0, NAN, 5)] * 18, Figure(0.0, 0.0, 1.0, NAN, 90)),
        # (sqrt(0.3^2 + 0.4^2) + 1) / 3 above
        ([Figure(0.0, 0.0, high, NAN, 5) for high in (0.3, 0.4, 1.0)], Figure(0.0, 0.0, 0.5, NAN, 15)),
        # skewed bounds: never further out than the mean of the strata's
        ([Figure(0.1, 0.09, 0.5, 0.1, 5)] * 2, Figure(0.1, 0.09, 0.1 + 1.959964 * 0.1 / math.sqrt(2), 0.0707107, 10)),
        ([Figure(0.5, n=3), Figure(0.7, 0.6, 0.8, 0.1, 3)], Figure(0.6, NAN, NAN, NAN, 6)),
        ([Figure(0.5, NAN, NAN, 0.0, 3)] * 2, Figure(0.5, NAN, NAN, 0.0, 6)),
        # equal values in one stratum: no bounds of its own, and those of the mean by the other
        # fewer than five documents: sqrt((0 + 0.04^2 * 6) / 4 / 3) instead of 0, and t of four degrees
        ([Figure(0.5, NAN, NAN, 0.0, 3), KNOWN._replace(n=3)], Figure(0.6, 0.5319912, 0.6680088, 0.0244949, 6)),
        # one document, beside ten
        ([Figure(0.5, n=1), KNOWN], Figure(0.6, 0.4499455, 0.7500545, 0.0663325, 11)),
        # one document each: the strata are the sample
        ([Figure(0.1 * k, n=1) for k in range(1, 6)], Figure(0.3, 0.1036757, 0.4963243, 0.0707107, 5)),
        ([Figure(0.1 * k, n=1) for k in range(1, 5)], Figure(0.25, NAN, NAN, NAN, 4)),
    ],
)
def test_exact_means(figures: list[Figure], mean: Figure) -> None:
    assert mean_of_strata(figures)[:5] == pytest.approx(mean[:5], nan_ok=True, rel=1e-6)


def approx(figure: Sequence[float]) -> Any:
    return pytest.approx(tuple(figure[:5]), nan_ok=True, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize(
    ("counts", "mean"),
    [
        # every share 0: as 0 of 72 documents of one sample
        ([(0, 4)] * 18, (0.0, 0.0, 0.1154684, 0.0, 72)),
        # 1/6 and 5/6 instead of 0 and 1: V = 2 * (5/36/4) / 4 = 5/288, and 0.25 / V = 14.4 documents
        ([(0, 4), (4, 4)], (0.5, 0.176496, 0.823504, 0.0, 8)),
        # V = (2 * 0.25 / 10) / 4 = 1 / 80, and 0.25 / V = 20 documents; the standard error is over 9
        ([(5, 10), (5, 10)], (0.5, 0.2563506, 0.7436494, math.sqrt(1 / 72), 20)),
        # languages that differ are strata
        ([(10, 100), (100, 100)], (0.55, 0.5179723, 0.5816185, math.sqrt(0.09 / 396), 200)),
        ([(0, 400), (400, 400)], (0.5, *wilson(80601 / 2, 80601), 0.0, 800)),
        ([(1, 2), (0, 2)], (0.25, 1.65e-08, 0.9974524, 0.25, 4)),
        # one document each: the variance of the mean, 0.25, for both
        ([(1, 1), (0, 1)], (0.5, 1.03e-07, 0.9999999, math.sqrt(0.125), 2)),
    ],
)
def test_exact_means_of_shares(counts: list[tuple[int, int]], mean: tuple[float, ...]) -> None:
    """Wilson's interval of as many documents as give the mean its variance, with a hit and a miss more in each stratum; of
    small strata Korn and Graubard's, or MOVER's where that is wider."""
    found = mean_of_shares([share(*each) for each in counts])
    assert found[:5] == approx(mean)
    strata = [(k / n, n, 1 / len(counts)) for k, n in counts]
    assert [*map(tuple, found.strata)] == [pytest.approx(stratum) for stratum in strata]


def test_means_of_shares_where_some_are_unknown() -> None:
    assert mean_of_shares([]) == approx(UNDEFINED)
    assert mean_of_shares([share(1, 4), UNDEFINED]) == share(1, 4)
    unknown = [Figure(0.5, n=0), Figure(0.7, 0.6, 0.8, 0.1, 3)]
    assert mean_of_shares(unknown)[:5] == approx((0.6, NAN, NAN, NAN, 3))


def test_a_mean_of_means_counts_by_the_strata_of_each() -> None:
    """As of balanced errors over languages; an undefined one is left out, whatever it weighs."""
    one, other = mean_of_shares([share(1, 10), share(4, 20)]), mean_of_shares([share(3, 5), share(9, 10)])
    for figures, weights, quarters, mean in (
        ([one, other], None, (1, 1, 1, 1), (0.45, 0.2863631, 0.6219542, 0.0743392, 45)),
        ([one, other, UNDEFINED], (3, 1, 5), (3, 3, 1, 1), (0.3, 0.1760705, 0.4497857, 0.0606977, 45)),
    ):
        found = mean_of_shares(figures, weights=weights)
        assert found[:5] == approx(mean)
        strata = zip((0.1, 0.2, 0.6, 0.9), (10, 20, 5, 10), quarters, strict=True)
        assert [*map(tuple, found.strata)] == [pytest.approx((s, n, q / sum(quarters))) for s, n, q in strata]


BALANCED_CASES = [
    # wrong of the questions that cannot be answered, and of those that can; the error with its bounds and standard error,
    # and those of cost 3
    ((1, 4), (3, 10), (0.275, 0.0336319, 0.6986182, 0.1464866), (0.2625, 0.0021087, 0.8852807, 0.1913494)),
    ((0, 5), (7, 7), (0.5, 0.2651362, 0.7348638, 0.0), (0.25, 0.0331872, 0.6454845, 0.0)),  # declines everything
    ((5, 5), (0, 7), (0.5, 0.2651362, 0.7348638, 0.0), (0.75, 0.3545155, 0.9668128, 0.0)),  # declines nothing
    ((0, 5), (0, 7), (0.0, 0.0, 0.3571928, 0.0), (0.0, 0.0, 0.5727914, 0.0)),
    ((5, 5), (7, 7), (1.0, 0.6428072, 1.0, 0.0), (1.0, 0.4272086, 1.0, 0.0)),  # cannot be read
    ((1, 1), (0, 1), (0.5, 1.03e-07, 0.9999999, 0.3535534), (0.75, 0.0, 1.0, 0.3423266)),
    ((0, 0), (2, 7), UNDEFINED[:4], UNDEFINED[:4]),
    ((2, 5), (0, 0), UNDEFINED[:4], UNDEFINED[:4]),
]


def outcomes(unanswerable: tuple[int, int], answerable: tuple[int, int]) -> list[dict[str, int] | None]:
    kinds = ((False, unanswerable), (True, answerable))
    values = [outcome(kind, number >= wrong) for kind, (wrong, n) in kinds for number in range(n)]
    return [*values[::2], None, *values[1::2]]


@pytest.mark.parametrize(("unanswerable", "answerable", "error", "of_cost_3"), BALANCED_CASES)
def test_balanced_errors_and_those_of_another_cost(
    unanswerable: tuple[int, int], answerable: tuple[int, int], error: Sequence[float], of_cost_3: Sequence[float]
) -> None:
    """As the harness computes it, and as a run of two tasks has it with another cost of a made-up answer."""
    found = balanced_error.figure_of(outcomes(unanswerable, answerable))
    assert balanced_error(outcomes(unanswerable, answerable)) == pytest.approx(error[0], nan_ok=True)
    whole = made_run("m", [made_task("nomiracl_de", {"robust": {"balanced_error": found.as_json("all questions")}})])
    for cost, expected, heading in ((1, error, ""), (3, of_cost_3, ", cost 3")):
        task = with_cost(whole, cost).tasks["nomiracl_de"]
        figure = task.figure("balanced_error", "robust")
        assert figure[:4] == approx(expected)
        if not math.isnan(error[0]):
            assert figure.n == unanswerable[1] + answerable[1]
            weights = cost / (cost + 1), 1 / (cost + 1)
            strata = zip((unanswerable, answerable), weights, strict=True)
            assert [*map(tuple, figure.strata)] == [pytest.approx((k / n, n, weight)) for (k, n), weight in strata]
            assert task.metric("balanced_error").heading == f"Error rate (balanced{heading})"
            assert cost == 1 or task.results["balanced_error,robust"] == figure.value
            assert cost == 1 or task.results["balanced_error_stderr,robust"] == figure.standard_error


def test_an_unreadable_model_wins_nothing() -> None:
    """Invalid on every question: in neither of the two rates, and wrong everywhere."""
    docs = [{"subset": "relevant", "label": ANSWER}, {"subset": "non_relevant", "label": NO_ANSWER}] * 5
    values = [process_results(doc, [INVALID]) for doc in docs]
    assert math.isnan(defined_share([value["hallucination_rate"] for value in values]))
    assert math.isnan(defined_share([value["error_rate"] for value in values]))
    found = balanced_error.figure_of([value["balanced_error"] for value in values])
    assert found[:5] == approx((1.0, 0.6001088, 1.0, 0.0, 10))  # wider than Wilson's, of 10 of 10


def test_the_cost_of_a_group_is_that_of_its_tasks() -> None:
    figures = [balanced_error.figure_of(outcomes(*counts[:2])).as_json() for counts in BALANCED_CASES[:2]]
    both = zip(("de", "fr"), figures, strict=True)
    tasks = [made_task(f"nomiracl_{code}", {"robust": {"balanced_error": each}}, code) for code, each in both]
    results = {"balanced_error,robust": 0.3875, "balanced_error_stderr,robust": 0.1, "accuracy,robust": 0.7}
    of_group = {"groups": {"nomiracl": ("nomiracl_de", "nomiracl_fr")}, "group_results": {"nomiracl": results}}
    whole = replace(made_run("m", tasks), **of_group)
    assert with_cost(whole, 1) is whole
    shares = [(3, 1 / 4, 4), (1, 3 / 10, 10), (3, 0.0, 5), (1, 1.0, 7)]
    error = math.sqrt(sum((weight / 8) ** 2 * share * (1 - share) / (n - 1) for weight, share, n in shares))
    assert with_cost(whole, 3).group_results["nomiracl"] == pytest.approx(
        {**results, "balanced_error,robust": (0.2625 + 0.25) / 2, "balanced_error_stderr,robust": error}
    )
    weighed = with_cost(whole, 3).tasks["nomiracl_de"]
    assert weighed.figures["robust"]["balanced_error"]["denominator"] == weighed.metric("balanced_error").denominator
    assert weighed.metric("balanced_error").denominator.endswith("a made-up answer costs as much as 3 wrong refusals")
    for wrong in (0, -1, NAN, math.inf, 10**400, "3", None, True, [3]):
        with pytest.raises(UsageError, match="--cost takes how many wrong refusals a made-up answer costs, such as 3"):
            with_cost(whole, wrong)  # type: ignore[arg-type]


SOUND = {"share": 0.5, "n": 1, "weight": 0.5}
HOSTILE_STRATA = [{**SOUND, name: value} for name in SOUND for value in (math.inf, NAN, -1, 1e308, 10**400, "x", None)]


@pytest.mark.parametrize("damaged", [[], None, "many", [{"share": 0.5}], *([each, SOUND] for each in HOSTILE_STRATA)])
def test_a_figure_with_damaged_strata_has_no_other_cost(damaged: Any) -> None:
    entry = {"value": 0.275, "n": math.inf, "strata": damaged}
    one = made_run("m", [made_task("nomiracl_de", {"robust": {"balanced_error": entry}}, "de")])
    assert one.tasks["nomiracl_de"].figure("balanced_error", "robust")[::4] == (0.275, 0)
    assert math.isnan(with_cost(one, 3).tasks["nomiracl_de"].figure("balanced_error", "robust").value)


NOTHING_OF_15 = 1 - 0.025 ** (1 / 15)  # Clopper and Pearson's upper bound of none of fifteen


@pytest.mark.parametrize(
    ("parts", "at_most", "at_least"),
    [
        ([0.0] * 15, 1.0, NOTHING_OF_15),
        ([0.01] * 5 + [0.0] * 10, 1.0, 0.05 / 15 + NOTHING_OF_15),  # one word in each of five answers
        ([0.8] + [0.0] * 14, 1.0, 0.8 * beta.ppf(0.975, 2, 14)),
        ([1.0] * 10 + [0.0] * 5, 1 - beta.ppf(0.975, 6, 10), 0.0),  # ten are enough; five misses are few
        ([1.0] * 15, 1 - NOTHING_OF_15, 0.0),
        ([1.0, 0.0], beta.ppf(0.025, 1, 2), beta.ppf(0.975, 2, 1)),
    ],
)
def test_what_was_not_seen_is_in_the_bounds(parts: list[float], at_most: float, at_least: float) -> None:
    assert two_part_bounds(parts, np.ones(len(parts))) == pytest.approx((at_most, at_least))
    mirrored = two_part_bounds(1 - np.array(parts), np.ones(len(parts)))
    assert mirrored == pytest.approx((1 - at_least, 1 - at_most))


def test_units_count_by_kish_and_more_where_few_are_left() -> None:
    of_two = two_part_bounds([0.0, 0.0, 0.0], [1.0, 1.0, 0.0])[1]
    assert of_two == pytest.approx(1 - 0.025 ** (1 / 2))
    assert two_part_bounds([0.0] * 5, [1.0] * 5, more=2.0)[1] == pytest.approx(1 - 0.025 ** (1 / 10))


def test_clusters_of_one_answer_are_nearly_clopper_and_pearsons_and_alike_ones_count_once() -> None:
    ones = np.array(share_of_clusters([1.0] * 12 + [0.0] * 28, [1.0] * 40))
    assert ones == pytest.approx(np.array([*clopper_pearson(0.3 * 39, 39.0), (0.3 * 0.7 / 39) ** 0.5]))
    low, high, error = share_of_clusters([0.0] * 60, [10.0] * 60)  # conversations, none with a hit
    assert (low, high, error) == pytest.approx((0, 1 - 0.025 ** (1 / 60), 0), abs=3e-3)
    assert high >= 1 - 0.025 ** (1 / 60)
    assert share_of_clusters([3.0], [10.0])[:2] == pytest.approx((0, 1), abs=1e-3)  # one tells nothing
    assert np.isnan(share_of_clusters([0.0], [0.0])).all()


def test_the_order_of_answers_and_an_empty_cluster_change_nothing() -> None:
    flags, names = np.array([1.0, 0, 0, 1, 1, 0, 0]), [*"aabbccd"]
    order = [6, 2, 4, 0, 5, 1, 3]
    figure = defined_share.figure(Rows(flags, names))
    assert defined_share.figure(Rows(flags[order], [names[place] for place in order])) == figure
    assert np.array(figure[1:4]) == pytest.approx(np.array(share_of_clusters([1, 1, 1, 0, 0], [2, 2, 2, 1, 0])))


def test_independent_documents_keep_wilsons_bounds_to_the_digit() -> None:
    flags = np.array([1.0, 0, 0, 1, 0])
    for names in ((), [*"abcde"]):
        assert defined_share.figure(Rows(flags, names))[1:3] == wilson(2, 5)


def test_equal_logs_of_conversations_differ_by_what_was_not_seen() -> None:
    rows = Rows(np.arange(60) % 7 // 6.0, [str(place // 3) for place in range(60)])
    found = defined_share.difference(rows, rows)
    bound = 1 - 0.025 ** (1 / 20)
    assert (found.low, found.high, found.p) == pytest.approx((-bound, bound, 1.0))


def test_documents_that_hang_together_in_one_run_do_in_all_whichever_comes_first() -> None:
    first, second = (np.array([0, 1, 2, 3]), [*"aabc"]), (np.array([3, 2, 1]), [*"zyx"])
    assert _together([first, second], 5) == [*"aabc", ""]
    third = np.array([2, 3]), ["t", "t"]
    assert _together([first, third], 4) == _together([third, first], 4) == [*"aabb"]


def test_answers_of_logs_are_paired_by_id_or_question_never_by_line() -> None:
    old = {"id": "line 1", "guessed": True, "query": "q", "reference": "r", "model": "a", "conversation": "c"}
    new = {**old, "id": "line 7", "model": "b", "conversation": "d"}
    assert content_of(old) == content_of(new) == key_of(old) == key_of(new)
    assert (key_of({**old, "query_id": 3}), key_of({"question": "why"})) == ("3", "")
    assert content_of(old) != content_of({**new, "reference": "s"})


def test_p_of_two_shares_is_under_5_percent_where_bounds_exclude_0() -> None:
    sizes, some = [10] * 8, [9, 8, 10, 9, 10, 8, 9, 10]
    low, _, p = difference_of_clusters(some, [0] * 8, sizes)
    assert low > 0
    assert p < 0.05
    low, _, p = difference_of_clusters([3, 0, 0, 4, 0, 0, 2, 0], [0] * 8, sizes)
    assert low < 0
    assert p > 0.05


@pytest.mark.parametrize(("marked", "high"), [([0.01] * 5 + [0.0] * 10, 0.2214), ([0.0] * 15, NOTHING_OF_15)])
def test_few_marks_of_slips_leave_room_for_answers_that_are_all_made_up(marked: list[float], high: float) -> None:
    draws = Draws.of(np.ones(15))
    assert marked_mean(draws, marked, [0.1] * 15, 0.1).figure.high == pytest.approx(high, abs=1e-4)
    mirrored = marked_mean(draws, 1 - np.array(marked), [0.1] * 15, 0.1).figure.low
    assert mirrored == pytest.approx(1 - high, abs=1e-4)
