"""The public files that a task needs, known before any is read. So one message names all that are missing."""

from __future__ import annotations

from typing import Any

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data import sources
from lm_eval_tasks.definition.loading import Options, TaskLoader

__all__ = ["missing", "needed", "require"]


def needed(loader: Any, options: Options) -> list[sources.SourceFile]:
    """The files that a task's loader cannot do without, in the order in which it reads them.

    Args:
        loader: the task's ``custom_dataset``.
        options: what it is given: the task's metadata and ``dataset_kwargs``.

    Returns:
        None for a loader of another package, for documents of earlier samples, and for options that the loader refuses.
    """
    if not isinstance(loader, TaskLoader) or options.get("samples") is not None:
        return []
    try:
        return [sources.find(*place) for place in loader.files(options)]
    except (KeyError, TypeError, UsageError):  # no such language or split: the loader says so
        return []


def missing(files: list[sources.SourceFile], mirror: str | None = None) -> list[sources.SourceFile]:
    """The files that are missing: from the mirror, or from the caches where there is no mirror.

    Raises:
        MissingSource: the mirror does not exist.
    """
    folder = sources.mirror_folder(mirror)
    return [file for file in files if sources.local_copy(file, folder) is None]


def require(loader: Any, options: Options) -> None:
    """Refuse a task that lacks files which nothing will download: those of a mirror, or offline.

    Args:
        loader, options: see :func:`needed`.

    Raises:
        MissingSource: which they are, with the one command that fetches them all.
    """
    mirror = options.get("mirror")
    files = needed(loader, options) if mirror is None or isinstance(mirror, str) else []
    if not files or (sources.mirror_folder(mirror) is None and not sources.is_offline()):
        return
    lacking = missing(files, mirror)
    if len(lacking) == 1:
        try:
            sources.locate(lacking[0].repository, lacking[0].path, mirror)
        except sources.MissingSource as error:
            error.files = lacking
            raise
    elif lacking:
        several = sources.MissingSource(_said(lacking, mirror))
        several.files = lacking
        raise several


def _said(lacking: list[sources.SourceFile], mirror: str | None) -> str:
    folder = sources.mirror_folder(mirror)
    names = ", ".join(f"{file.repository}/{file.path}" for file in lacking)
    command = sources.fetch_command(lacking, folder)
    if folder:
        return (
            f"{len(lacking)} public files are not in the mirror {folder.resolve()}: {names}. On a machine with internet, "
            f"`{command}` puts them there."
        )
    return (
        f"{len(lacking)} public files are not here and may not be downloaded (HF_HUB_OFFLINE is set): {names}. No mirror "
        f"is set ({sources.MIRROR_VARIABLE} or --metadata mirror=DIR). With internet, `{command}` fetches them."
    )
