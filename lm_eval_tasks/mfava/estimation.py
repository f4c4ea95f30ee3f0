"""Metrics of ``mfava_<language>``: from the tagged answers of a language to the rate at which the model hallucinates."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from statistics import stdev
from typing import Any, NamedTuple

import numpy as np

from custom_metrics.abstention import is_abstention
from custom_metrics.broken_run import is_repetitive
from custom_metrics.hallucination import Estimates, flagged_words
from custom_metrics.scores.aggregations import Aggregation
from custom_metrics.statistics.figures import UNDEFINED, Figure, FloatWithCounts
from custom_metrics.statistics.intervals import sums_by_cluster
from detector_plugin import calibration as calibrations
from lm_eval_tasks.detection.calibrated import NO_CALIBRATION, CalibrationKey, corrected, counts_of, in_force, rates_of

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

RATES = ("detected_rate", "estimated_rate", "rogan_gladen_rate")


class TaggedAnswer(NamedTuple):
    """Counts of one answer for the rates. Samples log them as a list."""

    flagged: float  # words that the detector says are hallucinated
    words: int  # of the answer
    article: int  # answers about one article depend on each other, and are resampled together
    subset: int  # of the five
    calibration: str  # text of a :class:`lm_eval_tasks.detection.calibrated.CalibrationKey`


def process_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Per-document values of the metrics, from what the filter ``hallucination_spans`` made of an answer.

    ``detected_rate`` is the share of the answer's words that are flagged, and carries the answer's :class:`TaggedAnswer`;
    the other rates are that one itself, as a mapping: W&B's tables refuse lists of several types. ``None`` where the
    detector failed or there is no word. ``abstention_rate`` and ``repetition_rate`` are 1.0 or 0.0. Every document of a
    task has the same keys.
    """
    found = json.loads(results[0])
    answer, language = found["answer"], doc["language"]
    flagged, total = flagged_words(answer, found["spans"], language)
    failed = math.isnan(flagged)
    tagged = TaggedAnswer(flagged, total, doc["article"], doc["subset"], str(CalibrationKey.of(doc, found["detector"])))
    counts = total and not failed
    return {
        "detected_rate": FloatWithCounts(flagged / total, tagged) if counts else None,
        **dict.fromkeys(RATES[1:], tagged._asdict() if counts else None),
        "response_words": float(total),
        "hallucinated_words": None if failed else float(flagged),
        "abstention_rate": float(is_abstention(answer, language)),
        "repetition_rate": float(is_repetitive(answer, language)),
    }


@lru_cache(maxsize=1)  # once, not for each of thirty languages
def _say_how_to_calibrate() -> None:
    log.warning(
        "mfava: without a calibration of the detector in the language there are no estimated_rate and rogan_gladen_rate. "
        "Measure the detector on annotated answers (`lm_eval --model hallucination-detector --model_args detector=NAME "
        "--tasks mfava_detection_gold,mfava_detection_silver --log_samples --output_path RESULTS`), make a file of that "
        "(`lm-eval-grounded calibrate RESULTS -o FILE`), and name it with `--metadata calibration=FILE`."
    )


@lru_cache(maxsize=128)
def _calibration(key: str) -> calibrations.LanguageCalibration | None:
    """The calibration of a key; says once why there is none, or why it may not fit, and what to do."""
    parsed = CalibrationKey.parse(key)
    found = in_force(parsed, f"mfava_{parsed.language}")
    if found is None and parsed.calibration != NO_CALIBRATION:
        _say_how_to_calibrate()
    return found


@lru_cache(maxsize=128)  # three rates come of one bootstrap
def _estimates(answers: tuple[TaggedAnswer, ...]) -> tuple[Estimates, list[float]]:
    """The rates of all answers, and the standard deviation of each over the subsets."""
    key = answers[0].calibration
    calibration = _calibration(key)
    whole = corrected(_sums_by_article(answers), calibration, f"mfava_{CalibrationKey.parse(key).language}")
    parts = [
        rates_of(_sums_by_article([answer for answer in answers if answer.subset == subset]), calibration)
        for subset in sorted({answer.subset for answer in answers})
    ]
    spread = [
        stdev(values) if len(values) > 1 and not any(map(math.isnan, values)) else math.nan
        for values in zip(*parts, strict=True)
    ]
    return whole, spread


def _sums_by_article(answers: Sequence[TaggedAnswer]) -> np.ndarray[Any, Any]:
    """(articles, 2): words flagged and words in all."""
    counts = np.array([[answer.flagged, answer.words] for answer in answers], dtype=float)
    return sums_by_cluster(counts, [answer.article for answer in answers])


def _aggregation(rate: str) -> Aggregation:
    def figure(values: Sequence[Any]) -> Figure:
        answers = counts_of(values, TaggedAnswer)
        return _estimates(answers)[0][RATES.index(rate)]._replace(n=len(answers)) if answers else UNDEFINED

    return Aggregation(rate, figure)


detected_rate, estimated_rate, rogan_gladen_rate = (_aggregation(rate) for rate in RATES)


def spread_over_subsets(values: Sequence[Any]) -> dict[str, Figure]:
    """Rate to its standard deviation over the question subsets: how much it depends on which questions are asked. The
    values may be of any of the rates."""
    answers = counts_of(values, TaggedAnswer)
    if not answers:
        return {}
    number = len({answer.subset for answer in answers})
    return {rate: Figure(deviation, n=number) for rate, deviation in zip(RATES, _estimates(answers)[1], strict=True)}
