"""Of 2,000 comparisons of models that do not differ, 5 % +- 1 are significant; and of those of released models none has
bounds that say otherwise than p."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from custom_metrics.hallucination import RATES
from custom_metrics.relevance import ANSWER, INVALID
from custom_metrics.statistics.paired_difference import ITERATIONS, bounds_and_p, pivots_of, share_differences
from custom_metrics.statistics.random_effects import measured_errors
from custom_metrics.statistics.strata import linearised
from tests.benchmarks.statistics import Row, check_means, check_pairs, check_ranks
from tests.paired import RateStratum, compare_rates

COMPARISONS = 2000
SUBSETS = ["non_relevant", "relevant"]
SIZES = pytest.mark.parametrize("documents", [100, 500])

Random = np.random.Generator
Values = np.ndarray


def errs_as_said(significant: Values) -> bool:
    return bool(0.04 <= np.mean(significant) <= 0.06)


# Differences (documents, comparisons) whose expectation is 0 ------------------------------------------------------


def like_rouge(rng: Random, documents: int) -> Values:
    """Both models abstain on two questions of five, with the value 0; some questions are easier for both."""
    easy = rng.random((documents, COMPARISONS))

    def model() -> Values:
        return rng.beta(1 + 3 * easy, 2) * (rng.random(easy.shape) > 0.4)

    return model() - model()


def rare_and_good(rng: Random, documents: int) -> Values:
    """One model answers one question of four, and well; the other answers all, and poorly. The means are equal: 0.2."""
    shape = (documents, COMPARISONS)
    return rng.beta(8, 2, shape) * (rng.random(shape) < 0.25) - rng.beta(2, 8, shape)


def skewed(rng: Random, documents: int) -> Values:
    """One model has a long tail to one side, the other has none."""
    shape = (documents, COMPARISONS)
    return rng.gamma(3, 1, shape) - 3 - rng.normal(0, 0.5, shape)


def articles(rng: Random, number: int, comparisons: int) -> tuple[Values, Values]:
    """(articles, comparisons, 2) flagged and all words of two models. An article is as hard for both; lengths vary."""
    shape = (number, comparisons)
    size, hard = rng.lognormal(4.5, 0.7, shape), rng.normal(-1.4, 0.8, shape)

    def model() -> Values:
        words = np.maximum(3, size * rng.lognormal(0, 0.4, shape)).astype(int)
        return np.stack([rng.binomial(words, 1 / (1 + np.exp(-hard - rng.normal(0, 0.8, shape)))), words], axis=-1)

    return model(), model()


def flagged_words(rng: Random, documents: int) -> Values:
    """Linearised shares of flagged words, whose clusters are articles."""
    first, second = (linearised(part[..., 0], part[..., 1]) for part in articles(rng, documents, COMPARISONS))
    return first - second


@pytest.mark.one_python("how often a comparison errs")
@SIZES
@pytest.mark.parametrize("kind", [like_rouge, rare_and_good, skewed, flagged_words])
def test_means(kind: Callable[[Random, int], Values], documents: int) -> None:
    low, high, p = bounds_and_p(pivots_of([kind(np.random.default_rng(1), documents)]))
    assert errs_as_said(p < 0.05)
    assert np.array_equal(p < 0.05, (low > 0) | (high < 0))


@pytest.mark.one_python("how often a comparison errs")
def test_small_p_of_means_are_as_rare_as_they_say() -> None:
    rng = np.random.default_rng(2)
    p = np.concatenate([bounds_and_p(pivots_of([like_rouge(rng, 100)]))[2] for _ in range(10)])
    assert np.mean(p < 0.01) == pytest.approx(0.01, abs=0.003)
    assert np.mean(p < 0.001) == pytest.approx(0.001, abs=0.0008)  # of 20,000: 20, +- 4 by chance


# The answers that NoMIRACL's authors released ------------------------------------------------------------------------


def released(shared: Path) -> Iterator[dict[str, dict[str, dict[str, str]]]]:
    """The labels of each language: by subset, question and model."""
    for path in sorted((shared / "reference" / "nomiracl_outputs").glob("*.jsonl.gz")):
        labels: dict[str, dict[str, dict[str, str]]] = {}
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                labels.setdefault(row["subset"], {}).setdefault(row["query_id"], {})[row["model"]] = row["label"]
        yield labels


def wrong(labels: dict[str, dict[str, str]], subset: str, models: Sequence[str], invalid: float) -> Values:
    """(documents, models): 1.0 where an answer is wrong, `invalid` where it is Invalid, ``nan`` where there is none."""
    right = {label: (label == ANSWER) == (subset == "relevant") for of in labels.values() for label in of.values()}
    number = {label: invalid if label == INVALID else float(not is_right) for label, is_right in right.items()}
    return np.array([[number[of[model]] if model in of else math.nan for model in models] for of in labels.values()])


@pytest.mark.one_python("figures of public data")
def test_p_and_bounds_of_all_comparisons_of_released_models_say_the_same(shared: Path) -> None:
    """Eleven models, nine languages and their mean. Invalid answers do not count in the two rates, and are wrong in the
    balanced error."""
    languages = [*released(shared)]
    models = sorted({model for of in languages[0]["relevant"].values() for model in of})
    pairs = [*combinations(range(len(models)), 2)]
    seen = significant = 0
    for subsets, invalid in ((SUBSETS[:1], math.nan), (SUBSETS[1:], math.nan), (SUBSETS, 1.0)):
        strata = [[wrong(labels[subset], subset, models, invalid) for subset in subsets] for labels in languages]
        for column in (*strata, [values for of_language in strata for values in of_language]):
            found = share_differences(column, pairs, kinds=len(subsets))
            for pair, one in zip(pairs, found, strict=True):
                assert (one.p < 0.05) == (one.low > 0 or one.high < 0)
                assert -1 <= one.low <= one.difference <= one.high <= 1
                both = [values[:, pair][~np.isnan(values[:, pair]).any(axis=1)] for values in column]
                means = np.mean([values.mean(axis=0) for values in both], axis=0)
                assert (one.n, one.first, one.second) == (sum(map(len, both)), *map(pytest.approx, means))
                if len(column) == 1:
                    b, c = (float((both[0] == order).all(axis=1).sum()) for order in ([1, 0], [0, 1]))
                    assert one.p == pytest.approx(2 * stats.norm.sf(abs(b - c) / math.sqrt(max(b + c, 1))))
                significant += one.p < 0.05
                seen += 1
    assert (len(models), len(languages), seen) == (11, 9, 55 * 10 * 3)
    assert 1200 < significant < seen  # so that both happen often


# mFAVA: words of articles, corrected by a calibration that is common to both models ----------------------------------


def calibration(rng: Random) -> Values:
    """(60, 4) word counts of calibration documents."""
    words = rng.lognormal(4, 0.5, 60).astype(int)
    hallucinated = rng.binomial(words, rng.beta(2, 5, 60))
    found, wrong = rng.binomial(hallucinated, 0.6), rng.binomial(words - hallucinated, 0.1)
    return np.column_stack([found, wrong, hallucinated - found, words - hallucinated - wrong])


@pytest.mark.slow("4,000 bootstraps")
@SIZES
def test_corrected_rates(documents: int) -> None:
    rng = np.random.default_rng(1)
    first, second = articles(rng, documents, COMPARISONS)
    errors = [
        measured_errors(calibration(rng), ITERATIONS) for _ in range(50)
    ]  # a detector is calibrated once for many models
    significant = []
    for place in range(COMPARISONS):
        strata = [RateStratum(first[:, place], second[:, place], errors[place % 50])]
        estimated, rogan_gladen = (compare_rates(strata, rate) for rate in RATES[1:])
        for found in (estimated, rogan_gladen):
            assert (found.p < 0.05) == (found.low > 0 or found.high < 0)
        significant.append([estimated.p < 0.05, rogan_gladen.p < 0.05])
    assert all(map(errs_as_said, np.transpose(significant)))


@pytest.mark.one_python("how often a comparison errs")
@pytest.mark.parametrize("check", [check_pairs, check_means, check_ranks])
def test_every_simulated_case_is_within_its_bar(check: Callable[[int], Iterator[Row]]) -> None:
    """The rows of ``make check-statistics``, with fewer rounds: traded rates, rates near 0, small strata."""
    rows = [*check(400)]
    assert [row for row in rows if not row.holds] == []
    assert len(rows) >= 2
