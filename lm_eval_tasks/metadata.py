"""What a user says with ``--metadata``: the harness mixes it with the model's arguments before a task sees it."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Collection, Mapping
from typing import Any

__all__ = ["OF_DETECTION", "choice", "flag", "positive", "warn_of_misspelt"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

OF_DETECTION = ("detector", "detector_args", "calibration", "calibration_annotations")
"""What a user says of the detector that tags a task's answers; also the columns of the documents."""

# What reaches a task without the user's doing: from the YAML, and the commonest model arguments that resemble our keys.
_NOT_OURS = {"version", "config_source", "max_length", "max_model_len", "max_tokens", "max_gen_toks", "tokenizer"}


def warn_of_misspelt(ignored: Mapping[str, Any], known: Collection[str], task: str) -> None:
    """Log the keys that look like a misspelling of one of ours; all others belong to the model and are ignored."""
    for key in ignored.keys() - _NOT_OURS - set(known):
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.85)
        if near:
            log.warning("%s: --metadata key %r is not known and was ignored; did you mean %r?", task, key, near[0])


def choice(name: str, value: Any, allowed: Collection[str], task: str) -> str:
    """A value out of a few.

    Raises:
        ValueError: it is none of them; the message lists them.
    """
    if value not in allowed:
        raise ValueError(f"{task}: unknown {name} {value!r}; known are {', '.join(sorted(allowed))}")
    return str(value)


def flag(name: str, value: Any, task: str) -> bool:
    """Yes or no.

    Raises:
        ValueError: it is neither ``true`` nor ``false``.
    """
    if not isinstance(value, bool):
        raise ValueError(f"{task}: {name} must be true or false, got {value!r}")
    return value


def positive(name: str, value: Any, task: str) -> int:
    """A whole number of at least one.

    Raises:
        ValueError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{task}: {name} must be a whole number of at least 1, got {value!r}")
    return value
