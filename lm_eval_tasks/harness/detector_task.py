"""A harness task with a detector that tags its answers.

Detectors are imported only when one runs.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from lm_eval_tasks.data.provenance import LEFT_OUT, UNTAGGED
from lm_eval_tasks.harness import filtered
from lm_eval_tasks.harness.task import GroundedTask

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

FILTER = "hallucination_spans"  # name of the filter that runs the detector, in ``filter_list``


class DetectingTask(GroundedTask):
    """A task with the filter ``hallucination_spans``. Without the filter it is a plain task.

    - The results record detector and calibration: ``detector``, ``calibration`` and ``words`` of
      ``configs.<task>.metadata.provenance``.
    - The results count the answers that were left out because the detector cannot read them; they are in no rate.
    - ``--predict_only`` skips the detector. ``lm-eval-grounded score`` runs it later.
    """

    is_generated = True  # a detector searches free text

    @property
    def tags_answers(self) -> bool:
        return any(map(_detects, self.filter_steps()))

    def override_metric(self, metric_name: str) -> None:
        """Override the metrics as the harness does for ``--predict_only``, and remove the detection filter."""
        super().override_metric(metric_name)
        if not self.tags_answers:
            return
        listed = self.config.filter_list
        self.set_filters(
            [{**each, "filter": [step for step in each["filter"] if step["function"] != FILTER]} for each in listed]
        )

    def apply_filters(self) -> Any:
        """Apply the filters, and count the answers that a detector left out."""
        result = super().apply_filters()
        names = [listed["name"] for listed in self.filter_steps() if _detects(listed)]
        requests = self._instances or ()
        number = sum(any(_is_left_out(filtered(request, name)) for name in names) for request in requests)
        if number:
            log.warning("%s: %d answers are left out: the detector cannot read them", self.config.task, number)
            before = self.config.metadata.get(LEFT_OUT) or {}
            self.config.metadata[LEFT_OUT] = {**before, UNTAGGED: number}
        return result

    def provenance(self) -> dict[str, Any]:
        """The provenance of any task, with ``detector``, ``calibration`` and ``words``."""
        record = super().provenance()
        if not self.tags_answers:
            return record
        from custom_metrics.reading.words import segmenter
        from detector_plugin.detector import describe
        from detector_plugin.filters import shared_detector
        from lm_eval_tasks.detection.calibrated import describe_calibration

        doc = next(iter(self.eval_docs))
        described: dict[str, Any]
        try:
            detector = shared_detector(doc["detector"], doc["detector_args"])
            chosen = getattr(detector, "threshold", None)
            described = {**describe(detector), "threshold": "of its weights" if chosen is None else chosen}
        except Exception as error:  # the filter has logged it, and kept the answers
            described = {"name": doc["detector"], "version": f"failed: {error}", "licence": ""}
        return {
            **record,
            "detector": {**described, "options": json.loads(doc["detector_args"])},
            "calibration": describe_calibration(doc),
            "words": segmenter(doc["language"]),
        }


def _detects(listed: Mapping[str, Any]) -> bool:
    return any(step["function"] == FILTER for step in listed["filter"])


def _is_left_out(tagged: Any) -> bool:
    """Whether a working detector could not read the answer."""
    from detector_plugin.filters import FAILED

    if not isinstance(tagged, str) or '"spans": null' not in tagged:
        return False
    content = json.loads(tagged)
    return content["spans"] is None and content["detector"]["version"] != FAILED
