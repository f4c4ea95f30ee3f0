"""What was read of a samples file, kept on disk until the file changes."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from lm_eval_tasks.data import whole_file
from lm_eval_tasks.data.provenance import package_version
from lm_eval_tasks.runs.answers import Answers, Column, FilteredAnswers, shared
from lm_eval_tasks.runs.run import TaskRun

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_FORMAT = 3
_ARRAYS = ("contents", "prompts", "responses")
_LISTS = ("keys", "articles", "passages", "ids")
_DAMAGED = (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError)
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
    depends = [_FORMAT, package_version(), task.task, str(samples.resolve()), state.st_size, state.st_mtime_ns]
    return folder / f"{hashlib.sha256(json.dumps(depends).encode()).hexdigest()[:32]}.answers"


def _save(answers: Answers, stream: BinaryIO) -> None:
    """A line of JSON, which says what arrays follow it."""
    arrays = [getattr(answers, name) for name in _ARRAYS]
    content: dict[str, Any] = {name: getattr(answers, name) for name in _LISTS} | {"filters": {}}
    for name, readings in answers.readings.items():
        arrays.append(readings.places)
        of_filter = content["filters"][name] = {}
        for kind in _KINDS:
            of_kind: Mapping[str, Column] = getattr(readings, kind)
            of_filter[kind] = {metric: column.others for metric, column in of_kind.items()}
            arrays += [array for column in of_kind.values() for array in (column.numbers, column.codes)]
    content["arrays"] = [(array.dtype.str, len(array)) for array in arrays]
    stream.write(json.dumps(content).encode("utf-8", "surrogatepass") + b"\n")
    stream.writelines(array.tobytes() for array in arrays)


def _load(path: Path, samples: Path) -> Answers:
    with path.open("rb") as stream:
        content, data = json.loads(stream.readline().decode("utf-8", "surrogatepass")), stream.read()
    starts = accumulate((np.dtype(of).itemsize * number for of, number in content["arrays"]), initial=0)
    arrays = (np.frombuffer(data, of, n, at) for (of, n), at in zip(content["arrays"], starts, strict=False))
    values: dict[str, Any] = {name: next(arrays) for name in _ARRAYS}
    values |= {name: content[name] and shared(tuple(content[name])) for name in _LISTS}
    readings = {}
    for name, of_filter in content["filters"].items():
        places = next(arrays)
        columns = (
            {metric: Column(next(arrays), next(arrays), others) for metric, others in of_filter[kind].items()}
            for kind in _KINDS
        )
        readings[name] = FilteredAnswers(places, *columns)
    return Answers(samples, readings=readings, **values)


_KINDS = ("columns", "derived")
