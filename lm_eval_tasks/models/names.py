"""Names for the results of models without weights: their settings, if these differ from the defaults."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["name_of"]

_OF_THE_HARNESS = ("batch_size", "device", "max_batch_size")
_UNFIT = re.compile(r"[^\w.-]+")


def name_of(model: str | None, model_args: Mapping[str, Any] | str | None) -> str | None:
    """A name for the settings of a model of ours: ``baseline-lexical``, ``replay-answers-3fa9c1``, ``detector-lexical``.

    A digest of the other options ends the name where there are any, so that no two settings share one.

    Args:
        model: as in ``--model``.
        model_args: as in ``--model_args``.

    Returns:
        ``None`` for any other model.
    """
    if model not in _NAMED:
        return None
    said = _parsed(model_args) if isinstance(model_args, str) else model_args or {}
    options = {key: value for key, value in said.items() if key not in _OF_THE_HARNESS}
    prefix, option, default = _NAMED[model]
    chosen = shown = str(options.pop(option, default))
    if model == "replay":
        path = Path(chosen).expanduser()
        shown = path.name.split(".jsonl")[0] or path.resolve().name
        shown = f"{shown}-{options['model']}" if "model" in options else shown
        options = {**options, "path": str(path.resolve())}
    elif "/" in chosen:  # a path, or a name on the hub
        shown, options = chosen.rstrip("/").rsplit("/", 1)[-1], {**options, option: chosen}
    ending = f"-{_digest(options)}" if options else ""
    return f"{prefix}-{_UNFIT.sub('_', shown)[:60].strip('_.-') or 'unnamed'}{ending}"


_NAMED = {
    "grounded-baseline": ("baseline", "strategy", "lexical"),
    "replay": ("replay", "path", ""),
    "hallucination-detector": ("detector", "detector", "lexical"),
}
"""Model to the first word of its name, the option that follows, and its default."""


def _parsed(model_args: str) -> Mapping[str, Any]:
    from lm_eval.utils import simple_parse_args_string

    parsed: dict[str, Any] = simple_parse_args_string(model_args)
    return parsed


def _digest(options: Mapping[str, Any]) -> str:
    said = json.dumps(options, sort_keys=True, default=str)
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:6]
