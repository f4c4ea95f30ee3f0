"""The benchmarks of this package: its folders that hold a ``benchmark.py``; and which of their tasks was meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.metadata import entry_points
from itertools import chain
from pathlib import Path
from types import ModuleType

from custom_metrics.scores.aggregations import Aggregation
from lm_eval_tasks.definition.schema import BALANCED, Base, Benchmark, Metric, Task

TABLE = "benchmark.py"
_HERE = Path(__file__).resolve().parents[1]


def folders() -> list[Path]:
    return sorted(path.parent for path in _HERE.glob(f"*/{TABLE}"))


def benchmark_of(folder: Path) -> Benchmark:
    """The table of a benchmark's folder, in this package or elsewhere."""
    folder = folder.resolve()
    if folder.parent == _HERE:
        module = import_module(f"lm_eval_tasks.{folder.name}.benchmark")
    else:
        loader = SourceFileLoader(f"{folder.name}_benchmark", str(folder / TABLE))
        module = ModuleType(loader.name)
        loader.exec_module(module)
    benchmark: Benchmark = module.BENCHMARK
    return benchmark


def tables() -> dict[str, Benchmark]:
    """Folder name to table, for every benchmark of this package. It loads all of them; :func:`task_named` one."""
    return {folder.name: table for folder in folders() if (table := table_named(folder.name))}


@lru_cache(maxsize=64)
def table_named(folder: str) -> Benchmark | None:
    """The table of a folder of this package; ``None`` where there is no such benchmark."""
    return benchmark_of(_HERE / folder) if folder and (_HERE / folder / TABLE).is_file() else None


def table_elsewhere(folder: Path) -> tuple[str, Benchmark] | None:
    """Name and table of a benchmark outside of this package; ``None`` for our folders and folders without a table."""
    folder = folder.resolve()
    if _HERE in folder.parents or not (folder / TABLE).is_file():
        return None
    return folder.name, benchmark_of(folder)


def metric_of(name: str, table: Benchmark | None = None) -> Metric:
    """The entry of a metric, by its name in a results file, from its benchmark's table or any other of this package:
    that of the name, or of a prefix of it that ends in ``_``. A finer figure, such as ``rougeL_missed`` or ``ndcg@3``,
    has the unit of its metric. For any other name, a number without a sentence."""
    own = _metric_in(table.metrics, name) if table else None  # the other benchmarks are not loaded for it
    return own or _metric_in(_all_metrics(), name) or Metric(name, unit="number")


def _metric_in(metrics: Mapping[str, Metric], name: str) -> Metric | None:
    if name in metrics:
        return metrics[name]
    starts = [start for start in metrics if start.endswith("_") and name.startswith(start)]
    if starts:
        return replace(metrics[starts[0]], name=name, rest=name.removeprefix(starts[0]))
    stem = name.partition("@")[0]
    units = (metric.unit for other, metric in metrics.items() if f"{stem}_".startswith(f"{other.partition('@')[0]}_"))
    unit = next(units, None)
    return Metric(name, unit=unit) if unit else None


KINDS = "lm_eval_grounded.kinds"  # the group of entry points by which another package names its kinds of figure


def kind_of(metric: Metric, table: Benchmark | None = None) -> Aggregation | None:
    """The kind of a metric: the one that its results record, else the one of the table's metric of its name. ``None`` where
    it is neither in a table of this package nor an entry point of another: results files alone make nothing be imported."""
    own = _kinds_of(
        [table] if table and table.tasks else []
    )  # one of results has no tasks; others are not loaded for it
    for name in filter(None, chain((metric.aggregation,), _recorded_names(metric, table))):
        place = own.get(name) or _kinds().get(name)
        if place is None:
            points = entry_points(group=KINDS)
            place = next((p.value.replace(":", ".") for p in points if name in (p.name, p.value.replace(":", "."))), "")
        module, _, attribute = place.rpartition(".")
        kind = getattr(import_module(module), attribute, None) if module else None
        if isinstance(kind, Aggregation):
            return kind
    return None


def _recorded_names(metric: Metric, table: Benchmark | None) -> Iterator[str]:
    """The kinds that tables have for a metric whose results record none."""
    if metric.aggregation in ("", metric.name):
        yield metric_of(metric.name, table).aggregation
        yield metric_of(metric.name).aggregation


@lru_cache(maxsize=1)
def _kinds() -> dict[str, str]:
    return _kinds_of(tables().values())


def _kinds_of(chosen: Iterable[Benchmark]) -> dict[str, str]:
    metrics = [metric for table in chosen for metric in table.metrics.values()]
    named = [metric.aggregation for metric in metrics if "." in metric.aggregation]
    shared = ("defined_mean", "defined_score", "defined_share")
    registered = {name: f"custom_metrics.scores.aggregations.{name}" for name in shared}
    registered[BALANCED] = f"custom_metrics.scores.balanced_error.{BALANCED}"
    return {**{name.rpartition(".")[2]: name for name in named}, **{name: name for name in named}, **registered}


@lru_cache(maxsize=1)
def _all_metrics() -> dict[str, Metric]:
    return {name: metric for table in reversed(tables().values()) for name, metric in table.metrics.items()}


@lru_cache(maxsize=64)
def _tasks(folder: str) -> dict[str, tuple[str, Task]]:
    table = table_named(folder)
    return {task.name: (folder, task) for task in table.tasks} if table else {}


@lru_cache(maxsize=4096)
def task_named(name: str) -> tuple[str, Task] | None:
    """The folder of a task's benchmark, and the task; ``None`` for a task that is in no table. Of a benchmark whose folder
    begins the name the table is looked at first; others are loaded where the task is not in it."""
    names = [folder.name for folder in folders()]
    for folder in sorted(names, key=lambda folder: folder != name.partition("_")[0]):
        if listed := _tasks(folder).get(name):
            return listed
    return None


def base_of(task: str) -> Base | None:
    listed = task_named(task)
    return listed[1].base if listed else None


_VARIED = ("retriever",)  # options that do not change what a task asks


@lru_cache(maxsize=1024)
def variant_of(task: str) -> tuple[str, Mapping[str, str]]:
    """What a task asks, and how: the first task of its table that asks the same documents (with the same base, and equal
    other options), and its prompt and retriever. A task that is in no table stands for itself. A prompt has the name of
    the last file that has it: ``role`` for ``_nomiracl_role``."""
    listed = task_named(task)
    if listed is None:
        return task, {}
    folder, entry = listed
    prompt = (entry.include or entry.base.include or (entry.base.file,))[-1].rpartition("_")[2]
    settings = {"prompt": prompt, **{name: entry.options[name] for name in _VARIED if name in entry.options}}
    return next(other.name for other in tables_of([task])[folder].tasks if _asks(other) == _asks(entry)), settings


def _asks(task: Task) -> tuple[str, Mapping[str, str]]:
    options = task.options.items()
    return task.base.file, {name: value for name, value in options if name not in _VARIED and value != task.name}


ACROSS = {"grounded_lite": ("nomiracl_lite", "clapnq_gold")}
"""Groups over several benchmarks, to their tasks and groups. Their YAML files, in the folder above, are written by hand."""


def tables_of(tasks: Iterable[str]) -> dict[str, Benchmark]:
    """Folder name to table, of the benchmarks that some tasks are of."""
    listed = {task[0]: None for name in tasks if (task := task_named(name))}
    return {folder: table for folder in sorted(listed) if (table := table_named(folder))}


def groups(tasks: Iterable[str] | None = None) -> dict[str, tuple[str, ...]]:
    """Group name to the names of its tasks, for every group, or those of the benchmarks of some tasks."""
    chosen = tables() if tasks is None else tables_of(tasks)
    of_benchmarks = {
        group.name: tuple(task.name for task in group.tasks) for table in chosen.values() for group in table.groups
    }
    across = {
        name: tuple(t for each in parts for t in of_benchmarks.get(each, (each,))) for name, parts in ACROSS.items()
    }
    return of_benchmarks | across


def without_mean(tasks: Iterable[str]) -> frozenset[str]:
    """The groups of some tasks' benchmarks whose tasks have different metrics: nothing is averaged over them."""
    of_benchmarks = (group for table in tables_of(tasks).values() for group in table.groups)
    return frozenset((*ACROSS, *(group.name for group in of_benchmarks if not group.averaged)))


def language_name(code: str, benchmark: str | None = None) -> str:
    """English name of a language: of a benchmark of this package, by its folder, or of any; else the code."""
    table = table_named(benchmark) if benchmark is not None else None  # the others are not loaded for it
    return (languages() if benchmark is None else table.languages if table else {}).get(code, code)


@lru_cache(maxsize=1)
def languages() -> dict[str, str]:
    return {code: name for benchmark in tables().values() for code, name in benchmark.languages.items()}


# -------------------------------------------------------------- the task that an unknown name such as nomiracl_ger meant

_ALIKE = 0.8  # similarity of difflib, for the name of a benchmark
_NEAR = 0.6  # the same, for a task of that benchmark


GONE = {
    "clapnq_rag_hybrid(_gpt|_llama)?": "clapnq_rag_run reads any fusion of rankings, as a TREC run file (run=FILE)",
    "faithbench": "ragtruth_summary asks the same of other summaries",
    r"mfava_(make_(queries|answers|silver)|translate)_\w+": 'the step is one task, and `--metadata \'{"language": "de"}\'` '
    "names the language",
}
"""Tasks that went in version 0.1, by a pattern of their names, to what to use instead."""


def hint(names: Iterable[str], known: Collection[str] = ()) -> str:
    """The end of a message about unknown names: ``; did you mean nomiracl_de?``, which languages there are, or what to
    use instead of a task that is :data:`GONE`. Empty where they resemble none of our tasks and groups; or of `known`,
    where a name of ours is no mistake."""
    meant, messages = [], []
    for name in names:
        task, message = _meant(name, tuple(known or _ours())) if not known or name not in _ours() else ("", "")
        meant += [task] if task else []
        messages += [message] if message and not known else []
    messages += [f"did you mean {', '.join(meant)}?"] if meant else []
    return "".join(f"; {message}" for message in dict.fromkeys(messages))


@lru_cache(maxsize=1)
def _ours() -> tuple[str, ...]:
    tasks = (task.name for table in tables().values() for task in table.tasks)
    return tuple(sorted({*groups(), *tasks}))


def _meant(name: str, known: tuple[str, ...]) -> tuple[str, str]:
    """The task or group of `known` that was meant, or which languages there are instead; both empty for any other name."""
    if gone := [instead for pattern, instead in GONE.items() if re.fullmatch(pattern, name)]:
        return "", f"{name} is gone: {gone[0]}"
    first, *rest = re.split(r"[\s_-]+", name.strip().casefold())
    families = sorted({other.partition("_")[0] for other in known})
    family = next(iter(difflib.get_close_matches(first, families, 1, _ALIKE)), None)
    if family is None:
        return "", ""
    members = {other: other.split("_") for other in known if other.partition("_")[0] == family}
    parts = {part for words in members.values() for part in words[1:]}
    names = languages()
    codes_here = sorted(parts & names.keys())
    codes = [word if word in parts else _code(word) for word in rest]
    meant = {*codes} & {*codes_here}
    if codes_here and rest and not meant and not {*rest} & parts:
        missing = next((names[code] for code in codes if code in names), "")
        if missing or not difflib.get_close_matches("_".join(rest), parts - {*codes_here}, 1, _NEAR):
            return "", f"{family} has no {missing or f'language {rest[0]!r}'}; it has {' '.join(codes_here)}"
    # a part that says nothing here, such as the region of zh-cn, is left out where the language is known
    parts_meant = [
        code or word
        for code, word in zip(codes, rest, strict=True)
        if code or not meant or difflib.get_close_matches(word, parts, 1, _ALIKE)
    ]
    of_language = {" ".join(sorted(words)): other for other, words in members.items() if meant <= {*words}}
    near = difflib.get_close_matches(" ".join(sorted([family, *parts_meant])), of_language, 1, _NEAR)
    return (of_language[near[0]] if near else ""), ""


def _code(word: str) -> str | None:
    """The code of a language of ours from another code or its English name; else ``None``."""
    import langcodes

    names = {name.casefold(): code for code, name in languages().items()}
    if langcodes.tag_is_valid(word):
        code = langcodes.Language.get(word).prefer_macrolanguage().language
        if code in names.values():
            return str(code)
    return next((names[near] for near in difflib.get_close_matches(word, names, 1, _ALIKE)), None)
