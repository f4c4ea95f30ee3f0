"""Kinds of figure: what a document adds to a figure, the figure of all documents, and the difference of two models.

A kind is an object that knows these three and nothing of tasks, files or models. The harness calls it as an aggregation;
comparisons, ranks and reports use :meth:`Aggregation.rows`, :meth:`Aggregation.figure` and :meth:`Aggregation.differences`.
Each kind is a class, next to the score that it is of. A new one has two methods; bounds and differences follow:

    class GeometricMean(Aggregation):
        def statistics(self, value):  # the numbers that a document adds
            return [math.log(value), 1.0]

        def of_sums(self, sums):  # the figure of their sums
            return np.exp(sums[..., 0] / sums[..., 1])

Another package names its kinds as entry points of the group ``lm_eval_grounded.kinds``, and in the table of its benchmark.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import compress
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.statistics import intervals
from custom_metrics.statistics.figures import UNDEFINED, Figure, Rows
from custom_metrics.statistics.paired_difference import (
    BOOTSTRAP,
    CLUSTERS,
    FEWEST,
    NO_DIFFERENCE,
    Differences,
    Floats,
    Form,
    PairedDifference,
    Pairs,
    difference_at,
    figure_bounds,
    freedom_of,
    is_share,
    mean_differences,
    share_differences,
    together,
)
from custom_metrics.statistics.strata import across_strata, has_shared, linearised, mean_of_shares, mean_of_strata

MANY = 300  # clusters from which on bounds of a single figure are the percentiles of its bootstrap, which then hold
Strata = Sequence[Mapping[int, Rows]]  # of each stratum the rows of its models, by number; of the same documents


class NotMeasured(ValueError):
    """Values are not those of this kind, or models cannot be compared on it; the message says why."""


class Source(NamedTuple):
    """Where values come from, for kinds that need more than the values."""

    task: str
    provenance: Mapping[str, Any]  # of the task's numbers, from the results file
    metadata: Mapping[str, Any]  # of the task's configuration


class Linear(NamedTuple):
    """Linearised values of clusters, and what they rest on."""

    values: Floats
    clusters: Sequence[Any]  # their names
    informing: NDArray[np.bool_]  # which add to a denominator: the others say nothing of the figure
    scatter: Floats  # the part that each is expected to have in the variance: by what it adds to the denominators
    fewest: int  # clusters that add to the same denominator


def _freedom(columns: Sequence[Mapping[int, Linear]], pair: tuple[int, int], used: Sequence[Any], names: Any) -> float:
    """The degrees of freedom of a pair's difference over the clusters that are `used`; 0 where these are too few."""
    models = [[of[run] for run in pair] for of in columns]
    if min(model.fewest for of in models for model in of) < FEWEST and len(columns) == 1:
        return 0.0
    values, scatter = [], []
    for (first, second), informing in zip(models, used, strict=True):
        values.append(rescaled(first.values, informing) - rescaled(second.values, informing))
        scatter.append((first.scatter + second.scatter)[informing])
    if names:
        flat = [name or (place, row) for place, of in enumerate(names) for row, name in enumerate(of)]
        values = [across_strata([of[:, None] for of in values], names)[:, 0]]
        scatter = [intervals.sums_by_cluster(np.concatenate(scatter), flat)]
    return freedom_of(values, scatter)


def rescaled(values: Floats, informing: NDArray[np.bool_]) -> Floats:
    """The linearised values of the clusters that inform; the others add nothing, and the mean of the rest stays."""
    if informing.all():
        return values
    figure = values.mean()
    return np.asarray(figure + (values[informing] - figure) * (informing.sum() / len(values)))


class Aggregation:
    """A kind of figure: a function of sums over documents. Results files know it by its `name`."""

    clustered_by = "passage"  # what documents depend on each other by, or "article"; "": nothing, or the values say it
    unit = "documents"  # what is resampled where documents do not depend on each other by that
    shares_clusters = True  # whether strata can have clusters in common, as languages have passages
    companions: Sequence[str] = ()  # metrics whose logged values have the counts where its own are plain numbers
    not_compared = ""  # why models are not compared on it; empty where they are
    corrected = False  # whether it rests on a detector's errors; the harness's table lacks one that is not measurable
    form: tuple[int, ...] = (1,)  # the shape of a document's statistics where no document has any
    is_rate = False  # whether the figure is between 0 and 1

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:  # stands in results files, as the harness writes down the configuration
        return self.name

    def __deepcopy__(self, memo: dict[int, Any]) -> Aggregation:
        return self

    def statistics(self, value: Any) -> Any:
        """The numbers that a document adds to the sums, as a list, or nested lists. ``nan``: it does not count."""
        raise NotImplementedError

    def of_sums(self, sums: Floats) -> Floats:
        """The figures of (..., statistics) sums; ``nan`` where they are not defined."""
        raise NotImplementedError

    def __call__(self, values: Sequence[Any]) -> float:
        """The figure's value. `values` has one entry a document; ``None`` is not in the denominator."""
        return float(self.figure_of(values).value)

    def figure_of(self, values: Sequence[Any]) -> Figure:
        """The figure of the documents' values."""
        return self.figure(self.rows(values))

    def shared_rows(self, values: Sequence[Any]) -> Rows | None:
        """The linearised rows of the documents' values; ``None`` where no other task can share clusters with them."""
        return None if self.not_compared or not self.shares_clusters else self.linear(self.rows(values))

    def rows(self, values: Sequence[Any], clusters: Sequence[Any] | None = None, source: Source | None = None) -> Rows:
        """The statistics of each document.

        Args:
            values: as ``process_results`` returns them, or as a samples file has them; ``None`` does not count.
            clusters: the name of each document's cluster; default those that the values carry.
            source: where they come from, where that is known.

        Raises:
            NotMeasured: a value has another form.
        """
        carried = [counts if (counts := getattr(value, "counts", None)) is not None else value for value in values]
        objects = {id(value): value for value in carried if value is not None}  # few, where a file was read
        statistics_of = {key: self._parsed(value) for key, value in objects.items()}
        parsed = {place: statistics_of[id(value)] for place, value in enumerate(carried) if value is not None}
        shapes = {statistics.shape for statistics in parsed.values()}
        if len(shapes) > 1:
            raise NotMeasured("the values of its documents have several forms")
        statistics = np.full((len(values), *(shapes.pop() if shapes else self.form)), math.nan)
        if parsed:
            statistics[[*parsed]] = [*parsed.values()]
        return Rows(statistics, self.cluster_names(carried) if clusters is None else clusters)

    def _parsed(self, value: Any) -> Floats:
        try:
            return np.asarray(self.statistics(value), dtype=float)
        except NotMeasured:
            raise
        except (TypeError, ValueError, LookupError, OverflowError) as error:
            raise NotMeasured(f"the values are not those of {self.name}: {value!r:.60} ({error})") from error

    def cluster_names(self, values: Sequence[Any]) -> Sequence[Any]:
        """The name of each document's cluster, which its value carries."""
        return [getattr(value, "cluster", "") for value in values]

    def counted(self, rows: Rows) -> NDArray[np.bool_]:
        """(documents,) whether a document counts."""
        return np.asarray(~np.isnan(rows.values).any(axis=tuple(range(1, rows.values.ndim))))

    def by_cluster(self, rows: Rows) -> Rows:
        """The sums of each cluster over its documents that count, ordered by name; the documents where none has a name."""
        rows = rows.only(self.counted(rows))
        if not any(rows.clusters):
            return rows._replace(clusters=())
        names = [name or (place,) for place, name in enumerate(rows.clusters)]
        order = {name: place for place, name in enumerate(sorted({*names}, key=str))}
        sums = np.zeros((len(order), *rows.values.shape[1:]))
        np.add.at(sums, [order[name] for name in names], rows.values)
        return rows._replace(values=sums, clusters=[name if isinstance(name, str) else "" for name in order])

    def value(self, rows: Rows) -> float:
        """The figure's value alone, without the resamples that bounds need; ``nan`` where it is not defined."""
        sums = self.by_cluster(rows).values
        with np.errstate(invalid="ignore", divide="ignore"):
            return float(self.of_sums(sums.sum(axis=0)[None])[0]) if len(sums) else math.nan

    def figure(self, rows: Rows) -> Figure:
        """The figure, with bounds and standard error by a bootstrap of the clusters that inform; of fewer than :data:`MANY`
        the bounds are :func:`custom_metrics.statistics.paired_difference.figure_bounds`. Its ``n`` is :meth:`size`."""
        value, clusters = self.value(rows), self.by_cluster(rows).values
        if math.isnan(value):
            return UNDEFINED
        low = high = error = math.nan
        linear = self._linear(rows)
        clusters = clusters[linear.informing]
        if len(clusters) > 1:
            resampled = intervals.resampled_sums(clusters.reshape(len(clusters), -1)).reshape(-1, *clusters.shape[1:])
            with np.errstate(invalid="ignore", divide="ignore"):
                low, high, error = intervals.spread(self.of_sums(resampled))
        if 0 < len(clusters) < MANY:
            positive = isinstance(self, Mean) and bool((rows.values[self.counted(rows)] >= 0).all())
            form: Form = "rate" if self.is_rate else "positive" if positive else ""
            values = rescaled(linear.values, linear.informing)
            freedom = freedom_of([values], [linear.scatter[linear.informing]])
            low, high = (float(ends[0]) for ends in figure_bounds(values[:, None], form, freedom))
            if linear.fewest < FEWEST:
                low = high = math.nan
        return Figure(value, low, high, error, n=self.size(rows))

    def additions(self, clusters: Rows, linear: Floats) -> tuple[Floats, Floats]:
        """What each cluster adds to the parts of a figure, such as the ratios of a mean of them: to its value, and to its
        denominator, each (parts, clusters). By default there is one part, and all denominators are alike."""
        return (linear - linear.mean())[None] / len(linear), np.ones((1, len(linear)))

    def _linear(self, rows: Rows) -> Linear:
        linear = self.linear(rows)
        if not len(linear.values):
            return Linear(linear.values, linear.clusters, np.zeros(0, dtype=bool), np.zeros(0), 0)
        added, denominators = self.additions(self.by_cluster(rows), linear.values)
        adds = denominators != 0
        with np.errstate(invalid="ignore", divide="ignore"):
            # between words that are independent (a power of 1) and passages that are alike throughout (2)
            parts = denominators**1.5
            shares = parts / parts.sum(axis=1, keepdims=True)
        scatter = np.nansum((added**2).sum(axis=1, keepdims=True) * shares, axis=0)
        fewest = min(adds.sum(axis=1).tolist(), default=0)
        return Linear(linear.values, linear.clusters, adds.any(axis=0), scatter, fewest)

    def mean_over(self, strata: Sequence[Figure], error: float = math.nan) -> Figure:
        """The mean over strata of their figures. `error` is its standard error; default that of independent strata."""
        return mean_of_strata(strata, error)

    def size(self, rows: Rows) -> int:
        """The size of the figure's denominator: the number of documents that count."""
        return int(self.counted(rows).sum())

    def linear(self, rows: Rows) -> Rows:
        """Numbers whose mean is the figure, one a cluster: the figure, and what the cluster adds to it; ``nan`` where the
        figure is not defined. Those of a function of sums are the jackknife's (Efron and Stein 1981)."""
        clusters = self.by_cluster(rows)
        sums, number = clusters.values, len(clusters.values)
        if not number:
            return clusters._replace(values=np.empty(0))
        with np.errstate(invalid="ignore", divide="ignore"):
            whole, without = self.of_sums(sums.sum(axis=0)[None]), self.of_sums(sums.sum(axis=0) - sums)
        added = (number - 1) * (without.mean() - without) if number > 1 else 0.0
        return clusters._replace(values=whole + added)

    def reread(self, doc: Mapping[str, Any], answer: Any) -> Any:
        """The value of a document from its logged answer, where the logged values lack it; ``None`` where it has none."""
        return None

    def check(self, runs: Mapping[str, Rows]) -> Mapping[str, str]:
        """Check that models, by name, can be compared by their rows of a task; else raise NotMeasured. Of several models,
        those that cannot be compared with the others are returned, with the reason."""
        if self.not_compared:
            raise NotMeasured(self.not_compared)
        return {}

    def difference(self, first: Rows, second: Rows) -> PairedDifference:
        """The difference of two models over the same documents."""
        return difference_at(self.differences([{0: first, 1: second}], [(0, 1)]), 0)

    def differences(self, strata: Strata, pairs: Pairs) -> Differences:
        """The differences of pairs of models over what counts for both: on a stratum, or on the mean over several, in which
        each counts the same. Of a pair, those strata count that both models have and in which both figures are defined.
        Bounds and p are those of :func:`custom_metrics.statistics.paired_difference.mean_differences`."""
        counted = [{run: self.counted(rows) for run, rows in stratum.items()} for stratum in strata]
        numbers: dict[bytes, int] = {}
        masks = [{run: numbers.setdefault(mask.tobytes(), len(numbers)) for run, mask in of.items()} for of in counted]
        linears: dict[tuple[int, int, Any], Linear] = {}  # of a model in a stratum, over some documents
        alike: dict[Any, list[tuple[int, int]]] = {}  # pairs with the same documents, and the same clusters that inform
        numbered = [(int(first), int(second)) for first, second in pairs]
        for first, second in numbered:
            in_both = [(at, of) for at, of in enumerate(masks) if first in of and second in of]
            places, used, informing = [(at, frozenset((of[first], of[second]))) for at, of in in_both], [], b""
            for at, documents in places:
                for run in (first, second):
                    if (at, run, documents) not in linears:
                        both = counted[at][first] & counted[at][second]
                        linears[at, run, documents] = self._linear(strata[at][run].only(both))
                one, other = linears[at, first, documents], linears[at, second, documents]
                if len(one.values) and not (np.isnan(one.values).any() or np.isnan(other.values).any()):
                    used.append((at, documents))
                    informing += (one.informing | other.informing).tobytes()
            alike.setdefault((tuple(places), tuple(used), informing), []).append((first, second))
        results: dict[tuple[int, int], Any] = {}
        for (_, used, _), members in alike.items():
            runs = sorted({run for pair in members for run in pair})
            columns = [{run: linears[at, run, documents] for run in runs} for at, documents in used]
            found = self._differences_over(columns, members, runs) if used else [NO_DIFFERENCE] * len(members)
            results |= zip(members, found, strict=True)
        return together([results[pair] for pair in numbered])

    def _differences_over(
        self, columns: Sequence[Mapping[int, Linear]], pairs: Sequence[tuple[int, int]], runs: Sequence[int]
    ) -> Differences:
        """The differences of pairs over strata in which the same clusters inform."""
        first, second = pairs[0]
        informing = [of[first].informing | of[second].informing for of in columns]
        values = [
            np.column_stack([rescaled(of[run].values, used) for run in runs])
            for of, used in zip(columns, informing, strict=True)
        ]
        names = [[*compress(of[first].clusters, used)] for of, used in zip(columns, informing, strict=True)]
        shared = self.shares_clusters and len(names) > 1 and all(names) and has_shared(names)
        if shared:
            values = [across_strata(values, names)]
        freedom = [_freedom(columns, pair, informing, names if shared else ()) for pair in pairs]
        return mean_differences(values, places_of(pairs, runs), self.method(any(names)), freedom)

    def method(self, clustered: bool) -> str:
        """How two models are compared, for the result."""
        return CLUSTERS


class Mean(Aggregation):
    """The mean of the documents' numbers."""

    of_numbers = True  # whether the documents' values are numbers, not what numbers are computed from

    def statistics(self, value: Any) -> float:
        if not isinstance(value, (bool, int, float)):
            raise NotMeasured(f"the values are {type(value).__name__}, not numbers")
        return float(value) if math.isfinite(value) else math.nan

    def rows(self, values: Sequence[Any], clusters: Sequence[Any] | None = None, source: Source | None = None) -> Rows:
        rows = [math.nan if value is None else self.statistics(value) for value in values]
        return Rows(np.array(rows, dtype=float), self.cluster_names(values) if clusters is None else clusters)

    def by_cluster(self, rows: Rows) -> Rows:
        """(clusters, 2) sums of the numbers, and how many there are."""
        return super().by_cluster(rows._replace(values=np.column_stack([rows.values, np.ones(len(rows.values))])))

    def of_sums(self, sums: Floats) -> Floats:
        return np.asarray(sums[..., 0] / sums[..., 1])

    def value(self, rows: Rows) -> float:
        numbers = rows.values[self.counted(rows)].tolist()
        return fmean(numbers) if numbers else math.nan

    def figure(self, rows: Rows) -> Figure:
        """The mean. Its standard error is s/sqrt(n) with s over n - 1; in clusters, that of a ratio of sums."""
        return super().figure(rows)._replace(standard_error=self._error(rows))

    def _error(self, rows: Rows) -> float:
        numbers = self.linear(rows).values.tolist()
        return stdev(numbers) / math.sqrt(len(numbers)) if len(numbers) > 1 else math.nan

    def linear(self, rows: Rows) -> Rows:
        sums = self.by_cluster(rows)
        return sums._replace(values=linearised(*sums.values.T) if sums.clusters else sums.values[:, 0])

    def additions(self, clusters: Rows, linear: Floats) -> tuple[Floats, Floats]:
        return super().additions(clusters, linear)[0], clusters.values[None, :, 1]

    def method(self, clustered: bool) -> str:
        return CLUSTERS if clustered else BOOTSTRAP


class Score(Mean):
    """The mean of numbers between 0 and 1."""

    is_rate = True

    def figure(self, rows: Rows) -> Figure:
        """The mean. Independent numbers between 0 and 1 vary no more than a share, whose bounds limit theirs."""
        figure, number = super().figure(rows), self.size(rows)
        if number < FEWEST or len(self.by_cluster(rows).values) < number:
            return figure
        low, high = intervals.clopper_pearson(figure.value * number, number)  # alone where resamples give none
        return figure._replace(low=float(np.fmax(figure.low, low)), high=float(np.fmin(figure.high, high)))


class Share(Mean):
    """The share of documents whose value is 1.0; of others it is 0.0."""

    def figure(self, rows: Rows) -> Figure:
        """The share, with Wilson's bounds; those of documents in clusters are of unequal units."""
        number, clusters = self.size(rows), self.by_cluster(rows).values
        if not number:
            return UNDEFINED
        if len(clusters) < number:
            low, high, error = map(float, intervals.share_of_clusters(*clusters.T))
            return Figure(self.value(rows), low, high, error, number)
        share = self.value(rows)
        return Figure(share, *intervals.wilson(share * number, number), self._error(rows), number)

    def mean_over(self, strata: Sequence[Figure], error: float = math.nan) -> Figure:
        return mean_of_shares(strata, error)

    def differences(self, strata: Strata, pairs: Pairs) -> Differences:
        """Of independent documents those of shares (:func:`custom_metrics.statistics.paired_difference.share_differences`).
        Of documents in clusters those of any kind; where resamples of one stratum give no bounds, as where nothing differs,
        those of both shares (:func:`custom_metrics.statistics.intervals.difference_of_clusters`)."""
        runs = runs_of(pairs)
        used = [stratum[run] for stratum in strata for run in runs if run in stratum]
        if not any(any(rows.clusters) for rows in used) and is_share([rows.values for rows in used]):
            return share_differences([matrix_of(stratum, runs) for stratum in strata], places_of(pairs, runs))
        found = super().differences(strata, pairs)
        unbounded = np.isnan(found.low) & ~np.isnan(found.difference) if len(strata) == 1 else ()
        for place in np.flatnonzero(unbounded).tolist():
            one, other = (strata[0][run] for run in pairs[place])
            both = self.counted(one) & self.counted(other)
            (hits, sizes), (others, _) = (self.by_cluster(rows.only(both)).values.T for rows in (one, other))
            bounds = intervals.difference_of_clusters(hits, others, sizes)
            found["low"][place], found["high"][place], found["p"][place] = bounds
            found["method"][place] = intervals.BOUNDS_OF_BOTH
        return found


class Ratios(Aggregation):
    """The mean of some ratios of sums, or the harmonic mean; by default there is one, of the first sum over the second."""

    form = (2,)
    harmonic = False

    def statistics(self, value: Any) -> Any:
        """By default a document's value is (numerator, denominator)."""
        return value

    def ratios(self, sums: Floats) -> list[tuple[Floats, Floats]]:
        """The ratios' numerators and denominators, of (..., statistics) sums."""
        return [(sums[..., 0], sums[..., 1])]

    def of_sums(self, sums: Floats) -> Floats:
        values = np.array([top / bottom for top, bottom in self.ratios(sums)])
        return np.asarray(len(values) / (1 / values).sum(axis=0) if self.harmonic else values.mean(axis=0))

    def additions(self, clusters: Rows, linear: Floats) -> tuple[Floats, Floats]:
        ratios = [np.reshape(ratio, (2, len(clusters.values), -1)) for ratio in self.ratios(clusters.values)]
        tops, bottoms = np.concatenate(ratios, axis=2).transpose(0, 2, 1)
        used = bottoms.sum(axis=1) != 0
        values = linearised(tops[used].T, bottoms[used].T).T
        means = values.mean(axis=1, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            slopes = (len(means) / np.sum(1 / means) / means) ** 2 if self.harmonic else np.ones_like(means)
        return np.nan_to_num(slopes) * (values - means) / values.size, bottoms[used]

    def linear(self, rows: Rows) -> Rows:
        """By Taylor linearisation (:func:`custom_metrics.statistics.strata.linearised`)."""
        clusters = self.by_cluster(rows)
        if not len(clusters.values):
            return clusters._replace(values=np.empty(0))
        values = np.array([linearised(*ratio) for ratio in self.ratios(clusters.values)])
        if not self.harmonic:
            return clusters._replace(values=values.mean(axis=0))
        means = values.mean(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = len(means) / np.sum(1 / means)
            slopes = (mean / means) ** 2 / len(means)
        # a ratio of 0 has no slope, and no values but 0
        return clusters._replace(values=mean + np.nan_to_num(slopes) @ (values - means[:, None]))


def matrix_of(stratum: Mapping[int, Rows], runs: Sequence[int]) -> Floats:
    """(documents, runs) values of a stratum; ``nan`` for a run without it."""
    absent = np.full(len(next(iter(stratum.values())).values), math.nan)
    return np.column_stack([stratum[run].values if run in stratum else absent for run in runs])


def runs_of(pairs: Pairs) -> list[int]:
    """The numbers of the pairs' runs, in order."""
    return list(np.unique(np.asarray(pairs)).tolist())


def places_of(pairs: Pairs, runs: Sequence[int]) -> NDArray[np.int64]:
    """The places of the pairs' runs among the sorted runs."""
    return np.searchsorted(runs, np.asarray(pairs))


defined_mean = Mean("defined_mean")
defined_score = Score("defined_score")
defined_share = Share("defined_share")
