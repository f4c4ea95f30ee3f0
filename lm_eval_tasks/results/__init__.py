"""What is done with finished runs: comparison, report, reproduction and scoring."""

from __future__ import annotations

from importlib import import_module

from lm_eval_tasks.definition import catalogue

LOGGED = "logged_answers"
"""The task of answers that ``lm-eval-grounded detect LOG`` has read. The harness does not know it."""


def is_tagged(task: str) -> bool:
    """Whether a detector tags the answers of a task, during the run or after it: its class is a
    :class:`lm_eval_tasks.harness.detector_task.DetectingTask`; or has tagged those of a log."""
    from lm_eval_tasks.harness.detector_task import DetectingTask

    base = catalogue.base_of(task)
    if base is None:
        return task == LOGGED
    module, _, name = base.task.rpartition(".")
    return issubclass(getattr(import_module(module), name), DetectingTask)
