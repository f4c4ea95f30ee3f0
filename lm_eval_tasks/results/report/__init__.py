"""The report of runs: headlines, plots, differences, documents and pages.

:func:`write_report` writes the page of one run or several, :func:`markdown_of` a summary for a pull request.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lm_eval_tasks.data.atomic import whole_file
from lm_eval_tasks.results.compare.tables import render as render_comparison
from lm_eval_tasks.results.formats import ARROWS, PAGE, UNDEFINED_TEXT, code_block, escaped_markdown
from lm_eval_tasks.results.report.documents import described_runs, read_documents
from lm_eval_tasks.results.report.drawing import Plot
from lm_eval_tasks.results.report.headlines import Headline, headlines
from lm_eval_tasks.results.report.page import page_of, render
from lm_eval_tasks.results.report.page.summary import differences
from lm_eval_tasks.results.reproduce import command_files
from lm_eval_tasks.runs import Run, labels

__all__ = ["BYTES", "PER_TASK", "markdown_of", "write_report"]

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


def markdown_of(runs: Sequence[Run]) -> str:
    """The summary of some runs in Markdown: headlines with bounds, doubts as notes, differences where there are several
    models, and the commands. Everything from the runs is escaped."""
    runs, read_answers = described_runs(runs)
    compared = ""
    if difference := differences(runs, read_answers):
        comparison = difference.comparison
        compared = (
            render_comparison(comparison, "markdown", notation=PAGE)
            if comparison
            else escaped_markdown(difference.notes[0])
        )
    files = command_files(dict(zip(labels(runs), runs, strict=True)))
    commands = [command for file in files for command in file["commands"]]
    return render_summary(headlines(runs, read_answers), compared, "\n".join(commands))


def render_summary(numbers: Sequence[Headline], compared: str = "", command: str = "") -> str:
    """The summary of headlines, with what is `compared` as Markdown, and the command that made the runs."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    models = [*dict.fromkeys(row.model for row in numbers)]
    rows: dict[tuple[str, str], dict[str, Headline]] = {}
    for row in numbers:
        rows.setdefault((row.family, row.metric), {})[row.model] = row
    cells = [by_model[model] for by_model in rows.values() for model in models if model in by_model]
    notes = dict.fromkeys(doubt.text for cell in cells for doubt in cell.doubts)
    environment = Environment(  # noqa: S701 - of Markdown, with an escaper of its own
        loader=PackageLoader("lm_eval_tasks.results.report.page"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["escaped"] = escaped_markdown
    text: str = environment.get_template("summary.md.jinja").render(
        models=models,
        rows=[*rows.values()],
        headlines=numbers,
        notes={text: number for number, text in enumerate(notes, 1)},
        arrows=ARROWS,
        undefined=UNDEFINED_TEXT,
        compared=compared.strip(),
        command=command and code_block(command),
    )
    return text
