"""Digests of files, computed once a file and kept for later runs."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from pathlib import Path
from typing import NamedTuple

from lm_eval_tasks.data.atomic import cache_folder, whole_file

__all__ = ["Digests", "digests_of", "has_checksum", "sha256_of"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_WORTH_KEEPING = 1 << 20  # bytes; a smaller file is read faster than a note of it is looked up
_SETTLED = 2.0  # seconds; a file that has just been written may be written again within the clock's resolution
_BLOCK = 1 << 20


class Digests(NamedTuple):
    """The digests of one content: SHA-256, git's blob id (as GitHub and the hub list files), and the size in bytes."""

    sha256: str
    git: str
    size: int

    def fit(self, checksum: str) -> bool:
        """Whether they are those of ``sha256:<digest>`` or ``git:<blob id>``.

        Raises:
            ValueError: a checksum of another kind.
        """
        kind, _, expected = checksum.partition(":")
        if kind not in ("sha256", "git"):
            raise ValueError(f"unknown kind of checksum in source_files.tsv: {checksum!r}")
        return expected == (self.sha256 if kind == "sha256" else self.git)


def sha256_of(path: Path) -> str:
    """SHA-256 of a file; see :func:`digests_of`."""
    return digests_of(path).sha256


def has_checksum(path: Path, checksum: str) -> bool:
    """Whether a file's content, which is read anew, has the checksum; see :meth:`Digests.fit`."""
    return _read(path).fit(checksum)


def digests_of(path: Path) -> Digests:
    """The digests of a file's content.

    Those of a large file are kept in the cache folder under its path, and hold as long as its size and times are the same.

    Raises:
        OSError: it cannot be read.
    """
    before = path.stat()
    if before.st_size < _WORTH_KEEPING:
        return _read(path)
    place = str(path.resolve())
    identity = [place, before.st_size, before.st_mtime_ns, before.st_ctime_ns]
    note = cache_folder() / "digests" / f"{hashlib.sha256(place.encode('utf-8', 'replace')).hexdigest()[:32]}.json"
    try:
        kept = json.loads(note.read_text("utf-8"))
        if kept["of"] == identity:
            return Digests(str(kept["sha256"]), str(kept["git"]), before.st_size)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # none, or a damaged one: it is written anew
        pass
    found = _read(path)
    after = path.stat()
    changed = max(after.st_mtime, after.st_ctime)
    if [after.st_size, after.st_mtime_ns, after.st_ctime_ns] == identity[1:] and time.time() - changed > _SETTLED:
        try:
            with whole_file(note) as partial:
                partial.write_text(json.dumps({"of": identity, "sha256": found.sha256, "git": found.git}), "utf-8")
        except OSError as error:  # a cache that cannot be written costs time, nothing else
            log.debug("%s could not be written: %s", note, error)
    return found


def _read(path: Path) -> Digests:
    size = path.stat().st_size
    sha256 = hashlib.sha256()
    git = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            sha256.update(block)
            git.update(block)
    return Digests(sha256.hexdigest(), git.hexdigest(), size)
