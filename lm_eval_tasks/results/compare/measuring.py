"""The values of a metric from the answers of several runs."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.hallucination import flagged_words
from custom_metrics.paired_rates import RATES
from custom_metrics.scores.judging import ASPECTS
from custom_metrics.statistics.intervals import SEED
from custom_metrics.statistics.paired_difference import Floats
from custom_metrics.statistics.random_effects import Errors, detector_errors
from detector_plugin import calibration as calibrations
from lm_eval_tasks.detection.calibrated import CalibrationKey, in_force
from lm_eval_tasks.results.compare.joining import JoinedTask
from lm_eval_tasks.results.compare.measured import MEAN, RATE, RATIO, Measured
from lm_eval_tasks.runs import Answers, Readings, TaskRun

__all__ = ["TAGGED", "measure"]

TAGGED = (*RATES, "hallucinated_share", "hallucinated_words")
"""Metrics that count what a detector tagged."""

_WORD_SCORES = {
    # numerator and denominator of summed tp, fp, fn, tn
    "precision": ((1, 0, 0, 0), (1, 1, 0, 0)),
    "recall": ((1, 0, 0, 0), (1, 0, 1, 0)),
    "f1": ((2, 0, 0, 0), (2, 1, 1, 0)),
}


def measure(task: JoinedTask, metric: str, filter_name: str, aggregation: str) -> Measured | str:
    """A metric of a joined task.

    Args:
        task: with all its answers.
        metric, filter_name: as in the results file.
        aggregation: of the metric.

    Returns:
        In words why it cannot be compared, else its values.
    """
    read = [answers.readings.get(filter_name) if answers is not None else None for answers in task.answers]
    if metric in RATES or metric == "hallucinated_share":
        return _measured_rate(task, metric, filter_name, read)
    if aggregation in _WORD_SCORES:
        return _measured_words(task, metric, read, aggregation)
    first = next((value for each in zip(task.answers, read, strict=True) for value in _first(*each, metric)), None)
    of_judge = _verdict if _is_verdict(first) else _rating if _is_rating(first) else None
    if of_judge is not None:
        questions = [
            [of_run.ids.get(at, key) for at, key in enumerate(of_run.keys)] if of_run is not None else []
            for of_run in task.answers
        ]
        found = _measured(task, read, RATIO, metric, _each(metric, of_judge), "questions", questions)
        return found if isinstance(found, str) else replace(found, harmonic=of_judge is _rating)
    found = _measured(task, read, MEAN, metric, lambda readings: _numbers(readings, metric), "documents")
    return found if isinstance(found, str) else _by_passage(task, found)


def _by_passage(task: JoinedTask, found: Measured) -> Measured:
    """The values of an annotated task by passage: rows of one text, or page, hang together, in several tasks as well.

    Numbers then are ratios of sums to numbers of documents. Of other tasks the values stay as they are.
    """
    names = [""] * task.documents
    for answers, places in zip(task.answers, task.places, strict=True):
        for place, name in zip(places.tolist(), (answers.passages if answers is not None else ()) or (), strict=False):
            names[place] = name
    if not all(names):
        return found
    numbers = {name: number for number, name in enumerate(sorted(set(names)))}
    clusters = np.array([numbers[name] for name in names], dtype=int)
    unit = "passages" if len(numbers) < len(names) else found.unit
    values = found.values
    if found.kind == MEAN:
        values = tuple(np.stack([part, np.where(np.isnan(part), np.nan, 1.0)], axis=-1)[:, None] for part in values)
    return replace(found, kind=RATIO, values=values, clusters=clusters, unit=unit, names=tuple(numbers))


def _first(answers: Answers | None, readings: Readings | None, metric: str) -> Iterator[Any]:
    """The value of the first answer, by content, that a filter read; nothing where it read none."""
    if answers is None or readings is None or not readings.present.any():
        return
    read = np.flatnonzero(readings.present)
    first = int(read[np.argsort(answers.contents[read], kind="stable")[0]])
    yield readings.columns[metric][first] if metric in readings.columns else None


class _NotANumber(Exception):
    """A value that no comparison can be made of."""


def _number(value: Any) -> float:
    if value is None:
        return math.nan
    if isinstance(value, (bool, int, float)):
        number = float(value)
        return number if math.isfinite(number) else math.nan
    raise _NotANumber(f"the values are {type(value).__name__}, not numbers")


def _numbers(readings: Readings, metric: str) -> Floats:
    """(documents,): a number each, ``nan`` for what is not finite."""
    column = readings.columns.get(metric)
    if column is None:
        return np.full(len(readings.places), np.nan)
    for document in column.others[:1]:
        _number(column[int(document)])
    return np.where(np.isfinite(column.numbers), column.numbers, np.nan)


def _each(metric: str, array_of: Callable[[Any], Floats]) -> Callable[[Readings], Floats]:
    """(documents, ...) arrays of a metric's values, one by one."""

    def of_readings(readings: Readings) -> Floats:
        column = readings.columns.get(metric)
        values = column.values() if column is not None else repeat(None, len(readings.places))
        read = readings.present.tolist()
        return _stacked(read, (array_of(value) if has else None for has, value in zip(read, values, strict=True)))

    return of_readings


def _stacked(read: Sequence[bool], arrays: Iterable[Floats | None]) -> Floats:
    """Arrays of one shape as one array, ``nan`` for those that are not there; none without any."""
    stacked = np.empty(0)
    for document, array in enumerate(arrays):
        if array is None:
            continue
        if not len(stacked):
            stacked = np.full((len(read), *array.shape), np.nan)
        if array.shape != stacked.shape[1:]:
            raise _SeveralForms
        stacked[document] = array
    return stacked


def _word_counts(counts: Any, score: str) -> Floats:
    """(ratios, 2): one ratio, or one for each category."""
    if counts is None:
        return np.full((1, 2), np.nan)
    try:
        array = np.asarray(counts, dtype=float)
        array = array.reshape(1, 4) if array.ndim == 1 else array.reshape(-1, 4)
    except (TypeError, ValueError) as error:
        raise _NotANumber(f"the word counts cannot be read ({error})") from error
    top, bottom = (array @ np.array(weights, dtype=float) for weights in _WORD_SCORES[score])
    return np.stack([top, bottom], axis=-1)


def _is_verdict(value: Any) -> bool:
    """Whether a value is one of :mod:`custom_metrics.scores.judging`: the question, then one number or two."""
    return (
        isinstance(value, list)
        and len(value) in (2, 3)
        and isinstance(value[0], (str, int))
        and all(part is None or isinstance(part, (int, float)) for part in value[1:])
    )


def _is_rating(value: Any) -> bool:
    """Whether a value is one of the judge's F+A: the question, the aspect, and its rating."""
    return isinstance(value, list) and len(value) == 3 and value[1] in ASPECTS


def _rating(value: Any) -> Floats:
    """(aspects, 2): the rating, and 1, of its aspect."""
    if not _is_rating(value):
        raise _NotANumber("not all values are ratings")
    sums = np.zeros((len(ASPECTS), 2))
    sums[ASPECTS.index(value[1])] = _number(value[2]), 1.0
    return sums


def _verdict(value: Any) -> Floats:
    """Of (question, in the share, in the denominator), or of (question, won or ``None``)."""
    if not _is_verdict(value):
        raise _NotANumber("not all values are verdicts")
    if len(value) == 2:
        return np.array([[np.nan, np.nan]]) if value[1] is None else np.array([[_number(value[1]), 1.0]])
    return np.array([[_number(value[1]), _number(value[2])]])


def _measured(
    task: JoinedTask,
    read: Sequence[Readings | None],
    kind: str,
    metric: str,
    values_of: Callable[[Readings], Floats],
    unit: str,
    clusters: Sequence[Sequence[str]] | None = None,
) -> Measured | str:
    """A metric's values, by the numbers of the documents.

    Args:
        read: of each model.
        values_of: readings to (answers, ...) values.
        clusters: of each model, names of what the answers are drawn with; default each document by itself.
    """
    try:
        found = [values_of(readings) if readings is not None else np.empty(0) for readings in read]
    except (_NotANumber, _SeveralForms) as error:
        return str(error)
    shapes = {each.shape[1:] for each in found if len(each)}
    if len(shapes) > 1:
        return str(_SeveralForms())
    shape = shapes.pop() if shapes else ()
    values, present = [], []
    for of_run, readings, places in zip(found, read, task.places, strict=True):
        array = np.full((task.documents, *shape), np.nan)
        has = np.zeros(task.documents, dtype=bool)
        if readings is not None and readings.present.any():
            rows = places[readings.present]
            array[rows], has[rows] = of_run[readings.present], True
        values.append(array)
        present.append(has)
    numbers = np.arange(task.documents) if clusters is None else _clusters(task, read, clusters)
    return Measured(kind, metric, tuple(values), tuple(present), numbers, unit)


def _clusters(task: JoinedTask, read: Sequence[Readings | None], named: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    """(documents,): a number for each cluster, in the order of their names; negative for documents that were not read."""
    found = np.full(task.documents, -1)
    numbers: dict[str, int] = {}
    for names, readings, places in zip(named, read, task.places, strict=True):
        if readings is None:
            continue
        new = np.flatnonzero(readings.present & (found[places] < 0))
        for at in new.tolist():
            found[places[at]] = numbers.setdefault(names[at], len(numbers))
    ranks = np.full(len(numbers) + 1, -1)  # the last is of -1
    ranks[[numbers[name] for name in sorted(numbers)]] = np.arange(len(numbers))
    return np.asarray(ranks[found])


class _SeveralForms(Exception):
    def __str__(self) -> str:
        return "the values of its documents have several forms"


def _measured_words(task: JoinedTask, metric: str, read: Sequence[Readings | None], score: str) -> Measured | str:
    """A score of summed word counts, or the mean of it over the categories that occur."""
    of_score, of_recall = (_each("precision", partial(_word_counts, score=each)) for each in (score, "recall"))
    found = _measured(task, read, RATIO, metric, of_score, "documents")
    if isinstance(found, str):
        return found
    found = _by_passage(task, found)
    if found.values[0].shape[1] == 1:
        return found
    recall = _measured(task, read, RATIO, metric, of_recall, "documents")
    if isinstance(recall, str):
        return recall
    annotated = np.nan_to_num(np.stack([values[..., 1] for values in recall.values])).max(axis=0)
    return replace(found, annotated=annotated)


# --------------------------------------------------------------------------------------------- hallucination rates


def _measured_rate(task: JoinedTask, metric: str, filter_name: str, read: Sequence[Readings | None]) -> Measured | str:
    """A rate over the words of answers; answers about one article are drawn together."""
    tagged = [_Tagged.of(readings) if readings is not None else None for readings in read]
    keys = {key for each in tagged if each is not None for key in each.calibrations}
    in_articles = any(each is not None and each.of_articles for each in tagged)
    in_articles = in_articles or any(each is not None and each.articles is not None for each in task.answers)
    words = {
        id(readings): partial(_words, answers, each, metric, filter_name)
        for answers, each, readings in zip(task.answers, tagged, read, strict=True)
        if answers is not None and each is not None
    }
    found = _measured(
        task,
        read,
        RATIO,
        metric,
        lambda readings: words[id(readings)](readings),
        "articles" if in_articles else "documents",
        [(each.articles or each.keys) if each is not None else () for each in task.answers] if in_articles else None,
    )
    if isinstance(found, str) or metric not in RATES[1:]:
        return found
    if len(keys) != 1:
        return f"the answers name {len(keys)} calibrations"
    errors, expected = _errors(keys.pop(), task.name, tuple(_calibration_files(task.runs)))
    if errors is None:
        return "no calibration corrects it, or its file is not here (name it with --calibration)"
    if metric == RATES[2] and math.isnan(errors.false_positive_rate):
        return "its calibration has no false positive rate"
    return replace(found, kind=RATE, errors=errors, expected=expected)


class _Tagged(NamedTuple):
    """The counts of tagged answers, which corrected rates carry.

    Attributes:
        counts: (documents, 2) what is said of words flagged and of words in all; ``None`` where nothing is.
        has: (documents,) whether an answer has counts.
        calibrations: keys of those that are named.
        of_articles: whether one names its article.
    """

    counts: NDArray[np.object_]
    has: NDArray[np.bool_]
    calibrations: set[str]
    of_articles: bool

    @classmethod
    def of(cls, readings: Readings) -> _Tagged:
        total = len(readings.places)
        counts, has = np.full((total, 2), None), np.zeros(total, dtype=bool)
        calibrations: set[str] = set()
        of_articles = False
        for rate in (*RATES[1:], RATES[0]):
            column = readings.columns.get(rate)
            if column is None or has[readings.present].all():
                continue
            for document, value in column.other_values():
                if has[document] or not isinstance(value, Mapping):
                    continue
                has[document] = True
                counts[document] = value.get("flagged"), value.get("words")
                of_articles = of_articles or "article" in value
                if key := value.get("calibration"):
                    calibrations.add(key)
        return cls(counts, has, calibrations, of_articles)


def _words(answers: Answers, tagged: _Tagged, metric: str, filter_name: str, readings: Readings) -> Floats:
    """(documents, 1, 2) words flagged and words in all; counted in the answers that have no counts."""
    words = np.full((len(answers), 1, 2), np.nan)
    column = readings.columns.get(metric)
    if column is None:
        return words
    for document in np.flatnonzero(column.known & tagged.has).tolist():
        words[document, 0] = [_number(part) for part in tagged.counts[document]]
    untagged = np.flatnonzero(column.known & ~tagged.has)
    for document, answer in zip(untagged, answers.select(untagged.tolist()), strict=True):
        try:
            content = json.loads(answer.readings[filter_name].answer)
            words[document, 0] = flagged_words(content["answer"], content["spans"], content.get("language") or "en")
        except (TypeError, ValueError, KeyError) as error:
            raise _NotANumber(f"the words of an answer cannot be counted ({error!r})") from error
    return words


def _calibration_files(runs: Sequence[TaskRun | None]) -> list[str]:
    """Files that may hold the calibration: what the runs were given."""
    given = [str((run.config.get("metadata") or {}).get("calibration") or "") for run in runs if run is not None]
    return sorted({name for name in given if name.endswith(".json")})


@lru_cache(maxsize=64)
def _errors(key: str, task: str, files: tuple[str, ...]) -> tuple[Errors | None, bool]:
    """The detector's errors by the key of its calibration, and whether they are expected from other languages."""
    parsed = CalibrationKey.parse(key)
    try:
        calibrations.loaded(parsed.calibration)
    except calibrations.CalibrationError:
        for name in (*calibrations.shipped().values(), *files):
            try:
                calibrations.load(name)
            except calibrations.CalibrationError:
                continue
    try:
        found = in_force(parsed, task)
    except calibrations.CalibrationError:
        return None, False
    if found is None:
        return None, False
    seed = SEED + zlib.crc32(task.encode()) % 10_000  # languages are calibrated on answers of their own
    errors = detector_errors(
        found.documents, found.precision, found.recall, found.pooled, seed=seed, clusters=found.clusters or None
    )
    return errors, found.pooled is not None
