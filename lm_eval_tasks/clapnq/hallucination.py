"""How much of the answers to CLAPnq's questions is not borne out by the passages that were given: metrics of
``clapnq_gold*`` and ``clapnq_rag*`` where ``--metadata detector=NAME`` names a detector. Imported there only."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from custom_metrics.abstention import is_abstention
from custom_metrics.hallucination import Estimates, doubts, flagged_words
from detector_plugin import calibration as calibrations
from lm_eval_tasks.calibrated import NO_CALIBRATION, estimated, in_force, key_of, say_what_it_rests_on
from lm_eval_tasks.detector_settings import settings_of

__all__ = ["AGGREGATIONS", "TaggedAnswer", "columns", "is_named", "metric_list", "process_results"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

LANGUAGE = "en"
PARTS = ("", "_ci_low", "_ci_high")
SHARE = tuple(f"hallucinated_share{part}" for part in PARTS)
CORRECTED = tuple(f"rogan_gladen_rate{part}" for part in PARTS)


class TaggedAnswer(NamedTuple):
    """What the rates need of one answer; logged in the samples as a list.

    Attributes:
        flagged: words that the detector says are hallucinated; ``nan`` where it failed, 0 where the answer abstains.
        words: of the answer; 0 where it abstains, so that it counts nowhere.
        calibration: see :func:`lm_eval_tasks.calibrated.key_of`.
    """

    flagged: float
    words: int
    calibration: str


def columns(
    task: str,
    detector: str,
    detector_args: Mapping[str, Any] | str | None,
    calibration: str | None,
    calibration_annotations: str | None,
    others: Mapping[str, Any],
) -> dict[str, str]:
    """What filter, metrics and results go by, for every document of a task; arguments and errors as those of
    :func:`lm_eval_tasks.detector_settings.settings_of`, but that no calibration is used unless one is named.
    """
    named = calibration if is_named(calibration) else NO_CALIBRATION
    settings = settings_of(task, detector, detector_args, named, calibration_annotations, others)
    if is_named(calibration):
        loaded = calibrations.loaded(settings["calibration"])
        if loaded.of(LANGUAGE, calibration_annotations) is None:
            log.warning(
                "%s: calibration %s has nothing%s for English (it has %s), so rogan_gladen_rate is nan. Measure the "
                "detector on annotated English answers, and make a file of that with `lm-eval-grounded calibrate`.",
                *(task, settings["calibration"]),
                f" {calibration_annotations}" if calibration_annotations else "",
                ", ".join(loaded.languages),
            )
    return {**settings, "language": LANGUAGE}


def is_named(calibration: object) -> bool:
    """Whether the value of ``calibration=`` names one."""
    return calibration not in (None, "", NO_CALIBRATION)


def metric_list(corrected: bool) -> list[dict[str, Any]]:
    """The metrics as entries of a task's ``metric_list``.

    Args:
        corrected: ``rogan_gladen_rate`` too.
    """
    return [
        {"metric": name, "aggregation": AGGREGATIONS[name], "higher_is_better": False}
        for name in (*SHARE, *(CORRECTED if corrected else ()))
    ]


def process_results(doc: Mapping[str, Any], tagged: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Per-document values of the metrics.

    Args:
        doc: a document with the columns of :func:`columns`.
        tagged: ``answer``, ``spans`` and ``detector``, as the filter ``hallucination_spans`` has them.

    Returns:
        The same :class:`TaggedAnswer` under every name: ``hallucinated_share``, where a calibration is named also
        ``rogan_gladen_rate``, and their bounds. Answers that abstain have no words: to say that the passages do not answer
        is nothing that they bear out, and nothing that is made up.
    """
    flagged, total = flagged_words(tagged["answer"], tagged["spans"], LANGUAGE)
    if is_abstention(tagged["answer"], LANGUAGE):
        flagged, total = 0, 0
    value = list(TaggedAnswer(flagged, total, key_of(doc, tagged["detector"])))
    return dict.fromkeys((*SHARE, *(CORRECTED if is_named(doc["calibration"]) else ())), value)


@lru_cache(maxsize=32)  # six metrics come of one bootstrap
def _estimates(answers: tuple[TaggedAnswer, ...]) -> Estimates:
    """The rates over all words of the answers that have some; every question is a cluster of the bootstrap."""
    counted = [answer for answer in answers if answer.words]
    wild = np.array([answer[:2] for answer in counted], dtype=float).reshape(-1, 2)
    calibration = _calibration(answers[0].calibration)
    found = estimated(wild, calibration)
    if calibration is None:
        return found
    say_what_it_rests_on("clapnq", found, calibration)
    if calibration.counts is not None and not math.isnan(found.detected.value):
        for reason in doubts(found.detected.value, calibration.counts):
            log.warning("clapnq: rogan_gladen_rate cannot be trusted: %s.", reason)
    return found


@lru_cache(maxsize=32)
def _calibration(key: str) -> calibrations.LanguageCalibration | None:
    return in_force(key, "clapnq")


def _aggregation(name: str, rate: str, part: str) -> Callable[[Sequence[Any]], float]:
    def aggregate(values: Sequence[Any]) -> float:
        if not values:
            return math.nan
        rates = _estimates(tuple(TaggedAnswer(*value) for value in values))
        return float(getattr(rates, rate)[PARTS.index(part)])

    aggregate.__name__ = f"{name}{part}"
    aggregate.__doc__ = f"{name}{part} of the tagged answers of a task"
    return aggregate


AGGREGATIONS = {
    f"{name}{part}": _aggregation(name, rate, part)
    for name, rate in (("hallucinated_share", "detected"), ("rogan_gladen_rate", "rogan_gladen"))
    for part in PARTS
}
"""A metric's name to the figure of all documents' values."""
