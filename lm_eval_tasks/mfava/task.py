"""The harness tasks of mFAVA: ``mfava_<language>`` and ``mfava_detection_*``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from custom_metrics.statistics.figures import Figure
from lm_eval_tasks.harness.detector_task import DetectingTask
from lm_eval_tasks.harness.task import GroundedTask


class EstimationTask(DetectingTask):
    """A task whose answers a detector tags (:class:`DetectingTask`)."""

    def process_results(self, doc: dict[str, Any], results: Any) -> Any:
        """The values of the metrics."""
        marked_value = self.marked_value(doc, json.loads(results[0])) if self.tags_answers else {}
        return {**super().process_results(doc, results), **marked_value}

    def finer_figures(self, values: Mapping[str, Sequence[Any]]) -> Iterable[tuple[str, Figure, str]]:
        """``<rate>_std``: how much a rate differs between the subsets of questions."""
        from lm_eval_tasks.mfava.estimation import spread_over_subsets

        yield from super().finer_figures(values)
        for rate, figure in spread_over_subsets(values.get("detected_rate", ())).items():
            yield f"{rate}_std", figure, "subsets of questions; standard deviation between them"


class CategoryTask(GroundedTask):
    """A detection task by category, with the figures of each category."""

    def finer_figures(self, values: Mapping[str, Sequence[Any]]) -> Iterable[tuple[str, Figure, str]]:
        """``f1_<category>``, ``precision_<category>`` and ``recall_<category>``."""
        from custom_metrics.scores.detection import category_figures

        for name, figure in category_figures(values.get("precision", ())).items():
            yield name, figure, "answers; counted in words of this category"
