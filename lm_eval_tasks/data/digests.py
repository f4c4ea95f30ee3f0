"""Digests of files, cached within a process until the file changes."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple


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
