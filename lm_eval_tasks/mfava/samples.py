"""The harness's own samples files: the documents and answers of an earlier run."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lm_eval_tasks.sources import CorruptSource, MissingSource
from lm_eval_tasks.tables import read_lines

__all__ = ["documents_of_samples", "read_samples", "samples_files", "task_of"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_NAME = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl$")


def task_of(path: Path) -> str | None:
    """The task that a samples file is of; ``None`` for any other file."""
    match = _NAME.match(path.name)
    return match["task"] if match else None


def samples_files(place: Path) -> dict[str, Path]:
    """The samples file of each task, the newest where there are several: one file, or all below a folder.

    Raises:
        MissingSource: there is none.
    """
    found = [place] if place.is_file() else sorted(place.rglob("samples_*.jsonl"))
    dated = sorted((match["date"], match["task"], path) for path in found if (match := _NAME.match(path.name)))
    if not dated:
        raise MissingSource(
            f"{place.resolve()}: no samples file (samples_<task>_<date>.jsonl, as `lm_eval --log_samples` writes them)"
        )
    files = {task: path for _, task, path in dated}
    if len(files) < len(dated):
        log.warning("%s: %d older samples files were passed over", place, len(dated) - len(files))
    return files


def read_samples(path: Path) -> Iterator[dict[str, Any]]:
    """The samples of a file, each document once; a last line that was cut is left out, and said.

    Raises:
        CorruptSource: a line in the middle is no sample.
    """
    seen: set[Any] = set()
    broken: tuple[int, str] | None = None
    for number, line in read_lines(path):
        if not line.strip():
            continue
        if broken:
            raise CorruptSource(f"{path}, line {broken[0]}: no sample ({broken[1]})")
        try:
            sample = json.loads(line)
            identity = sample["doc_id"]
            sample["doc"], sample["resps"]
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            broken = (number, f"{type(error).__name__}: {error}")
            continue
        if identity not in seen:  # one line for every filter
            seen.add(identity)
            yield sample
    if broken:
        log.warning(
            "%s is cut in line %d: the %d samples before it are used, the rest is lost", path, broken[0], len(seen)
        )


def documents_of_samples(place: Path, task: str) -> list[dict[str, Any]]:
    """The documents that a task's samples were answers to, in their order.

    Raises:
        MissingSource: there are none of this task.
        CorruptSource: its file is damaged.
    """
    files = samples_files(place)
    if task not in files:
        raise MissingSource(f"{place.resolve()}: samples of {', '.join(files)}, none of {task}")
    found = [sample["doc"] for sample in sorted(read_samples(files[task]), key=lambda sample: int(sample["doc_id"]))]
    if not found:
        raise CorruptSource(f"{files[task]}: no sample can be read")
    return found
