"""Loaders of documents: options of a task's YAML and of the user become a call of the benchmark's ``load``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_tasks.data import sources

if TYPE_CHECKING:
    from datasets import Dataset

__all__ = ["Options", "Places", "TaskLoader"]

Options = Mapping[str, Any]
Places = Iterable[tuple[str, str]]
"""Public files: repository and path."""

_OF_TASK = "task_"


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
    """

    def __init__(
        self,
        load: Callable[..., dict[str, Dataset]],
        files: Callable[[Options], Places],
        of_task: Iterable[str] = (),
        more: Iterable[str] = (),
    ) -> None:
        self.load = load
        self._files = files
        named = inspect.signature(load).parameters.values()
        self._parameters = [each.name for each in named if each.kind is not inspect.Parameter.VAR_KEYWORD]
        self.known = (*(name for name in self._parameters if name not in set(of_task)), *more)
        """The options that a user may give with ``--metadata``."""
        self.folder = Path(inspect.getfile(load)).parent
        """The folder of the benchmark."""
        sources.know(self.folder)

    def options(self, given: Options) -> dict[str, Any]:
        """The arguments for `load`."""
        said = {f"{_OF_TASK}{name}": name for name in self._parameters}
        of_task = {said[key]: value for key, value in given.items() if key in said and value is not None}
        return {**{key: value for key, value in given.items() if key not in said}, **of_task}

    def files(self, given: Options) -> list[tuple[str, str]]:
        """The public files that are read; see the argument of this name."""
        return list(self._files(self.options(given)))

    def __call__(self, **given: Any) -> dict[str, Dataset]:
        """The documents."""
        return self.load(**self.options(given))

    def __repr__(self) -> str:  # stands in results files, as the harness writes down the configuration
        # The harness names the module of a file beside a YAML after its whole path.
        return f"{Path(self.load.__module__).name}.{self.load.__qualname__}"
