"""The runs below a folder, each read once: what was read is kept until one of its files changes."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lm_eval_tasks.data.atomic import whole_file
from lm_eval_tasks.data.digests import sha256_of
from lm_eval_tasks.data.provenance import PACKAGE
from lm_eval_tasks.results.leaderboard.entry import Entry, entry_of
from lm_eval_tasks.runs.finding import find_files, read_files

__all__ = ["RunsRead", "Unreadable", "read_entries"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_FORMAT = 5  # rises where what is kept changes
_DAMAGED = (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)
"""What a file that is no results file, but looks like one, can raise."""


@dataclass(frozen=True)
class Unreadable:
    """Files that no run could be read from: the folder they lie in, and why."""

    folder: str
    reason: str


@dataclass(frozen=True)
class RunsRead:
    """The runs below a folder, in the order of their folders; what is no run; how many folders were read, rather than
    found as they were; and the files that hold what was read."""

    entries: Sequence[Entry]
    unreadable: Sequence[Unreadable]
    read: int
    cache_files: Sequence[Path]


def read_entries(place: Path, cache: Path) -> RunsRead:
    """The runs below a folder.

    Args:
        place: folder of runs.
        cache: where to keep what was read; a damaged file in it is written anew.

    Raises:
        MissingSource: there is no run in it, readable or not.
    """
    entries: list[Entry] = []
    unreadable: list[Unreadable] = []
    cache_files: list[Path] = []
    read = 0
    for files in tqdm(find_files(place), desc="Reading runs", unit=" runs", disable=None):
        folder = files.folder.relative_to(place).as_posix() if place.is_dir() else "."
        samples = (path for tasks in files.samples.values() for path in tasks.values())
        paths = sorted({*files.results.values(), *samples})
        cache_file = cache / f"{hashlib.sha256(folder.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}.json"
        try:
            of_folder = _load(cache_file, paths)
            if of_folder is None:
                read += 1
                states = [_state(path) for path in paths]
                digest = hashlib.sha256(json.dumps(states).encode()).hexdigest()
                of_folder = [replace(entry_of(run, folder), digest=digest) for run in read_files(files)]
                _save(cache_file, states, of_folder)
        except _DAMAGED as error:
            reason = str(error) or type(error).__name__
            unreadable.append(Unreadable(folder, reason.replace(f"{place}/", "")))
            log.warning("%s: cannot be read: %s", files.folder, reason)
            continue
        entries += of_folder
        cache_files.append(cache_file)
    return RunsRead(entries, unreadable, read, cache_files)


def _load(cache_file: Path, paths: Sequence[Path]) -> list[Entry] | None:
    """What was read from these files; ``None`` where they have changed, or what is kept is damaged."""
    try:
        digest, content = cache_file.read_text("utf-8").split("\n", 1)
        if hashlib.sha256(content.encode()).hexdigest() != digest:
            raise ValueError("its content does not fit its checksum")
        kept = json.loads(content)
        states = kept["files"]
        if kept["made_by"] != [_FORMAT, version(PACKAGE)] or [name for name, *_ in states] != [p.name for p in paths]:
            return None
        if any(path.stat().st_size != size for path, (_, size, *_) in zip(paths, states, strict=True)):
            return None
        touched = any(path.stat().st_mtime_ns != time for path, (_, _, time, _) in zip(paths, states, strict=True))
        if touched and any(sha256_of(path) != sha256 for path, (*_, sha256) in zip(paths, states, strict=True)):
            return None
        entries = [Entry.from_json(entry) for entry in kept["entries"]]
    except FileNotFoundError:
        return None
    except _DAMAGED as error:
        log.warning("%s is damaged (%s); the run is read anew", cache_file, error)
        return None
    if touched:  # copied, or written again as it was
        _save(cache_file, [_state(path) for path in paths], entries)
    return entries


def _state(path: Path) -> list[Any]:
    """Name, size, time of the last change and content of a file. The time is taken before the content: what is written
    meanwhile is read at the next call."""
    stat = path.stat()
    return [path.name, stat.st_size, stat.st_mtime_ns, sha256_of(path)]


def _save(cache_file: Path, states: Sequence[list[Any]], entries: Sequence[Entry]) -> None:
    made_by = [_FORMAT, version(PACKAGE)]
    content = json.dumps({"made_by": made_by, "files": states, "entries": [entry.to_json() for entry in entries]})
    with whole_file(cache_file) as partial:
        partial.write_text(f"{hashlib.sha256(content.encode()).hexdigest()}\n{content}", "utf-8")
