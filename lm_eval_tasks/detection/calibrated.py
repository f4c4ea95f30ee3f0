"""Settings of the detector that tags a task's answers, and the calibration that corrects its rates.

They go from the options ``detector``, ``detector_args``, ``calibration`` and ``calibration_annotations`` to columns of the
documents. By these columns and the detector that tagged the answers the calibration in force is found.
"""

from __future__ import annotations

import json
import logging
import math
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from custom_metrics.hallucination import (
    RATES,
    Estimates,
    HallucinationRate,
    doubts,
    estimate,
    estimated_rate,
    flagged_words,
)
from custom_metrics.scores.aggregations import NotMeasured, Source
from custom_metrics.statistics.figures import NOT_MEASURABLE, FloatWithCounts, Rows, is_wide
from custom_metrics.statistics.intervals import RESAMPLES
from custom_metrics.statistics.paired_difference import ITERATIONS
from custom_metrics.statistics.random_effects import SEED_OF_ERRORS, Errors, expected_errors, measured_errors
from custom_metrics.usage.plain_errors import UsageError
from detector_plugin import calibration as calibrations
from detector_plugin.detector import RAG
from detector_plugin.filters import FAILED, text_of_options
from detector_plugin.loading import calibrated_name, check_detector, has_package
from lm_eval_tasks import definition

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

NO_CALIBRATION = "none"  # the value of `calibration` that leaves the corrected rates out, without a warning

# Options that no model of the harness has: among other arguments they were meant for the detector.
_OPTIONS_OF_DETECTORS = {*"form labels attention threshold held_out batch_tokens base_model".split()}


def settings_of(
    task: str,
    detector: str,
    detector_args: Mapping[str, Any] | str | None = None,
    calibration: str | None = None,
    calibration_annotations: str | None = None,
    other_arguments: Mapping[str, Any] | None = None,
    kinds: Sequence[str] = calibrations.KINDS,
) -> dict[str, str]:
    """The columns that filter, metrics and results read, a text for each of
    :data:`lm_eval_tasks.definition.OF_DETECTION`: the detector's name, its options as JSON without secrets, the
    calibration's identity, the kind of annotation (empty where any will do). A UsageError where one of them cannot be
    used, before any answer is generated.

    Args:
        calibration: file of ``lm-eval-grounded calibrate``, or the name of a detector whose calibration ships; default what
            ships for the detector, or lies in its folder; ``"none"``: no corrected rates.
        calibration_annotations: one of `kinds`, those that fit the task's answers; default the first of these that exists.
        other_arguments: everything else that the user named, mixed with the model's arguments.
    """
    for name, value in (("detector", detector), ("calibration", calibration)):
        if isinstance(value, (list, dict)):
            raise UsageError(f"{task}: {name} takes one value, got {value!r}")
    if calibration_annotations is not None:
        definition.choice("calibration_annotations", calibration_annotations, kinds, task)
    other_arguments = other_arguments or {}
    stray = _OPTIONS_OF_DETECTORS & other_arguments.keys()
    if "strategy" in other_arguments:  # of grounded-baseline, which has a threshold of its own
        stray -= {"threshold"}
    if stray:
        raise UsageError(
            f"{task}: {', '.join(sorted(stray))} belongs into detector_args; put `;` between its options, or write JSON: "
            f"at commas the harness cuts"
        )
    options = definition.pairs("detector_args", detector_args, task)
    check_detector(detector, json.dumps(options, sort_keys=True))
    return {
        "detector": detector,
        "detector_args": text_of_options(options),
        "calibration": calibration_of(detector, options, calibration),
        "calibration_annotations": calibration_annotations or "",
    }


def calibration_of(detector: str, options: Mapping[str, Any], calibration: str | None) -> str:
    """Identity of the calibration in force; empty where there is none, ``none`` where none is wanted. CalibrationError
    where the named one cannot be read, or is of another detector."""
    name = calibrated_name(detector, options)
    if calibration is None:
        path = calibrations.shipped().get(name) or calibrations.in_folder(name)
        return calibrations.load(path).identity if path else ""
    if calibration == NO_CALIBRATION:
        return NO_CALIBRATION
    loaded = calibrations.load(calibration)
    # A model of the hub may be a folder here: of those, the versions are compared when the detector has been loaded.
    built_in = [model in calibrations.shipped() or has_package(model) for model in (name, loaded.detector["name"])]
    if loaded.detector["name"] != name and any(built_in):
        raise calibrations.CalibrationError(
            f"calibration {calibration}: it is of detector {loaded.detector['name']!r}, and the detector in use is "
            f"{name!r}. A detector's errors are its own: measure it with `lm_eval --model hallucination-detector "
            f"--model_args detector={detector} --tasks mfava_detection_gold --log_samples -o RESULTS`, then "
            f"`lm-eval-grounded calibrate RESULTS -o FILE`."
        )
    return loaded.identity


class CalibrationKey(NamedTuple):
    """The key under which the calibration of an answer's rates is looked up. It travels as text (:meth:`__str__`):
    samples hold plain text only, and ranks exchange it."""

    calibration: str  # identity; empty where there is none, ``none`` where none is wanted
    language: str  # ISO 639 code
    annotations: str  # a kind of calibration; empty for the first of :data:`detector_plugin.calibration.KINDS`
    detector: str  # that is in use
    version: str

    @classmethod
    def from_document(cls, doc: Mapping[str, Any], detector: Mapping[str, str]) -> CalibrationKey:
        in_use = [str(detector[key]).replace("|", "/") for key in ("name", "version")]
        return cls(doc["calibration"], doc["language"], doc["calibration_annotations"], *in_use)

    @classmethod
    def parse(cls, text: str) -> CalibrationKey:
        return cls(*text.rsplit("|", 4))

    def __str__(self) -> str:
        return "|".join(self)


@lru_cache(maxsize=128)  # so that the reasons below are logged once
def in_force(key: CalibrationKey, task: str) -> calibrations.LanguageCalibration | None:
    """The calibration of a key. ``None`` where none is wanted or known, or it lacks the language, or is of another
    detector; the log has the reason, or why the calibration may not fit."""
    path, language, annotations, name, version = key
    if path == NO_CALIBRATION:
        return None
    if not path:
        log.info("%s: the detector has no calibration, so there are no corrected rates", task)
        return None
    loaded = calibrations.by_identity(path)
    entry, measured = loaded.for_language(language, annotations or None), loaded.detector
    if entry is None:
        log.info(
            "%s: %s has no %s calibration for this language (it has %s), so there are no corrected rates",
            *(task, path, annotations or "real, gold or silver", ", ".join(loaded.languages)),
        )
        return None
    if version in (measured["version"], FAILED):  # the same detector, under any name or path
        return entry
    if measured["name"] == name:
        log.warning(
            "%s: the calibration is of version %s of the detector, and version %s is in use; measure that one",
            *(task, measured["version"], version),
        )
        return entry
    log.warning(
        "%s: the calibration is of %s, version %s, and the detector in use is %s, version %s: another one, so there are no "
        "corrected rates",
        *(task, measured["name"], measured["version"], name, version),
    )
    return None


def errors_of(
    calibration: calibrations.LanguageCalibration | None, iterations: int = RESAMPLES, seed: int = SEED_OF_ERRORS
) -> Errors | None:
    """A detector's errors by a calibration; ``None`` where there is none, or it holds no errors."""
    if calibration is None:
        return None
    if calibration.pooled is not None:
        return expected_errors(calibration.pooled, iterations, seed)
    if calibration.documents is not None:
        return measured_errors(calibration.documents, iterations, seed, calibration.clusters or None)
    rates = (math.nan, math.nan, estimated_rate(calibration.precision, calibration.recall, 1, 1))
    if math.isnan(rates[2]):
        return None
    return Errors(*rates, np.tile(rates, (iterations, 1)))


class TaggedAnswer(NamedTuple):
    flagged: float  # words that the detector flags; nan where it failed
    words: int  # of the answer
    article: int | None = None  # answers about one article depend on each other, and are resampled together
    subset: int | None = None  # of mFAVA's five
    calibration: str = ""  # text of a :class:`CalibrationKey`

    @classmethod
    def from_document(cls, doc: Mapping[str, Any], tagged: Mapping[str, Any]) -> TaggedAnswer:
        """From a document's columns, and an answer as the filter ``hallucination_spans`` returns it."""
        flagged, total = flagged_words(tagged["answer"], tagged["spans"], doc["language"])
        key = CalibrationKey.from_document(doc, tagged["detector"])
        return cls(flagged, total, doc.get("article"), doc.get("subset"), str(key))

    def values(self) -> tuple[FloatWithCounts | None, dict[str, Any] | None]:
        """The flagged share of the words, which carries these counts, and the counts as a mapping for rates that are
        corrected: W&B's tables refuse lists of several types. ``None`` where the detector failed or there is no word."""
        if not self.words or math.isnan(self.flagged):
            return None, None
        mapping = {name: value for name, value in self._asdict().items() if value is not None}
        return FloatWithCounts(self.flagged / self.words, self), mapping


def tagged_answer(value: Any) -> TaggedAnswer | None:
    """The counts that a document's value of a rate carries, or that samples have as a mapping."""
    counts = value.counts if isinstance(value, FloatWithCounts) else value
    return counts and (TaggedAnswer(**counts) if isinstance(counts, Mapping) else TaggedAnswer(*counts))


class CalibratedRate(HallucinationRate):
    """A hallucination rate whose values name their calibration (:class:`CalibrationKey`). The context of its rows is the
    keys, the task, and the files of calibrations that the run named."""

    companions = (*RATES[1:], RATES[0])

    def __init__(self, name: str, rate: str, task: str) -> None:
        super().__init__(name, rate)
        self._task = task  # for the log; it may name its {language}

    def rows(self, values: Sequence[Any], clusters: Sequence[Any] | None = None, source: Source | None = None) -> Rows:
        try:
            answers = [*map(tagged_answer, values)]
            counts = [(math.nan, math.nan) if answer is None else answer[:2] for answer in answers]
            keys = sorted({str(answer.calibration) for answer in answers if answer and answer.calibration})
            rows = np.array(counts, dtype=float).reshape(-1, 2)
        except (TypeError, ValueError) as error:
            raise NotMeasured(f"the words of an answer cannot be counted ({error!r})") from error
        if clusters is None:
            articles = [None if answer is None else answer.article for answer in answers]
            known = all(article is not None for article, answer in zip(articles, answers, strict=True) if answer)
            clusters = ["" if article is None or not known else str(article) for article in articles]
        task = (
            source.task
            if source
            else self._task.format(language=CalibrationKey.parse(keys[0]).language if keys else "")
        )
        named = str(source.metadata.get("calibration") or "") if source else ""
        return Rows(rows, clusters, [keys, task, [named] if named.endswith(".json") else []])

    def reread(self, doc: Mapping[str, Any], answer: Any) -> dict[str, Any]:
        """The value of a document, from its logged answer as the filter ``hallucination_spans`` returns it."""
        try:
            content = json.loads(answer)
            flagged, total = flagged_words(content["answer"], content["spans"], doc.get("language") or "en")
        except (TypeError, ValueError, KeyError) as error:
            raise NotMeasured(f"the words of an answer cannot be counted ({error!r})") from error
        return {"flagged": flagged, "words": total}

    def errors(self, context: Any, iterations: int) -> Errors | None:
        """As :meth:`HallucinationRate.errors`. Those of a difference are drawn apart for each task, as languages are
        calibrated on different answers."""
        keys, task, files = context
        if iterations == RESAMPLES:
            return errors_of(in_force(CalibrationKey.parse(keys[0]), task)) if keys else None
        return _paired_errors(keys[0], task, tuple(files)) if len(keys) == 1 else None

    def estimates(self, rows: Rows) -> Estimates:
        """As :meth:`HallucinationRate.estimates`. Logs what the corrected rates rest on, and why not to trust them."""
        keys, task, _ = rows.context
        return estimates(self.by_cluster(rows).values.tobytes(), keys[0] if keys else "", task)

    def check(self, runs: Mapping[str, Rows]) -> Mapping[str, str]:
        apart = super().check(runs)
        if self.rate == RATES[0]:
            return apart
        keys = {key for rows in runs.values() for key in rows.context[0]}
        if len(keys) != 1:
            raise NotMeasured(f"the answers name {len(keys)} calibrations")
        files = sorted({file for rows in runs.values() for file in rows.context[2]})
        errors = _paired_errors(*keys, next(iter(runs.values())).context[1], tuple(files))
        if errors is None:
            raise NotMeasured("no calibration corrects it, or its file is not here (name it with --calibration)")
        if self.rate == RATES[2] and math.isnan(errors.false_positive_rate):
            raise NotMeasured("its calibration has no false positive rate")
        return apart


@lru_cache(maxsize=128)  # all rates are from one bootstrap
def estimates(counts: bytes, key: str, task: str) -> Estimates:
    """The rates of (articles, 2) words flagged and words in all."""
    calibration = in_force(CalibrationKey.parse(key), task) if key else None
    rates = estimate(np.frombuffer(counts).reshape(-1, 2), errors_of(calibration))
    if calibration is not None:
        log_basis_of_rates(task, rates, calibration)
        if calibration.counts is not None and not math.isnan(rates.detected.value):
            for reason in doubts(rates.detected.value, calibration.counts):
                log.warning("%s: the corrected rates cannot be trusted: %s.", task, reason)
    return rates


@lru_cache(maxsize=64)
def _paired_errors(key: str, task: str, files: tuple[str, ...]) -> Errors | None:
    """The detector's errors for the key of a calibration, which may be in one of the files."""
    parsed = CalibrationKey.parse(key)
    try:
        calibrations.by_identity(parsed.calibration)
    except calibrations.CalibrationError:
        for name in (*calibrations.shipped().values(), *files):
            with suppress(calibrations.CalibrationError):
                calibrations.load(name)
    with suppress(calibrations.CalibrationError):
        return errors_of(in_force(parsed, task), ITERATIONS, SEED_OF_ERRORS + zlib.crc32(task.encode()) % 10_000)
    return None


FEW = 20  # texts of a calibration below which the log line after a run points out that they are few

KINDS_OF_CALIBRATION = {
    "real": "answers that models wrote on their own and people marked",
    RAG: "answers that models wrote from passages and people judged",
    calibrations.POOLED: "real answers in other languages, as none are annotated in this one",
    "gold": "texts into which GPT-4 wrote errors that people marked, which says little of real answers",
    "silver": "texts into which GPT-4 wrote errors that it marked itself, which says little of real answers",
}


def log_basis_of_rates(task: str, rates: Estimates, calibration: calibrations.LanguageCalibration) -> None:
    """Log a corpus' corrected rate, its bounds and what they rest on, in one line; a warning where it is not measurable
    (:mod:`custom_metrics.statistics.figures`), and so is left out of the results."""
    rate = rates.estimated if math.isnan(rates.rogan_gladen.value) else rates.rogan_gladen
    if math.isnan(rate.value):
        return
    hallucinated = f"{100 * rate.value:.1f} % of the words are hallucinated"
    advice = ""
    if unknown := is_wide(rate.low, rate.high):
        hallucinated = f"how many of the words are hallucinated is {NOT_MEASURABLE}"
        named = task if task.startswith("mfava_") else "TASK"
        advice = (
            ". People's marks of fifty of these answers would measure it: `lm-eval-grounded mark RESULTS --tasks "
            f"{named} -o marking`"
        )
    number = "unknown" if calibration.documents is None else str(calibration.texts)
    if 0 < calibration.texts < FEW:
        number += f", so few that other ones might say something else: with {FEW} or more the bounds would be narrower"
    models = f" of {len(set(calibration.models))} models" if any(calibration.models) else ""
    log.log(
        logging.WARNING if unknown else logging.INFO,
        "%s: %s, 95 %% bounds %.1f to %.1f; calibrated on %s (%s, %s; texts: %s%s)%s",
        *(task, hallucinated, 100 * rate.low, 100 * rate.high),
        *(KINDS_OF_CALIBRATION.get(calibration.kind, calibration.kind), calibration.kind),
        *(calibration.source, number, models, advice),
    )


def describe_calibration(doc: Mapping[str, Any]) -> dict[str, Any] | None:
    """File, SHA-256 and figures of the calibration that a document names; ``None`` where there is none for its language."""
    if doc["calibration"] in ("", NO_CALIBRATION):
        return None
    loaded = calibrations.by_identity(doc["calibration"])
    entry = loaded.for_language(doc["language"], doc["calibration_annotations"] or None)
    if entry is None:
        return None
    return {
        "file": loaded.identity,
        "sha256": loaded.sha256,
        "detector_version": loaded.detector["version"],
        "annotations": entry.kind,
        **calibrations.summary(entry, documents=False),
    }
