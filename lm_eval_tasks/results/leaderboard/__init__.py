"""Many runs on one static page: who is better on which benchmark and language, and who cannot be told apart.

The site is an index, and a page for each run: HTML files that load nothing, and need no script to be read.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tqdm import tqdm

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.units import Unit
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data.atomic import whole_file
from lm_eval_tasks.data.provenance import PACKAGE
from lm_eval_tasks.results.leaderboard.entry import Entry, read_entries
from lm_eval_tasks.results.leaderboard.standings import Cell, sections_of
from lm_eval_tasks.results.report.numbers import not_measurable
from lm_eval_tasks.results.report.page import environment_of
from lm_eval_tasks.runs import Run, labels
from lm_eval_tasks.runs.finding import find_files, read_files

__all__ = ["Site", "write_leaderboard"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_GENERATOR = "lm-eval-grounded leaderboard"
_INDEX, _CACHE, _RUNS = "index.html", ".runs", "runs"
_OURS = re.compile(r"run-[0-9a-f]{16}\.html|report-[0-9a-f]{16}-[0-9a-f]{12}\.html")


@dataclass(frozen=True)
class Site:
    """What was written."""

    index: Path  # its first page
    runs: int  # on it
    read: int  # folders that were read, rather than found as they were
    unreadable: Mapping[str, str]  # folders that no run could be read from, and why


def write_leaderboard(place: Path, site: Path, reports: bool = False) -> Site:
    """Write the site of all runs below a folder, or bring it up to date.

    Args:
        place: folder of runs.
        site: folder of the site, made where it is missing; it may lie in `place`. What was read of the runs is kept in it.
        reports: whether to write a report of each run that has none, or has changed since.

    Raises:
        MissingSource: there is no run in `place`.
        UsageError: `site` holds an ``index.html`` that is not a leaderboard's.
    """
    index = site / _INDEX
    if index.is_file() and _GENERATOR not in index.read_text("utf-8", errors="replace")[:4096]:
        raise UsageError(f"{index} is not a leaderboard's; name another folder (-o)")
    entries, unreadable, read = read_entries(place, site / _CACHE)
    if reports:
        _write_reports(entries, place, site)
    named = labels([Run(entry.model, Path(entry.folder), {}, date=entry.date) for entry in entries])
    shown = []
    for entry, label in zip(entries, named, strict=True):
        there = (path for path in _reports_of(entry, place, site) if path.is_file())
        report = next((quote(os.path.relpath(path, site).replace(os.sep, "/")) for path in there), "")
        shown.append(run := {"label": label, "page": f"{_RUNS}/run-{_name_of(entry)}.html", "report": report})
        to_report = f"../{report}" if report else ""
        _write(site / run["page"], _render("run.html.jinja", entry=entry, run=run, report=to_report))
    others = Counter(name for entry in entries for name in entry.others)
    tables = {"sections": sections_of(entries), "unreadable": unreadable}
    _write(index, _render("index.html.jinja", runs=shown, other_tasks=dict(sorted(others.items())), **tables))
    pages = {site / run["page"] for run in shown} | {_reports_of(entry, place, site)[1] for entry in entries}
    for path in (site / _RUNS).glob("*.html"):  # what was written for runs that are gone
        if path not in pages and _OURS.fullmatch(path.name):
            path.unlink(missing_ok=True)
    return Site(index, len(shown), read, unreadable)


def _write(path: Path, html: str) -> None:
    """Write a page; one that is there as it should be stays."""
    if not path.is_file() or path.read_text("utf-8", errors="replace") != html:
        with whole_file(path) as partial:
            partial.write_text(html, "utf-8")


# ------------------------------------------------------------------------------------------------------------- reports


def _name_of(entry: Entry) -> str:
    """Sixteen digits that no other run of the site has."""
    return hashlib.sha256(f"{entry.folder}\n{entry.model}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _reports_of(entry: Entry, place: Path, site: Path) -> tuple[Path, Path]:
    """The report that somebody wrote beside the run's files, and the site's own, whose name says which content of the run's
    files it is of."""
    own = site / _RUNS / f"report-{_name_of(entry)}-{entry.digest[:12]}.html"
    return place / entry.folder / "report.html", own


def _write_reports(entries: Sequence[Entry], place: Path, site: Path) -> None:
    """Write the reports that are missing. A run of which none can be written goes without, and the log says why."""
    missing = [entry for entry in entries if not any(path.is_file() for path in _reports_of(entry, place, site))]
    if not missing:
        return
    from lm_eval_tasks.results.report import write_report

    for entry in tqdm(missing, desc="Writing reports", unit=" runs", disable=None):
        folder = place / entry.folder
        try:
            (files,) = (files for files in find_files(folder) if files.folder == folder)
            runs = [run for run in read_files(files) if run.model == entry.model]
            write_report(runs, _reports_of(entry, place, site)[1])
        except (OSError, ValueError) as error:
            log.warning("%s: no report could be written: %s", folder, error)


# --------------------------------------------------------------------------------------------------------------- pages


@lru_cache(maxsize=1)
def _environment() -> Any:
    environment = environment_of(__name__, "leaderboard", _shown)
    environment.globals |= {"generator": _GENERATOR, "version": version(PACKAGE)}
    environment.filters |= {"figure": _figure, "unknown": _unknown}
    return environment


def _render(name: str, **shown: Any) -> str:
    html: str = _environment().get_template(name).render(**shown)
    return html


def _shown(value: Any) -> Any:
    """A value as a page shows it, before it is escaped: characters that cannot be seen, or that change the direction of
    what follows, become U+FFFD. Names of models, tasks and files need none of them."""
    if not isinstance(value, str) or hasattr(value, "__html__") or value.isprintable():
        return value
    return "".join(character if character.isprintable() else "\ufffd" for character in value)


def _figure(value: Any) -> str:
    """A number with what a reader can use of it: three decimals of a share, none of what is long."""
    number = float(value)
    return f"{number:.3f}" if abs(number) < 10 else f"{number:.1f}" if abs(number) < 100 else f"{number:.0f}"


def _unknown(cell: Cell | Mapping[str, Any], unit: Unit = "share") -> str:
    """That a figure, of a table or as a results file has it (in this unit), is not measurable, with its bounds; else
    empty."""
    if isinstance(cell, Cell):
        return not_measurable(cell.figure, cell.unit)
    parts = (cell.get(part) for part in ("value", "low", "high"))
    value, low, high = (float(part) if isinstance(part, (int, float)) else math.nan for part in parts)
    return not_measurable(Figure(value, low, high), unit)
