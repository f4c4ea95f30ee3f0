"""The benchmarks of this package: its folders that hold a ``benchmark.py``."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.definition.schema import Base, Benchmark, Metric, Task

TABLE = "benchmark.py"
_HERE = Path(__file__).resolve().parents[1]


def folders() -> list[Path]:
    """The folder of every benchmark, by name."""
    return sorted(path.parent for path in _HERE.glob(f"*/{TABLE}"))


def benchmark_of(folder: Path) -> Benchmark:
    """The table of a folder, in this package or elsewhere.

    Raises:
        UsageError: there is none.
    """
    folder = folder.resolve()
    path = folder / TABLE
    if not path.is_file():
        raise UsageError(f"{folder} holds no {TABLE}, the table of a benchmark's tasks")
    if folder.parent == _HERE:
        table = import_module(f"lm_eval_tasks.{folder.name}.benchmark")
    else:
        loader = SourceFileLoader(f"{folder.name}_benchmark", str(path))
        table = ModuleType(loader.name)
        loader.exec_module(table)
    found = getattr(table, "BENCHMARK", None)
    if not isinstance(found, Benchmark):
        raise UsageError(f"{path} has no BENCHMARK, which is an lm_eval_tasks.definition.schema.Benchmark")
    return found


@lru_cache(maxsize=1)
def tables() -> dict[str, Benchmark]:
    """Folder to table, of every benchmark of this package."""
    return {folder.name: benchmark_of(folder) for folder in folders()}


def table_elsewhere(folder: Path) -> tuple[str, Benchmark] | None:
    """Name and table of a folder outside of this package; ``None`` for one of ours, and for one without a table."""
    folder = folder.resolve()
    if _HERE in folder.parents or not (folder / TABLE).is_file():
        return None
    return folder.name, benchmark_of(folder)


def metric_of(name: str, table: Benchmark | None = None) -> Metric:
    """What a reader needs to know of a metric, by its name in a results file. Its benchmark's table is asked first, then
    every other of this package.

    Returns:
        The entry of that name, or of a name that ends in ``_`` and begins so. A finer figure, such as ``rougeL_missed`` or
        ``ndcg@3``, has the unit of its metric. Where no table knows the name: a share without a sentence.
    """
    known = {**_all_metrics(), **table.metrics} if table else _all_metrics()
    if name in known:
        return known[name]
    starts = [start for start in known if start.endswith("_") and name.startswith(start)]
    if starts:
        return replace(known[starts[0]], name=name, rest=name.removeprefix(starts[0]))
    stem = name.partition("@")[0]
    units = (metric.unit for other, metric in known.items() if f"{stem}_".startswith(f"{other.partition('@')[0]}_"))
    return Metric(name, unit=next(units, "share"))


@lru_cache(maxsize=1)
def _all_metrics() -> dict[str, Metric]:
    return {name: metric for table in reversed(tables().values()) for name, metric in table.metrics.items()}


@lru_cache(maxsize=1)
def _tasks() -> dict[str, tuple[str, Task]]:
    return {task.name: (folder, task) for folder, benchmark in tables().items() for task in benchmark.tasks}


def task_named(name: str) -> tuple[str, Task] | None:
    """A task and the folder of its benchmark; ``None`` for one that is in no table."""
    return _tasks().get(name)


def base_of(task: str) -> Base | None:
    """The base of a task; ``None`` for a task that is in no table."""
    listed = task_named(task)
    return listed[1].base if listed else None


@lru_cache(maxsize=1)
def groups() -> dict[str, tuple[str, ...]]:
    """Every group and the names of its tasks."""
    return {
        group.name: tuple(task.name for task in group.tasks) for found in tables().values() for group in found.groups
    }


@lru_cache(maxsize=1)
def languages() -> dict[str, str]:
    """Code to English name of every language of every benchmark."""
    return {code: name for benchmark in tables().values() for code, name in benchmark.languages.items()}
