"""The documents that several runs have in common, and whether they were asked and scored alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_tasks.results.compare.comparison import Joined, Refusal
from lm_eval_tasks.runs import Answers, Readings, TaskRun, differing_columns


class Part(NamedTuple):
    """A run's part in a task: the run's label, the task in it, the answers, and (answers,) the numbers of the documents
    that they are to, in :attr:`JoinedTask.documents`."""

    model: str
    run: TaskRun
    answers: Answers
    places: NDArray[np.int64]


@dataclass(frozen=True)
class JoinedTask:
    """A task of several runs."""

    name: str
    parts: Mapping[int, Part]  # by the number of the run; runs that did not do the task have none
    documents: Sequence[str]  # names of those of all runs, in an order that does not depend on that of the runs

    @classmethod
    def of(cls, name: str, runs: Mapping[int, tuple[str, TaskRun, Answers]]) -> JoinedTask:
        """Join by the names of the documents. One that comes again in a run is numbered, in the order of the contents."""
        known: dict[str, int] = {}
        named = {}
        for number, (_, _, answers) in runs.items():
            keys = [*answers.keys]
            if len({*keys}) < len(keys):
                times: Counter[str] = Counter()
                for at in np.argsort(answers.contents, kind="stable").tolist():
                    key = keys[at]
                    times[key] += 1
                    keys[at] = key if times[key] == 1 else f"{key} #{times[key]}"
            named[number] = np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.int64)
        names = sorted(known)
        ranks = np.empty(len(names), dtype=np.int64)
        ranks[[known[key] for key in names]] = np.arange(len(names))
        return cls(name, {number: Part(*run, ranks[named[number]]) for number, run in runs.items()}, names)

    @property
    def any_run(self) -> TaskRun:
        """One of the runs; what they share can be asked of it."""
        return next(iter(self.parts.values())).run

    @property
    def filters(self) -> tuple[str, ...]:
        """Those that read the answers, in the order of the task's YAML where that is known."""
        read = {name for part in self.parts.values() for name in part.answers.readings}
        listed = [name for part in self.parts.values() for name in part.run.filters if name in read]
        return tuple(dict.fromkeys((*listed, *sorted(read))))

    def readings(self, filter_name: str) -> dict[int, Readings]:
        """What a filter made of each run's answers, where it read any."""
        found = {number: part.answers.readings.get(filter_name) for number, part in self.parts.items()}
        return {number: readings for number, readings in found.items() if readings is not None}

    def summary(self, runs: int) -> Joined:
        """How many documents are common, and how many are in one of the `runs` only."""
        times = np.bincount(
            np.concatenate([part.places for part in self.parts.values()]), minlength=len(self.documents)
        )
        only = {number: int((times[part.places] == 1).sum()) for number, part in self.parts.items()}
        return Joined(self.name, int((times > 1).sum()), tuple(map(only.get, range(runs))))


def check_joined(task: JoinedTask, notes: list[str]) -> list[Refusal]:
    """Why a task cannot be compared: documents, prompts, detectors or calibrations differ. What differs without harm is
    added to the notes."""
    refusals = _settings(task, notes)
    refusals += _documents(task) or _prompts(task)
    if not any(refusal.kind in ("detectors", "calibrations") for refusal in refusals):
        keys = {
            part.model: ", ".join(
                sorted({key for each in part.answers.readings.values() for key in calibrations_of(each)})
            )
            for part in task.parts.values()
        }
        if different := _different({model: of_run for model, of_run in keys.items() if of_run}):
            reason = f"the detector, or its calibration, differs: {different}"
            refusals.append(Refusal(task.name, "detectors", reason))
    if not refusals and not task.summary(0).documents:
        first = [
            f"{part.model} has {task.documents[part.places[np.argsort(part.answers.contents, kind='stable')[0]]]}"
            for part in task.parts.values()
            if len(part.places)
        ]
        refusals.append(Refusal(task.name, "documents", f"no document is in two runs ({'; '.join(first)})"))
    return refusals


def calibrations_of(readings: Readings) -> dict[str, list[int]]:
    """The keys of calibrations, and so of detectors, that values of rates name; each with the documents of such values."""
    keys: dict[str, list[int]] = {}
    for column in readings.columns.values():
        for document, value in column.other_values():
            if isinstance(value, Mapping) and (key := str(value.get("calibration") or "")):
                keys.setdefault(key, []).append(document)
    return keys


def _differing(
    task: JoinedTask, digests_of: Callable[[Answers], NDArray[np.bytes_]]
) -> tuple[str, tuple[tuple[Part, int], tuple[Part, int]], int] | None:
    """The first document whose digest differs between runs: its name, and the part and place of either answer; and how
    many such documents there are. An empty digest is not known."""
    total = len(task.documents)
    seen, seen_at = np.full(total, b"", dtype="S16"), np.zeros(total, dtype=np.int64)
    seen_in, differs = np.full(total, -1), np.zeros(total, dtype=bool)
    first: tuple[int, Part, int] | None = None  # the document, and its place in the second of both runs
    for number, part in task.parts.items():
        digests = digests_of(part.answers)
        order = np.argsort(part.answers.contents, kind="stable")
        order = order[digests[order] != b""]
        at = part.places[order]
        new = seen_in[at] < 0
        seen[at[new]], seen_in[at[new]], seen_at[at[new]] = digests[order[new]], number, order[new]
        other = seen[at] != digests[order]
        differs[at[other]] = True
        if first is None and other.any():
            answer = int(order[other][0])
            first = int(part.places[answer]), part, answer
    if first is None:
        return None
    document, part, answer = first
    earlier = task.parts[int(seen_in[document])], int(seen_at[document])
    return task.documents[document], (earlier, (part, answer)), int(differs.sum())


def _documents(task: JoinedTask) -> list[Refusal]:
    """Documents of one name whose content differs."""
    found = _differing(task, lambda answers: answers.contents)
    if found is None:
        return []
    name, places, number = found
    docs = [part.answers[at].doc for part, at in places]
    where = "its content"
    if columns := differing_columns(*docs):
        values = [f"{_short(doc.get(columns[0]))} in {part.model}" for doc, (part, _) in zip(docs, places, strict=True)]
        where = f"{', '.join(columns)}: {', '.join(values)}"
    reason = f"{number} of {len(task.documents)} documents differ; the first is {name}, in {where}"
    return [Refusal(task.name, "documents", reason)]


def _prompts(task: JoinedTask) -> list[Refusal]:
    """Prompts that differ though the chat templates do not."""
    parts = task.parts.values()
    if len({part.run.settings.chat_template for part in parts}) > 1:
        return []
    found = _differing(task, lambda answers: answers.prompts)
    if found is None:
        return []
    name, places, number = found
    asked = np.unique(np.concatenate([part.places[part.answers.prompts != b""] for part in parts]))
    reason = f"{number} of {len(asked)} prompts differ; the first is that of {name}"
    one, other = (part.answers[at].prompt for part, at in places)
    if one != other:
        at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
        first, second = (part.model for part, _ in places)
        reason += f", from character {at} on: {_short(one[at:])} for {first}, {_short(other[at:])} for {second}"
    return [Refusal(task.name, "prompts", reason)]


def _settings(task: JoinedTask, notes: list[str]) -> list[Refusal]:
    """What the runs' settings say: what forbids a comparison, and in `notes` what does not."""
    runs = {part.model: part.run for part in task.parts.values()}
    with_results = {model: run for model, run in runs.items() if run.results_file}
    with_record = {model: run for model, run in runs.items() if run.provenance}
    forbidden: list[tuple[str, str, dict[str, Any]]] = [
        ("prompts", "prompt's template", {m: s for m, r in runs.items() if (s := r.settings.template[:12])}),
        ("prompts", "number of shots", {m: r.settings.shots for m, r in with_results.items()}),
        ("prompts", "system instruction", {m: r.settings.system_instruction for m, r in with_results.items()}),
        ("detectors", "detector", {m: _detector(r.detector) for m, r in with_record.items() if r.detector}),
        ("calibrations", "calibration", {m: s for m, r in with_record.items() if (s := _calibration(r))}),
    ]
    allowed: list[tuple[str, dict[str, Any]]] = [
        ("chat template", {m: r.settings.chat_template[:12] for m, r in with_results.items()}),
        ("arguments of the generation", {m: dict(r.settings.generation) for m, r in with_results.items()}),
        ("version of the task", {m: r.version for m, r in with_results.items()}),
        ("way to count words", {m: words for m, r in with_record.items() if (words := r.provenance.get("words"))}),
    ]
    notes += [f"another {what}: {different}" for what, values in allowed if (different := _different(values))]
    return [
        Refusal(task.name, kind, f"the {what} differs: {different}")
        for kind, what, values in forbidden
        if (different := _different(values))
    ]


def _detector(detector: Mapping[str, Any]) -> str:
    options = detector.get("options") or {}
    given = sorted(options.items()) if isinstance(options, Mapping) else ()
    shown = "".join(f", {key}={value}" for key, value in given)
    threshold = detector.get("threshold", "none")
    return f"{detector.get('name')} (version {detector.get('version')}, threshold {threshold}{shown})"


def _calibration(run: TaskRun) -> str:
    """The calibration; empty where there is none, and so no corrected rate."""
    found = run.provenance.get("calibration")
    if not isinstance(found, Mapping):
        return ""
    return f"{found.get('file')} ({found.get('annotations')}, {found.get('source')})"


def _different(values: Mapping[str, Any]) -> str:
    """What the models have, where it is not the same: each value with its first model."""
    kinds: dict[str, str] = {}
    for model, value in values.items():
        kinds.setdefault(_short(value) if value != "" else "none", model)
    return "; ".join(f"{value} for {model}" for value, model in kinds.items()) if len(kinds) > 1 else ""


def _short(value: Any) -> str:
    """A value as it stands in messages."""
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:100]}..."
