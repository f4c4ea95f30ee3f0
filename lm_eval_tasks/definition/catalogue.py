"""The benchmarks of this package: its folders that hold a ``benchmark.py``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.definition.schema import Base, Benchmark

__all__ = ["TABLE", "base_of", "benchmark_of", "benchmarks", "folders", "groups", "languages"]

TABLE = "benchmark.py"
_HERE = Path(__file__).parents[1]


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
    if folder.parent == _HERE.resolve():
        table = import_module(f"lm_eval_tasks.{folder.name}.benchmark")
    else:
        spec = spec_from_file_location(f"{folder.name}_benchmark", path)
        assert spec is not None
        assert spec.loader is not None
        table = module_from_spec(spec)
        spec.loader.exec_module(table)
    found = getattr(table, "BENCHMARK", None)
    if not isinstance(found, Benchmark):
        raise UsageError(f"{path} has no BENCHMARK, which is an lm_eval_tasks.definition.schema.Benchmark")
    return found


@lru_cache(maxsize=1)
def benchmarks() -> tuple[Benchmark, ...]:
    """The table of every benchmark of this package."""
    return tuple(map(benchmark_of, folders()))


@lru_cache(maxsize=1)
def _bases() -> dict[str, Base]:
    return {task.name: task.base for benchmark in benchmarks() for task in benchmark.tasks}


def base_of(task: str) -> Base | None:
    """The base of a task; ``None`` for a task that is in no table."""
    return _bases().get(task)


@lru_cache(maxsize=1)
def groups() -> dict[str, tuple[str, ...]]:
    """Every group and the names of its tasks."""
    return {group.name: tuple(task.name for task in group.tasks) for found in benchmarks() for group in found.groups}


def languages() -> Iterator[tuple[str, str]]:
    """Code and English name of every language of every benchmark. A language of several benchmarks comes several times."""
    for benchmark in benchmarks():
        yield from benchmark.languages.items()
