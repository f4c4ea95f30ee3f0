"""Checks of ``--metadata`` options. The harness merges them with the model's arguments before a task sees them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from custom_metrics.usage.options import assignments, misspelt
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.definition.schema import OF_DETECTION as OF_DETECTION

CUT_PROMPTS = "cut_prompts"
"""The key that lets a run with cut prompts go on: ``allow`` (:mod:`lm_eval_tasks.harness.context_window`)."""

_OF_ANY_TASK = (*OF_DETECTION, "retriever", CUT_PROMPTS)
"""Options that are known where the task has none of them, too: several tasks of one run have one ``--metadata``."""

# Real arguments of the harness's models, and keys of other tasks, within one edit of one of ours.
_NOT_OURS = frozenset({"sampler"})


def refuse_misspelt(ignored: Mapping[str, Any], known: Collection[str], task: str) -> None:
    """Refuse unknown keys that look like one of a task's options (`known`), or of any task's (see
    :func:`custom_metrics.usage.options.misspelt`), by a UsageError that suggests the option; and a detector that does not
    exist, where the task has none. All others belong to the model or to other tasks, and are ignored."""
    ours = {*known, *_OF_ANY_TASK}
    for key in sorted(ignored.keys() - _NOT_OURS - ours, key=str):
        near = misspelt(str(key), sorted(ours))
        if near:
            raise UsageError(f"{task}: --metadata key {key!r} is not known; did you mean {near!r}?")
    name = None if "detector" in known else ignored.get("detector")
    if isinstance(name, str):
        from detector_plugin.loading import check_name

        try:
            check_name(name)
        except UsageError as error:
            raise UsageError(f"{task}: --metadata {error}") from None


def choice(name: str, value: Any, allowed: Collection[str], task: str) -> str:
    """A value that must be one of `allowed`; otherwise a ``UsageError`` lists them."""
    if value not in allowed:
        raise UsageError(f"{task}: unknown {name} {value!r}; known are {', '.join(sorted(allowed))}")
    return str(value)


def flag(name: str, value: Any, task: str) -> bool:
    """A value that must be a bool; otherwise a ``UsageError``."""
    if not isinstance(value, bool):
        raise UsageError(f"{task}: {name} must be true or false, got {value!r}")
    return value


def positive(name: str, value: Any, task: str) -> int:
    """A value that must be an int of at least 1; otherwise a ``UsageError``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{task}: {name} must be a whole number of at least 1, got {value!r}")
    return value


def pairs(name: str, value: Any, task: str) -> dict[str, Any]:
    """Parse options of a detector or retriever: a mapping, JSON, or ``name=value;name=value``; otherwise a
    ``UsageError``."""
    if not value:
        return {}
    if isinstance(value, Mapping):
        return dict(value)
    wrong = f"{task}: {name} must be JSON or name=value;name=value, got {value!r}"
    if not isinstance(value, str):
        raise UsageError(wrong)
    try:
        if value.lstrip().startswith("{"):
            return dict(json.loads(value))
        parts = [part for part in re.split("[;,]", value) if part.strip()]
        if not all("=" in part for part in parts):
            raise ValueError("a part without =")
        return assignments(",".join(parts))
    except (ValueError, json.JSONDecodeError) as error:
        raise UsageError(wrong) from error
