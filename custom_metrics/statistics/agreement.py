"""Agreement of two raters: Cohen's kappa, its quadratic weights, Kendall's tau-b, and the share of equal labels.

Every statistic is computed from contingency tables (rows: labels of rater A, columns: labels of rater B, in
order), over any leading axes at once. A statistic is ``nan`` where it is 0/0, for example where both raters give one label
only.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import Any, TypeAlias

import numpy as np

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.intervals import resampled_sums, spread

Table: TypeAlias = "np.ndarray[Any, Any]"
Statistic: TypeAlias = Callable[[Table], Table]

_BLOCK = 1 << 21  # cells of resampled tables that a statistic sees at once: 16 MB


def contingency_table(pairs: Sequence[tuple[int, int]], labels: int) -> Table:
    """(labels, labels): how often each pair of labels occurs, from the labels in [0, `labels`) that A and B give each
    unit."""
    array = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    if array.size and not 0 <= array.min() <= array.max() < labels:
        raise ValueError(f"labels must be between 0 and {labels - 1}, got {array.min()} to {array.max()}")
    return np.bincount(array @ [labels, 1], minlength=labels * labels).reshape(labels, labels)


def any_label(tables: Table) -> Table:
    """Reduce tables (..., labels, labels) to (..., 2, 2): the first label, which stands for "none", against all others."""
    return np.asarray(np.add.reduceat(np.add.reduceat(tables, [0, 1], axis=-2), [0, 1], axis=-1))


def equal_share(tables: Table) -> Table:
    """Share of the units that both raters give the same label: (..., labels, labels) to (...); ``nan`` without units."""
    cells = np.asarray(tables)
    return _ratio(np.trace(cells, axis1=-2, axis2=-1), cells.sum(axis=(-2, -1)))


# Kappa and tau-b are our own because a bootstrap needs them of 2,000 tables at once. Of 1,000 units with four labels
# that takes 1 ms and 2 ms; called for each resample, scikit-learn's cohen_kappa_score takes 2.4 s, scipy's kendalltau 0.6.
def cohen_kappa(tables: Table, weights: Table | None = None) -> Table:
    """Cohen's kappa (Cohen 1960), or with weights of the disagreements his weighted kappa (1968): 1 - observed / expected
    disagreement; ``nan`` where none is expected. Weights (labels, labels) are not negative, and 0 on the diagonal.
    """
    cells = np.asarray(tables)
    disagreement = 1 - np.eye(cells.shape[-1]) if weights is None else np.asarray(weights)
    rows, columns = cells.sum(axis=-1), cells.sum(axis=-2)
    observed = (cells * disagreement).sum(axis=(-2, -1)) * cells.sum(axis=(-2, -1))
    expected = ((rows @ disagreement) * columns).sum(axis=-1)
    return 1 - _ratio(observed, expected)


def quadratic_weights(scores: Sequence[float]) -> Table:
    """Squared differences of the labels' scores, as a share of the largest: the weights of quadratic-weighted kappa.

    Equal distances give the usual weights (i - j)². A label of a scale that is never used changes nothing for the others.
    """
    values = np.asarray(scores, dtype=float)
    values = values / (np.abs(values).max(initial=0.0) or 1.0)  # differences of the largest numbers would overflow
    distances = np.abs(values[:, None] - values[None, :])
    return np.asarray((distances / (distances.max(initial=0.0) or 1.0)) ** 2)


def kendall_tau_b(tables: Table) -> Table:
    """Kendall's tau-b (Kendall 1945), which corrects for ties, of labels in their order: (concordant - discordant) /
    sqrt(pairs untied in A * pairs untied in B); ``nan`` where a rater gives one label only."""
    cells = np.asarray(tables)
    below = np.zeros_like(cells)  # of each cell: the sum of the same column over the rows after it
    below[..., :-1, :] = np.flip(np.cumsum(np.flip(cells, -2), -2), -2)[..., 1:, :]
    to_left = np.cumsum(below, -1) - below
    to_right = below.sum(axis=-1, keepdims=True) - below - to_left
    excess = (cells * (to_right - to_left)).sum(axis=(-2, -1))
    totals = (cells.sum(axis=axis) for axis in (-1, -2))  # how often each rater gives each label
    untied = [(total.sum(axis=-1) ** 2 - (total**2).sum(axis=-1)) / 2 for total in totals]
    return _ratio(excess, np.sqrt(untied[0] * untied[1]))


def estimate(tables: Table, statistic: Statistic) -> Figure:
    """A statistic of summed tables, with 95 % percentile bounds of a cluster bootstrap.

    Both are ``nan`` where not defined; the bounds also for fewer than two clusters, as their spread is unknown. There is
    one table (labels, labels) for each cluster: a document, or an item that was rated.
    """
    clusters = np.asarray(tables)
    value = float(statistic(clusters.sum(axis=0)))
    if len(clusters) < 2:
        return Figure(value)
    flat = clusters.reshape(len(clusters), -1)
    used = np.flatnonzero(flat.any(axis=0))  # of a long scale most pairs of labels never occur
    sums = resampled_sums(flat[:, used])
    step = max(1, _BLOCK // flat.shape[1])
    resampled = []
    for start in range(0, len(sums), step):
        block = np.zeros((len(sums[start : start + step]), flat.shape[1]))
        block[:, used] = sums[start : start + step]
        resampled.append(statistic(block.reshape(-1, *clusters.shape[1:])))
    return Figure(value, *spread(np.concatenate(resampled))[:2])


def mean_kappa(
    labels: Iterable[Mapping[str, Sequence[int]]], size: int, quadratic: bool = False
) -> tuple[float | None, int]:
    """Cohen's kappa, the mean over pairs of raters, and the number of items that several rated.

    Args:
        labels: of each item, rater to labels in [0, `size`).
        quadratic: whether disagreements have quadratic weights.

    Returns:
        ``None`` for a kappa without two raters of one item, or without two labels.
    """
    pairs: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    several = 0
    for by_rater in labels:
        several += len(by_rater) > 1
        for first, second in combinations(sorted(by_rater), 2):
            pairs[first, second] += zip(by_rater[first], by_rater[second], strict=True)
    weights = quadratic_weights(range(size)) if quadratic else None
    kappas = [float(cohen_kappa(contingency_table(of_pair, size), weights)) for of_pair in pairs.values()]
    defined = [kappa for kappa in kappas if not math.isnan(kappa)]
    return (fmean(defined) if defined else None), several


def _ratio(top: Table, bottom: Table) -> Table:
    with np.errstate(invalid="ignore"):  # 0/0, never x/0
        return np.asarray(top / bottom)
