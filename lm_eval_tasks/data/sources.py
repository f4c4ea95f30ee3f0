"""Public data: from (repository, pinned revision, path) to a local file.

The ``source_files.tsv`` of each benchmark lists the public files that its tasks may read (:class:`SourceFile`).

A *mirror* is a folder of copies: ``<owner>/<name>/<path>`` for Hugging Face datasets, ``github/<owner>/<name>/<path>``
for GitHub. ``LM_EVAL_GROUNDED_MIRROR`` or the option ``mirror`` (``--metadata '{"mirror": "DIR"}'``) names it. A mirror
is authoritative: a file that it lacks is an error, and nothing is downloaded. ``mirror=sample`` is an excerpt that ships
with this package. Without a mirror, files come from the Hugging Face hub (its cache, its offline switch) or from GitHub at
a pinned commit, and are checked against their pinned checksum. A folder of many small files counts as one: it comes from
the one archive of its commit, and git's id of the folder pins the name and blob id of each file.
"""

from __future__ import annotations

import csv
import gzip
import logging
import os
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from custom_metrics.usage.plain_errors import PlainError
from custom_metrics.usage.printable import shell_word
from lm_eval_tasks.data import cache_folder as cache_folder  # callers have both from here
from lm_eval_tasks.data import digests_of, whole_file
from lm_eval_tasks.data.tables import CorruptSource as CorruptSource
from lm_eval_tasks.data.tables import check_end, check_readable

MIRROR_VARIABLE = "LM_EVAL_GROUNDED_MIRROR"
SAMPLE = "sample"
LARGEST_MEMBER = 1 << 20  # bytes of a file in a folder of files; the largest has 6 kB. A larger one is not unpacked.
LARGEST_ARCHIVE = 1 << 30  # bytes, unpacked; Mu-SHROOM's have 6 to 19 MB. One that goes on beyond it is refused.

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_OURS = Path(__file__).resolve().parents[1]
_TABLE = "source_files.tsv"
_PLAIN_NAME = re.compile(r"\w[\w.-]*", re.ASCII)  # no folder, no `..`, nothing hidden
_ELSEWHERE: list[Path] = []  # tables of benchmarks outside of this package


class MissingSource(PlainError, FileNotFoundError):
    """A public file is neither in the mirror nor in a cache, and cannot be (or may not be) downloaded."""

    files: Sequence[SourceFile] = ()  # all that are missing, where all were checked


@dataclass(frozen=True)
class SourceFile:
    host: str  # ``hub`` (a Hugging Face dataset) or ``github``
    repository: str  # ``owner/name``
    revision: str  # the pinned commit; ``main`` where the content is pinned by its checksum instead
    path: str  # inside the repository; of a folder of files, which count as one, it ends with a slash
    checksum: str  # ``git:<blob id>``, ``sha256:<digest>``, or empty where the commit alone pins the content
    also_at: str = ""  # a second path below a mirror, for a file that was published twice; or empty

    @property
    def is_folder(self) -> bool:
        return self.path.endswith("/")

    @property
    def mirror_path(self) -> str:
        prefix = "github/" if self.host == "github" else ""
        return f"{prefix}{self.repository}/{self.path}"

    @property
    def url(self) -> str:
        if self.is_folder:  # all folders of a commit are in one archive
            return f"https://codeload.github.com/{self.repository}/tar.gz/{self.revision}"
        if self.host == "github":
            return f"https://raw.githubusercontent.com/{self.repository}/{self.revision}/{self.path}"
        return f"https://huggingface.co/datasets/{self.repository}/resolve/{self.revision}/{self.path}"

    def __str__(self) -> str:
        return f"{self.path} of {self.host} repository {self.repository} at revision {self.revision}"


def add_table(folder: Path) -> None:
    """Add the ``source_files.tsv`` of a benchmark's folder to :func:`files`. A folder without one changes nothing."""
    table = folder.resolve() / _TABLE
    if table.is_file() and table.parents[1] != _OURS and table not in _ELSEWHERE:
        _ELSEWHERE.append(table)
        files.cache_clear()


@lru_cache(maxsize=1)
def files() -> tuple[SourceFile, ...]:
    """All files that tasks may read, by benchmark (sorted by name), in the order of its ``source_files.tsv``."""
    tables = [table.read_text("utf-8") for table in (*sorted(_OURS.glob(f"*/{_TABLE}")), *_ELSEWHERE)]
    rows = (row for table in tables for row in csv.DictReader(table.splitlines(), delimiter="\t"))
    return tuple(SourceFile(**row) for row in rows)


def source_file(repository: str, path: str) -> SourceFile:
    """The entry of a repository and path; a KeyError where no ``source_files.tsv`` has one."""
    for file in files():
        if file.repository == repository and file.path == path:
            return file
    raise KeyError(f"{repository}: {path} is in no {_TABLE} of a benchmark")


class Located(NamedTuple):
    file: SourceFile
    path: Path
    origin: str  # ``mirror``, ``sample`` (the bundled one), ``hub`` or ``github``


_RECORD: ContextVar[list[Located] | None] = ContextVar("_RECORD", default=None)


@contextmanager
def recording() -> Iterator[list[Located]]:
    """A list to which :func:`locate` appends every file that it finds within this context."""
    located_files: list[Located] = []
    token = _RECORD.set(located_files)
    try:
        yield located_files
    finally:
        _RECORD.reset(token)


def mirror_folder(mirror: str | os.PathLike[str] | None = None) -> Path | None:
    """The mirror in force: the argument, else the environment variable, else ``None``. One that does not exist is a
    MissingSource."""
    named = mirror or os.environ.get(MIRROR_VARIABLE)
    if not named:
        return None
    folder = _OURS / SAMPLE if str(named) == SAMPLE else Path(named).expanduser()
    if not folder.is_dir():
        how = "named as `mirror`" if mirror else f"named by {MIRROR_VARIABLE}"
        raise MissingSource(
            f"The mirror folder {folder.resolve()} ({how}) does not exist. Name an existing folder, "
            f"`{SAMPLE}` for the bundled excerpt, or none to download."
        )
    return folder


def locate(repository: str, path: str, mirror: str | os.PathLike[str] | None = None) -> Path:
    """A local copy of a public file, which must be listed in a ``source_files.tsv``: from the mirror
    (:func:`mirror_folder`), or without one from the caches or its host. A MissingSource where it is not available, with
    the command that fetches it; a CorruptSource where a download does not have the pinned checksum, or the mirror's copy
    is truncated."""
    file = source_file(repository, path)
    folder = mirror_folder(mirror)
    if folder is None:
        local, origin = fetch(file), file.host
    else:
        copy = local_copy(file, folder)
        if copy is None:
            raise missing([file], folder)
        local, origin = copy, SAMPLE if folder.resolve() == _OURS / SAMPLE else "mirror"
    try:
        check_end(local)
    except CorruptSource:
        if not file.checksum or not digests_of(local).matches(file.checksum):  # else it was published so
            raise
    log.debug("%s/%s is from %s", repository, path, folder or file.host)
    record = _RECORD.get()
    if record is not None:
        record.append(Located(file, local, origin))
    return local


def local_copy(file: SourceFile, folder: Path | None) -> Path | None:
    """The path of a file in a mirror, or without a mirror in the download caches; ``None`` where it is missing."""
    if folder is not None:
        places = [folder / place for place in (file.mirror_path, file.also_at) if place]
    elif file.host == "github":
        places = [_github_cache(file)]
    else:
        from huggingface_hub import try_to_load_from_cache

        cached = try_to_load_from_cache(file.repository, file.path, repo_type="dataset", revision=file.revision)
        places = [Path(cached)] if isinstance(cached, str) else []
    return next((place for place in places if (place.is_dir() if file.is_folder else place.is_file())), None)


def state(file: SourceFile, mirror: str | os.PathLike[str] | None = None) -> tuple[str, Path | None]:
    """The state of a local copy, without downloading: ``missing``, ``verified`` (its checksum is the pinned one),
    ``differs`` (it is not: a mirror may hold a subset), ``readable`` (no checksum is known, and it can be read to its
    end) or ``unreadable``; and its path."""
    local = local_copy(file, mirror_folder(mirror))
    if local is None:
        return "missing", None
    if file.checksum:
        return ("verified" if digests_of(local).matches(file.checksum) else "differs"), local
    try:
        check_readable(local)
    except (OSError, CorruptSource):
        return "unreadable", local
    return "readable", local


def is_offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in {"1", "ON", "YES", "TRUE"}


def fetch(file: SourceFile) -> Path:
    """A local copy of a public file from the download caches or its host; mirrors are ignored. A MissingSource where it
    cannot be downloaded, a CorruptSource where it does not have the pinned checksum."""
    if file.host == "github":
        return _from_github(file)
    from huggingface_hub import hf_hub_download

    try:
        local = Path(hf_hub_download(file.repository, file.path, repo_type="dataset", revision=file.revision))
    except Exception as error:  # the hub raises a dozen kinds: offline, timeout, gone, no such file, no space
        raise missing([file], None, error) from error
    if not _is_as_pinned(local, file):
        raise CorruptSource(
            f"{_corrupt(file)} It lies in {local}; delete it there to fetch it again, or, to use it all the same, put it "
            f"into a mirror folder as {file.mirror_path} and set {MIRROR_VARIABLE}."
        )
    return local


def _github_cache(file: SourceFile, path: str = "") -> Path:
    return cache_folder() / "github" / file.repository / file.revision / (path or file.path)


def _from_github(file: SourceFile) -> Path:
    from filelock import FileLock

    local = _github_cache(file)
    if local.exists():
        if _is_as_pinned(local, file):
            return local
        log.warning("%s is damaged (not %s); it is fetched again", local, file.checksum)
    if is_offline():
        raise missing([file], None)
    download = _github_cache(file, f".{file.revision}.tar.gz") if file.is_folder else local
    download.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{download}.lock"):
        if local.exists() and _is_as_pinned(local, file):
            return local
        if not file.is_folder or not download.is_file():  # of an archive, an earlier process may have been killed
            _download(file, download)
        if file.is_folder:
            _unpack(file, download)
    return local


def _is_as_pinned(path: Path, file: SourceFile) -> bool:
    """Whether the content is the pinned one, as far as a checksum says; else the commit in its address does."""
    return not file.checksum or digests_of(path).matches(file.checksum)


def _download(file: SourceFile, target: Path) -> None:
    import pooch

    with whole_file(target) as partial:
        try:
            pooch.HTTPDownloader(progressbar=True, timeout=60)(file.url, str(partial), None)
        except Exception as error:
            raise missing([file], None, error) from error
        if not file.is_folder and not _is_as_pinned(partial, file):
            raise CorruptSource(f"{_corrupt(file)} It was not kept.")


def _unpack(file: SourceFile, archive: Path) -> None:
    """Keep a folder of a commit's archive, and with it all others that are listed: each as a whole, if the names and blob
    ids of its files are those that its git id pins. Of an archive that is cut, those before the cut are kept. Names, sizes
    and kinds of its members are not trusted."""
    commit = file.repository, file.revision
    folders = {f.path: f for f in (*files(), file) if f.is_folder and (f.repository, f.revision) == commit}
    with TemporaryDirectory(dir=archive.parent) as temporary:
        unpacked = {path: Path(temporary, str(number)) for number, path in enumerate(folders)}
        try:
            with gzip.open(archive) as stream, tarfile.open(fileobj=_Limited(stream), mode="r|") as tar:  # type: ignore[call-overload]
                for member in tar:
                    top, _, path = member.name.partition("/")
                    folder, slash, name = path.rpartition("/")
                    place = unpacked.get(folder + slash) if member.isreg() and member.size <= LARGEST_MEMBER else None
                    if place and _PLAIN_NAME.fullmatch(top) and _PLAIN_NAME.fullmatch(name):
                        place.mkdir(exist_ok=True)
                        content = tar.extractfile(member)
                        (place / name).write_bytes(content.read() if content else b"")
        except (EOFError, OSError, zlib.error, tarfile.TarError, ValueError) as error:
            why = f"is cut or damaged ({error}); it came from {file.url}; fetch it again"
            raise CorruptSource(f"{archive} {why}") from error
        finally:
            archive.unlink()
            whole = [p for p, f in unpacked.items() if f.is_dir() and digests_of(f).matches(folders[p].checksum)]
            for path in whole:
                local = _github_cache(folders[path])
                shutil.rmtree(local, ignore_errors=True)  # it may be there, damaged
                local.parent.mkdir(parents=True, exist_ok=True)
                unpacked[path].rename(local)
        if file.path not in whole:
            raise CorruptSource(f"{_corrupt(file)} It was not kept.")


class _Limited:
    """A readable stream of limited length: kilobytes of gzip can unpack to terabytes, and tarfile reads a header whole,
    however long it is."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self.stream, self.total = stream, 0

    def read(self, size: int) -> bytes:
        block = self.stream.read(size)
        self.total += len(block)
        if self.total > LARGEST_ARCHIVE:
            raise ValueError(f"it unpacks to more than {LARGEST_ARCHIVE >> 20} MB, as no public archive does")
        return block


def fetch_into(file: SourceFile, folder: Path) -> Path:
    """Download a file into a mirror folder (atomically); an existing copy is kept. A CorruptSource where either does not
    have the pinned checksum or, where none is known, cannot be read in the format of its suffix."""
    target = folder / file.mirror_path
    source = target if target.exists() else fetch(file)
    if not _is_as_pinned(source, file):
        raise CorruptSource(f"{target} is there, but is not the public file ({file.checksum}); move it away first")
    try:
        if not file.checksum:
            check_readable(source)
    except CorruptSource as error:
        raise CorruptSource(
            f"{file} from {file.url} is not what it should be: {error}. A proxy or a login page may have answered in its "
            f"place; delete {source} and try again."
        ) from error
    if source != target:
        with whole_file(target) as partial:
            (shutil.copytree if file.is_folder else shutil.copyfile)(source, partial)
    return target


def fetch_command(files: Sequence[SourceFile], folder: Path | str | None = None) -> str:
    """The command that downloads some files, into a mirror folder or the caches."""
    words = [(name, shell_word(name)) for name in (f"{file.repository}/{file.path}" for file in files)]
    named = " ".join(f"'{name}'" if word == name else word for name, word in words)  # always quoted
    return f"lm-eval-grounded sources --fetch {named}" + (f" --into {shell_word(str(folder))}" if folder else "")


def missing(files: Sequence[SourceFile], folder: Path | None, why: object = "HF_HUB_OFFLINE is set") -> MissingSource:
    """The error for files that a mirror lacks, or without one for those that could not be downloaded: with the command that
    fetches them all."""
    names = ", ".join(f"{file.repository}/{file.path}" for file in files)
    those, them = (f"{files[0]} is", "it") if len(files) == 1 else (f"{len(files)} public files ({names}) are", "them")
    error = MissingSource(
        f"{those} not in the mirror {folder.resolve()}. On a machine with internet, `{fetch_command(files, folder)}` puts "
        f"{them} there."
        if folder
        else f"{those} not here and could not be downloaded: {why}. No mirror is set ({MIRROR_VARIABLE} or --metadata "
        f'\'{{"mirror": "DIR"}}\'). With internet, `{fetch_command(files)}` fetches {them}; for a cluster without, '
        f"`{fetch_command(files, 'DIR')}` puts {them} into a folder to copy there."
    )
    error.files = files
    return error


def _corrupt(file: SourceFile) -> str:
    return (
        f"{file} from {file.url} does not have the pinned checksum {file.checksum}: it has changed upstream or was "
        f"damaged on the way."
    )
