"""Runs compared pair by pair, over the documents that they have in common.

:func:`compare_runs` takes runs (:func:`lm_eval_tasks.runs.read_runs`) and gives a :class:`Comparison`: plain values, for
the command, the report and Python. It joins answers by their documents (:mod:`~lm_eval_tasks.results.joining`), measures
each metric (:mod:`~lm_eval_tasks.results.measuring`), and has the board compare columns of them
(:mod:`~lm_eval_tasks.results.compare.columns`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from custom_metrics.statistics.figures import Figure, is_measurable
from custom_metrics.statistics.intervals import SIGNIFICANCE, Z95
from custom_metrics.statistics.multiple_comparisons import better
from custom_metrics.statistics.paired_difference import (
    MOVER,
    TANGO,
    PairedDifference,
    detectable_difference,
    difference_at,
)
from custom_metrics.usage.options import known_instead
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import shorten
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.definition.catalogue import hint
from lm_eval_tasks.definition.schema import BALANCED, Metric
from lm_eval_tasks.results import joining
from lm_eval_tasks.results.board import Cell, Column, Costs, best_by_cost
from lm_eval_tasks.results.compare.columns import Groups, MeasuredTask, columns_of, measure_task
from lm_eval_tasks.results.doubts import by_part, read_answers
from lm_eval_tasks.results.joining import DocumentCounts, JoinedTask, Refusal
from lm_eval_tasks.runs import Answers, Run, TaskRun, labels
from lm_eval_tasks.runs.other_tasks import described
from lm_eval_tasks.runs.run import differing, settings_of, signature_of

__all__ = ["Comparison", "Difference", "DocumentCounts", "Incomparable", "Refusal", "compare_runs"]

_NAMED = 6  # tasks or models in a message
_REMEDIES = {
    "versions": "Another version asks or scores otherwise: run both with the same, or score the answers again.",
    "documents": "Run both models on the same data: the same mirror or revision, the same retriever.",
    "prompts": "Run both models with the same prompt, shots and system instruction.",
    "detectors": "Tag the answers of both alike: `lm-eval-grounded score RUN --detector NAME -o DIR`.",
    "calibrations": "Correct both alike: `lm-eval-grounded score RUN --calibration NAME -o DIR`.",
    "answers": "",
}


_ROW = (
    "task benchmark language group tasks metric filter higher_is_better headline first second first_value second_value "
    "difference low high p p_exact p_adjusted family n unit only_first only_second first_own second_own method denominator "
    "first_measurable second_measurable standard_error documents significant detectable"
).split()


class Difference(NamedTuple):
    """The difference of two models of a column, first less second."""

    column: Column
    first: int  # the models, by their places in :attr:`Comparison.models`
    second: int
    result: PairedDifference  # without bounds of its own, its standard error is a quarter of their width
    p_adjusted: float  # by Holm, over the `family`: :func:`custom_metrics.statistics.multiple_comparisons.adjusted`
    family: int
    tasks: int  # that both have
    unit: str  # of what was paired, `n` of the result: documents, articles, questions
    documents: int  # that were paired
    only_first: int  # documents that count only for one of the models, and are in neither value
    only_second: int

    @property
    def metric(self) -> Metric:
        return self.column.metric

    @property
    def of_shares(self) -> bool:
        """Whether both values are shares of documents."""
        return self.result.method in (TANGO, MOVER)

    @property
    def detectable(self) -> float:
        """The smallest difference that so many documents show with a power of 80 %, without correction for others."""
        return detectable_difference(self.result.standard_error, self.result.n if self.of_shares else 0)

    @property
    def cells(self) -> tuple[Cell, Cell]:
        """Both models over all documents that count for them. Values can be not measurable where the difference is."""
        return self.column.cells[self.first], self.column.cells[self.second]

    @property
    def has_values(self) -> bool:
        """Whether both values may be shown as numbers (:mod:`custom_metrics.statistics.figures`)."""
        return all(cell.is_measurable for cell in self.cells)

    @property
    def is_measurable(self) -> bool:
        """Whether the difference may be shown, on a scale twice as long as the metric's. Without bounds, whether both
        values may be."""
        difference, low, high = self.result[2:5]
        if math.isnan(low + high):
            return self.has_values
        return is_measurable(Figure(difference / 2, low / 2, high / 2), self.metric.unit)

    @property
    def significant(self) -> bool:
        """Whether the models differ, at 5 % for the whole family."""
        return self.p_adjusted < SIGNIFICANCE

    @property
    def better(self) -> int | None:
        """Number of the model that is significantly better; ``None`` where none is, or neither direction is better."""
        sign = better(self.result.difference, self.p_adjusted, self.metric.higher_is_better)
        return {1: self.first, -1: self.second}.get(int(sign))

    def turned(self) -> Difference:
        """The same difference, of the second model less the first."""
        first, second, difference, low, high = self.result[:5]
        result = PairedDifference(second, first, -difference, -high, -low, *self.result[5:])
        turned = self._replace(first=self.second, second=self.first, result=result)
        return turned._replace(only_first=self.only_second, only_second=self.only_first)

    def as_json(self, models: Sequence[str]) -> dict[str, Any]:
        """A row of ``compare --format csv``, with names of models; ``None`` for what is not defined."""
        (one, other), result = self.cells, self.result._asdict()
        row = {**vars(self.column), **self._asdict(), **result, "task": self.column.name, "metric": self.metric.name}
        row |= {name: getattr(self.metric, name) for name in ("higher_is_better", "denominator")}
        row |= {name: getattr(self, name) for name in ("significant", "detectable")}
        row |= {"first": models[self.first], "first_value": result["first"], "first_own": one.value}
        row |= {"second": models[self.second], "second_value": result["second"], "second_own": other.value}
        row |= {"first_measurable": one.is_measurable, "second_measurable": other.is_measurable}
        unknown = {name for name in _ROW if isinstance(row[name], float) and not math.isfinite(row[name])}
        return {name: None if name in unknown else row[name] for name in _ROW}


def differences_of(column: Column, places: Iterable[int] | None = None) -> Iterator[Difference]:
    """The rows of a column, of all pairs or of those at some places."""
    tested = column.tested
    for place in range(len(tested)) if places is None else places:
        one, other = tested.pairs[place].tolist()
        result, both = difference_at(tested.found, place), column.shared((one, other))
        counts = (sum(task.common(*of) for task in both) for of in ((one, other), (one, one), (other, other)))
        documents, first, second = counts
        if math.isnan(result.standard_error):
            result = result._replace(standard_error=(result.high - result.low) / (2 * Z95))
        unit = "passages" if result.n < documents and both[0].unit == "documents" else both[0].unit  # that tasks share
        only = first - documents, second - documents
        p, family = float(tested.p[place]), int(tested.family[place])
        yield Difference(column, one, other, result, p, family, len(both), unit, documents, *only)


class Incomparable(ValueError):
    """Runs were not asked the same or not scored in the same way. The message says what differs and what to do."""


@dataclass(frozen=True)
class Comparison:
    """Runs compared pair by pair."""

    models: tuple[str, ...]  # all different
    columns: Sequence[Column]  # headline metrics first, groups before their tasks
    joined: tuple[DocumentCounts, ...]  # of each task, which documents were compared
    notes: tuple[str, ...]  # what a reader should know: other generation settings, left out documents and metrics
    refused: tuple[Refusal, ...] = ()  # tasks that cannot be compared, and were left out
    across: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # setting that differs to its value by model
    paired: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # task to its other names in runs
    doubts: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # about a model's answers
    costs: Mapping[str, Costs] = field(default_factory=dict)  # of three models and more: by task or group
    signatures: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # task or group to its signature by model
    # By task, groups of models that were asked the same, and what sets each apart from the first; and further comparisons,
    # of the models in second groups, in third groups ...
    groups: Mapping[str, Sequence[tuple[Sequence[int], str]]] = field(default_factory=dict)
    apart: Sequence[Comparison] = ()
    runs: Sequence[Run] = field(default=(), repr=False, compare=False)  # of the models; across settings, parts of runs

    @cached_property
    def differences(self) -> list[Difference]:
        """Those of all columns and pairs: 200 runs have 20,000 in each column."""
        return [row for column in self.columns for row in differences_of(column)]

    def select(self, metric: str, task: str | None = None) -> Iterator[Difference]:
        """The differences on a metric, of one task or of all."""
        chosen = (each for each in self.columns if each.metric.name == metric and task in (None, each.name))
        return (row for column in chosen for row in differences_of(column))

    @cached_property
    def spanning(self) -> list[Difference]:
        """Of each column a difference of every model: to the first of its order, where the two can be compared. What is
        said of many models rests on these; of two they are all."""
        return [row for column in self.columns for row in differences_of(column, _spanning(column))]

    def column(self, metric: str, task: str) -> Column | None:
        """The models on a metric of a task or group; ``None`` where it is not compared."""
        return next((each for each in self.columns if (each.metric.name, each.name) == (metric, task)), None)

    def group_of(self, run: int, tasks: Iterable[str]) -> tuple[int, str]:
        """The number of the group in which a run is compared on some tasks, the first on any of them; and what sets that
        apart from the first one."""
        groups = [(n, why) for task in tasks for n, (runs, why) in enumerate(self.groups.get(task, ())) if run in runs]
        return min(groups, default=(0, ""))

    def of_group(self, number: int) -> Comparison:
        """The comparison of the models in the groups of a number, of which there may be none."""
        others = [self, *self.apart]
        return others[number] if number < len(others) else Comparison(self.models, (), (), ())

    def as_json(self) -> dict[str, Any]:
        """The comparison as a JSON object, with names of models, and ``null`` for what is not defined."""
        names = self.models

        def by_model(values: Iterable[Any]) -> dict[str, Any]:
            return dict(zip(names, values, strict=True))

        return {
            "models": names,
            "differences": [row.as_json(names) for row in self.differences],
            "joined": [{**asdict(task), "only": by_model(task.only)} for task in self.joined],
            "notes": self.notes,
            "refused": [*map(asdict, self.refused)],
            "across": self.across,
            "paired": self.paired,
            "doubts": {names[model]: [*doubts] for model, doubts in self.doubts.items()},
            "costs": {
                task: {
                    "at": [
                        {**asdict(at), "best": names[at.best], "equals": [names[n] for n in at.equals]} for at in of.at
                    ],
                    "turns": [(cost, names[model]) for cost, model in of.turns],
                }
                for task, of in self.costs.items()
            },
            "signatures": {name: by_model(lines) for name, lines in self.signatures.items()},
        }


def _spanning(column: Column) -> list[int]:
    pairs = column.tested.pairs
    first = next((run for run in column.order if run in pairs), -1)
    places: list[int] = np.flatnonzero((pairs == first).any(axis=1)).tolist()
    seen = {*np.unique(pairs[places]).tolist()}
    for place, pair in enumerate(pairs.tolist() if len(seen) < len(column.cells) else ()):
        if not seen.issuperset(pair):
            places.append(place)
            seen.update(pair)
    return places


def compare_runs(
    runs: Sequence[Run],
    tasks: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    every_metric: bool = False,
    filter_name: str | None = None,
    refuse: bool = True,
    progress: Callable[[Sequence[str]], Iterator[str]] = iter,
    read_answers: Callable[[TaskRun], Answers] = read_answers,
    across: Collection[str] = (),
    pairs: Sequence[str] = (),
) -> Comparison:
    """Compare runs, all pairs of them.

    Args:
        runs: two or more; one, if it has tasks that are paired.
        tasks: names of tasks and groups; default all that two runs have.
        metrics: names; default the headlines of each benchmark.
        every_metric: all metrics instead.
        filter_name: the filter whose readings count, such as ``strict``; default
            :func:`lm_eval_tasks.definition.schema.headline_filter`.
        refuse: raise an error if a task cannot be compared. Else runs that were not asked the same are compared apart, and
            what is left out is said in ``refused``; so too where answers were not logged.
        progress: goes through the names of the tasks; :class:`tqdm.tqdm` shows a bar.
        read_answers: gives the answers of a task; for callers that have read them already.
        across: settings in which runs of one model may differ (:data:`~lm_eval_tasks.results.joining.ACROSS`).
            Tasks of other names that ask the same documents with another prompt or retriever are then compared, too.
        pairs: further tasks or groups that are compared, as ``A=B``.

    Raises:
        Incomparable: documents, prompts, detectors or calibrations differ, and not in `across`.
        UsageError: there is nothing to compare: fewer than two runs, no common task, an unknown task, metric or filter; or
            runs are of several models, and `across` does not name the model.
        MissingSource: a run's answers were not logged.
        CorruptSource: a samples file is damaged.
    """
    of_models = dict.fromkeys(run.model for run in runs)
    varied = ["model", *across] if len(of_models) > 1 else [*across]
    other_names, alone = joining.hint_at_variants(runs, varied), f" ({runs[0].folder})" if runs else ""
    names: Mapping[str, str] = {}
    if across or pairs:
        runs, names = joining.pair_tasks(runs, across, pairs)
        tasks = tasks and [names.get(name, name) for name in tasks]
    if len(runs) < 2:
        found_runs = f"only one run was found{alone}" if runs else "no run was found"
        raise UsageError(f"{found_runs}; a comparison needs two or more{other_names and f'. {other_names}'}")
    if across and "model" not in across and len(of_models) > 1:
        raise UsageError(
            f"--across {','.join(across)} compares runs of one model; here are {shorten([*of_models], _NAMED)}. Compare "
            f"each by itself, or across models, too: --across {','.join(varied)}"
        )
    models = labels(runs)
    groups = _common_groups(runs)
    refused: list[Refusal] = []
    notes: dict[str, list[str]] = {}  # text to the tasks that it concerns
    joined: list[DocumentCounts] = []
    compared: list[dict[str, MeasuredTask]] = [{}]  # of the first groups, of second groups, of third groups ...
    by_task: dict[str, list[tuple[Sequence[int], str]]] = {}
    for name in progress(_chosen_tasks(runs, models, groups, tasks, other_names)):
        task_runs = {number: run.tasks[name] for number, run in enumerate(runs) if name in run.tasks}
        if not refuse:
            why = "the answers of {} were not logged (--log_samples)"
            unlogged = [number for number, run in task_runs.items() if run.samples is None]
            refused += [Refusal(name, "answers", why.format(models[number])) for number in unlogged]
            task_runs = {number: run for number, run in task_runs.items() if run.samples is not None}
            if len(task_runs) < 2:
                continue
        of_runs = [(number, run, read_answers(run)) for number, run in task_runs.items()]
        answers = {n: (models[n], described(run, of_run, bounds=False), of_run) for n, run, of_run in of_runs}
        task = JoinedTask.join(name, answers)
        parts = [(task, "")] if refuse else joining.comparable(task, across)
        if len(parts) == len(task.runs):  # no two are alike
            refused += joining.check_joined(task, [], across) or [Refusal(name, "documents", parts[1][1])]
            continue
        by_task[name] = [([*part.runs], why) for part, why in parts]
        task_notes: list[str] = []
        for place, (part, _) in enumerate(parts):
            if len(part.runs) < 2:
                continue
            if refusals := joining.check_joined(part, task_notes, across):
                refused += refusals
                continue
            measured = measure_task(part, metrics, every_metric, filter_name)
            refused += measured.refusals
            if not measured.refusals:
                task_notes += measured.notes
                joined += [part.count_documents(len(runs))] if place == 0 else []
                compared += [{} for _ in range(len(compared), place + 1)]
                compared[place][name] = measured
        for note in task_notes:
            notes.setdefault(note, []).append(name)
    if refused and refuse:
        raise Incomparable(_refusal_message(refused, varied))
    first = compared[0]
    if metrics and not refused:
        missing = [name for name in metrics if not any(name in task.measured for task in first.values())]
        reasons = {metric: why for task in reversed(first.values()) for metric, why in task.unmeasured.items()}
        if whys := [f"{metric}: {reasons[metric]}" for metric in missing if metric in reasons]:
            raise Incomparable(f"the runs cannot be compared. {'; '.join(whys)}")
        if missing:
            listed = sorted({metric.name for task in first.values() for metric in task.run.metrics})
            raise UsageError(f"no common task has the metric {', '.join(missing)}{known_instead(missing[0], listed)}")
    chosen_groups = {name: members for name, members in groups.items() if not tasks or name in tasks}
    messages = [f"{shorten(names, 3)}: {note}" for note, names in notes.items()]
    whole = _of_columns(runs, models, chosen_groups, first, messages)
    for model, run in zip(models, runs, strict=True):
        unshared = [name for name in run.tasks if sum(name in other.tasks for other in runs) == 1]
        if unshared and not tasks:
            messages.append(f"only {model} has {shorten(unshared, _NAMED)}")
    if other_names and refuse and len(messages) > len(notes):  # they have tasks of which nothing is said
        messages.append(other_names)
    settings = [{name: settings_of(run.tasks[name]) for name in first if name in run.tasks} for run in runs]
    named = {*across, *(["calibration"] if "detector" in across else [])}
    differ = {setting: tuple(texts) for setting, texts in differing(settings).items() if setting in named}
    if across and not differ and len(of_models) < 2:
        messages.append(f"what is recorded of the runs does not differ in what --across names ({', '.join(across)})")
    paired = {name: dict.fromkeys(run.tasks[name].task for run in runs if name in run.tasks) for name in first}
    return replace(
        whole,
        joined=tuple(joined),
        notes=tuple(dict.fromkeys(messages)),
        refused=tuple(refused),
        across=differ,
        paired={name: tuple(names) for name, names in paired.items() if len(names) > 1},
        groups=by_task,
        apart=[_of_columns(runs, models, chosen_groups, of_groups, []) for of_groups in compared[1:]],
        runs=runs,
    )


def _of_columns(
    runs: Sequence[Run],
    models: Sequence[str],
    groups: Groups,
    compared: Mapping[str, MeasuredTask],
    messages: list[str],
) -> Comparison:
    """What the columns of measured tasks say of the runs in them."""

    def measured(number: int, run: Run) -> Run:
        of_run = {name for name, task in compared.items() if number in task.doubts}
        return replace(run, tasks={name: task for name, task in run.tasks.items() if name in of_run})

    runs = [measured(number, run) for number, run in enumerate(runs)]
    columns = columns_of(runs, groups, compared, messages)
    doubts = [
        {name: [summary for _, summary, _ in task.doubts.get(run, ())] for name, task in compared.items()}
        for run in range(len(runs))
    ]
    costs: dict[str, Costs] = {}
    for column in columns if len(runs) > 2 else ():
        if column.metric.name == BALANCED and (best := best_by_cost(column, next(iter(compared.values())).run.cost)):
            costs.setdefault(column.name, best)
    signatures: dict[str, tuple[str, ...]] = {}  # empty of a run that lacks the task or group
    for name in dict.fromkeys(column.name for column in columns):
        of_runs = [[run.tasks[each] for each in groups.get(name, (name,)) if each in run.tasks] for run in runs]
        signatures[name] = tuple(signature_of(tasks, name if name in groups else "") for tasks in of_runs)
    by_model = {number: texts for number in range(len(runs)) if (texts := by_part(doubts[number]))}
    return Comparison(tuple(models), columns, (), (), doubts=by_model, costs=costs, signatures=signatures)


def _common_groups(runs: Sequence[Run]) -> dict[str, Sequence[str]]:
    """The groups that two runs have completely, with the same tasks; of our other groups, the tasks that two runs have."""
    common: dict[str, Sequence[str]] = {}
    for first, second in combinations(runs, 2):
        for name, members in first.groups.items():
            if {*second.groups.get(name, ())} == {*members}:
                common.setdefault(name, members)
    times = Counter(name for run in runs for name in run.tasks)
    both = {group: [name for name in tasks if times[name] > 1] for group, tasks in catalogue.groups(times).items()}
    return common | {group: tasks for group, tasks in both.items() if len(tasks) > 1 and group not in common}


def _chosen_tasks(
    runs: Sequence[Run], models: Sequence[str], groups: Groups, requested: Sequence[str] | None, other_names: str
) -> list[str]:
    common = [name for name, number in Counter(name for run in runs for name in run.tasks).items() if number > 1]
    if not common:
        has = [f"{name} has {shorten(list(run.tasks), _NAMED)}" for name, run in zip(models, runs, strict=True)]
        raise UsageError(f"no task is in two runs: {'; '.join(has)}{other_names and f'. {other_names}'}")
    chosen: list[str] = []
    for name in requested or common:
        if requested and name in groups:
            chosen += groups[name]
        elif name in common:
            chosen.append(name)
        else:
            known = [*groups, *common]
            raise UsageError(f"no two runs have the task {name}{hint([name], known)}; they have {shorten(known, 40)}")
    return list(dict.fromkeys(chosen))


def _refusal_message(refused: Sequence[Refusal], across: Sequence[str]) -> str:
    """One message for all refusals; a reason that several tasks share is given once. Where all could be compared across
    settings, the message ends with them, and with those that are named already."""
    by_reason: dict[tuple[str, str], list[Refusal]] = {}
    for refusal in refused:
        reason = "" if refusal.kind in ("documents", "prompts") else refusal.reason
        by_reason.setdefault((refusal.kind, reason), []).append(refusal)
    lines = []
    for first, *rest in by_reason.values():
        others = shorten([refusal.task for refusal in rest], _NAMED)
        more = f" (and {len(rest)} more tasks: {others})" if rest else ""
        lines.append(f"{first.task}: {first.reason}{more}. {_REMEDIES[first.kind]}".rstrip())
    settings = dict.fromkeys((*across, *(refusal.setting for refusal in refused)))
    if "" not in settings:
        lines.append(f"To compare them all the same, across what differs: --across {','.join(settings)}")
    return "the runs cannot be compared. " + " ".join(lines)
