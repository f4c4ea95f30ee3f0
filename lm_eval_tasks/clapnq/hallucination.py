"""Metrics of a detector over CLAPnq's answers: how much of them the given passages do not bear out.

``clapnq_gold*`` and ``clapnq_rag*`` have them where ``--metadata detector=NAME`` names a detector. Only then is this module
imported."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from custom_metrics.abstention import is_abstention
from custom_metrics.hallucination import Estimates, flagged_words
from custom_metrics.scores.aggregations import Aggregation
from custom_metrics.statistics.figures import UNDEFINED, Figure, FloatWithCounts
from detector_plugin import calibration as calibrations
from lm_eval_tasks.clapnq.benchmark import OF_A_DETECTOR
from lm_eval_tasks.detection.calibrated import (
    NO_CALIBRATION,
    CalibrationKey,
    corrected,
    counts_of,
    in_force,
    settings_of,
)

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

LANGUAGE = "en"
SHARE, CORRECTED = "hallucinated_share", "rogan_gladen_rate"


class TaggedAnswer(NamedTuple):
    """Counts of one answer for the rates. Samples log them as a list."""

    flagged: float  # words that the detector says are hallucinated
    words: int  # of the answer
    calibration: str  # text of a :class:`lm_eval_tasks.detection.calibrated.CalibrationKey`


def columns(
    task: str,
    detector: str,
    detector_args: Mapping[str, Any] | str | None,
    calibration: str | None,
    calibration_annotations: str | None,
    others: Mapping[str, Any],
) -> dict[str, str]:
    """The columns of a task's documents that filter, metrics and results read.

    Arguments and errors are those of :func:`lm_eval_tasks.detection.calibrated.settings_of`. A calibration is
    used only if it is named.
    """
    named = calibration if is_named(calibration) else NO_CALIBRATION
    settings = settings_of(task, detector, detector_args, named, calibration_annotations, others)
    if is_named(calibration):
        loaded = calibrations.by_identity(settings["calibration"])
        if loaded.for_language(LANGUAGE, calibration_annotations) is None:
            log.warning(
                "%s: calibration %s has nothing%s for English (it has %s), so there is no rogan_gladen_rate. Measure the "
                "detector on annotated English answers, and make a file of that with `lm-eval-grounded calibrate`.",
                *(task, settings["calibration"]),
                f" {calibration_annotations}" if calibration_annotations else "",
                ", ".join(loaded.languages),
            )
    return {**settings, "language": LANGUAGE}


def is_named(calibration: object) -> bool:
    """Whether the value of ``calibration=`` names one."""
    return calibration not in (None, "", NO_CALIBRATION)


def metric_list(with_corrected: bool) -> list[dict[str, Any]]:
    """The metrics as entries of a task's ``metric_list``; ``rogan_gladen_rate`` only `with_corrected`."""
    return [
        {
            "metric": metric.name,
            "aggregation": AGGREGATIONS[metric.name],
            "higher_is_better": metric.higher_is_better,
            "denominator": metric.denominator,
        }
        for metric in OF_A_DETECTOR
        if with_corrected or metric.name != CORRECTED
    ]


def process_results(doc: Mapping[str, Any], tagged: Mapping[str, Any]) -> dict[str, Any]:
    """Per-document values of the metrics, from what the filter ``hallucination_spans`` made of an answer.

    ``hallucinated_share`` of the answer carries its :class:`TaggedAnswer`; where a calibration is named,
    ``rogan_gladen_rate`` is that one itself, as a mapping: W&B's tables refuse lists of several types. ``None`` where the
    detector failed, there is no word, or the answer abstains: to say that the passages do not answer is nothing that they
    bear out, and nothing that is made up.
    """
    flagged, total = flagged_words(tagged["answer"], tagged["spans"], LANGUAGE)
    counts = total and not math.isnan(flagged) and not is_abstention(tagged["answer"], LANGUAGE)
    value = TaggedAnswer(flagged, total, str(CalibrationKey.of(doc, tagged["detector"])))
    rates = {SHARE: FloatWithCounts(flagged / total, value) if counts else None}
    return {**rates, CORRECTED: value._asdict() if counts else None} if is_named(doc["calibration"]) else rates


_calibration = lru_cache(maxsize=32)(in_force)


@lru_cache(maxsize=32)  # both rates come of one bootstrap
def _estimates(answers: tuple[TaggedAnswer, ...]) -> Estimates:
    """The rates over all words of the answers; every question is a cluster of the bootstrap."""
    wild = np.array([answer[:2] for answer in answers], dtype=float)
    return corrected(wild, _calibration(CalibrationKey.parse(answers[0].calibration), "clapnq"), "clapnq")


def _aggregation(name: str, rate: str) -> Aggregation:
    def figure(values: Sequence[Any]) -> Figure:
        answers = counts_of(values, TaggedAnswer)
        if not answers:
            return UNDEFINED
        figure: Figure = getattr(_estimates(answers), rate)
        return figure._replace(n=len(answers))

    return Aggregation(name, figure)


AGGREGATIONS = {SHARE: _aggregation(SHARE, "detected"), CORRECTED: _aggregation(CORRECTED, "rogan_gladen")}
"""A metric's name to the figure of all documents' values."""
