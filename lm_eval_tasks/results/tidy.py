"""Runs as tidy tables: a row for each figure, and a row for each answer as a filter read it."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from custom_metrics.statistics.figures import is_measurable
from lm_eval_tasks.definition.signature import parts_of_group, signature
from lm_eval_tasks.results.board import reported_figure
from lm_eval_tasks.runs import Run, TaskRun
from lm_eval_tasks.runs.run import recorded_settings

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

FIGURE_COLUMNS = tuple(
    "model folder date benchmark task version language filter metric value low high standard_error n unit denominator "
    "measurable settings signature".split()
)
"""Columns of a figure; lm_eval_grounded/README.md describes them."""

ANSWER_COLUMNS = tuple("model folder benchmark task language filter document question response answer".split())
"""Columns of an answer beside its metrics: `response` is what the model wrote, `answer` what the filter made of it."""


def figure_rows(runs: Iterable[Run]) -> Iterator[dict[str, Any]]:
    """A row of :data:`FIGURE_COLUMNS` for each figure of the results, also the finer ones beside the table; groups follow
    the tasks of their run. What is not known is ``None``."""
    for run in runs:
        settings = {name: _settings_of(task) for name, task in run.tasks.items()}
        for name, task in run.tasks.items():
            yield from _rows(run, task, settings[name])
        for group, members in run.groups.items():
            first, *others = (settings[name] for name in members)
            shared = {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
            results, tasks = run.group_results.get(group, {}), [run.tasks[name] for name in members]
            mean = replace(tasks[0], task=group, language="", version=None, results=results, figures={})
            yield from _rows(run, mean, shared, tasks)


def answer_rows(runs: Iterable[Run]) -> Iterator[dict[str, Any]]:
    """A row for each answer and filter: :data:`ANSWER_COLUMNS`, and its values of the metrics, ``None`` where the document
    is not in a denominator. The log names tasks whose answers were not logged. CorruptSource: a samples file is damaged."""
    for run in runs:
        unlogged = [name for name, task in run.tasks.items() if task.samples is None]
        if unlogged:
            log.warning("%s: no answers of %s; they were not logged (--log_samples)", run.folder, ", ".join(unlogged))
        for task in run.tasks.values():
            where = run.model, str(run.folder), task.benchmark, task.task, task.language
            for answer in task.answers() if task.samples is not None else ():
                question = str(answer.doc.get("query") or answer.doc.get("question") or "")
                for filter_name, reading in answer.readings.items():
                    values = *where, filter_name, answer.key, question, answer.response, reading.answer
                    yield dict(zip(ANSWER_COLUMNS, values, strict=True)) | dict(reading.values)


def _settings_of(task: TaskRun) -> dict[str, Any]:
    """The recorded settings of a task that are not empty; without the language, so that a benchmark's tasks share them."""
    names = ("shots", "system_instruction", "generation", "limit", "options", "detector", "template", "chat_template")
    recorded = {name: recorded_settings(task)[name] for name in names}
    recorded |= {name: recorded[name][:12] for name in ("template", "chat_template")}
    recorded["options"] = {key: value for key, value in recorded["options"].items() if key != "language"}
    recorded["detector"] = {key: value for key, value in task.detector.items() if key in ("name", "version")}
    return {key: value for key, value in recorded.items() if value not in (None, "", {})}


def _rows(
    run: Run, task: TaskRun, settings: Mapping[str, Any], members: Sequence[TaskRun] = ()
) -> Iterator[dict[str, Any]]:
    """The figures of a task, or of a group as the mean of its members, those of the harness's table first."""
    keys = (key.rpartition(",") for key in task.results if "," in key)
    table = [(filter_name, name) for name, _, filter_name in keys if not name.endswith("_stderr")]
    finer = [(filter_name, name) for filter_name, by_name in task.figures.items() for name in by_name]
    recorded, parts = json.dumps(settings, ensure_ascii=False, default=str), task.signature_parts
    if members:
        parts = parts_of_group(task.task, [member.signature_parts for member in members])
    for filter_name, name in dict.fromkeys((*table, *finer)):
        figure, metric = task.figure(name, filter_name), task.metric(name)
        entry = task.figures.get(filter_name, {}).get(name, {})
        mean = reported_figure(members, name, filter_name, task.results) if members else None
        if mean and math.isclose(mean.value, figure.value):
            figure = figure._replace(low=mean.low, high=mean.high, n=mean.n)
        if math.isnan(figure.value) and not entry:  # the harness writes "N/A", or a text
            continue
        numbers = [number if math.isfinite(number) else None for number in figure[:4]]
        where = run.model, str(run.folder), run.date, task.benchmark, task.task, str(task.version or ""), task.language
        over = f"mean of {len(members)} tasks" if members else entry.get("denominator") or metric.denominator
        counted = figure.n if entry or figure.n else None, metric.unit, over
        measurable = numbers[0] is not None and is_measurable(figure, metric.unit)
        line = signature(parts, filter_name, metric)
        values = (*where, filter_name, name, *numbers, *counted, measurable, recorded, line)
        yield dict(zip(FIGURE_COLUMNS, values, strict=True))
