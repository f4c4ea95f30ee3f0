"""The figures of a run by a column of its documents, such as the model that wrote the answers that a detector read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from custom_metrics.scores.aggregations import NotMeasured
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import on_one_line
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.results.formats import ARROWS, UNDEFINED_TEXT, Section, with_bounds
from lm_eval_tasks.results.joining import JoinedTask
from lm_eval_tasks.results.measuring import measure
from lm_eval_tasks.results.report.documents import ReadAnswers
from lm_eval_tasks.runs import Answers, Run, TaskRun

MOST = 60
"""Values of a column: one of more, such as an id, groups nothing."""


def sections_by(field: str, runs: Mapping[str, Run], read_answers: ReadAnswers) -> list[Section]:
    """A table of each task whose documents have the column: a row for each of its values and each run (by label), with the
    headlines and their bounds.

    Raises:
        UsageError: no document has it, or each its own value; the message has the columns that documents have.
    """
    tables, columns = [], dict[str, None]()
    for name in dict.fromkeys(name for run in runs.values() for name in run.tasks):
        rows = []
        measured: list[Metric] = []
        for label, run in runs.items():
            if (task := run.tasks.get(name)) is None or task.samples is None or not len(answers := read_answers(task)):
                continue
            columns |= dict.fromkeys(answers[0].doc)
            measured = measured or [metric for metric in task.metrics if task.is_headline(metric.name)]
            for value, documents in _grouped(answers, field):
                part = answers.only(documents)
                rows.append((value, label, str(len(part)), *_cells(label, task, part, measured)))
        if rows:
            header = (field, "run", "answers", *(f"{m.in_prose}{ARROWS[m.higher_is_better]}" for m in measured))
            tables.append(Section(header, tuple(sorted(rows, key=lambda row: row[0])), (f"{name}, by {field}",)))
    if not tables:
        known = ", ".join(map(on_one_line, columns)) or "none, as no answers were logged (--log_samples)"
        raise UsageError(
            f"--by {field}: no task's documents have such a column with 2 to {MOST} values; they have {known}"
        )
    return tables


def _grouped(answers: Answers, field: str) -> Iterator[tuple[str, list[int]]]:
    """The values of a column with the numbers of their documents; none where documents lack it, or it groups nothing."""
    groups: dict[str, list[int]] = {}
    for number, answer in enumerate(answers if field in answers[0].doc else ()):
        groups.setdefault(on_one_line(str(answer.doc.get(field, ""))), []).append(number)
    if 1 < len(groups) <= MOST:
        yield from groups.items()


def _cells(label: str, task: TaskRun, answers: Answers, metrics: list[Metric]) -> Iterator[str]:
    joined = JoinedTask.join(task.task, {0: (label, task, answers)})
    for metric in metrics:
        try:
            yield with_bounds(measure(joined, metric, task.headline_filter).figure(0), metric.unit)
        except (NotMeasured, KeyError):  # a metric that this run does not have
            yield UNDEFINED_TEXT
