"""Metrics of ``mfava_<language>``: from the tagged answers of a language to the rate at which the model hallucinates."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from statistics import stdev
from typing import Any, NamedTuple

import numpy as np

from custom_metrics.abstention import is_abstention
from custom_metrics.hallucination import Estimates, doubts, flagged_words
from custom_metrics.repetition import is_repetitive
from detector_plugin import calibration as calibrations
from lm_eval_tasks.calibrated import NO_CALIBRATION, estimated, in_force, key_of, say_what_it_rests_on

__all__ = ["TaggedAnswer", "process_results"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

RATES = ("detected_rate", "estimated_rate", "rogan_gladen_rate")
PARTS = ("", "_ci_low", "_ci_high", "_std")
KEYS = tuple(f"{rate}{part}" for rate in RATES for part in PARTS)


class TaggedAnswer(NamedTuple):
    """What the rates need of one answer; logged in the samples as a list.

    Attributes:
        flagged: words that the detector says are hallucinated; ``nan`` where it failed.
        words: of the answer.
        article: the answers about one article hang together, and are resampled together.
        subset: of the five.
        calibration: ``identity|language|annotations|name|version``, the last two of the detector in use.
    """

    flagged: float
    words: int
    article: int
    subset: int
    calibration: str


def process_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Per-document values of the metrics.

    Args:
        doc: a document of ``lm_eval_tasks.mfava.dataset``.
        results: what the filter ``hallucination_spans`` made of the answer.

    Returns:
        Under the rates the same :class:`TaggedAnswer`; numbers under the others. ``abstention_rate`` and
        ``repetition_rate`` are 1.0 or 0.0. Every document of a task has the same keys.
    """
    found = json.loads(results[0])
    answer, language = found["answer"], doc["language"]
    key = key_of(doc, found["detector"])
    flagged, total = flagged_words(answer, found["spans"], language)
    tagged = list(TaggedAnswer(flagged, total, doc["article"], doc["subset"], key))
    # The harness averages a group over the tasks that have a metric: these are there where they are defined.
    calibration = _calibration(key)
    defined = ["estimated_rate_where_calibrated"] if calibration else []
    if calibration and calibration.documents is not None:
        defined.append("rogan_gladen_rate_where_calibrated")
    abstains, loops = float(is_abstention(answer, language)), float(is_repetitive(answer, language))
    return {
        **dict.fromkeys(KEYS, tagged),
        **dict.fromkeys(("calibrated", *defined), tagged),
        "response_words": float(total),
        "hallucinated_words": float(flagged),
        **dict.fromkeys(("abstention_rate", "abstention_rate_ci_low", "abstention_rate_ci_high"), abstains),
        **dict.fromkeys(("repetition_rate", "repetition_rate_ci_low", "repetition_rate_ci_high"), loops),
    }


@lru_cache(maxsize=1)  # once, not for each of thirty languages
def _say_how_to_calibrate() -> None:
    log.warning(
        "mfava: without a calibration of the detector in the language, estimated_rate and rogan_gladen_rate are nan. "
        "Measure the detector on annotated answers (`lm_eval --model hallucination-detector --model_args detector=NAME "
        "--tasks mfava_detection_gold,mfava_detection_silver --log_samples --output_path RESULTS`), make a file of that "
        "(`lm-eval-grounded calibrate RESULTS -o FILE`), and name it with `--metadata calibration=FILE`."
    )


@lru_cache(maxsize=128)
def _calibration(key: str) -> calibrations.LanguageCalibration | None:
    """The calibration of a key; says once why there is none, or why it may not fit, and what to do."""
    path, language, *_ = key.rsplit("|", 4)
    found = in_force(key, f"mfava_{language}")
    if found is None and path != NO_CALIBRATION:
        _say_how_to_calibrate()
    return found


@lru_cache(maxsize=128)  # some fifteen metrics come of one bootstrap
def _estimates(answers: tuple[TaggedAnswer, ...]) -> tuple[Estimates, tuple[float, float, float]]:
    """The rates of all answers, and the standard deviation of each over the subsets."""
    calibration = _calibration(answers[0].calibration)
    whole = _estimate(answers, calibration)
    parts = [
        _estimate([a for a in answers if a.subset == subset], calibration, iterations=1)
        for subset in sorted({a.subset for a in answers if a.words})
    ]
    spread = [
        stdev(values) if len(values) > 1 and not any(map(math.isnan, values)) else math.nan
        for values in ([part[index].value for part in parts] for index in range(len(RATES)))
    ]
    counts = calibration.counts if calibration else None
    language = answers[0].calibration.rsplit("|", 4)[1]
    if calibration is not None:
        say_what_it_rests_on(f"mfava_{language}", whole, calibration)
    if counts is not None and not math.isnan(whole.detected.value):
        for reason in doubts(whole.detected.value, counts):
            log.warning("mfava_%s: the corrected rates cannot be trusted: %s.", language, reason)
    return whole, (spread[0], spread[1], spread[2])


def _estimate(
    answers: Iterable[TaggedAnswer], calibration: calibrations.LanguageCalibration | None, **options: Any
) -> Estimates:
    articles: dict[int, list[float]] = {}
    for answer in answers:
        sums = articles.setdefault(answer.article, [0.0, 0.0])
        sums[0] += answer.flagged
        sums[1] += answer.words
    wild = np.array(list(articles.values()), dtype=float).reshape(-1, 2)
    return estimated(wild, calibration, **options)


def _answers(values: Sequence[Any]) -> tuple[TaggedAnswer, ...]:
    return tuple(TaggedAnswer(*value) for value in values)


def _aggregation(rate: str, part: str) -> Callable[[Sequence[Any]], float]:
    index = RATES.index(rate)

    def aggregate(values: Sequence[Any]) -> float:
        if not values:
            return math.nan
        whole, spread = _estimates(_answers(values))
        if part == "_std":
            return spread[index]
        return whole[index][PARTS.index(part)]

    aggregate.__name__ = f"{rate}{part}"
    aggregate.__doc__ = f"{rate}{part} of the tagged answers of a language"
    return aggregate


detected_rate, detected_rate_ci_low, detected_rate_ci_high, detected_rate_std = (
    _aggregation("detected_rate", part) for part in PARTS
)
estimated_rate, estimated_rate_ci_low, estimated_rate_ci_high, estimated_rate_std = (
    _aggregation("estimated_rate", part) for part in PARTS
)
rogan_gladen_rate, rogan_gladen_rate_ci_low, rogan_gladen_rate_ci_high, rogan_gladen_rate_std = (
    _aggregation("rogan_gladen_rate", part) for part in PARTS
)


estimated_rate_where_calibrated, rogan_gladen_rate_where_calibrated = estimated_rate, rogan_gladen_rate


def calibrated(values: Sequence[Any]) -> float:
    """1.0 where the estimated rate is defined, else 0.0; its mean over a group is the share of languages that have one."""
    return float(bool(values) and not math.isnan(_estimates(_answers(values))[0].estimated.value))
