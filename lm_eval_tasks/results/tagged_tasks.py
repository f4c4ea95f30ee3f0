"""The tasks whose answers a detector tags, during the run or after it."""

from __future__ import annotations

from importlib import import_module

from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.harness.detector_task import DetectingTask

LOGGED = "logged_answers"
"""The task of answers that ``lm-eval-grounded detect LOG`` has read. The harness does not know it."""


def is_tagged(task: str) -> bool:
    """Whether a detector can tag the answers of a task of this package: its class is a :class:`DetectingTask`; or has
    tagged those of a log."""
    base = catalogue.base_of(task)
    if base is None:
        return task == LOGGED
    module, _, name = base.task.rpartition(".")
    return issubclass(getattr(import_module(module), name), DetectingTask)
