"""A detector's expected errors in a language, and on a model, that nobody has annotated, from those of others.

True and false positive rates differ between languages and between the models whose answers are read. Each annotated
*cell*, the answers of one model in one language, is a draw from a distribution; a new cell is another draw. Its rates are
predicted on the logit scale from the mean of the cells and two spreads beyond chance, of languages and of models within
them, all estimated by moments (DerSimonian and Laird 1986; for several outcomes Jackson, White and Riley 2013). The
prediction is a t distribution, as in the prediction interval of a random-effects meta-analysis (Higgins, Thompson and
Spiegelhalter 2009, section 4), with the degrees of freedom of a sum of two estimated variances (Satterthwaite 1946).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.intervals import resampled_sums

__all__ = ["FEWEST_LANGUAGES", "Errors", "expected", "predicted"]

FEWEST_LANGUAGES = 2
"""With fewer, the spread between languages cannot be estimated."""

FEWEST_ANSWERS = 5  # of a model in a language, to be a cell of its own; those of fewer go together
_INNER = 200  # resamples that a cell's chance variation is told by

Floats = NDArray[np.float64]


class Errors(NamedTuple):
    """A detector's expected errors in a new cell, and draws from their distribution.

    Attributes:
        true_positive_rate, false_positive_rate: expected, in (0, 1).
        ratio: expected precision over recall: hallucinated words for each flagged one.
        draws: (iterations, 3) of the same three.
    """

    true_positive_rate: float
    false_positive_rate: float
    ratio: float
    draws: Floats


def predicted(languages: Mapping[str, Mapping[str, NDArray[Any]]], iterations: int, seed: int) -> Errors:
    """The errors to expect in a language and on a model that are not among the annotated ones.

    Args:
        languages: code to model to (answers, 4) word counts (tp, fp, fn, tn).
        iterations: draws.
        seed: of the generator.

    Raises:
        ValueError: there are fewer than ``FEWEST_LANGUAGES`` languages, or one without an answer.
    """
    cells = _cells_by_language(languages)
    scales = _scales_of(cells)
    chances = [[_chance(cell, seed) for cell in found] for found in cells.values()]
    rng = np.random.default_rng(seed)
    # the two rates, which go together, and the ratio, which is of prevalence too
    draws = [
        _new_cell(
            [values[:, part] for values in scales],
            [[c[part, part] for c in found] for found in chances],
            iterations,
            rng,
        )
        for part in (slice(0, 2), slice(2, 3))
    ]
    return Errors(*_expected(scales), _rates(np.concatenate(draws, axis=1)))


def expected(languages: Mapping[str, Mapping[str, NDArray[Any]]]) -> tuple[float, float, float]:
    """What :func:`predicted` expects, without draws: true and false positive rate, and precision over recall."""
    return _expected(_scales_of(_cells_by_language(languages)))


def _expected(scales: Sequence[Floats]) -> tuple[float, float, float]:
    true_positive_rate, false_positive_rate, ratio = map(float, _rates(_centre(scales)[None])[0])
    return true_positive_rate, false_positive_rate, ratio


def _centre(values: Sequence[Floats]) -> Floats:
    """The mean over languages and models: each language counts the same, and each model in it."""
    return np.asarray(np.array([found.mean(axis=0) for found in values]).mean(axis=0))


def _new_cell(
    values: Sequence[Floats], chances: Sequence[Sequence[Floats]], iterations: int, rng: np.random.Generator
) -> Floats:
    """Draws of some outcomes in a new cell.

    Args:
        values: of each language (models, outcomes).
        chances: of each language and model, (outcomes, outcomes) covariance due to chance.
        iterations: draws.
        rng: the generator.
    """
    counts = np.array([len(found) for found in values])
    means = np.array([found.mean(axis=0) for found in values])
    centre = _centre(values)
    chance = np.mean([np.mean(found, axis=0) for found in chances], axis=0)
    apart = np.concatenate([found - mean for found, mean in zip(values, means, strict=True)])
    within_freedom = int(counts.sum()) - len(counts)
    within = apart.T @ apart / within_freedom if within_freedom else chance
    among = np.cov(means, rowvar=False).reshape(within.shape)
    of_models = _positive(within - chance)
    of_languages = _positive(among - within * np.mean(1 / counts))
    freedom = _satterthwaite(float(np.trace(of_languages)), len(counts) - 1, float(np.trace(of_models)), within_freedom)
    scale = of_languages + of_models + among / len(counts)  # of a new cell, and of the mean itself
    normal = rng.standard_normal((iterations, len(centre))) @ _root(scale).T
    return np.asarray(centre + normal / np.sqrt(rng.chisquare(freedom, (iterations, 1)) / freedom))


def _satterthwaite(one: float, one_freedom: int, other: float, other_freedom: int) -> float:
    """Degrees of freedom of the sum of two estimated variances; those of the first where both are nothing."""
    parts = [(one, one_freedom), (other, other_freedom)]
    weight = sum(variance**2 / freedom for variance, freedom in parts if freedom)
    return (one + other) ** 2 / weight if weight else float(one_freedom)


def _cells_by_language(languages: Mapping[str, Mapping[str, NDArray[Any]]]) -> dict[str, list[Floats]]:
    if len(languages) < FEWEST_LANGUAGES:
        raise ValueError(
            f"errors can be expected from {FEWEST_LANGUAGES} languages and more, not from {len(languages)}"
        )
    return {language: _cells(models) for language, models in sorted(languages.items())}


def _scales_of(cells: Mapping[str, Sequence[Floats]]) -> list[Floats]:
    """The scales of each language's cells, (models, 3)."""
    return [np.array([_scales(cell.sum(axis=0)) for cell in found]) for found in cells.values()]


def _cells(models: Mapping[str, NDArray[Any]]) -> list[Floats]:
    """The counts of each model with enough answers; those of the others together."""
    every = [np.asarray(models[name], dtype=float).reshape(-1, 4) for name in sorted(models)]
    cells = [counts for counts in every if len(counts) >= FEWEST_ANSWERS]
    rest = [counts for counts in every if len(counts) < FEWEST_ANSWERS]
    if rest and (not cells or sum(map(len, rest)) >= FEWEST_ANSWERS):
        cells.append(np.concatenate(rest))
    if not sum(map(len, cells)):
        raise ValueError("a language without annotated answers says nothing")
    return cells


def _scales(sums: Sequence[float] | Floats) -> Floats:
    """Logits of true and false positive rate, log of precision over recall; half a word is added to each count."""
    tp, fp, fn, tn = np.moveaxis(np.asarray(sums) + 0.5, -1, 0)
    return np.stack([np.log(tp / fn), np.log(fp / tn), np.log((tp + fn) / (tp + fp))], axis=-1)


def _rates(scales: Floats) -> Floats:
    """What :func:`_scales` is of, back on the scale of rates; (n, 3)."""
    limited = np.clip(scales, -50, 50)
    logits = 1 / (1 + np.exp(-limited[:, :2]))
    return np.concatenate([logits, np.exp(limited[:, 2:])], axis=1)


def _chance(cell: Floats, seed: int) -> Floats:
    """(3, 3) covariance of a cell's scales that is due to which answers it holds."""
    if len(cell) < 2:
        return np.zeros((3, 3))
    return np.asarray(np.cov(_scales(resampled_sums(cell, _INNER, seed)), rowvar=False))


def _positive(matrix: Floats) -> Floats:
    """The nearest covariance: what is negative, because chance alone explains more than was seen, becomes zero."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0)) @ vectors.T)


def _root(matrix: Floats) -> Floats:
    """The symmetric square root: unlike others it does not depend on the signs that a processor gives eigenvectors."""
    values, vectors = np.linalg.eigh(_positive(matrix))
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T)
