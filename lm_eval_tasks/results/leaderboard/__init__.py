"""Many runs on one static page: who is better on which benchmark and language, and who cannot be told apart.

The site is an index, and a page for each run.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tqdm import tqdm

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data.atomic import whole_file
from lm_eval_tasks.results.leaderboard.entry import Entry, Unreadable, read_entries
from lm_eval_tasks.results.leaderboard.page import GENERATOR, ShownRun, render_index, render_run, state_of
from lm_eval_tasks.results.leaderboard.standings import sections_of
from lm_eval_tasks.runs import Run, labels
from lm_eval_tasks.runs.finding import find_files, read_files

__all__ = ["Site", "write_leaderboard"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_INDEX, _CACHE, _RUNS = "index.html", ".runs", "runs"
_HEAD = 1024  # characters of a page in which it says what it was made from
_OURS = re.compile(r"run-[0-9a-f]{16}\.html|report-[0-9a-f]{16}-[0-9a-f]{12}\.html")


@dataclass(frozen=True)
class Site:
    """What was written: its first page, how many runs are on it, how many folders were read, rather than found as they
    were, and what no run could be read from."""

    index: Path
    runs: int
    read: int
    unreadable: Sequence[Unreadable]


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
    if index.is_file() and GENERATOR not in index.read_text("utf-8", errors="replace")[:4096]:
        raise UsageError(f"{index} is not a leaderboard's; name another folder (-o)")
    found = read_entries(place, site / _CACHE)
    if reports:
        _write_reports(found.entries, place, site)
    named = labels([Run(entry.model, Path(entry.folder), {}, date=entry.date) for entry in found.entries])
    shown = []
    for entry, label in zip(found.entries, named, strict=True):
        there = (path for path in (_report_beside(entry, place), _report_of(entry, site)) if path.is_file())
        report = next((quote(os.path.relpath(path, site).replace(os.sep, "/")) for path in there), "")
        shown.append(run := ShownRun(label, f"{_RUNS}/run-{_name_of(entry)}.html", report))
        _write_run(site / run.page, entry, run)
    others = Counter(name for entry in found.entries for name in entry.others)
    _write(index, render_index(shown, sections_of(found.entries), found.unreadable, dict(sorted(others.items()))))
    # What was written for runs that are gone.
    pages = {site / run.page for run in shown} | {_report_of(entry, site) for entry in found.entries}
    gone = [path for path in (site / _RUNS).glob("*.html") if path not in pages and _OURS.fullmatch(path.name)]
    gone += [path for path in (site / _CACHE).glob("*.json") if path not in found.cache_files]
    for path in gone:
        path.unlink(missing_ok=True)
    return Site(index, len(shown), found.read, found.unreadable)


def _write_run(path: Path, entry: Entry, run: ShownRun) -> None:
    """A run's page, where it is not there as it should be."""
    report = f"../{run.report}" if run.report else ""
    state = state_of(entry.digest, run.label, report)
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            current = f'content="{state}"' in stream.read(_HEAD)
    except FileNotFoundError:
        current = False
    if not current:
        _write(path, render_run(entry, run, report, state))


def _write(path: Path, html: str) -> None:
    with whole_file(path) as partial:
        partial.write_text(html, "utf-8")


# ------------------------------------------------------------------------------------------------------------- reports


def _name_of(entry: Entry) -> str:
    """Sixteen digits that no other run of the site has."""
    return hashlib.sha256(f"{entry.folder}\n{entry.model}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _report_beside(entry: Entry, place: Path) -> Path:
    """A report that somebody wrote beside the run's files."""
    return place / entry.folder / "report.html"


def _report_of(entry: Entry, site: Path) -> Path:
    """The site's own report of a run; its name says which content of the run's files it is of."""
    return site / _RUNS / f"report-{_name_of(entry)}-{entry.digest[:12]}.html"


def _write_reports(entries: Sequence[Entry], place: Path, site: Path) -> None:
    """Write the reports that are missing. A run of which none can be written goes without, and the log says why."""
    missing = [
        entry
        for entry in entries
        if not _report_beside(entry, place).is_file() and not _report_of(entry, site).is_file()
    ]
    if not missing:
        return
    from lm_eval_tasks.results.report.writing import write_report

    for entry in tqdm(missing, desc="Writing reports", unit=" runs", disable=None):
        folder = place / entry.folder
        try:
            (files,) = (files for files in find_files(folder) if files.folder == folder)
            write_report([run for run in read_files(files) if run.model == entry.model], _report_of(entry, site))
        except (OSError, ValueError) as error:
            log.warning("%s: no report could be written: %s", folder, error)
