"""Ratios of sums as means of values, one a cluster; and strata that have clusters in common.

A ratio of sums is not a mean of documents. To the first order it is the mean of its *linearised values*, one a cluster: the
ratio plus what the cluster adds to it (Taylor linearisation: Woodruff 1971, "A simple method for approximating the variance
of a complicated estimate"; the infinitesimal jackknife). So is the mean over strata of such figures. Where the strata have
clusters in common, such as a passage and its translations, what a cluster adds is summed over the strata.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from custom_metrics.statistics.paired_difference import Floats

__all__ = ["Rows", "across_strata", "error_across", "has_shared", "linearised"]


class Rows(NamedTuple):
    """A figure of a stratum as rows, whose mean it is.

    Attributes:
        values: (rows,), or (rows, columns) of several figures; ``nan`` for a row that does not count.
        clusters: of each row the name of its cluster, which other rows and strata may have; empty: it has none.
    """

    values: Floats
    clusters: Sequence[Any]


def linearised(top: Any, bottom: Any) -> Floats:
    """A ratio of sums as values whose mean it is.

    Args:
        top, bottom: (clusters, ...) what each cluster adds to numerator and denominator.

    Returns:
        (clusters, ...): the ratio plus the cluster's (top - ratio * bottom) over the mean of `bottom`; ``nan`` where the
        denominator is 0.
    """
    tops, bottoms = np.asarray(top), np.asarray(bottom)
    whole = bottoms.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = tops.sum(axis=0) / whole
        values = ratio + len(bottoms) * (tops - ratio * bottoms) / whole
    return np.where(whole != 0, values, np.nan)


def has_shared(clusters: Sequence[Sequence[Any]]) -> bool:
    """Whether strata with these names of clusters have one in common."""
    named = [{*names} - {""} for names in clusters]
    return len({*chain(*named)}) < sum(map(len, named))


def across_strata(strata: Sequence[Floats], clusters: Sequence[Sequence[Any]]) -> list[Floats]:
    """Values of strata that have clusters in common, as the values of one stratum: a row for each cluster of any of them.

    A row is the mean over strata of their means, plus what the cluster adds to it everywhere. The mean of the rows is that
    of the strata's means, and their variance that of a sum over clusters, whatever the strata have in common.

    Args:
        strata: of each (rows, columns) values, those of a row that does not count ``nan``. A stratum of which none counts
            in a column is left out.
        clusters: of each the names of its rows' clusters; a row without a name is one.

    Returns:
        A single (clusters, columns), or nothing.
    """
    known: list[tuple[Floats, list[Any]]] = []
    for place, (part, names) in enumerate(zip(strata, clusters, strict=True)):
        counts = ~np.isnan(part)
        some = counts.any(axis=1)
        values = part[some] if counts[some].all() else linearised(np.nan_to_num(part[some]), counts[some])
        if len(values) and not np.isnan(values).any():
            known.append((values, [names[row] or (place, row) for row in np.flatnonzero(some).tolist()]))
    if not known:
        return []
    numbers: dict[Any, int] = {}
    places = [[numbers.setdefault(name, len(numbers)) for name in names] for _, names in known]
    rows = np.zeros((len(numbers), known[0][0].shape[1]))
    for (part, _), of_part in zip(known, places, strict=True):
        np.add.at(rows, of_part, (part - part.mean(axis=0)) / len(part))
    return [np.mean([part.mean(axis=0) for part, _ in known], axis=0) + rows * (len(numbers) / len(known))]


def error_across(strata: Sequence[Rows]) -> float:
    """The standard error of the mean over strata of a figure; ``nan`` where they have no cluster in common, so that their
    own errors say it."""
    known = [part for part in strata if not np.isnan(part.values).all()]
    if not has_shared([part.clusters for part in known]):
        return math.nan
    (rows,) = across_strata([part.values[:, None] for part in known], [part.clusters for part in known])
    return float(rows.std(ddof=1)) / math.sqrt(len(rows)) if len(rows) > 1 else math.nan
