"""The draws of a paired bootstrap, and what depends on them alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from custom_metrics.paired_rates import (
    CLUSTERS,
    CORRECTED,
    RATES,
    RateStratum,
    compare_rates,
    compare_ratios,
    linearised,
)
from custom_metrics.statistics import paired_draws
from custom_metrics.statistics.paired_draws import draws
from custom_metrics.statistics.paired_means import (
    BOOTSTRAP,
    NONE_DIFFERS,
    SAME_EVERYWHERE,
    compare_mean_groups,
    compare_means,
    pivots_of,
)
from custom_metrics.statistics.random_effects import detector_errors
from custom_metrics.statistics.significance_ranks import all_pairs

NAN = math.nan


def articles(seed: int, number: int = 60) -> np.ndarray:
    rng = np.random.default_rng(seed)
    total = rng.integers(20, 200, number)
    return np.column_stack([rng.binomial(total, rng.beta(2, 6, number)), total]).astype(float)


def test_a_resample_is_as_many_rows_drawn_with_replacement() -> None:
    (counts,) = draws(30, iterations=500)
    assert counts.shape == (500, 30)
    assert (counts.sum(axis=1) == 30).all()
    assert counts.mean(axis=0) == pytest.approx(np.ones(30), abs=0.2)  # each row is drawn once on average
    assert not counts.flags.writeable  # it is kept for the next metric


def test_draws_depend_on_their_arguments_alone() -> None:
    def drawn(**arguments: int) -> np.ndarray:
        paired_draws._kept.cache_clear()
        return np.concatenate([*draws(20, iterations=50, **arguments)])

    assert (drawn() == drawn(stratum=0, seed=1234)).all()
    assert (drawn(seed=1) != drawn(seed=2)).any()
    assert (drawn(stratum=0) != drawn(stratum=1)).any()


def test_blocks_change_nothing_but_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    strata = [(rng.random(40), rng.random(40)), (rng.random(70), rng.random(70))]
    rates = [
        RateStratum(articles(place), articles(place + 5), detector_errors(precision=0.6, recall=0.5))
        for place in (1, 2)
    ]
    whole = np.concatenate([*draws(40)]), compare_mean_groups(strata), compare_rates(rates, RATES[1])
    many = all_pairs([np.column_stack(pair) for pair in strata])
    monkeypatch.setattr(paired_draws, "_BLOCK", 40 * 600)
    blocks = [*draws(40)]
    assert [len(block) for block in blocks] == [600, 600, 600, 199]
    assert (np.concatenate(blocks) == whole[0]).all()
    assert compare_mean_groups(strata) == whole[1]
    assert compare_rates(rates, RATES[1]) == whole[2]
    assert all_pairs([np.column_stack(pair) for pair in strata]) == pytest.approx(many, nan_ok=True)
    monkeypatch.setattr(paired_draws, "_BLOCK", 39)  # fewer than a row of counts: one resample at a time
    assert [len(block) for block in draws(40, iterations=3)] == [1, 1, 1]


# ------------------------------------------------------------------------------------------------------- pivots of means


def test_a_pair_without_a_row_in_a_language_has_the_mean_of_the_others() -> None:
    rng = np.random.default_rng(2)
    both, alone = rng.random((30, 2)), np.column_stack([rng.random(20), np.full(20, NAN)])
    found = pivots_of([both, alone], iterations=200)
    of_one = pivots_of([both], iterations=200)
    assert found.differences == pytest.approx([(both[:, 0].mean() + alone[:, 0].mean()) / 2, both[:, 1].mean()])
    assert found.errors[0] == pytest.approx(math.hypot(stats.sem(both[:, 0]), stats.sem(alone[:, 0])) / 2)
    assert found.errors[1] == pytest.approx(stats.sem(both[:, 1]))
    assert (found.squares[1] == of_one.squares[1]).all()
    assert (found.resampled_errors[1] == of_one.resampled_errors[1]).all()
    assert found.freedom.tolist() == [48, 29]
    assert np.isnan(pivots_of([np.full((5, 1), NAN)], iterations=20).differences).all()


def test_the_errors_of_resamples_are_about_that_of_the_rows() -> None:
    rng = np.random.default_rng(3)
    found = pivots_of([rng.normal(size=(80, 1)), rng.normal(size=(120, 1)), rng.normal(size=(50, 1))])
    assert np.median(found.resampled_errors[0]) == pytest.approx(found.errors[0], rel=0.03)
    # A squared pivot is about the square of a standard normal.
    assert np.median(found.squares[0]) == pytest.approx(stats.chi2.median(1), rel=0.15)


def test_a_resample_without_a_row_of_a_pair_has_no_shift() -> None:
    values = np.array([[1.0, 1.0], [2.0, NAN], [4.0, NAN], [8.0, NAN], [16.0, NAN]])
    found = pivots_of([values], iterations=300)
    assert np.isfinite(found.squares[1]).all()
    assert (found.squares[1] == 0).all()  # one row: it is drawn or it is not
    assert found.equal.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("first", "second", "method"),
    [
        ([0.5] * 6, [0.5] * 6, NONE_DIFFERS),
        ([0.5] * 6, [0.25] * 6, SAME_EVERYWHERE),
        ([0.5], [0.25], BOOTSTRAP),
        ([0.5, 0.1, 0.7], [0.25, 0.2, 0.3], BOOTSTRAP),
    ],
)
def test_the_method_is_said(first: list[float], second: list[float], method: str) -> None:
    assert compare_means(first, second).method == method
    assert compare_means([*first, NAN], [*second, 1.0]).method == method


# ----------------------------------------------------------------------------------------------------- ratios and rates


def test_a_harmonic_mean_of_ratios_has_the_bounds_of_a_bootstrap_over_questions() -> None:
    rng = np.random.default_rng(4)
    passed = rng.random((250, 2, 2)) < [[0.8, 0.7], [0.6, 0.5]]  # questions, models, ratios
    one, other = (np.stack([passed[:, model].astype(float), np.ones((250, 2))], axis=-1) for model in range(2))
    found = compare_ratios([(one, other)], harmonic=True)
    shares = passed.mean(axis=0)
    assert found.first == pytest.approx(stats.hmean(shares[0]))
    assert found.second == pytest.approx(stats.hmean(shares[1]))
    assert (found.n, found.method) == (250, CLUSTERS)

    drawn = passed[rng.integers(250, size=(4000, 250))].mean(axis=1)
    spread = np.std(stats.hmean(drawn[:, 0], axis=-1) - stats.hmean(drawn[:, 1], axis=-1))
    assert found.high - found.difference == pytest.approx(1.96 * spread, rel=0.08)


@pytest.mark.parametrize(("iterations", "seed"), [(1999, 1234), (499, 7)])
def test_a_perfect_detector_corrects_nothing(iterations: int, seed: int) -> None:
    """Over two languages of different size, the bounds and p of the corrected rate are those of the flagged share."""
    perfect = detector_errors(precision=1.0, recall=1.0, iterations=iterations)
    strata = [RateStratum(articles(1), articles(2), perfect), RateStratum(articles(3, 25), articles(4, 25), perfect)]
    flagged, corrected = (compare_rates(strata, rate, iterations, seed) for rate in RATES[:2])
    assert (corrected.n, corrected.method) == (85, CORRECTED)
    for name in ("first", "second", "difference", "low", "high"):
        assert getattr(corrected, name) == pytest.approx(getattr(flagged, name), rel=1e-9), name
    assert corrected.p == pytest.approx(flagged.p, abs=0.002)


@pytest.mark.parametrize(("precision", "recall"), [(0.5, 0.0), (NAN, 0.5), (0.5, NAN), (NAN, NAN)])
def test_a_calibration_without_precision_or_recall_says_nothing(precision: float, recall: float) -> None:
    assert detector_errors(precision=precision, recall=recall) is None
    assert compare_rates([RateStratum(articles(1), articles(2))], RATES[1]).n == 0


def test_a_detector_that_never_finds_anything_has_no_ratio_and_no_warning() -> None:
    cells = np.array([[0, 2, 5, 90], [0, 1, 3, 50]], dtype=float)  # tp, fp, fn, tn of documents
    errors = detector_errors(cells, iterations=50)
    assert errors is not None
    assert (errors.true_positive_rate, errors.false_positive_rate) == (0.0, pytest.approx(3 / 143))
    assert math.isnan(errors.ratio)
    assert compare_rates([RateStratum(articles(1), articles(2), errors)], RATES[1]).n == 0


def test_rates_stay_between_none_and_all_words() -> None:
    """One model's words are flagged as often as hallucinated ones are found, the other's as often as right ones."""
    cells = np.column_stack([np.full(40, 30), np.full(40, 10), np.full(40, 30), np.full(40, 90)]).astype(float)
    total = np.full(60, 100.0)
    noise = np.random.default_rng(6).integers(-9, 10, 60)
    most, least = np.column_stack([50 + noise, total]), np.column_stack([10 + noise, total])
    found = compare_rates([RateStratum(most, least, detector_errors(cells))], RATES[2])
    assert 0.9 < found.difference <= 1.0
    assert found.high <= 1.0
    assert found.low > 0.8


@pytest.mark.parametrize("order", [1, -1])
def test_where_one_model_flags_more_than_the_detector_finds_nothing_is_known(order: int) -> None:
    cells = np.column_stack([np.full(40, 30), np.full(40, 10), np.full(40, 30), np.full(40, 90)]).astype(float)
    total = np.full(60, 100.0)
    noise = np.random.default_rng(6).integers(-9, 10, 60)
    beyond, within = (np.column_stack([share + noise, total]) for share in (90, 30))
    pair = (beyond, within)[::order]
    found = compare_rates([RateStratum(*pair, detector_errors(cells))], RATES[2])
    assert found.difference == pytest.approx(order * 0.5, abs=0.05)
    assert math.isnan(found.low)
    assert math.isnan(found.high)


def test_a_seed_gives_the_same_draws_and_another_seed_others() -> None:
    cells = np.column_stack([np.arange(10, 50), np.full(40, 8), np.arange(40, 0, -1), np.full(40, 100)]).astype(float)
    one, again, other = (detector_errors(cells, iterations=300, seed=seed) for seed in (1, 1, 2))
    assert one is not None
    assert again is not None
    assert other is not None
    assert one.draws.shape == (300, 3)
    assert (one.draws == again.draws).all()
    assert (one.draws != other.draws).any()
    for rate in RATES:
        strata = [RateStratum(articles(1), articles(2), one)]
        first, same, different = (compare_rates(strata, rate, 300, seed) for seed in (1, 1, 2))
        assert first == same
        assert first.low != different.low
        assert first.difference == different.difference


def test_one_document_has_its_own_ratio() -> None:
    assert linearised([1.0], [1.0]).tolist() == [1.0]
    assert linearised([0.25], [1.0]).tolist() == [0.25]
    assert linearised([0.0, 0.5], [0.5, 0.5]).tolist() == pytest.approx([0.0, 1.0])
    assert np.isnan(linearised([3.0], [0.0])).all()  # and no warning


def test_a_detector_that_flags_right_words_more_often_than_wrong_ones_corrects_nothing() -> None:
    worse = np.column_stack([np.full(40, 10), np.full(40, 60), np.full(40, 50), np.full(40, 40)]).astype(float)
    strata = [RateStratum(articles(1), articles(2), detector_errors(worse))]
    assert compare_rates(strata, RATES[2]).n == 0
    assert compare_rates(strata, RATES[1]).n == 60
