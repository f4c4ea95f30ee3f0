"""The settings in which runs of one model differ, and labels of runs that name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from custom_metrics.usage.printable import on_one_line, shorten
from lm_eval_tasks.definition.catalogue import variant_of
from lm_eval_tasks.runs.results_file import mapping
from lm_eval_tasks.runs.run import Run, TaskRun

SETTINGS = ("prompt", "system_instruction", "template", "shots", "retriever", "detector", "generation")
"""How a model was asked, and its answers tagged. ``template`` is the chat template."""

_SAID_BY_OTHERS = {"calibration": ("detector",), "task": SETTINGS}
"""Further settings, which are not listed where one of others differs."""

SettingsOfTask = Mapping[str, Mapping[str, str]]
"""Setting to its parts, as text. The part ``""`` is its name: where that differs, the other parts say nothing more."""

_LONGEST = 40  # characters of a text in a label


def settings_of(task: TaskRun) -> SettingsOfTask:
    """The known settings of a task: what a results file does not record is missing."""
    settings: dict[str, Mapping[str, str]] = {"task": {"": task.task}}
    asked, named, record = task.settings, variant_of(task.task)[1], task.provenance
    if asked.template:
        name = named.get("prompt", task.family)
        settings["prompt"] = {"": f"prompt {name}", "template": f"prompt {asked.template[:7]}"}
    if task.results_file is not None:
        instruction, template = asked.system_instruction, asked.chat_template[:7]
        settings |= {
            "system_instruction": {"": f'instruction "{instruction}"' if instruction else "no instruction"},
            "template": {"": f"template {'on' if template else 'off'}", "sha256": f"template {template}"},
            "shots": {"": f"{asked.shots} shot{'' if asked.shots == 1 else 's'}"},
            "generation": _assigned(asked.generation),
        }
    if retrieval := mapping(record.get("retrieval")):
        settings["retriever"] = {**_assigned(retrieval), "": f"retriever {retrieval.get('retriever')}"}
    if detector := task.detector:
        options = {"version": detector.get("version"), "threshold": detector.get("threshold")}
        options |= mapping(detector.get("options"))
        settings["detector"] = {**_assigned(options), "": f"detector={detector.get('name')}"}
    if calibration := mapping(record.get("calibration")):
        of_file = {"annotations": calibration.get("annotations"), "source": calibration.get("source")}
        settings["calibration"] = {**_assigned(of_file), "": f"calibration={calibration.get('file')}"}
    return settings


def settings_of_run(run: Run) -> dict[str, SettingsOfTask]:
    """The settings of each task, by the first task of its table that asks the same documents."""
    return {variant_of(name)[0]: settings_of(task) for name, task in run.tasks.items()}


def _assigned(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: f"{name}={value}" for name, value in values.items()}


def differing(runs: Sequence[Mapping[str, SettingsOfTask]]) -> dict[str, list[str]]:
    """The settings in which runs differ on a task that they share, each with its text for every run. Stop strings are not
    listed where prompts differ, to which they belong; the task's name is, where nothing else differs.

    Args:
        runs: the settings of each run, by task.
    """
    texts: dict[str, list[dict[str, None]]] = {}
    for task in dict.fromkeys(task for run in runs for task in run):
        differ: set[str] = set()
        for setting in (*SETTINGS, *_SAID_BY_OTHERS):
            parts_of = {n: run[task][setting] for n, run in enumerate(runs) if setting in run.get(task, {})}
            names = dict.fromkeys(name for parts in parts_of.values() for name in parts)
            other = [name for name in names if len({parts.get(name, "") for parts in parts_of.values()}) > 1]
            said = {*differ} & {*_SAID_BY_OTHERS.get(setting, ())}
            shown = [""] if "" in other else [name for name in other if name != "until" or "prompt" not in differ]
            if shown and not said:
                differ.add(setting)
                for number, parts in parts_of.items():
                    of_run = texts.setdefault(setting, [{} for _ in runs])[number]
                    of_run |= dict.fromkeys(text for name in shown if (text := parts.get(name, "")))
    return {setting: [_listed([*of_run]) for of_run in of_setting] for setting, of_setting in texts.items()}


def _listed(texts: Sequence[str]) -> str:
    """Texts in a row, without a first word that all share: ``prompt flan, role``. Long ones are cut in the middle."""
    short = [
        text if len(text) <= _LONGEST else f"{text[: _LONGEST - 16]}…{text[-15:]}" for text in map(on_one_line, texts)
    ]
    word = short[0].partition(" ")[0] + " " if short else ""
    if all(text.startswith(word) for text in short):
        short[1:] = [text.removeprefix(word) for text in short[1:]]
    return shorten(short)


def labels(runs: Sequence[Run], known: Sequence[Mapping[str, SettingsOfTask]] | None = None) -> list[str]:
    """A short, unique name for each run: its model's, with the settings in which runs of the model differ; with folder,
    date or number where these are equal, too. `known` has the settings of runs whose tasks were not read."""
    known = known or [*map(settings_of_run, runs)]
    notes: list[list[str]] = [[] for _ in runs]
    for model in {run.model for run in runs}:
        numbers = [number for number, run in enumerate(runs) if run.model == model]
        for of_runs in differing([known[number] for number in numbers]).values():
            for number, text in zip(numbers, of_runs, strict=True):
                notes[number] += [text] if text else []

    def names() -> list[str]:
        return [
            f"{run.model} ({', '.join(note)})" if note else run.model for run, note in zip(runs, notes, strict=True)
        ]

    for form in ("{0.folder.name}", "{0.date}"):
        named = names()
        for run, note, name in zip(runs, notes, named, strict=True):
            note += filter(None, [form.format(run)] if named.count(name) > 1 else [])
    named = names()
    return [
        f"{name} #{named[: number + 1].count(name)}" if named.count(name) > 1 else name
        for number, name in enumerate(named)
    ]
