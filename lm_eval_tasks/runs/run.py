"""A run: one model's results, task by task; with another cost of a made-up answer; its settings and its label."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any

from custom_metrics.broken_run import PROMPTED, Prompting
from custom_metrics.scores import balanced_error
from custom_metrics.statistics.figures import UNDEFINED, Figure, FigureOfStrata, Stratum
from custom_metrics.statistics.strata import mean_of_shares
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import excerpt, on_one_line, shorten
from lm_eval_tasks.data.provenance import mapping
from lm_eval_tasks.data.sources import MissingSource
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.definition.schema import BALANCED, Benchmark, Metric, headline_filter
from lm_eval_tasks.definition.signature import parts_of_group, parts_of_task, signature
from lm_eval_tasks.runs.answers import Answers, Derive, read_answers
from lm_eval_tasks.runs.results_file import metadata_of

LARGEST = 1e60
"""Numbers above it are not computed with: sums of their fourth powers, as of bounds and tests, are no floats."""


@dataclass(frozen=True)
class Settings:
    """The prompt and generation settings of a task. What was not recorded, or not given, is empty."""

    template: str  # SHA-256 of the prompt's template
    shots: int  # examples before the question
    chat_template: str  # SHA-256 of the model's
    system_instruction: str
    generation: Mapping[str, Any]  # its arguments
    limit: float | None  # ``--limit``, ``None`` for all documents
    prompting: Prompting = PROMPTED  # whether a model was prompted, and with a chat template
    chat_template_source: str = ""
    harness: str = ""  # its version

    @property
    def rendered_by(self) -> str | None:
        """The source of the chat template that rendered its prompts; empty where that is not recorded, ``None`` where none
        did: an API's server renders messages itself."""
        return self.chat_template_source if self.chat_template else None


@dataclass(frozen=True)
class TaskRun:
    """A task of a run."""

    task: str
    benchmark: str  # its folder, such as ``nomiracl``; its group, or itself, where it is in no table of ours
    language: str  # a code; empty for a task that names none
    version: Any
    config: Mapping[str, Any]  # from the results file; empty where there is none
    provenance: Mapping[str, Any]  # of its numbers; empty where it is not known
    # Filter to name to figure: ``value``, ``low``, ``high``, ``standard_error``, ``n``, ``denominator``.
    figures: Mapping[str, Mapping[str, Mapping[str, Any]]]
    metrics: tuple[Metric, ...]  # in the order of the harness's table, each as its benchmark's table describes it
    settings: Settings
    results: Mapping[str, Any]  # as the results file has them: ``metric,filter`` to value
    samples: Path | None  # file of its answers; ``None`` where they were not logged
    results_file: Path | None  # ``None`` where the samples have none
    table: Benchmark | None = None  # of its benchmark, also outside of this package; None: see `runs.other_tasks`
    size: Mapping[str, int] = field(default_factory=dict)  # its documents: ``original``, and ``effective`` of a limit
    cost: float = 1.0  # of a made-up answer in the balanced error, see :func:`with_cost`
    _read: dict[tuple[str, str], Figure] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def filters(self) -> tuple[str, ...]:
        """The names of the task's filters, in order."""
        filter_list = self.config.get("filter_list")
        entries = filter_list if isinstance(filter_list, list) else []
        listed = [str(entry.get("name")) for entry in entries if isinstance(entry, Mapping)]
        in_results = dict.fromkeys(key.partition(",")[2] for key in self.results if "," in key)
        return tuple(listed or self.figures or in_results)

    @property
    def detector(self) -> Mapping[str, Any]:
        """The detector that tagged the answers: ``name``, ``version`` and so on; empty where none did."""
        return mapping(self.provenance.get("detector"))

    @property
    def not_comparable(self) -> list[str]:
        """Why its numbers are not comparable with published ones; empty where they are, or nothing is known."""
        reasons = self.provenance.get("not_comparable")
        asked, whole = self.size.get("effective", 0), self.size.get("original", 0)
        if self.table is None and asked < whole:  # ours record it
            return [f"only {asked} of {whole} documents were asked"]
        return [str(reason) for reason in reasons] if isinstance(reasons, (list, tuple)) else []

    @property
    def family(self) -> str:
        """What it is averaged with: its name without its language, ``nomiracl_role`` for ``nomiracl_de_role``; else the
        group of its table, ``mtragun`` for ``mtragun_govt``, or its name. Without a table, its group."""
        if self.table is None:
            return self.benchmark
        name = re.sub(rf"_{re.escape(self.language)}(?=_|$)", "", self.task, count=1) if self.language else self.task
        groups = (group for group in self.table.groups if group.averaged and name == self.task)
        return next((group.name for group in groups if any(task.name == name for task in group.tasks)), name)

    def metric(self, name: str) -> Metric:
        """A metric as the results list it; for figures not listed, :func:`lm_eval_tasks.definition.catalogue.metric_of`
        the name."""
        listed = next((metric for metric in self.metrics if metric.name == name), None)
        metric = listed or catalogue.metric_of(name, self.table)
        return metric if listed or self.cost == 1 else metric.with_cost(self.cost)

    def is_headline(self, metric: str) -> bool:
        """Whether a metric is a headline of its benchmark. If none is marked, all are."""
        metrics = self.metrics if self.table is None else self.table.metrics.values()
        return self.metric(metric).headline or not any(entry.headline for entry in metrics)

    @property
    def part(self) -> str:
        """What it is called among the tasks of its family: its language, its name behind the family's, or its name."""
        return self.task if self.table is None else self.language or self.task.removeprefix(self.family).lstrip("_")

    @property
    def headline_filter(self) -> str:
        """The filter whose numbers compare models, see :func:`lm_eval_tasks.definition.schema.headline_filter`."""
        return headline_filter(self.filters, self.metrics)

    @cached_property
    def signature_parts(self) -> dict[str, str]:
        """What its figures depend on, for :func:`lm_eval_tasks.definition.signature.signature`."""
        asked, documents = self.settings, self.size.get("effective", 0)
        sent = asked.shots, asked.chat_template, asked.system_instruction
        return parts_of_task(self.task, self.config, self.version, documents, asked.harness, *sent, self.cost)

    def figure(self, metric: str, filter_name: str) -> Figure:
        """A figure of the results; undefined where they have none, or one that is not computed with (:data:`LARGEST`), and
        without bounds where they have only the value."""
        if (metric, filter_name) not in self._read:
            self._read[metric, filter_name] = self._figure(metric, filter_name)
        return self._read[metric, filter_name]

    def _figure(self, metric: str, filter_name: str) -> Figure:
        entry = self.figures.get(filter_name, {}).get(metric)
        if isinstance(entry, Mapping):
            keys = "not_measurable" if "not_measurable" in entry else "value", "low", "high", "standard_error"
            value, low, high, error = (number_of(entry.get(key)) for key in keys)
            number = number_of(entry.get("n"))
            figure = Figure(value, low, high, error, 0 if math.isnan(number) else int(number))
            strata = _strata(entry.get("strata"))
            return FigureOfStrata.of(figure, strata) if strata else figure
        value = number_of(self.results.get(f"{metric},{filter_name}"))
        if math.isnan(value):
            return UNDEFINED
        return Figure(value, standard_error=number_of(self.results.get(f"{metric}_stderr,{filter_name}")))

    def answers(self, derive: Derive | None = None) -> Answers:
        """Read the answers with :func:`lm_eval_tasks.runs.answers.read_answers`, anew at each call.

        Raises:
            MissingSource: they were not logged.
            CorruptSource: the samples file is damaged in the middle.
        """
        if self.samples is None:
            raise MissingSource(
                f"{self.results_file}: the answers to {self.task} were not logged beside it; run it with --log_samples"
            )
        cluster = str(metadata_of(self.config, "cluster") or "") if self.table is None and self.results_file else None
        return read_answers(self.samples, derive, cluster)


def number_of(value: Any) -> float:
    """A recorded number; ``nan`` for any other value, and for one that is not computed with (:data:`LARGEST`)."""
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST
    return float(value) if usable else math.nan


def _strata(recorded: Any) -> tuple[Stratum, ...]:
    """The strata of a recorded figure; none where they are damaged."""
    try:
        strata = tuple(Stratum(float(s["share"]), int(s["n"]), float(s["weight"])) for s in recorded or ())
    except (TypeError, ValueError, LookupError, OverflowError):
        return ()
    return strata if all(0 <= s.share <= 1 and 0 < s.n <= LARGEST and 0 <= s.weight <= 1 for s in strata) else ()


def signature_of(tasks: Sequence[TaskRun], group: str = "") -> str:
    """One line of what the figures of a task, or of the mean of a group's tasks, depend on; empty without a task."""
    if not tasks:
        return ""
    parts = [task.signature_parts for task in tasks]
    return signature(parts_of_group(group, parts) if group else parts[0], tasks[0].headline_filter)


@dataclass(frozen=True)
class Run:
    """One model's results."""

    model: str  # its name, as leaderboards file it
    folder: Path  # of the files
    tasks: Mapping[str, TaskRun]  # by name, in the order they were run
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # name to tasks, all of which are in the run
    group_results: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # group to ``metric,filter`` to value
    config: Mapping[str, Any] = field(default_factory=dict)  # from the newest results file: model, arguments, seeds
    date: str = ""  # of the newest file, from its name


# --------------------------------------------------------------------------------------------- what a made-up answer costs


def checked_cost(cost: Any) -> float:
    """A cost as a float; a UsageError unless it is a finite number larger than 0."""
    is_number = isinstance(cost, Real) and not isinstance(cost, bool)
    try:
        number = float(cost) if is_number else math.nan
    except OverflowError:  # an integer of hundreds of digits
        number = math.inf
    if not (math.isfinite(number) and number > 0):
        given = f"{number:g}" if is_number else excerpt(cost)
        raise UsageError(f"--cost takes how many wrong refusals a made-up answer costs, such as 3, got {given}")
    return number


def with_cost(run: Run, cost: float) -> Run:
    """The run as if its balanced errors had been computed with this cost of a made-up answer; errors are those of
    :func:`checked_cost`."""
    cost = checked_cost(cost)
    if all(task.cost == cost for task in run.tasks.values()):
        return run
    tasks = {name: _task_with_cost(task, cost) for name, task in run.tasks.items()}
    groups: dict[str, Mapping[str, Any]] = {}
    for group, results in run.group_results.items():
        changed = dict(results)
        for key in [key for key in results if key.partition(",")[0] in (BALANCED, f"{BALANCED}_stderr")]:
            name, _, filter_name = key.partition(",")
            figure = mean_of_shares([tasks[task].figure(BALANCED, filter_name) for task in run.groups.get(group, ())])
            changed[key] = figure.value if name == BALANCED else figure.standard_error
        groups[group] = changed
    return replace(run, tasks=tasks, group_results=groups)


def _task_with_cost(task: TaskRun, cost: float) -> TaskRun:
    figures, results = dict(task.figures), dict(task.results)
    for filter_name, by_metric in task.figures.items():
        if BALANCED in by_metric:
            figure = balanced_error.with_cost(task.figure(BALANCED, filter_name), cost)
            weighed = figure.as_json(task.metric(BALANCED).with_cost(cost).denominator)
            figures[filter_name] = {**by_metric, BALANCED: weighed}
            results |= {
                f"{BALANCED},{filter_name}": figure.value,
                f"{BALANCED}_stderr,{filter_name}": figure.standard_error,
            }
    metrics = tuple(metric.with_cost(cost) for metric in task.metrics)
    return replace(task, figures=figures, results=results, metrics=metrics, cost=cost)


# ------------------------------------------------------------ the settings in which runs of one model differ, and labels

SETTINGS = ("version", "prompt", "system_instruction", "template", "shots", "retriever", "detector", "generation")
"""How a model was asked, and its answers tagged. ``version`` is the task's, ``template`` the chat template."""

_SAID_BY_OTHERS = {"calibration": ("detector",), "task": SETTINGS}
"""Further settings, which are not listed where one of others differs."""

SettingsOfTask = Mapping[str, Mapping[str, str]]
"""Setting to its parts, as text. The part ``""`` is its name: where that differs, the other parts say nothing more."""

_LONGEST = 40  # characters of a text in a label


def recorded_settings(task: TaskRun) -> dict[str, Any]:
    """How a task was asked and scored, as far as its run recorded it, as JSON holds it: what pages, tables, model cards and
    comparisons say of settings. What is not recorded is empty, or ``None``."""
    asked, record = task.settings, task.provenance
    return {
        "version": task.version,
        **{name: record.get(name) for name in ("split", "kept", "left_out", "read_from")},
        "options": mapping(record.get("options")),
        "retrieval": mapping(record.get("retrieval")),
        "template": asked.template,
        "shots": asked.shots,
        "chat_template": asked.chat_template,
        "system_instruction": asked.system_instruction,
        "generation": asked.generation,
        "limit": asked.limit,
        "detector": task.detector,
        "calibration": {key: value for key, value in mapping(record.get("calibration")).items() if key != "models"},
        "versions": mapping(record.get("versions")),
    }


def settings_of(task: TaskRun) -> SettingsOfTask:
    """The known settings of a task: what a results file does not record is missing."""
    settings: dict[str, Mapping[str, str]] = {"task": {"": task.task}}
    recorded, named = recorded_settings(task), catalogue.variant_of(task.task)[1]
    if digest := recorded["template"]:
        settings["prompt"] = {"": f"prompt {named.get('prompt', task.family)}", "template": f"prompt {digest[:7]}"}
    if task.results_file is not None:
        instruction, template, shots = (recorded[key] for key in ("system_instruction", "chat_template", "shots"))
        settings |= {
            "system_instruction": {"": f'instruction "{instruction}"' if instruction else "no instruction"},
            "template": {
                "": f"template {'on' if task.settings.prompting.chat_template else 'off'}",
                "sha256": f"template {template[:7] or 'of the server'}",
            },
            "shots": {"": f"{shots} shot{'' if shots == 1 else 's'}"},
            "generation": _assigned(recorded["generation"]),
            "version": {"": f"version {_version(recorded['version'])}"},
        }
    if retrieval := recorded["retrieval"]:
        settings["retriever"] = {**_assigned(retrieval), "": f"retriever {retrieval.get('retriever')}"}
    if detector := recorded["detector"]:
        options = {"version": detector.get("version"), "threshold": detector.get("threshold")}
        options |= mapping(detector.get("options"))
        settings["detector"] = {**_assigned(options), "": f"detector={detector.get('name')}"}
    if calibration := recorded["calibration"]:
        of_file = {"annotations": calibration.get("annotations"), "source": calibration.get("source")}
        settings["calibration"] = {**_assigned(of_file), "": f"calibration={calibration.get('file')}"}
    return settings


def _version(version: Any) -> str:
    return "unknown" if version is None else f"{version:g}" if isinstance(version, (int, float)) else str(version)


def settings_of_run(run: Run) -> dict[str, SettingsOfTask]:
    """The settings of each task, by the first task of its table that asks the same documents."""
    return {catalogue.variant_of(name)[0]: settings_of(task) for name, task in run.tasks.items()}


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


def labels(runs: Sequence[Run]) -> list[str]:
    """A short, unique name for each run: its model's, with the settings in which runs of the model differ; with folder,
    date or number where these are equal, too."""
    known = [*map(settings_of_run, runs)]
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
