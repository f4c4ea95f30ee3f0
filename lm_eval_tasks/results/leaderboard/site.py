"""The site of a leaderboard: an index, and a page for each run."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data.atomic import whole_file
from lm_eval_tasks.results.leaderboard.entries import Found, Unreadable, read_entries
from lm_eval_tasks.results.leaderboard.entry import Entry
from lm_eval_tasks.results.leaderboard.page import GENERATOR, Board, ShownRun, render_index, render_run, state_of
from lm_eval_tasks.results.leaderboard.reports import RUNS, beside, name_of, report_of, write_reports
from lm_eval_tasks.results.leaderboard.standings import sections_of
from lm_eval_tasks.runs import Run, labels

__all__ = ["Site", "write_leaderboard"]

INDEX, CACHE = "index.html", ".runs"
_HEAD = 1024  # characters of a page in which it says what it was made from
_OURS = re.compile(r"run-[0-9a-f]{16}\.html|report-[0-9a-f]{16}-[0-9a-f]{12}\.html")


@dataclass(frozen=True)
class Site:
    """What was written.

    Attributes:
        index: its first page.
        runs: how many runs are on it.
        read: how many folders were read, rather than found as they were.
        unreadable: what no run could be read from.
    """

    index: Path
    runs: int
    read: int
    unreadable: tuple[Unreadable, ...]


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
    _refuse_others(site / INDEX)
    found = read_entries(place, site / CACHE)
    if reports:
        write_reports(found.entries, place, site)
    shown = _shown(found.entries, place, site)
    for entry, run in zip(found.entries, shown, strict=True):
        _write_run(site / run.page, entry, run)
    others = Counter(name for entry in found.entries for name in entry.others)
    board = Board(shown, sections_of(found.entries), found.unreadable, dict(sorted(others.items())))
    _write(site / INDEX, render_index(board))
    _sweep(site, found, shown)
    return Site(site / INDEX, len(shown), found.read, found.unreadable)


def _refuse_others(index: Path) -> None:
    if index.is_file() and GENERATOR not in index.read_text("utf-8", errors="replace")[:4096]:
        raise UsageError(f"{index} is not a leaderboard's; name another folder (-o)")


def _shown(entries: Sequence[Entry], place: Path, site: Path) -> list[ShownRun]:
    named = labels([Run(entry.model, Path(entry.folder), {}, date=entry.date) for entry in entries])
    shown = []
    for entry, label in zip(entries, named, strict=True):
        found = (path for path in (beside(entry, place), report_of(entry, site)) if path.is_file())
        address = next((quote(os.path.relpath(path, site).replace(os.sep, "/")) for path in found), "")
        shown.append(ShownRun(label, f"{RUNS}/run-{name_of(entry)}.html", address))
    return shown


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


def _sweep(site: Path, found: Found, shown: Sequence[ShownRun]) -> None:
    """Remove what was written for runs that are gone."""
    pages = {site / run.page for run in shown} | {report_of(entry, site) for entry in found.entries}
    gone = [path for path in (site / RUNS).glob("*.html") if path not in pages and _OURS.fullmatch(path.name)]
    gone += [path for path in (site / CACHE).glob("*.json") if path not in found.kept]
    for path in gone:
        path.unlink(missing_ok=True)
