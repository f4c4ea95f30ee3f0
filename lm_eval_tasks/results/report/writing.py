"""From runs to the page of a report."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data.atomic import whole_file
from lm_eval_tasks.data.provenance import PACKAGE
from lm_eval_tasks.data.sources import MissingSource
from lm_eval_tasks.results.compare import compare_runs
from lm_eval_tasks.results.compare.rendering import FORMATS
from lm_eval_tasks.results.report.answers import Read, read_once
from lm_eval_tasks.results.report.differences import differences
from lm_eval_tasks.results.report.documents import AskedDocuments, read_documents
from lm_eval_tasks.results.report.families import families, title_of
from lm_eval_tasks.results.report.headlines import headlines
from lm_eval_tasks.results.report.markdown import escaped, summary
from lm_eval_tasks.results.report.model_card import model_card
from lm_eval_tasks.results.report.page import BenchmarkNumbers, Model, Page, render
from lm_eval_tasks.results.report.page.summary import summaries
from lm_eval_tasks.results.report.plots import Plot, plots_of, save
from lm_eval_tasks.results.report.plots.drawing import short_names
from lm_eval_tasks.results.report.provenance import made, numbers, origins
from lm_eval_tasks.results.report.published import PublishedTable, published_tables
from lm_eval_tasks.runs import Run, labels

__all__ = ["BYTES", "PER_TASK", "markdown_of", "model_card_of", "write_plots", "write_report"]

PER_TASK = 8
"""Documents of each task where nobody says how many."""

BYTES = 4_800_000
"""Of a page where nobody says how many documents: larger pages show fewer of each task."""

_NO_PLOTS = "There are no plots, for matplotlib is not installed. Install it with: pip install '{package}[report]'"


def write_report(
    runs: Sequence[Run],
    path: Path,
    documents: int | None = PER_TASK,
    at_most: int | None = BYTES,
    paper: bool = False,
) -> Path:
    """Write the page of some runs.

    Args:
        runs: of one or more models.
        path: of the page.
        documents: how many documents to show of each task; ``None`` for all.
        at_most: bytes of the page. A larger one shows fewer documents of each task, one at the least. ``None``: any size.
        paper: whether figures of the papers stand beside those of the runs.

    Returns:
        `path`.

    Raises:
        ValueError: there are no runs.
        CorruptSource: a samples file is damaged in the middle.
        OSError: the page cannot be written.
    """
    if not runs:
        raise ValueError("a report needs a run")
    by_label = dict(zip(labels(runs), runs, strict=True))
    read = read_once(runs)
    page = _page(by_label, published_tables(runs) if paper else [], read)
    asked = read_documents(by_label, read)
    html = _rendered(page, asked, documents)
    if at_most is not None and documents is not None and len(html) > at_most:
        empty = len(_rendered(page, asked, 0))
        number = documents
        while number > 1 and len(html) > max(at_most, empty):
            number = max(1, min(number - 1, number * (at_most - empty) // (len(html) - empty)))
            html = _rendered(page, asked, number)
    with whole_file(path) as partial:
        partial.write_bytes(html)
    return path


def write_plots(runs: Sequence[Run], svg: Path | None = None, png: Path | None = None) -> list[Path]:
    """Write the plots of some runs as files, see :func:`~lm_eval_tasks.results.report.plots.plot.save`.

    Raises:
        UsageError: matplotlib is not installed.
    """
    try:
        return save(plots_of(runs), svg, png)
    except ModuleNotFoundError as error:
        raise UsageError(str(error)) from error


def markdown_of(runs: Sequence[Run]) -> str:
    """The summary of some runs in Markdown, with the differences where there are several models."""
    compared = ""
    read = read_once(runs)
    if len(runs) > 1:
        try:
            compared = FORMATS["markdown"](compare_runs(runs, refuse=False, read=read))
        except (ValueError, MissingSource) as error:
            compared = escaped(f"The models are not compared: {error}")
    commands = [command for one in made(dict(zip(labels(runs), runs, strict=True))) for command in one.commands]
    return summary(headlines(runs, read), compared, "\n".join(commands))


def model_card_of(runs: Sequence[Run]) -> str:
    """The block for a model card.

    Raises:
        UsageError: there are several runs; a card is of one model.
    """
    if len(runs) != 1:
        raise UsageError(f"a model card is of one model; here are {len(runs)}: {', '.join(labels(runs))}")
    return model_card(runs[0])


def _rendered(page: Page, asked: Sequence[AskedDocuments], number: int | None) -> bytes:
    """The page with so many documents of each task."""
    shown = replace(page, documents=[each.shown(number) for each in asked], per_task=number)
    return render(shown).encode("utf-8", "replace")


def _page(runs: Mapping[str, Run], published: Sequence[PublishedTable], read: Read) -> Page:
    """The page of runs (label to run) without its documents."""
    plots, why_not = _plots([*runs.values()])
    short = short_names([*runs])
    models = [
        Model(label, short[label], number, run.date, len(run.tasks)) for number, (label, run) in enumerate(runs.items())
    ]
    names = [model.short for model in models]
    listed = headlines([*runs.values()], read)
    doubts, shown = summaries(listed)
    return Page(
        title=f"{', '.join(names)}: grounded evaluation",
        question="Which model makes up less?" if len(models) > 1 else f"How much does {names[0]} make up?",
        written=f"{datetime.date.today():%-d %B %Y}, version {version(PACKAGE)}",
        models=models,
        doubts=doubts,
        summaries=shown,
        tasks={
            family.name: [task.task for task in family.tasks.values()]
            for run in runs.values()
            for family in families(run)
        },
        plots=plots,
        no_plots=why_not,
        differences=differences([*runs.values()], listed, read),
        published=published,
        documents=(),
        per_task=None,
        made=made(runs),
        benchmarks=[
            BenchmarkNumbers(title, tuple(numbers(runs, benchmark)), tuple(origins(runs, benchmark)))
            for benchmark, title in {
                task.benchmark: title_of(task) for run in runs.values() for task in run.tasks.values()
            }.items()
        ],
    )


def _plots(runs: Sequence[Run]) -> tuple[list[Plot], str]:
    """The plots of some runs, or why there are none."""
    plots = plots_of(runs)
    try:
        for plot in plots:
            plot.svg()
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        return [], _NO_PLOTS.format(package=PACKAGE)
    return plots, ""
