"""Generate a benchmark's YAML files from its table: ``python -m tests.development.generated [FOLDER ...]``.

Without a folder, it writes those of every benchmark of this package. A test compares the files on disk with the tables. A
folder may lie outside of the package: the harness then finds its tasks with ``--include_path FOLDER``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.definition.schema import Base, Benchmark, Group, Metric, Task

_HEAD = "Written by tests.development.generated from benchmark.py."


def contents(benchmark: Benchmark) -> dict[str, str]:
    """Path (below the benchmark's folder) to content, of every YAML file."""
    files = {base.file: _base(base, benchmark.version) for base in benchmark.bases}
    for group in benchmark.groups:
        files[f"{group.folder}/_{group.name}.yaml".lstrip("/")] = _group(group, benchmark.version)
    for task in benchmark.tasks:
        files[f"{task.folder}/{task.name}.yaml".lstrip("/")] = _task(task)
    return files


def _base(base: Base, version: float) -> str:
    header = "".join(f"# {line}\n" for line in (_HEAD, *base.comment.splitlines()))
    return header + _dumped(
        {
            **({"include": list(base.include)} if base.include else {}),
            "class": _Function(base.task),
            "custom_dataset": _Function(base.documents),
            "dataset_path": base.dataset_path,
            "test_split": "evaluation",
            "output_type": "generate_until",
            **base.prompt,
            "filter_list": [
                {"name": name, "filter": [{"function": of} if isinstance(of, str) else dict(of) for of in steps]}
                for name, steps in base.filters.items()
            ],
            "process_results": _Function(base.process_results),
            "metric_list": [_metric(metric) for metric in base.metrics],
            "metadata": {"version": version},
        }
    )


def _metric(metric: Metric) -> dict[str, Any]:
    name = metric.aggregation
    return metric.entry(_Function(name) if "." in name else name)


def _group(group: Group, version: float) -> str:
    averages = [
        _InALine(metric=metric.name, aggregation="mean", weight_by_size=False, filter_list=list(base.filters))
        for base in group.averaged
        for metric in base.metrics
    ]
    return _dumped(
        {
            "group": group.name,
            "task": _Names(task.name for task in group.tasks),
            **({"aggregate_metric_list": averages} if averages else {}),
            "metadata": _InALine(version=version),
        },
        width=110,
    )


def _task(task: Task) -> str:
    above = "../" if task.folder else ""
    included = [f"{above}{name}" for name in task.include or (task.base.file,)]
    return _dumped(
        {
            "include": included if len(included) > 1 else included[0],
            "task": task.name,
            "dataset_kwargs": _InALine({f"task_{name}": _Quoted(value) for name, value in task.options.items()}),
        }
    )


_FUNCTION = "!function"


class _Function(str):
    """The dotted name of a function or class, for the harness to import."""


class _Quoted(str):
    """A string that is always quoted: ``no`` is Norwegian, not false."""


class _InALine(dict[str, Any]):
    """A mapping that is written on one line."""


class _Names(list[str]):
    """A list of names that is written on as few lines as it takes."""


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def choose_scalar_style(self) -> str:
        """Unquoted for ``!function package.module.name``, as in the harness's own files."""
        style: str = "" if getattr(self.event, "tag", None) == _FUNCTION else super().choose_scalar_style()
        return style


_IN_A_LINE = 60
"""Number of characters up to which a list of strings is written on one line."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text.strip() else '"' if text != text.strip() or not text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


def _list(dumper: yaml.SafeDumper, values: list[Any]) -> yaml.Node:
    short = all(isinstance(value, str) for value in values) and sum(map(len, values)) < _IN_A_LINE
    return dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=short)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)
_Dumper.add_representer(
    _InALine, lambda dumper, fields: dumper.represent_mapping("tag:yaml.org,2002:map", fields.items(), flow_style=True)
)
_Dumper.add_representer(
    _Names, lambda dumper, names: dumper.represent_sequence("tag:yaml.org,2002:seq", names, flow_style=True)
)
_Dumper.add_representer(_Function, lambda dumper, where: dumper.represent_scalar(_FUNCTION, str(where)))
_Dumper.add_representer(_Quoted, lambda to, text: to.represent_scalar("tag:yaml.org,2002:str", str(text), style='"'))


def _dumped(content: dict[str, Any], width: int = sys.maxsize) -> str:
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=width)


def main(arguments: list[str]) -> None:
    """Write the files of the named folders, or of every benchmark of this package."""
    for folder in [Path(name) for name in arguments] or catalogue.folders():
        files = contents(catalogue.benchmark_of(folder))
        for name, content in files.items():
            target = folder / name
            target.parent.mkdir(exist_ok=True)
            target.write_text(content, "utf-8")
        print(f"{len(files)} files written below {folder}")


if __name__ == "__main__":
    main(sys.argv[1:])
