"""The report of many runs as a folder: its page, a page of each run, and all figures as CSV and JSON.

What was read of a run, and its page, are kept until one of its files changes.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data import whole_file
from lm_eval_tasks.data.provenance import package_version
from lm_eval_tasks.data.tables import CorruptSource, read_csv
from lm_eval_tasks.results.formats import csv_of, json_of
from lm_eval_tasks.results.report import FIGURE_COLUMNS, Report
from lm_eval_tasks.results.report.documents import ReadAnswers, caching_reader
from lm_eval_tasks.runs import Run
from lm_eval_tasks.runs.finding import find_files_once, read_files
from lm_eval_tasks.runs.kept import kept_file
from lm_eval_tasks.runs.run import checked_cost, with_cost

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_KEPT, _RUNS = ".read", "runs"
_GENERATOR = '<meta name="generator" content="lm-eval-grounded report">'
_DAMAGED = (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)
"""Errors that reading a damaged results file can raise."""


def readable_runs(places: Sequence[Path], cost: float = 1.0) -> tuple[list[Run], dict[str, str]]:
    """The runs in some places, each once; and the folders of which none can be read, relative to what all have in common,
    with the reason. Errors are those of :func:`lm_eval_tasks.runs.finding.find_files`, and of a `cost` that is none."""
    cost, root = checked_cost(cost), os.path.commonpath([place.absolute() for place in places])
    runs: list[Run] = []
    unreadable: dict[str, str] = {}
    for files in tqdm(find_files_once(places), desc="Reading runs", unit=" runs", disable=None):
        try:
            runs += [with_cost(run, cost) for run in read_files(files)]
        except _DAMAGED as error:
            name, reason = os.path.relpath(files.folder, root), str(error) or type(error).__name__
            unreadable[name] = reason.replace(f"{files.folder}/", "")
            log.warning("%s: cannot be read: %s", files.folder, reason)
    return runs, unreadable


def write_folder(
    runs: Sequence[Run],
    folder: Path,
    tags: Path | None = None,
    unreadable: Mapping[str, str] | None = None,
    **options: Any,
) -> list[str]:
    """Write or update the folder of some runs, and return the models of the file of tags that have no run.

    Args:
        folder: created if missing. It may be among the folders of runs.
        tags: CSV file with a column ``model`` and others, such as ``size`` and ``licence``: shown beside the model.
        unreadable: folders of which no run could be read, with the reason.
        options: of :meth:`lm_eval_tasks.results.report.Report.to_html`.

    Raises:
        UsageError: `folder` holds an ``index.html`` that is no report, or `tags` has no column ``model``.
        ValueError: there are no runs.
    """
    index = folder / "index.html"
    if index.is_file() and _GENERATOR not in index.read_text("utf-8", errors="replace")[:4096]:
        raise UsageError(f"{index} is not a report's; name another folder (-o)")
    by_model = read_tags(tags) if tags else {}
    read, unread = caching_reader(folder / _KEPT), dict(unreadable or {})
    runs = _without_damaged(runs, read, unread)
    report = Report.of(runs, read)
    of_runs = ((label, by_model.get(run.model) or by_model.get(label)) for label, run in report.runs.items())
    own_tags = {label: of_model for label, of_model in of_runs if of_model}
    links: dict[str, str] = {}
    for label, run in tqdm(report.runs.items(), desc="Writing pages", unit=" runs", disable=None):
        links[label] = f"{_RUNS}/{_digest(run, options)}.html"
        if not (folder / links[label]).is_file():
            _write(folder / links[label], Report.of([run], read).to_html(**options))
    _write(index, report.to_html(**options, links=links, tags=own_tags, unreadable=unread))
    no_tags = dict.fromkeys(name for of_model in own_tags.values() for name in of_model)
    rows = [{**row, **no_tags, **own_tags.get(row["model"], {})} for row in report.figures()]
    _write(folder / "figures.csv", csv_of(rows).encode())
    _write(folder / "figures.json", json_of({"rows": rows}).encode())
    kept = {kept_file(folder / _KEPT, t, t.samples) for run in runs for t in run.tasks.values() if t.samples}
    pages = {folder / link for link in links.values()}
    for path in {*folder.glob(f"{_KEPT}/*.answers"), *folder.glob(f"{_RUNS}/{'[0-9a-f]' * 32}.html")} - kept - pages:
        path.unlink(missing_ok=True)  # of runs that are gone
    return sorted({*by_model} - {*report.runs} - {run.model for run in runs})


def _without_damaged(runs: Sequence[Run], read: ReadAnswers, unreadable: dict[str, str]) -> list[Run]:
    """Runs without the samples files that are damaged, which are added to `unreadable`: they cost a rank on their task
    alone. Runs share the documents of a task, so it is read of all of them before the next one is."""
    by_run = [dict(run.tasks) for run in runs]
    names = dict.fromkeys(name for run in runs for name in run.tasks)
    for name in tqdm(names, desc="Reading answers", unit=" tasks", disable=None):
        for run, tasks in zip(runs, by_run, strict=True):
            try:
                if name in tasks and tasks[name].samples is not None:
                    read(tasks[name])
            except CorruptSource as error:
                unreadable[f"{run.folder.name}, {name}"] = str(error).replace(f"{run.folder}/", "")
                tasks[name] = replace(tasks[name], samples=None)
    return [replace(run, tasks=tasks) for run, tasks in zip(runs, by_run, strict=True)]


def read_tags(path: Path) -> dict[str, dict[str, str]]:
    """The rows of a file of tags, by model; without empty values. UsageError if it is no such file."""
    try:
        header, *rows = read_csv(path)
    except (OSError, CorruptSource) as error:
        raise UsageError(f"--tags: {error}") from error
    if "model" not in header or len(header) < 2:
        raise UsageError(
            f"--tags {path}: its columns are {', '.join(header)}; it needs model and one more, such as size"
        )
    if taken := [name for name in FIGURE_COLUMNS if name in header and name != "model"]:
        raise UsageError(f"--tags {path}: the figures have a column {taken[0]} of their own; name this one otherwise")
    named = [row for row in rows if row.get("model")]
    return {row["model"]: {key: value for key, value in row.items() if key != "model" and value} for row in named}


def _digest(run: Run, options: Mapping[str, Any]) -> str:
    """32 hexadecimal digits of what the page of a run depends on."""
    files = {path for task in run.tasks.values() for path in (task.samples, task.results_file) if path}
    states = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(files)]
    costs = sorted({task.cost for task in run.tasks.values()})
    depends = [package_version(), run.model, costs, states, sorted(map(str, options.items()))]
    return hashlib.sha256(json.dumps(depends).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _write(path: Path, content: bytes) -> None:
    """Write a file, unless it already has this content."""
    if not path.is_file() or path.read_bytes() != content:
        with whole_file(path) as partial:
            partial.write_bytes(content)
