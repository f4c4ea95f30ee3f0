"""Data: public files, pinned and verified, samples, provenance. Here what they share: atomic writes, and digests of files.

Files and folders are complete or absent, also after a kill or on a full disk. A partial file has a hidden name,
``.<name>.<random>.part``, in the folder of its target. Readers look at :func:`finished` files only. What a killed process
left is removed a day later, by the next that writes the same target.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from custom_metrics.usage.plain_errors import UsageError, naming

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_PARTIAL = re.compile(r"[0-9a-f]{32}\.part")
_ABANDONED = 24 * 3600  # seconds after which a partial file has no writer any more


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary file that replaces `path` when the block ends. If the block fails, `path` stays as it was, and an OSError
    names it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path)
    partial = _partial_path(path)
    try:
        with naming(path, partial):
            yield partial
            os.replace(partial, path)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def check_place(file: Path) -> None:
    """Raise a UsageError unless an output file can be written in its folder, before its content is computed."""
    if file.is_dir():
        raise UsageError(f"{file} is a folder; name a file to write")
    check_writable(file.parent)


def check_writable(folder: Path) -> None:
    """Raise a UsageError with the reason unless a folder can be written to, by a temporary file. Folders that are made
    for the check are removed again."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"x")
    except OSError as error:
        why = "it is no folder" if isinstance(error, FileExistsError) else error.strerror or error
        raise UsageError(f"nothing can be written to {folder}: {why}") from error
    finally:
        for place in missing:
            with suppress(OSError):  # another process has begun to write there
                place.rmdir()


def cache_folder() -> Path:
    """The folder of our own downloads and indexes: ``LM_EVAL_GROUNDED_CACHE`` or the user's cache folder."""
    named = os.environ.get("LM_EVAL_GROUNDED_CACHE")
    if named:
        return Path(named).expanduser()
    import pooch

    return Path(pooch.os_cache("lm-eval-grounded"))


def whole_folder(folder: Path, build: Callable[[Path], None]) -> Path:
    """A cached folder; where it does not exist, `build` writes its files into an empty one. One process at a time builds
    it, and it is visible only when complete."""
    from filelock import FileLock

    if folder.is_dir():  # without the lock, for read-only caches
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if folder.is_dir():
            return folder
        _sweep(folder, older=0)  # the lock excludes other writers
        partial = _partial_path(folder)
        partial.mkdir()
        try:
            with naming(folder, partial):
                build(partial)
                os.replace(partial, folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder


@contextmanager
def locked_folder(folder: Path) -> Iterator[Path]:
    """A hidden folder to write to, below a folder that is locked; remains of killed runs there are removed."""
    from filelock import FileLock, Timeout

    lock = folder / ".scoring.lock"
    try:
        with FileLock(lock, timeout=0):
            for leftover in folder.glob(".scoring-*"):
                log.info("removed what an unfinished run left: %s", leftover)
                shutil.rmtree(leftover)
            try:
                with tempfile.TemporaryDirectory(prefix=".scoring-", dir=folder) as partial, naming(folder):
                    yield Path(partial)
            finally:
                lock.unlink(missing_ok=True)
    except Timeout as error:
        raise OSError(f"another `lm-eval-grounded` is at work in {folder}; wait for it, or stop it") from error


def move_whole(places: Mapping[Path, Path]) -> None:
    """Move complete files (path to target), in order and without a pause."""
    for path, place in places.items():
        os.replace(path, place)


def finished(place: Path, *patterns: str) -> list[Path]:
    """The files below a folder whose names match a pattern, sorted. Hidden files and folders are left out, and so are
    partial files, whose names are hidden. A run's folder is not hidden: of ``./models/x`` it is ``.__models__x``."""
    paths = {path for pattern in patterns for path in place.rglob(pattern) if path.is_file()}
    return sorted(path for path in paths if not any(map(_is_hidden, path.relative_to(place).parts)))


def _is_hidden(name: str) -> bool:
    return name.startswith(".") and (name.endswith(".part") or not name.lstrip(".").startswith("__"))


def _partial_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid4().hex}.part")


def _sweep(path: Path, older: float = _ABANDONED) -> None:
    """Remove the partial files for a file or folder that nobody has changed for so many seconds."""
    prefix = f".{path.name}."  # no glob: two thousand files are kept in a folder, each with a pattern of its own
    for name in os.listdir(path.parent):
        if not (name.startswith(prefix) and _PARTIAL.fullmatch(name, len(prefix))):
            continue
        leftover = path.parent / name
        with suppress(FileNotFoundError):  # its writer has just finished
            if time.time() - leftover.stat().st_mtime >= older:
                log.info("removed what an unfinished run left: %s", leftover)
                if leftover.is_dir():
                    shutil.rmtree(leftover, ignore_errors=True)
                else:
                    leftover.unlink()


# ------------------------------------------------------------------- digests, cached within a process until a file changes


class Digests(NamedTuple):
    """The digests of one content: SHA-256, git's id (as GitHub and the hub list them), and the size in bytes."""

    sha256: str
    git: str
    size: int

    def matches(self, checksum: str) -> bool:
        """Whether a checksum, ``sha256:<digest>`` or ``git:<id>``, is that of the content."""
        kind, _, expected = checksum.partition(":")
        return expected == (self.sha256 if kind == "sha256" else self.git)


def sha256_of(path: Path) -> str:
    return digests_of(path).sha256


def digests_of(path: Path) -> Digests:
    """The digests of a file's content; of a folder, git's id of its tree (of the names and blob ids of its files, see
    ``git mktree``) and the SHA-256 of what ``sha256sum *`` prints. Hidden files and folders are no part of it."""
    if path.is_dir():
        return _hash_folder(path)
    now = path.stat()
    return _hash_file(path.resolve(), now.st_size, now.st_mtime_ns, now.st_ctime_ns)


@lru_cache(maxsize=4096)
def _hash_file(path: Path, size: int, *_times: int) -> Digests:
    sha256 = hashlib.sha256()
    git = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            sha256.update(block)
            git.update(block)
    return Digests(sha256.hexdigest(), git.hexdigest(), size)


def _hash_folder(folder: Path) -> Digests:
    files = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    digests = {file.name: digests_of(file) for file in files}
    tree = b"".join(b"100644 %s\0%s" % (name.encode(), bytes.fromhex(d.git)) for name, d in digests.items())
    listing = "".join(f"{d.sha256}  {name}\n" for name, d in digests.items())
    return Digests(
        hashlib.sha256(listing.encode()).hexdigest(),
        hashlib.sha1(b"tree %d\0" % len(tree) + tree, usedforsecurity=False).hexdigest(),
        sum(d.size for d in digests.values()),
    )
