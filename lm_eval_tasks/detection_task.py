"""The harness task of detection: a reference, an answer, and the answer with tags around its errors as what to say."""

from __future__ import annotations

from lm_eval_tasks.task import GroundedTask

__all__ = ["DetectionTask"]


class DetectionTask(GroundedTask):
    """A task as YAML makes it. Its samples would hold the reference and the tagged answer twice."""

    LOGGED_ELSEWHERE = ("reference", "target")
