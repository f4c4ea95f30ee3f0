"""What was read of a samples file, kept on disk until the file changes."""

from __future__ import annotations

import hashlib
import json
import logging
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from lm_eval_tasks.data import whole_file
from lm_eval_tasks.data.provenance import PACKAGE
from lm_eval_tasks.runs.answers import Answers, Column, FilteredAnswers
from lm_eval_tasks.runs.run import TaskRun

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_FORMAT = 1
_ARRAYS = ("contents", "prompts", "responses")
_LISTS = ("keys", "articles", "passages")
_DAMAGED = (OSError, ValueError, TypeError, KeyError, EOFError, BadZipFile)
"""Errors that reading a damaged file can raise. No file is unpickled."""


def read_kept(folder: Path, task: TaskRun, read: Callable[[TaskRun], Answers]) -> Answers:
    """The answers of a task from the file that a folder has of them; else :func:`read`, and kept there. Errors are those of
    `read`."""
    if task.samples is None:
        return read(task)
    path = kept_file(folder, task, task.samples)
    try:
        return _load(path, task.samples)
    except FileNotFoundError:
        pass
    except _DAMAGED as error:
        log.warning("%s is damaged (%s); the answers are read anew", path, error)
    answers = read(task)
    with whole_file(path) as partial, partial.open("wb") as stream:
        _save(answers, stream)
    return answers


def kept_file(folder: Path, task: TaskRun, samples: Path) -> Path:
    """The file of a task's answers: its name has a digest of what it depends on."""
    state = samples.stat()
    depends = [_FORMAT, version(PACKAGE), task.task, str(samples.resolve()), state.st_size, state.st_mtime_ns]
    return folder / f"{hashlib.sha256(json.dumps(depends).encode()).hexdigest()[:32]}.npz"


def _columns(readings: FilteredAnswers) -> list[tuple[str, Mapping[str, Column]]]:
    return [("columns", readings.columns), ("derived", readings.derived)]


def _save(answers: Answers, stream: Any) -> None:
    arrays = {name: getattr(answers, name) for name in _ARRAYS}
    content: dict[str, Any] = {name: getattr(answers, name) for name in _LISTS} | {"ids": answers.ids, "filters": {}}
    for number, (name, readings) in enumerate(answers.readings.items()):
        arrays[f"{number}"] = readings.places
        of_filter = content["filters"][name] = {}
        for kind, columns in _columns(readings):
            of_filter[kind] = {metric: column.non_numeric for metric, column in columns.items()}
            for place, column in enumerate(columns.values()):
                arrays[f"{number} {kind} {place}"] = column.numbers
    text = json.dumps(content).encode("utf-8", "surrogatepass")
    np.savez(stream, content=np.frombuffer(text, dtype=np.uint8), **arrays)


def _load(path: Path, samples: Path) -> Answers:
    with np.load(path, allow_pickle=False) as arrays:
        content = json.loads(arrays["content"].tobytes().decode("utf-8", "surrogatepass"))
        readings = {}
        for number, (name, of_filter) in enumerate(content["filters"].items()):
            columns = {
                kind: {
                    metric: Column(arrays[f"{number} {kind} {place}"], {int(key): value for key, value in rest.items()})
                    for place, (metric, rest) in enumerate(of_filter[kind].items())
                }
                for kind in ("columns", "derived")
            }
            readings[name] = FilteredAnswers(arrays[f"{number}"], columns["columns"], columns["derived"])
        values: dict[str, Any] = {name: arrays[name] for name in _ARRAYS}
        values |= {name: content[name] and [*map(sys.intern, content[name])] for name in _LISTS}
        return Answers(
            samples, readings=readings, ids={int(key): value for key, value in content["ids"].items()}, **values
        )
