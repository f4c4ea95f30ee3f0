"""The public files that tasks may read, each at its pinned revision: the ``source_files.tsv`` of each benchmark."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from custom_metrics.usage.plain_errors import PlainError

__all__ = ["CorruptSource", "MissingSource", "SourceFile", "files", "find"]


@dataclass(frozen=True)
class SourceFile:
    """One public file.

    Attributes:
        host: ``"hub"`` (a Hugging Face dataset) or ``"github"``.
        repository: ``owner/name``.
        revision: the pinned commit; ``main`` where the content is pinned by its checksum instead.
        path: inside the repository.
        checksum: ``git:<blob id>``, ``sha256:<digest>``, or empty where the commit alone pins the content.
        also_at: where else a mirror may hold it, for what was published twice: a path below the mirror, or empty.
    """

    host: str
    repository: str
    revision: str
    path: str
    checksum: str
    also_at: str = ""

    @property
    def mirror_path(self) -> str:
        """The file's path in a mirror."""
        prefix = "github/" if self.host == "github" else ""
        return f"{prefix}{self.repository}/{self.path}"

    @property
    def url(self) -> str:
        if self.host == "github":
            return f"https://raw.githubusercontent.com/{self.repository}/{self.revision}/{self.path}"
        return f"https://huggingface.co/datasets/{self.repository}/resolve/{self.revision}/{self.path}"

    def __str__(self) -> str:
        return f"{self.path} of {self.host} repository {self.repository} at revision {self.revision}"


class MissingSource(PlainError, FileNotFoundError):
    """A public file that is neither in the mirror nor in a cache, and cannot be (or may not be) downloaded.

    Attributes:
        files: the ``SourceFile`` of each, where they are known to be several.
    """

    files: Sequence[SourceFile] = ()


class CorruptSource(PlainError, ValueError):
    """A public file whose content is not what it should be: a wrong checksum, a cut archive, a broken row."""


_TABLE = "source_files.tsv"
_ELSEWHERE: list[Path] = []  # tables of benchmarks outside of this package


def know(folder: Path) -> None:
    """Add the ``source_files.tsv`` of a benchmark's folder to :func:`files`. A folder without one changes nothing."""
    table = folder.resolve() / _TABLE
    if table.is_file() and table not in _ours() and table not in _ELSEWHERE:
        _ELSEWHERE.append(table)
        files.cache_clear()


def _ours() -> list[Path]:
    return sorted(Path(__file__).resolve().parents[1].glob(f"*/{_TABLE}"))


@lru_cache(maxsize=1)
def files() -> tuple[SourceFile, ...]:
    """Every file that the tasks may read: of each benchmark by name, in the order of its ``source_files.tsv``."""
    tables = [table.read_text("utf-8") for table in (*_ours(), *_ELSEWHERE)]
    rows = (row for table in tables for row in csv.DictReader(table.splitlines(), delimiter="\t"))
    return tuple(SourceFile(**row) for row in rows)


def find(repository: str, path: str) -> SourceFile:
    """The file of that repository and path.

    Raises:
        KeyError: it is in no ``source_files.tsv``.
    """
    for file in files():
        if file.repository == repository and file.path == path:
            return file
    raise KeyError(f"{repository}: {path} is in no {_TABLE} of a benchmark")
