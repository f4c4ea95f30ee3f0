"""What tables of benchmarks become: YAML files, and loaders of documents, which are here, with the checks of their options.

A loader calls a benchmark's ``load`` with the options of a task's YAML and of the user. It lists the public files that it
needs before it reads any. So one error names all missing files.
"""

from __future__ import annotations

import inspect
import json
import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from custom_metrics.usage.options import assignments, misspelt
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data import provenance, sources
from lm_eval_tasks.definition.schema import OF_DETECTION as OF_DETECTION

if TYPE_CHECKING:
    from datasets import Dataset

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

Documents = dict[str, "Dataset"]  # what ``load`` of a benchmark returns: under ``evaluation`` the documents
Options = Mapping[str, Any]
Places = Iterable[tuple[str, str]]  # public files: repository and path


class TaskLoader:
    """A benchmark's ``load`` as the harness's ``custom_dataset``.

    The harness passes the task's ``dataset_kwargs``, the user's ``--metadata`` and the model's arguments, all as keywords.
    It fails where two of them have one name. So a YAML writes ``task_language`` for ``language``, which wins over a model
    argument named ``language``. The folder of ``load`` may hold a table of public files (``source_files.tsv``).

    `load` raises a UsageError for an unknown value and where no document is left, a MissingSource for a file that cannot be
    found (option `mirror`: a folder with copies, :mod:`lm_eval_tasks.data.sources`), and a CorruptSource for a damaged one.

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
        load: Callable[..., Documents],
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
        self.user_options = (
            *(name for name in self._parameters if name not in set(of_task)),
            *more,
        )  # of ``--metadata``
        self.folder = Path(inspect.getfile(load)).parent  # of the benchmark
        sources.add_table(self.folder)

    def options(self, given: Options) -> dict[str, Any]:
        of_yaml = {f"task_{name}": name for name in self._parameters}
        of_task = {of_yaml[key]: value for key, value in given.items() if key in of_yaml and value is not None}
        return {**{key: value for key, value in given.items() if key not in of_yaml}, **of_task}

    def files(self, given: Options) -> list[tuple[str, str]]:
        return list(self._files(self.options(given)))

    def check(self, task: str, ignored: Options, **chosen: tuple[Any, Collection[str]]) -> None:
        """Raise a UsageError unless each option has one of its allowed values (`chosen`: the value, and these), and none of
        the `ignored` options looks like one of the loader's."""
        for name, (value, allowed) in chosen.items():
            choice(name, value, allowed, task)
        refuse_misspelt(ignored, self.user_options, task)

    def __call__(self, **given: Any) -> Documents:
        return self.load(**self.options(given))

    def __repr__(self) -> str:  # in results files: the harness logs the configuration
        # For a file beside a YAML, the harness makes its whole path the module's name.
        return f"{Path(self.load.__module__).name}.{self.load.__qualname__}"


def in_turn(parts: Iterable[Iterable[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The documents of several parts in turn, so that ``--limit`` sees all of them."""
    return [document for turn in zip_longest(*parts) for document in turn if document is not None]


def documents(
    task: str,
    rows: list[dict[str, Any]],
    read: Sequence[sources.Located],
    counted: str,
    left_out: Mapping[str, int],
    **record: Any,
) -> Documents:
    """What `load` returns of some rows, with the record of the files that were read (:meth:`provenance.Record.from_files`;
    `record` are its other arguments). The log says how many there are (`counted`), and what was left out; a CorruptSource
    where there are none."""
    reasons = ", ".join(f"{reason}: {number}" for reason, number in left_out.items() if number) or "nothing is left out"
    log.info("%s: %s of %s (%s)", task, counted, read[0].path, reasons)
    if not rows:
        raise sources.CorruptSource(f"{read[0].path} has no document of {task} ({reasons})")
    made = provenance.Record.from_files(read, left_out=left_out, **record)
    return {"evaluation": provenance.documents_of(rows, made)}


def needed_files(loader: Any, options: Options) -> list[sources.SourceFile]:
    """The files that a task's loader requires, in the order in which it reads them: none for a loader of another
    package, for documents of earlier samples, and for options that `load` refuses."""
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


# ------------------------------------------------------------------------------------------------ options of ``--metadata``
#
# The harness merges them with the model's arguments before a task sees them.

CUT_PROMPTS = "cut_prompts"
ALLOW = "allow"
"""The key, and its value, that let a run with cut prompts go on (:mod:`lm_eval_tasks.harness.context_window`)."""

_OF_ANY_TASK = (*OF_DETECTION, "retriever", CUT_PROMPTS)
"""Options that are known where the task has none of them, too: several tasks of one run have one ``--metadata``."""

# Real arguments of the harness's models, and keys of other tasks, within one edit of one of ours.
_NOT_OURS = frozenset({"sampler"})


def refuse_misspelt(ignored: Mapping[str, Any], known: Collection[str], task: str) -> None:
    """Refuse unknown keys that look like one of a task's options (`known`), or of any task's (see
    :func:`custom_metrics.usage.options.misspelt`), by a UsageError that suggests the option; and a detector that does not
    exist, where the task has none. All others belong to the model or to other tasks, and are ignored."""
    ours = {*known, *_OF_ANY_TASK}
    for key in sorted(ignored.keys() - _NOT_OURS - ours, key=str):
        near = misspelt(str(key), sorted(ours))
        if near:
            raise UsageError(f"{task}: --metadata key {key!r} is not known; did you mean {near!r}?")
    name = None if "detector" in known else ignored.get("detector")
    if isinstance(name, str):
        from detector_plugin.loading import check_name

        try:
            check_name(name)
        except UsageError as error:
            raise UsageError(f"{task}: --metadata {error}") from None


def choice(name: str, value: Any, allowed: Collection[str], task: str) -> str:
    """A value that must be one of `allowed`; otherwise a ``UsageError`` lists them."""
    if value not in allowed:
        raise UsageError(f"{task}: unknown {name} {value!r}; known are {', '.join(sorted(allowed))}")
    return str(value)


def flag(name: str, value: Any, task: str) -> bool:
    """A value that must be a bool; otherwise a ``UsageError``."""
    if not isinstance(value, bool):
        raise UsageError(f"{task}: {name} must be true or false, got {value!r}")
    return value


def positive(name: str, value: Any, task: str) -> int:
    """A value that must be an int of at least 1; otherwise a ``UsageError``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{task}: {name} must be a whole number of at least 1, got {value!r}")
    return value


def pairs(name: str, value: Any, task: str) -> dict[str, Any]:
    """Parse options of a detector or retriever: a mapping, JSON, or ``name=value;name=value``; otherwise a
    ``UsageError``."""
    if not value or isinstance(value, Mapping):
        return dict(value or {})
    try:
        if value.lstrip().startswith("{"):
            return dict(json.loads(value))
        parts = [part for part in re.split("[;,]", value) if part.strip()]
        if all("=" in part for part in parts):
            return assignments(",".join(parts))
    except (AttributeError, TypeError, ValueError):
        pass
    raise UsageError(f"{task}: {name} must be JSON or name=value;name=value, got {value!r}")
