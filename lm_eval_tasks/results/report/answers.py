"""The answers of a report's runs, each read once for all that the page says of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from lm_eval_tasks.results.report.broken import derive_signs
from lm_eval_tasks.results.report.documents import derive_documents
from lm_eval_tasks.runs import Answer, Answers, Run, TaskRun

__all__ = ["Read", "read_once", "read_task"]

Read = Callable[[TaskRun], Answers]


def read_task(task: TaskRun) -> Answers:
    """The answers of a task, with what signs of a broken run and the choice of documents need of them.

    Raises:
        MissingSource, CorruptSource: as of :meth:`lm_eval_tasks.runs.TaskRun.answers`.
    """
    parts = [part for part in (derive_signs(task), derive_documents(task)) if part is not None]

    def derive(answer: Answer, name: str, first: bool) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for part in parts:
            found.update(part(answer, name, first))
        return found

    return task.answers(derive)


_MUCH = 1 << 28  # bytes of samples, which take longer to read than two processes to start


def read_once(runs: Iterable[Run]) -> Read:
    """As :func:`read_task`, but what was read is kept, some hundred bytes a document. Large runs are read by two processes.

    Raises:
        CorruptSource: a samples file of large runs is damaged in the middle.
    """
    tasks = [task for run in runs for task in run.tasks.values() if task.samples is not None]
    kept: dict[int, tuple[TaskRun, Answers]] = {}
    if sum(task.samples.stat().st_size for task in tasks if task.samples) >= _MUCH and (os.cpu_count() or 1) > 1:
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
            for task, answers in zip(tasks, processes.map(read_task, tasks), strict=True):
                kept[id(task)] = task, answers

    def read(task: TaskRun) -> Answers:
        if id(task) not in kept:
            kept[id(task)] = task, read_task(task)
        return kept[id(task)][1]

    return read
