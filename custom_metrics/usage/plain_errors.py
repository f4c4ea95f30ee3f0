"""Errors that the user can put right. Their message says what was wrong, where, and what to do.

``lm_eval`` shows the message alone (``lm_eval_tasks.harness.short_errors``). An error of any other class is a fault of
the program, and keeps its traceback. Messages quote settings and addresses, without their secrets.
"""

from __future__ import annotations

from typing import Any

from custom_metrics.usage.secrets import blank


class PlainError(Exception):
    """Base class of these errors. Raise one of its subclasses."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*(blank(argument) if isinstance(argument, str) else argument for argument in arguments))


class UsageError(PlainError, ValueError):
    """What the user asked for cannot be done: an unknown name, a value of the wrong kind, a task that does not fit."""
