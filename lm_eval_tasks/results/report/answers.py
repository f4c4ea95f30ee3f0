"""The answers of a report's runs, read once for all parts of the page; and the signs in them that a run is broken
(:mod:`custom_metrics.broken_run`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from custom_metrics.broken_run import Labels, Sign, Signs, as_answered, count, kind_of
from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER
from lm_eval_tasks.results.doubts import equal_answers
from lm_eval_tasks.results.report.documents import derive_documents
from lm_eval_tasks.runs import Answer, Answers, Run, TaskRun
from lm_eval_tasks.runs.other_tasks import described_run

READINGS = ("strict", "robust")
"""The filters that read NoMIRACL's answers: by the paper's rule, and by meaning."""

ReadAnswers = Callable[[TaskRun], Answers]

_IN_OWN_WORDS = ("detected_rate", "rougeL")  # metrics of tasks whose answers are a model's own words
_MUCH = 1 << 28  # bytes of samples that take longer to read than two processes to start
_KIND, _LABEL = "sign", "label"
_LABELS = (ANSWER, NO_ANSWER, INVALID)
_PLACES = {label: float(place) for place, label in enumerate(_LABELS)}


def read_task(task: TaskRun) -> Answers:
    """Read the answers of a task, with the derived values for signs of a broken run and for the choice of documents.
    Errors are those of :meth:`lm_eval_tasks.runs.TaskRun.answers`, here and in all that reads answers."""
    of_documents, of_signs = derive_documents(task), _derive_signs(task)
    return task.answers(lambda *row: {**of_signs(*row), **of_documents(*row)})


def caching_reader(runs: Iterable[Run]) -> ReadAnswers:
    """A cached :func:`read_task`, which keeps some hundred bytes a document. Large runs are read ahead by two
    processes."""
    tasks = [task for run in runs for task in run.tasks.values() if task.samples is not None]
    cache: dict[Path | None, Answers] = {}
    if sum(task.samples.stat().st_size for task in tasks if task.samples) >= _MUCH and (os.cpu_count() or 1) > 1:
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
            for task, answers in zip(tasks, processes.map(read_task, tasks), strict=True):
                cache[task.samples] = answers

    def read(task: TaskRun) -> Answers:
        if task.samples not in cache:
            cache[task.samples] = read_task(task)
        return cache[task.samples]

    return read


def described_runs(runs: Iterable[Run]) -> tuple[list[Run], ReadAnswers]:
    """Runs whose tasks that are in no table of ours are described by their documents, and their :func:`caching_reader`."""
    read = caching_reader(listed := [*runs])
    return [described_run(run, read) for run in listed], read


def signs_of_run(task: TaskRun, read_answers: ReadAnswers) -> Signs:
    """Count the signs of a broken run in the answers of a task. The counts are 0 if no answers were logged."""
    if task.samples is None:
        return count(())
    answers = read_answers(task)
    return count(_signs(answers, _is_labelled(task))) if _has_signs(task) else equal_answers(answers)


def _is_labelled(task: TaskRun) -> bool:
    return task.table is not None and {*READINGS} <= {*task.filters}


def _has_signs(task: TaskRun) -> bool:
    return _is_labelled(task) or (task.table is not None and any(m.name in _IN_OWN_WORDS for m in task.metrics))


def _derive_signs(task: TaskRun) -> Callable[[Answer, str, bool], dict[str, Any]]:
    """A :data:`lm_eval_tasks.runs.Derive` that gives what :func:`signs_of_run` counts."""
    if not _has_signs(task):
        return lambda *row: {}
    labelled = _is_labelled(task)
    read_already = Labels(*READINGS) if labelled else None

    def derive(answer: Answer, name: str, first: bool) -> dict[str, Any]:
        values: dict[str, Any] = {}
        if first:
            values[_KIND] = kind_of(as_answered(answer.doc, answer.response)._replace(labels=read_already))
        if labelled and name in READINGS:
            label = str(answer.readings[name].answer)
            values[_LABEL] = _PLACES.get(label, label)  # a number takes eight bytes
        return values

    return derive


def _signs(answers: Answers, labelled: bool) -> Iterator[Sign]:
    columns = [filtered.derived[_KIND].values() for filtered in answers.readings.values() if _KIND in filtered.derived]
    kinds = [next((kind for kind in row if kind is not None), None) for row in zip(*columns, strict=True)]
    texts = answers.responses.tolist()
    if not labelled:
        yield from map(Sign, kinds, texts)
        return
    if not {*READINGS} <= answers.readings.keys():
        return
    readings = [answers.readings[name] for name in READINGS]
    both = (readings[0].present & readings[1].present).tolist()  # of a file that was cut, the last may lack one
    strict, robust = (filtered.derived[_LABEL].values() for filtered in readings)
    for kind, text, is_read, *labels in zip(kinds, texts, both, strict, robust, strict=True):
        if is_read:
            label_names = (label if isinstance(label, str) else _LABELS[int(label)] for label in labels)
            yield Sign(kind, text, Labels(*label_names))
