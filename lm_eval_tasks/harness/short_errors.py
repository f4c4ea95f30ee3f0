"""Under ``lm_eval``, our errors end in one line with their message, without a traceback.

The harness shows errors with 40 lines of traceback and more. The hook here shortens
:class:`~custom_metrics.usage.plain_errors.PlainError` alone. Every other error goes to the hook that was there before.
With the harness's debug verbosity (``LMEVAL_LOG_LEVEL=DEBUG``, ``--verbosity DEBUG``) ours go there too.
"""

from __future__ import annotations

import logging
import sys
import traceback
from types import TracebackType
from typing import Any

from custom_metrics.usage.plain_errors import PlainError
from custom_metrics.usage.printable import on_one_line


def install() -> None:
    """Set ``sys.excepthook``, once."""
    before = sys.excepthook
    if getattr(before, "is_one_line", False):
        return

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        if isinstance(error, PlainError) and not _debugging(trace):
            print(one_line(error), file=sys.stderr)  # noqa: T201 (the interpreter would print here too)
        else:
            before(kind, error, trace)

    hook.is_one_line = True  # type: ignore[attr-defined]
    sys.excepthook = hook


def one_line(error: BaseException, program: str = "lm_eval: error") -> str:
    """The program's name and the message, printable and on one line; errors of the system without their number."""
    message = str(error)
    if isinstance(error, OSError) and error.filename:
        missing = isinstance(error, FileNotFoundError)
        message = f"{error.filename}: {'there is no such file or folder' if missing else error.strerror}"
    return f"{program}: " + on_one_line(" ".join(line.strip() for line in message.splitlines() if line.strip()))


def _debugging(trace: TracebackType | None) -> bool:
    """Whether debug output of the harness is on. ``--verbosity`` (or its YAML key) takes effect only after the run, so it
    is read from the command line's configuration, in the frame of its ``_execute``."""
    if logging.getLogger("lm_eval").getEffectiveLevel() <= logging.DEBUG:
        return True
    return any(
        str(getattr(frame.f_locals.get("cfg"), "verbosity", "")).upper() == "DEBUG"
        for frame, _ in traceback.walk_tb(trace)
        if frame.f_code.co_name == "_execute"
    )
