"""Loaders of documents: they call a benchmark's ``load`` with the options of a task's YAML and of the user.

A loader lists the public files that it needs before it reads any. So one error names all missing files.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from itertools import zip_longest
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

    Of an option with an unknown value `load` raises a UsageError, and so it does where no document is left. The option
    `mirror` is a folder with copies of the public files (:mod:`lm_eval_tasks.data.sources`). One that cannot be found is a
    MissingSource, a damaged one a CorruptSource.

    Args:
        load: returns ``{"evaluation": documents}``. Its parameters are the options. It ignores other keywords.
        files: from the options to the public files that `load` requires, in the order in which it reads them. May raise
            ``KeyError`` and ``TypeError`` for options that `load` refuses.
        of_task: parameters that only a task's YAML sets.
        more: options of `load` that are not among its parameters.
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
        parameters = inspect.signature(load).parameters.values()
        self._parameters = [p.name for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD]
        self.user_options = (*(name for name in self._parameters if name not in set(of_task)), *more)
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
        """The public files that `load` requires with these options."""
        return list(self._files(self.options(given)))

    def __call__(self, **given: Any) -> dict[str, Dataset]:
        return self.load(**self.options(given))

    def __repr__(self) -> str:  # in results files: the harness logs the configuration
        # For a file beside a YAML, the harness makes its whole path the module's name.
        return f"{Path(self.load.__module__).name}.{self.load.__qualname__}"


def in_turn(parts: Iterable[Iterable[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The documents of several parts in turn, so that ``--limit`` sees all of them."""
    return [document for turn in zip_longest(*parts) for document in turn if document is not None]


def needed_files(loader: Any, options: Options) -> list[sources.SourceFile]:
    """The files that a task's loader requires, in the order in which it reads them.

    Returns:
        No file for a loader of another package, for documents of earlier samples, and for options that `load` refuses.
    """
    if not isinstance(loader, TaskLoader) or options.get("samples") is not None:
        return []
    try:
        return [sources.source_file(*place) for place in loader.files(options)]
    except (KeyError, TypeError, UsageError):  # no such language or split: `load` raises the error
        return []


def require_files(loader: Any, options: Options) -> None:
    """Refuse a task that lacks required files (:func:`needed_files`), with a mirror or offline, where none is
    downloaded: a MissingSource has their names and the command that fetches them all."""
    mirror = options.get("mirror")
    files = needed_files(loader, options) if mirror is None or isinstance(mirror, str) else []
    if not files:
        return
    folder = sources.mirror_folder(mirror)
    if folder is None and not sources.is_offline():
        return
    absent = [file for file in files if sources.local_copy(file, folder) is None]
    if absent:
        raise sources.missing(absent, folder)
