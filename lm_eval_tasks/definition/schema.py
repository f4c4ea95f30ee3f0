"""A benchmark as one table: its tasks, what they share, and what they measure.

The folder of a benchmark holds a ``benchmark.py`` whose ``BENCHMARK`` is such a table.
:mod:`lm_eval_tasks.definition.catalogue` finds it, and :mod:`lm_eval_tasks.definition.generated` writes the folder's
YAML files from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["DEFINED_MEAN", "DEFINED_SHARE", "Base", "Benchmark", "Group", "Metric", "Step", "Task"]

DEFINED_MEAN, DEFINED_SHARE = "defined_mean", "defined_share"
"""Aggregations that the harness knows by name: the mean, or the share, of the documents in the denominator."""

Step = str | Mapping[str, str]
"""A step of a filter: the name of its function, or a mapping of ``function`` and its arguments."""


@dataclass(frozen=True)
class Metric:
    """A row of the harness's table.

    Attributes:
        name: of the metric.
        aggregation: its name, or where it is (``package.module.name``).
        higher_is_better: ``None`` where neither is better: the harness's table then has no arrow.
        denominator: the documents that count, in words, for ``figures`` in the results file.
    """

    name: str
    aggregation: str
    higher_is_better: bool | None
    denominator: str


@dataclass(frozen=True)
class Base:
    """The settings that some tasks share: a file that their YAML files include.

    Functions and classes are named by place: ``package.module.name``, or ``module.name`` of a file of the folder.

    Attributes:
        file: its name.
        says: what the tasks ask, a comment on top of the file.
        task: a subclass of :class:`lm_eval_tasks.harness.task.GroundedTask`, or that class.
        documents: the task's ``custom_dataset``, a :class:`lm_eval_tasks.definition.loading.TaskLoader`.
        dataset_path: the public data set's name on the hub.
        filters: name to steps; every metric is computed once for each.
        process_results: the function from a document and a filtered answer to the values of the metrics.
        metrics: in the order of the harness's table.
        include: hand-written YAML files, beside this one, with settings that it shares with users' own tasks.
        prompt: further settings of the harness: ``doc_to_text``, ``generation_kwargs`` and so on.
    """

    file: str
    says: str
    task: str
    documents: str
    dataset_path: str
    filters: Mapping[str, tuple[Step, ...]]
    process_results: str
    metrics: tuple[Metric, ...]
    include: tuple[str, ...] = ()
    prompt: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes:
        name: as users type it.
        base: what it shares with others.
        options: arguments of the loader of its documents. They win over model arguments of the same name.
        folder: of its YAML file, below the benchmark's; empty for that folder itself.
        include: the files that it includes, later ones overriding earlier ones; default the base alone.
    """

    name: str
    base: Base
    options: Mapping[str, str]
    folder: str = ""
    include: tuple[str, ...] = ()


@dataclass(frozen=True)
class Group:
    """Tasks of one base, and the averages of their metrics, in which each task counts the same.

    Attributes:
        name: as users type it.
        tasks: in the order of the harness's table.
        folder: of its YAML file, below the benchmark's.
    """

    name: str
    tasks: tuple[Task, ...]
    folder: str = ""


@dataclass(frozen=True)
class Benchmark:
    """All tasks of a benchmark.

    Attributes:
        version: of its tasks and groups, in results files. It rises where scores can differ.
        tasks, groups: what the YAML files are written from.
        languages: code to English name, of those that the tasks are in.
    """

    version: float
    tasks: tuple[Task, ...]
    groups: tuple[Group, ...] = ()
    languages: Mapping[str, str] = field(default_factory=dict)

    @property
    def bases(self) -> tuple[Base, ...]:
        """The bases of the tasks, each once."""
        found = {task.base.file: task.base for task in self.tasks}
        return tuple(found.values())
