"""Kinds of figure: what a document adds to a figure, the figure of all documents, and the difference of two models.

A kind is an object that knows these three and nothing of tasks, files or models. The harness calls it as an aggregation;
comparisons, ranks, reports and leaderboards use :meth:`Aggregation.rows`, :meth:`Aggregation.figure` and
:meth:`Aggregation.differences`. Each kind is a class, next to the score that it is of.

A new kind has a subclass with two methods: :meth:`Aggregation.statistics`, the numbers that a document adds, and
:meth:`Aggregation.of_sums`, the figure of their sums. Bounds and differences follow.

    class GeometricMean(Aggregation):
        def statistics(self, value):
            return [math.log(value), 1.0]

        def of_sums(self, sums):
            return np.exp(sums[..., 0] / sums[..., 1])

Another package names its kinds as entry points of the group ``lm_eval_grounded.kinds``, and in the table of its benchmark.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.statistics.figures import (
    UNDEFINED,
    Figure,
    Rows,
    cluster_of,
)
from custom_metrics.statistics.intervals import resampled_sums, spread, wilson
from custom_metrics.statistics.paired_difference import (
    BOOTSTRAP,
    CLUSTERS,
    NO_DIFFERENCE,
    Floats,
    PairedDifference,
    is_share,
    mean_differences,
    share_differences,
)
from custom_metrics.statistics.strata import (
    across_strata,
    has_shared,
    linearised,
    mean_of_shares,
    mean_of_strata,
)

Strata = Sequence[Mapping[int, Rows]]
"""Of each stratum, such as a language, the rows of the models that have it, by number. All rows of a stratum are of the
same documents in the same order."""


class NotMeasured(ValueError):
    """Values are not those of this kind, or models cannot be compared on it; the message says why."""


class Source(NamedTuple):
    """Where values come from, for kinds that need more than the values."""

    task: str
    provenance: Mapping[str, Any]  # of the task's numbers, from the results file
    metadata: Mapping[str, Any]  # of the task's configuration


class Aggregation:
    """A kind of figure: a function of sums over documents.

    Attributes:
        name: by which results files know it.
        clustered_by: what documents of a run depend on each other by, ``passage`` or ``article``; empty for nothing, or
            where the values say it.
        unit: what is resampled where documents of a run do not depend on each other by that.
        shares_clusters: whether strata can have clusters in common, as languages have passages.
        companions: metrics whose logged values have the counts where its own logged values are plain numbers.
        not_compared: why models are not compared on it; empty where they are.
        corrected: whether it rests on a detector's errors; the harness's table lacks one that is not measurable.
        form: the shape of a document's statistics where no document has any.
    """

    clustered_by = "passage"
    unit = "documents"
    shares_clusters = True
    companions: Sequence[str] = ()
    not_compared = ""
    corrected = False
    form: tuple[int, ...] = (1,)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:  # stands in results files, as the harness writes down the configuration
        return self.name

    def __deepcopy__(self, memo: dict[int, Any]) -> Aggregation:
        return self

    # ------------------------------------------------------------------------------------------------- what a kind is

    def statistics(self, value: Any) -> Any:
        """The numbers that a document adds to the sums, as a list, or nested lists. ``nan``: it does not count."""
        raise NotImplementedError

    def of_sums(self, sums: Floats) -> Floats:
        """The figures of (..., statistics) sums; ``nan`` where they are not defined."""
        raise NotImplementedError

    # ---------------------------------------------------------------------------------------------------- the harness

    def __call__(self, values: Sequence[Any]) -> float:
        """The figure's value. `values` has one entry a document; ``None`` is not in the denominator."""
        return float(self.figure_of(values).value)

    def standard_error(self, values: Sequence[Any]) -> float:
        """The standard error of the figure; ``nan`` where it has none."""
        return float(self.figure_of(values).standard_error)

    def figure_of(self, values: Sequence[Any]) -> Figure:
        """The figure of the documents' values."""
        return self.figure(self.rows(values))

    def shared_rows(self, values: Sequence[Any]) -> Rows | None:
        """The linearised rows of the documents' values; ``None`` where no other task can share clusters with them."""
        return None if self.not_compared or not self.shares_clusters else self.linear(self.rows(values))

    # ------------------------------------------------------------------------------------------------------ documents

    def rows(self, values: Sequence[Any], clusters: Sequence[Any] | None = None, source: Source | None = None) -> Rows:
        """The statistics of each document.

        Args:
            values: as ``process_results`` returns them, or as a samples file has them; ``None`` where a document does not
                count.
            clusters: the name of each document's cluster; default those that the values carry.
            source: where they come from, where that is known.

        Raises:
            NotMeasured: a value has another form.
        """
        carried = [counts if (counts := getattr(value, "counts", None)) is not None else value for value in values]
        parsed = {place: self._parsed(value) for place, value in enumerate(carried) if value is not None}
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
        return [cluster_of(value) for value in values]

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

    # --------------------------------------------------------------------------------------------------------- figures

    def value(self, rows: Rows) -> float:
        """The figure's value alone, without the resamples that bounds need; ``nan`` where it is not defined."""
        sums = self.by_cluster(rows).values
        with np.errstate(invalid="ignore", divide="ignore"):
            return float(self.of_sums(sums.sum(axis=0)[None])[0]) if len(sums) else math.nan

    def figure(self, rows: Rows) -> Figure:
        """The figure, with bounds and standard error by a bootstrap of the clusters. Its ``n`` is :meth:`size`."""
        value, clusters = self.value(rows), self.by_cluster(rows).values
        if math.isnan(value):
            return UNDEFINED
        bounds = (math.nan, math.nan, math.nan)
        if len(clusters) > 1:
            resampled = resampled_sums(clusters.reshape(len(clusters), -1)).reshape(-1, *clusters.shape[1:])
            with np.errstate(invalid="ignore", divide="ignore"):
                bounds = spread(self.of_sums(resampled))
        return Figure(value, *bounds, n=self.size(rows))

    def mean_over(self, strata: Sequence[Figure], error: float = math.nan) -> Figure:
        """The mean over strata of their figures, each of which counts the same. `error` is its standard
        error; default that of independent strata."""
        return mean_of_strata(strata, error)

    def size(self, rows: Rows) -> int:
        """The size of the figure's denominator: the number of documents that count."""
        return int(self.counted(rows).sum())

    # ----------------------------------------------------------------------------------------------------- differences

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
        return self.differences([{0: first, 1: second}], [(0, 1)])[0]

    def differences(self, strata: Strata, pairs: Sequence[tuple[int, int]]) -> list[PairedDifference]:
        """The differences of pairs of models over what counts for both: on a stratum, or on the mean over several, in which
        each counts the same. Of a pair, those strata count that both models have and in which both figures are defined.

        The bounds and p are those of :func:`custom_metrics.statistics.paired_difference.mean_differences`, of the clusters'
        linearised values.
        """
        results: dict[tuple[int, int], PairedDifference] = {}
        for members, columns in self._linear_columns(strata, pairs):
            defined = [{run for run, rows in of.items() if not np.isnan(rows.values).any()} for of in columns]
            by_strata: dict[tuple[int, ...], list[tuple[int, int]]] = {}
            for pair in members:
                by_strata.setdefault(tuple(at for at, runs in enumerate(defined) if runs >= {*pair}), []).append(pair)
            for used, alike in by_strata.items():
                if not used:
                    results |= dict.fromkeys(alike, NO_DIFFERENCE)
                    continue
                models = sorted({run for pair in alike for run in pair})
                values = [np.column_stack([columns[at][run].values for run in models]) for at in used]
                names = [columns[at][models[0]].clusters for at in used]
                if self.shares_clusters and len(used) > 1 and all(names) and has_shared(names):
                    values = [across_strata(values, names)]
                found = mean_differences(values, places_of(alike, models), self.method(any(names)))
                results |= zip(alike, found, strict=True)
        return [results[pair] for pair in pairs]

    def method(self, clustered: bool) -> str:
        """How two models are compared, for the result."""
        return CLUSTERS

    def _linear_columns(
        self, strata: Strata, pairs: Sequence[tuple[int, int]]
    ) -> Iterator[tuple[list[tuple[int, int]], list[dict[int, Rows]]]]:
        """The pairs that have the same documents in common, and the linearised values of their models over these, for each
        stratum that has such documents."""
        counted = [{run: self.counted(rows) for run, rows in stratum.items()} for stratum in strata]
        numbers: dict[bytes, int] = {}
        masks = [{run: numbers.setdefault(mask.tobytes(), len(numbers)) for run, mask in of.items()} for of in counted]
        alike: dict[tuple[frozenset[int], ...], list[tuple[int, int]]] = {}
        for pair in pairs:
            key = tuple(frozenset(of[run] for run in pair) if {*pair} <= of.keys() else frozenset() for of in masks)
            alike.setdefault(key, []).append(pair)
        for key, members in alike.items():
            first, second = members[0]
            runs = dict.fromkeys(run for pair in members for run in pair)
            both = [of[first] & of[second] if common else None for of, common in zip(counted, key, strict=True)]
            yield (
                members,
                [
                    {run: self.linear(stratum[run].only(documents)) for run in runs}
                    for stratum, documents in zip(strata, both, strict=True)
                    if documents is not None and documents.any()
                ],
            )


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
        """The mean. Its standard error is the harness's, s/sqrt(n) with s over n - 1; of documents in clusters, that of a
        ratio of sums (Taylor linearisation)."""
        return super().figure(rows)._replace(standard_error=self._error(rows))

    def _error(self, rows: Rows) -> float:
        numbers = self.linear(rows).values.tolist()
        return stdev(numbers) / math.sqrt(len(numbers)) if len(numbers) > 1 else math.nan

    def linear(self, rows: Rows) -> Rows:
        sums = self.by_cluster(rows)
        return sums._replace(values=linearised(*sums.values.T) if sums.clusters else sums.values[:, 0])

    def method(self, clustered: bool) -> str:
        return CLUSTERS if clustered else BOOTSTRAP

    def differences(self, strata: Strata, pairs: Sequence[tuple[int, int]]) -> list[PairedDifference]:
        """As those of any kind. Of independent documents whose values are all 1.0 or 0.0, the mean is a share, and is
        compared as one (:func:`custom_metrics.statistics.paired_difference.share_differences`)."""
        runs = sorted({run for pair in pairs for run in pair})
        used = [stratum[run] for stratum in strata for run in runs if run in stratum]
        if any(any(rows.clusters) for rows in used) or not is_share([rows.values for rows in used]):
            return super().differences(strata, pairs)
        return share_differences([matrix_of(stratum, runs) for stratum in strata], places_of(pairs, runs))


class Share(Mean):
    """The share of documents whose value is 1.0; of others it is 0.0."""

    def figure(self, rows: Rows) -> Figure:
        """The share, with Wilson's bounds. For documents in clusters they are those of the number of documents that would
        give the standard error over clusters in a simple sample (Korn and Graubard 1998): at most as many as there are, and
        as clusters where it is 0."""
        number, clusters = self.size(rows), len(self.by_cluster(rows).values)
        if not number:
            return UNDEFINED
        share, error, documents = self.value(rows), self._error(rows), float(number)
        if clusters < number:
            documents = min(documents, share * (1 - share) / error**2) if error > 0 else clusters
        return Figure(share, *wilson(share * documents, documents), error, number)

    def mean_over(self, strata: Sequence[Figure], error: float = math.nan) -> Figure:
        return mean_of_shares(strata, error)


class Ratios(Aggregation):
    """The mean of some ratios of sums, or the harmonic mean; by default there is one, of the first sum over the second."""

    form = (2,)
    harmonic = False

    def ratios(self, sums: Floats) -> list[tuple[Floats, Floats]]:
        """The ratios' numerators and denominators, of (..., statistics) sums."""
        return [(sums[..., 0], sums[..., 1])]

    def of_sums(self, sums: Floats) -> Floats:
        values = np.array([top / bottom for top, bottom in self.ratios(sums)])
        return np.asarray(len(values) / (1 / values).sum(axis=0) if self.harmonic else values.mean(axis=0))

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


def places_of(pairs: Sequence[tuple[int, int]], runs: Sequence[int]) -> list[tuple[int, int]]:
    """The places of the pairs' runs among the runs."""
    places = {run: place for place, run in enumerate(runs)}
    return [(places[first], places[second]) for first, second in pairs]


defined_mean = Mean("defined_mean")
defined_share = Share("defined_share")
