"""Tasks of different names that ask the same documents, such as ``nomiracl_de`` and ``nomiracl_de_role``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from custom_metrics.usage.options import known_instead
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.definition.catalogue import variant_of
from lm_eval_tasks.runs import Run, TaskRun
from lm_eval_tasks.runs.settings import SETTINGS

ACROSS = (*SETTINGS, "model")
"""What runs can be compared across."""

Pairs: TypeAlias = Sequence[tuple[str, str]]
"""Names of tasks, or of groups, that are paired whatever their tables say."""


def check_across(names: Iterable[str]) -> tuple[str, ...]:
    """The settings that a user named, ``all`` for all; a UsageError for an unknown one."""
    plain = dict.fromkeys(name.strip().lower().replace("-", "_") for name in names)
    for name in plain:
        if name not in (*ACROSS, "all"):
            raise UsageError(f"--across {name}: no such setting{known_instead(name, (*ACROSS, 'all'))}")
    return ACROSS if "all" in plain else tuple(plain)


def check_pair(text: str) -> tuple[str, str]:
    """Both names of ``A=B``; else a UsageError."""
    first, equals, second = (part.strip() for part in text.partition("="))
    if not (first and equals and second) or first == second:
        raise UsageError(f"--pair {text}: name two tasks, such as --pair nomiracl_de=my_nomiracl_de")
    return first, second


def pair_tasks(runs: Sequence[Run], across: Collection[str], pairs: Pairs) -> tuple[list[Run], dict[str, str]]:
    """Runs in which tasks that ask the same documents have one name: that of the first of them in the first run.

    A run that has several of these tasks is split into a run for each of their prompts and retrievers. Groups whose tasks
    are paired one by one get a common name, too.

    Args:
        runs: as they were read.
        across: settings in which tasks of a table may differ: their prompts, their retrievers.
        pairs: further tasks.

    Returns:
        The runs, and old names of tasks and groups to new ones.

    Raises:
        UsageError: a name of `pairs` is in no run, or is that of a group of another number of tasks.
    """
    stands_for = {second: first for pair in pairs for first, second in _tasks_of(pair, runs)}
    names: dict[str, str] = {}  # of tasks
    first_name: dict[str, str] = {}
    for name in dict.fromkeys(name for run in runs for name in run.tasks):
        names[name] = first_name.setdefault(_asked(stands_for.get(name, name), across), name)
    split = [part for run in runs for part in _split(run, names, across, stands_for)]
    groups: dict[str, str] = {}
    name_of_group: dict[frozenset[str], str] = {}
    renamed = []
    for run in split:
        of_run = {}
        for group, members in run.groups.items():
            tasks = tuple(names[member] for member in members)
            groups[group] = name_of_group.setdefault(frozenset(tasks), group)
            of_run[groups[group]] = tasks
        renamed.append(replace(run, tasks={names[name]: task for name, task in run.tasks.items()}, groups=of_run))
    return renamed, {**groups, **names}


def hint_at_variants(runs: Sequence[Run], across: Collection[str]) -> str:
    """How to compare tasks of the runs that ask the same documents though their names differ; empty without any, or if
    they are compared."""
    by_asked: dict[str, dict[str, Mapping[str, str]]] = {}
    for name in (name for run in runs for name in run.tasks):
        asked, settings = variant_of(name)
        by_asked.setdefault(asked, {})[name] = settings
    for variants in by_asked.values():
        (first, settings), *others = variants.items()
        for other, of_other in others:
            differ = [name for name, value in settings.items() if of_other.get(name) != value]
            if not {*differ} <= {*across}:
                return f"{first} and {other} ask the same documents: --across {','.join(dict.fromkeys((*across, *differ)))}"
    return ""


def _asked(task: str, across: Collection[str]) -> str:
    """The documents of a task, with the settings that must not differ."""
    asks, settings = variant_of(task)
    return repr((asks, {name: value for name, value in settings.items() if name not in across}))


def _split(run: Run, names: Mapping[str, str], across: Collection[str], paired: Mapping[str, str]) -> list[Run]:
    """The run, or several if it has two tasks of one name: one for each setting of a benchmark. Other tasks stay in the
    first."""
    times = Counter(names[name] for name in run.tasks)
    if max(times.values(), default=0) < 2:
        return [run]

    def setting(name: str) -> str:
        settings = variant_of(name)[1]
        return repr(([settings.get(varied) for varied in across], name if name in paired else ""))

    of_benchmark: dict[str, dict[str, None]] = {}
    for name, task in run.tasks.items():
        if times[names[name]] > 1:
            of_benchmark.setdefault(task.benchmark, {})[setting(name)] = None
    parts: dict[int, dict[str, TaskRun]] = {0: {}}
    for name, task in run.tasks.items():
        settings, of_task = [*of_benchmark.get(task.benchmark, ())], setting(name)
        parts.setdefault(settings.index(of_task) if of_task in settings else 0, {})[name] = task
    return [
        replace(run, tasks=part, groups={name: tasks for name, tasks in run.groups.items() if part.keys() >= {*tasks}})
        for part in parts.values()
    ]


def _tasks_of(pair: tuple[str, str], runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
    """The pair of tasks, or those of a pair of groups in their order."""
    members = {name: tasks for run in runs for name, tasks in run.groups.items()}
    members |= {name: (name,) for run in runs for name in run.tasks}
    for name in pair:
        if name not in members:
            raise UsageError(f"--pair {'='.join(pair)}: no run has {name}{known_instead(name, members)}")
    first, second = (members[name] for name in pair)
    if len(first) != len(second):
        raise UsageError(
            f"--pair {'='.join(pair)}: they have {len(first)} and {len(second)} tasks; pair these one by one"
        )
    return zip(first, second, strict=True)
