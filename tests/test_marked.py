"""A mean from marks of a few answers and a reading of all: exact cases, properties, and how often bounds hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from custom_metrics.statistics.marked import Draws, marked_difference, marked_mean

NAN = math.nan
HALVES = [0.0, 0.5, 1.0, 0.5, 0.5]
ONES = [1] * 5


@pytest.mark.parametrize(
    ("times", "marked", "expected", "of_all", "value", "low", "high", "error", "slope"),
    [
        # the reading says nothing: mean and Student's t with 4 degrees, se^2 = 0.5 / 4 / 5, half = 2.7764 * se / 0.25
        (ONES, HALVES, [0.3] * 5, 0.9, 0.5, 0.147295, 0.852705, 0.158114, 0.0),
        # the reading is what people say: F, and what five draws without a difference leave open, 1 - 0.025 ** (1 / 5)
        (ONES, HALVES, HALVES, 0.4, 0.4, 0.0, 0.921824, 0.0, 1.0),
        # the reading says the opposite: lambda is never negative
        (ONES, HALVES, [1.0, 0.5, 0.0, 0.5, 0.5], 0.4, 0.5, 0.147295, 0.852705, 0.158114, 0.0),
        # half of what the reading says: lambda 0.5, and no residual is left
        (ONES, [0.25, 0.5, 0.75, 0.5, 0.5], HALVES, 0.4, 0.45, 0.0, 0.971824, 0.0, 0.5),
        # an answer that was drawn twice counts twice
        ([2, 1, 1, 1], [0.5, 0.0, 1.0, 0.5], [0.3] * 4, 0.3, 0.5, 0.147295, 0.852705, 0.158114, 0.0),
        # nothing is made up in any: a share of 0 of 5 (Clopper and Pearson)
        (ONES, [0.0] * 5, HALVES, 0.4, 0.0, 0.0, 0.521824, 0.0, 0.0),
        # too few for bounds
        ([1, 1, 2], [0.0, 1.0, 0.5], [0.0, 1.0, 0.5], 0.4, 0.5, NAN, NAN, NAN, 0.0),
        ([], [], [], 0.4, NAN, NAN, NAN, NAN, 0.0),
    ],
)
def test_exact_cases(
    times: Any,
    marked: Any,
    expected: Any,
    of_all: float,
    value: float,
    low: float,
    high: float,
    error: float,
    slope: float,
) -> None:
    found = marked_mean(Draws.of(times), marked, expected, of_all)
    figure = (found.figure.value, found.figure.low, found.figure.high, found.figure.standard_error)
    assert figure == pytest.approx((value, low, high, error), abs=2e-6, nan_ok=True)
    assert (found.figure.n, found.slope) == (sum(times), pytest.approx(slope))


def test_answers_of_one_article_make_the_bounds_wider() -> None:
    marked, reading = [0.0, 0.0, 1.0, 1.0, 0.5, 0.5], [0.4] * 6
    apart, together, one = (
        marked_mean(Draws.of([1] * 6, clusters=names), marked, reading, 0.4).figure
        for names in (None, ["a", "a", "b", "b", "c", "c"], ["a"] * 6)
    )
    assert together.standard_error == pytest.approx(apart.standard_error * math.sqrt(2))  # both of an article agree
    assert (apart.n, together.n) == (6, 6)
    assert math.isnan(one.low)  # of a single article nothing is known of others


def test_worth_is_the_number_of_draws_without_the_reading() -> None:
    rng = np.random.default_rng(1)
    reading = rng.random(400)
    marked = np.clip(reading + rng.normal(0, 0.1, 400), 0, 1)
    found = marked_mean(Draws.of(np.ones(400)), marked, reading, 0.5)
    assert found.worth == pytest.approx(400 * (found.alone.standard_error / found.figure.standard_error) ** 2)
    assert found.worth > 2_000
    assert math.isnan(marked_mean(Draws.of(ONES), HALVES, HALVES, 0.4).worth)


@pytest.mark.parametrize(
    ("draws", "marked", "expected", "message"),
    [
        (lambda: Draws.of([1, 0]), [0, 0], [0, 0], "drawn once or more"),
        (lambda: Draws.of([1, 1], [1.0, 0.0]), [0, 0], [0, 0], "its weight is positive"),
        (lambda: Draws.of([1, 1], [1.0]), [0, 0], [0, 0], "one value for each drawn answer"),
        (lambda: Draws.of([1, 1], clusters=["a"]), [0, 0], [0, 0], "one value for each drawn answer"),
        (
            lambda: Draws.of([1, 1]),
            [0, 0, 0],
            [0, 0],
            r"\(3,\) marks and \(2,\) expected values of \(2,\) drawn answers",
        ),
        (lambda: Draws.of([1, 1]), [0, 1.1], [0, 0], "not between 0.0 and 1.0"),
        (lambda: Draws.of([1, 1]), [0, 1], [0, NAN], "not between 0.0 and 1.0"),
    ],
)
def test_what_is_refused(draws: Any, marked: Any, expected: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        marked_mean(draws(), marked, expected, 0.5)


def test_a_difference_is_of_the_same_draws() -> None:
    five, four = (marked_mean(Draws.of(ONES[:n]), HALVES[:n], HALVES[:n], 0.4) for n in (5, 4))
    with pytest.raises(ValueError, match="of the same draws"):
        marked_difference((Draws.of(ONES), five, four))


@pytest.mark.parametrize(
    ("first", "second", "strata", "expected"),
    [
        (HALVES, HALVES, 1, (0.0, 0.0, 0.0, 1.0, 5)),
        ([0.6] * 5, [0.4] * 5, 1, (0.2, 0.2, 0.2, 2**-4, 5)),  # the same difference everywhere: a sign test
        # scipy.stats.ttest_rel and its bounds
        (HALVES, [0.0, 0.0, 0.5, 0.5, 0.0], 1, (0.3, -0.0400437, 0.6400437, 0.0704840, 5)),
        # of two equal strata the error is smaller by the root of two, with twice the degrees
        (HALVES, [0.0, 0.0, 0.5, 0.5, 0.0], 2, (0.3, 0.1002942, 0.4997058, 0.0085163, 10)),
    ],
)
def test_a_difference_is_that_of_paired_draws(
    first: list[float], second: list[float], strata: int, expected: tuple[float, ...]
) -> None:
    draws = Draws.of(ONES)
    means = [marked_mean(draws, marks, [0.3] * 5, 0.3) for marks in (first, second)]
    result = marked_difference(*[(draws, *means)] * strata)
    assert result[2:7] == pytest.approx(expected, abs=1e-7)


SHARES = st.lists(
    st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(1, 4), st.floats(0.1, 10)), min_size=1, max_size=12
)


@given(SHARES, st.floats(0, 1))
def test_what_always_holds(answers: list[tuple[float, float, int, float]], of_all: float) -> None:
    """Draws of one answer are draws; a scale is a scale; bounds are on it, and hold the value."""
    marked, expected, times, weights = map(np.array, zip(*answers, strict=True))
    found = marked_mean(Draws.of(times, weights), marked, expected, of_all)
    rows = np.repeat(np.arange(len(times)), times)
    single = marked_mean(Draws.of(np.ones(len(rows)), weights[rows]), marked[rows], expected[rows], of_all)
    rated = marked_mean(Draws.of(times, weights), 1 + 3 * marked, 1 + 3 * expected, 1 + 3 * of_all, (1.0, 4.0))
    assert list(single.figure) == pytest.approx(list(found.figure), abs=1e-6, nan_ok=True)
    assert [(each - 1) / 3 for each in rated.figure[:3]] == pytest.approx(list(found.figure[:3]), abs=1e-6, nan_ok=True)
    assert 0 <= found.slope <= 1
    if not math.isnan(found.figure.low):
        assert 0 <= found.figure.low <= found.figure.value + 1e-9 <= found.figure.high + 2e-9 <= 1 + 3e-9


@pytest.mark.one_python("how often bounds hold the truth")
@pytest.mark.parametrize(("reading", "narrower"), [("good", 0.85), ("random", 1.02), ("reversed", 1.02)])
def test_bounds_hold_whatever_the_detector(reading: str, narrower: float) -> None:
    """Long answers are drawn more often; a third of the answers has nothing made up. 300 draws of 30 answers."""
    rng = np.random.default_rng(7)
    words = rng.geometric(0.02, 300) + 4
    truth = np.where(rng.random(300) < 0.3, 0.0, rng.beta(2, 3, 300))
    expected = {
        "good": np.clip(truth + rng.normal(0, 0.15, 300), 0, 1),
        "random": rng.random(300),
        "reversed": 1 - truth,
    }[reading]
    share = words / words.sum()
    held, widths = 0, []
    for _ in range(300):
        drawn, times = np.unique(rng.choice(300, 30, p=share), return_counts=True)
        found = marked_mean(Draws.of(times), truth[drawn], expected[drawn], float(share @ expected))
        held += found.figure.low <= share @ truth <= found.figure.high
        widths.append([part.high - part.low for part in (found.figure, found.alone)])
    ours, alone = np.mean(widths, axis=0)
    assert 0.92 <= held / 300 <= 0.98
    assert ours <= narrower * alone
