"""Errors expected in a new language, against the formulas written out for one and two outcomes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from custom_metrics.statistics.intervals import resampled_sums
from custom_metrics.statistics.random_effects import expected_errors


def answers(tp: int, fp: int, fn: int, tn: int, number: int = 6) -> np.ndarray[Any, Any]:
    """That many answers which differ a little, with about these counts each."""
    return np.array([[tp + at % 3, fp + at % 2, fn + at % 4, tn - at % 5] for at in range(number)])


LANGUAGES = {
    "de": {"m1": answers(9, 2, 4, 30), "m2": answers(5, 1, 6, 40)},
    "ar": {
        **{"m1": answers(7, 6, 2, 20), "m3": answers(6, 3, 3, 25)},
        **{"few": answers(2, 2, 2, 9, 4), "less": answers(1, 1, 2, 9, 1)},
    },
    "zh": {"m2": answers(4, 4, 4, 28), "left out": answers(9, 9, 9, 9, 4)},
}


def logit(share: float) -> float:
    return math.log(share / (1 - share))


def test_what_is_expected_is_the_mean_over_languages_of_the_mean_over_models() -> None:
    """Half a word is added to each count; each language counts the same, and each cell in it."""

    def scales(*models: np.ndarray[Any, Any]) -> list[float]:
        tp, fp, fn, tn = np.concatenate(models).sum(0) + 0.5
        return [logit(tp / (tp + fn)), logit(fp / (fp + tn)), math.log((tp + fn) / (tp + fp))]

    de, ar, zh = LANGUAGES["de"], LANGUAGES["ar"], LANGUAGES["zh"]
    few = scales(ar["few"], ar["less"])  # those of fewer than five answers together
    cells = [[scales(de["m1"]), scales(de["m2"])], [scales(ar["m1"]), scales(ar["m3"]), few], [scales(zh["m2"])]]
    centre = np.mean([np.mean(found, axis=0) for found in cells], axis=0)
    found = expected_errors(LANGUAGES, 10, 1)
    assert found.true_positive_rate == pytest.approx(1 / (1 + math.exp(-centre[0])), abs=1e-12)
    assert found.false_positive_rate == pytest.approx(1 / (1 + math.exp(-centre[1])), abs=1e-12)
    assert found.ratio == pytest.approx(math.exp(centre[2]), abs=1e-12)
    assert found.draws.shape == (10, 3)
    assert all(type(rate) is float for rate in found[:3])


def test_draws_are_of_a_t_distribution_about_the_centre_on_the_logit_scale() -> None:
    """The ratio, alone, by scalar formulas: spreads beyond chance of languages and models, Satterthwaite's freedom."""

    def log_ratio(sums: Any) -> Any:
        return np.log((sums[..., 0] + sums[..., 2] + 1) / (sums[..., 0] + sums[..., 1] + 1))

    de, ar, zh = (LANGUAGES[code] for code in ("de", "ar", "zh"))
    cells = [[de["m1"], de["m2"]], [ar["m1"], ar["m3"], np.concatenate([ar["few"], ar["less"]])], [zh["m2"]]]
    values = [[float(log_ratio(cell.sum(0))) for cell in found] for found in cells]
    chances = [[float(np.var(log_ratio(resampled_sums(cell, 200, 11)), ddof=1)) for cell in found] for found in cells]
    means, chance = [float(np.mean(found)) for found in values], float(np.mean([np.mean(found) for found in chances]))
    within = sum((value - mean) ** 2 for found, mean in zip(values, means, strict=True) for value in found) / 3
    among = float(np.var(means, ddof=1))
    of_models, of_languages = max(0.0, within - chance), max(0.0, among - within * (1 / 2 + 1 / 3 + 1) / 3)
    freedom = (of_languages + of_models) ** 2 / (of_languages**2 / 2 + of_models**2 / 3)
    scale = math.sqrt(of_languages + of_models + among / 3)
    shares = [0.1, 0.25, 0.5, 0.75, 0.9]
    drawn = np.quantile(np.log(expected_errors(LANGUAGES, 200_000, 11).draws[:, 2]), shares)
    assert drawn == pytest.approx(np.mean(means) + scale * stats.t.ppf(shares, freedom), abs=0.02 * scale)


def test_draws_of_the_rates_have_the_covariance_of_a_new_cell() -> None:
    found = expected_errors(LANGUAGES, 3000, 4)
    logits = np.log(found.draws[:, :2] / (1 - found.draws[:, :2]))
    expected = [logit(found.true_positive_rate), logit(found.false_positive_rate)]
    assert np.median(logits, axis=0) == pytest.approx(expected, abs=0.05)
    np.testing.assert_array_equal(found.draws, expected_errors(dict(reversed(LANGUAGES.items())), 3000, 4).draws)
    assert not np.array_equal(found.draws, expected_errors(LANGUAGES, 3000, 5).draws)


def test_little_is_enough() -> None:
    for other in (LANGUAGES["zh"], {"few": answers(1, 1, 1, 9, 2), "less": answers(1, 1, 1, 9, 1)}):
        assert expected_errors({"de": LANGUAGES["de"], "fi": other}, 10, 1).draws.shape == (10, 3)
