"""The harness task of ``mfava_<language>``."""

from __future__ import annotations

from lm_eval_tasks.detecting import DetectingTask

__all__ = ["EstimationTask"]


class EstimationTask(DetectingTask):
    """A task as YAML makes it, whose answers are tagged by a detector (:class:`DetectingTask`)."""
