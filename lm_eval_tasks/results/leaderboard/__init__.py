"""A leaderboard of many runs: ranks by benchmark and language, in which models without a significant difference share one.

The site has an index, and a page for each run: static HTML files that load nothing, and need no script to be read. Beside
them lie all figures as CSV and JSON.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tqdm import tqdm

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.units import Unit, is_measurable
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import on_one_line
from lm_eval_tasks.data.atomic import whole_file
from lm_eval_tasks.data.provenance import PACKAGE
from lm_eval_tasks.data.tables import CorruptSource, read_csv
from lm_eval_tasks.results.board import Cell
from lm_eval_tasks.results.formats import csv_of, in_fractions, json_of, number
from lm_eval_tasks.results.leaderboard.entry import Entry, read_entries, root_of
from lm_eval_tasks.results.leaderboard.standings import Section, Table, overviews, sections_of
from lm_eval_tasks.results.report import drawing
from lm_eval_tasks.results.report.drawing import Axis, Plot, wrapped
from lm_eval_tasks.results.report.page import environment_of
from lm_eval_tasks.results.report.readers import address_of
from lm_eval_tasks.runs import Run, labels
from lm_eval_tasks.runs.finding import find_files, read_files
from lm_eval_tasks.runs.run import checked_cost, with_cost

__all__ = ["Site", "write_leaderboard"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_GENERATOR = "lm-eval-grounded leaderboard"
_INDEX, _CACHE, _RUNS, _PICTURE = "index.html", ".runs", "runs", "leaderboard.png"
_OURS = re.compile(r"run-[0-9a-f]{16}\.html|report-[0-9a-f]{16}-[0-9a-f]{12}\.html")


Tags = Mapping[str, str]
"""What a user says of a model: name to value."""

FIELDS = "model folder date benchmark group column metric title value low high n rank doubts".split()
"""Of a row: the model, where its figure stands, the metric's heading (with the cost of a balanced error), the figure with
its 95 % bounds, its rank, and doubts about the run."""


@dataclass(frozen=True)
class Site:
    """A site that was written."""

    index: Path  # its first page
    runs: int  # number of runs on it
    updated: int  # number of folders that were read because they are new or have changed
    unreadable: Mapping[str, str]  # folder to why no run could be read from it
    overviews: str  # as text: a table of models, and one of detectors
    untagged: Sequence[str]  # models of the file of tags that have no run


def write_leaderboard(
    folders: Path | Sequence[Path],
    site: Path,
    reports: bool = False,
    tags: Path | None = None,
    url: str = "",
    cost: float = 1.0,
) -> Site:
    """Write or update the site of all runs below a folder, or several.

    Args:
        folders: folders of runs; a run that is in several of them counts once.
        site: folder of the site, created if missing; it may be in one of them. It also holds a cache of the runs.
        reports: whether to write a report of each run that has none, or has changed since; without it, of each that people
            marked.
        tags: CSV file with a column ``model`` and others, such as ``size`` and ``licence``: shown beside the model.
        url: address at which the site will be. Links to it then have a preview with a picture: previews take absolute
            addresses only. Without matplotlib there is none, and the log says so.
        cost: what a made-up answer counts in balanced errors (:func:`lm_eval_tasks.runs.run.with_cost`).

    Raises:
        MissingSource: there is no run in one of the folders.
        UsageError: `site` holds an ``index.html`` that is no leaderboard, `tags` has no column ``model``, `url` is no web
            address, or `cost` is not larger than 0.
    """
    cost = checked_cost(cost)
    if url and not address_of(url):
        raise UsageError(f"--url {url}: give the address of the site, such as https://NAME.github.io/leaderboard/")
    index = site / _INDEX
    if index.is_file() and _GENERATOR not in index.read_text("utf-8", errors="replace")[:4096]:
        raise UsageError(f"{index} is not a leaderboard's; name another folder (-o)")
    by_model = _read_tags(tags) if tags else {}
    places = [folders] if isinstance(folders, Path) else folders
    if len(places) > 1:
        places = [Path(os.path.abspath(place)) for place in places]
    folder = root_of(places)
    entries, unreadable, updated = read_entries(places, folder, site / _CACHE, cost)
    marked = {entry.folder for entry in entries if _is_marked(entry)}
    _write_reports([entry for entry in entries if reports or entry.folder in marked], folder, site, cost)
    of_entries = [Run(entry.model, Path(entry.folder), {}, date=entry.date) for entry in entries]
    run_labels = labels(of_entries, [entry.settings for entry in entries])
    run_tags = [
        by_model.get(entry.model) or by_model.get(label) or {} for entry, label in zip(entries, run_labels, strict=True)
    ]
    run_pages = []
    for entry, label, tags_of_run in zip(entries, run_labels, run_tags, strict=True):
        written = (path for path in _report_paths(entry, folder, site) if path.is_file())
        report = next((quote(os.path.relpath(path, site).replace(os.sep, "/")) for path in written), "")
        page = f"{_RUNS}/run-{_page_id(entry)}.html"
        run_pages.append(run := {"label": label, "page": page, "report": report, "date": entry.date[:10]})
        to_report = f"../{report}" if report else ""
        of_page = {"tags": tags_of_run, "report": to_report, "marked": entry.folder in marked}
        _write(site / run["page"], _render("run.html.jinja", entry=entry, run=run, **of_page))
    other_tasks = Counter(name for entry in entries for name in entry.others)
    sections = sections_of(entries)
    tables = overviews(sections, entries)
    shown = {"sections": sections, "overviews": tables, "unreadable": unreadable, "other_tasks": other_tasks}
    has_picture = url and tables and _write_picture(site / _PICTURE, tables[0], run_labels)
    shown |= {"preview": url.rstrip("/") if has_picture else ""}
    _write(index, _render("index.html.jinja", runs=run_pages, tags=run_tags, **shown))
    rows = [*rows_of(sections, entries, run_labels, run_tags)]
    _write(site / "leaderboard.csv", csv_of(rows))
    _write(site / "leaderboard.json", json_of({"rows": rows}))
    pages = {site / run["page"] for run in run_pages} | {_report_paths(entry, folder, site)[1] for entry in entries}
    for path in (site / _RUNS).glob("*.html"):  # pages of runs that are gone
        if path not in pages and _OURS.fullmatch(path.name):
            path.unlink(missing_ok=True)
    text = "\n".join(overview_text(table, run_labels) for table in tables)
    without_run = sorted({*by_model} - {*run_labels} - {entry.model for entry in entries})
    return Site(index, len(run_pages), updated, unreadable, text, without_run)


def _read_tags(path: Path) -> dict[str, Tags]:
    """The rows of a file of tags, by model; without empty values. UsageError if it is no such file."""
    try:
        header, *rows = read_csv(path)
    except (OSError, CorruptSource) as error:
        raise UsageError(f"--tags: {error}") from error
    if "model" not in header or len(header) < 2:
        raise UsageError(
            f"--tags {path}: its columns are {', '.join(header)}; it needs model and one more, such as size"
        )
    if taken := [name for name in FIELDS if name in header and name != "model"]:
        raise UsageError(f"--tags {path}: the leaderboard has a column {taken[0]} of its own; name this one otherwise")
    return {
        row["model"]: {key: value for key, value in row.items() if key != "model" and value}
        for row in rows
        if row.get("model")
    }


def _write(path: Path, text: str) -> None:
    """Write a file, unless it already has this content."""
    if not path.is_file() or path.read_text("utf-8", errors="replace") != text:
        with whole_file(path) as partial:
            partial.write_text(text, "utf-8")


def _write_picture(path: Path, table: Table, run_labels: Sequence[str]) -> bool:
    """Draw the first column of a table, the best twelve with their bounds, in the size of previews; return whether
    matplotlib is there."""
    column = table.columns[0]
    cells = [(run_labels[row.entry], column.cells[row.entry]) for row in table.rows if row.entry in column.cells]
    metric = column.metric
    axis = Axis(metric.heading, limits=drawing.SHARE_LIMITS if metric.unit == "share" else None)
    lines = [drawing.Line(wrapped(label, 34, 1), [cell.figure]) for label, cell in cells[:12]]

    def draw() -> Any:
        figure = drawing.draw_lines([drawing.Panel(column.name or table.title, lines, axis)], [""])
        figure.set_size_inches(6, 3.15)  # 1200 x 630 pixels
        return figure

    try:
        with whole_file(path) as partial:
            Plot("leaderboard", "", "", (), (), draw).write(partial, format="png", dpi=200, facecolor="white")
    except ModuleNotFoundError as error:
        log.warning("no picture for links: %s", error)
        return False
    return True


# ------------------------------------------------------------------------------------------------------------- reports


def _page_id(entry: Entry) -> str:
    """Sixteen hexadecimal digits that identify a run of the site."""
    return hashlib.sha256(f"{entry.folder}\n{entry.model}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _is_marked(entry: Entry) -> bool:
    """Whether people marked answers of a run: a report shows their marks."""
    by_filter = (figures for task in entry.tasks for figures in task.figures.values())
    return any(metric.startswith("marked_") for figures in by_filter for metric in figures)


def _report_paths(entry: Entry, folder: Path, site: Path) -> tuple[Path, Path]:
    """The paths of a user's report beside the run's files, and of the site's own, whose name has a digest of the run's
    files."""
    site_report = site / _RUNS / f"report-{_page_id(entry)}-{entry.digest[:12]}.html"
    return folder / entry.folder / "report.html", site_report


def _write_reports(entries: Sequence[Entry], root: Path, site: Path, cost: float) -> None:
    """Write the missing reports. If one cannot be written, the log says why."""
    missing = [entry for entry in entries if not any(path.is_file() for path in _report_paths(entry, root, site))]
    if not missing:
        return
    from lm_eval_tasks.results.report import write_report

    for entry in tqdm(missing, desc="Writing reports", unit=" runs", disable=None):
        folder = root / entry.folder
        try:
            (files,) = (files for files in find_files(folder) if files.folder == folder)
            runs = [with_cost(run, cost) for run in read_files(files) if run.model == entry.model]
            write_report(runs, _report_paths(entry, root, site)[1])
        except (OSError, ValueError) as error:
            log.warning("%s: no report could be written: %s", folder, error)


# --------------------------------------------------------------------------------------------------------------- pages


@lru_cache(maxsize=1)
def _environment() -> Any:
    environment = environment_of(__name__, "leaderboard", _printable)
    environment.globals |= {"generator": _GENERATOR, "version": version(PACKAGE)}
    environment.filters |= {"figure": _figure_of, "breakable": _breakable, "zip": zip}
    return environment


def _render(name: str, **variables: Any) -> str:
    html: str = _environment().get_template(name).render(**variables)
    return html


def _printable(value: Any) -> Any:
    """A value as a page shows it, before it is escaped: invisible characters, and those that change the direction of text,
    become U+FFFD. Names of models, tasks and files need none of them."""
    if not isinstance(value, str) or hasattr(value, "__html__") or value.isprintable():
        return value
    return "".join(character if character.isprintable() else "\ufffd" for character in value)


def _breakable(name: str) -> Any:
    """A name, escaped, that a narrow column may break behind a slash, a hyphen or an underscore."""
    from markupsafe import Markup, escape

    return Markup("<wbr>").join(escape(_printable(part)) for part in re.split(r"(?<=[/_-])", name))


def _figure_of(entry: Mapping[str, Any]) -> Figure:
    """The figure of an entry of a results file."""
    numbers = (entry.get(key) for key in ("value", "low", "high"))
    value, low, high = (float(number) if isinstance(number, (int, float)) else math.nan for number in numbers)
    return Figure(value, low, high)


# ---------------------------------------------------------------------------------------------------------------- data


def rows_of(
    sections: Sequence[Section], entries: Sequence[Entry], labels: Sequence[str], tags: Sequence[Tags]
) -> Iterator[dict[str, Any]]:
    """A row for each cell of the sections' tables: :data:`FIELDS`, and the tags of any model. What is not known is
    ``None``, as is the value of a figure that is not measurable."""
    no_tags = dict.fromkeys(key for of_run in tags for key in of_run)
    cells = (
        (section, table, row, column, cell)
        for section in sections
        for table in (section.summary, *section.tables)
        for row in table.rows
        for column in table.columns
        if (cell := column.cells.get(row.entry))
    )
    for section, table, row, column, cell in cells:
        entry, figure = entries[row.entry], cell.figure
        label = table.label(column) or table.title
        where = section.family, section.number or None, column.name or section.family, label
        value = _known(figure.value) if is_measurable(figure, column.metric.unit) else None
        numbers = value, _known(figure.low), _known(figure.high), figure.n or None, cell.rank
        heading = column.metric.heading
        values = labels[row.entry], entry.folder, entry.date, *where, heading, *numbers, "; ".join(row.marks)
        yield {**dict(zip(FIELDS, values, strict=True)), **no_tags, **tags[row.entry]}


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def overview_text(table: Table, labels: Sequence[str]) -> str:
    """An overview as a table in Markdown: value, bounds and rank; ``*`` marks published values."""
    from tabulate import tabulate

    header = [table.title, *(" ".join(filter(None, (each.name, table.label(each)))) for each in table.columns)]
    rows = [
        [
            on_one_line(labels[row.entry]),
            *(_text(each.cells.get(row.entry), each.metric.unit) for each in table.columns),
        ]
        for row in table.rows
    ]
    rows += [
        [f"* {each.model}", *(number(each.values.get(place, math.nan)) for place in range(len(table.columns)))]
        for each in table.published
    ]
    safe = [[cell.replace("|", "\\|") for cell in row] for row in (header, *rows)]
    sources = "".join(f"* {source}\n" for source in dict.fromkeys(row.source for row in table.published))
    text: str = tabulate(safe[1:], safe[0], tablefmt="github", disable_numparse=True)
    return f"{text}\n{sources}"


def _text(cell: Cell | None, unit: Unit) -> str:
    return in_fractions(cell.figure, unit) + (f" #{cell.rank}" if cell.rank else "") if cell else "-"
