"""Names of models without weights in their results: of their settings; stored answers keep their model's."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lm_eval_tasks.data.provenance import PACKAGE

__all__ = ["TO_EVERY_MODEL", "digest_of", "name_of", "options_of"]

TO_EVERY_MODEL = ("batch_size", "device", "max_batch_size", "trust_remote_code")
"""Options that the harness gives to whatever model."""

_UNFIT = re.compile(r"[^\w.-]+")
REPLAY = "replay"


def name_of(model: str, model_args: Mapping[str, Any] | str | None) -> str:
    """A name for a model of :data:`~lm_eval_tasks.harness.WEIGHTLESS`.

    - ``lm-eval-grounded/baseline-lexical``, ``lm-eval-grounded/detector-lexical``: their settings, with a digest of the
      other options where there are any, so that no two settings share a name.
    - ``replay``: the option ``name``; else the model that the answers are of, as the option ``model``, the results file
      beside logged samples, or the answers themselves name it; else the name of their file or folder.

    Args:
        model: as in ``--model``.
        model_args: as in ``--model_args``.
    """
    options = options_of(model_args)
    if model == REPLAY:
        place = Path(str(options.get("path") or "")).expanduser()
        return str(options.get("name") or options.get("model") or _model_of(place) or _stem_of(place))
    prefix, option, default = _NAMED[model]
    chosen = shown = str(options.pop(option, default))
    if "/" in chosen:  # a path, or a name on the hub
        shown, options = chosen.rstrip("/").rsplit("/", 1)[-1], {**options, option: chosen}
    ending = f"-{digest_of(options)}" if options else ""
    return f"{PACKAGE}/{prefix}-{_UNFIT.sub('_', shown)[:60].strip('_.-') or 'unnamed'}{ending}"


_NAMED = {
    "grounded-baseline": ("baseline", "strategy", "lexical"),
    "hallucination-detector": ("detector", "detector", "lexical"),
}
"""Model to the first word of its name, the option that follows, and its default."""


def _model_of(place: Path) -> str:
    """The model that stored answers are of; empty where nothing says it, or there are several."""
    from lm_eval_tasks.data.samples import dated_task
    from lm_eval_tasks.data.sources import MissingSource
    from lm_eval_tasks.runs.finding import find_files
    from lm_eval_tasks.runs.results_file import read_results

    if not place.is_dir() and not place.is_file():
        return ""
    named: set[str] = set()
    if place.is_dir() or dated_task(place) is not None:
        try:
            for files in find_files(place):
                for date in files.samples.keys() & files.results.keys():
                    named.add(str(read_results(files.results[date]).get("model_name") or ""))
        except (MissingSource, OSError, ValueError):
            return ""
    elif (said := _said_in(place)) is not None:
        named.add(said)
    return named.pop() if len(named) == 1 else ""


def _said_in(file: Path) -> str | None:
    """The model that the first line of a file of answers names."""
    from lm_eval_tasks.data.sources import CorruptSource
    from lm_eval_tasks.data.tables import read_lines

    try:
        first = json.loads(next((line for _, line in read_lines(file) if line.strip()), "{}"))
    except (OSError, ValueError, RecursionError, CorruptSource):  # replay says what is wrong with it
        return None
    if not isinstance(first, Mapping):
        return None
    results = first.get("results")
    said = next(iter(results)) if isinstance(results, Mapping) and len(results) == 1 else first.get("model")
    return said if isinstance(said, str) and said.strip() else None


def _stem_of(place: Path) -> str:
    if "*" in place.name:
        place = place.parent
    return place.name.split(".jsonl")[0] or place.resolve().name or "unnamed"


def options_of(model_args: Mapping[str, Any] | str | None) -> dict[str, Any]:
    """``--model_args`` by name, without what the harness gives to every model."""
    from lm_eval.utils import simple_parse_args_string

    said = simple_parse_args_string(model_args) if isinstance(model_args, str) else model_args or {}
    return {key: value for key, value in said.items() if key not in TO_EVERY_MODEL}


def digest_of(options: Mapping[str, Any]) -> str:
    """Six hexadecimal digits that differ where options differ."""
    said = json.dumps(options, sort_keys=True, default=str)
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:6]
