"""Reading the harness's samples files: the documents and answers of an earlier run."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from custom_metrics.usage.printable import without_surrogates
from custom_metrics.usage.secrets import blank
from lm_eval_tasks.data import finished, provenance
from lm_eval_tasks.data.sources import CorruptSource, MissingSource

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_NAME = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl$")


def dated_task(path: Path) -> tuple[str, str] | None:
    """Task and date in the name of a samples file; ``None`` for any other file."""
    match = _NAME.match(path.name)
    return (match["task"], match["date"]) if match else None


def task_of(path: Path) -> str | None:
    return (dated_task(path) or (None,))[0]


def samples_files(place: Path) -> dict[Path, dict[str, Path]]:
    """Folder to task to samples file, below a file or folder; a MissingSource where there is none. A folder holds the
    answers of one model; of several files of a task in it, the newest counts. A file counts as a folder with one task.
    Partial files are skipped (:func:`lm_eval_tasks.data.finished`)."""
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
    """The samples of a file, each document once; errors are those of :func:`read_rows_with_offsets`."""
    seen: dict[int, Any] = {}
    differing = 0
    for _, sample in read_rows_with_offsets(path, parse_sample):
        if not isinstance(sample["resps"][0][0], (str, type(None))):
            raise CorruptSource(f"{path}: its answers are log-likelihoods, not texts")
        identity = sample["doc_id"]
        if identity not in seen:  # one line for every filter
            seen[identity] = sample["resps"]
            yield sample
        elif seen[identity] != sample["resps"]:
            differing += 1
    if differing:
        log.warning("%s: %d further answers to the same documents; the first of each counts", path, differing)


NO_SAMPLE = (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError)
_SURROGATE = re.compile(rb"\\u[dD]")  # how JSON writes one
_PARSE = json.JSONDecoder().decode  # faster than `json.loads`, which checks its options first


def parse_sample(line: bytes) -> dict[str, Any]:
    """Parse a line as a sample, without secrets; lone surrogates, which UTF-8 cannot encode, are replaced."""
    sample = _PARSE(line.decode())
    if _SURROGATE.search(line):
        sample = json.loads(without_surrogates(json.dumps(sample, ensure_ascii=False)))
    if not isinstance(sample, dict) or not isinstance(sample["doc"], dict):
        raise TypeError("a sample is an object with a doc, which is one too")
    sample = without_secrets(sample)
    sample["doc_id"] = int(sample["doc_id"])
    if not isinstance(sample["resps"][0][0], (str, type(None), list, int, float)):
        raise TypeError("resps holds lists of answers")
    return sample


_BLANKED = lru_cache(maxsize=64)(blank)  # every row repeats the settings of its task


def without_secrets(sample: dict[str, Any]) -> dict[str, Any]:
    """A sample whose settings (the detector's in its document, those of generation beside its prompts) have no secrets."""
    doc, requests = sample["doc"], sample.get("arguments")
    if isinstance(options := doc.get("detector_args"), str):
        sample = {**sample, "doc": {**doc, "detector_args": _BLANKED(options)}}
    if isinstance(requests, Mapping):  # of texts, which stay, and settings
        clean = {
            name: {key: value if isinstance(value, str) else blank(value) for key, value in request.items()}
            for name, request in requests.items()
            if isinstance(request, Mapping)
        }
        sample = {**sample, "arguments": {**requests, **clean}}
    return sample


def write_without_secrets(path: Path, to: Path) -> bool:
    """Write a samples file anew without secrets; return whether it holds any. Its first row tells: a task has one set of
    settings. Nothing is written where there are none."""
    with path.open("rb") as lines:
        first = next(lines, b"")
    try:
        if (read := _PARSE(first.decode())) == without_secrets(read):
            return False
    except NO_SAMPLE:
        return False
    with to.open("w", encoding="utf-8") as stream:
        stream.writelines(
            json.dumps(row, ensure_ascii=False) + "\n" for _, row in read_rows_with_offsets(path, parse_sample)
        )
    return True


_Parsed = TypeVar("_Parsed")


def read_rows_with_offsets(path: Path, parse: Callable[[bytes], _Parsed]) -> Iterator[tuple[int, _Parsed]]:
    """The rows of a samples file, one for each document and filter, each after its offset in bytes (for
    :func:`read_row_at`). A truncated last line is left out, with a warning; any other that is no sample is a
    CorruptSource."""
    count = start = end = 0
    broken: tuple[int, str] | None = None
    with path.open("rb", buffering=1 << 17) as stream:  # a line has a prompt of ten passages
        for number, line in enumerate(stream, 1):
            start, end = end, end + len(line)
            if broken and line.strip():
                raise CorruptSource(f"{path}, line {broken[0]}: no sample ({broken[1]})")
            try:
                sample = parse(line)
            except NO_SAMPLE as error:
                if isinstance(error, UnicodeDecodeError) and line.endswith(b"\n"):  # else cut within a character
                    raise CorruptSource(f"{path} is no UTF-8 text after line {number - 1}: {error}") from error
                if line.strip():
                    broken = (number, f"{type(error).__name__}: {error}")
                continue
            count += 1
            yield start, sample
    if broken:
        log.warning("%s is cut in line %d: the %d samples before it are used, the rest is lost", path, broken[0], count)


def read_row_at(stream: BinaryIO, offset: int) -> dict[str, Any]:
    """The row of an open samples file at an offset in bytes. Where none begins there, the file is damaged or has
    changed since :func:`read_rows_with_offsets`: a CorruptSource."""
    stream.seek(offset)
    try:
        return parse_sample(stream.readline())
    except NO_SAMPLE as error:
        raise CorruptSource(f"{stream.name} has changed while it was read, or is damaged at byte {offset}") from error


def documents_of_samples(
    place: Path, task: str, columns: tuple[str, ...]
) -> tuple[list[dict[str, Any]], provenance.Record]:
    """The documents of a task's samples (a file, or the folder of one model), in their original order, and their record. A
    MissingSource without samples of it; a CorruptSource where they are damaged, of several models, or lack a column."""
    folders = samples_files(place)
    candidates = [files[task] for files in folders.values() if task in files]
    if not candidates:
        tasks = sorted({name for files in folders.values() for name in files})
        raise MissingSource(f"{place.resolve()}: samples of {', '.join(tasks)}, none of {task}")
    if len(candidates) > 1:
        raise CorruptSource(f"{place.resolve()}: samples of {task} in {len(candidates)} folders; name one of them")
    (file,) = candidates
    documents = [sample["doc"] for sample in sorted(read_samples(file), key=lambda sample: int(sample["doc_id"]))]
    if not documents:
        raise CorruptSource(f"{file}: no sample can be read")
    for doc in documents:
        missing = [column for column in columns if column not in doc]
        if missing:
            raise CorruptSource(f"{file}: a document has no {', '.join(missing)}; it is none of {task}")
    return documents, provenance.Record("samples", local_files=[provenance.local_file("samples", file, place)])
