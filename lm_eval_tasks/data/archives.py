"""Archives (``.tar.gz``), read as a stream. Nothing in one is trusted: neither names, nor sizes, nor kinds of members."""

from __future__ import annotations

import gzip
import re
import tarfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from lm_eval_tasks.data.tables import CorruptSource

LARGEST_ARCHIVE = 1 << 30
"""Bytes, unpacked; Mu-SHROOM's of de, es, fi and it have 6 to 19 MB. One that goes on beyond it is refused."""

_PLAIN_NAME = re.compile(r"\w[\w.-]*", re.ASCII)  # no folder, no `..`, nothing hidden


def plain_files(
    archive: Path, largest: int, left_out: Counter[str], advice: str, is_wanted: Callable[[str], object] = bool
) -> Iterator[tuple[str, bytes]]:
    """Name and content of an archive's plain files, one after another: of those whose name `is_wanted`.

    Links, devices and files of more than `largest` bytes are passed over, and counted in `left_out`.

    Raises:
        CorruptSource: it is cut, damaged, or unpacks to more than ``LARGEST_ARCHIVE``; the message ends with `advice`.
    """
    try:
        with gzip.open(archive) as unpacked:
            stream = _Limited(unpacked, archive, advice)
            with tarfile.open(fileobj=stream, mode="r|") as tar:  # type: ignore[call-overload]
                for member in tar:
                    if member.isdir() or not is_wanted(member.name):
                        continue
                    if not member.isreg() or member.issparse():  # links, devices, holes
                        left_out["members of the archive that are no plain files"] += 1
                    elif member.size > largest:
                        left_out[f"members of the archive of more than {largest >> 20} MB"] += 1
                    else:
                        file = tar.extractfile(member)
                        yield member.name, file.read() if file else b""
            while stream.read(1 << 20):  # to the checksum at the end; tarfile stops where it finds no further member
                pass
            if not stream.total:
                raise tarfile.ReadError("it is empty")
    except CorruptSource:
        raise
    except (EOFError, OSError, zlib.error, tarfile.TarError, ValueError) as error:  # the last two: of broken headers
        raise CorruptSource(f"{archive} is cut or damaged ({error}); {advice}") from error


def unpack(archive: Path, folders: Mapping[str, Path], largest: int, advice: str) -> None:
    """Write an archive's plain files of some folders (paths below its topmost one, with a slash at the end) into those that
    `folders` names. All others are passed over. See :func:`plain_files` for the rest."""

    def target(name: str) -> Path | None:
        top, _, path = name.partition("/")
        folder, slash, file = path.rpartition("/")
        is_plain = _PLAIN_NAME.fullmatch(top) and _PLAIN_NAME.fullmatch(file)
        return folders[folder + slash] / file if is_plain and folder + slash in folders else None

    for name, content in plain_files(archive, largest, Counter(), advice, target):
        if path := target(name):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


class _Limited:
    """A readable stream of limited length: a few kilobytes of gzip can unpack to terabytes."""

    def __init__(self, stream: gzip.GzipFile, archive: Path, advice: str) -> None:
        self.stream = stream
        self.refusal = f"{archive} unpacks to more than {LARGEST_ARCHIVE >> 20} MB, as no public archive does; {advice}"
        self.total = 0

    def read(self, size: int) -> bytes:
        block = self.stream.read(size)
        self.total += len(block)
        if self.total > LARGEST_ARCHIVE:
            raise CorruptSource(self.refusal)
        return block
