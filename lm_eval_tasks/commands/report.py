"""Write a page with headlines, plots, differences, documents and provenance.

Writes one HTML file that loads nothing: the headlines of each model and benchmark with bounds and doubts, plots, the
differences between models, documents to read, search and filter, and where every number comes from.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lm_eval_tasks.commands import add_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="folder, results file or samples file of a run; several models",
    )
    add_output(parser, "FILE", "the page (default: report.html)")
    parser.add_argument(
        "--documents",
        type=_number,
        default=_DEFAULT,
        metavar="N",
        help="how many documents of each task to show, or `all` (default: 8, fewer where the page would exceed 4.8 MB)",
    )


_DEFAULT = -1


def _number(text: str) -> int | None:
    if text == "all":
        return None
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of documents; give 0 or more, or all")
    return number


def run(arguments: argparse.Namespace) -> int:
    from lm_eval_tasks.commands.work.reporting.writing import PER_TASK, write_report
    from lm_eval_tasks.runs import read_runs

    path = arguments.output or Path("report.html")
    runs = read_runs(arguments.runs)
    if arguments.documents == _DEFAULT:
        write_report(runs, path, PER_TASK)
    else:
        write_report(runs, path, arguments.documents, at_most=None)
    print(path)
    return 0
