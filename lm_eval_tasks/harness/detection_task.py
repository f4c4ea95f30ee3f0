"""The harness task of detection: from a reference and an answer to the answer with tags around its errors."""

from __future__ import annotations

from lm_eval_tasks.harness.task import GroundedTask

__all__ = ["DetectionTask"]


class DetectionTask(GroundedTask):
    """A task whose samples hold the reference and the tagged answer once; the harness would write them twice."""

    LOGGED_ELSEWHERE = ("reference", "target")
