"""Runs read back: the results and samples files that ``lm_eval``, ``replay`` and ``lm-eval-grounded score`` wrote.

:func:`read_runs` finds them. A :class:`Run` holds one model's results, and a :class:`TaskRun` those of one task. An
:class:`Answer` is a model's answer to one document, with every filter's reading of it and the values of the metrics;
:class:`Answers` are those of a task, in columns.
"""

from __future__ import annotations

from lm_eval_tasks.runs.answers import (
    Answer,
    Answers,
    Column,
    Derive,
    FilteredAnswer,
    FilteredAnswers,
    cluster_of,
    differing_columns,
    digest_of,
    read_answers,
)
from lm_eval_tasks.runs.finding import read_runs
from lm_eval_tasks.runs.run import Run, Settings, TaskRun, headline_filter, labels

__all__ = [
    "Answer",
    "Answers",
    "Column",
    "Derive",
    "FilteredAnswer",
    "FilteredAnswers",
    "Run",
    "Settings",
    "TaskRun",
    "cluster_of",
    "differing_columns",
    "digest_of",
    "headline_filter",
    "labels",
    "read_answers",
    "read_runs",
]
