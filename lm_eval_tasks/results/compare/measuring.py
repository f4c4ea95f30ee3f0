"""A metric's values, document by document, and two models' difference on them."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custom_metrics.hallucination import flagged_words, rogan_gladen_rate
from custom_metrics.paired_rates import RATES, RateStratum, compare_rates, compare_ratios, values_of_ratios
from custom_metrics.scores.judging import ASPECTS
from custom_metrics.statistics.multiple_comparisons import is_share
from custom_metrics.statistics.paired_difference import (
    ITERATIONS,
    NO_DIFFERENCE,
    Floats,
    PairedDifference,
    compare_means,
)
from custom_metrics.statistics.paired_shares import compare_shares
from custom_metrics.statistics.random_effects import SEED_OF_ERRORS, Errors
from detector_plugin import calibration as calibrations
from lm_eval_tasks.detection.calibrated import CalibrationKey, errors_of, in_force
from lm_eval_tasks.results.compare.joining import JoinedTask, calibrations_of
from lm_eval_tasks.runs import Answers, Readings

_WORD_SCORES = {
    # numerator and denominator of summed tp, fp, fn, tn
    "precision": ((1, 0, 0, 0), (1, 1, 0, 0)),
    "recall": ((1, 0, 0, 0), (1, 0, 1, 0)),
    "f1": ((2, 0, 0, 0), (2, 1, 1, 0)),
}
_OF_DETECTOR = (*RATES, "hallucinated_share", "hallucinated_words")  # metrics that count what a detector tagged
_SEVERAL_FORMS = "the values of its documents have several forms"


class NotMeasured(ValueError):
    """Why a metric has no values that can be compared."""


@dataclass(frozen=True)
class Measured:
    """A metric of a task, over all documents of all runs.

    The values of a run are (documents,) numbers, whose mean the figure is; or (documents, ratios, 2) numerators and
    denominators, where it is a ratio of sums. They are ``nan`` where a document does not count.
    """

    metric: str
    values: Mapping[int, Floats]  # by the number of the run
    clusters: NDArray[np.int64]  # (documents,) numbers of what is drawn together
    unit: str  # what the clusters are
    names: Sequence[
        str
    ] = ()  # of clusters, by their number; one of several tasks is drawn once. Empty: each has its own
    annotated: Floats | None = (
        None  # (documents, ratios) what there is to find in each category; absent ones do not count
    )
    harmonic: bool = False  # whether the figure is the harmonic mean of the ratios, not their mean
    errors: Errors | None = None  # of the detector, where a calibration corrects the ratio

    @property
    def is_mean(self) -> bool:
        """Whether the figure is a mean of the documents' numbers, and no ratio of sums."""
        return next(iter(self.values.values())).ndim == 1

    def counted(self, run: int) -> NDArray[np.bool_]:
        """(documents,): whether a document counts for a run."""
        values = self.values.get(run)
        if values is None:
            return np.zeros(len(self.clusters), dtype=bool)
        return np.asarray(~np.isnan(values.reshape(len(values), -1)).any(axis=1))

    def own(self, run: int) -> float:
        """The value over all documents that count for a run; ``nan`` where none does."""
        counted = self.counted(run)
        if not counted.any():
            return math.nan
        rows = self.rows(run, counted)
        if self.is_mean:
            return float(rows.mean())
        top, bottom = np.moveaxis(rows.sum(axis=0), -1, 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios = top / bottom
            share = float(len(ratios) / np.sum(1 / ratios) if self.harmonic else np.mean(ratios))
        if self.errors is None:
            return share
        if self.metric == RATES[1]:
            return self.errors.ratio * share
        return rogan_gladen_rate(share, self.errors.true_positive_rate, self.errors.false_positive_rate)

    def numbers(self, run: int) -> Floats:
        """Numbers whose mean is the run's value, without a correction of the detector's errors: one a document, ``nan``
        where it does not count; or one a cluster. Runs over the same documents have them in the same order."""
        if self.is_mean:
            return self.values[run]
        everything = np.ones(len(self.clusters), dtype=bool)
        whole = replace(self, values={run: np.nan_to_num(self.values[run])})
        return values_of_ratios(whole.rows(run, everything), self.harmonic)

    def rows(self, run: int, documents: NDArray[np.bool_]) -> Floats:
        """(documents,) numbers, or (clusters, ratios, 2) of the clusters that have one of the documents."""
        parts = self.values[run][documents]
        if self.is_mean:
            return parts
        places, rows = np.unique(self.clusters[documents], return_inverse=True)
        sums = np.zeros((len(places), *parts.shape[1:]))
        np.add.at(sums, rows, parts)
        if self.metric.startswith("win_rate"):  # each question counts the same, however many verdicts it has
            has = sums[..., 1] > 0
            return np.stack([np.divide(sums[..., 0], sums[..., 1], out=np.zeros(has.shape), where=has), has], axis=-1)
        if self.annotated is not None:  # a category that occurs and is never flagged counts as 0
            sums = sums[:, self.annotated[documents].sum(axis=0) > 0]
            sums[:, sums[..., 1].sum(axis=0) == 0, 1] = 1.0
        return sums


def compare_measured(tasks: Sequence[Measured], first: int, second: int) -> PairedDifference:
    """Two models on a metric of one task, or on the mean over several tasks."""
    common = [task.counted(first) & task.counted(second) for task in tasks]
    pairs = [(task.rows(first, both), task.rows(second, both)) for task, both in zip(tasks, common, strict=True)]
    if tasks[0].is_mean:
        shares = all(is_share([task.values[first], task.values[second]]) for task in tasks)
        return compare_shares(pairs) if shares else compare_means(pairs)
    used = [part for part in zip(tasks, common, pairs, strict=True) if part[1].any()]
    if not used:
        return NO_DIFFERENCE
    if tasks[0].errors is not None:
        strata = [RateStratum(one[:, 0], other[:, 0], task.errors) for task, _, (one, other) in used]
        return compare_rates(strata, tasks[0].metric)
    names = None
    if len(used) > 1 and all(task.names for task, *_ in used):
        names = [[task.names[place] for place in np.unique(task.clusters[both])] for task, both, _ in used]
    return compare_ratios([pair for *_, pair in used], tasks[0].harmonic, clusters=names)


def measure(task: JoinedTask, metric: str, filter_name: str, aggregation: str, corrected: bool = True) -> Measured:
    """A metric of a joined task. A rate that a calibration corrects is the share of words flagged where not `corrected`.

    Raises:
        NotMeasured: it cannot be compared.
    """
    read = task.readings(filter_name)
    if metric in _OF_DETECTOR and (models := _of_unknown_detectors(task, read, metric)):
        raise NotMeasured(
            f"nothing says which detector, version and threshold tagged the answers of {', '.join(models)}; "
            f"tag those of all alike (`lm-eval-grounded score RUN -o DIR`)"
        )
    if metric in RATES or metric == "hallucinated_share":
        return _rate(task, metric, filter_name, corrected)
    if aggregation in _WORD_SCORES:
        return _word_score(task, metric, filter_name, aggregation)
    columns = [column for readings in read.values() if (column := readings.columns.get(metric)) is not None]
    first = next((value for column in columns for _, value in column.other_values()), None)
    if first is not None and _is_of_judge(first):
        rated = first[1] in ASPECTS
        found = _measured(task, filter_name, metric, partial(_arrays, metric=metric, array_of=_of_judge))
        questions = {
            number: [part.answers.ids.get(at, key) for at, key in enumerate(part.answers.keys)]
            for number, part in task.parts.items()
        }
        return replace(_in_clusters(task, found, questions, "questions"), names=(), harmonic=rated)
    return _by_passage(task, _measured(task, filter_name, metric, partial(_numbers, metric=metric)))


def _of_unknown_detectors(task: JoinedTask, read: Mapping[int, Readings], metric: str) -> list[str]:
    """The models of runs that do not say which detector tagged their answers: neither their results file does, nor the key
    of a calibration in their values. Others are refused where they differ; these may differ, or not."""
    models = []
    for number, readings in read.items():
        column = readings.columns.get(metric)
        if column is None or task.parts[number].run.detector:
            continue
        unknown = column.known
        for documents in calibrations_of(readings).values():
            unknown[documents] = False
        if unknown.any():
            models.append(task.parts[number].model)
    return models


def _measured(
    task: JoinedTask,
    filter_name: str,
    metric: str,
    values_of: Callable[[Answers, Readings], Floats | None],
    shape: tuple[int, ...] = (),
) -> Measured:
    """A metric's values by the numbers of the documents, each of which is drawn by itself; `values_of` gives (answers, ...)
    values of a run, ``nan`` where an answer has none. `shape` is that of a document's values where no run has any."""
    read = task.readings(filter_name)
    if not read:
        raise NotMeasured("no answer was read")
    found = {number: values_of(task.parts[number].answers, readings) for number, readings in read.items()}
    shapes = {values.shape[1:] for values in found.values() if values is not None} or {shape}
    if len(shapes) > 1:
        raise NotMeasured(_SEVERAL_FORMS)
    (shape,) = shapes
    values = {}
    for number, of_run in found.items():
        values[number] = np.full((len(task.documents), *shape), np.nan)
        if of_run is not None:
            values[number][task.parts[number].places] = of_run
    return Measured(metric, values, np.arange(len(task.documents)), "documents")


def _in_clusters(task: JoinedTask, found: Measured, named: Mapping[int, Sequence[str]], unit: str) -> Measured:
    """Values whose documents are drawn by the names of what they belong to, in the order of the names."""
    names = np.full(len(task.documents), "", dtype=object)
    for number, of_run in named.items():
        names[task.parts[number].places] = of_run
    known, clusters = np.unique(names, return_inverse=True)
    return replace(found, clusters=clusters, names=tuple(known.tolist()), unit=unit)


def _by_passage(task: JoinedTask, found: Measured) -> Measured:
    """The values of an annotated task by passage: rows of one text, or page, hang together, in several tasks as well.
    Numbers then are ratios of sums to numbers of documents. Of other tasks the values stay as they are."""
    passages = {number: named for number, part in task.parts.items() if (named := part.answers.passages)}
    clustered = _in_clusters(task, found, passages, "passages")
    if not passages or not all(clustered.names):
        return found
    unit = clustered.unit if len(clustered.names) < len(task.documents) else found.unit
    values = found.values
    if found.is_mean:
        values = {
            number: np.stack([part, np.where(np.isnan(part), np.nan, 1.0)], axis=-1)[:, None]
            for number, part in values.items()
        }
    return replace(clustered, values=values, unit=unit)


def _number(value: Any) -> float:
    if value is None:
        return math.nan
    if isinstance(value, (bool, int, float)):
        number = float(value)
        return number if math.isfinite(number) else math.nan
    raise NotMeasured(f"the values are {type(value).__name__}, not numbers")


def _numbers(answers: Answers, readings: Readings, metric: str) -> Floats | None:
    """(answers,): a number each, ``nan`` for what is not finite."""
    column = readings.columns.get(metric)
    if column is None:
        return None
    if (first := next(column.other_values(), None)) is not None:
        _number(first[1])
    return np.where(np.isfinite(column.numbers), column.numbers, np.nan)


def _arrays(answers: Answers, readings: Readings, metric: str, array_of: Callable[[Any], Floats]) -> Floats | None:
    """(answers, ...) arrays of a metric's values, one by one."""
    column = readings.columns.get(metric)
    values = enumerate(column.values()) if column is not None else ()
    arrays = {document: array_of(value) for document, value in values if value is not None}
    shapes = {array.shape for array in arrays.values()}
    if len(shapes) > 1:
        raise NotMeasured(_SEVERAL_FORMS)
    if not shapes:
        return None
    stacked = np.full((len(answers), *shapes.pop()), np.nan)
    stacked[[*arrays]] = [*arrays.values()]
    return stacked


def _is_of_judge(value: Any) -> bool:
    """Whether a value is one of :mod:`custom_metrics.scores.judging`: the question, then an aspect and its rating, whether
    it is in the share and in the denominator, or whether it was won (``None``: by nobody)."""
    if not isinstance(value, list) or len(value) not in (2, 3) or not isinstance(value[0], (str, int)):
        return False
    numbers = value[2:] if len(value) == 3 and value[1] in ASPECTS else value[1:]
    return all(part is None or isinstance(part, (int, float)) for part in numbers)


def _of_judge(value: Any) -> Floats:
    """(aspects or 1, 2): numerator and denominator."""
    if not _is_of_judge(value):
        raise NotMeasured("not all values are those of a judge")
    if value[1] in ASPECTS:
        sums = np.zeros((len(ASPECTS), 2))
        sums[ASPECTS.index(value[1])] = _number(value[2]), 1.0
        return sums
    won, counts = value[1], value[2] if len(value) == 3 else None if value[1] is None else 1.0
    return np.array([[_number(won), _number(counts)]])


# ------------------------------------------------------------------------------------------ word scores of detectors


def _word_score(task: JoinedTask, metric: str, filter_name: str, score: str) -> Measured:
    """A score of summed word counts, or the mean of it over the categories that occur."""
    counts = _measured(task, filter_name, metric, partial(_arrays, metric="precision", array_of=_counts), (1, 4))
    weights = np.array(_WORD_SCORES[score], dtype=float).T
    found = _by_passage(task, replace(counts, values={run: each @ weights for run, each in counts.values.items()}))
    if next(iter(counts.values.values())).shape[1] == 1:
        return found
    annotated = np.stack([each[..., 0] + each[..., 2] for each in counts.values.values()])
    return replace(found, annotated=np.nan_to_num(annotated).max(axis=0))


def _counts(value: Any) -> Floats:
    """(1 or categories, 4): tp, fp, fn, tn."""
    try:
        return np.asarray(value, dtype=float).reshape(-1, 4)
    except (TypeError, ValueError) as error:
        raise NotMeasured(f"the word counts cannot be read ({error})") from error


# --------------------------------------------------------------------------------------------- hallucination rates


def _rate(task: JoinedTask, metric: str, filter_name: str, corrected: bool) -> Measured:
    """A rate over the words of answers; answers about one article are drawn together."""
    keys: set[str] = set()
    words = partial(_words, metric=metric, filter_name=filter_name, keys=keys)
    found = _measured(task, filter_name, metric, words, (1, 2))
    if any(part.answers.articles is not None for part in task.parts.values()):
        articles = {number: part.answers.articles or part.answers.keys for number, part in task.parts.items()}
        found = replace(_in_clusters(task, found, articles, "articles"), names=())
    if metric not in RATES[1:] or not corrected:
        return found
    if len(keys) != 1:
        raise NotMeasured(f"the answers name {len(keys)} calibrations")
    metadata = [part.run.config.get("metadata") or {} for part in task.parts.values()]
    files = {name for each in metadata if (name := str(each.get("calibration") or "")).endswith(".json")}
    errors = _errors(keys.pop(), task.name, tuple(sorted(files)))
    if errors is None:
        raise NotMeasured("no calibration corrects it, or its file is not here (name it with --calibration)")
    if metric == RATES[2] and math.isnan(errors.false_positive_rate):
        raise NotMeasured("its calibration has no false positive rate")
    return replace(found, errors=errors)


def _words(answers: Answers, readings: Readings, metric: str, filter_name: str, keys: set[str]) -> Floats | None:
    """(answers, 1, 2) words flagged and words in all, which corrected rates carry; of answers without them counted here.
    The keys of their calibrations are added to `keys`."""
    if metric not in readings.columns:
        return None
    words = np.full((len(answers), 1, 2), np.nan)
    known = readings.columns[metric].known
    tagged = np.zeros(len(answers), dtype=bool)
    for rate in (*RATES[1:], RATES[0]):
        column = readings.columns.get(rate)
        if column is None or tagged[readings.present].all():
            continue
        for document, value in column.other_values():
            if tagged[document] or not isinstance(value, Mapping):
                continue
            tagged[document] = True
            if key := value.get("calibration"):
                keys.add(key)
            if known[document]:
                words[document, 0] = _number(value.get("flagged")), _number(value.get("words"))
    untagged = np.flatnonzero(known & ~tagged)
    for document, answer in zip(untagged.tolist(), answers.select(untagged.tolist()), strict=True):
        try:
            content = json.loads(answer.readings[filter_name].answer)
            words[document, 0] = flagged_words(content["answer"], content["spans"], content.get("language") or "en")
        except (TypeError, ValueError, KeyError) as error:
            raise NotMeasured(f"the words of an answer cannot be counted ({error!r})") from error
    return words


@lru_cache(maxsize=64)
def _errors(key: str, task: str, files: tuple[str, ...]) -> Errors | None:
    """The detector's errors by the key of its calibration, which one of the files may hold. The draws have their
    seed from the task: languages are calibrated on answers of their own."""
    parsed, found = CalibrationKey.parse(key), None
    try:
        calibrations.loaded(parsed.calibration)
    except calibrations.CalibrationError:
        for name in (*calibrations.shipped().values(), *files):
            with suppress(calibrations.CalibrationError):
                calibrations.load(name)
    with suppress(calibrations.CalibrationError):
        found = in_force(parsed, task)
    return errors_of(found, ITERATIONS, SEED_OF_ERRORS + zlib.crc32(task.encode()) % 10_000)
