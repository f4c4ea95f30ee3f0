"""Figures of strata, such as languages: their mean, in which each counts the same, with bounds and standard error.

A figure is the mean of rows, one a cluster (:class:`custom_metrics.statistics.figures.Rows`). A ratio of sums is so to the
first order: its *linearised values* are the ratio plus what each cluster adds to it (Taylor linearisation: Woodruff 1971,
"A simple method for approximating the variance of a complicated estimate"; the infinitesimal jackknife).

Strata are independent unless they have clusters in common, such as a passage and its translations. What a cluster adds is
then summed over the strata (:func:`across_strata`), and the mean has the standard error of :func:`error_across`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain, compress
from statistics import fmean, stdev
from typing import Any

import numpy as np

from custom_metrics.statistics.figures import UNDEFINED, Figure, FigureOfStrata, Rows, Stratum, is_wide
from custom_metrics.statistics.intervals import Z95, clopper_pearson, sums_by_cluster, t95, wilson
from custom_metrics.statistics.paired_difference import FEWEST, SMALL_STRATUM, Floats


def linearised(top: Any, bottom: Any) -> Floats:
    """A ratio of sums as values whose mean it is, from what each cluster adds to numerator and denominator.

    A value is the ratio plus the cluster's (top - ratio * bottom) over the mean of `bottom`; ``nan`` where that is 0.
    """
    tops, bottoms = np.asarray(top), np.asarray(bottom)
    denominator = bottoms.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = tops.sum(axis=0) / denominator
        values = ratio + len(bottoms) * (tops - ratio * bottoms) / denominator
    return np.where(denominator != 0, values, np.nan)


def has_shared(clusters: Sequence[Sequence[Any]]) -> bool:
    """Whether strata with these names of clusters have one in common."""
    named = [{*names} - {""} for names in clusters]
    return len({*chain(*named)}) < sum(map(len, named))


def across_strata(strata: Sequence[Floats], clusters: Sequence[Sequence[Any]]) -> Floats:
    """(clusters, columns) values of strata that have clusters in common, as those of one stratum: the mean of the rows is
    that of the strata's means, and their variance that of a sum over clusters, whatever the strata have in common.

    Args:
        strata: of each (rows, columns) values.
        clusters: of each the names of its rows' clusters; a row without a name is one.
    """
    names = [name or (place, row) for place, of in enumerate(clusters) for row, name in enumerate(of)]
    deviations = np.concatenate([(values - values.mean(axis=0)) / len(values) for values in strata])
    rows = sums_by_cluster(deviations, names)
    return np.asarray(np.mean([values.mean(axis=0) for values in strata], axis=0) + rows * (len(rows) / len(strata)))


def error_across(strata: Sequence[Rows]) -> float:
    """The standard error of the mean over strata of a figure, from its linearised values; ``nan`` where strata have no
    cluster in common: it then follows from their own errors. A stratum in which the figure is not defined is left out."""
    defined = [stratum for stratum in strata if len(stratum.values) and not np.isnan(stratum.values).any()]
    names = [stratum.clusters for stratum in defined]
    if not has_shared(names):
        return math.nan
    rows = across_strata([stratum.values[:, None] for stratum in defined], names)
    return float(rows.std(ddof=1)) / math.sqrt(len(rows)) if len(rows) > 1 else math.nan


def mean_of_shares(
    figures: Sequence[Figure], error: float = math.nan, weights: Sequence[float] | None = None
) -> Figure:
    """The mean of the strata's shares, with Wilson's interval for a stratified sample.

    Wilson's interval takes the number of documents that would give the mean's variance in a simple sample (Korn and
    Graubard 1998, Survey Methodology 24; Dean and Pagano 2015, Journal of Survey Statistics and Methodology 3). For that
    number each stratum's share is taken to be (k + 1)/(n + 2), or a stratum without a hit, or with hits alone, would not
    vary at all. Where a stratum has fewer than 100 documents, the interval is Clopper and Pearson's, and the number falls
    with the squared ratio of the normal and Student's t (Satterthwaite's degrees of freedom), as Korn and Graubard have it;
    or that of MOVER, where it is wider.

    Args:
        figures: of the strata: a share, and ``n`` documents in its denominator; or a mean of shares itself, which counts by
            its own strata. Undefined ones are left out.
        error: standard error of the mean; default that of independent strata. Where it is 0, the bounds are the means of
            the strata's.
        weights: what each figure counts; default each the same.

    Returns:
        A figure whose ``n`` is the sum of theirs. Its standard error takes the variance of a share as p(1 - p)/(n - 1).
        Undefined where no stratum is defined. Without bounds where a stratum has no ``n``.
    """
    of_figures = [1.0] * len(figures) if weights is None else weights
    counted = [pair for pair in zip(figures, of_figures, strict=True) if not math.isnan(pair[0].value)]
    defined = [figure for figure, _ in counted]
    if len(defined) <= 1 or not all(figure.n for figure in defined):
        return mean_of_strata(defined, error)
    whole = math.fsum(weight for _, weight in counted)
    strata = tuple(
        Stratum(share, n, weight / whole * part)
        for figure, weight in counted
        for share, n, part in figure.strata or (Stratum(figure.value, figure.n, 1.0),)
    )
    mean = min(1.0, math.fsum(stratum.weight * stratum.share for stratum in strata))
    total = sum(stratum.n for stratum in strata)
    if error == 0:
        ends = fmean(f.low for f in defined), fmean(f.high for f in defined)
        return FigureOfStrata.of(Figure(mean, *ends, error, total), strata)
    likely = [(share * n + 1) / (n + 2) for share, n, _ in strata]
    variances = [weight**2 * share * (1 - share) / n for (_, n, weight), share in zip(strata, likely, strict=True)]
    centre = math.fsum(stratum.weight * share for stratum, share in zip(strata, likely, strict=True))
    documents = centre * (1 - centre) / math.fsum(variances)
    of_small = min(stratum.n for stratum in strata) < SMALL_STRATUM
    if math.isnan(error):
        of_strata = (share * (1 - share) / (n - 1) if n > 1 else mean * (1 - mean) for share, n, _ in strata)
        error = math.sqrt(math.fsum(of.weight**2 * of_one for of, of_one in zip(strata, of_strata, strict=True)))
        if of_small:
            squares = math.fsum(v**2 / max(n - 1, 1) for v, (_, n, _) in zip(variances, strata, strict=True))
            documents *= (Z95 / t95(math.fsum(variances) ** 2 / squares)) ** 2
    elif 0 < mean < 1:
        documents = mean * (1 - mean) / error**2
    bounds = wilson(mean * documents, documents)
    if of_small:
        low, high = map(float, clopper_pearson(mean * documents, documents))
        own = [wilson(share * n, n) for share, n, _ in strata]
        below = math.hypot(*(of.weight * (of.share - ends[0]) for of, ends in zip(strata, own, strict=True)))
        above = math.hypot(*(of.weight * (ends[1] - of.share) for of, ends in zip(strata, own, strict=True)))
        bounds = max(0.0, min(low, mean - below)), min(1.0, max(high, mean + above))
    return FigureOfStrata.of(Figure(mean, *bounds, error, total), strata)


def mean_of_strata(figures: Sequence[Figure], error: float = math.nan) -> Figure:
    """The mean of the strata's values: means of documents, or rates that are corrected.

    The variance is the sum of the strata's over k squared, and the bounds are those of a normal distribution. Where a
    stratum has bounds and no standard error, as a corrected rate that is cut off at 0, the variance is recovered from the
    bounds, apart for either side (MOVER: Zou and Donner 2008, Statistics in Medicine 27, equations 6 and 7). No bound is
    further out than the mean of the strata's bounds. The bounds of a stratum that is not measurable
    (:mod:`custom_metrics.statistics.figures`) limit where the rate can be and do not average out: their distances are
    summed. Means of fewer than five documents have the variance that the strata have in common.

    Arguments and ``n`` are as in :func:`mean_of_shares`. Bounds, or the standard error, are ``nan`` where a stratum has
    none, but for a standard error of 0: equal values of a stratum are no reason to say nothing of the others.
    """
    defined = [figure for figure in figures if not math.isnan(figure.value)]
    if len(defined) <= 1:
        return defined[0] if defined else UNDEFINED
    number, mean = len(defined), fmean(figure.value for figure in defined)
    defined, reach = _with_common_variance(defined)
    if math.isnan(error):
        error = math.hypot(*(figure.standard_error for figure in defined)) / number
    below = above = reach * error
    if math.isnan(error):
        wide = [math.isnan(figure.standard_error) and is_wide(figure.low, figure.high) for figure in defined]
        below = _reach([figure.value - figure.low for figure in defined], wide)
        above = _reach([figure.high - figure.value for figure in defined], wide)
    ends = [(f.value, f.value) if f.standard_error == 0 and math.isnan(f.low) else f[1:3] for f in defined]
    lowest, highest = map(fmean, zip(*ends, strict=True))
    bounds = max(mean - below, lowest), min(mean + above, highest)
    if math.isnan(lowest + highest) or error == 0:
        bounds = math.nan, math.nan
    return Figure(mean, *bounds, error, sum(figure.n for figure in defined))


def _with_common_variance(figures: list[Figure]) -> tuple[list[Figure], float]:
    """The figures, with a standard error and bounds for means of so few documents that they have none: by the variance of a
    document that all have in common; with fewer than four degrees of freedom, by that of the figures, if there are five.
    Also how many standard errors away the bounds of their mean are."""
    small = [0 < figure.n < FEWEST and math.isnan(figure.low) for figure in figures]
    if not any(small) or not all(figure.n for figure in figures):
        return figures, Z95
    known = [figure for figure in figures if figure.n > 1 and not math.isnan(figure.standard_error)]
    freedom = sum(figure.n - 1 for figure in known)
    if freedom >= FEWEST - 1:
        variance = math.fsum(figure.standard_error**2 * figure.n * (figure.n - 1) for figure in known) / freedom
        errors = [math.sqrt(variance / f.n) if is_small else f[3] for f, is_small in zip(figures, small, strict=True)]
    elif all(small) and len(figures) >= FEWEST:
        freedom, errors = len(figures) - 1, [stdev(figure.value for figure in figures)] * len(figures)
    else:
        return figures, Z95
    reach = t95(freedom)
    return [
        figure._replace(low=figure.value - reach * error, high=figure.value + reach * error, standard_error=error)
        if is_small
        else figure
        for figure, error, is_small in zip(figures, errors, small, strict=True)
    ], reach


def _reach(distances: Sequence[float], wide: Sequence[bool]) -> float:
    """How far the bound of a mean reaches, from the distances of the strata's bounds."""
    averaging = math.hypot(*(distance for distance, is_wide in zip(distances, wide, strict=True) if not is_wide))
    return (averaging + math.fsum(compress(distances, wide))) / len(distances)
