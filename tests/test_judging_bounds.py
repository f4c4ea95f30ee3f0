"""Bounds of a judge's figures, on resamples of questions that anybody can draw."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from custom_metrics.scores.judging import f_plus_a, flip_rate, process_rating, share, win_rate
from custom_metrics.statistics.intervals import resampled_sums, spread, wilson


def test_a_share_of_verdicts_is_resampled_by_question() -> None:
    values = [("q1", 1, 2), ("q2", 0, 1), ("q1", 1, 1), ("q3", 2, 3), ("q4", 0, 0)]
    sums = resampled_sums(np.array([[2, 3], [0, 1], [2, 3]]))
    assert share.figure(values) == pytest.approx((4 / 7, *spread(sums[:, 0] / sums[:, 1]), 7))
    assert share.figure([list(value) for value in values]) == share.figure(values)


def test_two_questions_have_bounds_and_one_has_none() -> None:
    two = share.figure([("q1", 1, 1), ("q2", 0, 1)])
    assert (two.low, two.high, two.n) == (0.0, 1.0, 2)
    one = share.figure([("q1", 1, 2)])
    assert (one.value, one.n) == (0.5, 2)
    assert np.isnan([one.low, one.high, one.standard_error]).all()
    always = share.figure([("q1", 2, 2), ("q2", 1, 1)])
    assert (always.value, always.low, always.high) == (1.0, *wilson(2, 2))
    never = share.figure([("q1", 0, 2), ("q2", 0, 1)])
    assert (never.value, never.low, never.high) == (0.0, *wilson(0, 2))
    assert math.isnan(share([("q1", 0, 0)]))


def test_a_flip_is_of_pairs_that_were_read_in_both_orders() -> None:
    values = [
        *(("q1", "m", "n", "m"), ("q1", "m", "n", "n")),
        *(("q2", "m", "n", "m"), ("q2", "m", "n", "m")),
        *(("q3", "m", "n", "m"), ("q3", "m", "n", "unread")),
        ("q4", "m", "n", "m"),
        *(("q1", "m", "o", "o"), ("q1", "m", "o", "o")),
    ]
    sums = resampled_sums(np.array([[1, 2], [0, 1]]))  # of q1 and q2; of the others none was read in both
    assert flip_rate.figure(values) == pytest.approx((1 / 3, *spread(sums[:, 0] / sums[:, 1]), 3))


def test_wins_are_a_mean_over_questions() -> None:
    values = [("q1", 1.0), ("q1", 0.0), ("q2", 1.0), ("q3", None)]
    assert (win_rate(values), win_rate.figure(values).n) == (0.75, 2)
    found = win_rate.figure([("q1", 1.0), ("q2", 1.0)])
    assert (found.low, found.high) == wilson(2, 2)


def test_the_harmonic_mean_is_of_the_sums_of_each_resample() -> None:
    values = [
        ("q1", "faithfulness", 4.0),
        ("q1", "appropriateness", 2.0),
        ("q2", "faithfulness", 3.0),
        ("q2", "appropriateness", 4.0),
        ("q3", "faithfulness", None),
    ]
    sums = resampled_sums(np.array([[4.0, 1, 2, 1], [3, 1, 4, 1]]))
    first, second = sums[:, 0] / sums[:, 1], sums[:, 2] / sums[:, 3]
    expected = (2 * 3.5 * 3 / 6.5, *spread(2 * first * second / (first + second)), 2)
    assert f_plus_a.figure(values) == pytest.approx(expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert math.isnan(f_plus_a([("q1", "faithfulness", 4.0)]))
        assert math.isnan(f_plus_a([("q1", "faithfulness", None)]))


def test_an_answer_abstains_in_english() -> None:
    doc = {"id": 1, "aspect": "faithfulness"}
    rates = [
        process_rating({**doc, "answer": text}, ["3"])["abstention_rate"]
        for text in ("I do not know.", "Das weiß ich leider nicht.")
    ]
    assert rates == [1.0, 0.0]
