"""The harness task of ``mfava_<language>``: a task as YAML makes it, but for what must not be in a run, or be missing
there."""

from __future__ import annotations

import json
from typing import Any

from custom_metrics.words import segmenter
from detector_plugin import calibration as calibrations
from detector_plugin.detector import describe
from detector_plugin.filters import HallucinationSpans, shared_detector
from lm_eval_tasks.mfava.estimation import NO_CALIBRATION
from lm_eval_tasks.task import GroundedTask

__all__ = ["EstimationTask"]


class EstimationTask(GroundedTask):
    """A task whose answers are tagged by a detector.

    - The results say which detector and which calibration made them: ``configs.<task>.metadata.hallucination``.
    - With ``--predict_only`` the detector is not run: that is for ``lm-eval-grounded score`` to do.
    """

    def override_metric(self, metric_name: str) -> None:
        """As the harness does for ``--predict_only``; the detection filter goes too."""
        super().override_metric(metric_name)
        for pipeline in self._filters:
            pipeline.filters = [make for make in pipeline.filters if not isinstance(make(), HallucinationSpans)]

    def dump_config(self) -> dict[str, Any]:
        """The task's configuration for the results file, with what tagged and corrected the answers."""
        config: dict[str, Any] = dict(super().dump_config())
        if "bypass" in self._metric_fn_list:
            return config
        doc = next(iter(self.eval_docs))
        try:
            described = describe(shared_detector(doc["detector"], doc["detector_args"]))
        except Exception as error:  # the filter has said so, and kept the answers
            described = {"name": doc["detector"], "version": f"failed: {error}", "licence": ""}
        config["metadata"] = {
            **(config.get("metadata") or {}),
            "hallucination": {
                "detector": {**described, "options": json.loads(doc["detector_args"])},
                "calibration": _calibration_of(doc),
                "words": segmenter(doc["language"]),
            },
        }
        return config


def _calibration_of(doc: dict[str, Any]) -> dict[str, Any] | None:
    """File, digest and figures of the calibration in force; ``None`` where there is none for the language."""
    if doc["calibration"] in ("", NO_CALIBRATION):
        return None
    loaded = calibrations.loaded(doc["calibration"])
    found = loaded.of(doc["language"], doc["calibration_annotations"] or None)
    if found is None:
        return None
    kind, language = found
    return {
        "file": loaded.identity,
        "detector_version": loaded.detector["version"],
        "annotations": kind,
        **calibrations.summary(language, documents=False),
    }
