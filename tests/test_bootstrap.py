"""The bounds: drawn from what the documents are, not from where they stand; with the seeds, clusters and limits said."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custom_metrics.hallucination import estimate
from custom_metrics.scores import aggregations, detection, judging
from custom_metrics.statistics.intervals import bootstrap_mean, resampled_sums
from detector_plugin.calibration import load
from lm_eval_tasks.mfava import estimation

# -------------------------------------------------------------------------------------------------- order of documents


def test_the_order_of_the_clusters_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    clusters = rng.integers(0, 50, (200, 4)).astype(float)
    expected = resampled_sums(clusters, iterations=50)
    for _ in range(5):
        assert np.array_equal(resampled_sums(rng.permutation(clusters), iterations=50), expected)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.randoms())
def test_bounds_of_a_mean_are_those_of_its_values_in_any_order(values: list[float], chance: random.Random) -> None:
    shuffled = chance.sample(values, len(values))
    assert bootstrap_mean(shuffled) == bootstrap_mean(values)
    for aggregation in (aggregations.defined_mean, aggregations.defined_share):
        if aggregation is aggregations.defined_mean or set(values) <= {0.0, 1.0}:
            found, again = aggregation.figure(values), aggregation.figure(shuffled)
            assert found[:3] == again[:3]
            assert found[3:] == pytest.approx(again[3:], nan_ok=True)


def tagged(flagged: float, words: int, article: int, subset: int = 0) -> estimation.TaggedAnswer:
    identity = load("lexical").identity
    return estimation.TaggedAnswer(flagged, words, article, subset, f"{identity}|de||lexical|any")


def test_ranks_bring_answers_in_another_order_and_nothing_changes() -> None:
    """Two processes concatenate every second document behind the others (0.8889 became 0.8980)."""
    chance = random.Random(3)
    answers = [tagged(chance.randrange(20), 20 + chance.randrange(9), n // 2, n % 5) for n in range(41)]
    for rate in estimation.RATES:
        figure = getattr(estimation, rate).figure
        assert figure([*answers[::2], *answers[1::2]]) == figure(answers)
    spread = estimation.spread_over_subsets
    assert spread([*answers[::2], *answers[1::2]]).keys() == spread(answers).keys()
    assert [f[0] for f in spread([*answers[::2], *answers[1::2]]).values()] == [f[0] for f in spread(answers).values()]
    counts = [[chance.randrange(9) for _ in range(4)] for _ in range(41)]
    ratings = [(str(n % 9), judging.ASPECTS[n % 2], float(1 + chance.randrange(4))) for n in range(41)]
    shares = [(str(n % 9), chance.randrange(2), 1) for n in range(41)]
    wins = [(str(n % 9), float(chance.randrange(2))) for n in range(41)]
    aggregated: list[tuple[str, Any, list[Any]]] = [
        *((name, detection, counts) for name in ("precision", "recall", "f1")),
        ("f_plus_a", judging, ratings),
        ("share", judging, shares),
        ("win_rate", judging, wins),
    ]
    for name, module, values in aggregated:
        figure = getattr(module, name).figure
        found = figure(values)
        assert not any(map(math.isnan, found))
        assert figure([*values[::2], *values[1::2]]) == pytest.approx(found, rel=1e-12), name


# ------------------------------------------------------------------------------------------------- what bounds are made of


def test_the_bounds_of_a_mean_to_the_digit() -> None:
    """2,000 resamples, seed 1234: another seed, or another number, gives others."""
    values = [0.1, 0.9, 0.4, 0.4, 0.7, 0.2, 1.0, 0.0, 0.3, 0.6]
    assert bootstrap_mean(values) == pytest.approx((0.27, 0.66), abs=1e-12)
    assert bootstrap_mean(values) != bootstrap_mean(values, seed=1235)
    assert bootstrap_mean([math.nan, *values]) == bootstrap_mean(values)


def test_answers_and_calibration_are_drawn_apart() -> None:
    """Drawn by one seed, document for document, their errors would cancel: every resample would say exactly one half."""
    flagged = np.arange(10, 50)
    total = 100 + flagged
    # Half of each document's words are hallucinated; how many are flagged differs, and so do the documents' sizes.
    calibration = np.stack([flagged // 2, flagged - flagged // 2, total // 2 - flagged // 2, total], axis=1)
    calibration[:, 3] = total - calibration[:, :3].sum(axis=1)
    got = estimate(np.stack([flagged, total], axis=1), calibration)
    assert got.estimated.value == pytest.approx(0.5, abs=0.01)
    assert got.estimated.high - got.estimated.low > 0.1


def test_answers_about_one_article_are_drawn_together() -> None:
    """Both answers of an article are all hallucinated or not at all: forty answers say no more than twenty articles."""
    answers = [tagged(10.0 * (article % 2), 10, article) for article in range(20) for _ in range(2)]
    articles = np.array([[20.0 * (article % 2), 20] for article in range(20)])
    expected = estimate(articles).detected
    assert estimation.detected_rate.figure(answers) == expected._replace(n=40)
    apart = estimate(np.array([[answer.flagged, answer.words] for answer in answers])).detected
    assert expected.high - expected.low > 1.25 * (apart.high - apart.low)
