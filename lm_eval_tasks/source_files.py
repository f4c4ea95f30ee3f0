"""The public files that tasks may read, each at its pinned revision: the table ``source_files.tsv``."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

__all__ = ["SourceFile", "files", "find"]


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
        """Where a mirror holds it."""
        prefix = "github/" if self.host == "github" else ""
        return f"{prefix}{self.repository}/{self.path}"

    @property
    def url(self) -> str:
        if self.host == "github":
            return f"https://raw.githubusercontent.com/{self.repository}/{self.revision}/{self.path}"
        return f"https://huggingface.co/datasets/{self.repository}/resolve/{self.revision}/{self.path}"

    def __str__(self) -> str:
        return f"{self.path} of {self.host} repository {self.repository} at revision {self.revision}"


@lru_cache(maxsize=1)
def files() -> tuple[SourceFile, ...]:
    """Every file that the tasks may read, in the order of ``source_files.tsv``."""
    table = resources.files("lm_eval_tasks").joinpath("source_files.tsv").read_text("utf-8")
    return tuple(SourceFile(**row) for row in csv.DictReader(table.splitlines(), delimiter="\t"))


def find(repository: str, path: str) -> SourceFile:
    """The file of that repository and path.

    Raises:
        KeyError: it is not in ``source_files.tsv``.
    """
    for file in files():
        if file.repository == repository and file.path == path:
            return file
    raise KeyError(f"{repository}: {path} is not in lm_eval_tasks/source_files.tsv")
