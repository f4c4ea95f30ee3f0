"""Write a page of one run or two hundred: verdicts, ranks, plots, differences, documents and provenance.

Writes one HTML file that loads nothing: which models are better, the headlines of each model and benchmark with bounds,
ranks and doubts, plots, the differences between models, documents to read, search and filter, and where every number comes
from. Of a folder (`-o site`) it is index.html, beside a page of each run and all figures as figures.csv and figures.json;
the next time only new runs are read. `--format markdown` writes a summary for a pull request instead.

Examples:
  lm-eval-grounded report results/MODEL_A results/MODEL_B -o report.html
  lm-eval-grounded report results -o site --tags tags.csv
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from lm_eval_tasks.commands import add_output, add_runs, print_or_write, runs_of, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_runs(parser, "; several for several models")
    add_output(parser, "PATH", "the page, or a folder (default: report.html; markdown: standard output)")
    documents = "how many of each task to show, or `all` (default: 8, fewer where the page would exceed 4.8 MB)"
    parser.add_argument("--documents", type=_number, default=argparse.SUPPRESS, metavar="N", help=documents)
    by = "also the headlines by a column of the documents, such as the `model` that wrote the answers of ragtruth_qa"
    parser.add_argument("--by", default="", metavar="COLUMN", help=by)
    tags = "of a folder: columns model and others to show (size, ...)"
    parser.add_argument("--tags", type=Path, metavar="CSV", help=tags)
    parser.add_argument("--paper", action="store_true", help="published figures beside those of the runs")
    parser.add_argument("--png", type=Path, metavar="DIR", help="also write the plots as PNG")
    parser.add_argument("--svg", type=Path, metavar="DIR", help="also write the plots as SVG")
    parser.add_argument("--format", choices=("html", "markdown"), default="html", help="default: html")


def _number(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of documents; give 0 or more, or all")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    from custom_metrics.usage.plain_errors import UsageError
    from custom_metrics.usage.printable import on_one_line
    from lm_eval_tasks.data import check_place, check_writable
    from lm_eval_tasks.results.report import Report, write_report
    from lm_eval_tasks.results.report.drawing import save
    from lm_eval_tasks.results.report.folder import readable_runs, write_folder

    printed = arguments.format == "markdown"
    path = arguments.output or Path("report.html")
    is_folder = not printed and (path.is_dir() or not path.suffix)
    if arguments.tags and not is_folder:
        raise UsageError("--tags is for a folder: name one (-o site)")
    if not printed:
        check_writable(path) if is_folder else check_place(path)
    for folder in filter(None, (arguments.svg, arguments.png)):
        check_writable(folder)
    options: dict[str, Any] = {"paper": arguments.paper, "by": arguments.by}
    if "documents" in arguments:
        options |= {"documents": arguments.documents, "at_most": None}
    runs, unreadable = readable_runs(arguments.runs, arguments.cost) if is_folder else (runs_of(arguments), {})
    if arguments.png or arguments.svg:
        try:
            say(*save(Report.of(runs).plots, arguments.svg, arguments.png))
        except ModuleNotFoundError as error:  # matplotlib
            raise UsageError(str(error)) from error
    if is_folder:
        untagged = write_folder(runs, path, arguments.tags, unreadable, **options)
        say(f"{path / 'index.html'}: {len(runs)} runs")
        say(*(on_one_line(f"not read: {folder}: {reason}") for folder, reason in unreadable.items()))
        say(*([on_one_line(f"--tags names models without a run: {', '.join(untagged)}")] if untagged else []))
        return 0
    if printed:
        print_or_write(Report.of(runs).to_markdown(arguments.by), arguments.output)
        if arguments.output is None:
            return 0
    else:
        write_report(runs, path, **options)
    say(path)
    return 0
