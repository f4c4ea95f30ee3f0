"""Tasks of different names that ask the same documents, such as ``nomiracl_de`` and ``nomiracl_de_role``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from custom_metrics.usage.options import known_instead
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.definition.catalogue import variant_of
from lm_eval_tasks.runs import Run, TaskRun
from lm_eval_tasks.runs.settings import SETTINGS

ACROSS = (*SETTINGS, "model")
"""What runs can be compared across."""


def check_across(names: Iterable[str]) -> tuple[str, ...]:
    """The settings that a user named, ``all`` for all; a UsageError for an unknown one."""
    plain = dict.fromkeys(name.lower().replace("-", "_") for name in names)
    for name in plain:
        if name not in (*ACROSS, "all"):
            raise UsageError(f"--across {name}: no such setting{known_instead(name, (*ACROSS, 'all'))}")
    return ACROSS if "all" in plain else tuple(plain)


def pair_tasks(runs: Sequence[Run], across: Collection[str], pairs: Iterable[str]) -> tuple[list[Run], dict[str, str]]:
    """Runs in which tasks that ask the same documents have one name: that of the first of them in the first run.

    A run that has several of these tasks is split into a run for each of their prompts and retrievers. Groups whose tasks
    are paired one by one get a common name, too.

    Tasks of a table may differ in the settings of `across`; `pairs` has ``A=B`` for further tasks, or for groups, whose
    tasks are paired in their order. Returned are the runs, and old names of tasks and groups to new ones. A UsageError if a
    name of `pairs` is in no run, or a group has another number of tasks.
    """
    stands_for = {second: first for pair in pairs for first, second in _tasks_of(pair, runs)}
    names: dict[str, str] = {}  # of tasks
    name_of: dict[object, str] = {}  # of documents under equal settings, or of a group's tasks
    for name in dict.fromkeys(name for run in runs for name in run.tasks):
        asks, settings = variant_of(stands_for.get(name, name))
        fixed = frozenset((key, value) for key, value in settings.items() if key not in across)
        names[name] = name_of.setdefault((asks, fixed), name)
    renamed: list[Run] = []
    groups: dict[str, str] = {}
    for part in (part for run in runs for part in _split(run, names, across, stands_for)):
        members = {group: tuple(names[task] for task in tasks) for group, tasks in part.groups.items()}
        groups |= {group: name_of.setdefault(frozenset(tasks), group) for group, tasks in members.items()}
        renamed.append(
            replace(
                part,
                tasks={names[name]: task for name, task in part.tasks.items()},
                groups={groups[group]: tasks for group, tasks in members.items()},
            )
        )
    return renamed, groups | names


def _split(run: Run, names: Mapping[str, str], across: Collection[str], paired: Collection[str]) -> Iterator[Run]:
    """The run, or several if it has two tasks of one name: one for each setting of a benchmark. Other tasks stay in the
    first."""
    times = Counter(names[name] for name in run.tasks)
    settings: dict[str, list[object]] = {}  # by benchmark
    parts: dict[int, dict[str, TaskRun]] = {}
    for name, task in run.tasks.items():
        of_table, of_benchmark = variant_of(name)[1], settings.setdefault(task.benchmark, [])
        setting = [of_table.get(varied) for varied in across], name if name in paired else ""
        if setting not in of_benchmark and times[names[name]] > 1:
            of_benchmark.append(setting)
        parts.setdefault(of_benchmark.index(setting) if setting in of_benchmark else 0, {})[name] = task
    for tasks in parts.values():
        yield replace(run, tasks=tasks, groups={name: of for name, of in run.groups.items() if tasks.keys() >= {*of}})


def _tasks_of(pair: str, runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
    members = {name: tasks for run in runs for name, tasks in run.groups.items()}
    members |= {name: (name,) for run in runs for name in run.tasks}
    both = [name.strip() for name in pair.split("=")]
    if len(both) != 2 or both[0] == both[1]:
        raise UsageError(f"--pair {pair}: name two tasks, such as --pair nomiracl_de=my_nomiracl_de")
    for name in both:
        if name not in members:
            raise UsageError(f"--pair {pair}: no run has {name}{known_instead(name, members)}")
    first, second = (members[name] for name in both)
    if len(first) != len(second):
        raise UsageError(f"--pair {pair}: they have {len(first)} and {len(second)} tasks; pair these one by one")
    return zip(first, second, strict=True)


def hint_at_variants(runs: Sequence[Run], across: Collection[str]) -> str:
    """How to compare tasks of the runs that ask the same documents though their names differ; empty without any, or if
    they are compared."""
    first_of: dict[str, tuple[str, Mapping[str, str]]] = {}
    for name in (name for run in runs for name in run.tasks):
        asks, settings = variant_of(name)
        first, of_first = first_of.setdefault(asks, (name, settings))
        differ = [setting for setting, value in settings.items() if of_first.get(setting) != value]
        if not {*differ} <= {*across}:
            return f"{first} and {name} ask the same documents: --across {','.join(dict.fromkeys((*across, *differ)))}"
    return ""
