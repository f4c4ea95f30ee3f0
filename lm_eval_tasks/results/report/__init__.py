"""The report of runs: one object, made of the board and the runs, which text, page, frame and JSON render.

:class:`Report` reads the answers of its runs once. Its verdicts, ranks and figures are those of
:mod:`lm_eval_tasks.results.board`; no rendering has figures of its own.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from custom_metrics.statistics.figures import without_point
from lm_eval_tasks.data import whole_file
from lm_eval_tasks.data.provenance import package_version
from lm_eval_tasks.data.sources import MissingSource
from lm_eval_tasks.published import compare_with_published
from lm_eval_tasks.results import LOGGED, formats
from lm_eval_tasks.results.board import Column
from lm_eval_tasks.results.compare import Comparison, Difference, compare_runs, differences_of
from lm_eval_tasks.results.compare.tables import render as render_comparison
from lm_eval_tasks.results.compare.tables import reservations
from lm_eval_tasks.results.compare.verdicts import verdicts
from lm_eval_tasks.results.formats import PAGE, Section, render_sections, short_names
from lm_eval_tasks.runs import Run, TaskRun, labels
from lm_eval_tasks.runs.other_tasks import described_run

if TYPE_CHECKING:
    import pandas

    from lm_eval_tasks.results.report.documents import ReadAnswers
    from lm_eval_tasks.results.report.drawing import Plot
    from lm_eval_tasks.results.report.page.summary import Overview

# What only pages need is imported where it is used: `compare` prints without it.

__all__ = ["BYTES", "FIGURE_COLUMNS", "MOST_READ", "PER_TASK", "Report", "write_report"]

PER_TASK = 8
"""Default number of documents of each task."""

BYTES = 4_800_000
"""Default limit of a page's size: larger pages show fewer documents of each task."""

MOST_READ = 12
"""Runs up to which a page has answers to read, every headline in words, and every number; of more, the page of each run."""

FIGURE_COLUMNS = "model folder date benchmark group column metric title value low high n rank doubts".split()
"""Of :meth:`Report.figures`: the model; where its figure stands; the metric's heading, with the cost of a balanced error;
the figure with its 95 % bounds; its rank; and doubts about the run."""


@dataclass(frozen=True)
class Report:
    """Runs, and what the board says of them."""

    runs: Mapping[str, Run]  # by label
    comparison: Comparison | None = None  # None of one run, or where nothing can be compared
    why_none: str = ""  # why runs are not compared
    reader: ReadAnswers | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, runs: Sequence[Run], read_answers: ReadAnswers | None = None) -> Report:
        """The report of everything that some runs have. Runs that were not asked the same are compared apart.

        Args:
            read_answers: gives the answers of a task; the default keeps what it has read.

        Raises:
            ValueError: there are no runs.
            CorruptSource: a samples file is damaged in the middle.
        """
        if not runs:
            raise ValueError("a report needs a run")
        read = cls({}, reader=read_answers).read_answers
        runs = [described_run(run, read) for run in runs]
        comparison, why = None, ""
        try:
            comparison = compare_runs(runs, refuse=False, read_answers=read) if len(runs) > 1 else None
        except (ValueError, MissingSource) as error:  # nothing in common, other documents, no answers
            why = f"The models are not compared: {error}"
        return cls(dict(zip(labels(runs), runs, strict=True)), comparison, why, read)

    @classmethod
    def comparing(cls, runs: Sequence[Run], *options: Any, **more: Any) -> Report:
        """The report of what some runs have in common; options and errors as of
        :func:`lm_eval_tasks.results.compare.compare_runs`."""
        comparison = compare_runs(runs, *options, **more)
        return cls(dict(zip(comparison.models, comparison.runs, strict=True)), comparison)

    # -------------------------------------------------------------------------------------------------- what it holds

    @cached_property
    def read_answers(self) -> ReadAnswers:
        """Gives the answers of a task; by default, it keeps what it has read."""
        from lm_eval_tasks.results.report.documents import caching_reader

        return self.reader or caching_reader()

    @cached_property
    def headlines(self) -> list[Column]:
        """The most important numbers of each family, means over its languages or tasks, as columns without ranks."""
        from lm_eval_tasks.results.report.headlines import headlines

        return headlines([*self.runs.values()], self.read_answers)

    @cached_property
    def overviews(self) -> list[Overview]:
        """All models of each family, and of each of its languages or tasks."""
        from lm_eval_tasks.results.report.headlines import headlines
        from lm_eval_tasks.results.report.page.summary import overviews

        of_parts = headlines([*self.runs.values()], self.read_answers, by_part=True)
        return overviews(self.headlines, of_parts, [*self.runs], self.comparison)

    @cached_property
    def plots(self) -> list[Plot]:
        """The plots, in which models stand in the order of their ranks."""
        from lm_eval_tasks.results.report.plots import plots_of

        order: dict[str, list[str]] = {}
        for overview in self.overviews:
            order.setdefault(overview.family, []).extend(row.model for row in overview.rows)
        return plots_of([*self.runs.values()], order)

    def figures(self) -> Iterator[dict[str, Any]]:
        """A row for each headline of a model, over a family and each of its parts: :data:`FIGURE_COLUMNS`. What is not
        known is ``None``, as is a value that is not measurable."""
        models = [*self.runs]
        for overview in self.overviews:
            group = overview.group + 1 if overview.group or overview.elsewhere else None
            whole = "mean" if overview.languages else overview.family
            for part, each in {whole: overview, **overview.languages}.items():
                doubts = {row.model: row.doubts for row in each.rows}
                names = {column.metric.name for column in each.columns}
                compared = self.comparison.of_group(overview.group).columns if self.comparison else ()
                others = [c for c in compared if c.name == each.task and c.metric.name not in names]
                for column, run in ((of, run) for of in (*each.columns, *others) for run in of.order):
                    cell, metric, model = column.cells[run], column.metric, models[run]
                    read_by = cell.family.filter if cell.family else column.filter
                    name = metric.name if read_by in ("answer", "tags", "none", "") else f"{metric.name}, {read_by}"
                    folder, date = self.runs[model].folder.name, self.runs[model].date
                    where = model, folder, date, overview.family, group, part, name, metric.heading
                    of_figure = without_point(cell.figure, metric.unit)[:3]
                    known = (number if math.isfinite(number) else None for number in of_figure)
                    cells = *where, *known, cell.figure.n or None, cell.rank, doubts[model]
                    yield dict(zip(FIGURE_COLUMNS, cells, strict=True))

    # ------------------------------------------------------------------------------------------------------ renderings

    def to_frame(self) -> pandas.DataFrame:
        """The rows of :meth:`figures`."""
        import pandas

        return pandas.DataFrame(list(self.figures()))

    def to_json(self) -> dict[str, Any]:
        """The figures, and the comparison with its verdicts, as a JSON object."""
        compared = self.comparison.as_json() if self.comparison else {}
        told = [line for each in verdicts(self.comparison) for line in each.lines] if self.comparison else []
        return {"figures": [*self.figures()], **compared, "verdicts": told}

    def to_text(self, form: str = "text", **options: Any) -> str:
        """What ``compare`` prints, as :func:`lm_eval_tasks.results.compare.tables.render` has it; or why the runs are not
        compared. Empty of one run."""
        return render_comparison(self.comparison, form, **options) if self.comparison else self.why_none

    def to_markdown(self, by: str = "") -> str:
        """The summary for a pull request: headlines with bounds, doubts as notes, the headlines by a column of documents if
        one is named, differences of several models, and the commands. Everything from the runs is escaped."""
        from lm_eval_tasks.results.report.headlines import sections_by
        from lm_eval_tasks.results.report.page import markdown_template
        from lm_eval_tasks.results.reproduce import command_files

        parts = render_sections(sections_by(by, self.runs, self.read_answers), "markdown") if by else ""
        why_none = formats.escaped_markdown(self.why_none)
        commands = "\n".join(command for file in command_files(self.runs) for command in file["commands"])
        cells = [cell for column in self.headlines for cell in column.cells.values()]
        grounded = any(cell.family and cell.family.question for cell in cells)
        notes = dict.fromkeys(doubt.text for cell in cells for doubt in cell.reasons)
        text: str = markdown_template().render(
            title="Grounded generation" if grounded or not cells else "Results",
            models=[*self.runs],
            columns=self.headlines,
            notes={text: number for number, text in enumerate(notes, 1)},
            compared=self.to_text("markdown", notation=PAGE).strip() if self.comparison else why_none,
            parts=parts.strip(),
            command=commands and formats.code_block(commands),
        )
        return text

    def to_html(
        self,
        documents: int | None = PER_TASK,
        at_most: int | None = BYTES,
        paper: bool = False,
        by: str | Sequence[Section] = "",
        **more: Any,
    ) -> bytes:
        """The page.

        Args:
            documents: how many documents to show of each task; ``None`` for all.
            at_most: limit of the page's bytes, or ``None``. Larger pages show fewer documents of each task, at least one.
            paper: whether to add a comparison with published figures.
            by: a column of documents, to add their figures by it, as ``headlines.sections_by`` has them; or tables.
            more: of a page in a folder (:mod:`lm_eval_tasks.results.report.folder`): ``links``, ``tags``, ``unreadable``.
        """
        from lm_eval_tasks.results.report.documents import read_documents
        from lm_eval_tasks.results.report.headlines import sections_by
        from lm_eval_tasks.results.report.page import render

        every = [*self.runs.values()]
        page = self._page() | {"published": compare_with_published(every) if paper else []} | more
        page["by"] = sections_by(by, self.runs, self.read_answers) if by and isinstance(by, str) else by
        sampled = read_documents(self.runs, self.read_answers) if page["read"] else []

        def rendered(number: int | None) -> bytes:
            """The page with so many documents of each task."""
            content = {"documents": [task.sample(number) for task in sampled], "per_task": number}
            return render(page | content).encode("utf-8", "replace")

        html = rendered(documents)
        if at_most is not None and documents is not None and len(html) > at_most and sampled:
            empty, number = len(rendered(0)), documents
            while number > 1 and len(html) > max(at_most, empty):
                number = max(1, min(number - 1, number * (at_most - empty) // (len(html) - empty)))
                html = rendered(number)
        return html

    def _page(self) -> dict[str, Any]:
        """The variables of the templates, without its documents."""
        from lm_eval_tasks.results.report.headlines import title_of
        from lm_eval_tasks.results.report.page.summary import common_doubts, numbers, origins
        from lm_eval_tasks.results.reproduce import command_files

        comparison, is_one = self.comparison, len(self.runs) == 1
        differences: dict[tuple[str, ...], list[Difference]] = {}  # on headlines where only two models can be compared
        for column in comparison.columns if comparison else ():
            if column.headline and len(column.tested) == 1:
                key = column.benchmark, column.metric.name, column.filter
                differences.setdefault(key, []).extend(differences_of(column))
        is_nothing = comparison is not None and not any(each.columns for each in (comparison, *comparison.apart))
        nothing = "The models are not compared: they were asked nothing that is the same." if is_nothing else ""
        read = len(self.runs) <= MOST_READ
        pictures = {plot.family: plot for plot in self.plots if plot.family and not is_one}
        whole = {each.family: each for each in self.overviews if not each.group and not is_one}
        in_tables = [row.model for each in whole.values() for row in each.rows]
        by_benchmark: dict[str, list[tuple[str, TaskRun]]] = {}  # with their models, which are next to each other
        for name in dict.fromkeys(name for run in self.runs.values() for name in run.tasks):
            for label, task in ((label, run.tasks[name]) for label, run in self.runs.items() if name in run.tasks):
                by_benchmark.setdefault(task.benchmark, []).append((label, task))
        tasks = [task for of_benchmark in by_benchmark.values() for _, task in of_benchmark]
        return {
            "only_others": all(task.table is None for task in tasks),
            "only_logs": all(task.task == LOGGED for task in tasks),
            "only_detectors": all(task.table and task.table.measures_detectors(task.task) for task in tasks),
            "written": f"{datetime.date.today():%-d %B %Y}, version {package_version()}",
            "short": short_names(self.runs),
            "labels": [*self.runs],
            "read": read,
            "doubts": common_doubts(self.headlines),
            "overviews": self.overviews,
            "whole": whole if len(in_tables) > len({*in_tables}) else {},
            "pictures": pictures,
            "plots": [plot for plot in self.plots if plot.family not in pictures],
            "differences": [*differences.values()],
            "notes": [*filter(None, [self.why_none or nothing]), *(comparison.notes if comparison else ())],
            "reservations": reservations(comparison) if comparison else (),
            "verdicts": verdicts(comparison) if comparison else [],
            "commands": [*command_files(self.runs)] if read else [],
            "titles": {name: title_of(listed[0][1]) for name, listed in by_benchmark.items()},
            "numbers": {name: [*numbers(listed)] for name, listed in by_benchmark.items()} if read else {},
            "origins": {name: origins(listed) for name, listed in by_benchmark.items()} if read else {},
            **{of_folder: {} for of_folder in ("links", "tags", "unreadable")},
        }


def write_report(runs: Sequence[Run], path: Path, documents: int | None = PER_TASK, **options: Any) -> Path:
    """Write the page of some runs to a path, and return the path; options as of :meth:`Report.to_html`, errors as of
    :meth:`Report.of`. An OSError: the page cannot be written."""
    html = Report.of(runs).to_html(documents, **options)
    with whole_file(path) as partial:
        partial.write_bytes(html)
    return path
