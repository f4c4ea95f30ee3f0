"""The harness's own samples files: the documents and answers of an earlier run."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from custom_metrics.usage.printable import without_surrogates
from lm_eval_tasks.data import provenance
from lm_eval_tasks.data.atomic import finished
from lm_eval_tasks.data.sources import CorruptSource, MissingSource

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_NAME = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl$")


def dated_task(path: Path) -> tuple[str, str] | None:
    """Task and date in the name of a samples file; ``None`` for any other file."""
    match = _NAME.match(path.name)
    return (match["task"], match["date"]) if match else None


def task_of(path: Path) -> str | None:
    """The task that a samples file is of; ``None`` for any other file."""
    return (dated_task(path) or (None,))[0]


def samples_files(place: Path) -> dict[Path, dict[str, Path]]:
    """Folder to task to samples file, below a place. A folder is one model's; of a task's files in it the newest counts. A
    place that is a file counts as a folder with one task. Work in progress is passed over
    (:func:`lm_eval_tasks.data.atomic.finished`).

    Raises:
        MissingSource: there is none.
    """
    paths = [place] if place.is_file() else finished(place, "samples_*.jsonl")
    dated = sorted((date, task, path) for path in paths for task, date in [dated_task(path) or ("", "")] if task)
    if not dated:
        raise MissingSource(
            f"{place.resolve()}: no samples file (samples_<task>_<date>.jsonl, as `lm_eval --log_samples` writes them)"
        )
    folders: dict[Path, dict[str, Path]] = {}
    older = []
    for _, task, path in dated:
        tasks = folders.setdefault(path.parent, {})
        older += [tasks[task]] if task in tasks else []
        tasks[task] = path
    if older:
        names = ", ".join(str(path) for _, _, path in dated if path in older)
        log.warning("%s: of each task in a folder the newest samples count; passed over: %s", place, names)
    return folders


def read_samples(path: Path) -> Iterator[dict[str, Any]]:
    """The samples of a file, each document once; a last line that was cut is left out, and said.

    Raises:
        CorruptSource: a line in the middle is no sample.
    """
    seen: dict[int, Any] = {}
    differing = 0
    for _, sample in read_placed_rows(path, _sample):
        identity = sample["doc_id"]
        if identity not in seen:  # one line for every filter
            seen[identity] = sample["resps"]
            yield sample
        elif seen[identity] != sample["resps"]:
            differing += 1
    if differing:
        log.warning("%s: %d further answers to the same documents; the first of each counts", path, differing)


_NO_SAMPLE = (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError)
_HALF = re.compile(rb"\\u[dD]")  # how JSON writes halves of surrogate pairs
_PARSE = json.JSONDecoder().decode  # `json.loads` asks six questions first


def _sample(line: bytes) -> dict[str, Any]:
    """A line as a sample; halves of surrogate pairs, which no file can hold, are replaced."""
    sample = _PARSE(line.decode())
    if _HALF.search(line):
        sample = json.loads(without_surrogates(json.dumps(sample, ensure_ascii=False)))
    if not isinstance(sample, dict) or not isinstance(sample["doc"], dict):
        raise TypeError("a sample is an object with a doc, which is one too")
    sample["doc_id"] = int(sample["doc_id"])
    if not isinstance(sample["resps"][0][0], (str, type(None))):
        raise TypeError("resps holds lists of answers")
    return sample


def _promptless_sample(line: bytes) -> dict[str, Any]:
    """As :func:`_sample`, without the prompt, which is most of a line, where that is found. Within a text, the quotes of
    these keys would have a backslash before them; within another object, the cut would leave a bracket open."""
    start, end = line.find(b', "arguments": {'), line.rfind(b'}, "resps": [')
    if 0 < start < end:
        try:
            return _sample(line[:start] + line[end + 1 :])
        except _NO_SAMPLE:
            pass
    return _sample(line)


def read_placed_rows(
    path: Path, parse: Callable[[bytes], dict[str, Any]] = _promptless_sample
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a samples file, one for each document and filter, without the prompts, and the byte at which each begins,
    for :func:`read_row_at`. A last line that was cut is left out, and said.

    Raises:
        CorruptSource: a line in the middle is no sample.
    """
    read = place = after = 0
    broken: tuple[int, str] | None = None
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            place, after = after, after + len(line)
            if broken and line.strip():
                raise CorruptSource(f"{path}, line {broken[0]}: no sample ({broken[1]})")
            try:
                sample = parse(line)
            except _NO_SAMPLE as error:
                if isinstance(error, UnicodeDecodeError) and line.endswith(b"\n"):  # else cut within a character
                    raise CorruptSource(f"{path} is no UTF-8 text after line {number - 1}: {error}") from error
                if line.strip():
                    broken = (number, f"{type(error).__name__}: {error}")
                continue
            read += 1
            yield place, sample
    if broken:
        log.warning("%s is cut in line %d: the %d samples before it are used, the rest is lost", path, broken[0], read)


def read_row_at(stream: BinaryIO, place: int) -> dict[str, Any]:
    """The row of an open samples file that begins at a byte.

    Raises:
        CorruptSource: there is none: its prompt is damaged, or the file has changed since :func:`read_placed_rows` read it.
    """
    stream.seek(place)
    try:
        return _sample(stream.readline())
    except _NO_SAMPLE as error:
        raise CorruptSource(f"{stream.name} has changed while it was read, or is damaged at byte {place}") from error


def documents_of_samples(
    place: Path, task: str, columns: tuple[str, ...]
) -> tuple[list[dict[str, Any]], provenance.Record]:
    """The documents that a task's samples, a file or the folder of one model's, were answers to, in their order, and their
    record.

    Raises:
        MissingSource: there are none of this task.
        CorruptSource: its file is damaged, or of several models; or a document lacks one of the columns.
    """
    folders = samples_files(place)
    having = [files[task] for files in folders.values() if task in files]
    if not having:
        known = sorted({name for files in folders.values() for name in files})
        raise MissingSource(f"{place.resolve()}: samples of {', '.join(known)}, none of {task}")
    if len(having) > 1:
        raise CorruptSource(f"{place.resolve()}: samples of {task} in {len(having)} folders; name one of them")
    (file,) = having
    found = [sample["doc"] for sample in sorted(read_samples(file), key=lambda sample: int(sample["doc_id"]))]
    if not found:
        raise CorruptSource(f"{file}: no sample can be read")
    for doc in found:
        missing = [column for column in columns if column not in doc]
        if missing:
            raise CorruptSource(f"{file}: a document has no {', '.join(missing)}; it is none of {task}")
    return found, provenance.Record("samples", local_files=[provenance.local_file("samples", file, place)])
