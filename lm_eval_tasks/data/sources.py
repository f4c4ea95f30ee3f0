"""Public data: from (repository, pinned revision, path) to a local file.

A *mirror* is a folder that holds copies: ``<owner>/<name>/<path>`` for Hugging Face datasets,
``github/<owner>/<name>/<path>`` for GitHub. ``LM_EVAL_GROUNDED_MIRROR`` or ``--metadata mirror=DIR`` names it. A mirror is
authoritative: a file that it lacks is an error, and nothing is downloaded. ``mirror=sample`` is the
miniature that ships with this package. Without a mirror, files come from the Hugging Face hub (its cache, its offline
switch) or from GitHub at a pinned commit, and are checked against the checksum in the ``source_files.tsv`` of the benchmark
that reads them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from lm_eval_tasks.data.atomic import CACHE_VARIABLE, cache_folder, whole_file
from lm_eval_tasks.data.digests import has_checksum
from lm_eval_tasks.data.downloads import MIRROR_VARIABLE, downloaded, fetch, fetch_command, is_offline
from lm_eval_tasks.data.source_files import CorruptSource, MissingSource, SourceFile, files, find, know
from lm_eval_tasks.data.tables import check_end, check_readable

__all__ = [
    "CACHE_VARIABLE",
    "MIRROR_VARIABLE",
    "SAMPLE",
    "CorruptSource",
    "Located",
    "MissingSource",
    "SourceFile",
    "cache_folder",
    "fetch",
    "fetch_command",
    "fetch_into",
    "files",
    "find",
    "is_offline",
    "know",
    "local_copy",
    "locate",
    "mirror_folder",
    "recording",
    "state",
]

SAMPLE = "sample"


class Located(NamedTuple):
    """A public file that was read.

    Attributes:
        origin: ``mirror``, ``sample`` (the bundled one), ``hub`` or ``github``.
    """

    file: SourceFile
    path: Path
    origin: str


_RECORD: ContextVar[list[Located] | None] = ContextVar("_RECORD", default=None)


@contextmanager
def recording() -> Iterator[list[Located]]:
    """Within this context, the list notes every file that :func:`locate` finds, in order."""
    found: list[Located] = []
    token = _RECORD.set(found)
    try:
        yield found
    finally:
        _RECORD.reset(token)


def mirror_folder(mirror: str | os.PathLike[str] | None = None) -> Path | None:
    """The mirror in force: the argument, else the environment variable, else none.

    Raises:
        MissingSource: the folder that was named does not exist.
    """
    named = mirror or os.environ.get(MIRROR_VARIABLE)
    if not named:
        return None
    folder = _sample() if str(named) == SAMPLE else Path(named).expanduser()
    if not folder.is_dir():
        how = "named as `mirror`" if mirror else f"named by {MIRROR_VARIABLE}"
        raise MissingSource(
            f"The mirror folder {folder.resolve()} ({how}) does not exist. Name an existing folder, "
            f"`{SAMPLE}` for the bundled miniature, or none to download."
        )
    return folder


def _sample() -> Path:
    return Path(str(resources.files("lm_eval_tasks"))) / SAMPLE


def locate(repository: str, path: str, mirror: str | os.PathLike[str] | None = None) -> Path:
    """A local copy of a public file; downloads it where no mirror is set and it is in no cache.

    Args:
        repository: ``owner/name``.
        path: inside the repository; the pair must stand in a ``source_files.tsv``.
        mirror: folder to read from, or ``"sample"``; default the environment variable ``LM_EVAL_GROUNDED_MIRROR``.

    Raises:
        MissingSource: it is not to be had; the message says where it was looked for and what would fetch it.
        CorruptSource: what was downloaded does not have the expected checksum, or what a mirror holds was cut on the way.
    """
    file = find(repository, path)
    folder = mirror_folder(mirror)
    local = fetch(file) if folder is None else _in_mirror(file, folder)
    if local is None:
        looked = " and ".join(filter(None, (file.mirror_path, file.also_at)))
        raise MissingSource(
            f"{file} is not in the mirror {Path(folder or '').resolve()} (looked for {looked}). "
            f"On a machine with internet, `{fetch_command([file], folder)}` puts it there."
        )
    try:
        check_end(local)
    except CorruptSource:
        if not file.checksum or not has_checksum(local, file.checksum):  # published so, it is whole
            raise
    record = _RECORD.get()
    if record is not None:
        origin = file.host if folder is None else SAMPLE if folder.resolve() == _sample().resolve() else "mirror"
        record.append(Located(file, local, origin))
    return local


def fetch_into(file: SourceFile, folder: Path) -> Path:
    """Download a file into a mirror folder (atomically); one that is there already is kept.

    Raises:
        CorruptSource: the one that is there, or the one that came, does not have the pinned checksum; or, where none is
            known, cannot be read as what its name says it is.
    """
    import shutil

    target = folder / file.mirror_path
    if target.is_file():
        if file.checksum and not has_checksum(target, file.checksum):
            raise CorruptSource(f"{target} is there, but is not the public file ({file.checksum}); move it away first")
        if not file.checksum:
            check_readable(target)
        return target
    source = fetch(file)
    if not file.checksum:
        try:
            check_readable(source, file.path)
        except CorruptSource as error:
            raise CorruptSource(
                f"{file} from {file.url} is not what it should be, and was not put into the mirror: {error}. A proxy or a "
                f"login page may have answered in its place; delete {source} and try again."
            ) from error
    with whole_file(target) as partial:
        shutil.copyfile(source, partial)
    return target


def state(file: SourceFile, mirror: str | os.PathLike[str] | None = None) -> tuple[str, Path | None]:
    """The state of a local copy, without downloading.

    Returns:
        One of ``missing``, ``verified`` (its checksum is the pinned one), ``differs`` (it is not: a mirror may hold a
        subset), ``readable`` (no checksum is known, but it can be read to its end), ``unreadable``; and its path.
    """
    local = local_copy(file, mirror_folder(mirror))
    if local is None:
        return "missing", None
    if file.checksum:
        return ("verified" if has_checksum(local, file.checksum) else "differs"), local
    return ("readable" if _is_readable(local) else "unreadable"), local


def local_copy(file: SourceFile, folder: Path | None) -> Path | None:
    """The path of a file in a mirror, or in the caches of downloads if there is no mirror; ``None`` where it is missing."""
    local = _in_mirror(file, folder) if folder is not None else downloaded(file)
    return local if local is not None and local.is_file() else None


def _in_mirror(file: SourceFile, folder: Path) -> Path | None:
    places = (folder / place for place in (file.mirror_path, file.also_at) if place)
    return next((place for place in places if place.is_file()), None)


def _is_readable(path: Path) -> bool:
    try:
        check_readable(path)
    except (OSError, CorruptSource):
        return False
    return True
