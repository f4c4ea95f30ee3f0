"""Atomic writes: files and folders are complete or absent, also after a kill or on a full disk; and digests of files.

A partial file has a hidden name, ``.<name>.<host>-<pid>-<number>.part``, in the folder of its target. Readers look at
:func:`finished` files only. The next process that writes the same target removes the partial files of dead processes.
"""

from __future__ import annotations

import glob
import hashlib
import json
import logging
import os
import re
import shutil
import socket
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import NamedTuple

from custom_metrics.usage.plain_errors import UsageError

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_HOST = re.sub(r"[^A-Za-z0-9.]", "_", socket.gethostname()) or "host"
_NUMBERS = count()  # two threads may write the same file
_WRITER = re.compile(r"(?P<host>[A-Za-z0-9._]+)-(?P<pid>\d+)-\d+\.part")
_ABANDONED = 24 * 3600  # seconds without a change, for processes of other machines, which cannot be checked
_MANIFEST = "manifest.json"
_BLOCK = 1 << 20


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary file that replaces `path` when the block ends, after its content has reached the disk.

    If the block fails, the temporary file is removed, and `path` stays as it was; an OSError names `path`. Partial
    files that dead processes left beside it are removed first.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path)
    partial = _partial_path(path)
    try:
        yield partial
        _sync(partial)
        os.replace(partial, path)
        _sync(path.parent)
    except OSError as error:
        if error.filename != str(partial):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
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


def whole_folder(folder: Path, build: Callable[[Path], None], what: str) -> Path:
    """A cached folder; where it does not exist, `build` writes its files into an empty one.

    One process at a time builds it, and it is visible only when complete. A manifest holds the checksum of every file; a
    folder that does not agree with its manifest is built anew, with a warning that names it and its content (`what`).
    """
    from filelock import FileLock

    if folder.is_dir() and _damage(folder) is None:  # without the lock, for read-only caches
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if folder.is_dir():
            damage = _damage(folder)
            if damage is None:
                return folder
            log.warning("%s is damaged (%s); %s is built anew", folder, damage, what)
            shutil.rmtree(folder)
        _sweep(folder, everything=True)  # the lock excludes other writers
        partial = _partial_path(folder)
        partial.mkdir()
        try:
            build(partial)
            files = [path for path in sorted(partial.rglob("*")) if path.is_file()]
            sums = {path.relative_to(partial).as_posix(): checksum(path) for path in files}
            (partial / _MANIFEST).write_text(json.dumps(sums, indent=1), "utf-8")
            for path in (*files, partial / _MANIFEST, partial):
                _sync(path)
            os.replace(partial, folder)
            _sync(folder.parent)
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
                with tempfile.TemporaryDirectory(prefix=".scoring-", dir=folder) as partial:
                    yield Path(partial)
            finally:
                lock.unlink(missing_ok=True)
    except Timeout as error:
        raise OSError(f"another `lm-eval-grounded` is at work in {folder}; wait for it, or stop it") from error


def move_whole(places: Mapping[Path, Path]) -> None:
    """Move complete files (path to target), in order and without a pause, after the content of all is on the disk."""
    for path in places:
        _sync(path)
    for path, place in places.items():
        os.replace(path, place)
    for folder in {place.parent for place in places.values()}:
        _sync(folder)


def finished(place: Path, *patterns: str) -> list[Path]:
    """The files below a folder whose names match a pattern, sorted. Hidden files and folders are left out, and so are
    partial files, whose names are hidden."""
    paths = {path for pattern in patterns for path in place.rglob(pattern) if path.is_file()}
    return sorted(path for path in paths if not any(part.startswith(".") for part in path.relative_to(place).parts))


def checksum(path: Path, size: int | None = None) -> int:
    """CRC-32 of a file, or of its first `size` bytes. It detects damage, not tampering."""
    crc, remaining = 0, path.stat().st_size if size is None else size
    with path.open("rb") as stream:
        while remaining > 0 and (block := stream.read(min(_BLOCK, remaining))):
            crc = zlib.crc32(block, crc)
            remaining -= len(block)
    return crc


def _damage(folder: Path) -> str | None:
    """The first difference between a folder and its manifest, as a message; ``None`` where every file is intact."""
    try:
        for name, crc in json.loads((folder / _MANIFEST).read_text("utf-8")).items():
            if checksum(folder / name) != crc:
                return f"the content of {name} has changed"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        return f"{_MANIFEST}: {error}"
    return None


def _partial_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.{_HOST}-{os.getpid()}-{next(_NUMBERS)}.part")


def _sweep(path: Path, everything: bool = False) -> None:
    """Remove the partial files of dead processes for a file or folder; with `everything`, those of all processes."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        writer = _WRITER.fullmatch(leftover.name.removeprefix(f".{path.name}."))
        if writer and (everything or not _may_live(writer["host"], int(writer["pid"]), leftover)):
            log.info("removed what an unfinished run left: %s", leftover)
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)


def _may_live(host: str, pid: int, leftover: Path) -> bool:
    try:
        if host != _HOST or os.name != "posix":
            return time.time() - leftover.stat().st_mtime < _ABANDONED
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # somebody else's process, or its writer has just finished
        return True
    return True


def _sync(path: Path) -> None:
    """Flush a file or folder to the disk, where the file system can."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except (PermissionError, IsADirectoryError):  # folders cannot be opened everywhere
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        log.debug("%s could not be synced: %s", path, error)
    finally:
        os.close(descriptor)


# ------------------------------------------------------------------- digests, cached within a process until a file changes


class Digests(NamedTuple):
    """The digests of one content: SHA-256, git's id (as GitHub and the hub list them), and the size in bytes."""

    sha256: str
    git: str
    size: int

    def matches(self, checksum: str) -> bool:
        """Whether a checksum, ``sha256:<digest>`` or ``git:<id>`` (else a ValueError), is that of the content."""
        kind, _, expected = checksum.partition(":")
        if kind not in ("sha256", "git"):
            raise ValueError(f"unknown kind of checksum in source_files.tsv: {checksum!r}")
        return expected == (self.sha256 if kind == "sha256" else self.git)


def sha256_of(path: Path) -> str:
    """SHA-256 of a file; see :func:`digests_of`."""
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
