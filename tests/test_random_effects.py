"""Errors expected in a new language, against the formulas written out for one and two outcomes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from custom_metrics.statistics import random_effects
from custom_metrics.statistics.intervals import resampled_sums
from custom_metrics.statistics.random_effects import predicted


def answers(tp: int, fp: int, fn: int, tn: int, number: int = 6) -> np.ndarray[Any, Any]:
    """That many answers which differ a little, with about these counts each."""
    return np.array([[tp + at % 3, fp + at % 2, fn + at % 4, tn - at % 5] for at in range(number)])


LANGUAGES = {
    "de": {"m1": answers(9, 2, 4, 30), "m2": answers(5, 1, 6, 40)},
    "ar": {
        "m1": answers(7, 6, 2, 20),
        "m3": answers(6, 3, 3, 25),
        "few": answers(2, 2, 2, 9, 3),
        "less": answers(1, 1, 2, 9, 2),
    },
    "zh": {"m2": answers(4, 4, 4, 28)},
}


def logit(share: float) -> float:
    return math.log(share / (1 - share))


def test_what_is_expected_is_the_mean_over_languages_of_the_mean_over_models() -> None:
    """Half a word is added to each count; each language counts the same, and each cell in it."""

    def scales(*models: np.ndarray[Any, Any]) -> list[float]:
        tp, fp, fn, tn = np.concatenate(models).sum(0) + 0.5
        return [logit(tp / (tp + fn)), logit(fp / (fp + tn)), math.log((tp + fn) / (tp + fp))]

    de, ar, zh = LANGUAGES["de"], LANGUAGES["ar"], LANGUAGES["zh"]
    cells = [
        [scales(de["m1"]), scales(de["m2"])],
        [
            scales(ar["m1"]),
            scales(ar["m3"]),
            scales(ar["few"], ar["less"]),
        ],  # those of fewer than five answers together
        [scales(zh["m2"])],
    ]
    centre = np.mean([np.mean(found, axis=0) for found in cells], axis=0)
    found = predicted(LANGUAGES, 10, 1)
    assert found.true_positive_rate == pytest.approx(1 / (1 + math.exp(-centre[0])), abs=1e-12)
    assert found.false_positive_rate == pytest.approx(1 / (1 + math.exp(-centre[1])), abs=1e-12)
    assert found.ratio == pytest.approx(math.exp(centre[2]), abs=1e-12)
    assert found.draws.shape == (10, 3)
    assert all(type(rate) is float for rate in found[:3])


def test_draws_are_of_a_t_distribution_about_the_centre_on_the_logit_scale() -> None:
    """The ratio, alone, by scalar formulas: spreads beyond chance of languages and models, Satterthwaite's freedom."""
    seed, iterations = 11, 4000
    per_language = []
    chances = []
    for code in sorted(LANGUAGES):
        cells = [c for name, c in sorted(LANGUAGES[code].items()) if len(c) >= 5]
        few = [c for name, c in sorted(LANGUAGES[code].items()) if len(c) < 5]
        if few:
            cells.append(np.concatenate(few))
        ratio = lambda sums: np.log((sums[..., 0] + sums[..., 2] + 1) / (sums[..., 0] + sums[..., 1] + 1))  # noqa: E731
        per_language.append([float(ratio(c.sum(0))) for c in cells])
        chances.append([float(np.var(ratio(resampled_sums(c, 200, seed)), ddof=1)) for c in cells])
    counts = [len(found) for found in per_language]
    means = [float(np.mean(found)) for found in per_language]
    chance = float(np.mean([np.mean(found) for found in chances]))
    free_within = sum(counts) - len(counts)
    within = sum((x - m) ** 2 for found, m in zip(per_language, means, strict=True) for x in found) / free_within
    among = float(np.var(means, ddof=1))
    of_models, of_languages = max(0.0, within - chance), max(0.0, among - within * np.mean([1 / n for n in counts]))
    freedom = 2.0
    if weight := of_languages**2 / 2 + of_models**2 / free_within:
        freedom = (of_languages + of_models) ** 2 / weight
    scale = math.sqrt(of_languages + of_models + among / 3)

    rng = np.random.default_rng(seed)
    rng.standard_normal((iterations, 2))  # the two rates come first
    freedom_of_rates = _freedom_of_rates(seed)
    rng.chisquare(freedom_of_rates, (iterations, 1))
    normal = rng.standard_normal((iterations, 1))[:, 0]
    expected = np.exp(
        np.mean(means) + scale * normal / np.sqrt(rng.chisquare(freedom, (iterations, 1))[:, 0] / freedom)
    )
    np.testing.assert_allclose(predicted(LANGUAGES, iterations, seed).draws[:, 2], expected, rtol=1e-9)


def _freedom_of_rates(seed: int) -> float:
    """The degrees of freedom that the two rates were drawn with, as seen by the generator."""
    seen: list[float] = []

    class Watching:
        def __init__(self, seed: int) -> None:
            self.rng = _RNG(seed)

        def standard_normal(self, size: Any) -> Any:
            return self.rng.standard_normal(size)

        def multinomial(self, *args: Any, **options: Any) -> Any:
            return self.rng.multinomial(*args, **options)

        def chisquare(self, freedom: float, size: Any) -> Any:
            seen.append(freedom)
            return self.rng.chisquare(freedom, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np.random, "default_rng", Watching)
        predicted(LANGUAGES, 10, seed)
    return seen[0]


_RNG = np.random.default_rng


def test_draws_of_the_rates_have_the_covariance_of_a_new_cell() -> None:
    found = predicted(LANGUAGES, 3000, 4)
    logits = np.log(found.draws[:, :2] / (1 - found.draws[:, :2]))
    assert np.median(logits, axis=0) == pytest.approx(
        [logit(found.true_positive_rate), logit(found.false_positive_rate)], abs=0.05
    )
    np.testing.assert_array_equal(found.draws, predicted(dict(reversed(LANGUAGES.items())), 3000, 4).draws)
    assert not np.array_equal(found.draws, predicted(LANGUAGES, 3000, 5).draws)


@pytest.mark.parametrize(
    ("sizes", "cells"),
    [
        ({"a": 5, "b": 6}, [5, 6]),
        ({"b": 6, "a": 5}, [5, 6]),
        ({"a": 4, "b": 6}, [6]),  # too few to be a cell, and left out
        ({"a": 4, "b": 1, "c": 6}, [6, 5]),
        ({"a": 2}, [2]),  # all there is
        ({"a": 2, "b": 1}, [3]),
        ({"a": 0, "b": 5}, [5]),
    ],
)
def test_a_cell_is_a_model_with_five_answers_or_all_the_others_together(
    sizes: dict[str, int], cells: list[int]
) -> None:
    models = {name: answers(1, 1, 1, 9, size).reshape(-1, 4) for name, size in sizes.items()}
    found, _ = random_effects._cells_by_language({"de": models, "fi": models})
    assert [cell.shape for cell in found] == [(size, 4) for size in cells]
    assert all(cell.dtype == float for cell in found)


def test_too_little_says_nothing() -> None:
    with pytest.raises(ValueError, match=r"^errors can be expected from 2 languages and more, not from 1$"):
        predicted({"de": LANGUAGES["de"]}, 10, 1)
    with pytest.raises(ValueError, match=r"^a language without annotated answers says nothing$"):
        predicted({"de": LANGUAGES["de"], "ar": {"m": np.zeros((0, 4))}}, 10, 1)
    assert predicted({"de": LANGUAGES["de"], "zh": LANGUAGES["zh"]}, 10, 1).draws.shape == (10, 3)
