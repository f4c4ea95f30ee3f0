"""A metric's values, document by document, and two models' difference on them."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from custom_metrics.hallucination import flagged_words, rogan_gladen_rate
from custom_metrics.paired_rates import RATES, RateStratum, compare_rates, compare_ratios, values_of_ratios
from custom_metrics.scores.balanced_error import weights
from custom_metrics.scores.detection import ratios
from custom_metrics.scores.judging import ASPECTS
from custom_metrics.scores.sentences import auc_rows
from custom_metrics.statistics.marked import marked_difference
from custom_metrics.statistics.multiple_comparisons import is_share
from custom_metrics.statistics.paired_difference import (
    ITERATIONS,
    NO_DIFFERENCE,
    Floats,
    PairedDifference,
    compare_means,
)
from custom_metrics.statistics.paired_shares import share_differences
from custom_metrics.statistics.random_effects import SEED_OF_ERRORS, Errors
from detector_plugin import calibration as calibrations
from lm_eval_tasks.definition.schema import BALANCED
from lm_eval_tasks.detection.calibrated import CalibrationKey, errors_of, in_force
from lm_eval_tasks.detection.marked import METRIC, PREFIX, MarkedAnswer, draw_of, marked_rate
from lm_eval_tasks.results.joining import JoinedTask, calibrations_of
from lm_eval_tasks.runs import Answers, FilteredAnswers
from lm_eval_tasks.runs.other_tasks import WHY_NO_MEAN, too_large

_COUNTED_SCORES = ("precision", "recall", "f1", "balanced_accuracy")  # of summed tp, fp, fn, tn
_OF_DETECTOR = (*RATES, "hallucinated_share", "hallucinated_words")  # metrics that count what a detector tagged
_SEVERAL_FORMS = "the values of its documents have several forms"


Marked: TypeAlias = Mapping[int, MarkedAnswer]
"""A run's answers to a task whose answers were drawn and marked, by the place of the document in the joined task."""


class NotMeasured(ValueError):
    """A metric has no values that can be compared; the message says why."""


@dataclass(frozen=True)
class Measured:
    """The values of a metric on all documents of a joined task.

    The values of a run are (documents,) numbers if the figure is their mean, or (documents, ratios, 2) numerators and
    denominators if it is a ratio of sums. They are ``nan`` where a document does not count.
    """

    metric: str
    values: Mapping[int, Floats]  # by the number of the run
    clusters: NDArray[np.int64]  # (documents,) number of the cluster that a document is resampled with
    unit: str  # what the clusters are
    names: Sequence[str] = ()  # of clusters, by number; tasks share those of equal name. Empty: all are different
    annotated: Floats | None = None  # (documents, ratios) annotated words of each category; absent ones do not count
    harmonic: bool = False  # whether the figure is the harmonic mean of the ratios, not their mean
    errors: Errors | None = None  # of the detector, where a calibration corrects the ratio
    marked: Mapping[int, Marked] | None = None  # by the number of the run, where people marked answers
    answerable: NDArray[np.bool_] | None = None  # (documents,) of a balanced error, whose two shares count by `weights`
    weights: Sequence[float] = (1.0,)

    def strata(self) -> list[tuple[dict[int, Floats], float]]:
        """The values whose means the figure is made of, each (documents,) by run, with what it counts: of a balanced error
        those of questions that cannot be answered, and those that can; else all."""
        if self.answerable is None:
            return [(dict(self.values), 1.0)]
        kinds = (~self.answerable, self.answerable)
        return [
            ({run: np.where(kind, values, np.nan) for run, values in self.values.items()}, weight)
            for kind, weight in zip(kinds, self.weights, strict=True)
        ]

    @property
    def is_mean(self) -> bool:
        """Whether the figure is the mean of the documents' numbers; else it is a ratio of sums."""
        return next(iter(self.values.values())).ndim == 1

    def counted(self, run: int) -> NDArray[np.bool_]:
        """(documents,): whether a document counts for a run."""
        values = self.values.get(run)
        if values is None:
            return np.zeros(len(self.clusters), dtype=bool)
        return np.asarray(~np.isnan(values.reshape(len(values), -1)).any(axis=1))

    def run_value(self, run: int) -> float:
        """The figure of a run over all documents that count for it; ``nan`` where none does."""
        counted = self.counted(run)
        if not counted.any():
            return math.nan
        if self.answerable is not None:
            of_kinds = [(values[run][~np.isnan(values[run])], weight) for values, weight in self.strata()]
            return (
                sum(float(v.mean()) * weight for v, weight in of_kinds)
                if all(len(v) for v, _ in of_kinds)
                else math.nan
            )
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

    def numbers(self, run: int) -> list[Floats]:
        """Numbers whose means make up the figure of a run, not corrected for the detector's errors, of each of
        :meth:`strata`: one a document, ``nan`` where it does not count; or one a cluster. Runs over the same documents have
        them in the same order."""
        if self.is_mean:
            return [values[run] for values, _ in self.strata()]
        everything = np.ones(len(self.clusters), dtype=bool)
        filled = replace(self, values={run: np.nan_to_num(self.values[run])})
        return [values_of_ratios(filled.rows(run, everything), self.harmonic)]

    def rows(self, run: int, documents: NDArray[np.bool_]) -> Floats:
        """(documents,) numbers, or (clusters, ratios, 2) sums over the clusters of these documents."""
        values = self.values[run][documents]
        if self.is_mean:
            return values
        places, rows = np.unique(self.clusters[documents], return_inverse=True)
        sums = np.zeros((len(places), *values.shape[1:]))
        np.add.at(sums, rows, values)
        if self.metric.startswith("win_rate"):  # each question counts the same, however many verdicts it has
            has = sums[..., 1] > 0
            return np.stack([np.divide(sums[..., 0], sums[..., 1], out=np.zeros(has.shape), where=has), has], axis=-1)
        if self.annotated is not None:  # a category that occurs and is never flagged counts as 0
            sums = sums[:, self.annotated[documents].sum(axis=0) > 0]
            sums[:, sums[..., 1].sum(axis=0) == 0, 1] = 1.0
        return sums


def compare_measured(tasks: Sequence[Measured], pairs: Sequence[tuple[int, int]]) -> list[PairedDifference]:
    """The differences of pairs of models on a metric of one task, or on its mean over several tasks. Of a pair, tasks count
    that have documents for both models."""
    everyone = sorted({run for pair in pairs for run in pair})
    values = [task.values[run] for task in tasks for run in everyone if run in task.values]
    if tasks[0].marked is None and tasks[0].is_mean and is_share(values):
        return _compare_shares(tasks, pairs, everyone)
    return [_compare_pair([task for task in tasks if {*pair} <= task.values.keys()], *pair) for pair in pairs]


def _compare_shares(
    tasks: Sequence[Measured], pairs: Sequence[tuple[int, int]], runs: Sequence[int]
) -> list[PairedDifference]:
    """All pairs at once. A balanced error has two strata a task; a task with a single one of a pair is left out."""
    strata, weights = [], []
    for task in tasks:
        absent = np.full(len(task.clusters), np.nan)
        for by_run, weight in task.strata():
            strata.append(np.column_stack([by_run.get(run, absent) for run in runs]))
            weights.append(weight)
    places = [(runs.index(first), runs.index(second)) for first, second in pairs]
    return share_differences(strata, places, weights, together=len(tasks[0].strata()))


def _compare_pair(tasks: Sequence[Measured], first: int, second: int) -> PairedDifference:
    if not tasks:
        return NO_DIFFERENCE
    if tasks[0].marked is not None:
        return compare_marked([(task.marked[first], task.marked[second]) for task in tasks if task.marked is not None])
    common = [task.counted(first) & task.counted(second) for task in tasks]
    pairs = [(task.rows(first, both), task.rows(second, both)) for task, both in zip(tasks, common, strict=True)]
    if tasks[0].is_mean:
        return compare_means(pairs)
    used = [entry for entry in zip(tasks, common, pairs, strict=True) if entry[1].any()]
    if not used:
        return NO_DIFFERENCE
    if tasks[0].errors is not None:
        strata = [RateStratum(a[:, 0], b[:, 0], task.errors) for task, _, (a, b) in used]
        return compare_rates(strata, tasks[0].metric)
    names = None
    if len(used) > 1 and all(task.names for task, *_ in used):
        names = [[task.names[index] for index in np.unique(task.clusters[both])] for task, both, _ in used]
    return compare_ratios([pair for *_, pair in used], tasks[0].harmonic, clusters=names)


def pooled(tasks: Sequence[Measured], runs: Sequence[int]) -> list[Measured]:
    """The documents of several tasks as those of one, for runs that have them all: each task counts by its number of
    documents. Nothing of no task."""
    if not tasks:
        return []
    ends = np.cumsum([0, *(int(task.clusters.max(initial=-1)) + 1 for task in tasks)])
    clusters = np.concatenate([task.clusters + end for task, end in zip(tasks, ends, strict=False)])
    values = {run: np.concatenate([task.values[run] for task in tasks]) for run in runs}
    return [replace(tasks[0], values=values, clusters=clusters, names=())]


def measure(task: JoinedTask, metric: str, filter_name: str, aggregation: str, corrected: bool = True) -> Measured:
    """The values of a metric on a joined task, or a NotMeasured. Unless `corrected`, rates with a calibration are the
    share of flagged words."""
    by_run = task.readings(filter_name)
    for run in task.runs.values():
        if reason := run.task.figures.get(filter_name, {}).get(metric, {}).get(WHY_NO_MEAN):
            raise NotMeasured(reason)
    if task.any_run.table is None and task.any_run.results_file:
        measured = _by_passage(task, _by_document(task, filter_name, metric, partial(_numbers, metric=metric)))
        unit = "documents" if measured.unit == "documents" else "clusters"
        return replace(measured, unit=unit, names=())  # equal names in two tasks say nothing
    if metric in _OF_DETECTOR and (models := _models_without_detector(task, by_run, metric)):
        raise NotMeasured(
            f"nothing says which detector, version and threshold tagged the answers of {', '.join(models)}; "
            f"tag those of all alike (`lm-eval-grounded score RUN -o DIR`)"
        )
    if aggregation == BALANCED:
        return _balanced(task, filter_name)
    if metric in RATES or metric == "hallucinated_share":
        return _rate(task, metric, filter_name, corrected)
    if metric == METRIC:
        return _marked(task, filter_name)
    if metric.startswith(PREFIX):
        raise NotMeasured("people rated some of the answers of each run, which nothing pairs between runs of a judge")
    if aggregation in _COUNTED_SCORES:
        return _counted_score(task, metric, filter_name, aggregation)
    if aggregation == "auc":
        return _by_document(task, filter_name, metric, partial(_linearised_auc, metric=metric))
    columns = [column for readings in by_run.values() if (column := readings.columns.get(metric)) is not None]
    first = next((value for column in columns for _, value in column.non_numeric_values()), None)
    if first is not None and _is_judge_value(first) and not (task.any_run.table is None and isinstance(first[0], int)):
        rated = first[1] in ASPECTS
        measured = _by_document(task, filter_name, metric, partial(_arrays, metric=metric, parse=_judge_ratios))
        questions = {
            number: [run.answers.ids.get(index, key) for index, key in enumerate(run.answers.keys)]
            for number, run in task.runs.items()
        }
        return replace(_in_clusters(task, measured, questions, "questions"), names=(), harmonic=rated)
    return _by_passage(task, _by_document(task, filter_name, metric, partial(_numbers, metric=metric)))


def _models_without_detector(task: JoinedTask, by_run: Mapping[int, FilteredAnswers], metric: str) -> list[str]:
    """The models of runs of unknown detector: neither their results file nor the key of a calibration in their values names
    it. Known detectors are checked to be equal elsewhere; unknown ones may differ."""
    models = []
    for number, readings in by_run.items():
        column = readings.columns.get(metric)
        if column is None or task.runs[number].task.detector:
            continue
        unknown = column.has_value
        for documents in calibrations_of(readings).values():
            unknown[documents] = False
        if unknown.any():
            models.append(task.runs[number].model)
    return models


def _by_document(
    task: JoinedTask,
    filter_name: str,
    metric: str,
    values_of: Callable[[Answers, FilteredAnswers], Floats | None],
    shape: tuple[int, ...] = (),
) -> Measured:
    """The values of a metric, with a cluster for each document. `values_of` gives (answers, ...) values of a run, ``nan``
    where an answer has none. `shape` is that of a document's values if no run has any."""
    by_run = task.readings(filter_name)
    if not by_run:
        raise NotMeasured("no answer was read")
    run_values = {number: values_of(task.runs[number].answers, readings) for number, readings in by_run.items()}
    shapes = {values.shape[1:] for values in run_values.values() if values is not None} or {shape}
    if len(shapes) > 1:
        raise NotMeasured(_SEVERAL_FORMS)
    (shape,) = shapes
    values = {}
    for number, array in run_values.items():
        values[number] = np.full((len(task.documents), *shape), np.nan)
        if array is not None:
            values[number][task.runs[number].places] = array
    return Measured(metric, values, np.arange(len(task.documents)), "documents")


def _in_clusters(task: JoinedTask, measured: Measured, labels: Mapping[int, Sequence[str]], unit: str) -> Measured:
    """The same values with documents clustered by label (run to the label of each answer), in the order of the labels."""
    names = np.full(len(task.documents), "", dtype=object)
    for number, run_labels in labels.items():
        names[task.runs[number].places] = run_labels
    distinct, clusters = np.unique(names, return_inverse=True)
    return replace(measured, clusters=clusters, names=tuple(distinct.tolist()), unit=unit)


def _by_passage(task: JoinedTask, measured: Measured) -> Measured:
    """The values of an annotated task, clustered by passage: documents about one passage are not independent, not even
    across tasks. Means then become ratios of sums to numbers of documents. Values of other tasks stay as they are."""
    passages = {number: clusters for number, run in task.runs.items() if (clusters := run.answers.passages)}
    clustered = _in_clusters(task, measured, passages, "passages")
    if not passages or not all(clustered.names):
        return measured
    unit = clustered.unit if len(clustered.names) < len(task.documents) else measured.unit
    values = measured.values
    if measured.is_mean:
        values = {
            number: np.stack([run, np.where(np.isnan(run), np.nan, 1.0)], axis=-1)[:, None]
            for number, run in values.items()
        }
    return replace(clustered, values=values, unit=unit)


def _number(value: Any) -> float:
    if value is None:
        return math.nan
    if isinstance(value, (bool, int, float)):
        number = float(value)
        return number if math.isfinite(number) else math.nan
    raise NotMeasured(f"the values are {type(value).__name__}, not numbers")


def _numbers(answers: Answers, readings: FilteredAnswers, metric: str) -> Floats | None:
    """(answers,) numbers, ``nan`` where there is none."""
    column = readings.columns.get(metric)
    if column is None:
        return None
    if (first := next(column.non_numeric_values(), None)) is not None:
        _number(first[1])
    if reason := too_large(column):
        raise NotMeasured(reason)
    return column.numbers


def _arrays(answers: Answers, readings: FilteredAnswers, metric: str, parse: Callable[[Any], Floats]) -> Floats | None:
    """(answers, ...) values of a metric, each parsed into an array."""
    column = readings.columns.get(metric)
    values = enumerate(column.values()) if column is not None else ()
    arrays = {document: parse(value) for document, value in values if value is not None}
    shapes = {array.shape for array in arrays.values()}
    if len(shapes) > 1:
        raise NotMeasured(_SEVERAL_FORMS)
    if not shapes:
        return None
    stacked = np.full((len(answers), *shapes.pop()), np.nan)
    stacked[[*arrays]] = [*arrays.values()]
    return stacked


def _is_judge_value(value: Any) -> bool:
    """Whether a value comes from :mod:`custom_metrics.scores.judging`: a question, followed by an aspect and its rating, by
    whether it is in the share and in the denominator, or by whether it was won (``None``: by nobody)."""
    if not isinstance(value, list) or len(value) not in (2, 3) or not isinstance(value[0], (str, int)):
        return False
    numbers = value[2:] if len(value) == 3 and value[1] in ASPECTS else value[1:]
    return all(number is None or isinstance(number, (int, float)) for number in numbers)


def _judge_ratios(value: Any) -> Floats:
    """(aspects or 1, 2) numerators and denominators of a judge's value."""
    if not _is_judge_value(value):
        raise NotMeasured("not all values are those of a judge")
    if value[1] in ASPECTS:
        sums = np.zeros((len(ASPECTS), 2))
        sums[ASPECTS.index(value[1])] = _number(value[2]), 1.0
        return sums
    won, counts = value[1], value[2] if len(value) == 3 else None if value[1] is None else 1.0
    return np.array([[_number(won), _number(counts)]])


def _balanced(task: JoinedTask, filter_name: str) -> Measured:
    """Whether each answer is wrong, with the kind of its question and what both kinds count."""
    values: dict[int, Floats] = {}
    answerable = np.zeros(len(task.documents), dtype=bool)
    for number, readings in task.readings(filter_name).items():
        values[number] = np.full(len(task.documents), np.nan)
        if (column := readings.columns.get(BALANCED)) is None:
            continue
        places = task.runs[number].places
        for document, value in column.non_numeric_values():
            try:
                wrong, kind = float(value["wrong"]), bool(value["answerable"])
            except (TypeError, ValueError, KeyError) as error:
                raise NotMeasured(_SEVERAL_FORMS) from error
            values[number][places[document]], answerable[places[document]] = wrong, kind
    if not values:
        raise NotMeasured("no answer was read")
    documents = np.arange(len(task.documents))
    return Measured(BALANCED, values, documents, "documents", answerable=answerable, weights=weights(task.any_run.cost))


def _marked(task: JoinedTask, filter_name: str) -> Measured:
    """The rate by people's marks, of runs whose answers were drawn together."""
    runs: dict[int, Marked] = {}
    draws: dict[str, str] = {}  # identity to the model of a run
    for number, readings in task.readings(filter_name).items():
        column, places = readings.columns.get(METRIC), task.runs[number].places
        values = {int(places[document]): value for document, value in column.non_numeric_values()} if column else {}
        if not values or not all(isinstance(value, Mapping) for value in values.values()):
            raise NotMeasured(f"the answers of {task.runs[number].model} have no marks (`score --marks`)")
        runs[number] = {place: MarkedAnswer(**{"article": None, **values[place]}) for place in sorted(values)}
        draws.setdefault(draw_of(task.runs[number].task.provenance), task.runs[number].model)
    if len(draws) > 1:
        raise NotMeasured(
            f"the marks of {' and '.join(draws.values())} are of different draws: draw once for all runs (`mark RUN RUN "
            f"--tasks ...`), and score them with the same --complete-to"
        )
    numbers = {number: _marked_numbers(run, len(task.documents)) for number, run in runs.items()}
    return Measured(METRIC, numbers, np.arange(len(task.documents)), "answers", marked=runs)


def _marked_numbers(answers: Marked, documents: int) -> Floats:
    """(documents,) numbers whose mean is the rate, spread as its residuals are: an answer of weight 0 has the rate itself.
    nan for an answer without marks."""
    numbers = np.full(documents, np.nan)
    if (rate := marked_rate(tuple(answers.values()))) is not None:
        mean = rate[1]
        judged = {place: answer for place, answer in answers.items() if answer.times and answer.marked is not None}
        fields = np.array([(each.marked, each.expected, each.times * each.weight) for each in judged.values()], float)
        values, counts = fields[:, 0] - mean.slope * fields[:, 1], fields[:, 2]
        residuals = (values - np.average(values, weights=counts)) * counts / counts.mean()
        numbers[[*judged]] = mean.figure.value + residuals
    return numbers


def compare_marked(pairs: Sequence[tuple[Marked, Marked]]) -> PairedDifference:
    """The difference of two models' rates by the same draws; the mean over tasks, if several. Each rate is that of all
    answers of its model that were judged. A drawn answer that one model lacks, as earlier results lack those without words,
    has weight 0."""
    rates = []
    for runs in pairs:
        drawn = {place: answer for run in runs for place, answer in run.items() if answer.times}
        empty = {place: MarkedAnswer(0, 0.0, each.article, each.times, 0.0, 0.0) for place, each in drawn.items()}
        rates.append([marked_rate(tuple(answer for _, answer in sorted({**empty, **run}.items()))) for run in runs])
    strata = [(*first, second[1]) for first, second in rates if first is not None and second is not None]
    return marked_difference(*strata) if strata else NO_DIFFERENCE


# ------------------------------------------------------------------------------------ scores of counts, of detectors


def _counted_score(task: JoinedTask, metric: str, filter_name: str, score: str) -> Measured:
    """A score of summed counts of words or sentences, or its mean over the categories that occur."""
    column = "precision" if metric == "f1" else metric  # the values of `f1` are numbers
    counts = _by_document(task, filter_name, metric, partial(_arrays, metric=column, parse=_counts), (1, 4))
    of_ratios = {
        run: np.stack([np.stack(ratio, axis=-1) for ratio in ratios(score, array)], axis=2).reshape(len(array), -1, 2)
        for run, array in counts.values.items()
    }
    measured = _by_passage(task, replace(counts, values=of_ratios))
    if next(iter(counts.values.values())).shape[1] == 1:
        return measured
    annotated = np.stack([array[..., 0] + array[..., 2] for array in counts.values.values()])
    return replace(measured, annotated=np.nan_to_num(annotated).max(axis=0))


def _counts(value: Any) -> Floats:
    """(1 or categories, 4) counts: tp, fp, fn, tn."""
    try:
        return np.asarray(value, dtype=float).reshape(-1, 4)
    except (TypeError, ValueError) as error:
        raise NotMeasured(f"the counts cannot be read ({error})") from error


def _linearised_auc(answers: Answers, readings: FilteredAnswers, metric: str) -> Floats | None:
    """(answers,) numbers whose mean is the AUC, so that two are compared as by DeLong et al. (1988), over questions."""
    column = readings.columns.get(metric)
    if column is None:
        return None
    numbers = np.full(len(answers), np.nan)
    numbers[column.has_value] = auc_rows([value for value in column.values() if value is not None]).values
    return numbers


# --------------------------------------------------------------------------------------------- hallucination rates


def _rate(task: JoinedTask, metric: str, filter_name: str, corrected: bool) -> Measured:
    """A rate over the words of answers, clustered by article."""
    keys: set[str] = set()
    words = partial(_word_counts, metric=metric, name=filter_name, keys=keys)
    measured = _by_document(task, filter_name, metric, words, (1, 2))
    if any(run.answers.articles is not None for run in task.runs.values()):
        articles = {number: run.answers.articles or run.answers.keys for number, run in task.runs.items()}
        measured = replace(_in_clusters(task, measured, articles, "articles"), names=())
    if metric not in RATES[1:] or not corrected:
        return measured
    if len(keys) != 1:
        raise NotMeasured(f"the answers name {len(keys)} calibrations")
    metadata = [run.task.config.get("metadata") or {} for run in task.runs.values()]
    files = {name for entry in metadata if (name := str(entry.get("calibration") or "")).endswith(".json")}
    errors = _errors(keys.pop(), task.name, tuple(sorted(files)))
    if errors is None:
        raise NotMeasured("no calibration corrects it, or its file is not here (name it with --calibration)")
    if metric == RATES[2] and math.isnan(errors.false_positive_rate):
        raise NotMeasured("its calibration has no false positive rate")
    return replace(measured, errors=errors)


def _word_counts(answers: Answers, readings: FilteredAnswers, metric: str, name: str, keys: set[str]) -> Floats | None:
    """(answers, 1, 2) flagged words and all words, read from the values of corrected rates, and counted where there are
    none. The keys of their calibrations are added to `keys`."""
    if metric not in readings.columns:
        return None
    words = np.full((len(answers), 1, 2), np.nan)
    has_value = readings.columns[metric].has_value
    tagged = np.zeros(len(answers), dtype=bool)
    for rate in (*RATES[1:], RATES[0]):
        column = readings.columns.get(rate)
        if column is None or tagged[readings.present].all():
            continue
        for document, value in column.non_numeric_values():
            if tagged[document] or not isinstance(value, Mapping):
                continue
            tagged[document] = True
            if key := value.get("calibration"):
                keys.add(key)
            if has_value[document]:
                words[document, 0] = _number(value.get("flagged")), _number(value.get("words"))
    untagged = np.flatnonzero(has_value & ~tagged)
    for document, answer in zip(untagged.tolist(), answers.select(untagged.tolist()), strict=True):
        try:
            content = json.loads(answer.readings[name].answer)
            words[document, 0] = flagged_words(content["answer"], content["spans"], answer.doc.get("language") or "en")
        except (TypeError, ValueError, KeyError) as error:
            raise NotMeasured(f"the words of an answer cannot be counted ({error!r})") from error
    return words


@lru_cache(maxsize=64)
def _errors(key: str, task: str, files: tuple[str, ...]) -> Errors | None:
    """The detector's errors for the key of a calibration, which may be in one of the files. The seed depends on the task:
    languages are calibrated on different answers."""
    parsed, calibration = CalibrationKey.parse(key), None
    try:
        calibrations.by_identity(parsed.calibration)
    except calibrations.CalibrationError:
        for name in (*calibrations.shipped().values(), *files):
            with suppress(calibrations.CalibrationError):
                calibrations.load(name)
    with suppress(calibrations.CalibrationError):
        calibration = in_force(parsed, task)
    return errors_of(calibration, ITERATIONS, SEED_OF_ERRORS + zlib.crc32(task.encode()) % 10_000)
