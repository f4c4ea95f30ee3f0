"""Metrics of a detector over CLAPnq's answers: the share of them that the given passages do not support.

``clapnq_gold*`` and ``clapnq_rag*`` have them where ``--metadata`` names a ``detector``. Only then is this module
imported."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from custom_metrics.abstention import is_abstention
from custom_metrics.hallucination import RATES
from detector_plugin import calibration as calibrations
from detector_plugin.detector import RAG
from lm_eval_tasks.clapnq.benchmark import OF_A_DETECTOR
from lm_eval_tasks.detection.calibrated import NO_CALIBRATION, CalibratedRate, TaggedAnswer, settings_of

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

LANGUAGE = "en"
SHARE, CORRECTED = "hallucinated_share", "rogan_gladen_rate"


def columns(
    task: str,
    detector: str,
    detector_args: Mapping[str, Any] | str | None,
    calibration: str | None,
    calibration_annotations: str | None,
    other_arguments: Mapping[str, Any],
) -> dict[str, str]:
    """The columns of a task's documents that filter, metrics and results read. Arguments and errors are those of
    :func:`lm_eval_tasks.detection.calibrated.settings_of`. A calibration is used only if it is named, and of it the
    errors on RAG answers alone: those on closed-book answers are other ones."""
    named = calibration if is_named(calibration) else NO_CALIBRATION
    kind = calibration_annotations or RAG
    settings = settings_of(task, detector, detector_args, named, kind, other_arguments, kinds=(RAG,))
    if is_named(calibration):
        loaded = calibrations.by_identity(settings["calibration"])
        if loaded.for_language(LANGUAGE, RAG) is None:
            log.warning(
                "%s: calibration %s has no errors on RAG answers in English (it has some in %s), so there is no "
                "rogan_gladen_rate. Measure them (`lm_eval --model hallucination-detector --tasks ragtruth_qa ...`), and "
                "make a file of that with `lm-eval-grounded calibrate`.",
                *(task, settings["calibration"]),
                ", ".join(code for code, kinds in loaded.languages.items() if RAG in kinds) or "no language",
            )
    return {**settings, "language": LANGUAGE}


def is_named(calibration: object) -> bool:
    return calibration not in (None, "", NO_CALIBRATION)


def metric_list(with_corrected: bool) -> list[dict[str, Any]]:
    """The metrics as entries of a task's ``metric_list``; ``rogan_gladen_rate`` only `with_corrected`."""
    return [
        metric.entry(AGGREGATIONS[metric.name])
        for metric in OF_A_DETECTOR
        if with_corrected or metric.name != CORRECTED
    ]


def process_results(doc: Mapping[str, Any], tagged: Mapping[str, Any]) -> dict[str, Any]:
    """Per-document values of the metrics, from an answer as the filter ``hallucination_spans`` returns it.

    Both are those of :meth:`lm_eval_tasks.detection.calibrated.TaggedAnswer.values`, ``rogan_gladen_rate`` only where a
    calibration is named. ``None`` where the answer abstains: that the passages do not answer is neither supported by them
    nor made up.
    """
    abstains = is_abstention(tagged["answer"], LANGUAGE)
    share, counts = (None, None) if abstains else TaggedAnswer.from_document(doc, tagged).values()
    return {SHARE: share, CORRECTED: counts} if is_named(doc["calibration"]) else {SHARE: share}


hallucinated_share = CalibratedRate(SHARE, RATES[0], "clapnq")
rogan_gladen_rate = CalibratedRate(CORRECTED, RATES[2], "clapnq")
AGGREGATIONS = {kind.name: kind for kind in (hallucinated_share, rogan_gladen_rate)}
