"""The documents that several runs have in common, and whether they were asked and scored alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval_tasks.commands.work.comparing.comparison import Joined, Refusal
from lm_eval_tasks.runs import Answer, TaskRun, differing_columns

__all__ = ["JoinedTask", "join", "unknown_detectors", "unread"]


@dataclass(frozen=True)
class JoinedTask:
    """A task of several runs.

    Attributes:
        name: of the task.
        runs: of each model; ``None`` for one that did not run it.
        answers: of each model, document to answer; empty for one that did not run it.
        documents: all of them, in an order that does not depend on that of the runs.
    """

    name: str
    runs: tuple[TaskRun | None, ...]
    answers: tuple[Mapping[str, Answer], ...]
    documents: tuple[str, ...]

    @property
    def any_run(self) -> TaskRun:
        """One of the runs; what they share can be asked of it."""
        return next(run for run in self.runs if run is not None)

    @property
    def filters(self) -> tuple[str, ...]:
        """The filters that read the answers, in the order of the task's YAML where that is known."""
        read = {name for answers in self.answers for answer in answers.values() for name in answer.readings}
        listed = [name for run in self.runs if run is not None for name in run.filters if name in read]
        return tuple(dict.fromkeys((*listed, *sorted(read))))

    def summary(self) -> Joined:
        """How many documents are common, and how many are in one run only."""
        times = Counter(document for answers in self.answers for document in answers)
        only = tuple(
            None if run is None else sum(times[document] == 1 for document in answers)
            for run, answers in zip(self.runs, self.answers, strict=True)
        )
        return Joined(self.name, sum(number > 1 for number in times.values()), only)


def join(
    name: str, runs: Sequence[TaskRun | None], models: Sequence[str]
) -> tuple[JoinedTask | None, list[Refusal], list[str]]:
    """A task of several runs, joined by the content of its documents.

    Args:
        name: of the task.
        runs: of each model; ``None`` for one that did not run it.
        models: names.

    Returns:
        The joined task, ``None`` if it cannot be compared; why it cannot; and what differs without harm.

    Raises:
        MissingSource: answers were not logged.
        CorruptSource: a samples file is damaged.
    """
    present = [(model, run) for model, run in zip(models, runs, strict=True) if run is not None]
    refusals, notes = _settings(name, present)
    answers = [_by_document(run.answers()) if run is not None else {} for run in runs]
    chat = {run.settings.chat_template for _, run in present}
    refusals += _documents(name, models, answers)
    if not refusals:
        refusals += _prompts(name, models, answers, one_template=len(chat) == 1)
    if not any(refusal.kind in ("detectors", "calibrations") for refusal in refusals):
        refusals += _tagged(name, models, answers)
    if refusals:
        return None, refusals, notes
    documents = tuple(sorted({document for of_run in answers for document in of_run}))
    joined = JoinedTask(name, tuple(runs), tuple(answers), documents)
    if joined.summary().documents == 0:
        first = [
            f"{model} has {next(iter(found), 'none')}" for model, found in zip(models, answers, strict=True) if found
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
        read = sum(filter_name in answer.readings for answer in answers.values())
        file = run.samples.name if run.samples is not None else "its samples file"
        if read == 0:
            others = dict.fromkeys(name for answer in answers.values() for name in answer.readings)
            reason = (
                f"the samples of {model} have no row of the filter {filter_name}, only of {', '.join(others)}: {file} was "
                f"cut, or is of another version of the task; run it again, or say --filter {next(iter(others), 'none')}"
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
    return [
        model
        for model, run, answers in zip(models, task.runs, task.answers, strict=True)
        if run is not None
        and not run.detector
        and any(
            reading.values.get(metric) is not None and not any(map(_key_of, reading.values.values()))
            for answer in answers.values()
            if (reading := answer.readings.get(filter_name)) is not None
        )
    ]


def _key_of(value: Any) -> str:
    """The key of a calibration, and so of a detector, that the value of a rate names."""
    return str(value.get("calibration") or "") if isinstance(value, Mapping) else ""


def _by_document(answers: Sequence[Answer]) -> dict[str, Answer]:
    """Answers by what their document is called; a name that comes again is numbered, in the order of the contents."""
    found: dict[str, Answer] = {}
    times: Counter[str] = Counter()
    for answer in sorted(answers, key=lambda answer: answer.content):
        times[answer.key] += 1
        number = times[answer.key]
        found[answer.key if number == 1 else f"{answer.key} #{number}"] = answer
    return found


def _documents(name: str, models: Sequence[str], answers: Sequence[Mapping[str, Answer]]) -> list[Refusal]:
    """Documents of one name whose content differs."""
    seen: dict[str, tuple[int, Answer]] = {}
    differing: list[tuple[str, int, int]] = []
    for place, of_run in enumerate(answers):
        for document, answer in of_run.items():
            before = seen.setdefault(document, (place, answer))
            if before[1].content != answer.content:
                differing.append((document, before[0], place))
    if not differing:
        return []
    document, first, second = differing[0]
    docs = answers[first][document].doc, answers[second][document].doc
    columns = differing_columns(*docs)
    example = ", ".join(columns) or "its content"
    said = ""
    if columns:
        one, other = (_short(doc.get(columns[0])) for doc in docs)
        said = f": {one} in {models[first]}, {other} in {models[second]}"
    number = len({document for document, _, _ in differing})
    return [
        Refusal(
            name,
            "documents",
            f"{number} of {len(seen)} documents differ; the first is {document}, in {example}{said}",
        )
    ]


def _prompts(
    name: str, models: Sequence[str], answers: Sequence[Mapping[str, Answer]], one_template: bool
) -> list[Refusal]:
    """Prompts that differ though the chat templates do not."""
    if not one_template:
        return []
    seen: dict[str, tuple[int, str]] = {}
    differing: list[tuple[str, int, int]] = []
    for place, of_run in enumerate(answers):
        for document, answer in of_run.items():
            if answer.prompt_hash:
                before = seen.setdefault(document, (place, answer.prompt_hash))
                if before[1] != answer.prompt_hash:
                    differing.append((document, before[0], place))
    if not differing:
        return []
    document, first, second = differing[0]
    number = len({document for document, _, _ in differing})
    one, other = answers[first][document].prompt, answers[second][document].prompt
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    shown = (
        f", from character {at} on: {_short(one[at:])} for {models[first]}, {_short(other[at:])} for {models[second]}"
    )
    return [
        Refusal(
            name,
            "prompts",
            f"{number} of {len(seen)} prompts differ; the first is that of {document}{shown if one != other else ''}",
        )
    ]


def _tagged(name: str, models: Sequence[str], answers: Sequence[Mapping[str, Answer]]) -> list[Refusal]:
    """Detectors and calibrations that differ, as the values of rates name them: samples may have no results file."""
    keys = [
        sorted(
            {
                key
                for answer in of_run.values()
                for reading in answer.readings.values()
                for value in reading.values.values()
                if (key := _key_of(value))
            }
        )
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
