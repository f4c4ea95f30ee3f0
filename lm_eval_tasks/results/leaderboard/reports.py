"""The reports of the runs on a leaderboard."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from lm_eval_tasks.results.leaderboard.entry import Entry
from lm_eval_tasks.runs.finding import find_files, read_files

__all__ = ["RUNS", "beside", "name_of", "report_of", "write_reports"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

RUNS = "runs"
"""The folder of the site in which pages of runs lie."""


def name_of(entry: Entry) -> str:
    """Sixteen digits that no other run of the site has."""
    return hashlib.sha256(f"{entry.folder}\n{entry.model}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def beside(entry: Entry, place: Path) -> Path:
    """A report that somebody wrote beside the run's files."""
    return place / entry.folder / "report.html"


def report_of(entry: Entry, site: Path) -> Path:
    """The site's own report of a run; its name says which content of the run's files it is of."""
    return site / RUNS / f"report-{name_of(entry)}-{entry.digest[:12]}.html"


def write_reports(entries: Sequence[Entry], place: Path, site: Path) -> None:
    """Write the reports that are missing. A run of which none can be written goes without, and the log says why."""
    missing = [e for e in entries if not beside(e, place).is_file() and not report_of(e, site).is_file()]
    if not missing:
        return
    from lm_eval_tasks.results.report import write_report

    for entry in tqdm(missing, desc="Writing reports", unit=" runs", disable=None):
        folder = place / entry.folder
        try:
            (files,) = (files for files in find_files(folder) if files.folder == folder)
            write_report([run for run in read_files(files) if run.model == entry.model], report_of(entry, site))
        except (OSError, ValueError) as error:
            log.warning("%s: no report could be written: %s", folder, error)
