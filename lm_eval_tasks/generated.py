"""Files that scripts write: the benchmarks' task YAMLs, of which there are too many to write by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["write_files"]


def write_files(folder: Path, contents: Mapping[str, str]) -> None:
    """Write files (path below the folder: content), and say how many."""
    for name, content in contents.items():
        target = folder / name
        target.parent.mkdir(exist_ok=True)
        target.write_text(content, "utf-8")
    print(f"{len(contents)} files written below {folder}")
