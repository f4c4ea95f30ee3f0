"""Detectors, calibrations, and encoders of passages, there and here; nothing is downloaded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lm_eval_tasks.data import sources
from lm_eval_tasks.results.reproduce.compared import ABSENT, DIFFERS, UNKNOWN, Compared, compare

__all__ = ["detectors", "encoders"]


def encoders(records: Iterable[Mapping[str, Any]], told: Mapping[str, Any]) -> list[Compared]:
    """Models that made the vectors of passages, each once; nothing is downloaded."""
    compared = {}
    for record in records:
        retrieval = record.get("retrieval") or {}
        for said in (retrieval, *(retrieval.get("halves") or ())):
            if said.get("weights"):
                what = f"encoder {said.get('model')}@{str(said.get('revision'))[:12]}"
                compared[what] = _compare_encoder(what, said, told)
    return list(compared.values())


def _compare_encoder(what: str, said: Mapping[str, Any], told: Mapping[str, Any]) -> Compared:
    from huggingface_hub import snapshot_download

    from lm_eval_tasks.clapnq.retrieval import encoder as encoding

    there = f"sha256 there: {said['weights']} (of its files' sums)"
    try:
        encoder = encoding.named(str(said.get("retriever")), told)
        if encoder.folder is None:
            cached = snapshot_download(encoder.repository, revision=encoder.revision, local_files_only=True)
            encoder = replace(encoder, folder=Path(cached))
        return compare(what, said["weights"], encoding.weights_of(encoder)[1], "sha256")
    except sources.CorruptSource as error:
        return Compared(DIFFERS, what, (there, f"here: {error}"))
    except (OSError, ValueError) as error:  # no such folder, or not in the cache
        return Compared(ABSENT, what, (there, f"here: {str(error).splitlines()[0]}"))


def detectors(
    config: Mapping[str, Any], configs: Mapping[str, Mapping[str, Any]], records: Mapping[str, Mapping[str, Any]]
) -> list[Compared]:
    """Detector and calibration of each task, and the detector that was evaluated, each once."""
    compared = {}
    evaluated, arguments = config.get("detector"), config.get("model_args")
    if isinstance(evaluated, Mapping):
        what = f"detector {evaluated.get('name')}"
        named = arguments.get("detector") if isinstance(arguments, Mapping) else None
        compared[what] = _compare_detector(what, evaluated, named)
    for name, record in records.items():
        detector, calibration = record.get("detector"), record.get("calibration")
        metadata = configs[name].get("metadata") or {}
        if isinstance(detector, Mapping):
            what = f"detector {detector.get('name')}"
            compared[what] = _compare_detector(what, detector, metadata.get("detector"))
        if isinstance(calibration, Mapping):
            what = f"calibration {calibration.get('file')}"
            compared[what] = _compare_calibration(what, calibration, detector, metadata.get("calibration"))
    return list(compared.values())


def _compare_detector(what: str, said: Mapping[str, Any], named: Any) -> Compared:
    """By its version, which a detector has when it is loaded; one that is prompted is not loaded for that."""
    version = said.get("version")
    if str(said.get("name")).startswith("llm:"):
        return Compared(
            UNKNOWN, what, (f"version there: {version}; a language model is not loaded here to compare it",)
        )
    from detector_plugin.filters import shared_detector

    options = json.dumps(said.get("options") or {}, sort_keys=True)
    try:
        return compare(what, version, shared_detector(str(named or said.get("name")), options).version, "version")
    except (OSError, ValueError) as error:
        return Compared(ABSENT, what, (f"version there: {version}; here: {error}",))


def _compare_calibration(what: str, said: Mapping[str, Any], detector: Any, named: Any) -> Compared:
    from detector_plugin.calibration import CalibrationError, load

    wanted = named or (detector.get("name") if isinstance(detector, Mapping) else None)
    try:
        return compare(what, said.get("sha256"), load(str(wanted)).sha256, "sha256")
    except CalibrationError as error:
        return Compared(ABSENT, what, (str(error),))
