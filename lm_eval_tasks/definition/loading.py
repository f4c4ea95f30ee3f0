"""Loaders of documents: options of a task's YAML and of the user become a call of the benchmark's ``load``.

A loader lists the public files that it needs before it reads any. So one error names all that are missing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data import sources

if TYPE_CHECKING:
    from datasets import Dataset

Options = Mapping[str, Any]
Places = Iterable[tuple[str, str]]
"""Public files: repository and path."""


class TaskLoader:
    """A benchmark's ``load`` as the harness's ``custom_dataset``.

    The harness passes the task's ``dataset_kwargs``, the user's ``--metadata`` and the model's arguments, all as keywords.
    It fails where two of them have one name. So a YAML writes ``task_language`` for ``language``, which wins over a model
    argument named ``language``.

    The folder of ``load`` may hold a table of public files (``source_files.tsv``), which
    :mod:`lm_eval_tasks.data.sources` then knows.

    Args:
        load: returns ``{"evaluation": documents}``. Its parameters are the options. It ignores other keywords.
        files: from the options to the public files that `load` cannot do without, in the order in which it reads them. May
            raise ``KeyError`` and ``TypeError`` for options that `load` refuses.
        of_task: parameters that a task's YAML decides, and no user.
        more: options that `load` takes beside its parameters.
        logged_elsewhere: columns that are left out of samples, because the prompt or another field has their text.
    """

    def __init__(
        self,
        load: Callable[..., dict[str, Dataset]],
        files: Callable[[Options], Places],
        of_task: Iterable[str] = (),
        more: Iterable[str] = (),
        logged_elsewhere: Iterable[str] = (),
    ) -> None:
        self.load = load
        self._files = files
        self.logged_elsewhere = tuple(logged_elsewhere)
        named = inspect.signature(load).parameters.values()
        self._parameters = [each.name for each in named if each.kind is not inspect.Parameter.VAR_KEYWORD]
        self.known = (*(name for name in self._parameters if name not in set(of_task)), *more)
        """The options that a user may give with ``--metadata``."""
        self.folder = Path(inspect.getfile(load)).parent
        """The folder of the benchmark."""
        sources.add_table(self.folder)

    def options(self, given: Options) -> dict[str, Any]:
        """The arguments for `load`."""
        of_yaml = {f"task_{name}": name for name in self._parameters}
        of_task = {of_yaml[key]: value for key, value in given.items() if key in of_yaml and value is not None}
        return {**{key: value for key, value in given.items() if key not in of_yaml}, **of_task}

    def files(self, given: Options) -> list[tuple[str, str]]:
        """The public files that are read; see the argument of this name."""
        return list(self._files(self.options(given)))

    def __call__(self, **given: Any) -> dict[str, Dataset]:
        """The documents."""
        return self.load(**self.options(given))

    def __repr__(self) -> str:  # stands in results files, as the harness writes down the configuration
        # The harness names the module of a file beside a YAML after its whole path.
        return f"{Path(self.load.__module__).name}.{self.load.__qualname__}"


def needed_files(loader: Any, options: Options) -> list[sources.SourceFile]:
    """The files that a task's loader cannot do without, in the order in which it reads them.

    Returns:
        None for a loader of another package, for documents of earlier samples, and for options that the loader refuses.
    """
    if not isinstance(loader, TaskLoader) or options.get("samples") is not None:
        return []
    try:
        return [sources.source_file(*place) for place in loader.files(options)]
    except (KeyError, TypeError, UsageError):  # no such language or split: the loader says so
        return []


def require_files(loader: Any, options: Options) -> None:
    """Refuse a task that lacks files (:func:`needed_files`) which nothing will download: those of a mirror, or offline.

    Raises:
        MissingSource: which they are, with the one command that fetches them all.
    """
    mirror = options.get("mirror")
    files = needed_files(loader, options) if mirror is None or isinstance(mirror, str) else []
    if not files:
        return
    folder = sources.mirror_folder(mirror)
    if folder is None and not sources.is_offline():
        return
    lacking = [file for file in files if sources.local_copy(file, folder) is None]
    if not lacking:
        return
    try:
        if len(lacking) == 1:
            sources.locate(lacking[0].repository, lacking[0].path, mirror)
        names = ", ".join(f"{file.repository}/{file.path}" for file in lacking)
        command = sources.fetch_command(lacking, folder)
        raise sources.MissingSource(
            f"{len(lacking)} public files are not in the mirror {folder.resolve()}: {names}. On a machine with internet, "
            f"`{command}` puts them there."
            if folder
            else f"{len(lacking)} public files are not here and may not be downloaded (HF_HUB_OFFLINE is set): {names}. No "
            f"mirror is set ({sources.MIRROR_VARIABLE} or --metadata mirror=DIR). With internet, `{command}` fetches them."
        )
    except sources.MissingSource as error:
        error.files = lacking
        raise
