"""Files and folders that are there whole or not at all, also after a kill or a full disk.

Work in progress has a hidden name, ``.<name>.<host>-<pid>-<number>.part``, in the folder it is made for. Readers look at
:func:`finished` files only, and whoever makes the same thing next removes what dead processes left behind.
"""

from __future__ import annotations

import glob
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
from itertools import count
from pathlib import Path

from custom_metrics.usage.plain_errors import UsageError

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_HOST = re.sub(r"[^A-Za-z0-9.]", "_", socket.gethostname()) or "host"
_NUMBERS = count()  # two threads may write the same file
_WRITER = re.compile(r"(?P<host>[A-Za-z0-9._]+)-(?P<pid>\d+)-\d+\.part")
_ABANDONED = 24 * 3600  # seconds; whether a process of another machine lives cannot be asked
_MANIFEST = "manifest.json"
_BLOCK = 1 << 20


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A file to write in the place of `path`.

    It takes that name when the block ends, after its content has reached the disk. If the block fails, it is removed, and
    so are the leftovers of dead processes.

    Raises:
        OSError: it cannot be written; the error names `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path)
    partial = _part_of(path)
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
    """Check that a file can be written, before the work on its content begins.

    Raises:
        UsageError: it is a folder, or its folder cannot be made or written to.
    """
    if file.is_dir():
        raise UsageError(f"{file} is a folder; name a file to write")
    check_writable(file.parent)


def check_writable(folder: Path) -> None:
    """Write a file into a folder and remove it, with the folders that had to be made for it.

    Raises:
        UsageError: it cannot be made or written to; the message says why.
    """
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
            with suppress(OSError):  # somebody else has begun to write there
                place.rmdir()


def cache_folder() -> Path:
    """The folder of our own downloads and indexes: ``LM_EVAL_GROUNDED_CACHE`` or the user's cache folder."""
    named = os.environ.get("LM_EVAL_GROUNDED_CACHE")
    if named:
        return Path(named).expanduser()
    import pooch

    return Path(pooch.os_cache("lm-eval-grounded"))


def whole_folder(folder: Path, build: Callable[[Path], None], what: str) -> Path:
    """A cached folder of the files that `build` writes into an empty one; `what` it is, for the log.

    One process at a time builds it, and it is visible only when complete. A manifest holds the checksum of every file; a
    folder that does not agree with its manifest is named in the log and built anew.
    """
    from filelock import FileLock

    if folder.is_dir() and _damage(folder) is None:  # also where no lock can be written
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if folder.is_dir():
            damage = _damage(folder)
            if damage is None:
                return folder
            log.warning("%s is damaged (%s); %s is built anew", folder, damage, what)
            shutil.rmtree(folder)
        _sweep(folder, everything=True)  # who holds the lock is alone here
        partial = _part_of(folder)
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


def move_whole(places: Mapping[Path, Path]) -> None:
    """Move finished files to their places, in order, one right after the other, once the content of all is on the disk."""
    for path in places:
        _sync(path)
    for path, place in places.items():
        os.replace(path, place)
    for folder in {place.parent for place in places.values()}:
        _sync(folder)


def finished(place: Path, *patterns: str) -> list[Path]:
    """The files below a folder whose names match a pattern, in order. Hidden files and folders are left out; work in
    progress is hidden."""
    found = {path for pattern in patterns for path in place.rglob(pattern) if path.is_file()}
    return sorted(path for path in found if not any(part.startswith(".") for part in path.relative_to(place).parts))


def checksum(path: Path, size: int | None = None) -> int:
    """CRC-32 of a file, or of its first bytes. It finds damage, not tampering."""
    crc, left = 0, path.stat().st_size if size is None else size
    with path.open("rb") as stream:
        while left > 0 and (block := stream.read(min(_BLOCK, left))):
            crc = zlib.crc32(block, crc)
            left -= len(block)
    return crc


def _damage(folder: Path) -> str | None:
    """What is wrong with a folder; ``None`` where every file is as it was written."""
    try:
        for name, crc in json.loads((folder / _MANIFEST).read_text("utf-8")).items():
            if checksum(folder / name) != crc:
                return f"the content of {name} has changed"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        return f"{_MANIFEST}: {error}"
    return None


def _part_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.{_HOST}-{os.getpid()}-{next(_NUMBERS)}.part")


def _sweep(path: Path, everything: bool = False) -> None:
    """Remove what dead processes left of a file or folder in the making; with a lock held, everything."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        writer = _WRITER.fullmatch(left.name.removeprefix(f".{path.name}."))
        if writer and (everything or not _may_live(writer["host"], int(writer["pid"]), left)):
            log.info("removed what an unfinished run left: %s", left)
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)


def _may_live(host: str, pid: int, left: Path) -> bool:
    try:
        if host != _HOST or os.name != "posix":
            return time.time() - left.stat().st_mtime < _ABANDONED
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # somebody else's process, or its writer has just finished
        return True
    return True


def _sync(path: Path) -> None:
    """Have what was written reach the disk; file systems that cannot are left alone."""
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
