"""Runs read back: the results and samples files that ``lm_eval``, ``replay`` and ``lm-eval-grounded score`` wrote.

:func:`read_runs` finds them. A :class:`Run` holds one model's results, and a :class:`TaskRun` those of one task. An
:class:`Answer` is a model's answer to one document, with every filter's reading of it and the values of the metrics;
:class:`Answers` are those of a task, in columns.
"""

from __future__ import annotations

from lm_eval_tasks.runs.answers import Answer, Answers, FilteredAnswer, FilteredAnswers, differing_columns
from lm_eval_tasks.runs.finding import read_runs
from lm_eval_tasks.runs.run import Run, TaskRun, labels

__all__ = [
    "Answer",
    "Answers",
    "FilteredAnswer",
    "FilteredAnswers",
    "Run",
    "TaskRun",
    "differing_columns",
    "labels",
    "read_runs",
]
