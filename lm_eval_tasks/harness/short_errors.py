"""Errors in one line, without a traceback, for ``sys.excepthook`` (:func:`lm_eval_tasks.harness.shorten_errors`).

The harness shows errors with 40 lines of traceback and more. Shortened are
:class:`~custom_metrics.usage.plain_errors.PlainError`, the harness's errors about unknown tasks and models where one of
ours was meant, and those of a backend that lacks its package (:func:`as_ours`). With ``LMEVAL_LOG_LEVEL=DEBUG`` nothing is.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from types import TracebackType

from custom_metrics.usage.plain_errors import PlainError, UsageError
from custom_metrics.usage.printable import on_one_line
from custom_metrics.usage.secrets import blank


def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> bool:
    """Print an error in one line, or without the secrets that it quotes. Otherwise print nothing, and return false."""
    debugging = logging.getLogger("lm_eval").getEffectiveLevel() <= logging.DEBUG
    plain = None if debugging else as_ours(error)
    if isinstance(plain, PlainError):
        print(one_line(plain), file=sys.stderr)  # noqa: T201 (the interpreter would print here too)
    elif blank(shown := "".join(traceback.format_exception_only(error))) != shown:  # such as an address with a key
        print(blank("".join(traceback.format_exception(kind, error, trace))), end="", file=sys.stderr)  # noqa: T201
    else:
        return False
    return True


_NO_TASK = re.compile(r"Tasks not found: (.+)|'?\"?Spec '(.+?)' is not a registered task")  # 0.4, 0.5
_NO_MODEL = re.compile(r"Attempted to load model '([^']+)', but no model for this name found!")


def as_ours(error: BaseException) -> BaseException:
    """The harness's error about unknown tasks or an unknown model as a UsageError with the name of ours that was meant;
    that of a backend without its package as one with the command that installs it; any other error as it is."""
    from custom_metrics.usage.options import misspelt
    from lm_eval_tasks.definition import catalogue
    from lm_eval_tasks.harness import WEIGHTLESS, unfit

    text = str(error) if type(error) in (ValueError, KeyError) else ""
    if unfit and (_NO_TASK.match(text) or _NO_MODEL.match(text)):
        return unfit[0]
    tasks = _NO_TASK.match(text)
    if tasks and (meant := catalogue.hint((names := tasks[1] or tasks[2]).split(", "))):
        return UsageError(f"Tasks not found: {names}{meant}")
    if (model := _NO_MODEL.match(text)) and (near := misspelt(model[1], WEIGHTLESS)):
        return UsageError(f"there is no model {model[1]}; did you mean {near}?")
    if isinstance(error, ImportError) and _raised_in(error).startswith("lm_eval.models."):
        return UsageError(_install(error.name.partition(".")[0]) if error.name else str(error))
    return error


def _raised_in(error: BaseException) -> str:
    """The module whose code, such as an import, raised an error; empty where it was not raised."""
    modules = [str(frame.f_globals.get("__name__", "")) for frame, _ in traceback.walk_tb(error.__traceback__)]
    return next((name for name in reversed(modules) if not name.startswith("importlib.")), "")


def _install(package: str) -> str:
    """What a backend lacks, and the command that installs it: an extra of ours that has the package, or the package."""
    from importlib.metadata import requires

    wanted = "\n".join(requires("lm-eval-grounded") or ())
    extra = re.search(rf"^{package.replace('_', '[-_]')}\b.*\bextra == .(\w+)", wanted, re.MULTILINE)
    name = f"'lm-eval-grounded[{extra[1]}]'" if extra else package
    return f"the backend of --model needs {package}, which is not installed: pip install {name}"


def one_line(error: BaseException, program: str = "lm_eval: error") -> str:
    """The program's name and the message, printable and on one line; errors of the system without their number."""
    message = str(error)
    if isinstance(error, OSError) and error.filename:
        missing = isinstance(error, FileNotFoundError)
        message = f"{error.filename}: {'there is no such file or folder' if missing else error.strerror}"
    return f"{program}: " + on_one_line(blank(" ".join(line.strip() for line in message.splitlines() if line.strip())))
