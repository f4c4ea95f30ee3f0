"""The values of a metric from the answers of several runs."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from custom_metrics.hallucination import flagged_words
from custom_metrics.judging import ASPECTS
from custom_metrics.paired_difference import Floats
from custom_metrics.paired_draws import SEED
from custom_metrics.paired_rates import RATES
from custom_metrics.random_effects import Errors, detector_errors
from detector_plugin import calibration as calibrations
from lm_eval_tasks.calibrated import in_force
from lm_eval_tasks.commands.work.comparing.joining import JoinedTask
from lm_eval_tasks.commands.work.comparing.measured import MEAN, RATE, RATIO, Measured
from lm_eval_tasks.runs import Answer, Reading, TaskRun, cluster_of

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
    readings = [
        {
            document: answer.readings[filter_name]
            for document, answer in answers.items()
            if filter_name in answer.readings
        }
        for answers in task.answers
    ]
    if metric in RATES or metric == "hallucinated_share":
        return _measured_rate(task, metric, readings)
    if aggregation in _WORD_SCORES:
        return _measured_words(task, metric, readings, aggregation)
    first = next((reading.values.get(metric) for of_run in readings for reading in of_run.values()), None)
    of_judge: Callable[[Any], Floats] | None = (
        _verdict if _is_verdict(first) else _rating if _is_rating(first) else None
    )
    if of_judge is not None:
        found = _measured(
            task,
            readings,
            RATIO,
            metric,
            lambda reading: of_judge(reading.values.get(metric)),
            "questions",
            cluster=lambda answer, reading: str(answer.doc.get("id", answer.key)),
        )
        return found if isinstance(found, str) else replace(found, harmonic=of_judge is _rating)
    found = _measured(task, readings, MEAN, metric, lambda reading: _number(reading.values.get(metric)), "documents")
    return found if isinstance(found, str) else _by_passage(task, found)


def _by_passage(task: JoinedTask, found: Measured) -> Measured:
    """The values of an annotated task by passage: rows of one text, or page, hang together, in several tasks as well.

    Numbers then are ratios of sums to numbers of documents. Of other tasks the values stay as they are.
    """
    by_document = {key: answer for answers in task.answers for key, answer in answers.items()}
    names = [cluster_of(by_document[document].doc) for document in task.documents]
    if not all(names):
        return found
    numbers = {name: number for number, name in enumerate(sorted(set(names)))}
    clusters = np.array([numbers[name] for name in names], dtype=int)
    unit = "passages" if len(numbers) < len(names) else found.unit
    values = found.values
    if found.kind == MEAN:
        values = tuple(np.stack([part, np.where(np.isnan(part), np.nan, 1.0)], axis=-1)[:, None] for part in values)
    return replace(found, kind=RATIO, values=values, clusters=clusters, unit=unit, names=tuple(numbers))


class _NotANumber(Exception):
    """A value that no comparison can be made of."""


def _number(value: Any) -> float:
    if value is None:
        return math.nan
    if isinstance(value, (bool, int, float)):
        number = float(value)
        return number if math.isfinite(number) else math.nan
    raise _NotANumber(f"the values are {type(value).__name__}, not numbers")


def _word_counts(reading: Reading, score: str) -> Floats:
    """(ratios, 2): one ratio, or one for each category."""
    counts = reading.values.get("precision")
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
    """Whether a value is one of :mod:`custom_metrics.judging`: the question, then one number or two."""
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
    readings: Sequence[Mapping[str, Reading]],
    kind: str,
    metric: str,
    value_of: Callable[[Reading], Any],
    unit: str,
    cluster: Callable[[Answer, Reading], str] | None = None,
) -> Measured | str:
    places = {document: place for place, document in enumerate(task.documents)}
    try:
        found = [{places[document]: value_of(reading) for document, reading in of_run.items()} for of_run in readings]
    except _NotANumber as error:
        return str(error)
    shape = next((np.shape(value) for of_run in found for value in of_run.values()), ())
    if any(np.shape(value) != shape for of_run in found for value in of_run.values()):
        return "the values of its documents have several forms"
    values, present = [], []
    for by_place in found:
        array = np.full((len(places), *shape), np.nan)
        has = np.zeros(len(places), dtype=bool)
        if by_place:
            rows = np.fromiter(by_place, dtype=int)
            array[rows] = np.array(list(by_place.values()))
            has[rows] = True
        values.append(array)
        present.append(has)
    clusters = np.arange(len(places))
    if cluster is not None:
        names: dict[int, str] = {}
        for answers, of_run_readings in zip(task.answers, readings, strict=True):
            for document, reading in of_run_readings.items():
                names.setdefault(places[document], cluster(answers[document], reading))
        numbers = {name: number for number, name in enumerate(sorted(set(names.values())))}
        clusters = np.array([numbers[names[place]] if place in names else -1 for place in range(len(places))])
    return Measured(kind, metric, tuple(values), tuple(present), clusters, unit)


def _measured_words(
    task: JoinedTask, metric: str, readings: Sequence[Mapping[str, Reading]], score: str
) -> Measured | str:
    """A score of summed word counts, or the mean of it over the categories that occur."""
    found = _measured(task, readings, RATIO, metric, lambda reading: _word_counts(reading, score), "documents")
    if isinstance(found, str):
        return found
    found = _by_passage(task, found)
    if found.values[0].shape[1] == 1:
        return found
    recall = _measured(task, readings, RATIO, metric, lambda reading: _word_counts(reading, "recall"), "documents")
    if isinstance(recall, str):
        return recall
    annotated = np.nan_to_num(np.stack([values[..., 1] for values in recall.values])).max(axis=0)
    return replace(found, annotated=annotated)


# --------------------------------------------------------------------------------------------- hallucination rates


def _measured_rate(task: JoinedTask, metric: str, readings: Sequence[Mapping[str, Reading]]) -> Measured | str:
    """A rate over the words of answers; answers about one article are drawn together."""
    keys = {
        key
        for of_run in readings
        for reading in of_run.values()
        if (key := (_tagged(reading) or {}).get("calibration"))
    }
    clustered = any("article" in (_tagged(reading) or {}) for of_run in readings for reading in of_run.values())
    in_articles = clustered or any("article" in answer.doc for of_run in task.answers for answer in of_run.values())
    found = _measured(
        task,
        readings,
        RATIO,
        metric,
        lambda reading: _words_of(reading, metric),
        "articles" if in_articles else "documents",
        cluster=(lambda answer, reading: str(answer.doc.get("article", answer.key))) if in_articles else None,
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


def _tagged(reading: Reading) -> Mapping[str, Any] | None:
    """The counts of a tagged answer, which corrected rates carry; ``None`` where it is in no denominator."""
    for rate in (*RATES[1:], RATES[0]):
        value = reading.values.get(rate)
        if isinstance(value, Mapping):
            return value
    return None


def _words_of(reading: Reading, metric: str) -> Floats:
    """(1, 2) words flagged and words in all."""
    if reading.values.get(metric) is None:
        return np.full((1, 2), np.nan)
    tagged = _tagged(reading)
    if tagged is not None:
        return np.array([[_number(tagged.get("flagged")), _number(tagged.get("words"))]])
    try:
        content = json.loads(reading.answer)
        flagged, total = flagged_words(content["answer"], content["spans"], content.get("language") or "en")
    except (TypeError, ValueError, KeyError) as error:
        raise _NotANumber(f"the words of an answer cannot be counted ({error!r})") from error
    return np.array([[flagged, float(total)]])


def _calibration_files(runs: Sequence[TaskRun | None]) -> list[str]:
    """Files that may hold the calibration: what the runs were given."""
    given = [str((run.config.get("metadata") or {}).get("calibration") or "") for run in runs if run is not None]
    return sorted({name for name in given if name.endswith(".json")})


@lru_cache(maxsize=64)
def _errors(key: str, task: str, files: tuple[str, ...]) -> tuple[Errors | None, bool]:
    """The detector's errors by the key of its calibration, and whether they are expected from other languages."""
    identity = key.rsplit("|", 4)[0]
    try:
        calibrations.loaded(identity)
    except calibrations.CalibrationError:
        for name in (*calibrations.shipped().values(), *files):
            try:
                calibrations.load(name)
            except calibrations.CalibrationError:
                continue
    try:
        found = in_force(key, task)
    except calibrations.CalibrationError:
        return None, False
    if found is None:
        return None, False
    seed = SEED + zlib.crc32(task.encode()) % 10_000  # languages are calibrated on answers of their own
    errors = detector_errors(
        found.documents, found.precision, found.recall, found.pooled, seed=seed, clusters=found.clusters or None
    )
    return errors, found.pooled is not None
