"""Public files from their own hosts, the Hugging Face hub and GitHub, and the caches of earlier downloads."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from custom_metrics.usage.printable import shell_word
from lm_eval_tasks.data.atomic import cache_folder, whole_file
from lm_eval_tasks.data.digests import has_checksum
from lm_eval_tasks.data.source_files import CorruptSource, MissingSource, SourceFile

__all__ = ["MIRROR_VARIABLE", "downloaded", "fetch", "fetch_command", "is_offline"]

MIRROR_VARIABLE = "LM_EVAL_GROUNDED_MIRROR"

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own


def fetch(file: SourceFile) -> Path:
    """A file from its own host or from the cache of earlier downloads, whatever mirror is set."""
    return _from_github(file) if file.host == "github" else _from_hub(file)


def _from_hub(file: SourceFile) -> Path:
    from huggingface_hub import hf_hub_download

    try:
        local = Path(
            hf_hub_download(
                file.repository,
                file.path,
                repo_type="dataset",
                revision=file.revision,
            )
        )
    except Exception as error:  # the hub raises a dozen kinds: offline, timeout, gone, no such file, no space
        raise _missing(file, "the Hugging Face cache", error) from error
    if file.checksum and not has_checksum(local, file.checksum):
        raise CorruptSource(
            f"{_corrupt(file)} It lies in {local}; delete it there to fetch it again, or, to use it all the same, put it "
            f"into a mirror folder as {file.mirror_path} and set {MIRROR_VARIABLE}."
        )
    return local


def _from_github(file: SourceFile) -> Path:
    from filelock import FileLock

    local = _github_cache(file)
    if local.is_file():
        if has_checksum(local, file.checksum):
            return local
        log.warning("%s is damaged (not %s); it is fetched again", local, file.checksum)
    if is_offline():
        raise _missing(file, str(local.parent), "HF_HUB_OFFLINE is set")
    local.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(str(local) + ".lock"):
        if local.is_file() and has_checksum(local, file.checksum):
            return local
        import pooch

        try:
            with whole_file(local) as partial:
                pooch.HTTPDownloader(progressbar=True, timeout=60)(file.url, str(partial), None)
                if not has_checksum(partial, file.checksum):
                    raise CorruptSource(f"{_corrupt(file)} It was not kept.")
        except CorruptSource:
            raise
        except Exception as error:
            raise _missing(file, str(local.parent), error) from error
    return local


def _github_cache(file: SourceFile) -> Path:
    return cache_folder() / "github" / file.repository / file.revision / file.path


def downloaded(file: SourceFile) -> Path | None:
    """The path of an earlier download of a file; ``None`` where there is none."""
    if file.host == "github":
        local = _github_cache(file)
        return local if local.is_file() else None
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(file.repository, file.path, repo_type="dataset", revision=file.revision)
    return Path(found) if isinstance(found, str) else None


def fetch_command(missing: Sequence[SourceFile], folder: Path | None = None) -> str:
    """The one command that downloads some files, into a mirror folder or the caches."""
    named = " ".join(_quoted(f"{file.repository}/{file.path}") for file in missing)
    into = f" --into {shell_word(str(folder))}" if folder else ""
    return f"lm-eval-grounded sources --fetch {named}{into}"


def _quoted(name: str) -> str:
    """A word of a shell, in quotes also where it needs none: names look alike so."""
    word = shell_word(name)
    return f"'{word}'" if word == name else word


def is_offline() -> bool:
    """Whether the user has forbidden downloads (`HF_HUB_OFFLINE`)."""
    return os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in {"1", "ON", "YES", "TRUE"}


def _missing(file: SourceFile, looked: str, why: object) -> MissingSource:
    return MissingSource(
        f"{file} is not here and could not be downloaded: {why}. No mirror is set ({MIRROR_VARIABLE} or "
        f"--metadata mirror=DIR); looked in {looked}. With internet, `{fetch_command([file])}` fetches it; for a cluster "
        f"without, `{fetch_command([file], Path('DIR'))}` puts it into a folder to copy there."
    )


def _corrupt(file: SourceFile) -> str:
    return (
        f"{file} from {file.url} does not have the pinned checksum {file.checksum}: it has changed upstream or was "
        f"damaged on the way."
    )
