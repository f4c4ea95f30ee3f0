"""Changes to the harness for our metrics: their own standard errors, no undefined rates, the headline first.

Each change acts on our tasks and models only:

- ``Group.aggregate`` puts the rows of groups of such tasks in the order of their YAML. Where the tasks share passages, a
  group's standard error is clustered by passage; else it is that of independent tasks.
- ``GeneralConfigTracker.log_experiment_args`` names our weightless models: the harness finds no name in their arguments.
- The harness's warning of a missing chat template is dropped for these models, which are never prompted.
- ``EvaluationTracker`` is remembered, so that our tasks can check its folder before the first request. The harness tries
  it after the last one, and loses the results where it cannot write.
- ``evaluate`` says which model will answer, so that our tasks can count the prompts that it would cut
  (:mod:`lm_eval_tasks.harness.context_window`).
"""

from __future__ import annotations

import logging
import math
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import wraps
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from custom_metrics.statistics.strata import error_across
from lm_eval_tasks.data import check_writable
from lm_eval_tasks.harness import WEIGHTLESS

if TYPE_CHECKING:
    from lm_eval_tasks.harness.context_window import PromptCheck

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own


class OrderedKey(str):
    """A key of the harness's metrics that sorts by its place in the task's YAML. The harness's ``make_table`` copies the
    metrics of each task and sorts them by key, on both versions, so nothing but the keys themselves can put a headline
    first."""

    place: tuple[int, ...]

    def __new__(cls, key: str, place: tuple[int, ...]) -> OrderedKey:
        instance = super().__new__(cls, key)
        instance.place = place
        return instance

    def __lt__(self, other: str) -> bool:
        if isinstance(other, OrderedKey) and self.place != other.place:
            return self.place < other.place
        return str.__lt__(self, other)

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


def ordered(metrics: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Sort the metrics of a task or group (keys ``metric,filter`` and ``metric_stderr,filter``): first those not in
    `names`, with their key; then the others in the order of `names`, and their filters in the order of the keys."""
    places = {name: place for place, name in enumerate(names)}
    filters: dict[str, int] = {}
    ours: dict[OrderedKey, Any] = {}
    others = {}
    for key, value in metrics.items():
        name, _, filter_name = key.partition(",")
        metric = name if name in places else name.removesuffix("_stderr")
        if metric in places:
            filter_place = filters.setdefault(filter_name, len(filters))
            ours[OrderedKey(key, (places[metric], filter_place, metric != name))] = value
        else:
            others[key] = value
    return {**others, **{row: ours[row] for row in sorted(ours)}}


def with_errors(keys: Iterable[str]) -> set[str]:
    """Keys of metrics (``metric,filter``), with those of their standard errors."""
    return {each for key in keys for each in (key, key.replace(",", "_stderr,", 1))}


def _errors_of(
    means: Sequence[str], metrics: Mapping[str, Any], tasks: Sequence[Any], of_tasks: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, float]]:
    """Key and standard error of each of a group's unweighted means (`means`): by the clusters that its tasks share, else of
    independent tasks, also on 0.5, which pools their errors by size as if the mean were weighted."""
    for metric in means:
        for key, error in metrics.items():
            name, _, filter_name = key.partition(",")
            if name != f"{metric}_stderr" or not isinstance(error, float):
                continue
            by_task = [task.rows_of(metric, filter_name) for task in tasks]
            defined = [values for values in by_task if values is not None]
            across = error_across(defined) if len(defined) == len(by_task) else math.nan
            errors = [values[key] for task in tasks if key in (values := of_tasks.get(task.task_name, {}))]
            yield key, math.sqrt(sum(e**2 for e in errors)) / len(errors) if math.isnan(across) else across


def _is_not_about_templates(record: logging.LogRecord) -> bool:
    """Whether a record of the harness's evaluator is anything but its warning of a missing chat template about one of our
    models without weights. (It warns before it makes the model.)"""
    about = "chat template is not applied" in " ".join(record.getMessage().split())
    return not (about and _current_model[0] in WEIGHTLESS)


def extend_groups(group_module: ModuleType) -> None:
    aggregate_as_theirs, _ = group_module.Group.aggregate, group_module.Group.get_all_tasks  # both are needed

    @wraps(aggregate_as_theirs)
    def aggregate(self: Any, task_metrics: Any) -> Any:
        metrics = aggregate_as_theirs(self, task_metrics)
        tasks = self.get_all_tasks()
        if not all(hasattr(task, "rows_of") for task in tasks):
            return metrics
        listed = self.aggregate_metric_list or ()
        means = [entry.metric for entry in listed if not entry.weight_by_size]
        gone = with_errors(key for task in tasks for key in task.not_measurable)  # a mean over the others is another
        metrics = {key: value for key, value in metrics.items() if key not in gone}
        metrics |= dict(_errors_of(means, metrics, tasks, task_metrics))
        return ordered(metrics, [entry.metric for entry in listed])

    group_module.Group.aggregate = aggregate


def extend_evaluation(evaluator_utils: ModuleType) -> None:
    """Extend ``lm_eval.evaluator_utils``, where the evaluator aggregates: later versions have hooks in their tasks."""
    if hasattr(evaluator_utils, "stderr_for_metric"):
        from lm_eval_tasks.harness import v0_4

        v0_4.extend(evaluator_utils)


def name_models(evaluation_tracker: ModuleType) -> None:
    tracker = evaluation_tracker.GeneralConfigTracker
    record = tracker.log_experiment_args
    sanitize = evaluation_tracker.sanitize_model_name

    @wraps(record)
    def log_experiment_args(self: Any, *args: Any, **kwargs: Any) -> None:
        record(self, *args, **kwargs)
        source, model_args = kwargs.get("model_source"), kwargs.get("model_args")
        if source not in WEIGHTLESS:
            return
        from lm_eval_tasks.data.provenance import PACKAGE
        from lm_eval_tasks.harness import get_model

        model: Any = get_model(source)
        name = model.results_name(model_args)
        # Leaderboards file results under developer and model; the folder has the model's name alone.
        self.model_name, self.model_name_sanitized = name, sanitize(name.removeprefix(f"{PACKAGE}/"))
        output = _current_tracker[0]() if _current_tracker else None
        if output is not None and output.output_path:
            below = output_folder(output.output_path)
            self.model_name_sanitized = model.results_folder(self.model_name_sanitized, model_args, below)

    tracker.log_experiment_args = log_experiment_args
    start = evaluation_tracker.EvaluationTracker.__init__

    @wraps(start)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        start(self, *args, **kwargs)
        _current_tracker[:] = [weakref.ref(self)]

    evaluation_tracker.EvaluationTracker.__init__ = __init__


def check_prompts(evaluator: ModuleType) -> None:
    evaluate_as_theirs = evaluator.evaluate
    form = signature(evaluate_as_theirs)
    form.bind_partial(lm=None, task_dict={})  # a TypeError where it has them no more

    @wraps(evaluate_as_theirs)
    def evaluate(*args: Any, **kwargs: Any) -> Any:
        call = form.bind(*args, **kwargs).arguments
        tasks = call["task_dict"].get("tasks", call["task_dict"])
        if hasattr(call["lm"], "tok_encode"):  # others cut no prompts
            from lm_eval_tasks.harness.context_window import PromptCheck

            _current_check[:] = [PromptCheck(call["lm"], list({id(task): task for task in _ours(tasks)}.values()))]
        try:
            return evaluate_as_theirs(*args, **kwargs)
        finally:
            _current_check.clear()

    evaluator.evaluate = evaluate  # type: ignore[attr-defined]
    simple_evaluate_as_theirs = evaluator.simple_evaluate

    @wraps(simple_evaluate_as_theirs)
    def simple_evaluate(*args: Any, **kwargs: Any) -> Any:
        _current_model[:] = [kwargs["model"] if "model" in kwargs else args[0]]
        return simple_evaluate_as_theirs(*args, **kwargs)

    evaluator.simple_evaluate = simple_evaluate  # type: ignore[attr-defined]
    logging.getLogger("lm_eval.evaluator").addFilter(_is_not_about_templates)


_current_model: list[Any] = [None]  # of the run that goes on, as in --model

_current_check: list[PromptCheck] = []  # of the run that goes on, or empty


def _ours(tasks: Mapping[Any, Any]) -> Iterator[Any]:
    """Our tasks, also of groups within groups."""
    for task in tasks.values():
        if isinstance(task, Mapping):
            yield from _ours(task)
        elif hasattr(task, "may_cut_prompts"):
            yield task


def requests_built(task: Any) -> None:
    """Tell the run that goes on that a task has its requests; a UsageError where its model would cut prompts."""
    for check in _current_check:
        check.built(task)


_current_tracker: list[weakref.ref[Any]] = []  # of the run that is about to begin, or empty


def try_output() -> None:
    """Check, once, that the harness can write the results of this run to its folder; else raise a UsageError."""
    tracker = _current_tracker.pop()() if _current_tracker else None
    if tracker is not None and tracker.output_path:
        check_writable(output_folder(tracker.output_path, tracker.general_config_tracker.model_name_sanitized))


def output_folder(output_path: str, model: str | None = None) -> Path:
    """The folder of a model's results for an ``--output_path``, which may be a file."""
    path = Path(output_path)
    return path.parent if path.suffix == ".json" else path / (model or "")
