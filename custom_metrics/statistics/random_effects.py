"""A detector's errors in a language and how sure they are: measured there, or expected from those in other languages.

*Annotated* answers in the language (:func:`measured_errors`) measure its true and false positive rate, and precision over
recall. These are drawn on the logit and the log scale from a t distribution. Its covariance is the jackknife's over
clusters of answers (Efron and Stein 1981, "The jackknife estimate of variance": it errs on the side of too much). Its
degrees of freedom are one less than the clusters; for the ratio, one less than their effective number, as a few clusters
may hold most of the words (Kish 1965, "Survey sampling"; Carter, Schnepel and Steigerwald 2017, "Asymptotic behavior of a
t-test robust to cluster heterogeneity"; see Dean and Pagano 2015, "Evaluating confidence interval methods for binomial
proportions in clustered surveys"). Half a word is added to each count, and no variance is below that of as many independent
words: a detector that found all of four hallucinated words is not certain.

*Not annotated* (:func:`expected_errors`): true and false positive rates differ between languages and between answering
models. Each annotated *cell*, the answers of one model in one language, is a draw from a distribution; a new cell is
another draw. Its rates are predicted on the logit scale from the mean of the cells and two spreads beyond chance, of
languages and of models within them, all estimated by moments (DerSimonian and Laird 1986; for several outcomes Jackson,
White and Riley 2013). The prediction is a t distribution (Higgins, Thompson and Spiegelhalter 2009, section 4), with the
degrees of freedom of a sum of two estimated variances (Satterthwaite 1946).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.statistics.intervals import RESAMPLES, SEED, resampled_sums, sums_by_cluster

FEWEST_LANGUAGES = 2  # with fewer, the spread between languages cannot be estimated
FEWEST_ANSWERS = 5  # of a model in a language, to be a cell of its own; those of fewer go together
SEED_OF_ERRORS = SEED + 1  # not that of the answers' draws
_INNER = 200  # resamples from which a cell's variation by chance is estimated

Floats = NDArray[np.float64]


class Errors(NamedTuple):
    """A detector's errors, and draws from the distribution of what they may be; ``nan`` where not known."""

    true_positive_rate: float
    false_positive_rate: float
    ratio: float  # precision over recall: hallucinated words for each flagged one
    draws: Floats  # (iterations, 3) of the same three
    expected: bool = False  # from other languages, not measured


def measured_errors(
    documents: NDArray[Any],
    iterations: int = RESAMPLES,
    seed: int = SEED_OF_ERRORS,
    clusters: Sequence[Any] | None = None,
) -> Errors:
    """Measure a detector's errors on annotated answers in a language, with so many draws. What is not defined (a true
    positive rate without a hallucinated word) is ``nan``; so are the draws for one cluster.

    Args:
        documents: (documents, 4): true and false positives, false and true negatives of each, in words.
        clusters: the name of each document's cluster, such as its text; by default each document is its own.

    Raises:
        ValueError: counts that are not four a document, or below 0; not as many clusters as answers.
    """
    counts = np.asarray(documents, dtype=float)
    if counts.size % 4 or not (counts >= 0).all():
        raise ValueError("word counts are four numbers a document, tp fp fn tn, none below 0")
    cells = sums_by_cluster(counts.reshape(-1, 4), clusters)
    tp, fp, fn, tn = sums = cells.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        rates = float(tp / (tp + fn)), float(fp / (fp + tn)), float((tp + fn) / (tp + fp)) if tp else math.nan
    number = len(cells)
    if number < 2:
        return Errors(*rates, np.full((iterations, 3), np.nan))
    middle = _scales(sums)
    deviations = _scales(sums - cells) - middle
    covariance = (number - 1) / number * deviations.T @ deviations
    tp, fp, fn, tn = sums + 0.5
    ratio_variance = (1 / (tp + fn) - 1 / (tp + fp)) ** 2 * tp + fp / (tp + fp) ** 2 + fn / (tp + fn) ** 2
    chance = np.array([1 / tp + 1 / fn, 1 / fp + 1 / tn, ratio_variance])
    covariance += np.diag(np.maximum(chance - np.diag(covariance), 0))
    tp, fp, fn, tn = cells.T
    # Kish's effective number of clusters: as many as there are where all hold equally many words
    effective = [sizes.sum() ** 2 / np.square(sizes).sum() if sizes.any() else 0.0 for sizes in (tp + fn, tp + fp)]
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal((iterations, 3)) @ _root(covariance).T
    freedoms = number - 1, max(1.0, min(effective) - 1)
    of_rates, of_ratio = (rng.chisquare(freedom, iterations) / freedom for freedom in freedoms)
    return Errors(*rates, _rates(middle + normal / np.sqrt(np.stack([of_rates, of_rates, of_ratio], axis=-1))))


def expected_errors(
    languages: Mapping[str, Mapping[str, NDArray[Any]]], iterations: int = RESAMPLES, seed: int = SEED_OF_ERRORS
) -> Errors:
    """Expect a detector's errors in a language and on a model that are not among the annotated ones. Of each language and
    model there are (answers, 4) word counts (tp, fp, fn, tn), of :data:`FEWEST_LANGUAGES` languages or more."""
    cells = _cells_by_language(languages)
    scales = [_scales(np.array([cell.sum(axis=0) for cell in models])) for models in cells]
    # (3, 3) covariances of each cell's scales that are due to which answers it holds
    chances = [
        np.array([np.cov(_scales(resampled_sums(of, _INNER, seed)), rowvar=False) * (len(of) > 1) for of in models])
        for models in cells
    ]
    rng = np.random.default_rng(seed)
    # the two rates, which are correlated, and the ratio, which depends on prevalence, too
    draws = [
        _new_cell([values[:, cols] for values in scales], [cov[:, cols, cols] for cov in chances], iterations, rng)
        for cols in (slice(0, 2), slice(2, 3))
    ]
    # each language counts the same, and each model in it
    centre = np.mean([values.mean(axis=0) for values in scales], axis=0)
    true_positive_rate, false_positive_rate, ratio = map(float, _rates(centre[None])[0])
    drawn = _rates(np.concatenate(draws, axis=1))
    return Errors(true_positive_rate, false_positive_rate, ratio, drawn, expected=True)


def _cells_by_language(languages: Mapping[str, Mapping[str, NDArray[Any]]]) -> list[list[Floats]]:
    """For each language, the counts of each model with enough answers, and those of the other models together."""
    by_language = []
    for _, models in sorted(languages.items()):
        every = [np.asarray(models[name], dtype=float).reshape(-1, 4) for name in sorted(models)]
        cells = [counts for counts in every if len(counts) >= FEWEST_ANSWERS]
        small = [counts for counts in every if len(counts) < FEWEST_ANSWERS]
        if small and (not cells or sum(map(len, small)) >= FEWEST_ANSWERS):
            cells.append(np.concatenate(small))
        by_language.append(cells)
    return by_language


def _new_cell(values: Sequence[Floats], chances: Sequence[Floats], iterations: int, rng: np.random.Generator) -> Floats:
    """Draws of some outcomes in a new cell, from each language's (models, outcomes) and their covariances due to chance."""
    counts = np.array([len(language) for language in values])
    means = np.array([language.mean(axis=0) for language in values])
    centre = means.mean(axis=0)
    chance = np.mean([language.mean(axis=0) for language in chances], axis=0)
    deviations = np.concatenate([language - mean for language, mean in zip(values, means, strict=True)])
    among_freedom, within_freedom = len(counts) - 1, int(counts.sum()) - len(counts)
    within = deviations.T @ deviations / within_freedom if within_freedom else chance
    among = np.cov(means, rowvar=False).reshape(within.shape)
    of_models = _positive(within - chance)
    of_languages = _positive(among - within * np.mean(1 / counts))
    # Satterthwaite's degrees of freedom of the sum of two estimated variances
    a, b = float(np.trace(of_languages)), float(np.trace(of_models))
    weight = a**2 / among_freedom + (b**2 / within_freedom if within_freedom else 0.0)
    freedom = (a + b) ** 2 / weight if weight else float(among_freedom)
    scale = of_languages + of_models + among / len(counts)  # of a new cell, and of the mean itself
    normal = rng.standard_normal((iterations, len(centre))) @ _root(scale).T
    return np.asarray(centre + normal / np.sqrt(rng.chisquare(freedom, (iterations, 1)) / freedom))


def _scales(sums: Floats) -> Floats:
    """Logits of true and false positive rate, log of precision over recall; half a word is added to each count."""
    tp, fp, fn, tn = np.moveaxis(np.asarray(sums) + 0.5, -1, 0)
    return np.stack([np.log(tp / fn), np.log(fp / tn), np.log((tp + fn) / (tp + fp))], axis=-1)


def _rates(scales: Floats) -> Floats:
    """The inverse of :func:`_scales`: true and false positive rate, and precision over recall; (n, 3)."""
    limited = np.clip(scales, -50, 50)
    return np.concatenate([1 / (1 + np.exp(-limited[:, :2])), np.exp(limited[:, 2:])], axis=1)


def _positive(matrix: Floats) -> Floats:
    """The nearest covariance: negative eigenvalues, where chance alone explains more than was observed, become zero."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0)) @ vectors.T)


def _root(matrix: Floats) -> Floats:
    """The symmetric square root of a matrix: unlike others it does not depend on the signs of the eigenvectors."""
    values, vectors = np.linalg.eigh(_positive(matrix))
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T)
