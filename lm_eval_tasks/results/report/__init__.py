"""The report of runs: headlines, plots, differences, documents and pages.

:func:`write_report` writes the page of one run or several.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lm_eval_tasks.data.atomic import whole_file
from lm_eval_tasks.results.report.documents import described_runs, read_documents
from lm_eval_tasks.results.report.drawing import Plot
from lm_eval_tasks.results.report.page import page_of, render
from lm_eval_tasks.runs import Run, labels

__all__ = ["BYTES", "PER_TASK", "write_report"]

PER_TASK = 8
"""Default number of documents of each task."""

BYTES = 4_800_000
"""Default limit of a page's size: larger pages show fewer documents of each task."""


def write_report(
    runs: Sequence[Run],
    path: Path,
    documents: int | None = PER_TASK,
    at_most: int | None = BYTES,
    paper: bool = False,
    more_plots: Sequence[Plot] = (),
) -> Path:
    """Write the report of some runs to a path, and return the path.

    Args:
        documents: how many documents to show of each task; ``None`` for all.
        at_most: limit of the page's bytes. Larger pages show fewer documents of each task, at least one. ``None``: none.
        paper: whether to add a comparison with published figures.
        more_plots: plots that come before those of the tasks.

    Raises:
        ValueError: there are no runs.
        CorruptSource: a samples file is damaged in the middle.
        OSError: the page cannot be written.
    """
    if not runs:
        raise ValueError("a report needs a run")
    runs, read_answers = described_runs(runs)
    by_label = dict(zip(labels(runs), runs, strict=True))
    page = page_of(by_label, paper, read_answers, more_plots)
    task_documents = read_documents(by_label, read_answers)

    def rendered(number: int | None) -> bytes:
        """The page with so many documents of each task."""
        content = {"documents": [task.sample(number) for task in task_documents], "per_task": number}
        return render(page | content).encode("utf-8", "replace")

    html = rendered(documents)
    if at_most is not None and documents is not None and len(html) > at_most:
        empty = len(rendered(0))
        number = documents
        while number > 1 and len(html) > max(at_most, empty):
            number = max(1, min(number - 1, number * (at_most - empty) // (len(html) - empty)))
            html = rendered(number)
    with whole_file(path) as partial:
        partial.write_bytes(html)
    return path
