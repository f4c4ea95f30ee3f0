"""The answers of a report's runs, each read once for all that the page says of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lm_eval_tasks.commands.work.reporting.broken import derive_signs
from lm_eval_tasks.commands.work.reporting.documents import derive_documents
from lm_eval_tasks.runs import Answer, Answers, TaskRun

__all__ = ["Read", "read_once", "read_task"]

Read = Callable[[TaskRun], Answers]


def read_task(task: TaskRun) -> Answers:
    """The answers of a task, with what signs of a broken run and the choice of documents need of them.

    Raises:
        MissingSource, CorruptSource: as of :meth:`lm_eval_tasks.runs.TaskRun.answers`.
    """
    parts = [part for part in (derive_signs(task), derive_documents(task)) if part is not None]

    def derive(answer: Answer, name: str, first: bool) -> dict[str, Any]:
        return {key: value for part in parts for key, value in part(answer, name, first).items()}

    return task.answers(derive)


def read_once() -> Read:
    """As :func:`read_task`, but what was read is kept, some hundred bytes a document."""
    kept: dict[int, tuple[TaskRun, Answers]] = {}

    def read(task: TaskRun) -> Answers:
        if id(task) not in kept:
            kept[id(task)] = task, read_task(task)
        return kept[id(task)][1]

    return read
