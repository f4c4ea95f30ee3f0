"""Bounds of shares of unequal units, by numbers that can be checked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta

from custom_metrics.scores.aggregations import defined_share
from custom_metrics.statistics.figures import Rows
from custom_metrics.statistics.intervals import (
    clopper_pearson,
    difference_of_clusters,
    share_of_clusters,
    two_part_bounds,
    wilson,
)
from custom_metrics.statistics.marked import Draws, marked_mean
from lm_eval_tasks.results.measuring import _together
from lm_eval_tasks.runs.answers import content_of, key_of

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
