"""The harness tasks of mFAVA, and the metrics of ``mfava_<language>``: from the tagged answers of a language to the rate at
which the model hallucinates."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from statistics import stdev
from typing import Any

from custom_metrics.abstention import is_abstention
from custom_metrics.broken_run import is_repetitive
from custom_metrics.hallucination import RATES, rates
from custom_metrics.statistics.figures import Figure
from lm_eval_tasks.detection import calibrated
from lm_eval_tasks.detection.calibrated import CalibratedRate, CalibrationKey, TaggedAnswer, tagged_answer
from lm_eval_tasks.harness.detector_task import DetectingTask
from lm_eval_tasks.harness.task import GroundedTask

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own


def process_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Per-document values of the metrics, from an answer as the filter ``hallucination_spans`` returns it. The rates are
    those of :meth:`lm_eval_tasks.detection.calibrated.TaggedAnswer.values`. ``abstention_rate`` and ``repetition_rate``
    are 1.0 or 0.0. Every document of a task has the same keys."""
    tagged = json.loads(results[0])
    answer, language = tagged["answer"], doc["language"]
    tagged_answer = TaggedAnswer.from_document(doc, tagged)
    share, counts = tagged_answer.values()
    return {
        "detected_rate": share,
        **dict.fromkeys(RATES[1:], counts),
        "response_words": float(tagged_answer.words),
        "hallucinated_words": None if math.isnan(tagged_answer.flagged) else float(tagged_answer.flagged),
        "abstention_rate": float(is_abstention(answer, language)),
        "repetition_rate": float(is_repetitive(answer, language)),
    }


@lru_cache(maxsize=1)  # once, not for each of thirty languages
def _warn_uncalibrated() -> None:
    log.warning(
        "mfava: without a calibration of the detector in the language there are no estimated_rate and rogan_gladen_rate. "
        "Measure the detector on annotated answers (`lm_eval --model hallucination-detector --model_args detector=NAME "
        "--tasks mfava_detection_gold,mfava_detection_silver --log_samples --output_path RESULTS`), make a file of that "
        '(`lm-eval-grounded calibrate RESULTS -o FILE`), and name it with `--metadata \'{"calibration": "FILE"}\'`.'
    )


detected_rate, estimated_rate, rogan_gladen_rate = (CalibratedRate(name, name, "mfava_{language}") for name in RATES)


def spread_over_subsets(values: Sequence[Any]) -> dict[str, Figure]:
    """Rate to its standard deviation over the question subsets: how much it depends on which questions are asked. The
    values may be of any of the rates. Warns once where no calibration corrects them."""
    answers = [*filter(None, map(tagged_answer, values))]
    if not answers:
        return {}
    key = CalibrationKey.parse(answers[0].calibration)
    calibration = calibrated.in_force(key, f"mfava_{key.language}")
    if calibration is None and key.calibration != calibrated.NO_CALIBRATION:
        _warn_uncalibrated()
    errors = calibrated.errors_of(calibration)
    subsets: dict[int | None, list[TaggedAnswer]] = {}
    for answer in answers:
        subsets.setdefault(answer.subset, []).append(answer)
    by_subset = [rates(detected_rate.rows(subset).values, errors) for subset in subsets.values()]
    return {
        rate: Figure(stdev(x) if len(x) > 1 and not any(map(math.isnan, x)) else math.nan, n=len(by_subset))
        for rate, x in zip(RATES, zip(*by_subset, strict=True), strict=True)
    }


class EstimationTask(DetectingTask):
    """A task whose answers a detector tags (:class:`DetectingTask`)."""

    def finer_figures(self, values: Mapping[str, Sequence[Any]]) -> Iterable[tuple[str, Figure, str]]:
        """``<rate>_std``: how much a rate differs between the subsets of questions."""
        yield from super().finer_figures(values)
        for rate, figure in spread_over_subsets(values.get("detected_rate", ())).items():
            yield f"{rate}_std", figure, "subsets of questions; standard deviation between them"


class CategoryTask(GroundedTask):
    """A detection task by category, with the figures of each category."""

    def finer_figures(self, values: Mapping[str, Sequence[Any]]) -> Iterable[tuple[str, Figure, str]]:
        from custom_metrics.scores.detection import category_figures

        for name, figure in category_figures(values.get("precision", ())).items():
            yield name, figure, "answers; counted in words of this category"
