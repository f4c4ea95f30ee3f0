"""Errors that the user can put right. Their message says what was wrong, where, and what to do.

``lm_eval`` shows the message alone (``lm_eval_tasks.harness.short_errors``). An error of any other class is a fault of
the program, and keeps its traceback.
"""

from __future__ import annotations


class PlainError(Exception):
    """Base class of these errors. Raise one of its subclasses."""


class UsageError(PlainError, ValueError):
    """What the user asked for cannot be done: an unknown name, a value of the wrong kind, a task that does not fit."""
