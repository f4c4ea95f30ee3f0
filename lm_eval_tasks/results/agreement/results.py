"""Results of a comparison of raters, and their table."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from custom_metrics.statistics.agreement import Estimate, estimate
from custom_metrics.statistics.intervals import sums_by_cluster
from lm_eval_tasks.results.agreement.raters import shown

__all__ = ["Comparison", "Result", "Statistics", "Table", "estimates_of", "means", "table"]

Table: TypeAlias = "np.ndarray[Any, Any]"
Statistics: TypeAlias = Mapping[str, Callable[[Table], Table] | None]  # None: makes no sense for these labels


@dataclass(frozen=True)
class Result:
    """Two raters compared on an aspect or in a language; or the plain mean of such pairs, which has no bounds.

    Attributes:
        raters: both names, or ``mean of N pairs``.
        group: the aspect, or ``all aspects`` together; or the language; ``-`` where there is none.
        counts: ``items`` rated by both, and ``unread`` by one of them; or ``documents`` and their ``words``, and the
            documents that could not be compared: ``unread`` (no tagged text), ``dropped`` (a copy of something else).
        estimates: by name of the statistic.
    """

    raters: str
    group: str
    counts: Mapping[str, int]
    estimates: Mapping[str, Estimate]


@dataclass(frozen=True)
class Comparison:
    """Results in the order of the pairs, then the means; and what a reader of them must know."""

    kind: str
    results: tuple[Result, ...]
    notes: tuple[str, ...]


def estimates_of(
    tables: Sequence[Table], statistics: Statistics, labels: int, clusters: Sequence[str] | None = None
) -> dict[str, Estimate]:
    """Each statistic of the stacked tables of a pair, with its bounds; ``nan`` where it makes no sense.

    Args:
        tables: one a document.
        statistics: by name.
        labels: how many there are.
        clusters: of each document, what it is drawn together with.
    """
    stacked = sums_by_cluster(np.array(tables), clusters) if tables else np.zeros((1, labels, labels))
    unknown = Estimate(math.nan, math.nan, math.nan)
    return {name: estimate(stacked, statistic) if statistic else unknown for name, statistic in statistics.items()}


def means(results: Iterable[Result]) -> list[Result]:
    """The plain mean over pairs, for each aspect or language that several pairs share; ``nan`` where one of them is."""
    groups: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        groups[result.group].append(result)
    return [
        Result(
            f"mean of {len(pairs)} pairs",
            group,
            {},
            {
                name: Estimate(float(np.mean([pair.estimates[name].value for pair in pairs])), math.nan, math.nan)
                for name in pairs[0].estimates
            },
        )
        for group, pairs in groups.items()
        if len(pairs) > 1
    ]


def table(comparison: Comparison) -> str:
    """A comparison as a table to read, notes below; ``-`` where a statistic is not defined."""
    first = comparison.results[0]
    lines = [["raters", "language" if comparison.kind == "tags" else "aspect", *first.counts, *first.estimates]]
    lines += [
        [
            shown(result.raters),
            shown(result.group),
            *(str(result.counts.get(name, "")) for name in first.counts),
            *map(_in_digits, result.estimates.values()),
        ]
        for result in comparison.results
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = [str.ljust, str.ljust, *[str.rjust] * len(first.counts), *[str.ljust] * len(first.estimates)]
    rows = ["  ".join(f(cell, w) for f, cell, w in zip(aligned, line, widths, strict=True)).rstrip() for line in lines]
    clusters = "texts" if comparison.kind == "tags" else "ids"
    return "\n".join([*rows, "", *comparison.notes, f"In brackets: 95 % bounds, from a bootstrap over {clusters}."])


def _in_digits(figure: Estimate) -> str:
    if math.isnan(figure.value):
        return "-"
    return f"{figure.value:.3f}" + ("" if math.isnan(figure.low) else f" [{figure.low:.3f}, {figure.high:.3f}]")
