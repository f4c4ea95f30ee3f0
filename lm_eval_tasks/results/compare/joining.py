"""The documents that several runs have in common, and whether they were asked and scored alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_tasks.results.compare.comparison import Joined, Refusal
from lm_eval_tasks.runs import Answer, Answers, Readings, TaskRun, differing_columns

__all__ = ["JoinedTask", "join", "unknown_detectors", "unread"]

Places = NDArray[np.int64]


@dataclass(frozen=True)
class JoinedTask:
    """A task of several runs.

    Attributes:
        name: of the task.
        runs: of each model; ``None`` for one that did not run it.
        answers: of each model; ``None`` for one that did not run it.
        places: of each model, (answers,) numbers of the documents that the answers are to.
        documents: how many there are; their order does not depend on that of the runs.
    """

    name: str
    runs: tuple[TaskRun | None, ...]
    answers: tuple[Answers | None, ...]
    places: tuple[Places, ...]
    documents: int

    @property
    def any_run(self) -> TaskRun:
        """One of the runs; what they share can be asked of it."""
        return next(run for run in self.runs if run is not None)

    @property
    def filters(self) -> tuple[str, ...]:
        """The filters that read the answers, in the order of the task's YAML where that is known."""
        read = {name for answers in self.answers if answers is not None for name in answers.readings}
        listed = [name for run in self.runs if run is not None for name in run.filters if name in read]
        return tuple(dict.fromkeys((*listed, *sorted(read))))

    def summary(self) -> Joined:
        """How many documents are common, and how many are in one run only."""
        times = _times(self.places, self.documents)
        only = tuple(
            None if run is None else int((times[places] == 1).sum())
            for run, places in zip(self.runs, self.places, strict=True)
        )
        return Joined(self.name, int((times > 1).sum()), only)


def _times(places: Sequence[Places], documents: int) -> Places:
    """(documents,): how many runs have each."""
    return sum((np.bincount(each, minlength=documents) for each in places), np.zeros(documents, dtype=np.int64))


def join(
    name: str,
    runs: Sequence[TaskRun | None],
    models: Sequence[str],
    read: Callable[[TaskRun], Answers] = TaskRun.answers,
) -> tuple[JoinedTask | None, list[Refusal], list[str]]:
    """A task of several runs, joined by the content of its documents.

    Args:
        name: of the task.
        runs: of each model; ``None`` for one that did not run it.
        models: names.
        read: the answers of a task, where they have been read already.

    Returns:
        The joined task, ``None`` if it cannot be compared; why it cannot; and what differs without harm.

    Raises:
        MissingSource: answers were not logged.
        CorruptSource: a samples file is damaged.
    """
    present = [(model, run) for model, run in zip(models, runs, strict=True) if run is not None]
    refusals, notes = _settings(name, present)
    answers = [read(run) if run is not None else None for run in runs]
    documents = _documents(answers)
    chat = {run.settings.chat_template for _, run in present}
    refusals += _differing_documents(name, models, answers, documents)
    if not refusals:
        refusals += _differing_prompts(name, models, answers, documents, one_template=len(chat) == 1)
    if not any(refusal.kind in ("detectors", "calibrations") for refusal in refusals):
        refusals += _tagged(name, models, answers)
    if refusals:
        return None, refusals, notes
    joined = JoinedTask(name, tuple(runs), tuple(answers), documents.places, len(documents.names))
    if joined.summary().documents == 0:
        first = [
            f"{model} has {documents.names[places[order[0]]]}"
            for model, places, order in zip(models, documents.places, documents.orders, strict=True)
            if len(places)
        ]
        return None, [Refusal(name, "documents", f"no document is in two runs ({'; '.join(first)})")], notes
    return joined, [], notes


def unread(task: JoinedTask, filter_name: str, models: Sequence[str]) -> tuple[list[Refusal], list[str]]:
    """Runs whose samples lack rows of a filter, though the task has it: their file was cut. Where a run has none, the task
    cannot be compared; where some are there, the rest is missing from the comparison.

    Returns:
        Refusals, and notes.
    """
    refusals, notes = [], []
    for model, run, answers in zip(models, task.runs, task.answers, strict=True):
        if run is None or not answers:
            continue
        readings = answers.readings.get(filter_name)
        read = int(readings.present.sum()) if readings is not None else 0
        file = run.samples.name if run.samples is not None else "its samples file"
        if read == 0:
            reason = (
                f"the samples of {model} have no row of the filter {filter_name}, only of {', '.join(answers.readings)}: "
                f"{file} was cut, or is of another version of the task; run it again, or say "
                f"--filter {next(iter(answers.readings), 'none')}"
            )
            refusals.append(Refusal(task.name, "answers", reason))
        elif read < len(answers):
            notes.append(
                f"{read} of the {len(answers)} documents of {model} have a row of the filter {filter_name}: {file} was cut"
            )
    return refusals, notes


def unknown_detectors(task: JoinedTask, metric: str, filter_name: str, models: Sequence[str]) -> list[str]:
    """The models of runs that do not say which detector tagged their answers: neither their results file does, nor the key
    of a calibration in their values. Others are refused where they differ; these may differ, or not."""

    def is_unknown(readings: Readings) -> bool:
        column = readings.columns.get(metric)
        return column is not None and bool((column.known & ~_keys_of(readings)[0]).any())

    return [
        model
        for model, run, answers in zip(models, task.runs, task.answers, strict=True)
        if run is not None
        and not run.detector
        and answers is not None
        and filter_name in answers.readings
        and is_unknown(answers.readings[filter_name])
    ]


def _keys_of(readings: Readings) -> tuple[NDArray[np.bool_], set[str]]:
    """(documents,) whether a value of a rate names the key of a calibration, and so of a detector; and these keys."""
    has, keys = np.zeros(len(readings.places), dtype=bool), set()
    for column in readings.columns.values():
        for document, value in column.other_values():
            if isinstance(value, Mapping) and (key := str(value.get("calibration") or "")):
                has[document] = True
                keys.add(key)
    return has, keys


class _Documents(NamedTuple):
    """The documents of several runs: what they are called, in order, with each run's answers by their content, and the
    numbers of the documents that each run's answers are to."""

    names: Sequence[str]
    orders: tuple[Places, ...]
    places: tuple[Places, ...]


def _documents(answers: Sequence[Answers | None]) -> _Documents:
    """A name that comes again in a run is numbered, in the order of the contents."""
    orders: list[Places] = []
    named: list[Places] = []
    known: dict[str, int] = {}
    for of_run in answers:
        contents = of_run.contents if of_run is not None else np.empty(0, "S16")
        orders.append(np.argsort(contents, kind="stable"))
        keys = [*of_run.keys] if of_run is not None else []
        if len({*keys}) < len(keys):
            times: Counter[str] = Counter()
            for at in orders[-1].tolist():
                key = keys[at]
                times[key] += 1
                keys[at] = key if times[key] == 1 else f"{key} #{times[key]}"
        named.append(np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.int64))
    names = sorted(known)
    ranks = np.empty(len(names), dtype=np.int64)
    ranks[[known[name] for name in names]] = np.arange(len(names))
    return _Documents(names, tuple(orders), tuple(ranks[numbers] for numbers in named))


class _Differing(NamedTuple):
    """A document of which two runs do not have the same, with its places in them; and how many such there are."""

    name: str
    runs: tuple[int, int]
    answers: tuple[int, int]
    number: int


def _differing(documents: _Documents, digests: Sequence[NDArray[np.bytes_]]) -> _Differing | None:
    """The first document whose digest differs between runs. An empty digest is not known."""
    total = len(documents.names)
    seen = np.zeros(total, dtype="S16")
    seen_in, seen_at = np.full(total, -1), np.zeros(total, dtype=np.int64)
    differs = np.zeros(total, dtype=bool)
    first: tuple[int, int, int] | None = None  # document, run, answer
    for run, (order, of_run, places) in enumerate(zip(documents.orders, digests, documents.places, strict=True)):
        order = order[of_run[order] != b""]
        at = places[order]
        new = seen_in[at] < 0
        seen[at[new]], seen_in[at[new]], seen_at[at[new]] = of_run[order[new]], run, order[new]
        other = seen[at] != of_run[order]
        differs[at[other]] = True
        if first is None and other.any():
            answer = int(order[other][0])
            first = int(places[answer]), run, answer
    if first is None:
        return None
    document, run, answer = first
    runs, both = (int(seen_in[document]), run), (int(seen_at[document]), answer)
    return _Differing(documents.names[document], runs, both, int(differs.sum()))


def _both(answers: Sequence[Answers | None], found: _Differing) -> list[Answer]:
    parts = zip(found.runs, found.answers, strict=True)
    return [of_run[at] for run, at in parts if (of_run := answers[run]) is not None]


def _differing_documents(
    name: str, models: Sequence[str], answers: Sequence[Answers | None], documents: _Documents
) -> list[Refusal]:
    """Documents of one name whose content differs."""
    found = _differing(documents, [each.contents if each is not None else np.empty(0, "S16") for each in answers])
    if found is None:
        return []
    docs = [answer.doc for answer in _both(answers, found)]
    columns = differing_columns(*docs)
    example = ", ".join(columns) or "its content"
    said = ""
    if columns:
        one, other = (_short(doc.get(columns[0])) for doc in docs)
        said = f": {one} in {models[found.runs[0]]}, {other} in {models[found.runs[1]]}"
    reason = f"{found.number} of {len(documents.names)} documents differ; the first is {found.name}, in {example}{said}"
    return [Refusal(name, "documents", reason)]


def _differing_prompts(
    name: str, models: Sequence[str], answers: Sequence[Answers | None], documents: _Documents, one_template: bool
) -> list[Refusal]:
    """Prompts that differ though the chat templates do not."""
    if not one_template:
        return []
    digests = [each.prompts if each is not None else np.empty(0, "S16") for each in answers]
    found = _differing(documents, digests)
    if found is None:
        return []
    of_runs = zip(documents.places, digests, strict=True)
    asked = np.unique(np.concatenate([places[of_run != b""] for places, of_run in of_runs]))
    one, other = (answer.prompt for answer in _both(answers, found))
    first, second = (models[run] for run in found.runs)
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    shown = f", from character {at} on: {_short(one[at:])} for {first}, {_short(other[at:])} for {second}"
    reason = f"{found.number} of {len(asked)} prompts differ; the first is that of {found.name}"
    return [Refusal(name, "prompts", reason + (shown if one != other else ""))]


def _tagged(name: str, models: Sequence[str], answers: Sequence[Answers | None]) -> list[Refusal]:
    """Detectors and calibrations that differ, as the values of rates name them: samples may have no results file."""
    keys = [
        sorted({key for readings in of_run.readings.values() for key in _keys_of(readings)[1]}) if of_run else []
        for of_run in answers
    ]
    different = _different([(model, ", ".join(found)) for model, found in zip(models, keys, strict=True) if found])
    return [Refusal(name, "detectors", f"the detector, or its calibration, differs: {different}")] if different else []


def _settings(name: str, present: Sequence[tuple[str, TaskRun]]) -> tuple[list[Refusal], list[str]]:
    """What the runs' settings say: what forbids a comparison, and what does not."""
    with_results = [(model, run) for model, run in present if run.results_file]
    with_record = [(model, run) for model, run in present if run.provenance]
    forbidden: list[tuple[str, str, list[tuple[str, Any]]]] = [
        (
            "prompts",
            "the prompt's template",
            [(m, r.settings.template[:12]) for m, r in present if r.settings.template],
        ),
        ("prompts", "the number of shots", [(m, r.settings.shots) for m, r in with_results]),
        ("prompts", "the system instruction", [(m, r.settings.system_instruction) for m, r in with_results]),
        ("detectors", "the detector", [(m, _detector(r)) for m, r in with_record if r.detector]),
        ("calibrations", "the calibration", [(m, found) for m, r in with_record if (found := _calibration(r))]),
    ]
    allowed: list[tuple[str, list[tuple[str, Any]]]] = [
        ("chat template", [(m, r.settings.chat_template[:12]) for m, r in with_results]),
        ("arguments of the generation", [(m, dict(r.settings.generation)) for m, r in with_results]),
        ("version of the task", [(m, r.version) for m, r in with_results]),
        ("way to count words", [(m, r.provenance["words"]) for m, r in with_record if r.provenance.get("words")]),
    ]
    refusals = [
        Refusal(name, kind, f"{what} differs: {different}")
        for kind, what, values in forbidden
        if (different := _different(values))
    ]
    notes = [f"another {what}: {different}" for what, values in allowed if (different := _different(values))]
    return refusals, notes


def _detector(run: TaskRun) -> str:
    found = run.detector
    options = found.get("options") or {}
    shown = (
        "".join(f", {key}={value}" for key, value in sorted(options.items())) if isinstance(options, Mapping) else ""
    )
    return f"{found.get('name')} (version {found.get('version')}, threshold {found.get('threshold', 'none')}{shown})"


def _calibration(run: TaskRun) -> str:
    """The calibration; empty where there is none, and so no corrected rate."""
    found = run.provenance.get("calibration")
    if not isinstance(found, Mapping):
        return ""
    return f"{found.get('file')} ({found.get('annotations')}, {found.get('source')})"


def _different(values: Sequence[tuple[str, Any]]) -> str:
    """What the models have, where it is not the same: each value with its first model."""
    kinds: dict[str, str] = {}
    for model, value in values:
        kinds.setdefault(_short(value) if value != "" else "none", model)
    return "; ".join(f"{value} for {model}" for value, model in kinds.items()) if len(kinds) > 1 else ""


def _short(value: Any) -> str:
    """A value as it stands in messages."""
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:100]}..."
