"""The runs below a folder, each read once: what was read is kept until one of its files changes."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lm_eval_tasks.data.atomic import whole_file
from lm_eval_tasks.data.provenance import PACKAGE
from lm_eval_tasks.results.leaderboard.entry import Entry, entry_of
from lm_eval_tasks.runs.finding import RunFiles, find_files, read_files

__all__ = ["Found", "Unreadable", "read_entries"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_FORMAT = 4  # rises where what is kept changes
_BLOCK = 1 << 20
_DAMAGED = (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)
"""What a file that is no results file, but looks like one, can raise."""


@dataclass(frozen=True)
class Unreadable:
    """Files that no run could be read from: the folder they lie in, and why."""

    folder: str
    reason: str


@dataclass(frozen=True)
class Found:
    """What is below a folder.

    Attributes:
        entries: the runs, in the order of their folders.
        unreadable: what is no run.
        read: how many folders were read, rather than found as they were.
        kept: the files that hold what was read.
    """

    entries: tuple[Entry, ...]
    unreadable: tuple[Unreadable, ...]
    read: int
    kept: tuple[Path, ...]


def read_entries(place: Path, cache: Path) -> Found:
    """The runs below a folder.

    Args:
        place: folder of runs.
        cache: where to keep what was read; a damaged file in it is written anew.

    Raises:
        MissingSource: there is no run in it, readable or not.
    """
    entries: list[Entry] = []
    unreadable: list[Unreadable] = []
    kept: list[Path] = []
    read = 0
    for files in tqdm(find_files(place), desc="Reading runs", unit=" runs", disable=None):
        folder = files.folder.relative_to(place).as_posix() if place.is_dir() else "."
        paths = _paths(files)
        keeper = cache / f"{hashlib.sha256(folder.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}.json"
        try:
            found = _kept(keeper, paths)
            if found is None:
                read += 1
                stated = [_stated(path) for path in paths]
                digest = hashlib.sha256(json.dumps(stated).encode()).hexdigest()
                found = [replace(entry_of(run, folder), digest=digest) for run in read_files(files)]
                _keep(keeper, stated, found)
        except _DAMAGED as error:
            said = str(error) or type(error).__name__
            unreadable.append(Unreadable(folder, said.replace(f"{place}/", "")))
            log.warning("%s: cannot be read: %s", files.folder, said)
            continue
        entries += found
        kept.append(keeper)
    return Found(tuple(entries), tuple(unreadable), read, tuple(kept))


def _paths(files: RunFiles) -> list[Path]:
    samples = (path for tasks in files.samples.values() for path in tasks.values())
    return sorted({*files.results.values(), *samples})


def _kept(keeper: Path, paths: list[Path]) -> list[Entry] | None:
    """What was read from these files; ``None`` where they have changed, or what is kept is damaged."""
    try:
        digest, content = keeper.read_text("utf-8").split("\n", 1)
        if hashlib.sha256(content.encode()).hexdigest() != digest:
            raise ValueError("its content does not fit its checksum")
        said = json.loads(content)
        if said["made_by"] != _made_by():
            return None
        if [name for name, *_ in said["files"]] != [path.name for path in paths]:
            return None
        touched = False
        for path, (_, size, modified, sha256) in zip(paths, said["files"], strict=True):
            stat = path.stat()
            if stat.st_size != size:
                return None
            if stat.st_mtime_ns != modified:
                touched = True
                if _sha256(path) != sha256:
                    return None
        entries = [Entry.from_json(entry) for entry in said["entries"]]
    except FileNotFoundError:
        return None
    except _DAMAGED as error:
        log.warning("%s is damaged (%s); the run is read anew", keeper, error)
        return None
    if touched:  # copied, or written again as it was
        _keep(keeper, [_stated(path) for path in paths], entries)
    return entries


def _stated(path: Path) -> list[Any]:
    """Name, size, time of the last change and content of a file. The time is taken before the content: what is written
    meanwhile is read at the next call."""
    stat = path.stat()
    return [path.name, stat.st_size, stat.st_mtime_ns, _sha256(path)]


def _keep(keeper: Path, stated: list[list[Any]], entries: list[Entry]) -> None:
    said = {"made_by": _made_by(), "files": stated, "entries": [entry.to_json() for entry in entries]}
    content = json.dumps(said, allow_nan=False)
    with whole_file(keeper) as partial:
        partial.write_text(f"{hashlib.sha256(content.encode()).hexdigest()}\n{content}", "utf-8")


def _made_by() -> list[Any]:
    from importlib.metadata import version

    return [_FORMAT, version(PACKAGE)]


def _sha256(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            found.update(block)
    return found.hexdigest()
