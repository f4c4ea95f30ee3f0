"""The documents that several runs have in common, and whether they were asked and scored alike.

Tasks of different names can ask the same documents, such as ``nomiracl_de`` and ``nomiracl_de_role``: they are paired.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.usage.options import known_instead
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.definition.catalogue import variant_of
from lm_eval_tasks.runs import Answers, FilteredAnswers, Run, TaskRun, differing_columns
from lm_eval_tasks.runs.answers import Asked, asked_alike, content_of
from lm_eval_tasks.runs.run import SETTINGS, differing, settings_of


@dataclass(frozen=True)
class DocumentCounts:
    """The number of documents of a task that at least two runs have (`documents`), and of those that only one model has
    (`only`, by model; ``None`` for a model that did not run the task)."""

    task: str
    documents: int
    only: tuple[int | None, ...]


@dataclass(frozen=True)
class Refusal:
    """A reason why a task cannot be compared: the kind of difference (``versions``, ``documents``, ``prompts``,
    ``detectors``, ``calibrations`` or ``answers``), a text with the first example, and the setting to compare across if
    that helps."""

    task: str
    kind: str
    reason: str
    setting: str = ""


class JoinedRun(NamedTuple):
    """A run of a joined task: its label, its task, its answers, and (answers,) the place of each answer's document in
    :attr:`JoinedTask.documents`."""

    model: str
    task: TaskRun
    answers: Answers
    places: NDArray[np.int64]


@dataclass(frozen=True)
class JoinedTask:
    """The runs of a task, joined by their documents."""

    name: str
    runs: Mapping[int, JoinedRun]  # by number of the run; those that did not do the task are missing
    documents: Sequence[str]  # names of the documents of all runs, sorted

    @classmethod
    def join(cls, name: str, runs: Mapping[int, tuple[str, TaskRun, Answers]]) -> JoinedTask:
        """Join runs by the names of their documents. Documents of one run that share a name are numbered, ordered by
        their content and article."""
        keys_of: dict[int, list[str]] = {}
        for number, (_, _, answers) in runs.items():
            keys = keys_of[number] = [*answers.keys]
            if len({*keys}) < len(keys):
                times: Counter[str] = Counter()
                for index in np.lexsort((np.array(answers.articles or keys), answers.contents)).tolist():
                    times[key := keys[index]] += 1
                    keys[index] = key if times[key] == 1 else f"{key} #{times[key]}"
        documents = sorted({key for keys in keys_of.values() for key in keys})
        places = {key: place for place, key in enumerate(documents)}
        placed = {number: np.array([places[key] for key in keys], dtype=np.int64) for number, keys in keys_of.items()}
        return cls(name, {number: JoinedRun(*run, placed[number]) for number, run in runs.items()}, documents)

    @property
    def any_run(self) -> TaskRun:
        """One of the runs, for what all of them share."""
        return next(iter(self.runs.values())).task

    @property
    def filters(self) -> tuple[str, ...]:
        """The filters that read the answers, in the order of the task's YAML where that is known."""
        used = {name for run in self.runs.values() for name in run.answers.readings}
        listed = [name for run in self.runs.values() for name in run.task.filters if name in used]
        return tuple(dict.fromkeys((*listed, *sorted(used))))

    def readings(self, filter_name: str) -> dict[int, FilteredAnswers]:
        """Each run's answers as a filter read them; runs without any are missing."""
        by_run = {number: run.answers.readings.get(filter_name) for number, run in self.runs.items()}
        return {number: readings for number, readings in by_run.items() if readings is not None}

    def count_documents(self, runs: int) -> DocumentCounts:
        """The number of common documents, and of those that only one of the `runs` has."""
        times = np.bincount(np.concatenate([run.places for run in self.runs.values()]), minlength=len(self.documents))
        only = {number: int((times[run.places] == 1).sum()) for number, run in self.runs.items()}
        return DocumentCounts(self.name, int((times > 1).sum()), tuple(map(only.get, range(runs))))


_OF_RETRIEVER = ("passages", "groundings", "retrieved_ids", "gold_ranks", "retriever")
"""Columns of a document that follow from its retriever. ``gold_ids`` do not: they differ where the corpus does."""

_TITLES = {
    "version": ("version of the task", "versions"),
    "prompt": ("prompt's template", "prompts"),
    "shots": ("number of shots", "prompts"),
    "system_instruction": ("system instruction", "prompts"),
    "detector": ("detector", "detectors"),
    "calibration": ("calibration", "calibrations"),
    "template": ("chat template", ""),
    "generation": ("arguments of the generation", ""),
}
"""What a setting is called, and the kind of the refusal where it differs; a note where there is none."""

_IN_PROMPT = ("system_instruction", "shots", "retriever")
"""Settings that change prompts, beside their template and the chat template."""


def check_joined(task: JoinedTask, notes: list[str], across: Collection[str] = ()) -> list[Refusal]:
    """Reasons why a task cannot be compared: other documents, prompts, detectors or calibrations, except for what follows
    from the settings that it is compared across. Differences that do no harm are added to the notes."""
    if not task.count_documents(0).documents:
        first = {
            run.model: task.documents[run.places[np.argsort(run.answers.contents, kind="stable")[0]]]
            for run in task.runs.values()
            if len(run.places)
        }
        named = "; ".join(f"{model} has {document}" for model, document in first.items())
        return [Refusal(task.name, "documents", f"no document is in two runs ({named})")]
    refusals = _refuse_settings(task, notes, across)
    explained = any(refusal.kind == "prompts" for refusal in refusals)  # why prompts differ
    refusals += _refuse_documents(task, across) or ([] if explained else _refuse_prompts(task, notes, across))
    if "detector" not in across and not any(refusal.setting == "detector" for refusal in refusals):
        every = {run.model: run.answers.readings.values() for run in task.runs.values()}
        keys = {model: {key for each in of_run for key in calibrations_of(each)} for model, of_run in every.items()}
        if different := _distinct({model: ", ".join(sorted(of_run)) for model, of_run in keys.items() if of_run}):
            reason = f"the detector, or its calibration, differs: {different}"
            refusals.append(Refusal(task.name, "detectors", reason, "detector"))
    return refusals


_LEAST = 0.9
"""Share of the fullest run's documents that another run must have to be ranked beside it: some requests fail, but a run of
``--limit`` shows no difference to any, and would share every first rank."""


def comparable(task: JoinedTask, across: Collection[str] = ()) -> list[tuple[JoinedTask, str]]:
    """The runs of a task in groups that can be compared, each with what sets it apart from the first. Groups of full runs
    come first, of these the largest. Two runs are compared over the documents that both have, however few these are."""
    sizes = {number: len(run.places) for number, run in task.runs.items()}
    full = {number for number, size in sizes.items() if size >= _LEAST * max(sizes.values()) or len(sizes) < 3}
    if len(full) == len(sizes) and not check_joined(task, [], across):
        return [(task, "")]
    groups: list[list[int]] = []
    for number in sorted(sizes, key=lambda number: -sizes[number]):
        same_size = (group for group in groups if (group[0] in full) == (number in full))
        group = next((each for each in same_size if not _apart(task, each[0], number, across)), None)
        groups.append([number]) if group is None else group.append(number)
    groups.sort(key=lambda group: (group[0] not in full, -len(group)))
    first, named = groups[0][0], f"of {max(sizes.values()):,} documents"
    why = ["", *(_apart(task, first, group[0], across) or f"{sizes[group[0]]:,} {named}" for group in groups[1:])]
    parts = (replace(task, runs={number: task.runs[number] for number in sorted(group)}) for group in groups)
    return [*zip(parts, why, strict=True)]


def _apart(task: JoinedTask, first: int, second: int, across: Collection[str]) -> str:
    """Why two runs of a task cannot be compared; empty where they can."""
    both = replace(task, runs={number: task.runs[number] for number in (first, second)})
    return next((refusal.reason for refusal in check_joined(both, [], across)), "")


def calibrations_of(readings: FilteredAnswers) -> dict[str, list[int]]:
    """Key of a calibration (and so of a detector) to the documents whose values of rates name it."""
    keys: dict[str, list[int]] = {}
    for column in readings.columns.values():
        for code, value in enumerate(column.others):
            if isinstance(value, Mapping) and (key := str(value.get("calibration") or "")):
                keys.setdefault(key, []).extend(np.flatnonzero(column.codes == code).tolist())
    return keys


def _first_difference(
    task: JoinedTask,
    digests_of: Callable[[Answers], NDArray[np.bytes_]],
    alike: Callable[[JoinedRun, int, JoinedRun, int], bool] = lambda *answers: False,
) -> tuple[str, tuple[tuple[JoinedRun, int], tuple[JoinedRun, int]], int] | None:
    """The first document whose digest differs between runs: its name, run and place of both answers, and the number of
    such documents. Empty digests are unknown and match everything, as do answers that are `alike` (runs and places)."""
    total = len(task.documents)
    seen, seen_at = np.full(total, b"", dtype="S16"), np.zeros(total, dtype=np.int64)
    seen_in, differs = np.full(total, -1), np.zeros(total, dtype=bool)
    first: tuple[int, JoinedRun, int] | None = None  # the document, and its place in the second of both runs
    for number, run in task.runs.items():
        digests = digests_of(run.answers)
        order = np.argsort(run.answers.contents, kind="stable")
        order = order[digests[order] != b""]
        documents = run.places[order]
        new = seen_in[documents] < 0
        seen[documents[new]], seen_in[documents[new]], seen_at[documents[new]] = digests[order[new]], number, order[new]
        unequal = seen[documents] != digests[order]
        for at in np.flatnonzero(unequal).tolist():
            earlier_run, earlier_at = task.runs[int(seen_in[documents[at]])], int(seen_at[documents[at]])
            unequal[at] = not alike(earlier_run, earlier_at, run, int(order[at]))
        differs[documents[unequal]] = True
        if first is None and unequal.any():
            answer = int(order[unequal][0])
            first = int(run.places[answer]), run, answer
    if first is None:
        return None
    document, run, answer = first
    earlier = task.runs[int(seen_in[document])], int(seen_at[document])
    return task.documents[document], (earlier, (run, answer)), int(differs.sum())


def _refuse_documents(task: JoinedTask, across: Collection[str]) -> list[Refusal]:
    """A refusal if documents of one name differ in content. Across retrievers or detectors, columns that follow from them,
    and those that a run has not, may differ."""
    difference = _first_difference(task, lambda answers: answers.contents)
    if difference is None:
        return []
    columns_of = [{*run.answers[0].doc} for run in task.runs.values() if len(run.answers)]
    shared, columns = set.intersection(*columns_of), {column for of_run in columns_of for column in of_run}
    of_retriever = columns & {*_OF_RETRIEVER} if "retriever" in columns else set()
    may_differ = of_retriever if "retriever" in across else set()
    if may_differ := may_differ | (columns - shared if {"retriever", "detector"} & {*across} else set()):
        difference = _first_difference(task, lambda answers: _contents_without(may_differ, answers))
    if difference is None:
        return []
    name, places, number = difference
    docs = [run.answers[index].doc for run, index in places]
    where, setting = "its content", ""
    if differ := [column for column in differing_columns(*docs) if column not in may_differ]:
        values = [f"{_short(doc.get(differ[0]))} in {run.model}" for doc, (run, _) in zip(docs, places, strict=True)]
        where = f"{', '.join(differ)}: {', '.join(values)}"
        if shared & {*differ} <= of_retriever:
            setting = "retriever" if of_retriever & {*differ} else "detector"  # which adds columns
    reason = f"{number} of {len(task.documents)} documents differ; the first is {name}, in {where}"
    return [Refusal(task.name, "documents", reason, setting)]


def _contents_without(columns: Collection[str], answers: Answers) -> NDArray[np.bytes_]:
    docs = (answer.doc for answer in answers)
    digests = [content_of({name: value for name, value in doc.items() if name not in columns}) for doc in docs]
    return np.array([*map(bytes.fromhex, digests)], dtype=answers.contents.dtype)


def _refuse_prompts(task: JoinedTask, notes: list[str], across: Collection[str]) -> list[Refusal]:
    """A refusal if prompts differ in what they ask, of runs that share the other settings that may change prompts; a note
    if only their chat templates differ."""
    if "prompt" in across:
        return []
    alike: dict[str, dict[int, JoinedRun]] = {}
    for number, run in sorted(task.runs.items(), key=lambda each: each[1].task.settings.rendered_by is not None):
        settings = settings_of(run.task)
        varied = [settings.get(setting) for setting in _IN_PROMPT if setting in across]
        alike.setdefault(repr(varied), {})[number] = run
    prompt_notes = [] if "template" in across else notes
    refusals = [_refuse_unequal_prompts(replace(task, runs=runs), prompt_notes) for runs in alike.values()]
    return next(filter(None, refusals), [])


def _refuse_unequal_prompts(task: JoinedTask, notes: list[str]) -> list[Refusal]:
    runs, rendered_otherwise = task.runs.values(), dict.fromkeys((run.model for run in task.runs.values()), False)

    def alike(first: JoinedRun, first_at: int, second: JoinedRun, second_at: int) -> bool:
        answers = (first, first.answers[first_at]), (second, second.answers[second_at])
        one, other = (Asked(each.prompt, each.turns, run.task.settings.rendered_by) for run, each in answers)
        is_alike = asked_alike(one, other)
        rendered_otherwise[second.model] |= is_alike
        return is_alike

    difference = _first_difference(task, lambda answers: answers.prompts, alike)
    if difference is None:
        if any(rendered_otherwise.values()) and not any("chat template" in note for note in notes):
            notes.append("another chat template, or none, rendered the prompts; what they ask is the same")
        return []
    name, places, number = difference
    with_prompt = np.unique(np.concatenate([run.places[run.answers.prompts != b""] for run in runs]))
    reason = f"{number} of {len(with_prompt)} prompts differ; the first is that of {name}"
    left, right = (run.answers[at].prompt for run, at in places)
    if left != right:
        at = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
        first, second = (run.model for run, _ in places)
        reason += f", from character {at} on: {_short(left[at:])} for {first}, {_short(right[at:])} for {second}"
    return [Refusal(task.name, "prompts", reason, "prompt")]


def _refuse_settings(task: JoinedTask, notes: list[str], across: Collection[str]) -> list[Refusal]:
    """Refusals for settings of the runs that must not differ; those that may are added to `notes`. Those that the runs are
    compared across are neither."""
    runs = {run.model: run.task for run in task.runs.values()}
    refusals = []
    for name, texts in differing([{task.name: settings_of(run)} for run in runs.values()]).items():
        setting = "detector" if name == "calibration" else name
        if name not in _TITLES or setting in across:
            continue
        title, kind = _TITLES[name]
        different = _distinct(dict(zip(runs, texts, strict=True)))
        if kind:
            refusals.append(Refusal(task.name, kind, f"the {title} differs: {different}", setting))
        else:
            notes.append(f"another {title}: {different}")
    counted = {model: words for model, run in runs.items() if (words := run.provenance.get("words"))}
    notes += [f"another way to count words: {different}" for different in [_distinct(counted)] if different]
    return refusals


def _distinct(values: Mapping[str, Any]) -> str:
    """The distinct values, each with its first model; empty where all are the same."""
    kinds: dict[str, str] = {}
    for model, value in values.items():
        kinds.setdefault((value if isinstance(value, str) else _short(value)) or "none", model)
    return "; ".join(f"{value} for {model}" for value, model in kinds.items()) if len(kinds) > 1 else ""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:100]}..."


# ----------------------------------------------------------------------------------------------- tasks of other names

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
    for part in (part for run in runs for part in _split(run, names, across)):
        members = {group: tuple(names[task] for task in tasks) for group, tasks in part.groups.items()}
        groups |= {group: name_of.setdefault(frozenset(tasks), group) for group, tasks in members.items()}
        of_part = {names[name]: task for name, task in part.tasks.items()}
        renamed.append(replace(part, tasks=of_part, groups={groups[group]: tasks for group, tasks in members.items()}))
    return renamed, groups | names


def _split(run: Run, names: Mapping[str, str], across: Collection[str]) -> Iterator[Run]:
    """The run, or several if it has two tasks of one name: one for each setting of a benchmark. Other tasks stay in the
    first."""
    times = Counter(names[name] for name in run.tasks)
    settings: dict[str, list[object]] = {}  # by benchmark
    parts: dict[int, dict[str, TaskRun]] = {}
    for name, task in run.tasks.items():
        of_table, of_benchmark = variant_of(name)[1], settings.setdefault(task.benchmark, [])
        setting, part = [of_table.get(varied) for varied in across], 0
        if times[names[name]] > 1:
            taken = [place for place, tasks in parts.items() if names[name] in map(names.__getitem__, tasks)]
            free = (at for at, known in enumerate(of_benchmark) if known == setting and at not in taken)
            if (part := next(free, len(of_benchmark))) == len(of_benchmark):
                of_benchmark.append(setting)
        elif setting in of_benchmark:
            part = of_benchmark.index(setting)
        parts.setdefault(part, {})[name] = task
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
