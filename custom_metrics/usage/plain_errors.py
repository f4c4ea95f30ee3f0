"""Errors that the user can put right. Their message says what was wrong, where, and what to do.

``lm_eval`` shows the message alone (``lm_eval_tasks.harness.short_errors``). An error of any other class is a fault of
the program, and keeps its traceback. Messages quote settings and addresses, without their secrets.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from custom_metrics.usage.secrets import blank


class PlainError(Exception):
    """Base class of these errors. Raise one of its subclasses."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*(blank(argument) if isinstance(argument, str) else argument for argument in arguments))


class UsageError(PlainError, ValueError):
    """What the user asked for cannot be done: an unknown name, a value of the wrong kind, a task that does not fit.

    >>> raise UsageError("--limit takes a number, got 'ten'")
    Traceback (most recent call last):
    custom_metrics.usage.plain_errors.UsageError: --limit takes a number, got 'ten'
    """


@contextmanager
def naming(path: Path | str, instead: Path | None = None) -> Iterator[None]:
    """Let an error of the system name `path` where it names no file, as of a full disk, or the file `instead`."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(instead)) or isinstance(error, BrokenPipeError):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
