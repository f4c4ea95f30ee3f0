"""Settings of the detector that tags a task's answers, and of the calibration that corrects its rates.

They go from ``--metadata detector= detector_args= calibration= calibration_annotations=`` to columns of the documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from custom_metrics.usage.plain_errors import UsageError
from detector_plugin import calibration as calibrations
from detector_plugin.loading import calibrated_name, check_detector, has_package
from lm_eval_tasks.definition import metadata
from lm_eval_tasks.detection.calibrated import NO_CALIBRATION

__all__ = ["calibration_of", "read_options", "settings_of"]

# Those that no model of the harness has, so that one of them among the rest was meant for the detector.
_OPTIONS_OF_DETECTORS = {*"form labels attention threshold held_out batch_tokens separator base_model".split()}


def settings_of(
    task: str,
    detector: str,
    detector_args: Mapping[str, Any] | str | None = None,
    calibration: str | None = None,
    calibration_annotations: str | None = None,
    others: Mapping[str, Any] | None = None,
) -> dict[str, str]:
    """The columns that filter, metrics and results read. They are checked now, before any answer is generated.

    Args:
        task: for messages.
        detector, detector_args: who tags the answers, see :func:`detector_plugin.load_detector`, and its options.
        calibration: file of ``lm-eval-grounded calibrate``, or the name of a detector whose calibration ships; default what
            ships for the detector, or lies in its folder; ``"none"``: no corrected rates.
        calibration_annotations: one of ``calibrations.KINDS``; default the first of these that there is.
        others: the rest of what the user named, mixed with the model's arguments.

    Returns:
        A text for each of :data:`lm_eval_tasks.definition.metadata.OF_DETECTION`: the detector's name, its options as
        JSON, the calibration's identity, the kind of annotation (empty where any will do).

    Raises:
        ValueError: an unknown option, or one outside ``detector_args``.
        UnusableDetector: there is no such detector, as far as that can be known without loading weights.
        CalibrationError: the calibration cannot be read, or is of another detector.
    """
    for name, value in (("detector", detector), ("calibration", calibration)):
        if isinstance(value, (list, dict)):
            raise UsageError(f"{task}: {name} takes one value, got {value!r}")
    if calibration_annotations is not None:
        metadata.choice("calibration_annotations", calibration_annotations, calibrations.KINDS, task)
    others = others or {}
    strayed = _OPTIONS_OF_DETECTORS & others.keys()
    if "strategy" in others:  # of grounded-baseline, which has a threshold of its own
        strayed -= {"threshold"}
    if strayed:
        raise UsageError(
            f"{task}: {', '.join(sorted(strayed))} belongs into detector_args; put `;` between its options, or write JSON: "
            f"at commas the harness cuts"
        )
    options = read_options(detector_args, task)
    written = json.dumps(options, sort_keys=True)
    check_detector(detector, written)
    return {
        "detector": detector,
        "detector_args": written,
        "calibration": calibration_of(detector, options, calibration),
        "calibration_annotations": calibration_annotations or "",
    }


def read_options(options: Mapping[str, Any] | str | None, task: str) -> dict[str, Any]:
    """A detector's options from a mapping, from JSON, or from ``name=value;name=value``; ValueError where it is none."""
    return metadata.pairs("detector_args", options, task)


def calibration_of(detector: str, options: Mapping[str, Any], calibration: str | None) -> str:
    """Identity of the calibration in force; empty where there is none, ``none`` where none is wanted.

    Raises:
        CalibrationError: the one that was named cannot be read, or is of another detector.
    """
    name = calibrated_name(detector, options)
    if calibration is None:
        ours = calibrations.shipped().get(name) or calibrations.beside(name)
        return calibrations.load(ours).identity if ours else ""
    if calibration == NO_CALIBRATION:
        return NO_CALIBRATION
    loaded = calibrations.load(calibration)
    # A model of the hub may be a folder here: of those, the versions are compared when the detector has been loaded.
    built_in = [known in calibrations.shipped() or has_package(known) for known in (name, loaded.detector["name"])]
    if loaded.detector["name"] != name and any(built_in):
        raise calibrations.CalibrationError(
            f"calibration {calibration}: it is of detector {loaded.detector['name']!r}, and the detector in use is "
            f"{name!r}. A detector's errors are its own: measure it with `lm_eval --model hallucination-detector "
            f"--model_args detector={detector} --tasks mfava_detection_gold --log_samples -o RESULTS`, then "
            f"`lm-eval-grounded calibrate RESULTS -o FILE`."
        )
    return loaded.identity
