"""Errors that a person can put right: their message says what was wrong, where, and what to do.

Under ``lm_eval`` only that message is shown (``lm_eval_tasks.one_line``). An error of any other class is a fault of the
program, and keeps its traceback.
"""

from __future__ import annotations

__all__ = ["PlainError", "UsageError"]


class PlainError(Exception):
    """What all of these have in common; raised as one of its kinds."""


class UsageError(PlainError, ValueError):
    """What was asked for cannot be done: an unknown name, a value of the wrong kind, a task that does not fit a model."""
